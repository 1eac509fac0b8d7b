"""Delivery: order, handlers that fail, and handlers that make changes themselves."""

from typing import Any

from pykruise.kube.cache.delivery import Delivery
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key


def change(name: str) -> Change[Any]:
    return Change(Key("default", name), None, None)


def test_a_handler_that_fails_is_counted_and_the_others_are_called() -> None:
    # given
    delivery: Delivery[Any] = Delivery("pods")
    seen: list[str] = []

    def fail(change: Change[Any]) -> None:
        raise RuntimeError(change.key.name)

    delivery.subscribe(fail)
    delivery.subscribe(lambda change: seen.append(change.key.name))
    # when
    for name in "ab":
        delivery.put(change(name))
    delivery.deliver()
    # then
    assert (seen, delivery.failures) == (["a", "b"], 2)


def test_a_change_made_by_a_handler_is_delivered_to_all_after_the_present_one() -> None:
    # given
    delivery: Delivery[Any] = Delivery("pods")
    seen: list[tuple[int, str]] = []

    def first(given: Change[Any]) -> None:
        seen.append((1, given.key.name))
        if given.key.name == "a":
            delivery.put(change("b"))
            delivery.deliver()

    delivery.subscribe(first)
    delivery.subscribe(lambda given: seen.append((2, given.key.name)))
    # when
    delivery.put(change("a"))
    delivery.deliver()
    # then
    assert seen == [(1, "a"), (2, "a"), (1, "b"), (2, "b")]


def test_changes_before_a_subscription_and_after_its_end_are_left_out() -> None:
    delivery: Delivery[Any] = Delivery("pods")
    seen: list[str] = []
    delivery.put(change("before"))
    end = delivery.subscribe(lambda change: seen.append(change.key.name))
    delivery.put(change("during"))
    delivery.deliver()
    end()
    delivery.put(change("after"))
    delivery.deliver()
    assert seen == ["during"]
