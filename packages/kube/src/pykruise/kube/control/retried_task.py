"""Retried work: each attempt runs in a task of its own.

A TaskGroup that one of its tasks ends by an error may leave its own task with a request to cancel it that nobody takes
back (CPython before 3.13). Whatever that task does next takes a cancellation of its own, as by `asyncio.timeout` in
3.11.2 or by another TaskGroup, for one from outside: it ends, and nobody notices.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["in_own_task"]

T = TypeVar("T")


async def in_own_task(work: Coroutine[Any, Any, T]) -> T:
    """Runs the work in a task of its own; returns its result or raises its error. Cancelled with who awaits it."""
    return await asyncio.create_task(work)
