"""WorkloadSpreads of a new pod: by its owners, and by the white list of further kinds."""

from collections.abc import Sequence

import pytest

from pykruise.kube.documents import deep_copy
from pykruise.kube.errors import UnreachableError
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.workload.allowed_workloads import AllowedList, WhiteList, WhiteListError
from support.spreads import (
    CLONE_SET,
    DEPLOYMENT,
    REPLICA_SET,
    SpreadServer,
    note,
    placed_in,
    pod,
    spread,
    subset,
    workload,
)

ROLLOUT = ("argoproj.io/v1alpha1", "Rollout", "web")
STEP = ("argoproj.io/v1alpha1", "RolloutStep", "web-1")
ROLLOUTS = AllowedList(
    target=GroupKind("argoproj.io", "Rollout"), owners=(GroupKind("argoproj.io", "RolloutStep"),)
)


def levels(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [record.levelname for record in caplog.records]


# ── by owners ────────────────────────────────────────────────────────────────


async def test_the_first_of_two_workload_spreads_for_a_pod_by_name_counts() -> None:
    server = SpreadServer(spread(subset("x"), name="b"), spread(subset("x"), name="a"))
    matched = note(await server.replica().create(pod("p1")))
    assert matched is not None
    assert matched.name == "a"


async def test_a_terminating_or_targetless_workloadspread_places_nothing() -> None:
    # given an owner that does not exist: a pod that a WorkloadSpread may select would be refused
    going = spread(subset("a"))
    going["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    nameless = spread(subset("a"), name="nameless", target=("apps/v1", "Deployment", ""))
    assert await SpreadServer(going, nameless).replica().create(pod("p1")) is None


async def test_a_workloadspread_with_an_unreadable_filter_places_nothing() -> None:
    filtered = {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
    assert await SpreadServer(spread(subset("a"), targetFilter=filtered)).replica().create(pod("p1")) is None


@pytest.mark.parametrize(
    "owners",
    [
        # no owner of the ReplicaSet
        [workload(REPLICA_SET)],
        # owners in a circle
        [workload(REPLICA_SET, above=DEPLOYMENT), workload(DEPLOYMENT, above=REPLICA_SET)],
        # an unknown kind: its owner, which does not exist, is not read
        [workload(REPLICA_SET, above=ROLLOUT)],
        # an owner with an invalid apiVersion
        [workload(REPLICA_SET, above=("a/b/c", "Deployment", "another"))],
    ],
)
async def test_a_pod_has_no_workloadspread_when_the_target_is_not_among_its_owners(
    owners: list[dict[str, object]],
) -> None:
    server = SpreadServer(spread(subset("a"), target=("apps/v1", "Deployment", "another")), owners=owners)
    assert await server.replica().create(pod(owner=REPLICA_SET)) is None


async def test_owners_are_read_once_for_all_workloadspreads() -> None:
    # given
    another = spread(subset("a"), name="another", target=("apps/v1", "Deployment", "another"))
    owners = [workload(REPLICA_SET, above=DEPLOYMENT), workload(DEPLOYMENT)]
    replica = SpreadServer(another, spread(subset("b"), target=DEPLOYMENT), owners=owners).replica()
    # when, then: the owner of the ReplicaSet, and the owner of the Deployment
    assert placed_in(await replica.create(pod(owner=REPLICA_SET))) == "b"
    assert replica.owner_reads == 2


# ── the white list ───────────────────────────────────────────────────────────


async def test_a_kind_of_the_white_list_is_found_through_its_parts() -> None:
    server = SpreadServer(spread(subset("a"), target=ROLLOUT), owners=[workload(STEP, above=ROLLOUT)])
    # given the kind is not on the list: its owners are not followed, and its own pods are not placed
    assert await server.replica().create(pod("p1", owner=STEP)) is None
    assert await server.replica().create(pod("p1", owner=ROLLOUT)) is None
    # given the kind is on the list
    server.white_list = WhiteList(workloads=(ROLLOUTS,))
    assert placed_in(await server.replica().create(pod("p1", owner=STEP))) == "a"


async def test_the_white_list_counts_beside_workloads_of_built_in_kinds() -> None:
    server = SpreadServer(
        spread(subset("a")), spread(subset("x"), target=ROLLOUT, name="custom"), owners=[workload(CLONE_SET)]
    )
    server.white_list = WhiteList(workloads=(ROLLOUTS,))
    assert placed_in(await server.replica().create(pod("p1"))) == "a"
    assert placed_in(await server.replica().create(pod("p2", owner=ROLLOUT))) == "x"


async def test_a_white_list_that_cannot_be_read_stops_no_pod() -> None:
    """operations case 29"""
    server = SpreadServer(
        spread(subset("x"), target=ROLLOUT, name="custom"), spread(subset("a")), owners=[workload(CLONE_SET)]
    )
    server.white_list = WhiteListError("no JSON")
    replica = server.replica()
    # pods of built-in kinds are spread, others are not changed
    assert placed_in(await replica.create(pod("p1"))) == "a"
    assert await replica.create(pod("p2", owner=ROLLOUT)) is None


async def test_a_white_list_that_cannot_be_read_is_logged_once_until_it_is_mended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """operations case 29"""
    server = SpreadServer(spread(subset("x"), target=ROLLOUT))
    replica = server.replica()
    for result, logged in (
        (WhiteListError("no JSON"), 1),
        (WhiteListError("no JSON"), 1),
        (WhiteListError("no list"), 2),
        (WhiteList(), 2),
        (WhiteListError("no list"), 3),
    ):
        server.white_list = result
        await replica.create(pod("p1", owner=ROLLOUT))
        assert levels(caplog) == ["WARNING"] * logged


async def test_the_white_list_is_not_read_for_built_in_workload_kinds() -> None:
    replica = SpreadServer(spread(subset("a"))).replica()

    async def unreachable() -> WhiteList:
        raise UnreachableError("no API server")

    replica.read_white_list = unreachable  # type: ignore[method-assign]
    assert placed_in(await replica.create(pod("p1"))) == "a"


# ── notes ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "logged"),
    [(None, []), ("no json", ["WARNING"]), ('{"subset":"a"}', ["WARNING"]), ('{"name":"gone"}', [])],
)
async def test_an_unreadable_subset_annotation_is_logged_when_its_pod_is_deleted(
    text: str | None, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    document = pod("p1", annotations={} if text is None else {MATCHED_SPREAD_ANNOTATION: text})
    await SpreadServer(spread(subset("a", 1))).replica().delete(deep_copy(document))
    assert levels(caplog) == logged
