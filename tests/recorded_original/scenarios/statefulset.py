"""Advanced StatefulSet."""

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
    CLAIM,
    build_difference,
    build_scenario,
    image_of,
    pods,
    rolling,
    set_image,
    workload,
)

__all__ = ["STATEFUL_SET"]

_KIND: Final = "StatefulSet"
_IN_PLACE: Final[Document] = {"podUpdatePolicy": "InPlaceIfPossible"}
_GATE: Final[Document] = {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}


def _set(**spec: Any) -> Create:
    return Create(workload(_KIND, **{"replicas": 3, "serviceName": "web", **spec}))


def _try(**spec: Any) -> Try:
    return Try(workload(_KIND, **{"serviceName": "web", **spec}))


def _change(**spec: Any) -> Patch:
    return Patch(_KIND, "web", {"spec": spec})


_ROLLOUTS: Final = (
    build_scenario("pods are created one after the other", _set(), Settle()),
    build_scenario("pods are created at once", _set(podManagementPolicy="Parallel"), Settle()),
    build_scenario(
        "scale up and down",
        _set(),
        Settle(),
        Patch(_KIND, "web", {"spec": {"replicas": 5}}, "scale"),
        Settle(),
        Patch(_KIND, "web", {"spec": {"replicas": 1}}, "scale"),
        Settle(),
    ),
    build_scenario("a rollout recreates pods", _set(), Settle(), set_image(_KIND), Settle()),
    build_scenario(
        "a rollout of two at a time",
        _set(replicas=4, podManagementPolicy="Parallel", updateStrategy=rolling(maxUnavailable=2)),
        Settle(),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "a rollout in place",
        _set(updateStrategy=rolling(**_IN_PLACE), template=pods("web", **_GATE)),
        Settle(),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "in place only, where that is impossible",
        _set(
            replicas=2, updateStrategy=rolling(podUpdatePolicy="InPlaceOnly"), template=pods("web", **_GATE)
        ),
        Settle(),
        Patch(_KIND, "web", {"spec": {"template": {"spec": {"priorityClassName": "system-node-critical"}}}}),
        Settle(),
    ),
    build_scenario(
        "a partition",
        _set(updateStrategy=rolling(partition=2)),
        Settle(),
        set_image(_KIND),
        Settle(),
        _change(updateStrategy=rolling(partition=0)),
        Settle(),
    ),
    build_scenario(
        "paused",
        _set(replicas=2, updateStrategy=rolling(paused=True)),
        Settle(),
        set_image(_KIND),
        Settle(),
        _change(updateStrategy=rolling(paused=False)),
        Settle(),
    ),
    build_scenario(
        "on delete",
        _set(replicas=2, updateStrategy={"type": "OnDelete"}),
        Settle(),
        set_image(_KIND),
        Settle(),
        DeletePod("web", 0),
        Settle(),
    ),
    build_scenario(
        "a broken image stops the rollout",
        _set(),
        Settle(),
        set_image(_KIND, "nginx/broken"),
        Settle(),
    ),
    build_scenario(
        "a broken image from the beginning", _set(template=pods("web", image="nginx/broken")), Settle()
    ),
    build_scenario(
        "a broken image from the beginning, at once",
        _set(template=pods("web", image="nginx/broken"), podManagementPolicy="Parallel"),
        Settle(),
    ),
    build_scenario(
        "pods become available later",
        _set(replicas=2, updateStrategy=rolling(minReadySeconds=8)),
        Settle(quiet_s=12),
        set_image(_KIND),
        Settle(quiet_s=12),
    ),
    build_scenario(
        "an order of updates by labels",
        _set(
            updateStrategy=rolling(
                partition=2,
                unorderedUpdate={
                    "priorityStrategy": {
                        "weightPriority": [{"weight": 50, "matchSelector": {"matchLabels": {"first": "yes"}}}]
                    }
                },
            ),
            podManagementPolicy="Parallel",
        ),
        Settle(),
        PatchPod("web", 0, {"metadata": {"labels": {"first": "yes"}}}),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "revisions beyond the limit are removed",
        _set(replicas=1, revisionHistoryLimit=1),
        Settle(),
        set_image(_KIND, "nginx:2"),
        Settle(),
        set_image(_KIND, "nginx:3"),
        Settle(),
        set_image(_KIND, "nginx:4"),
        Settle(),
    ),
    build_scenario(
        "back to the template before",
        _set(replicas=1),
        Settle(),
        set_image(_KIND),
        Settle(),
        set_image(_KIND, "nginx:1"),
        Settle(),
    ),
)

_PODS: Final = (
    build_scenario("a pod that is deleted is created again", _set(), Settle(), DeletePod("web", 1), Settle()),
    build_scenario(
        "a pod that is asked to go is created again",
        _set(),
        Settle(),
        PatchPod("web", 1, {"metadata": {"labels": {"apps.kruise.io/specified-delete": "true"}}}),
        Settle(),
    ),
    build_scenario("ordinals are left out", _set(reserveOrdinals=[0, 2]), Settle()),
    build_scenario("an ordinal is left out later", _set(), Settle(), _change(reserveOrdinals=[1]), Settle()),
    build_scenario("ranges of ordinals are left out", _set(reserveOrdinals=["0-1", 3]), Settle()),
    build_scenario(
        "an ordinal is given up",
        _set(),
        Settle(),
        _change(reserveOrdinals=[1], replicas=2),
        Settle(),
    ),
    build_scenario(
        "claims", _set(replicas=2, volumeClaimTemplates=[CLAIM]), Settle(), _change(replicas=1), Settle()
    ),
    build_scenario(
        "claims are deleted with their pods",
        _set(
            replicas=2,
            volumeClaimTemplates=[CLAIM],
            persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete", "whenDeleted": "Delete"},
        ),
        Settle(),
        _change(replicas=1),
        Settle(),
    ),
    build_scenario(
        "a limit of pods that are created at once",
        _set(
            replicas=4,
            podManagementPolicy="Parallel",
            scaleStrategy={"maxUnavailable": 1},
            template=pods("web", image="nginx/broken"),
        ),
        Settle(),
        differs=(Wanted(at=("*/events/*ScaleUpLimited",), why="an event says why pods are missing"),),
    ),
    build_scenario("deleted with its pods", _set(replicas=2), Settle(), Delete(_KIND, "web"), Settle()),
    build_scenario(
        "deleted without its pods",
        _set(replicas=2),
        Settle(),
        Delete(_KIND, "web", "Orphan"),
        Settle(),
        differs=(
            build_difference(
                "the revision stays with the pods that have it, as a CloneSet's does", "4 */revisions/*"
            ),
        ),
    ),
    build_scenario(
        "a hook holds a pod that is to go",
        _set(
            replicas=2,
            lifecycle={"preDelete": {"labelsHandler": {"example.com/hold": "true"}}},
            template=pods("web", labels={"example.com/hold": "true"}),
        ),
        Settle(),
        _change(replicas=1),
        Settle(),
    ),
    build_scenario(
        "a hook before an update in place",
        _set(
            replicas=2,
            updateStrategy=rolling(**_IN_PLACE),
            lifecycle={"inPlaceUpdate": {"labelsHandler": {"example.com/hold": "true"}}},
            template=pods("web", labels={"example.com/hold": "true"}, **_GATE),
        ),
        Settle(),
        set_image(_KIND),
        Settle(),
        PatchPod("web", 1, {"metadata": {"labels": {"example.com/hold": None}}}),
        Settle(),
        differs=(
            Wanted(at=("6 *",), why="a hook blocks no pod for good: the original does not go on after it"),
        ),
    ),
)

_ADMISSION: Final = (
    build_scenario("the smallest manifest", Try(workload(_KIND)), _try()),
    build_scenario(
        "defaults of strategies",
        _try(updateStrategy={}),
        _try(updateStrategy={"type": "RollingUpdate"}),
        _try(updateStrategy={"type": "OnDelete"}),
        _try(updateStrategy=rolling(unorderedUpdate={})),
        _try(persistentVolumeClaimRetentionPolicy={}),
        _try(scaleStrategy={}),
        _try(lifecycle={}),
        _try(volumeClaimTemplates=[CLAIM]),
    ),
    build_scenario(
        "wrong numbers and words",
        _try(replicas=-1),
        _try(revisionHistoryLimit=-1),
        _try(podManagementPolicy="Sometimes"),
        _try(updateStrategy={"type": "Recreate"}),
        _try(updateStrategy=rolling(partition=-1)),
        _try(updateStrategy=rolling(maxUnavailable=0)),
        _try(updateStrategy=rolling(maxUnavailable="150%")),
        _try(updateStrategy=rolling(maxUnavailable="x")),
        _try(updateStrategy=rolling(podUpdatePolicy="Nonsense")),
        _try(updateStrategy=rolling(minReadySeconds=-1)),
        _try(scaleStrategy={"maxUnavailable": 1}),
        _try(reserveOrdinals=["x"]),
        differs=(
            build_difference("a negative limit could only count as something else", "2 *"),
            build_difference("the path leads to the field", "12 */fields/spec"),
        ),
    ),
    build_scenario(
        "wrong selectors and templates",
        _try(selector={}),
        _try(selector={"matchLabels": {"app": "other"}}),
        _try(template=pods("web", restartPolicy="OnFailure")),
        _try(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}),
        differs=(build_difference("no pod could be created", "4 *"),),
    ),
    build_scenario(
        "fields that cannot be changed",
        _set(replicas=1),
        Settle(),
        TryPatch(_KIND, "web", {"spec": {"serviceName": "other"}}),
        TryPatch(_KIND, "web", {"spec": {"podManagementPolicy": "Parallel"}}),
        TryPatch(_KIND, "web", {"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
        TryPatch(_KIND, "web", {"spec": {"revisionHistoryLimit": 3}}),
        TryPatch(_KIND, "web", {"spec": {"volumeClaimTemplates": [CLAIM]}}),
        TryPatch(_KIND, "web", image_of("nginx:2")),
    ),
)

STATEFUL_SET: Final = Group(
    kind=_KIND,
    scenarios=(*_ROLLOUTS, *_PODS, *_ADMISSION),
    watched=("PersistentVolumeClaim",),
)
