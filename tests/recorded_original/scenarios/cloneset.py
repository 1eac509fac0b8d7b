"""CloneSet."""

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
    CLAIM,
    build_difference,
    build_scenario,
    pods,
    rolling,
    set_image,
    workload,
)

__all__ = ["CLONE_SET"]

_KIND: Final = "CloneSet"


def _set(**spec: Any) -> Create:
    return Create(workload(_KIND, **{"replicas": 3, **spec}))


def _change(**spec: Any) -> Patch:
    return Patch(_KIND, "web", {"spec": spec})


def _strategy(**fields: Any) -> Document:
    return rolling(**fields)


_DELETE_LABEL: Final[Document] = {"metadata": {"labels": {"apps.kruise.io/specified-delete": "true"}}}
_IN_PLACE: Final[Document] = {"podUpdatePolicy": "InPlaceIfPossible"}
_GATE: Final[Document] = {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}


_ROLLOUTS: Final = (
    build_scenario("pods are created", _set(), Settle(), versions=BOTH),
    build_scenario(
        "scale up and down",
        _set(),
        Settle(),
        Patch(_KIND, "web", {"spec": {"replicas": 5}}, "scale"),
        Settle(),
        Patch(_KIND, "web", {"spec": {"replicas": 1}}, "scale"),
        Settle(),
        versions=BOTH,
    ),
    build_scenario(
        "scale to nothing", _set(replicas=2), Settle(), _change(replicas=0), Settle(), versions=BOTH
    ),
    build_scenario("a rollout recreates pods", _set(), Settle(), set_image(_KIND), Settle(), versions=BOTH),
    build_scenario(
        "a rollout in place",
        _set(updateStrategy=_strategy(**_IN_PLACE)),
        Settle(),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "a rollout in place, and back",
        _set(updateStrategy=_strategy(**_IN_PLACE), replicas=2),
        Settle(),
        set_image(_KIND),
        Settle(),
        set_image(_KIND, "nginx:1"),
        Settle(),
    ),
    build_scenario(
        "a rollout in place with a readiness gate in the template",
        _set(updateStrategy=_strategy(**_IN_PLACE), template=pods("web", **_GATE)),
        Settle(),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "in place only, where that is impossible",
        _set(updateStrategy=_strategy(podUpdatePolicy="InPlaceOnly")),
        Settle(),
        Patch(_KIND, "web", {"spec": {"template": {"spec": {"priorityClassName": "system-node-critical"}}}}),
        Settle(),
        differs=(
            build_difference(
                "an event and the reason of the condition say why pods stay old", "*/events/*CannotUpdate"
            ),
        ),
    ),
    build_scenario(
        "labels and annotations of the template change in place",
        _set(updateStrategy=_strategy(**_IN_PLACE)),
        Settle(),
        Patch(
            _KIND,
            "web",
            {"spec": {"template": {"metadata": {"annotations": {"note": "1"}, "labels": {"x": "y"}}}}},
        ),
        Settle(),
    ),
    build_scenario(
        "a partition keeps pods back",
        _set(replicas=4, updateStrategy=_strategy(partition=3)),
        Settle(),
        set_image(_KIND),
        Settle(),
        _change(updateStrategy=_strategy(partition="50%")),
        Settle(),
        _change(updateStrategy=_strategy(partition=0)),
        Settle(),
    ),
    build_scenario(
        "paused",
        _set(updateStrategy=_strategy(paused=True)),
        Settle(),
        set_image(_KIND),
        Settle(),
        _change(replicas=4),
        Settle(),
        _change(updateStrategy=_strategy(paused=False)),
        Settle(),
    ),
    build_scenario(
        "a surge",
        _set(updateStrategy=_strategy(maxSurge=1, maxUnavailable=1)),
        Settle(),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "a surge of three at a partition",
        _set(replicas=4, updateStrategy=_strategy(maxSurge=3, maxUnavailable=1, partition=2)),
        Settle(),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "on delete",
        _set(updateStrategy={"type": "OnDelete"}),
        Settle(),
        set_image(_KIND),
        Settle(),
        DeletePod("web", 0),
        Settle(),
    ),
    build_scenario(
        "a broken image stops at the limit",
        _set(replicas=4, updateStrategy=_strategy(maxUnavailable=1)),
        Settle(),
        set_image(_KIND, "nginx/broken"),
        Settle(),
    ),
    build_scenario(
        "a broken image from the beginning", _set(template=pods("web", image="nginx/broken")), Settle()
    ),
    build_scenario(
        "pods become available later",
        _set(replicas=2, minReadySeconds=8),
        Settle(quiet_s=3),
        Settle(quiet_s=12),
    ),
    build_scenario(
        "priorities choose who is updated",
        _set(
            replicas=2,
            updateStrategy=_strategy(
                partition=1,
                priorityStrategy={
                    "weightPriority": [{"weight": 50, "matchSelector": {"matchLabels": {"first": "yes"}}}]
                },
            ),
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
)

_PODS: Final = (
    build_scenario(
        "a pod that is deleted is replaced", _set(), Settle(), DeletePod("web", 0), Settle(), versions=BOTH
    ),
    build_scenario(
        "a pod that is asked to go",
        _set(),
        Settle(),
        PatchPod("web", 1, _DELETE_LABEL),
        Settle(),
        versions=BOTH,
    ),
    build_scenario(
        "a pod that is asked to go while scaling down",
        _set(),
        Settle(),
        PatchPod(
            "web", 1, {"metadata": {"labels": {"apps.kruise.io/specified-delete": "true", "keep": "no"}}}
        ),
        _change(replicas=2),
        Settle(),
    ),
    build_scenario(
        "deletion costs choose who goes",
        _set(),
        Settle(),
        PatchPod(
            "web",
            0,
            {
                "metadata": {
                    "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"},
                    "labels": {"cheap": "yes"},
                }
            },
        ),
        _change(replicas=2),
        Settle(),
    ),
    build_scenario(
        "claims", _set(volumeClaimTemplates=[CLAIM], replicas=2), Settle(), _change(replicas=1), Settle()
    ),
    build_scenario(
        "claims stay when pods are recreated in a rollout",
        _set(volumeClaimTemplates=[CLAIM], replicas=2),
        Settle(),
        set_image(_KIND),
        Settle(),
    ),
    build_scenario(
        "a finalizer of a lifecycle hook holds a pod",
        _set(
            replicas=2,
            lifecycle={"preDelete": {"finalizersHandler": ["example.com/hold"]}},
            template={
                **pods("web"),
                "metadata": {"labels": {"app": "web"}, "finalizers": ["example.com/hold"]},
            },
        ),
        Settle(),
        _change(replicas=1),
        Settle(),
    ),
    build_scenario(
        "a label of a lifecycle hook holds a pod that is to go",
        _set(
            replicas=2,
            lifecycle={"preDelete": {"labelsHandler": {"example.com/hold": "true"}}},
            template=pods("web", labels={"example.com/hold": "true"}),
        ),
        Settle(),
        _change(replicas=0),
        Settle(),
    ),
    build_scenario(
        "a hook before an update in place",
        _set(
            replicas=2,
            updateStrategy=_strategy(**_IN_PLACE),
            lifecycle={"inPlaceUpdate": {"labelsHandler": {"example.com/hold": "true"}}},
            template=pods("web", labels={"example.com/hold": "true"}),
        ),
        Settle(),
        set_image(_KIND),
        Settle(),
        PatchPod("web", 0, {"metadata": {"labels": {"example.com/hold": None}}}),
        Settle(),
    ),
    build_scenario(
        "the first pod waits for its hook before it is normal",
        _set(replicas=1, lifecycle={"preNormal": {"finalizersHandler": ["example.com/hold"]}}),
        Settle(),
        PatchPod("web", 0, {"metadata": {"finalizers": ["example.com/hold"]}}),
        Settle(),
    ),
    build_scenario(
        "scaling up at a limit",
        _set(replicas=5, scaleStrategy={"maxUnavailable": 1}, template=pods("web", image="nginx/broken")),
        Settle(),
    ),
    build_scenario(
        "scaling up is switched off", _set(replicas=2, scaleStrategy={"disablePVCReuse": True}), Settle()
    ),
    build_scenario("deleted with its pods", _set(replicas=2), Settle(), Delete(_KIND, "web"), Settle()),
    build_scenario(
        "deleted without its pods", _set(replicas=2), Settle(), Delete(_KIND, "web", "Orphan"), Settle()
    ),
    build_scenario(
        "orphans are adopted",
        Create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "stray", "labels": {"app": "web"}},
                "spec": pods("web")["spec"],
            }
        ),
        _set(replicas=2),
        Settle(),
        differs=(
            Wanted(
                at=("*/events/*OrphansMatchSelector",), why="an event names the pods that it leaves alone"
            ),
        ),
    ),
    build_scenario(
        "a pod that does not match any more is let go",
        _set(replicas=2),
        Settle(),
        PatchPod("web", 0, {"metadata": {"labels": {"app": "other"}}}),
        Settle(),
    ),
    build_scenario(
        "a deadline for progress passes",
        _set(replicas=1, progressDeadlineSeconds=10),
        Settle(),
        set_image(_KIND, "nginx/broken"),
        Settle(quiet_s=15),
    ),
)


def _try(**spec: Any) -> Try:
    return Try(workload(_KIND, **spec))


_ADMISSION: Final = (
    build_scenario("the smallest manifest", _try(), versions=BOTH),
    build_scenario(
        "defaults of strategies",
        _try(updateStrategy={}),
        _try(updateStrategy={"type": "RollingUpdate"}),
        _try(updateStrategy={"rollingUpdate": {}}),
        _try(updateStrategy={"type": "OnDelete"}),
        _try(updateStrategy=rolling(maxSurge=1)),
        _try(scaleStrategy={}),
        _try(lifecycle={}),
        _try(lifecycle={"preDelete": {}}),
    ),
    build_scenario(
        "wrong numbers",
        _try(replicas=-1),
        _try(minReadySeconds=-1),
        _try(revisionHistoryLimit=-1),
        _try(updateStrategy=rolling(partition=-1)),
        _try(updateStrategy=rolling(maxUnavailable=-1)),
        _try(updateStrategy=rolling(maxUnavailable="x")),
        _try(updateStrategy=rolling(maxSurge="-5%")),
        _try(updateStrategy=rolling(maxUnavailable=0, maxSurge=0)),
        _try(updateStrategy=rolling(podUpdatePolicy="Nonsense")),
        _try(updateStrategy=rolling(maxUnavailable="200%")),
    ),
    build_scenario(
        "a surge, and no pod may be unavailable",
        _try(updateStrategy=rolling(maxUnavailable=0, maxSurge=1)),
        differs=(build_difference("the older version accepts it, and it makes sense", "1 *"),),
    ),
    build_scenario(
        "wrong selectors and templates",
        _try(selector={}),
        _try(selector={"matchLabels": {"app": "other"}}),
        _try(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}),
        _try(template=pods("web", restartPolicy="Never")),
        _try(template=pods("web", activeDeadlineSeconds=5)),
        _try(
            template={
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "UPPER", "image": "a"}]},
            }
        ),
    ),
    build_scenario(
        "wrong lifecycles and priorities",
        _try(lifecycle={"preDelete": {"labelsHandler": {"not a label!": "x"}}}),
        _try(
            updateStrategy=rolling(
                priorityStrategy={
                    "weightPriority": [{"weight": 101, "matchSelector": {"matchLabels": {"a": "b"}}}]
                }
            )
        ),
        _try(
            updateStrategy=rolling(scatterStrategy=[{"key": "a", "value": "b"}, {"key": "a", "value": "b"}])
        ),
        _try(updateStrategy=rolling(inPlaceUpdateStrategy={"gracePeriodSeconds": -1})),
        _try(scaleStrategy={"podsToDelete": ["unknown"]}),
    ),
    build_scenario(
        "fields that cannot be changed",
        _set(replicas=1, volumeClaimTemplates=[CLAIM]),
        Settle(),
        TryPatch(_KIND, "web", {"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
        TryPatch(_KIND, "web", {"spec": {"revisionHistoryLimit": 3}}),
        TryPatch(_KIND, "web", {"spec": {"volumeClaimTemplates": []}}),
        TryPatch(_KIND, "web", {"spec": {"minReadySeconds": 3}}),
        TryPatch(_KIND, "web", {"spec": {"lifecycle": {"preDelete": {"markPodNotReady": True}}}}),
        TryPatch(_KIND, "web", {"spec": {"scaleStrategy": {"podsToDelete": ["unknown"]}}}),
    ),
)

CLONE_SET: Final = Group(
    kind=_KIND,
    scenarios=(*_ROLLOUTS, *_PODS, *_ADMISSION),
    watched=("PersistentVolumeClaim",),
)
