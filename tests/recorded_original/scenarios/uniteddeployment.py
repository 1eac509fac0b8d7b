"""UnitedDeployment over workloads of each kind.

Its pods have a label of their own: the original stops at orphans of other namespaces that match.
"""

from typing import Any, Final

from recorded_original.language import Create, Delete, Document, Group, Patch, Settle, Try, TryPatch
from recorded_original.scenarios.documents import BOTH, CLAIM, KRUISE, build_difference, build_scenario, pods

__all__ = ["UNITED_DEPLOYMENT"]

_KIND: Final = "UnitedDeployment"


def _workload(image: str = "nginx:1", **spec: Any) -> Document:
    return {
        "metadata": {"labels": {"app": "united"}},
        "spec": {
            "selector": {"matchLabels": {"app": "united"}},
            "template": pods("united", image=image),
            **spec,
        },
    }


_CLONE_SETS: Final[Document] = {"cloneSetTemplate": _workload()}
_STATEFUL_SETS: Final[Document] = {"statefulSetTemplate": _workload(serviceName="united")}
_ADVANCED: Final[Document] = {"advancedStatefulSetTemplate": _workload(serviceName="united")}
_DEPLOYMENTS: Final[Document] = {"deploymentTemplate": _workload()}


def _subsets(*subsets: Document, **topology: Any) -> Document:
    return {"subsets": list(subsets), **topology}


def _subset(name: str, **more: Any) -> Document:
    return {"name": name, **more}


def _document(template: Document = _CLONE_SETS, **spec: Any) -> Document:
    spec = {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "united"}},
        "template": template,
        "topology": _subsets(_subset("a"), _subset("b")),
        **spec,
    }
    return {"apiVersion": KRUISE, "kind": _KIND, "metadata": {"name": "united"}, "spec": spec}


def _united(template: Document = _CLONE_SETS, **spec: Any) -> Create:
    return Create(_document(template, **spec))


def _try(template: Document = _CLONE_SETS, **spec: Any) -> Try:
    return Try(_document(template, **spec))


def _change(**spec: Any) -> Patch:
    return Patch(_KIND, "united", {"spec": spec})


def _image(template: str, image: str = "nginx:2") -> Patch:
    containers = [{"name": "main", "image": image}]
    return _change(template={template: {"spec": {"template": {"spec": {"containers": containers}}}}})


_TERM: Final[Document] = {
    "matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}]
}

UNITED_DEPLOYMENT: Final = Group(
    kind=_KIND,
    differs=(
        build_difference(
            "the numbers of each subset are shown in both versions",
            "*/subsetStatuses/*/replicas",
            "*/subsetStatuses/*/readyReplicas",
            "*/subsetStatuses/*/partition",
            only_in="v1alpha1",
        ),
        build_difference(
            "revisions are numbered, found again and removed", "*/revisions/united-<revision *> is *"
        ),
        build_difference(
            "the condition is one of the newer release",
            "*/status/conditions/UnitedDeploymentUpdated",
            only_in="v1alpha1",
        ),
    ),
    watched=("CloneSet", "StatefulSet", "StatefulSet.apps", "Deployment"),
    scenarios=(
        build_scenario("CloneSets", _united(), Settle(), versions=BOTH),
        build_scenario("StatefulSets", _united(_STATEFUL_SETS), Settle(), versions=BOTH),
        build_scenario("Advanced StatefulSets", _united(_ADVANCED), Settle(), versions=BOTH),
        build_scenario("Deployments", _united(_DEPLOYMENTS), Settle(), versions=BOTH),
        build_scenario(
            "an odd number is divided",
            _united(replicas=5, topology=_subsets(_subset("a"), _subset("b"), _subset("c"))),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a subset with a number of its own",
            _united(topology=_subsets(_subset("a", replicas=1), _subset("b"))),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a subset with a share",
            _united(topology=_subsets(_subset("a", replicas="25%"), _subset("b"))),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "scale up and down",
            _united(),
            Settle(),
            Patch(_KIND, "united", {"spec": {"replicas": 5}}, "scale"),
            Settle(),
            _change(replicas=1),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "limits of subsets",
            _united(topology=_subsets(_subset("a", minReplicas=3), _subset("b", maxReplicas=2))),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "the last subset takes what is left",
            _united(replicas=6, topology=_subsets(_subset("a", maxReplicas=1), _subset("b"))),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "a rollout of CloneSets", _united(), Settle(), _image("cloneSetTemplate"), Settle(), versions=BOTH
        ),
        build_scenario(
            "a rollout of Deployments",
            _united(_DEPLOYMENTS, replicas=2),
            Settle(),
            _image("deploymentTemplate"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "partitions by subset",
            _united(updateStrategy={"type": "Manual", "manualUpdate": {"partitions": {"a": 2}}}),
            Settle(),
            _image("cloneSetTemplate"),
            Settle(),
            versions=BOTH,
            differs=(
                build_difference(
                    "it counts as updated when no pod is held back",
                    "*/status/conditions/UnitedDeploymentUpdated",
                ),
            ),
        ),
        build_scenario(
            "a subset is added and removed",
            _united(replicas=2),
            Settle(),
            _change(topology=_subsets(_subset("a"), _subset("b"), _subset("c"))),
            Settle(),
            _change(topology=_subsets(_subset("b"), _subset("c"))),
            Settle(),
            versions=BOTH,
            differs=(build_difference("a subset that is gone has no status", "6 */status/subsetStatuses"),),
        ),
        build_scenario(
            "node selectors, tolerations and patches",
            _united(
                replicas=2,
                topology=_subsets(
                    _subset("a", nodeSelectorTerm=_TERM, tolerations=[{"key": "x", "operator": "Exists"}]),
                    _subset("b", patch={"metadata": {"labels": {"from": "b"}}}),
                ),
            ),
            Settle(),
            versions=BOTH,
            differs=(
                build_difference(
                    "as the newer release: a pod that is not ready yet is not normal yet",
                    "*/labels/lifecycle.apps.kruise.io/state",
                    only_in="v1alpha1",
                ),
                build_difference("a pod gets its conditions with its node", "*/pods/*/conditions/*"),
            ),
        ),
        build_scenario(
            "a broken image",
            _united(replicas=2, template={"cloneSetTemplate": _workload("nginx/broken")}),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "revisions beyond the limit are removed",
            _united(replicas=1, revisionHistoryLimit=1),
            Settle(),
            _image("cloneSetTemplate", "nginx:2"),
            Settle(),
            _image("cloneSetTemplate", "nginx:3"),
            Settle(),
            _image("cloneSetTemplate", "nginx:4"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "deleted with its workloads",
            _united(replicas=2),
            Settle(),
            Delete(_KIND, "united"),
            Settle(),
            versions=BOTH,
        ),
        build_scenario(
            "the smallest manifests", _try(), _try(_STATEFUL_SETS), _try(_ADVANCED), _try(_DEPLOYMENTS)
        ),
        build_scenario(
            "defaults",
            _try(updateStrategy={}),
            _try(updateStrategy={"type": "Manual"}),
            _try(topology=_subsets(_subset("a"), scheduleStrategy={"type": "Adaptive"})),
            _try(topology=_subsets(_subset("a"), scheduleStrategy={"type": "Adaptive", "adaptive": {}})),
            _try({"statefulSetTemplate": _workload(serviceName="united", volumeClaimTemplates=[CLAIM])}),
        ),
        build_scenario(
            "wrong values",
            _try(replicas=-1),
            _try({}),
            _try({**_CLONE_SETS, **_DEPLOYMENTS}),
            _try(selector={}),
            _try(selector={"matchLabels": {"app": "other"}}),
            _try(topology=_subsets(_subset("a"), _subset("a"))),
            _try(topology=_subsets(_subset("UPPER"))),
            _try(topology=_subsets(_subset(""))),
            _try(topology=_subsets(_subset("a", replicas="x"))),
            _try(topology=_subsets(_subset("a", replicas=1), _subset("b", replicas=2))),
            _try(topology=_subsets(_subset("a", replicas=-1), _subset("b"))),
            _try(topology=_subsets(_subset("a", minReplicas=3, maxReplicas=2), _subset("b"))),
            _try(topology=_subsets(_subset("a", replicas=1, maxReplicas=2), _subset("b"))),
            _try(updateStrategy={"type": "Manual", "manualUpdate": {"partitions": {"no": 1}}}),
            _try(updateStrategy={"type": "Sometimes"}),
            _try(topology=_subsets(_subset("a", patch={"spec": "x"}))),
            differs=(build_difference("the path leads to the field", "9 */fields/spec.topology.subsets"),),
        ),
        build_scenario(
            "changes",
            _united(replicas=2),
            Settle(),
            TryPatch(_KIND, "united", {"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
            TryPatch(_KIND, "united", {"spec": {"template": {"cloneSetTemplate": None, **_DEPLOYMENTS}}}),
            TryPatch(
                _KIND,
                "united",
                {"spec": {"topology": _subsets(_subset("a", nodeSelectorTerm=_TERM), _subset("b"))}},
            ),
            TryPatch(_KIND, "united", {"spec": {"revisionHistoryLimit": 3}}),
            differs=(
                build_difference(
                    "the selector cannot be changed: the original orphans the workloads and creates them again",
                    "3 *",
                ),
            ),
        ),
    ),
)
