"""The two steps of PodUnavailableBudget: failed lookups, and requests that no budget needs to check."""

from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.pod_steps import BudgetGuard, BudgetTie, make_guarding
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, annotations_of
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import PODS
from pykruise.kube.values.owners import OwnerReference
from pykruise.plans.pod_steps import StepError
from pykruise.plans.targets import OwnerMissingError
from pykruise.pods.view import keys
from pykruise.pods.workload.budgets import BudgetView, build_related_annotations
from support.budgets import (
    CLONE_SET,
    DEPLOYMENT,
    BudgetServer,
    Owner,
    Replica,
    allowed,
    budget,
    deletion,
    eviction,
    pod,
    tied,
    update,
)
from support.pod_chains import chain_of, step_context
from support.reviews import request

REPLICA_SET: Owner = ("apps/v1", "ReplicaSet", "web-1")
OF_CLONE_SET = budget("of-cloneset", target=CLONE_SET, maxUnavailable=1)
OF_DEPLOYMENT = budget("of-deployment", target=DEPLOYMENT, maxUnavailable=1)
OF_REPLICA_SET = budget("of-replicaset", target=REPLICA_SET, maxUnavailable=1)
POD = tied("p1")


def full(**spec: Any) -> BudgetServer:
    """A budget that allows no unavailable pod, and a pod that it covers."""
    return BudgetServer(budget(maxUnavailable=1, status=allowed(0), **spec), pods=[POD])


# ── new pods ─────────────────────────────────────────────────────────────────


def looking_up(replica: Replica, value: OwnerReference | Exception | None) -> list[str]:
    """Let lookups of a ReplicaSet's controller return or raise `value`. Returns the owners that were looked up."""
    asked: list[str] = []

    async def above(owner: OwnerReference, namespace: str) -> OwnerReference | None:
        asked.append(f"{namespace}/{owner.name}")
        if isinstance(value, Exception):
            raise value
        return value

    replica.read_controller = above  # type: ignore[method-assign]
    return asked


def controller(owner: Owner) -> OwnerReference:
    api_version, kind, name = owner
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid="u")


@pytest.mark.parametrize(
    ("owner", "above", "budget_name"),
    [
        (CLONE_SET, None, "of-cloneset"),
        (REPLICA_SET, controller(DEPLOYMENT), "of-deployment"),
        (REPLICA_SET, controller(("argoproj.io/v1", "Rollout", "web")), ""),
        (REPLICA_SET, controller(("apps/v1", "Deployment", "other")), ""),
        (REPLICA_SET, None, ""),
        (REPLICA_SET, OwnerMissingError("not seen yet"), ""),
        (REPLICA_SET, KubeError("the API server is away"), ""),
        (("a/b/c", "CloneSet", "web"), None, ""),
        (None, None, ""),
    ],
    ids=[
        "its owner",
        "the Deployment above",
        "another kind above",
        "another Deployment above",
        "nothing above",
        "a ReplicaSet that is not there",
        "a ReplicaSet that cannot be read",
        "an owner of no group",
        "no owner",
    ],
)
async def test_a_pod_is_annotated_with_the_budget_of_its_owner_or_of_its_deployment(
    owner: Owner | None, above: OwnerReference | Exception | None, budget_name: str
) -> None:
    """admission case 25"""
    replica = BudgetServer(OF_CLONE_SET, OF_DEPLOYMENT).replica()
    looking_up(replica, above)
    result = annotations_of(await replica.tie(pod("p", owner=owner)))
    assert result == (build_related_annotations(budget_name) if budget_name else {})


async def test_a_deployment_that_cannot_be_found_keeps_no_pod_from_its_replicasets_budget() -> None:
    replica = BudgetServer(OF_DEPLOYMENT, OF_REPLICA_SET).replica()
    looking_up(replica, KubeError("the API server is away"))
    result = annotations_of(await replica.tie(pod("p", owner=REPLICA_SET)))
    assert result == build_related_annotations("of-replicaset")


@pytest.mark.parametrize(
    ("owner", "budgets", "asked"),
    [
        (REPLICA_SET, [OF_DEPLOYMENT], ["shop/web-1"]),
        (REPLICA_SET, [OF_CLONE_SET, OF_DEPLOYMENT], ["shop/web-1"]),
        (REPLICA_SET, [OF_CLONE_SET, budget(maxUnavailable=1)], []),
        (CLONE_SET, [OF_DEPLOYMENT], []),
        (REPLICA_SET, [], []),
    ],
)
async def test_the_owner_of_a_replica_set_is_read_only_for_budgets_of_deployments(
    owner: Owner, budgets: list[Document], asked: list[str]
) -> None:
    replica = BudgetServer(*budgets).replica()
    result = looking_up(replica, controller(DEPLOYMENT))
    await replica.tie(pod("p", owner=owner))
    assert result == asked


async def test_a_related_pod_keeps_its_annotations() -> None:
    given = pod("p", annotations={"mine": "x"})
    result = await BudgetServer(budget(maxUnavailable=1)).replica().tie(given)
    assert annotations_of(result) == {"mine": "x", **build_related_annotations("pub")}
    result["metadata"]["annotations"] = given["metadata"]["annotations"]
    assert result == given


async def test_a_pod_without_metadata_may_match_a_budget() -> None:
    bare = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    result = await BudgetServer(budget(selector=bare, maxUnavailable=1)).replica().tie({"metadata": None})
    assert result == {"metadata": {"annotations": build_related_annotations("pub")}}


@pytest.mark.parametrize(
    ("metadata", "namespace"),
    [({"namespace": "shop"}, "shop"), ({}, "of-the-request"), (None, "of-the-request")],
)
async def test_a_pod_that_names_no_namespace_is_in_that_of_the_request(
    metadata: Document | None, namespace: str
) -> None:
    # given
    replica = BudgetServer().replica()
    asked: list[str] = []

    async def in_namespace(namespace: str) -> Sequence[BudgetView]:
        asked.append(namespace)
        return []

    replica.list_in_namespace = in_namespace  # type: ignore[method-assign]
    # when
    doc = {"metadata": metadata}
    result = await BudgetTie(replica.guarding).change(doc, request(PODS, doc, namespace="of-the-request"))
    # then
    assert (result, asked) == (None, [namespace])


async def test_budgets_that_cannot_be_read_block_no_new_pod() -> None:
    """admission case 26"""
    replica = BudgetServer(budget(maxUnavailable=1)).replica()

    async def in_namespace(namespace: str) -> Sequence[BudgetView]:
        raise KubeError("the API server is away")

    replica.list_in_namespace = in_namespace  # type: ignore[method-assign]
    given = pod("p")
    assert await replica.tie(given) == given


async def test_pods_are_not_related_or_protected_without_readable_budgets() -> None:
    without = make_guarding(step_context(KIND))
    guard = BudgetGuard(without)
    assert await BudgetTie(without).change(POD, request(PODS, POD)) is None
    assert await guard.judge(deletion(POD)) is None


@pytest.mark.parametrize(
    ("deletions", "updates", "is_there"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_the_steps_of_budgets_are_registered_only_with_a_gate(
    deletions: bool, updates: bool, is_there: bool
) -> None:
    steps = chain_of(
        Gates.of(PodUnavailableBudgetDeleteGate=deletions, PodUnavailableBudgetUpdateGate=updates)
    )
    assert any(isinstance(result.step, BudgetTie) for result in steps.changing) is is_there
    assert any(isinstance(result.step, BudgetGuard) for result in steps.judging) is is_there


# ── deleted and changed pods ──────────────────────────────────────────────────


def with_image(doc: Document, image: str = "nginx:2") -> Document:
    containers = [{**container, "image": image} for container in doc["spec"]["containers"]]
    return {**doc, "spec": {**doc["spec"], "containers": containers}}


@pytest.mark.parametrize(
    "asked",
    [
        request(PODS, POD, operation="CREATE"),
        request(PODS, POD, old=POD, operation="DELETE", subresource="status"),
        request(PODS, with_image(POD), old=POD, subresource="ephemeralcontainers"),
        request(PODS, with_image(POD), operation="UPDATE"),
        request(PODS, None, old=POD, operation="UPDATE"),
        request(PODS, None, operation="DELETE"),
        update(POD, with_image(pod("p1"))),
        update(POD, tied("p1", labels={"a": "b"})),
        deletion(pod("p1")),
        deletion(tied("p1", annotations={keys.NO_PROTECT_ANNOTATION: "true"})),
    ],
    ids=[
        "a creation",
        "of its status",
        "ephemeral containers",
        "an update of nothing",
        "an update to nothing",
        "a deletion of nothing",
        "an update that unties the pod",
        "another label",
        "a pod that is not tied",
        "a pod that is not to be protected",
    ],
)
async def test_a_change_that_keeps_the_pod_in_service_checks_no_budget(asked: AdmissionRequest) -> None:
    replica = full().replica()
    assert await replica.judge(asked) is None
    assert replica.asked_for == []


@pytest.mark.parametrize("asked", [deletion(POD), eviction("p1")])
async def test_deletions_and_evictions_are_free_with_the_gate_off(asked: AdmissionRequest) -> None:
    replica = full().replica(gates=Gates.of(PodUnavailableBudgetDeleteGate=False))
    assert await replica.judge(asked) is None
    assert replica.asked_for == []


async def test_an_eviction_without_a_budget_reads_no_pod() -> None:
    # given
    replica = BudgetServer(pods=[POD]).replica()

    async def read(namespace: str, name: str) -> Document | None:
        raise AssertionError("it is read")

    replica.read_pod = read  # type: ignore[method-assign]
    # then
    assert await replica.judge(eviction("p1")) is None


async def test_a_prevented_eviction_reports_the_pod_the_budget_and_the_user() -> None:
    """podunavailablebudget case 65"""
    replica = full().replica()
    assert await replica.judge(eviction("p1")) is not None
    (event,) = replica.prevented
    assert (event.namespace, event.pod, event.uid) == ("shop", "p1", "uid-p1")
    assert (event.kind, event.name, event.username) == ("PodUnavailableBudget", "pub", "alice")


async def test_a_pod_deleted_by_delete_collection_is_reported_by_its_name() -> None:
    """API servers send no name in the review of such a deletion."""
    replica = full().replica()
    assert await replica.judge(deletion(POD, name="")) is not None
    assert [event.pod for event in replica.prevented] == ["p1"]


async def test_an_allowed_eviction_reports_no_event() -> None:
    replica = BudgetServer(budget(maxUnavailable=1, status=allowed(1)), pods=[POD]).replica()
    assert await replica.judge(eviction("p1")) is None
    assert replica.prevented == []


@pytest.mark.parametrize(
    ("is_hanging", "text"),
    [(True, "the PodUnavailableBudget could not be checked within 8 s"), (False, "lost on purpose")],
)
async def test_an_uncheckable_budget_reports_the_reason(is_hanging: bool, text: str) -> None:
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(1)), pods=[POD])
    server.writes_hang, server.writes_fail = is_hanging, not is_hanging
    with pytest.raises(StepError, match=text):
        await server.replica().judge(deletion(POD))
