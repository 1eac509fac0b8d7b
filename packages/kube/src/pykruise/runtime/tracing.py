"""Trace spans of reconciles: the decision and each of its writes.

Reconciler, Executor ──▶ Span ──▶ the program's recorder of spans; by default NO_SPANS, which records nothing

Pure. Spans are nested: `reconcile` contains `snapshot`, `plan` and one `write` for each write.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

__all__ = ["NO_SPANS", "Span"]

Span = Callable[[str, Any, Any], AbstractContextManager[Any]]
"""Begins a span: its name, its Resource and the Key of its object."""

_NOTHING: Final = nullcontext()


def NO_SPANS(_name: str, _resource: Any, _key: Any) -> AbstractContextManager[Any]:  # noqa: N802 - a value
    """Record nothing."""
    return _NOTHING
