"""Work that is retried: each attempt runs in a separate task.

A TaskGroup that fails because of one of its tasks may leave a cancellation request on its own task that is never
withdrawn (CPython before 3.13). Code that runs later in that task mistakes an internal cancellation (by
`asyncio.timeout` in 3.11.2, or by another TaskGroup) for one from outside, and the task ends silently.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_in_own_task"]

T = TypeVar("T")


async def run_in_own_task(work: Coroutine[Any, Any, T]) -> T:
    """Run the work in a separate task; returns its result or raises its error. Cancelled together with its caller."""
    return await asyncio.create_task(work)
