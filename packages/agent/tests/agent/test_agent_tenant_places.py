"""Places of tenants: the places that one pod or namespace holds never prevent others from getting a place."""

from hypothesis import given
from hypothesis import strategies as st

from pykruise.agent.tenant_places import TenantPlaces

NAMES = st.sampled_from("abcd")


def take_all(places: TenantPlaces, namespace: str, pods: int) -> int:
    """Number of places that these pods get when each takes as many as it can."""
    return sum(places.try_take(namespace, str(pod)) for _ in range(8) for pod in range(pods))


def test_a_pod_holds_at_most_its_number_of_places() -> None:
    places = TenantPlaces(100, most_of_pod=3)
    assert [places.try_take("ns", "pod") for _ in range(4)] == [True, True, True, False]
    places.release("ns", "pod")
    assert places.try_take("ns", "pod")


def test_a_namespace_with_many_pods_leaves_half_of_the_places_to_others() -> None:
    assert take_all(TenantPlaces(256, most_of_pod=8), "greedy", 500) == 128


def test_a_few_slow_pods_leave_places_to_other_pods_of_their_namespace() -> None:
    places = TenantPlaces(256, most_of_pod=8)
    assert take_all(places, "ns", 40) == 96
    assert [places.try_take("ns", f"modest-{number}") for number in range(32)] == [True] * 32
    assert not places.try_take("ns", "modest-0")


def test_greedy_namespaces_leave_a_place_to_each_of_many_others() -> None:
    places = TenantPlaces(256, most_of_pod=8)
    for number in range(10):
        assert take_all(places, f"greedy-{number}", 500) > 0
    assert [places.try_take(f"modest-{number}", "pod") for number in range(50)] == [True] * 50


@given(st.lists(st.tuples(NAMES, NAMES, st.booleans())))
def test_a_released_place_is_free_again(steps: list[tuple[str, str, bool]]) -> None:
    places, held = TenantPlaces(12, most_of_pod=3), list[tuple[str, str]]()
    for namespace, pod, takes in steps:
        if takes and places.try_take(namespace, pod):
            held.append((namespace, pod))
        elif not takes and held:
            places.release(*held.pop(0))
        assert len(held) <= 12
    for holder in held:
        places.release(*holder)
    assert sum(places.try_take("ns", str(number)) for number in range(20)) == 6
