"""Where a program that wants traces hears of turns: what was decided, and each write of it.

Reconciler, Executor ──▶ Tracer.span() ──▶ whatever the program records spans with; by default nothing

Pure. Spans lie in each other: `reconcile` holds `snapshot`, `plan` and one `write` for each write.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

__all__ = ["NO_SPANS", "Span"]

Span = Callable[[str, Any, Any], AbstractContextManager[Any]]
"""Begins a span: its name, what it is about (a Resource) and which (a Key)."""

_NOTHING: Final = nullcontext()


def NO_SPANS(_name: str, _resource: Any, _key: Any) -> AbstractContextManager[Any]:  # noqa: N802 - a value
    """Records nothing."""
    return _NOTHING
