"""The product with something changed, for as long as a block runs.

Change ──▶ mutated() ──▶ patched in, and out again
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Change", "always", "mutated"]

Change = tuple[Any, str, Any]
"""Where, which name, and a function that makes of what stands there what stands there instead."""


def always(value: Any) -> Callable[[Any], Any]:
    """A function that returns this, whatever it is given."""
    return lambda _original: lambda *_args, **_kwargs: value


@contextmanager
def mutated(changes: tuple[Change, ...]) -> Iterator[None]:
    """The product with these changes, while the block runs."""
    before: list[tuple[Any, str, Any, bool]] = []
    try:
        for where, name, change in changes:
            own = name in vars(where)
            original = vars(where).get(name) if own else getattr(where, name)
            before.append((where, name, original, own))
            setattr(where, name, change(original))
        yield
    finally:
        for where, name, original, _own in reversed(before):
            setattr(where, name, original)
