"""Shortens a script that breaks a rule: parts are removed as long as the same rule is still broken.

script, rule ──▶ shrink_greedily() ──▶ a shorter script that breaks the same rule
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

__all__ = ["iterate_without_parts", "replace_item", "shrink_greedily"]

S = TypeVar("S")
T = TypeVar("T")


def shrink_greedily(
    script: S,
    rule: str,
    *,
    smaller: Callable[[S], Iterator[S]],
    rule_of: Callable[[S], str],
    most_runs: int,
    most_s: float,
) -> S:
    """Return the shortest script that was found and still breaks `rule`, after at most `most_runs` runs or `most_s`
    seconds of CPU. `smaller` yields shorter scripts, each without one part; `rule_of` plays a script.
    """
    runs = 0
    begun = time.process_time()
    is_changed = True
    while is_changed:
        is_changed = False
        for candidate in smaller(script):
            if runs >= most_runs or time.process_time() - begun > most_s:
                return script
            runs += 1
            if rule_of(candidate) == rule:
                script, is_changed = candidate, True
                break
    return script


def iterate_without_parts(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yield the items without one part, the largest parts first."""
    size = len(items)
    while size >= 1:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2


def replace_item(items: Sequence[Any], number: int, item: Any) -> tuple[Any, ...]:
    """Return the items, with the item at this place replaced."""
    return (*items[:number], item, *items[number + 1 :])
