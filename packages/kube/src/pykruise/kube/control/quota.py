"""How many do something slow at once, in all and for one key, so that it cannot use up what others need.

key ──▶ Quota.place() ──▶ a place while the block runs, or FullError at once

Nothing waits: a request that is refused is made again. Pure.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["FullError", "Quota"]


class FullError(Exception):
    """There is no place now; the message says whose places are taken."""


class Quota:
    """`most` at once, and `most_of_one` with the same key."""

    def __init__(self, most: int, *, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._taken: Counter[str] = Counter()

    def is_full(self, key: str) -> bool:
        """Whether there is no place for this key now."""
        return self._taken[key] >= self._most_of_one or self._taken.total() >= self._most

    @contextmanager
    def place(self, key: str) -> Iterator[None]:
        """Take a place while the block runs. Raises FullError."""
        if self._taken[key] >= self._most_of_one:
            raise FullError(f"{self._most_of_one} of {key} are under way")
        if self._taken.total() >= self._most:
            raise FullError(f"{self._most} are under way")
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
