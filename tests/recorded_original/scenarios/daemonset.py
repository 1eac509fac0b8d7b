"""Advanced DaemonSet, on four nodes."""

from typing import Any, Final

from recorded_original.language import (
    Create,
    Delete,
    DeletePod,
    Document,
    Group,
    Patch,
    PatchPod,
    Settle,
    Try,
    TryPatch,
    Wanted,
)
from recorded_original.scenarios.documents import (
    BOTH,
    build_difference,
    build_scenario,
    image_of,
    pods,
    rolling,
    set_image,
    workload,
)

__all__ = ["DAEMON_SET"]

_KIND: Final = "DaemonSet"
_ONE_NODE: Final[Document] = {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}


def _set(**spec: Any) -> Create:
    return Create(workload(_KIND, **spec))


def _try(**spec: Any) -> Try:
    return Try(workload(_KIND, **spec))


def _change(**spec: Any) -> Patch:
    return Patch(_KIND, "web", {"spec": spec})


DAEMON_SET: Final = Group(
    kind=_KIND,
    shows_nodes=True,
    differs=(
        Wanted(at=("*/readinessGates",), why="a gate that the template has is not added a second time"),
    ),
    scenarios=(
        build_scenario("every node gets a pod", _set(), Settle(), versions=BOTH),
        build_scenario(
            "one node gets a pod", _set(template=pods("web", **_ONE_NODE)), Settle(), versions=BOTH
        ),
        build_scenario("a rollout", _set(), Settle(), set_image(_KIND), Settle(), versions=BOTH),
        build_scenario(
            "a rollout of two at a time",
            _set(updateStrategy=rolling(maxUnavailable=2)),
            Settle(),
            set_image(_KIND),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a surge",
            _set(updateStrategy=rolling(maxSurge=1, maxUnavailable=0)),
            Settle(),
            set_image(_KIND),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a rollout in place",
            _set(
                updateStrategy=rolling(rollingUpdateType="InPlaceIfPossible"),
                template=pods("web", readinessGates=[{"conditionType": "InPlaceUpdateReady"}]),
            ),
            Settle(),
            set_image(_KIND),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a partition",
            _set(updateStrategy=rolling(partition=3)),
            Settle(),
            set_image(_KIND),
            Settle(),
            _change(updateStrategy=rolling(partition=0)),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "only nodes of a selector are updated",
            _set(updateStrategy=rolling(selector={"matchLabels": {"kubernetes.io/hostname": "node-3"}})),
            Settle(),
            set_image(_KIND),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "paused",
            _set(updateStrategy=rolling(paused=True)),
            Settle(),
            set_image(_KIND),
            Settle(),
            _change(updateStrategy=rolling(paused=False)),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "on delete",
            _set(updateStrategy={"type": "OnDelete"}, template=pods("web", **_ONE_NODE)),
            Settle(),
            set_image(_KIND),
            Settle(),
            DeletePod("web", 0),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a broken image stops the rollout",
            _set(),
            Settle(),
            set_image(_KIND, "nginx/broken"),
            Settle(),
            versions=BOTH,
            differs=(
                build_difference(
                    "which node comes first follows from names and states, so a plan can be explained",
                    "4 */pods/*",
                    only_in="v1beta1",
                ),
            ),
        ),
        build_scenario(
            "a broken image from the beginning",
            _set(template=pods("web", image="nginx/broken")),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "no node fits", _set(template=pods("web", nodeSelector={"no": "such"})), Settle(), versions=BOTH
        ),
        build_scenario(
            "the selector of nodes changes",
            _set(template=pods("web", **_ONE_NODE)),
            Settle(),
            Patch(
                _KIND,
                "web",
                {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-4"}}}}},
            ),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a pod that is deleted is created again",
            _set(template=pods("web", **_ONE_NODE)),
            Settle(),
            DeletePod("web", 0),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a pod that is asked to go is created again",
            _set(template=pods("web", **_ONE_NODE)),
            Settle(),
            PatchPod("web", 0, {"metadata": {"labels": {"apps.kruise.io/specified-delete": "true"}}}),
            Settle(),
        ),
        build_scenario(
            "pods become available later",
            _set(minReadySeconds=8, template=pods("web", **_ONE_NODE)),
            Settle(quiet_s=12),
            versions=BOTH,
        ),
        build_scenario(
            "a hook holds a pod that is to go",
            _set(
                lifecycle={"preDelete": {"labelsHandler": {"example.com/hold": "true"}}},
                template=pods("web", labels={"example.com/hold": "true"}, **_ONE_NODE),
            ),
            Settle(),
            set_image(_KIND),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "revisions beyond the limit are removed",
            _set(revisionHistoryLimit=1, template=pods("web", **_ONE_NODE)),
            Settle(),
            set_image(_KIND, "nginx:2"),
            Settle(),
            set_image(_KIND, "nginx:3"),
            Settle(),
            set_image(_KIND, "nginx:4"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "deleted with its pods",
            _set(template=pods("web", **_ONE_NODE)),
            Settle(),
            Delete(_KIND, "web"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "deleted without its pods",
            _set(template=pods("web", **_ONE_NODE)),
            Settle(),
            Delete(_KIND, "web", "Orphan"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("the smallest manifest", _try()),
        build_scenario(
            "defaults of strategies",
            _try(updateStrategy={}),
            _try(updateStrategy={"type": "RollingUpdate"}),
            _try(updateStrategy={"type": "OnDelete"}),
            _try(updateStrategy=rolling(maxSurge=1, maxUnavailable=0)),
            _try(burstReplicas="50%"),
            _try(lifecycle={}),
        ),
        build_scenario(
            "wrong numbers and words",
            _try(minReadySeconds=-1),
            _try(revisionHistoryLimit=-1),
            _try(updateStrategy={"type": "Recreate"}),
            _try(updateStrategy=rolling(partition=-1)),
            _try(updateStrategy=rolling(maxUnavailable=0)),
            _try(updateStrategy=rolling(maxUnavailable=1, maxSurge=1)),
            _try(updateStrategy=rolling(maxUnavailable="x")),
            _try(updateStrategy=rolling(rollingUpdateType="Nonsense")),
            _try(burstReplicas="x"),
            differs=(
                build_difference("it could only fail later", "9 *"),
                build_difference(
                    "the path leads to the field",
                    "*/fields/spec.updateStrategy.rollingUpdate.rollingUpdate.*",
                ),
            ),
        ),
        build_scenario(
            "wrong selectors and templates",
            _try(selector={}),
            _try(selector={"matchLabels": {"app": "other"}}),
            _try(template=pods("web", restartPolicy="OnFailure")),
            _try(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}),
        ),
        build_scenario(
            "fields that cannot be changed",
            _set(template=pods("web", **_ONE_NODE)),
            Settle(),
            TryPatch(_KIND, "web", {"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
            TryPatch(_KIND, "web", {"spec": {"revisionHistoryLimit": 3}}),
            TryPatch(_KIND, "web", image_of("nginx:2")),
        ),
    ),
)
