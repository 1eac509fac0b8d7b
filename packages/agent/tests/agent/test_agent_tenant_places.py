"""Places of tenants: what one pod or namespace holds never keeps others from getting a place."""

from hypothesis import given
from hypothesis import strategies as st

from pykruise.agent.tenant_places import TenantPlaces

NAMES = st.sampled_from("abcd")


def test_a_pod_holds_at_most_its_number_of_places() -> None:
    places = TenantPlaces(100, most_of_pod=3)
    assert [places.try_take("ns", "pod") for _ in range(4)] == [True, True, True, False]
    places.release("ns", "pod")
    assert places.try_take("ns", "pod")


def test_a_namespace_with_many_pods_leaves_half_of_the_places_to_others() -> None:
    places = TenantPlaces(100, most_of_pod=8)
    assert sum(places.try_take("greedy", str(number)) for number in range(1000)) == 50
    assert sum(places.try_take("second", str(number)) for number in range(1000)) == 25
    assert places.try_take("modest", "pod")


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
