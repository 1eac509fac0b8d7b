"""PodUnavailableBudget, and deletion protection."""

from typing import Any, Final

from recorded_original.language import (
    Create,
    Delete,
    DeletePod,
    Document,
    Evict,
    Group,
    Patch,
    Settle,
    Try,
    TryPatch,
)
from recorded_original.scenarios.documents import (
    POLICY,
    build_difference,
    build_scenario,
    pods,
    rolling,
    set_image,
    workload,
)

__all__ = ["POD", "POD_UNAVAILABLE_BUDGET"]

_KIND: Final = "PodUnavailableBudget"


def _document(**spec: Any) -> Document:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"apiVersion": POLICY, "kind": _KIND, "metadata": {"name": "budget"}, "spec": spec}


def _budget(**spec: Any) -> Create:
    return Create(_document(**spec))


def _try(**spec: Any) -> Try:
    return Try(_document(**spec))


_SLOW: Final[Document] = {"readinessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 12}}
"""Fields of a container that becomes ready only after 12 s."""


def _slow() -> Document:
    template = pods("web")
    template["spec"]["containers"][0] |= _SLOW
    return template


def _web(replicas: int = 3, **spec: Any) -> Create:
    return Create(workload("CloneSet", replicas=replicas, **spec))


_TARGET: Final[Document] = {
    "targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"},
    "selector": None,
}
_IN_PLACE: Final[Document] = {
    "updateStrategy": rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable="100%")
}

POD_UNAVAILABLE_BUDGET: Final = Group(
    kind=_KIND,
    watched=("CloneSet",),
    scenarios=(
        build_scenario("one pod may be unavailable", _budget(maxUnavailable=1), _web(), Settle()),
        build_scenario("pods that must be available", _budget(minAvailable=2), _web(), Settle()),
        build_scenario("shares", _budget(maxUnavailable="50%"), _web(3), Settle()),
        build_scenario("shares that must be available", _budget(minAvailable="50%"), _web(3), Settle()),
        build_scenario(
            "nothing may go",
            _budget(maxUnavailable=0),
            _web(2),
            Settle(),
            Evict("web", 0),
            DeletePod("web", 0),
            Settle(),
        ),
        build_scenario("by the workload", _budget(maxUnavailable=1, **_TARGET), _web(), Settle()),
        build_scenario(
            "one eviction is allowed, a second one is not",
            _budget(maxUnavailable=1, **_TARGET),
            _web(template=_slow()),
            Settle(quiet_s=15),
            Evict("web", 0),
            Evict("web", 1),
            Settle(quiet_s=15),
        ),
        build_scenario(
            "one deletion is allowed, a second one is not",
            _budget(maxUnavailable=1, **_TARGET),
            _web(template=_slow()),
            Settle(quiet_s=15),
            DeletePod("web", 0),
            DeletePod("web", 1),
            Settle(quiet_s=15),
        ),
        build_scenario(
            "a pod that is not ready may go",
            _budget(maxUnavailable=0, **_TARGET),
            _web(1, template=pods("web", image="nginx/broken")),
            Settle(),
            DeletePod("web", 0),
            Settle(),
        ),
        build_scenario(
            "pods that need no protection",
            _budget(maxUnavailable=0, **_TARGET),
            _web(
                1,
                template={
                    "metadata": {
                        "labels": {"app": "web"},
                        "annotations": {"pod.kruise.io/pub-no-protect": "true"},
                    },
                    "spec": pods("web")["spec"],
                },
            ),
            Settle(),
            DeletePod("web", 0),
            Settle(),
        ),
        build_scenario(
            "only deletions are guarded",
            _budget(maxUnavailable=0, protectOperations=["DELETE"], **_TARGET),
            _web(2),
            Settle(),
            Evict("web", 0),
            Settle(),
        ),
        build_scenario(
            "an update in place is slowed",
            _budget(maxUnavailable=1, **_TARGET),
            _web(3, **_IN_PLACE),
            Settle(),
            set_image("CloneSet"),
            Settle(),
            differs=(
                build_difference(
                    "a CloneSet asks the budget before it writes", "*/events/*PubPreventPodDeletion"
                ),
            ),
        ),
        build_scenario(
            "an update in place is held",
            _budget(maxUnavailable=0, **_TARGET),
            _web(2, **_IN_PLACE),
            Settle(),
            Patch(
                "CloneSet",
                "web",
                {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}},
            ),
            Settle(),
            differs=(
                build_difference(
                    "a CloneSet asks the budget before it writes", "*/events/*PubPreventPodDeletion"
                ),
            ),
        ),
        build_scenario(
            "a total of its own", _budget(maxUnavailable="50%", protectTotalReplicas=10), _web(3), Settle()
        ),
        build_scenario("no pod at all", _budget(maxUnavailable=1), Settle()),
        build_scenario(
            "the budget is changed",
            _budget(maxUnavailable=1),
            _web(),
            Settle(),
            Patch(_KIND, "budget", {"spec": {"maxUnavailable": 2}}),
            Settle(),
        ),
        build_scenario(
            "the workload is scaled",
            _budget(minAvailable=1, **_TARGET),
            _web(3),
            Settle(),
            Patch("CloneSet", "web", {"spec": {"replicas": 1}}),
            Settle(),
        ),
        build_scenario(
            "the budget is deleted",
            _budget(maxUnavailable=1),
            _web(1),
            Settle(),
            Delete(_KIND, "budget"),
            Settle(),
        ),
        build_scenario(
            "the smallest manifest",
            _try(maxUnavailable=1),
            _try(minAvailable=1),
            _try(maxUnavailable=1, **_TARGET),
        ),
        build_scenario(
            "wrong values",
            _try(),
            _try(maxUnavailable=1, minAvailable=1),
            _try(maxUnavailable=-1),
            _try(maxUnavailable="x"),
            _try(minAvailable="150%"),
            _try(maxUnavailable=1, selector=None),
            _try(maxUnavailable=1, selector={}),
            _try(maxUnavailable=1, targetRef=_TARGET["targetRef"]),
            _try(maxUnavailable=1, selector=None, targetRef={"apiVersion": "", "kind": "", "name": ""}),
            _try(maxUnavailable=1, protectOperations=["NONSENSE"]),
            _try(maxUnavailable=1, protectTotalReplicas=-1),
        ),
        build_scenario(
            "conflicts and changes",
            _budget(maxUnavailable=1, **_TARGET),
            Settle(),
            Try({**_document(maxUnavailable=1, **_TARGET), "metadata": {"name": "second"}}),
            Try({**_document(maxUnavailable=1), "metadata": {"name": "third"}}),
            TryPatch(_KIND, "budget", {"spec": {"targetRef": {"name": "other"}}}),
            TryPatch(
                _KIND, "budget", {"spec": {"targetRef": None, "selector": {"matchLabels": {"app": "web"}}}}
            ),
            TryPatch(_KIND, "budget", {"spec": {"maxUnavailable": None, "minAvailable": 1}}),
        ),
    ),
)


def _protected(kind: str, protection: str, **spec: Any) -> Create:
    document = workload(kind, **spec)
    document["metadata"]["labels"] = {"policy.kruise.io/delete-protection": protection}
    return Create(document)


def _pod(name: str, *containers: Document, **metadata: Any) -> Document:
    meta = {"name": name, "labels": {"app": name}, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": list(containers)}}


def _service(protection: str) -> Document:
    metadata = {"name": "web", "labels": {"policy.kruise.io/delete-protection": protection}}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _launched(name: str, priority: str) -> Document:
    return {
        "name": name,
        "image": "nginx:1",
        "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": priority}],
    }


_PLAIN: Final[Document] = {"name": "main", "image": "nginx:1"}

POD: Final = Group(
    kind="Pod",
    watched=("CloneSet", "Service", "ConfigMap"),
    scenarios=(
        build_scenario(
            "a workload that must not go",
            _protected("CloneSet", "Always", replicas=0),
            Delete("CloneSet", "web"),
            Patch("CloneSet", "web", {"metadata": {"labels": {"policy.kruise.io/delete-protection": None}}}),
            Delete("CloneSet", "web"),
            Settle(),
        ),
        build_scenario(
            "a workload that must not go with pods",
            _protected("CloneSet", "Cascading", replicas=1),
            Settle(),
            Delete("CloneSet", "web"),
            Patch("CloneSet", "web", {"spec": {"replicas": 0}}),
            Settle(),
            Delete("CloneSet", "web"),
            Settle(),
        ),
        build_scenario(
            "a StatefulSet that must not go with pods",
            _protected("StatefulSet", "Cascading", replicas=1, serviceName="web"),
            Settle(),
            Delete("StatefulSet", "web"),
        ),
        build_scenario(
            "a Service that must not go", Create(_service("Always")), Delete("Service", "web"), Settle()
        ),
        build_scenario(
            "a Service of which only Always is known", Try(_service("Cascading")), Try(_service("Nonsense"))
        ),
        build_scenario(
            "a wrong word",
            Try(
                {
                    **workload("CloneSet"),
                    "metadata": {"name": "web", "labels": {"policy.kruise.io/delete-protection": "Nonsense"}},
                }
            ),
        ),
        build_scenario(
            "containers begin in the order of their priorities",
            Create(_pod("ordered", _launched("main", "1"), _launched("first", "5"))),
            Settle(),
        ),
        build_scenario(
            "containers begin in the order in which they are written",
            Create(
                _pod(
                    "ordered",
                    _PLAIN,
                    {**_PLAIN, "name": "second"},
                    annotations={"apps.kruise.io/container-launch-priority": "Ordered"},
                )
            ),
            Settle(),
        ),
        build_scenario(
            "one container has no priority",
            Create(_pod("ordered", _launched("main", "1"), {**_PLAIN, "name": "second"})),
            Settle(),
        ),
        build_scenario(
            "priorities that are no numbers",
            Create(_pod("ordered", _launched("main", "x"), _launched("second", "1"))),
            Settle(),
        ),
        build_scenario(
            "the same priority for all",
            Create(_pod("ordered", _launched("main", "1"), _launched("second", "1"))),
            Settle(),
        ),
        build_scenario("a plain pod", Create(_pod("plain", _PLAIN)), Settle()),
    ),
)
