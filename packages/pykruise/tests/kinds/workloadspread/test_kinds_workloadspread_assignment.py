"""Subsets of new pods, and slots that deleted pods release. Numbers are cases of the specification."""

import asyncio
import uuid
from typing import Any

import pytest

from pykruise.kube.control.quota import Quota
from pykruise.kube.documents import get_path
from pykruise.kube.errors import UnreachableError
from pykruise.kube.ids import Key
from pykruise.plans.pod_steps import StepError
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from support.spreads import (
    CLONE_SET,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    SpreadServer,
    note,
    placed_in,
    pod,
    spread,
    subset,
    workload,
    zone,
)

NODE_AFFINITY = ("spec", "affinity", "nodeAffinity")
REQUIRED = (*NODE_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
UNSCHEDULABLE = [
    {
        "type": "Schedulable",
        "status": "False",
        "reason": "PodUnschedulable",
        "message": "",
        "lastTransitionTime": "2026-01-31T11:59:00Z",
    }
]


def entry(name: str, missing: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": 0, "missingReplicas": missing, **fields}


def known(*entries: dict[str, Any], version: str = "versionIgnored") -> dict[str, Any]:
    return {"versionedSubsetStatuses": {version: list(entries)}}


# ── subsets ──────────────────────────────────────────────────────────────────


async def test_the_first_subset_is_filled_before_the_next_case_1() -> None:
    # given
    server = SpreadServer(spread(subset("a", 3), subset("b")))
    replica = server.replica()
    # when
    placed = [await replica.create(pod(f"p{number}")) for number in range(5)]
    # then
    assert [placed_in(entry) for entry in placed] == ["a", "a", "a", "b", "b"]
    assert server.missing() == {"a": 0, "b": -1}
    assert set(server.entries()["a"]["creatingPods"]) == {"p0", "p1", "p2"}
    assert "creatingPods" not in server.entries()["b"]
    # no pod is counted before the controller sees it, and pods with names carry no key
    assert [entry["replicas"] for entry in server.entries().values()] == [0, 0]
    assert {matched.uid for entry in placed if (matched := note(entry))} == {""}


async def test_a_pod_of_an_unlimited_subset_is_not_recorded_case_2() -> None:
    server = SpreadServer(spread(subset("a", 0), subset("b")))
    placed = await server.replica().create(pod())
    matched = note(placed)
    assert matched is not None
    assert (matched.subset, matched.uid) == ("b", "")
    assert server.writes == 0


async def test_a_pod_without_a_name_has_the_key_of_its_slot_case_3() -> None:
    server = SpreadServer(
        spread(subset("a", 3), subset("b"), target=DEPLOYMENT),
        owners=[workload(REPLICA_SET, above=DEPLOYMENT)],
    )
    replica = server.replica()
    placed = [
        await replica.create(pod(owner=REPLICA_SET, labels={"pod-template-hash": "h1"})) for _ in range(3)
    ]
    keys = {matched.uid for entry in placed if (matched := note(entry))}
    assert {uuid.UUID(key).version for key in keys} == {4}
    assert len(keys) == 3
    assert set(server.entries(version="h1")["a"]["creatingPods"]) == keys


async def test_a_pod_reviewed_again_gets_its_slot_again_case_4() -> None:
    server = SpreadServer(spread(subset("a", 3), subset("b")))
    replica = server.replica()
    await replica.create(pod("p1"))
    again = await replica.create(pod("p1"))
    assert placed_in(again) == "a"
    assert server.missing()["a"] == 2
    assert server.writes == 1


async def test_a_pod_is_not_changed_when_all_subsets_are_full_case_5() -> None:
    server = SpreadServer(spread(subset("a", 1), subset("b", 1), status=known(entry("a", 0), entry("b", 0))))
    assert await server.replica().create(pod("p1")) is None


async def test_one_subset_without_limit_takes_everything_unnoted_case_6() -> None:
    server = SpreadServer(spread(subset("a")))
    replica = server.replica()
    assert [placed_in(await replica.create(pod(f"p{item}"))) for item in range(3)] == ["a"] * 3
    assert server.writes == 0


async def test_one_subset_with_a_limit_takes_that_many_case_7() -> None:
    server = SpreadServer(spread(subset("a", 2)))
    replica = server.replica()
    assert [placed_in(await replica.create(pod(f"p{item}"))) for item in range(3)] == ["a", "a", ""]


async def test_a_subset_with_limit_0_gets_no_pod_case_8() -> None:
    server = SpreadServer(spread(subset("a", 0), subset("b", 5)))
    assert placed_in(await server.replica().create(pod("p1"))) == "b"


async def test_a_share_is_of_the_workloads_replicas_rounded_up_case_9() -> None:
    server = SpreadServer(spread(subset("a", "30%"), subset("b")), owners=[workload(CLONE_SET, replicas=5)])
    await server.replica().create(pod("p1"))
    assert server.missing()["a"] == 1  # of 2 slots


async def test_a_percentage_of_a_missing_workload_is_full_case_10() -> None:
    server = SpreadServer(spread(subset("a", "50%"), subset("b", "50%")))
    assert await server.replica().create(pod("p1")) is None
    assert server.writes == 0


async def test_a_new_version_begins_with_all_slots_case_11() -> None:
    # given version h1 that fills subset a
    server = SpreadServer(
        spread(
            subset("a", 2),
            subset("b"),
            target=DEPLOYMENT,
            status=known(entry("a", 0), entry("b", -1), version="h1"),
        ),
        owners=[workload(("apps/v1", "ReplicaSet", "web-h2"), above=DEPLOYMENT)],
    )
    # when
    placed = await server.replica().create(
        pod(owner=("apps/v1", "ReplicaSet", "web-h2"), labels={"pod-template-hash": "h2"})
    )
    # then
    assert placed_in(placed) == "a"
    assert server.missing(version="h2")["a"] == 1
    assert server.missing(version="h1")["a"] == 0


async def test_a_subset_without_fitting_nodes_is_passed_over_case_12() -> None:
    server = SpreadServer(
        spread(
            subset("a", 3), subset("b"), status=known(entry("a", 3, conditions=UNSCHEDULABLE), entry("b", -1))
        )
    )
    assert placed_in(await server.replica().create(pod("p1"))) == "b"


async def test_a_closed_subset_without_a_limit_is_passed_over_case_12() -> None:
    status = known(entry("a", -1, conditions=UNSCHEDULABLE), entry("b", -1))
    server = SpreadServer(spread(subset("a"), subset("b"), status=status))
    assert placed_in(await server.replica().create(pod("p1"))) == "b"


async def test_a_dry_run_leaves_no_trace_case_13() -> None:
    server = SpreadServer(spread(subset("a", 3), subset("b")))
    assert await server.replica().create(pod("p1"), dry_run=True) is None
    assert await server.replica().create(pod("p1"), options={"dryRun": ["All"]}) is None
    assert server.writes == 0


# ── WorkloadSpreads ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "state", [{"owner": None}, {"owner": ("apps/v1", "DaemonSet", "web")}, {"deleting": True}]
)
async def test_orphans_pods_of_other_kinds_and_inactive_pods_are_not_changed_case_14(
    state: Any,
) -> None:
    server = SpreadServer(spread(subset("a")))
    assert await server.replica().create(pod("p1", **state)) is None


async def test_a_pod_of_a_replicaset_of_the_deployment_is_placed_case_15() -> None:
    server = SpreadServer(
        spread(subset("a"), target=DEPLOYMENT), owners=[workload(REPLICA_SET, above=DEPLOYMENT)]
    )
    assert placed_in(await server.replica().create(pod(owner=REPLICA_SET))) == "a"


async def test_a_pod_with_a_missing_owner_is_refused_case_16() -> None:
    server = SpreadServer(spread(subset("a"), target=("apps/v1", "Deployment", "another")))
    with pytest.raises(StepError, match="ReplicaSet shop/web-h1 is not there"):
        await server.replica().create(pod(owner=REPLICA_SET))


async def test_versions_of_the_workload_do_not_matter_case_17() -> None:
    server = SpreadServer(spread(subset("a"), target=("apps.kruise.io/v1beta1", "CloneSet", "web")))
    placed = await server.replica().create(pod("p1", owner=("apps.kruise.io/v1alpha1", "CloneSet", "web")))
    assert placed_in(placed) == "a"


async def test_only_pods_that_the_filter_selects_are_placed_case_18() -> None:
    filtered = {"selector": {"matchLabels": {"role": "worker"}}}
    server = SpreadServer(spread(subset("a"), targetFilter=filtered))
    replica = server.replica()
    assert await replica.create(pod("p1", labels={"role": "ps"})) is None
    assert placed_in(await replica.create(pod("p2", labels={"role": "worker"}))) == "a"


async def test_a_filter_without_selector_selects_all_pods_case_19() -> None:
    server = SpreadServer(spread(subset("a"), targetFilter={"replicasPathList": ["spec.replicas"]}))
    assert placed_in(await server.replica().create(pod("p1"))) == "a"


# ── races ────────────────────────────────────────────────────────────────────


async def test_one_of_two_pods_for_one_slot_gets_the_next_subset_case_20() -> None:
    server = SpreadServer(spread(subset("a", 1), subset("b", 5)))
    first, second = server.replica(is_stale=True), server.replica(is_stale=True)
    placed = await asyncio.gather(first.create(pod("p1")), second.create(pod("p2")))
    assert sorted(placed_in(entry) for entry in placed) == ["a", "b"]
    assert server.refused == 1


async def test_after_four_conflicts_the_pod_is_refused_case_21() -> None:
    server = SpreadServer(spread(subset("a", 1)))
    server.conflicts_to_come = 4
    with pytest.raises(StepError, match="4 times before the write"):
        await server.replica().create(pod("p1"))
    assert server.writes == 4
    # when the conflicts are over, the next try of the workload's controller succeeds
    assert placed_in(await server.replica().create(pod("p1"))) == "a"


async def test_a_pod_that_joins_a_refused_batch_has_its_own_four_attempts() -> None:
    # given a pod whose slot meets four conflicts, and a pod that is created after the first two of them
    server = SpreadServer(spread(subset("a", 2)))
    server.conflicts_to_come = 4
    replica = server.replica()
    first = asyncio.create_task(replica.create(pod("p1")))
    await asyncio.sleep(0.05)
    assert server.refused == 2
    second = asyncio.create_task(replica.create(pod("p2")))
    # then the first pod is refused, and the other is not
    with pytest.raises(StepError, match="4 times before the write"):
        await first
    assert placed_in(await second) == "a"
    assert (server.writes, server.missing()) == (5, {"a": 1})


async def test_500_simultaneous_pods_through_two_replicas_never_exceed_a_maximum() -> None:
    # given
    server = SpreadServer(spread(subset("a", 120), subset("b", 200), subset("c")))
    replicas = [server.replica(), server.replica()]
    waiting = asyncio.Semaphore(64)

    async def create(number: int) -> str:
        async with waiting:
            return placed_in(await replicas[number % 2].create(pod(f"p{number}")))

    # when
    placed = await asyncio.gather(*(create(number) for number in range(500)))
    # then
    assert {name: placed.count(name) for name in "abc"} == {"a": 120, "b": 200, "c": 180}
    assert server.missing() == {"a": 0, "b": 0, "c": -1}
    # and each write allocates many slots
    assert server.writes <= 0.2 * 500


async def test_a_cancelled_request_does_not_cancel_others() -> None:
    # given a request that writes for two others, too
    server = SpreadServer(spread(subset("a", 3)))
    replica = server.replica()
    first = asyncio.create_task(replica.create(pod("p1")))
    others = [asyncio.create_task(replica.create(pod(name))) for name in ("p2", "p3")]
    await asyncio.sleep(0.001)
    # when it is cancelled in the middle of its write
    first.cancel()
    # then
    assert [placed_in(entry) for entry in await asyncio.gather(*others)] == ["a", "a"]
    assert server.missing()["a"] in (0, 1)


async def test_a_workload_spread_deleted_in_between_places_no_pod() -> None:
    server = SpreadServer(spread(subset("a", 3)))
    replica = server.replica(is_stale=True)
    del server.spreads["ws"]
    replica.spreading.allocator.updates.note_unknown("uid-ws")
    assert await replica.create(pod("p1")) is None


async def test_a_workloadspread_deleted_during_a_conflict_places_nothing_lift_11() -> None:
    # given a WorkloadSpread that is gone when it is read after a conflict
    server = SpreadServer(spread(subset("a", 3)))
    server.conflicts_to_come = 1
    replica = server.replica()

    async def gone(_: Key) -> None:
        return None

    replica.read_fresh = gone  # type: ignore[method-assign]
    # then
    assert await replica.create(pod("p1")) is None
    assert server.refused == 1


# ── injection ────────────────────────────────────────────────────────────────


async def injected(entry: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    result = await SpreadServer(spread(entry)).replica().create(document)
    assert result is not None
    return result


async def test_the_required_selector_of_a_subset_is_added_to_every_term_case_22() -> None:
    own = [
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
    ]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}
    }
    result = await injected(subset("a", requiredNodeSelector=zone("a")), pod("p1", affinity=affinity))
    terms = get_path(result, *REQUIRED)
    assert [[expression["key"] for expression in term["matchExpressions"]] for term in terms] == [
        ["disk", "zone"],
        ["gpu", "zone"],
    ]


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"affinity": None},
        {"affinity": {"nodeAffinity": None}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": None}
                }
            }
        },
    ],
)
async def test_the_subset_adds_a_term_to_a_pod_without_terms(own: Any) -> None:
    result = await injected(subset("a", requiredNodeSelector=zone("a")), pod("p1", **own))
    assert get_path(result, *REQUIRED) == [zone("a")]


async def test_a_subset_without_selectors_leaves_an_empty_affinity_case_23() -> None:
    result = await injected(subset("a"), pod("p1"))
    assert get_path(result, *NODE_AFFINITY) == {}


@pytest.mark.parametrize("field", ["tolerations", "preferredDuringSchedulingIgnoredDuringExecution"])
@pytest.mark.parametrize("own", [[], None, [{"key": "x", "operator": "Exists"}]])
async def test_tolerations_and_preferences_are_added_to_the_pods_own(field: str, own: Any) -> None:
    # given
    preferred = {"weight": 5, "preference": zone("a")}
    toleration = {"key": "virtual", "operator": "Exists"}
    entry = subset("a", tolerations=[toleration], preferredNodeSelector=[preferred])
    spec = {field: own} if field == "tolerations" else {"affinity": {"nodeAffinity": {field: own}}}
    # when
    result = await injected(entry, pod("p1", **spec))
    # then
    tolerations = result["spec"]["tolerations"]
    preferences = get_path(result, *NODE_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")
    before = own or []
    assert tolerations == [*(before if field == "tolerations" else ()), toleration]
    assert preferences == [*(() if field == "tolerations" else before), preferred]


async def test_a_patch_that_deletes_all_metadata_leaves_the_note() -> None:
    result = await injected(subset("a", patch={"metadata": None}), pod("p1"))
    assert result["metadata"] == {"annotations": {MATCHED_SPREAD_ANNOTATION: '{"name":"ws","subset":"a"}'}}


async def test_a_changed_priority_class_replaces_the_priority_case_24() -> None:
    patch = {"spec": {"priorityClassName": "low"}}
    before = pod("p1", priorityClassName="high", priority=1000)
    assert "priority" not in (await injected(subset("a", patch=patch), before))["spec"]
    same = {"spec": {"priorityClassName": "high"}}
    assert (await injected(subset("a", patch=same), before))["spec"]["priority"] == 1000


async def test_the_note_wins_over_the_patch_case_25() -> None:
    patch = {"metadata": {"annotations": {MATCHED_SPREAD_ANNOTATION: "mine", "other": "1"}}}
    result = await injected(subset("a", patch=patch), pod("p1"))
    assert result["metadata"]["annotations"] == {
        MATCHED_SPREAD_ANNOTATION: '{"name":"ws","subset":"a"}',
        "other": "1",
    }


async def test_a_patch_merges_containers_by_name_and_a_null_deletes() -> None:
    patch = {
        "metadata": {"labels": {"tier": None}},
        "spec": {"containers": [{"name": "main", "env": [{"name": "ZONE", "value": "a"}]}]},
    }
    containers = await injected(subset("a", patch=patch), pod("p1", labels={"tier": "x", "app": "web"}))
    assert containers["metadata"]["labels"] == {"app": "web"}
    [container] = containers["spec"]["containers"]
    assert (container["image"], container["env"]) == ("nginx", [{"name": "ZONE", "value": "a"}])


async def test_a_patch_of_the_wrong_type_refuses_the_pod_case_29() -> None:
    with pytest.raises(StepError, match="patch"):
        await injected(subset("a", patch={"spec": {"containers": "none"}}), pod("p1"))


# ── StatefulSets ─────────────────────────────────────────────────────────────


def of_stateful_set(*subsets: dict[str, Any], **fields: Any) -> SpreadServer:
    return SpreadServer(spread(*subsets, target=STATEFUL_SET, **fields))


async def subsets_of(server: SpreadServer, *ordinals: int, owner: Any = STATEFUL_SET) -> list[str]:
    replica = server.replica()
    return [placed_in(await replica.create(pod(f"web-{ordinal}", owner=owner))) for ordinal in ordinals]


async def test_ordinals_decide_the_subset_of_statefulset_pods_case_26() -> None:
    server = of_stateful_set(subset("a", 5), subset("b", 5), subset("c"))
    assert await subsets_of(server, 0, 4, 5, 9, 10) == ["a", "a", "b", "b", "c"]
    assert server.writes == 0


async def test_an_unschedulable_subset_shifts_the_others_case_27() -> None:
    status = {"subsetStatuses": [entry("a", 5, conditions=UNSCHEDULABLE), entry("b", 5), entry("c", -1)]}
    server = of_stateful_set(subset("a", 5), subset("b", 5), subset("c"), status=status)
    assert await subsets_of(server, 0, 5) == ["b", "c"]


async def test_an_ordinal_beyond_all_limits_has_no_subset_case_28() -> None:
    assert await subsets_of(of_stateful_set(subset("a", 2), subset("b", 2)), 3, 4) == ["b", ""]


async def test_a_stored_share_of_a_statefulset_is_of_its_replicas() -> None:
    """Admission refuses it (workloadspread case 41), but it may be stored already."""
    server = SpreadServer(
        spread(subset("a", "50%"), subset("b", "some"), subset("c"), target=STATEFUL_SET),
        owners=[workload(STATEFUL_SET, replicas=4)],
    )
    assert await subsets_of(server, 0, 1, 2) == ["a", "a", "c"]


async def test_a_statefulset_pod_without_an_ordinal_is_placed_in_the_first_subset() -> None:
    server = of_stateful_set(subset("a", 1), subset("b"))
    assert placed_in(await server.replica().create(pod(owner=STATEFUL_SET))) == "a"


async def test_reserved_ordinals_and_the_start_take_no_place_lift_10() -> None:
    target = ("apps.kruise.io/v1beta1", "StatefulSet", "web")
    numbered = workload(target, reserveOrdinals=[3, 11, "13-14", "no number"], ordinals={"start": 10})
    server = SpreadServer(
        spread(subset("a", 2), subset("b", 1), subset("c"), target=target), owners=[numbered]
    )
    assert await subsets_of(server, 10, 12, 15, 16, owner=target) == ["a", "a", "b", "c"]


# ── deletion and eviction ────────────────────────────────────────────────────


async def full() -> tuple[SpreadServer, dict[str, Any]]:
    """Three of five pods, which fill subset a; p1 as it is stored."""
    server = SpreadServer(spread(subset("a", 3), subset("b")), owners=[workload(CLONE_SET, replicas=5)])
    replica = server.replica()
    for name in ("p1", "p2", "p3"):
        placed = await replica.create(pod(name))
        assert placed is not None
        server.pods[name] = placed
    for item in server.spreads["ws"]["status"]["versionedSubsetStatuses"]["versionIgnored"]:
        item.pop("creatingPods", None)  # the controller has seen them
    server.spreads["ws"]["metadata"]["resourceVersion"] = "99"
    server._version = 99
    return server, server.pods["p1"]


async def test_a_deleted_pod_returns_its_slot_case_30() -> None:
    server, document = await full()
    await server.replica().delete(document)
    assert set(server.entries()["a"]["deletingPods"]) == {"p1"}
    assert server.missing()["a"] == 1


async def test_a_pod_deleted_before_the_controller_has_seen_it_returns_its_slot() -> None:
    # given three pods in a(3), just admitted
    server = SpreadServer(spread(subset("a", 3), subset("b")), owners=[workload(CLONE_SET, replicas=3)])
    replica = server.replica()
    for name in ("p1", "p2", "p3"):
        server.pods[name] = await replica.create(pod(name)) or {}
    assert set(server.entries()["a"]["creatingPods"]) == {"p1", "p2", "p3"}
    # when one is deleted, which is reviewed twice
    for _ in range(2):
        await replica.delete(server.pods["p1"])
    server.pods["p1"]["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    # then its successor gets its slot, and no other pod does
    assert server.missing()["a"] == 1
    placed = [await replica.create(pod(name)) for name in ("p4", "p5")]
    assert [placed_in(entry) for entry in placed] == ["a", "b"]


async def test_an_unseen_pod_beyond_a_lowered_maximum_returns_no_slot() -> None:
    # given two pods that the controller has seen, one that it has not seen, and a maximum that was lowered to two
    server, document = await full()
    server.spreads["ws"]["spec"]["subsets"][0]["maxReplicas"] = 2
    for item in server.spreads["ws"]["status"]["versionedSubsetStatuses"]["versionIgnored"]:
        if item["name"] == "a":
            item |= {"replicas": 2, "missingReplicas": 0, "creatingPods": {"p1": "2026-01-31T12:00:00Z"}}
    # when that one is deleted
    await server.replica().delete(document)
    # then
    assert server.missing()["a"] == 0


async def test_a_slot_is_free_when_its_pod_is_terminating_and_not_when_its_deletion_is_admitted() -> None:
    """An API server refuses a deletion after its admission if the pod no longer meets a precondition."""
    # given
    server, document = await full()
    replica = server.replica()
    await replica.delete(document)
    # when the deletion was refused after its admission, then no pod gets the slot
    assert placed_in(await replica.create(pod("p4"))) == "b"
    # and when the pod terminates at last, only one pod gets its slot
    document["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    placed = [await replica.create(pod(name)) for name in ("p5", "p6")]
    assert [placed_in(entry) for entry in placed] == ["a", "b"]


async def test_a_pod_is_read_only_when_its_slot_is_needed_and_not_again_once_it_terminates() -> None:
    # given a subset with a free slot and two deleted pods
    server, _ = await full()
    replica = server.replica()
    for item in server.spreads["ws"]["status"]["versionedSubsetStatuses"]["versionIgnored"]:
        if item["name"] == "a":
            item |= {"replicas": 2, "missingReplicas": 1}
    for name in ("p1", "p2"):
        await replica.delete(server.pods[name])
        del server.pods[name]
    # when
    result = []
    for number in range(4):
        placed = await replica.create(pod(f"new-{number}"))
        result.append((placed_in(placed), [*replica.pod_reads]))
    # then
    assert result == [("a", []), ("a", ["p1"]), ("a", ["p1", "p2"]), ("b", ["p1", "p2"])]


async def test_pods_of_a_subset_behind_one_with_room_are_not_read() -> None:
    # given room in a, and a terminating pod of b
    server = SpreadServer(
        spread(subset("a", 2), subset("b", 1), subset("c")), owners=[workload(CLONE_SET, replicas=3)]
    )
    placed = [await server.replica().create(pod(f"p{number}")) for number in range(3)]
    assert [placed_in(entry) for entry in placed] == ["a", "a", "b"]
    for item in placed:
        assert item is not None
        server.pods[item["metadata"]["name"]] = item
    for entry in server.spreads["ws"]["status"]["versionedSubsetStatuses"]["versionIgnored"]:
        if entry["name"] == "a":
            entry |= {"replicas": 1, "missingReplicas": 1, "creatingPods": {}}
    replica = server.replica()
    await replica.delete(server.pods["p2"])
    server.pods["p2"]["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    # when, then
    assert placed_in(await replica.create(pod("p3"))) == "a"
    assert replica.pod_reads == []
    assert placed_in(await replica.create(pod("p4"))) == "b"
    assert replica.pod_reads == ["p2"]


async def test_an_unreadable_deleted_pod_refuses_its_successor() -> None:
    """No pod is placed without that read: the workload's controller retries."""
    server, document = await full()
    replica = server.replica()
    await replica.delete(document)

    async def unreachable(namespace: str, name: str) -> Any:
        raise UnreachableError("no API server")

    replica.read_pod = unreachable  # type: ignore[method-assign]
    with pytest.raises(StepError, match="pod shop/p1 cannot be read: no API server"):
        await replica.create(pod("p4"))


async def test_a_pod_created_during_a_deletion_does_not_get_the_slot_yet() -> None:
    # given two deleted pods of three, and one whose deletion is under way
    server, _ = await full()
    replica = server.replica()
    for name in ("p1", "p2"):
        await replica.delete(server.pods[name])
        del server.pods[name]
    # and deletions alone do not read pods
    assert replica.pod_reads == []
    # when four pods are created
    placed, _ = await asyncio.gather(
        asyncio.gather(*(replica.create(pod(f"new-{number}")) for number in range(4))),
        replica.delete(server.pods["p3"]),
    )
    # then
    assert sorted(placed_in(entry) for entry in placed) == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("most", "missing"),
    [
        (2, [0, 1, 2]),
        (1, [0, 0, 1]),
        ("40%", [0, 1, 2]),
        (None, [1, 2, 3]),
        ("some", [1, 2, 3]),
    ],
)
async def test_a_pod_beyond_the_maximum_returns_no_slot(most: int | str | None, missing: list[int]) -> None:
    # given three pods, and a maximum that was lowered later, or removed, or cannot be read; the percentage is of
    # five replicas
    server, _ = await full()
    server.spreads["ws"]["spec"]["subsets"][0]["maxReplicas"] = most
    for item in server.spreads["ws"]["status"]["versionedSubsetStatuses"]["versionIgnored"]:
        if item["name"] == "a":
            item |= {"replicas": 3, "missingReplicas": 0}
    result = []
    # when they are deleted one after the other
    for name in ("p1", "p2", "p3"):
        await server.replica().delete(server.pods[name])
        result.append(server.missing()["a"])
    # then
    assert result == missing


async def test_a_deleted_pod_returns_its_slot_once_case_31() -> None:
    server, document = await full()
    replica = server.replica()
    await replica.delete(document)
    writes = server.writes
    await replica.evict("p1")
    assert (server.writes, server.missing()["a"]) == (writes, 1)


async def test_a_pod_of_an_unlimited_subset_returns_no_slot_case_32() -> None:
    server, _ = await full()
    document = await server.replica().create(pod("p9"))
    assert placed_in(document) == "b"
    assert document is not None
    writes = server.writes
    await server.replica().delete(document)
    assert server.writes == writes


@pytest.mark.parametrize("owner", [CLONE_SET, STATEFUL_SET])
async def test_no_slot_is_returned_when_nothing_is_counted_cases_6_32(owner: Any) -> None:
    # given a single subset without a limit, or slots by ordinals; the status has old counts
    only = [subset("a")] if owner == CLONE_SET else [subset("a", 1), subset("b")]
    server = SpreadServer(spread(*only, target=owner, status=known(entry("a", 0))))
    replica = server.replica()
    # when
    placed = await replica.create(pod("web-0", owner=owner))
    await replica.delete(placed or {})
    # then
    assert placed_in(placed) == "a"
    assert server.writes == 0


async def test_the_workload_is_not_read_without_shares() -> None:
    # given an API server that does not return the workload's replicas
    async def unreachable(_: Any) -> int:
        raise UnreachableError("no API server")

    def replica_of(*subsets: dict[str, Any], **fields: Any) -> Any:
        replica = SpreadServer(spread(*subsets, **fields)).replica()
        replica.read_replicas = unreachable
        return replica

    # then limits that are numbers need no replicas
    counted = replica_of(subset("a", 1), subset("b", 1))
    first = await counted.create(pod("p1"))
    assert placed_in(first) == "a"
    await counted.delete(first)
    by_number = replica_of(subset("a", 1), subset("b"), target=STATEFUL_SET)
    assert placed_in(await by_number.create(pod("web-1", owner=STATEFUL_SET))) == "b"
    # and shares need none, when a slot is released in a subset that has others, or in one with a number as limit
    annotations = {MATCHED_SPREAD_ANNOTATION: '{"name":"ws","subset":"a"}'}
    noted = pod("p1", annotations=annotations)
    status = known(entry("a", 1, replicas=2), entry("b", 0), entry("c", 0))
    await replica_of(subset("a", "50%"), subset("b", "50%"), status=status).delete(noted)
    status = known(entry("a", 0, replicas=2), entry("b", 0))
    await replica_of(subset("a", 2), subset("b", "50%"), status=status).delete(noted)
    # but a share that decides about the slot needs them
    with pytest.raises(StepError):
        await replica_of(subset("a", "50%"), status=status).delete(noted)


@pytest.mark.parametrize(
    "text", ['{"name":"gone","subset":"a"}', '{"name":"ws","subset":"gone"}', '{"name":"ws"}', "no json", ""]
)
async def test_an_annotation_with_an_unknown_name_or_subset_is_ignored_case_33(text: str) -> None:
    server = SpreadServer(spread(subset("a", 3), subset("b")))
    await server.replica().delete(pod("p1", annotations={MATCHED_SPREAD_ANNOTATION: text}))
    assert server.writes == 0


@pytest.mark.parametrize("state", [{"deleting": True}, {"phase": "Failed"}, {"owner": None}])
async def test_an_inactive_pod_returns_no_slot_case_34(state: Any) -> None:
    server, _ = await full()
    writes = server.writes
    annotations = {MATCHED_SPREAD_ANNOTATION: '{"name":"ws","subset":"a"}'}
    await server.replica().delete(pod("p1", annotations=annotations, **state))
    assert server.writes == writes


async def test_a_dry_eviction_leaves_no_trace_case_35() -> None:
    server, document = await full()
    writes = server.writes
    await server.replica().evict("p1", dry_run=True)
    await server.replica().delete(document, options={"dryRun": ["All"]})
    assert server.writes == writes


async def test_the_eviction_of_a_missing_pod_is_left_to_the_api_server() -> None:
    server, _ = await full()
    writes = server.writes
    await server.replica().evict("p7")
    assert server.writes == writes


async def test_an_eviction_whose_slot_cannot_be_released_gets_429_and_a_deletion_500() -> None:
    """A client that drains a node stops at any error code except 429."""
    # given an API server that rejects each write of the status
    server, document = await full()
    server.conflicts_to_come = 10_000
    # then
    with pytest.raises(StepError) as error:
        await server.replica().evict("p1")
    assert error.value.code == 429
    with pytest.raises(StepError) as error:
        await server.replica().delete(document)
    assert error.value.code == 500


async def test_a_restarted_replica_continues_from_the_stored_status() -> None:
    # given a replica that has allocated two of three slots, and ends
    server = SpreadServer(spread(subset("a", 3), subset("b")))
    first = server.replica()
    await first.create(pod("p1"))
    await first.create(pod("p2"))
    # when another replica starts
    second = server.replica()
    # then
    placed = [await second.create(pod(name)) for name in ("p2", "p3", "p4")]
    assert [placed_in(entry) for entry in placed] == ["a", "a", "b"]
    assert server.missing()["a"] == 0


# ── a slow API server ────────────────────────────────────────────────────────


async def test_pods_of_one_namespace_wait_for_a_slow_store_without_using_up_what_others_need() -> None:
    # given
    quota = Quota(4, most_of_one=2)
    server = SpreadServer(spread(subset("a", 9)))
    replica = server.replica(quota=quota)
    # when more pods are created at the same time than may wait
    answers = await asyncio.gather(
        *(replica.create(pod(f"p{number}")) for number in range(5)), return_exceptions=True
    )
    # then the pods beyond the limit must retry
    refused = [answer for answer in answers if isinstance(answer, StepError)]
    assert [step_error.code for step_error in refused] == [429] * 3
    assert "too many pods wait for their slot in a WorkloadSpread: the limit of 2 for shop" in str(refused[0])
    # and the others got their slots, and waiting is possible again
    assert [placed_in(answer) for answer in answers if isinstance(answer, dict)] == ["a", "a"]
    assert placed_in(await replica.create(pod("again"))) == "a"
