"""Limits how many slow operations run at the same time, in total and per key, so that one key cannot use up
everything.

key ──▶ Quota.place() ──▶ a place while the block runs, or FullError immediately

No request waits: the sender repeats a rejected request. Pure.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["FullError", "Quota"]


class FullError(Exception):
    """No place is free; the message names the limit that is reached."""


class Quota:
    """At most `most` operations at the same time, and at most `most_of_one` of them with the same key."""

    def __init__(self, most: int, *, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._taken: Counter[str] = Counter()

    def is_full(self, key: str) -> bool:
        """Whether no place is free for this key."""
        return self._taken[key] >= self._most_of_one or self._taken.total() >= self._most

    @contextmanager
    def place(self, key: str) -> Iterator[None]:
        """Take a place while the block runs. Raises FullError."""
        if self._taken[key] >= self._most_of_one:
            raise FullError(f"the limit of {self._most_of_one} for {key} is reached")
        if self._taken.total() >= self._most:
            raise FullError(f"the limit of {self._most} is reached")
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
