"""Deletions, evictions, updates and resizes of pods, and the budget that allows or rejects them. Numbers are cases
of the specification of PodUnavailableBudget."""

import asyncio
from typing import Any

import pytest

from pykruise.admission.pods.chain import CONDITION, condition_of
from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.conversion import PROTECT_OPERATIONS
from pykruise.kube.admission import AdmissionRequest, MatchCondition
from pykruise.kube.documents import Document, annotations_of, deep_copy
from pykruise.kube.errors import DISRUPTION_BUDGET, REMEDY, ErrorStatus
from pykruise.kube.ids import Key
from pykruise.kube.values.cel import LabelSelection
from pykruise.kube.values.selectors import EVERYTHING
from pykruise.plans.pod_steps import StepError
from pykruise.pods.view import keys
from pykruise.pods.workload.budgets import build_related_annotations
from pykruise.pods.workload.options import EVICTION_SURGE
from pykruise.sandbox.apiserver.custom.expressions import compile_expression
from support.budgets import (
    BOTH_GATES,
    CLONE_SET,
    DEPLOYMENT,
    NAMESPACE,
    BudgetServer,
    ago,
    allowed,
    budget,
    deletion,
    eviction,
    pod,
    tied,
    update,
)
from support.pod_chains import chain_of

REFUSED = 'podunavailablebudget.policy.kruise.io "pub" is forbidden: pub unavailable allowed is negative'
RESIZE_APART = Gates.of(PodUnavailableBudgetUpdateGate=True, InPlacePodVerticalScaling=True)
UNAVAILABLE = {"unavailable-pod.kruise.io/drain": "true"}


def with_allowed(count: int, **spec: Any) -> BudgetServer:
    """A budget that allows `count` more unavailable pods."""
    return BudgetServer(budget(maxUnavailable=1, status=allowed(count), **spec))


def changed(doc: Document, **metadata: Any) -> Document:
    new = deep_copy(doc)
    for field, value in metadata.items():
        new["metadata"][field] = {**new["metadata"][field], **value}
    return dict(new)


def of_image(doc: Document, image: str) -> Document:
    new = dict(deep_copy(doc))
    new["spec"]["containers"][0]["image"] = image
    return new


def sized(doc: Document, requests: Any, *, limits: Any = None, policy: str = "") -> Document:
    new = dict(deep_copy(doc))
    container = new["spec"]["containers"][0]
    container["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
    if policy:
        container["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": policy}]
    return new


POD = tied("p1")
MARKED = changed(POD, labels=UNAVAILABLE)
SMALL, LARGE = sized(POD, {"cpu": "1"}), sized(POD, {"cpu": "2"})


async def refusal(
    server: BudgetServer, asked: AdmissionRequest, *, gates: Gates = BOTH_GATES
) -> ErrorStatus | None:
    return await server.replica(gates=gates).judge(asked)


@pytest.mark.parametrize(("replicas", "is_stale"), [(1, False), (2, False), (2, True)])
async def test_one_of_two_simultaneous_deletions_is_admitted_case_36(replicas: int, is_stale: bool) -> None:
    # given a budget of one, and replicas whose caches do not get each other's writes
    server = with_allowed(1)
    result = [server.replica(seed=seed, is_stale=is_stale) for seed in range(replicas)]
    # when
    answers = await asyncio.gather(
        *(result[number % replicas].judge(deletion(tied(f"p{number}"))) for number in range(2))
    )
    # then
    (refused,) = [answer for answer in answers if answer is not None]
    assert (refused.code, refused.reason, refused.message) == (403, "Forbidden", REFUSED)
    assert server.status()["unavailableAllowed"] == 0
    assert len(server.status()["disruptedPods"]) == 1


async def test_a_spent_eviction_is_in_the_status_before_the_answer() -> None:
    server = with_allowed(2)
    assert await refusal(server, deletion(POD)) is None
    assert server.status() == {
        "unavailableAllowed": 1,
        "desiredAvailable": 1,
        "currentAvailable": 2,
        "disruptedPods": {"p1": ago(0)},
    }


@pytest.mark.parametrize(
    ("doc", "status"),
    [
        (POD, allowed(0, disruptedPods={"p1": ago(3)})),  # admission case 37
        (POD, allowed(0, unavailablePods={"p1": ago(3)})),
        (tied("p1", ready=False), allowed(0)),  # admission case 38
        (tied("p1", phase="Failed"), allowed(0)),
        (tied("p1", labels=UNAVAILABLE), allowed(0)),  # admission case 39
        (tied("p1", annotations={keys.NO_PROTECT_ANNOTATION: "true"}), allowed(0)),  # admission case 41
        (tied("p1", labels={"tier": "test"}), allowed(0)),  # admission case 42
        (pod("p1"), allowed(0)),
        (tied("p1", to="gone", labels={"app": "other"}), allowed(0)),  # admission case 54
        (POD, allowed(0, desired=0)),  # admission case 20
        (POD, {}),  # admission case 55
    ],
)
async def test_deletions_that_cost_no_availability_are_allowed_cases_37_to_42_54_55(
    doc: Document, status: Any
) -> None:
    ignored = {"matchLabels": {"tier": "test"}}
    server = BudgetServer(budget(maxUnavailable=1, status=status, ignoredPodSelector=ignored), pods=[doc])
    assert await refusal(server, deletion(doc)) is None
    assert await refusal(server, eviction("p1")) is None
    assert server.writes == 0


async def test_a_record_of_a_pod_does_not_allow_its_successor() -> None:
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(0, disruptedPods={"p1": ago(9)})))
    assert await refusal(server, deletion(tied("p1", created_s_ago=5))) is not None


@pytest.mark.parametrize(
    ("field", "age_s", "is_free"),
    [
        ("disruptedPods", 9, True),
        ("disruptedPods", 10, False),
        ("unavailablePods", 4, True),
        ("unavailablePods", 5, False),
    ],
)
async def test_a_record_allows_its_pod_again_for_half_of_its_lifetime(
    field: str, age_s: float, is_free: bool
) -> None:
    """Later, the budget may have given the slot of an expired record to another pod, unknown to the cache."""
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(0, **{field: {"p1": ago(age_s)}})))
    assert (await refusal(server, deletion(POD)) is None) is is_free


@pytest.mark.parametrize("target", [None, CLONE_SET, DEPLOYMENT])
async def test_the_next_budget_that_covers_a_pod_of_a_deleted_budget_is_checked(target: Any) -> None:
    # given a pod that names a deleted budget, because the controller has not assigned it to the next one yet
    doc = tied("p1", to="gone", owner=CLONE_SET)
    server = BudgetServer(budget(maxUnavailable=1, target=target, status=allowed(0)), pods=[doc])
    # then the next budget decides, if it covers the pod
    refused = await refusal(server, deletion(doc))
    assert (refused.message if refused is not None else "") == ("" if target == DEPLOYMENT else REFUSED)
    assert (await refusal(server, eviction("p1")) is None) is (target == DEPLOYMENT)


async def test_a_budget_missing_in_the_cache_is_still_checked() -> None:
    # given a replica whose cache does not have the budget yet
    server = BudgetServer()
    replica = server.replica(is_stale=True)
    server.budgets["pub"] = budget(maxUnavailable=1, status=allowed(0))
    # then
    assert await replica.judge(deletion(POD)) is not None


async def test_a_label_that_makes_a_pod_unavailable_is_an_update_case_40() -> None:
    server = with_allowed(1)
    assert await refusal(server, update(POD, MARKED)) is None
    assert server.status()["unavailablePods"] == {"p1": ago(0)}
    assert await refusal(with_allowed(0), update(POD, MARKED)) is not None
    # and once the label is set, another update costs nothing
    assert await refusal(with_allowed(0), update(MARKED, changed(MARKED, labels={"a": "b"}))) is None


@pytest.mark.parametrize("change", [{"labels": {"a": "b"}}, {"annotations": {"a": "b"}}])
async def test_other_labels_and_annotations_do_not_spend_the_budget_case_43(change: Any) -> None:
    assert await refusal(with_allowed(0), update(POD, changed(POD, **change))) is None


async def test_a_changed_image_spends_the_budget_case_44() -> None:
    server = with_allowed(1)
    assert await refusal(server, update(POD, of_image(POD, "nginx:2"))) is None
    assert server.status()["unavailablePods"] == {"p1": ago(0)}
    assert server.status()["unavailableAllowed"] == 0
    other = tied("p2")
    assert await refusal(server, update(other, of_image(other, "nginx:2"))) is not None


async def test_updates_are_free_and_read_no_budget_with_the_gate_off_case_45() -> None:
    """and admission case 33"""
    replica = with_allowed(0).replica(gates=Gates())
    assert await replica.judge(update(POD, of_image(POD, "nginx:2"))) is None
    assert replica.asked_for == []


@pytest.mark.parametrize(
    ("old", "new", "is_apart", "operations", "is_free"),
    [
        (SMALL, LARGE, True, [], True),  # admission case 46
        (SMALL, LARGE, False, [], False),  # admission case 47
        (SMALL, LARGE, True, ["RESIZE"], False),
        (SMALL, LARGE, False, ["RESIZE"], False),
        (SMALL, LARGE, False, ["DELETE"], True),
        (
            sized(POD, {"cpu": "1"}, policy="RestartContainer"),
            sized(POD, {"cpu": "2"}, policy="RestartContainer"),
            True,
            [],
            False,
        ),  # admission case 48
        (
            SMALL,
            sized(POD, {"cpu": "1", "memory": "1"}, limits={"cpu": "1", "memory": "1"}),
            True,
            [],
            False,
        ),  # 49
        (
            sized(POD, {"cpu": "1", "ephemeral-storage": "1"}),
            sized(POD, {"cpu": "1", "ephemeral-storage": "2"}),
            True,
            [],
            False,
        ),  # admission case 50
        (SMALL, of_image(LARGE, "nginx:2"), True, [], False),
        (SMALL, changed(LARGE, labels=UNAVAILABLE), True, [], False),
    ],
)
async def test_a_resize_is_a_disruption_only_where_a_container_restarts_cases_46_to_50(
    old: Document, new: Document, is_apart: bool, operations: list[str], is_free: bool
) -> None:
    server = with_allowed(0, protectOperations=operations)
    asked = update(old, new, subresource="resize")
    status = await refusal(server, asked, gates=RESIZE_APART if is_apart else BOTH_GATES)
    assert (status is None) is is_free


async def test_a_resize_is_recorded_as_an_update_since_its_pod_stays() -> None:
    """pitfall 8"""
    server = with_allowed(1)
    assert await refusal(server, update(SMALL, LARGE)) is None
    assert server.status()["unavailablePods"] == {"p1": ago(0)}


@pytest.mark.parametrize(
    "guarded",
    [{"protectOperations": ["EVICT"]}, {"annotations": {PROTECT_OPERATIONS: "UPDATE, EVICT"}}],
)
async def test_only_protected_operations_are_guarded_case_51(guarded: Any) -> None:
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(0), **guarded), pods=[POD])
    assert await refusal(server, deletion(POD)) is None
    assert await refusal(server, eviction("p1")) is not None


@pytest.mark.parametrize(
    "dry",
    [
        eviction("p1", options={"dryRun": ["All"]}),
        eviction("p1", dry_run=True),
        deletion(POD, options={"dryRun": ["All"]}),
        deletion(POD, dry_run=True),
    ],
)
async def test_a_dry_run_is_answered_without_spending_the_budget_cases_52_53(dry: AdmissionRequest) -> None:
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(1)), pods=[POD])
    assert await refusal(server, dry) is None
    assert server.writes == 0
    assert (
        await refusal(BudgetServer(budget(maxUnavailable=1, status=allowed(0)), pods=[POD]), dry) is not None
    )


async def test_conflicts_without_end_refuse_and_nothing_is_admitted_that_is_not_recorded_case_59() -> None:
    server = with_allowed(1)
    server.conflicts_to_come = 1000
    refused = await refusal(server, deletion(POD))
    assert refused is not None
    assert (refused.code, refused.message) == (
        403,
        "couldn't update PodUnavailableBudget pub due to conflicts",
    )
    assert server.status() == allowed(1)
    # and many attempts were made, within the time that an API server always waits
    assert server.writes > 10


async def test_a_request_that_the_budget_allows_outlives_a_dozen_conflicts() -> None:
    server = with_allowed(1)
    server.conflicts_to_come = 12
    assert await refusal(server, deletion(POD)) is None
    assert server.status()["unavailableAllowed"] == 0


async def test_too_many_unconfirmed_pods_refuse_further_ones_case_60() -> None:
    records = {f"q{number}": ago(1) for number in range(2001)}
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(5, disruptedPods=records)))
    refused = await refusal(server, deletion(POD))
    assert refused is not None
    assert "DisruptedPods and UnavailablePods map too big" in refused.message


async def test_a_refused_pod_is_reported_case_65() -> None:
    replica = with_allowed(0).replica()
    assert await replica.judge(deletion(POD)) is not None
    (event,) = replica.prevented
    assert (event.namespace, event.pod, event.username) == (NAMESPACE, "p1", "alice")
    assert event.owner is not None
    assert (event.owner.kind, event.owner.name) == ("CloneSet", "web")


async def test_a_refused_eviction_gets_429_case_66() -> None:
    refused = await refusal(
        BudgetServer(budget(maxUnavailable=1, status=allowed(0)), pods=[POD]), eviction("p1")
    )
    assert refused is not None
    assert (refused.code, refused.reason, refused.message) == (429, "TooManyRequests", REFUSED)
    assert refused.details is not None
    assert [cause.reason for cause in refused.details.causes] == [DISRUPTION_BUDGET, REMEDY]


async def test_the_eviction_of_a_missing_pod_is_passed_to_the_api_server() -> None:
    assert await refusal(with_allowed(0), eviction("p9")) is None


@pytest.mark.parametrize("is_hanging", [True, False])
async def test_an_undecidable_eviction_gets_429_and_a_deletion_500(
    is_hanging: bool,
) -> None:
    """`kubectl drain` retries only after 429. It must get 429 before the API server's own timeout."""
    # given an API server that does not answer, or with an error
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(1)), pods=[POD])
    server.writes_hang, server.writes_fail = is_hanging, not is_hanging
    # then
    with pytest.raises(StepError) as error:
        await refusal(server, eviction("p1"))
    assert error.value.code == 429
    with pytest.raises(StepError) as error:
        await refusal(server, deletion(POD))
    assert error.value.code == 500


async def test_an_invalid_ignored_pod_selector_allows_no_deletion() -> None:
    server = with_allowed(1, ignoredPodSelector={"matchExpressions": [{"key": "a", "operator": "Of"}]})
    with pytest.raises(StepError, match="ignoredPodSelector"):
        await refusal(server, deletion(POD))


async def test_only_the_deprecated_annotation_is_enough_case_57() -> None:
    old = pod("p1", annotations={keys.LEGACY_RELATED_PUB_ANNOTATION: "pub"})
    assert await refusal(with_allowed(0), deletion(old)) is not None


async def test_simultaneous_deletions_cost_few_writes_and_never_exceed_the_budget() -> None:
    server = with_allowed(10)
    replicas = [server.replica(seed=seed) for seed in range(3)]
    answers = await asyncio.gather(
        *(replicas[number % 3].judge(deletion(tied(f"p{number}"))) for number in range(64))
    )
    assert sum(answer is None for answer in answers) <= 10
    assert len(server.status()["disruptedPods"]) == sum(answer is None for answer in answers)
    assert server.writes < 20


async def test_batched_requests_spend_once_per_pod_and_nothing_for_dry_runs() -> None:
    # given a budget of two, and requests that come while the first one is written
    server = with_allowed(2)
    replica = server.replica()
    asked = [
        deletion(tied("p0")),
        deletion(tied("p2"), dry_run=True),
        deletion(tied("p1")),
        deletion(tied("p1")),
        deletion(tied("p3"), dry_run=True),
    ]
    # when
    answers = await asyncio.gather(*map(replica.judge, asked))
    # then
    assert [answer is None for answer in answers] == [True, True, True, True, False]
    assert set(server.status()["disruptedPods"]) == {"p0", "p1"}
    assert server.status()["unavailableAllowed"] == 0
    assert server.writes == 2


async def test_batched_requests_that_spend_nothing_cause_no_write() -> None:
    server = with_allowed(2)
    dry = [deletion(tied(name), dry_run=True) for name in ("p1", "p2")]
    answers = await asyncio.gather(*map(server.replica().judge, [deletion(tied("p0")), *dry]))
    assert (answers, server.writes) == ([None] * 3, 1)


async def test_a_budget_deleted_after_a_conflict_protects_no_pod_case_54() -> None:
    # given three pods under a budget of two, which is deleted after two conflicts
    server = with_allowed(2)
    server.conflicts_to_come = 2
    replica = server.replica()
    shown = [await replica.read_fresh(Key(NAMESPACE, "pub")), None]

    async def fresh(_: Key) -> Any:
        return shown.pop(0)

    replica.read_fresh = fresh  # type: ignore[method-assign]
    # then
    answers = await asyncio.gather(*(replica.judge(deletion(tied(f"p{number}"))) for number in range(3)))
    assert (answers, server.writes) == ([None] * 3, 2)


# ── new pods ─────────────────────────────────────────────────────────────────


async def test_a_new_pod_is_annotated_with_the_budget_that_selects_it() -> None:
    """admission case 25"""
    replica_set = ("apps/v1", "ReplicaSet", "web-1")
    by_target = budget("by-target", target=DEPLOYMENT, maxUnavailable=1)
    replica = BudgetServer(by_target).replica()
    assert annotations_of(await replica.tie(pod("p", owner=replica_set))) == build_related_annotations(
        "by-target"
    )
    assert annotations_of(await replica.tie(pod("p", owner=CLONE_SET))) == {}
    by_selector = BudgetServer(budget(maxUnavailable=1)).replica()
    assert annotations_of(await by_selector.tie(pod("p", owner=None))) == build_related_annotations("pub")


async def test_the_oldest_budget_gets_the_pod_and_after_it_the_first_by_name() -> None:
    old = budget("z", maxUnavailable=1, created_s_ago=9)
    young = [budget(name, maxUnavailable=1, created_s_ago=5) for name in ("b", "a")]
    assert annotations_of(
        await BudgetServer(*young, old).replica().tie(pod("p"))
    ) == build_related_annotations("z")
    assert annotations_of(await BudgetServer(*young).replica().tie(pod("p"))) == build_related_annotations(
        "a"
    )


# ── what API servers ask about ───────────────────────────────────────────────


def is_asked(asked: AdmissionRequest, *, namespaces: list[str], gates: Gates = BOTH_GATES) -> bool:
    """Return whether the match conditions let the request through, given budgets in these namespaces."""
    meant = [LabelSelection(selector=EVERYTHING, namespaces=(namespace,)) for namespace in namespaces]
    conditions = condition_of(chain_of(gates).judging, {"PodUnavailableBudget": meant, "WorkloadSpread": []})
    assert [type(condition) for condition in conditions] == [MatchCondition]
    assert conditions[0].name == CONDITION
    variables = {
        "object": asked.object,
        "oldObject": asked.old_object,
        "request": {"operation": asked.operation, "namespace": asked.namespace},
    }
    return compile_expression(conditions[0].expression, frozenset(variables)).holds(variables)


@pytest.mark.parametrize(
    ("asked", "is_wanted"),
    [
        (deletion(POD), True),
        (deletion(pod("p1")), False),
        (update(POD, of_image(POD, "nginx:2")), True),
        (update(POD, MARKED), True),
        (update(POD, changed(POD, labels={"a": "b"})), False),
        (update(pod("p1"), of_image(pod("p1"), "nginx:2")), False),
        (eviction("p1"), True),
        (eviction("p1", namespace="elsewhere"), False),
    ],
)
def test_api_servers_review_only_pods_that_a_budget_protects(
    asked: AdmissionRequest, is_wanted: bool
) -> None:
    assert is_asked(asked, namespaces=[NAMESPACE]) is is_wanted
    assert not is_asked(eviction("p1"), namespaces=[])


def test_updates_are_not_reviewed_with_the_gate_off() -> None:
    assert not is_asked(update(POD, of_image(POD, "nginx:2")), namespaces=[NAMESPACE], gates=Gates())


@pytest.mark.parametrize("asked", [deletion(POD), eviction("p1")])
def test_deletions_and_evictions_are_not_reviewed_with_the_gate_off(asked: AdmissionRequest) -> None:
    gates = Gates.of(PodUnavailableBudgetDeleteGate=False, PodUnavailableBudgetUpdateGate=True)
    assert not is_asked(asked, namespaces=[NAMESPACE], gates=gates)


def test_all_evictions_are_reviewed_until_the_namespaces_of_budgets_are_known() -> None:
    (condition,) = condition_of(chain_of().judging, {"WorkloadSpread": []})
    for request_of, is_wanted in ((eviction("p1"), True), (deletion(pod("p1")), False)):
        variables = {
            "object": request_of.object,
            "oldObject": request_of.old_object,
            "request": {"operation": request_of.operation, "namespace": request_of.namespace},
        }
        expression = compile_expression(condition.expression, frozenset(variables))
        assert expression.holds(variables) is is_wanted


def surging(count: int, **metadata: Any) -> BudgetServer:
    """A budget that allows `count` pods, over a CloneSet that creates a successor before an eviction."""
    server = BudgetServer(budget(maxUnavailable=1, status=allowed(count)), pods=[POD])
    annotations = {EVICTION_SURGE.annotation: "1"}
    own = {"name": "web", "uid": "uid-CloneSet-web", "annotations": annotations, **metadata}
    server.clonesets["web"] = {"metadata": own}
    return server


@pytest.mark.parametrize("count", [0, 1])
async def test_an_eviction_waits_for_a_successor_case_67(count: int) -> None:
    server = surging(count)
    refused = await refusal(server, eviction("p1"))
    assert refused is not None
    assert (refused.code, refused.reason) == (429, "TooManyRequests")
    assert refused.message.startswith("CloneSet web creates a successor first (pykruise.io/eviction-surge)")
    assert server.recorded == ["p1"]
    assert server.writes == 0, "it spends nothing"
    # and a deletion is answered without a wait for a successor
    assert (await refusal(server, deletion(POD)) is None) == (count == 1)


async def test_a_dry_run_records_no_eviction_case_67() -> None:
    server = surging(1)
    assert await refusal(server, eviction("p1", options={"dryRun": ["All"]})) is not None
    assert not server.recorded


@pytest.mark.parametrize(("age_s", "is_recorded"), [(59, False), (60, True)])
async def test_a_repeated_request_renews_the_record_once_a_minute_case_67(
    age_s: float, is_recorded: bool
) -> None:
    server = surging(1)
    server.pods["p1"] = changed(POD, annotations={keys.EVICTION_REQUESTED_ANNOTATION: ago(age_s)})
    assert await refusal(server, eviction("p1")) is not None
    assert bool(server.recorded) is is_recorded


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {}},
        {"annotations": {EVICTION_SURGE.annotation: "none"}},
        {"uid": "another"},
        {"deletionTimestamp": ago(1)},
    ],
    ids=["no-option", "invalid", "another-cloneset", "terminating"],
)
async def test_the_budget_decides_where_no_successor_is_created_case_68(metadata: Any) -> None:
    server = surging(1, **metadata)
    assert await refusal(server, eviction("p1")) is None
    assert not server.recorded


async def test_a_pod_that_does_not_serve_is_evicted_immediately_case_68() -> None:
    server = surging(0)
    server.pods["p1"] = tied("p1", ready=False)
    assert await refusal(server, eviction("p1")) is None
    assert not server.recorded
