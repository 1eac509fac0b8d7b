"""A change of the product while a block runs.

Change ──▶ mutated() ──▶ applied, and reverted at the end of the block
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from pykruise.runtime import named_objects as named

__all__ = ["Change", "always", "mutated", "trusts_the_cache"]

Change = tuple[Any, str, Any]
"""The object, the name, and a function that returns the replacement of the value."""


def always(value: Any) -> Callable[[Any], Any]:
    """A function that always returns this value."""
    return lambda _original: lambda *_args, **_kwargs: value


def _never_asks(_original: Any) -> Any:
    async def ask(*_: Any) -> None:
        return None

    return ask


trusts_the_cache: Change = (named, "_ask", _never_asks)
"""A named object that is not in a cache counts as deleted."""


@contextmanager
def mutated(changes: tuple[Change, ...]) -> Iterator[None]:
    """The product with these changes, while the block runs."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for where, name, change in changes:
            original = (
                getattr(where, name) if _is_value(where) else vars(where).get(name, getattr(where, name))
            )
            before.append((where, name, original))
            _set(where, name, change(original))
        yield
    finally:
        for where, name, original in reversed(before):
            _set(where, name, original)


def _is_value(where: Any) -> bool:
    """Whether it is a frozen value, such as a kind's Control, and no module or class."""
    return isinstance(where, msgspec.Struct)


def _set(where: Any, name: str, value: Any) -> None:
    if _is_value(where):
        msgspec.structs.force_setattr(where, name, value)
    else:
        setattr(where, name, value)
