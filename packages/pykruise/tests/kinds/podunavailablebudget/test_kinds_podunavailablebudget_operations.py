"""The effect of an update on a pod, and the budget of a new pod. Numbers are cases of the specification."""

from typing import Any

import pytest

from pykruise.kinds.podunavailablebudget.matching import budget_of, sort_budgets
from pykruise.kinds.podunavailablebudget.operations import operation_of_update
from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.workload.budgets import Operation
from support.budgets import DEPLOYMENT, budget, pod, view

UNAVAILABLE = {"unavailable-pod.kruise.io/drain": ""}
SOURCE = "kubernetes.io/config.source"


def sized(*containers: Document, annotations: Any = None, labels: Any = None, **spec: Any) -> Document:
    """A pod with these containers in place of its own."""
    document = pod("p1", annotations=annotations, labels=labels, **spec)
    document["spec"]["containers"] = [*containers]
    return document


def main(
    requests: Any = None, limits: Any = None, *, name: str = "main", image: str = "web:1", **fields: Any
) -> Document:
    resources = {
        key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None
    }
    return {"name": name, "image": image, **({"resources": resources} if resources else {}), **fields}


def policy(resource: str, restart: str | None) -> Document:
    return {"resizePolicy": [{"resourceName": resource, "restartPolicy": restart}]}


SMALL, LARGE = {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (sized(main(SMALL)), sized(main(SMALL))),
        (
            sized(main(SMALL)),
            sized(main(SMALL), labels={"a": "b"}, annotations={"a": "b"}),
        ),  # podunavailablebudget case 43
        (sized(main(SMALL), labels=UNAVAILABLE), sized(main(SMALL), labels={**UNAVAILABLE, "a": "b"})),
        (sized(main(SMALL), labels=UNAVAILABLE), sized(main(SMALL))),
        (
            sized(main(SMALL), labels=UNAVAILABLE),
            sized(main(SMALL), labels={"unavailable-pod.kruise.io/other": ""}),
        ),
    ],
)
def test_an_update_without_a_spec_change_or_mark_is_not_an_operation_case_43(
    old: Document, new: Document
) -> None:
    assert operation_of_update(old, new) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (sized(main(SMALL)), sized(main(LARGE))),  # podunavailablebudget case 46
        (sized(main(SMALL, {"cpu": "4"})), sized(main(SMALL, {"cpu": "5"}))),
        # one of the two resources; and another resource that stays the same
        (
            sized(main({**SMALL, "ephemeral-storage": "1Gi"})),
            sized(main({**SMALL, "cpu": "2", "ephemeral-storage": "1024Mi"})),
        ),
        (sized(main(SMALL)), sized(main(SMALL, {"cpu": "4"}))),
        (sized(main(SMALL, {"cpu": "4"})), sized(main(SMALL))),
        (sized(main(SMALL)), sized(main({"cpu": "1"}))),
        (sized(main({"cpu": "1"})), sized(main(SMALL))),
        (sized(main(SMALL), main(name="log")), sized(main(LARGE), main(name="log"))),
        # no policy, a policy without restart, or a policy for another resource
        *(
            (sized(main({"cpu": "1"}, **item)), sized(main({"cpu": "2"}, **item)))
            for item in (
                {"resizePolicy": None},
                {"resizePolicy": []},
                policy("cpu", "NotRequired"),
                policy("cpu", None),
                policy("cpu", ""),
                policy("memory", "RestartContainer"),
            )
        ),
        # pods from the API server
        (sized(main(SMALL), annotations={SOURCE: "api"}), sized(main(LARGE), annotations={SOURCE: "api"})),
        # init containers count for the QoS class too, and are unchanged
        (
            sized(main(SMALL, SMALL), initContainers=[main(name="init")]),
            sized(main(LARGE, SMALL), initContainers=[main(name="init")]),
        ),
    ],
)
def test_amounts_of_cpu_and_memory_alone_are_a_resize_case_46(old: Document, new: Document) -> None:
    assert operation_of_update(old, new) == Operation.RESIZE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (sized(main(SMALL)), sized(main(SMALL), labels=UNAVAILABLE)),  # podunavailablebudget case 40
        (sized(main(SMALL)), sized(main(LARGE), labels=UNAVAILABLE)),
        (sized(main(SMALL)), sized(main(LARGE, image="web:2"))),  # podunavailablebudget case 44
        (sized(main(SMALL)), sized(main(LARGE), nodeName="n2")),
        # a container that restarts because of its policy (podunavailablebudget case 48)
        (
            sized(main({"cpu": "1"}, **policy("cpu", "RestartContainer"))),
            sized(main({"cpu": "2"}, **policy("cpu", "RestartContainer"))),
        ),
        (
            sized(main(name="log"), main(SMALL, **policy("memory", "RestartContainer"))),
            sized(main(name="log"), main(LARGE, **policy("memory", "RestartContainer"))),
        ),
        # the policy changes too
        (
            sized(main({"cpu": "1"}, **policy("cpu", "RestartContainer"))),
            sized(main({"cpu": "2"}, **policy("cpu", "NotRequired"))),
        ),
        # another QoS class (podunavailablebudget case 49)
        (sized(main(SMALL)), sized(main(SMALL, SMALL))),
        (sized(main()), sized(main(SMALL))),
        # other resources (podunavailablebudget case 50), also when they are added or removed
        (sized(main({**SMALL, "ephemeral-storage": "1"})), sized(main({**SMALL, "ephemeral-storage": "2"}))),
        (sized(main({**SMALL, "ephemeral-storage": "1"})), sized(main(SMALL))),
        (sized(main(SMALL)), sized(main({**SMALL, "ephemeral-storage": "1"}))),
        (sized(main(SMALL, {"gpu": "1"})), sized(main(SMALL, {"gpu": "2"}))),
        # static and mirror pods, before or after
        (sized(main(SMALL), annotations={SOURCE: "file"}), sized(main(LARGE))),
        (sized(main(SMALL)), sized(main(LARGE), annotations={SOURCE: "file"})),
        # init containers change
        (
            sized(main(SMALL), initContainers=[main(SMALL, name="init")]),
            sized(main(SMALL), initContainers=[main(LARGE, name="init")]),
        ),
    ],
)
def test_a_change_that_restarts_a_container_is_an_update_operation_cases_44_to_50(
    old: Document, new: Document
) -> None:
    assert operation_of_update(old, new) == Operation.UPDATE


# ── new pods ─────────────────────────────────────────────────────────────────


def test_budgets_are_sorted_by_age_and_name_without_terminating_ones() -> None:
    documents = [
        budget("z", created_s_ago=9),
        budget("b", created_s_ago=5),
        budget("a", created_s_ago=5),
        budget("going", created_s_ago=99, deleting=True),
    ]
    timeless = budget("timeless")
    timeless["metadata"]["creationTimestamp"] = None
    budgets = sort_budgets(view(document) for document in (*documents, timeless))
    assert [budget.name for budget in budgets] == ["timeless", "z", "a", "b"]


@pytest.mark.parametrize(
    ("labels", "owners", "name"),
    [
        ({"app": "web"}, [], "by-selector"),
        ({"app": "other"}, [], None),
        (
            {"app": "other"},
            [(GroupKind("apps", "ReplicaSet"), "web-1"), (GroupKind("apps", "Deployment"), "web")],
            "by-target",
        ),
        ({"app": "other"}, [(GroupKind("apps", "Deployment"), "other")], None),
        ({"app": "other"}, [(GroupKind("apps.kruise.io", "CloneSet"), "web")], None),
        # the older one of two
        ({"app": "web"}, [(GroupKind("apps", "Deployment"), "web")], "by-target"),
    ],
)
def test_a_pod_is_of_the_first_budget_that_selects_it_or_targets_an_owner(
    labels: dict[str, str], owners: Any, name: str | None
) -> None:
    known = [
        view(budget("by-selector", created_s_ago=5)),
        view(budget("by-target", target=DEPLOYMENT, created_s_ago=9)),
        view(budget("nothing", selector={"matchExpressions": [{"key": "a", "operator": "Is"}]})),
    ]
    result = budget_of(labels, known, owners=owners)
    assert (result.name if result is not None else None) == name
