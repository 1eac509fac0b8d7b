"""WorkloadSpread and PersistentPodState."""

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
)
from recorded_original.scenarios.documents import (
    BOTH,
    KRUISE,
    build_difference,
    build_scenario,
    set_image,
    workload,
)

__all__ = ["PERSISTENT_POD_STATE", "WORKLOAD_SPREAD"]

_SPREAD: Final = "WorkloadSpread"
_STATE: Final = "PersistentPodState"


def _target(kind: str = "CloneSet", api: str = "apps.kruise.io/v1alpha1", name: str = "web") -> Document:
    return {"apiVersion": api, "kind": kind, "name": name}


def _subset(name: str, **more: Any) -> Document:
    return {"name": name, **more}


_LABEL: Final[Document] = {"patch": {"metadata": {"labels": {"subset": "a"}}}}
_TWO: Final = [_subset("a", maxReplicas=2, **_LABEL), _subset("b")]


def _document(subsets: list[Document] | None = None, target: Document | None = None, **spec: Any) -> Document:
    spec = {"targetRef": target or _target(), "subsets": _TWO if subsets is None else subsets, **spec}
    return {"apiVersion": KRUISE, "kind": _SPREAD, "metadata": {"name": "spread"}, "spec": spec}


def _spread(subsets: list[Document] | None = None, target: Document | None = None, **spec: Any) -> Create:
    return Create(_document(subsets, target, **spec))


def _try(subsets: list[Document] | None = None, target: Document | None = None, **spec: Any) -> Try:
    return Try(_document(subsets, target, **spec))


def _web(replicas: int = 4, kind: str = "CloneSet", **spec: Any) -> Create:
    return Create(workload(kind, replicas=replicas, **spec))


def _scale(replicas: int) -> Patch:
    return Patch("CloneSet", "web", {"spec": {"replicas": replicas}})


def _builtin(kind: str, **spec: Any) -> Create:
    return Create(workload(kind, api="apps/v1", replicas=3, **spec))


_TOLERATION: Final = [{"key": "x", "operator": "Exists"}]

WORKLOAD_SPREAD: Final = Group(
    kind=_SPREAD,
    differs=(build_difference("a line for people", "*/status/spread"),),
    watched=("CloneSet", "Deployment"),
    scenarios=(
        build_scenario("the first subset is filled first", _spread(), _web(), Settle(), versions=BOTH),
        build_scenario("scale up", _spread(), _web(1), Settle(), _scale(4), Settle(), versions=BOTH),
        build_scenario("scale down", _spread(), _web(4), Settle(), _scale(2), Settle(), versions=BOTH),
        build_scenario("scale down to one", _spread(), _web(4), Settle(), _scale(1), Settle(), versions=BOTH),
        build_scenario(
            "shares",
            _spread([_subset("a", maxReplicas="50%"), _subset("b")], _target(api="apps.kruise.io/v1alpha1")),
            _web(4),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "all subsets have a limit",
            _spread([_subset("a", maxReplicas=1), _subset("b", maxReplicas=1)]),
            _web(3),
            Settle(),
            versions=BOTH,
            differs=(
                build_difference(
                    "pods that no subset takes are left alone", "3 */objects/WorkloadSpread *", "3 */pods/*"
                ),
            ),
        ),
        build_scenario("no pod at all", _spread(), _web(0), Settle(), versions=BOTH),
        build_scenario("no workload at all", _spread(), Settle(), versions=BOTH),
        build_scenario("pods that were there before", _web(4), Settle(), _spread(), Settle(), versions=BOTH),
        build_scenario(
            "a pod of the first subset is deleted",
            _spread(),
            _web(4),
            Settle(),
            DeletePod("web", 0),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "tolerations", _spread([_subset("a", tolerations=_TOLERATION)]), _web(2), Settle(), versions=BOTH
        ),
        build_scenario(
            "patches",
            _spread(
                [
                    _subset(
                        "a",
                        maxReplicas=1,
                        patch={
                            "metadata": {"annotations": {"n": "1"}},
                            "spec": {"priorityClassName": "system-node-critical"},
                        },
                    ),
                    _subset("b"),
                ]
            ),
            _web(2),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a limit is raised",
            _spread(),
            _web(4),
            Settle(),
            Patch(
                _SPREAD,
                "spread",
                {"spec": {"subsets": [_subset("a", maxReplicas=3, **_LABEL), _subset("b")]}},
            ),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a limit is lowered",
            _spread(),
            _web(4),
            Settle(),
            Patch(
                _SPREAD,
                "spread",
                {"spec": {"subsets": [_subset("a", maxReplicas=1, **_LABEL), _subset("b")]}},
            ),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a rollout", _spread(), _web(3), Settle(), set_image("CloneSet"), Settle(), versions=BOTH
        ),
        build_scenario(
            "a Deployment",
            _spread(target=_target("Deployment", "apps/v1")),
            _builtin("Deployment"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a StatefulSet",
            _spread(target=_target("StatefulSet", "apps/v1")),
            _builtin("StatefulSet", serviceName="web"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "pods that cannot be scheduled move on",
            _spread(
                [_subset("a", patch={"spec": {"nodeSelector": {"no": "such"}}}), _subset("b")],
                scheduleStrategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 5}},
            ),
            _web(2),
            Settle(quiet_s=12),
            versions=BOTH,
            differs=(
                build_difference(
                    "a condition has a reason in both versions", "*/conditions/0/reason", only_in="v1alpha1"
                ),
            ),
        ),
        build_scenario(
            "deleted", _spread(), _web(3), Settle(), Delete(_SPREAD, "spread"), Settle(), versions=BOTH
        ),
        build_scenario("the smallest manifest", _try(), _try([_subset("a")])),
        build_scenario(
            "defaults",
            _try(scheduleStrategy={}),
            _try(scheduleStrategy={"type": "Adaptive"}),
            _try(scheduleStrategy={"type": "Adaptive", "adaptive": {}}),
            _try(scheduleStrategy={"type": "Fixed"}),
        ),
        build_scenario(
            "wrong values",
            _try([]),
            _try([_subset("a"), _subset("a")]),
            _try([_subset("")]),
            _try([_subset("UPPER")]),
            _try([_subset("a", maxReplicas=-1)]),
            _try([_subset("a", maxReplicas="x")]),
            _try([_subset("a", maxReplicas="50%"), _subset("b", maxReplicas=1)]),
            _try([_subset("a", tolerations=[{"operator": "Nonsense"}])]),
            _try([_subset("a", patch={"spec": "x"})]),
            _try(target=_target("Pod", "v1")),
            _try(target=_target("CloneSet", "apps/v1")),
            _try(target=_target(name="")),
            _try(scheduleStrategy={"type": "Sometimes"}),
            _try(scheduleStrategy={"type": "Fixed", "adaptive": {}}),
            _try(scheduleStrategy={"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": -1}}),
            _try([_subset("a", maxReplicas=1)], scheduleStrategy={"type": "Adaptive"}),
        ),
        build_scenario(
            "changes",
            _spread(),
            Settle(),
            TryPatch(_SPREAD, "spread", {"spec": {"targetRef": {"name": "other"}}}),
            TryPatch(_SPREAD, "spread", {"spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1"}}}),
            TryPatch(_SPREAD, "spread", {"spec": {"subsets": [_subset("b")]}}),
        ),
        build_scenario(
            "a second one for the same workload",
            _spread(),
            Try({**_document(), "metadata": {"name": "second"}}),
        ),
    ),
)


def _state(**spec: Any) -> Document:
    spec = {
        "targetRef": _target("StatefulSet", "apps.kruise.io/v1beta1"),
        "requiredPersistentTopology": {"nodeTopologyKeys": ["kubernetes.io/hostname"]},
        **spec,
    }
    return {"apiVersion": KRUISE, "kind": _STATE, "metadata": {"name": "state"}, "spec": spec}


def _stateful(replicas: int = 2, annotations: dict[str, str] | None = None, api: str = KRUISE) -> Create:
    document = workload("StatefulSet", replicas=replicas, serviceName="web", api=api)
    if annotations:
        document["metadata"]["annotations"] = annotations
    return Create(document)


_PREFERRED: Final = [{"weight": 50, "preference": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}}]
_AUTO: Final[Document] = {
    "kruise.io/auto-generate-persistent-pod-state": "true",
    "kruise.io/required-persistent-topology": "kubernetes.io/arch",
    "kruise.io/preferred-persistent-topology": "kubernetes.io/hostname",
}

PERSISTENT_POD_STATE: Final = Group(
    kind=_STATE,
    differs=(
        build_difference(
            "an event of the workload names what its annotations made", "*/events/*Normal PersistentPodState*"
        ),
    ),
    watched=("StatefulSet", "StatefulSet.apps"),
    scenarios=(
        build_scenario("where pods run is recorded", Create(_state()), _stateful(), Settle(), versions=BOTH),
        build_scenario(
            "pods were there before", _stateful(), Settle(), Create(_state()), Settle(), versions=BOTH
        ),
        build_scenario(
            "a pod comes back to its node",
            Create(_state()),
            _stateful(),
            Settle(),
            DeletePod("web", 0),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a preferred place",
            Create(_state(requiredPersistentTopology=None, preferredPersistentTopology=_PREFERRED)),
            _stateful(),
            Settle(),
            DeletePod("web", 1),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "required and preferred",
            Create(
                _state(
                    requiredPersistentTopology={"nodeTopologyKeys": ["kubernetes.io/arch"]},
                    preferredPersistentTopology=_PREFERRED,
                )
            ),
            _stateful(),
            Settle(),
            DeletePod("web", 1),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a rollout",
            Create(_state()),
            _stateful(),
            Settle(),
            set_image("StatefulSet"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "scaled down, its record is dropped",
            Create(_state()),
            _stateful(3),
            Settle(),
            Patch("StatefulSet", "web", {"spec": {"replicas": 1}}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "Kubernetes' StatefulSet",
            Create(_state(targetRef=_target("StatefulSet", "apps/v1"))),
            _stateful(api="apps/v1"),
            Settle(),
            DeletePod("web", 0),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "annotations of a workload make it", _stateful(annotations=_AUTO), Settle(), versions=BOTH
        ),
        build_scenario(
            "annotations that are taken away",
            _stateful(annotations=_AUTO),
            Settle(),
            Patch("StatefulSet", "web", {"metadata": {"annotations": dict.fromkeys(_AUTO)}}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "the workload is deleted",
            Create(_state()),
            _stateful(1),
            Settle(),
            Delete("StatefulSet", "web"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario("no workload at all", Create(_state()), Settle(), versions=BOTH),
        build_scenario(
            "a key that no node has",
            Create(_state(requiredPersistentTopology={"nodeTopologyKeys": ["no-such"]})),
            _stateful(1),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "annotations of pods are recorded",
            Create(_state(persistentPodAnnotations=[{"key": "kept"}])),
            _stateful(1),
            Settle(),
            PatchPod("web", 0, {"metadata": {"annotations": {"kept": "1"}}}),
            Settle(),
            DeletePod("web", 0),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "the smallest manifest",
            Try(_state()),
            Try(_state(persistentPodStateRetentionPolicy="WhenDeleted")),
            versions=BOTH,
        ),
        build_scenario(
            "wrong values",
            Try(_state(requiredPersistentTopology=None)),
            Try(_state(requiredPersistentTopology={"nodeTopologyKeys": []})),
            Try(_state(targetRef=_target("CloneSet"))),
            Try(_state(targetRef={"apiVersion": "", "kind": "", "name": ""})),
            Try(_state(persistentPodStateRetentionPolicy="Sometimes")),
            Try(
                _state(preferredPersistentTopology=[{"weight": 0, "preference": {"nodeTopologyKeys": ["a"]}}])
            ),
            versions=BOTH,
            differs=(
                build_difference("it could only fail later", "2 *", "5 *", "6 *", only_in="v1alpha1"),
                build_difference(
                    "the path leads to the field", "3 */fields/*", "4 */fields/*", only_in="v1alpha1"
                ),
            ),
        ),
        build_scenario(
            "a second one for the same workload",
            Create(_state()),
            Try({**_state(), "metadata": {"name": "second"}}),
            TryPatch(_STATE, "state", {"spec": {"targetRef": {"name": "other"}}}),
            versions=BOTH,
            differs=(
                build_difference(
                    "the path leads to the field", "2 */fields/spec.targetReference", only_in="v1alpha1"
                ),
            ),
        ),
    ),
)
