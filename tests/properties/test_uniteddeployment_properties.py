"""What holds for every division of replicas among subsets, whatever their bounds and how their workloads are."""

from itertools import accumulate

from hypothesis import assume, given
from hypothesis import strategies as st

from pykruise.kinds.uniteddeployment.allocation import (
    UNBOUNDED,
    AllocationError,
    Mode,
    Share,
    allocate,
    scaled,
)
from support.examples import examples

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


def as_is(found: dict) -> dict:
    """A state that can be: at most `current` pods are ready, and pods in reserve are why it is unschedulable."""
    current = found["current"] or 0
    ready = min(found["ready"], current)
    return {**found, "ready": ready, "reserved": min(found["reserved"], current - ready)}


@st.composite
def parts(draw: st.DrawFn) -> list[Share]:
    """Subsets in equal parts, some of which specify a number."""
    count = draw(st.integers(1, 6))
    return [Share(name=f"s{number}", replicas=draw(sizes), **as_is(draw(states))) for number in range(count)]


@st.composite
def bounds(draw: st.DrawFn) -> list[Share]:
    """Subsets with bounds, as admission takes them: one of them at least is unbounded."""
    found = []
    count = draw(st.integers(1, 6))
    unbounded = draw(st.integers(0, count - 1))
    for number in range(count):
        least, more = draw(counts), draw(counts)
        most = None if number == unbounded or draw(st.booleans()) else least + more
        state = as_is(draw(states))
        found.append(Share(name=f"s{number}", min_replicas=least, max_replicas=most, **state))
    return found


def bounds_of(share: Share, replicas: int) -> tuple[int, int]:
    least = scaled(share.min_replicas or 0, of=replicas)
    return least, UNBOUNDED if share.max_replicas is None else scaled(share.max_replicas, of=replicas)


@given(parts(), counts)
@examples(2)
def test_equal_parts_are_all_replicas_and_hardly_differ(shares: list[Share], replicas: int) -> None:
    try:
        found = allocate(shares, replicas=replicas)
    except AllocationError:
        assume(False)
    assert sum(found.values()) == replicas
    equal = [found[one.name] for one in shares if one.replicas is None]
    assert not equal or max(equal) - min(equal) <= 1


@given(parts(), counts, st.randoms(use_true_random=False))
@examples(2)
def test_equal_parts_are_the_same_in_any_order(shares: list[Share], replicas: int, rng) -> None:  # type: ignore[no-untyped-def]
    assume(any(one.replicas is None for one in shares))
    shuffled = list(shares)
    rng.shuffle(shuffled)
    try:
        found = allocate(shares, replicas=replicas)
    except AllocationError:
        assume(False)
    assert allocate(shuffled, replicas=replicas) == found


@given(parts(), counts)
@examples(2)
def test_what_was_divided_once_stays_as_it_is(shares: list[Share], replicas: int) -> None:
    try:
        first = allocate(shares, replicas=replicas)
    except AllocationError:
        assume(False)
    then = [Share(name=one.name, replicas=one.replicas, current=first[one.name]) for one in shares]
    assert allocate(then, replicas=replicas) == first


@given(st.integers(1, 6), counts)
@examples(2)
def test_one_replica_more_moves_no_pod(count: int, replicas: int) -> None:
    first = allocate([Share(name=f"s{number}") for number in range(count)], replicas=replicas)
    then = allocate([Share(name=name, current=size) for name, size in first.items()], replicas=replicas + 1)
    assert sorted(then[name] - size for name, size in first.items()) == [0] * (count - 1) + [1]


@given(bounds(), counts)
@examples(2)
def test_bounds_hold_and_every_replica_has_a_place(shares: list[Share], replicas: int) -> None:
    found = allocate(shares, replicas=replicas)
    assert sum(found.values()) == replicas
    least = [bounds_of(one, replicas)[0] for one in shares]
    for one, before in zip(shares, accumulate([0, *least]), strict=False):
        lowest, highest = bounds_of(one, replicas)
        assert min(lowest, max(replicas - before, 0)) <= found[one.name] <= highest


@given(bounds(), counts)
@examples(2)
def test_with_bounds_one_replica_more_moves_no_pod(shares: list[Share], replicas: int) -> None:
    first, then = (allocate(shares, replicas=number) for number in (replicas, replicas + 1))
    assert sorted(then[name] - size for name, size in first.items()) == [0] * (len(shares) - 1) + [1]


@given(bounds(), counts)
@examples(2)
def test_adaptive_subsets_lose_no_replica_while_one_finds_nodes(shares: list[Share], replicas: int) -> None:
    found = allocate(shares, replicas=replicas, mode=Mode.ADAPTIVE)
    assert sum(found.values()) <= replicas
    for one in shares:
        lowest, highest = bounds_of(one, replicas)
        assert found[one.name] <= highest
        if one.is_unschedulable and one.current is not None:
            assert found[one.name] <= max(lowest, one.ready), "it gets nothing that it could not run"
    roomy = [
        one
        for one in shares
        if one.max_replicas is None and not (one.is_unschedulable and one.current is not None)
    ]
    assert not roomy or sum(found.values()) == replicas


@given(bounds(), counts)
@examples(2)
def test_adaptive_subsets_that_run_their_pods_are_left_alone(shares: list[Share], replicas: int) -> None:
    """Pods that are ready move only because another's minimum asks for their place."""
    first = allocate(shares, replicas=replicas, mode=Mode.ADAPTIVE)
    settled = [
        Share(
            name=one.name,
            min_replicas=one.min_replicas,
            max_replicas=one.max_replicas,
            current=first[one.name],
            ready=first[one.name],
        )
        for one in shares
    ]
    assume(sum(first.values()) == replicas)
    assert allocate(settled, replicas=replicas, mode=Mode.ADAPTIVE) == first


@given(bounds(), counts)
@examples(2)
def test_with_a_reserve_working_replicas_are_what_is_wanted(shares: list[Share], replicas: int) -> None:
    """No more than the replicas and those in reserve; and no fewer while a subset has room."""
    found = allocate(shares, replicas=replicas, mode=Mode.RESERVE)
    held = [
        one for one in shares if one.current is not None and (one.is_unschedulable or one.was_unschedulable)
    ]
    idle = sum(max(found[one.name] - max((one.current or 0) - one.reserved, 0), 0) for one in held)
    assert sum(found.values()) <= replicas + idle
    for one in shares:
        lowest, highest = bounds_of(one, replicas)
        if not (one.is_unschedulable and one.current is not None):
            assert found[one.name] <= highest
        else:
            assert found[one.name] <= max(lowest, one.current or 0)
    roomy = [one for one in shares if one.max_replicas is None and one not in held]
    if roomy and replicas:
        working = sum(
            min(found[one.name], max((one.current or 0) - one.reserved, 0))
            if one in held
            else found[one.name]
            for one in shares
        )
        assert working >= replicas
