"""Invariants of every division of replicas among subsets, and of every plan, for any order of events."""

from itertools import accumulate
from random import Random
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from pykruise.kinds.uniteddeployment.allocation import (
    UNBOUNDED,
    AllocationError,
    Mode,
    SubsetShare,
    allocate,
    resolve_amount,
)
from pykruise.kinds.uniteddeployment.workloads import RESERVED_LABEL
from pykruise.runtime.actions import Action
from support.examples import examples
from support.united_world import UnitedWorld

counts = st.integers(0, 12)
sizes = st.one_of(st.none(), counts, st.integers(0, 100).map(lambda number: f"{number}%"))
states = st.fixed_dictionaries(
    {
        "current": st.none() | counts,
        "ready": counts,
        "reserved": counts,
        "is_unschedulable": st.booleans(),
        "was_unschedulable": st.booleans(),
    }
)


def as_is(value: dict) -> dict:
    """A possible state: at most `current` pods are ready, and only pods that are not ready are reserved."""
    current = value["current"] or 0
    ready = min(value["ready"], current)
    return {**value, "ready": ready, "reserved": min(value["reserved"], current - ready)}


@st.composite
def parts(draw: st.DrawFn) -> list[SubsetShare]:
    """Subsets in equal parts, some of which specify a number."""
    count = draw(st.integers(1, 6))
    return [
        SubsetShare(name=f"s{number}", replicas=draw(sizes), **as_is(draw(states))) for number in range(count)
    ]


@st.composite
def bounds(draw: st.DrawFn) -> list[SubsetShare]:
    """Subsets with bounds that admission accepts: at least one has no upper bound."""
    shares = []
    count = draw(st.integers(1, 6))
    unbounded = draw(st.integers(0, count - 1))
    for number in range(count):
        least, more = draw(counts), draw(counts)
        most = None if number == unbounded or draw(st.booleans()) else least + more
        state = as_is(draw(states))
        shares.append(SubsetShare(name=f"s{number}", min_replicas=least, max_replicas=most, **state))
    return shares


def bounds_of(share: SubsetShare, replicas: int) -> tuple[int, int]:
    least = resolve_amount(share.min_replicas or 0, of=replicas)
    return least, UNBOUNDED if share.max_replicas is None else resolve_amount(share.max_replicas, of=replicas)


@given(parts(), counts)
@examples(2)
def test_all_parts_sum_to_the_replicas_and_equal_ones_hardly_differ(
    shares: list[SubsetShare], replicas: int
) -> None:
    try:
        result = allocate(shares, replicas=replicas)
    except AllocationError:
        assume(False)
    assert sum(result.values()) == replicas
    equal = [result[share.name] for share in shares if share.replicas is None]
    assert not equal or max(equal) - min(equal) <= 1


@given(parts(), counts, st.randoms(use_true_random=False))
@examples(2)
def test_equal_parts_are_the_same_in_any_order(shares: list[SubsetShare], replicas: int, rng: Random) -> None:
    assume(any(share.replicas is None for share in shares))
    shuffled = list(shares)
    rng.shuffle(shuffled)
    try:
        result = allocate(shares, replicas=replicas)
    except AllocationError:
        assume(False)
    assert allocate(shuffled, replicas=replicas) == result


@given(parts(), counts)
@examples(2)
def test_an_allocation_is_stable(shares: list[SubsetShare], replicas: int) -> None:
    try:
        first = allocate(shares, replicas=replicas)
    except AllocationError:
        assume(False)
    then = [
        SubsetShare(name=share.name, replicas=share.replicas, current=first[share.name]) for share in shares
    ]
    assert allocate(then, replicas=replicas) == first


@given(st.integers(1, 6), counts)
@examples(2)
def test_one_replica_more_moves_no_pod(count: int, replicas: int) -> None:
    first = allocate([SubsetShare(name=f"s{number}") for number in range(count)], replicas=replicas)
    then = allocate(
        [SubsetShare(name=name, current=size) for name, size in first.items()], replicas=replicas + 1
    )
    assert sorted(then[name] - size for name, size in first.items()) == [0] * (count - 1) + [1]


@given(bounds(), counts)
@examples(2)
def test_bounds_hold_and_every_replica_has_a_subset(shares: list[SubsetShare], replicas: int) -> None:
    result = allocate(shares, replicas=replicas)
    assert sum(result.values()) == replicas
    least = [bounds_of(item, replicas)[0] for item in shares]
    for share, before in zip(shares, accumulate([0, *least]), strict=False):
        lowest, highest = bounds_of(share, replicas)
        assert min(lowest, max(replicas - before, 0)) <= result[share.name] <= highest


@given(bounds(), counts)
@examples(2)
def test_one_more_replica_moves_no_pod_within_bounds(shares: list[SubsetShare], replicas: int) -> None:
    first, then = (allocate(shares, replicas=number) for number in (replicas, replicas + 1))
    assert sorted(then[name] - size for name, size in first.items()) == [0] * (len(shares) - 1) + [1]


@given(bounds(), counts)
@examples(2)
def test_adaptive_subsets_lose_no_replica_while_one_finds_nodes(
    shares: list[SubsetShare], replicas: int
) -> None:
    nodes = allocate(shares, replicas=replicas, mode=Mode.ADAPTIVE)
    assert sum(nodes.values()) <= replicas
    for share in shares:
        lowest, highest = bounds_of(share, replicas)
        assert nodes[share.name] <= highest
        if share.is_unschedulable and share.current is not None:
            assert nodes[share.name] <= max(lowest, share.ready), "it gets nothing that it could not run"
    roomy = [
        item
        for item in shares
        if item.max_replicas is None and not (item.is_unschedulable and item.current is not None)
    ]
    assert not roomy or sum(nodes.values()) == replicas


@given(bounds(), counts)
@examples(2)
def test_adaptive_subsets_with_ready_pods_are_not_changed(shares: list[SubsetShare], replicas: int) -> None:
    """Ready pods move only because the minimum of another subset requires it."""
    first = allocate(shares, replicas=replicas, mode=Mode.ADAPTIVE)
    settled = [
        SubsetShare(
            name=share.name,
            min_replicas=share.min_replicas,
            max_replicas=share.max_replicas,
            current=first[share.name],
            ready=first[share.name],
        )
        for share in shares
    ]
    assume(sum(first.values()) == replicas)
    assert allocate(settled, replicas=replicas, mode=Mode.ADAPTIVE) == first


@given(bounds(), counts, st.lists(counts, min_size=6, max_size=6))
@examples(2)
def test_pods_that_become_ready_before_an_adaptive_allocation_is_executed_do_not_change_it(
    shares: list[SubsetShare], replicas: int, more: list[int]
) -> None:
    first = allocate(shares, replicas=replicas, mode=Mode.ADAPTIVE)
    written = [
        msgspec.structs.replace(
            share,
            current=first[share.name],
            ready=share.ready + late,
            # A subset without a workload has no pods that could be unschedulable.
            is_unschedulable=share.is_unschedulable and share.current is not None,
        )
        for share, late in zip(shares, more, strict=False)
    ]
    assert allocate(written, replicas=replicas, mode=Mode.ADAPTIVE) == first


@given(bounds(), counts)
@examples(2)
def test_working_replicas_equal_the_desired_ones_in_reserve_mode(
    shares: list[SubsetShare], replicas: int
) -> None:
    """All pods are at most the replicas plus the idle ones; enough of them work if a subset has room."""
    result = allocate(shares, replicas=replicas, mode=Mode.RESERVE)
    held = [
        item
        for item in shares
        if item.current is not None and (item.is_unschedulable or item.was_unschedulable)
    ]
    idle = sum(max(result[item.name] - max((item.current or 0) - item.reserved, 0), 0) for item in held)
    assert sum(result.values()) <= replicas + idle
    for share in shares:
        lowest, highest = bounds_of(share, replicas)
        if not (share.is_unschedulable and share.current is not None):
            assert result[share.name] <= highest
        else:
            assert result[share.name] <= max(lowest, share.current or 0)
    roomy = [item for item in shares if item.max_replicas is None and item not in held]
    if roomy and replicas:
        working = sum(
            min(result[item.name], max((item.current or 0) - item.reserved, 0))
            if item in held
            else result[item.name]
            for item in shares
        )
        assert working >= replicas


# ── plans, carried out in part, in a world that changes ──────────────────


class Watched(UnitedWorld):
    """Checks every write: after a scale-up all workloads together do not have more than the replicas."""

    def write(self, action: Action) -> None:
        before = self._total()
        super().write(action)
        after = self._total()
        assert after <= max(before, self.spec["replicas"]), f"{before} became {after}"

    def _total(self) -> int:
        names = {subset["name"] for subset in self.spec["topology"]["subsets"]}
        return sum(size for name, size in self.sizes().items() if name in names)


@st.composite
def topologies(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Two to four subsets: in equal parts, or with bounds, the last one unbounded."""
    names = draw(st.permutations("abcd"))[: draw(st.integers(2, 4))]
    subsets: list[dict[str, Any]] = [{"name": name} for name in names]
    if draw(st.booleans()):
        for topologies in subsets[:-1]:
            least = draw(st.integers(0, 2))
            topologies |= {"minReplicas": least, "maxReplicas": least + draw(st.integers(0, 3))}
    return subsets


events = st.one_of(
    st.tuples(st.just("scale"), st.integers(0, 9)),
    st.tuples(st.just("subsets"), topologies()),
    st.tuples(st.just("image"), st.integers(1, 3)),
    st.tuples(st.just("close"), st.sampled_from("abcd")),
    st.tuples(st.just("open"), st.sampled_from("abcd")),
    st.tuples(st.just("evict"), st.sampled_from("abcd")),
    st.tuples(st.just("time"), st.sampled_from([5, 31, 301])),
    st.tuples(st.just("act"), st.none()),
    st.tuples(st.just("sync"), st.none() | st.integers(0, 3)),
)


def happen(world: UnitedWorld, event: str, value: Any) -> None:
    match event:
        case "scale":
            world.change(replicas=value)
        case "subsets":
            world.set_subsets(*value)
        case "image":
            world.set_image(f"nginx:{value}")
        case "close":
            world.close(value)
        case "open":
            world.open(value)
        case "evict":
            world.evict(value)
        case "time":
            world.pass_time(value)
        case "act":
            world.act()
        case "sync":
            world.carry_out(world.plan(), writes=value)


@given(topologies(), st.integers(0, 9), st.booleans(), st.lists(events, max_size=14))
@examples(1)
def test_replicas_are_conserved_at_every_write(
    subsets: list[dict[str, Any]], replicas: int, is_adaptive: bool, story: list[tuple[str, Any]]
) -> None:
    world = Watched(*subsets, replicas=replicas)
    if is_adaptive:
        world.spec["topology"]["scheduleStrategy"] = {"type": "Adaptive"}
    for event, value in story:
        happen(world, event, value)
    world.open(*"abcd").pass_time(1000).settle(30)
    world.pass_time(1000).settle(30)
    sizes = world.sizes()
    assert set(sizes) == {item["name"] for item in world.spec["topology"]["subsets"]}
    assert sum(sizes.values()) == world.spec["replicas"] == world.status["replicas"]
    for subset in world.spec["topology"]["subsets"]:
        assert sizes[subset["name"]] <= subset.get("maxReplicas", 99)
    assert world.status["currentRevision"] == world.status["updatedRevision"]
    assert world.plan().is_settled


@given(topologies(), st.integers(0, 9), st.lists(events, max_size=8), st.randoms(use_true_random=False))
@examples(1)
def test_a_plan_does_not_depend_on_the_order_in_which_objects_are_listed(
    subsets: list[dict[str, Any]], replicas: int, story: list[tuple[str, Any]], rng: Random
) -> None:
    world = UnitedWorld(*subsets, replicas=replicas)
    for event, value in story:
        happen(world, event, value)
    plan = world.plan()
    for field in ("workloads", "pods", "revisions"):
        items = list(getattr(world, field).items())
        rng.shuffle(items)
        setattr(world, field, dict(items))
    assert world.plan() == plan


@given(topologies(), st.integers(0, 9), st.lists(events, max_size=14))
@examples(1)
def test_all_reserved_pods_finally_work_again(
    subsets: list[dict[str, Any]], replicas: int, story: list[tuple[str, Any]]
) -> None:
    """Substitutes are deleted, and every pod works."""
    world = UnitedWorld(*subsets, replicas=replicas)
    adaptive = {"reserveUnschedulablePods": True, "unschedulableDuration": 60}
    world.spec["topology"]["scheduleStrategy"] = {"type": "Adaptive", "adaptive": adaptive}
    for event, value in story:
        happen(world, event, value)
    world.open(*"abcd")
    for _ in range(4):
        world.settle(40).pass_time(301)
    world.settle(40)
    assert sum(world.sizes().values()) == world.spec["replicas"] == world.status["replicas"]
    assert world.status.get("reservedPods", 0) == 0
    names = [item["name"] for item in world.spec["topology"]["subsets"]]
    assert {label for name in names for label in world.labels(RESERVED_LABEL, name)} <= {"false"}
    for subset in world.spec["topology"]["subsets"]:
        assert world.sizes()[subset["name"]] <= subset.get("maxReplicas", 99)
