"""Common tasks of a cluster process: return memory to the system, stop on signals, serve diagnosis.

SIGTERM, SIGINT ──▶ stop_on_signals() ──▶ run_until()
GET /debug/pprof/threads, …/memory ──▶ DIAGNOSIS ──▶ PlainServer
"""

import asyncio
import ctypes
import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import orjson

from pykruise.kube.program.serving import PathAnswer, PlainServer, Query, Responder

__all__ = ["DIAGNOSIS", "return_memory", "run_beside", "run_beside_servers", "run_until", "stop_on_signals"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MALLOC = {_M_MMAP_THRESHOLD: 128 * 1024, _M_TRIM_THRESHOLD: 2 * 1024 * 1024, _M_ARENA_MAX: 2}
"""Settings of malloc. A rollout allocates and frees some hundred KiB again and again: returning them to the system
each time, and getting them again, would take a fiftieth of the rollout's CPU time.
"""


def return_memory() -> None:
    """Make glibc, if the program uses it, return large buffers to the system as soon as they are free.

    By default glibc keeps such buffers after the first large one is freed: those of TLS, 256 KiB per connection.
    """
    with suppress(AttributeError, OSError, TypeError):
        adjust = ctypes.CDLL(None).mallopt
        for option, value in _MALLOC.items():
            adjust(option, value)


async def run_beside(main: Awaitable[None], *background: Coroutine[Any, Any, Any]) -> None:
    """Await `main` while the `background` tasks run, and cancel them afterwards.

    When one of them fails, all are cancelled, and the exception is raised in an ExceptionGroup.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in background]
        await main
        for task in tasks:
            task.cancel()


async def run_beside_servers(work: Coroutine[None, None, None], servers: Sequence[PlainServer]) -> None:
    """Run the program's work and, until the work ends, the servers that report the program's state."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for server in servers:
                tasks.create_task(server.run(), name=server.name)
            await work
            for server in servers:
                await server.stop()
    except BaseExceptionGroup as group:
        # An error with a single cause is easier to read without its groups.
        cause: BaseException = group
        while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
            cause = cause.exceptions[0]
        if cause is group:
            raise
        raise cause from None


async def run_until(stopping: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`. When `stopping` is set before the work is complete, cancel the work and return
    None.
    """
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        working.cancel()
        await asyncio.wait((working,))
    return None if working.cancelled() else working.result()


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Stop on signals: the first one begins a graceful stop, a second one exits immediately. A crash writes its stack
    to standard error.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable()
    loop = asyncio.get_running_loop()
    signals: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        signals.append(number)
        if len(signals) > 1:
            _log.error("second signal %s: this process ends immediately", number.name)
            os._exit(1)
        _log.info("signal %s: this process finishes the work in progress, then ends", number.name)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


def _print_threads(_rest: str, _query: Query) -> PathAnswer:
    """Return the stacks of all threads and of all tasks of the event loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    for task in asyncio.all_tasks():
        lines = "".join("".join(traceback.format_stack(frame)) for frame in task.get_stack(limit=5))
        parts.append(f"task {task.get_name()}:\n{lines}")
    return PathAnswer("\n".join(parts))


def _print_memory(_rest: str, _query: Query) -> PathAnswer:
    """Return counters of the garbage collector."""
    figures: Mapping[str, object] = {
        "collected": gc.get_stats(),
        "counts": gc.get_count(),
        "frozen": gc.get_freeze_count(),
        "tracked": len(gc.get_objects()),
    }
    return PathAnswer(
        orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode() + "\n", content_type="application/json"
    )


DIAGNOSIS: Final[Mapping[str, Responder]] = {
    "/debug/pprof/threads": _print_threads,
    "/debug/pprof/memory": _print_memory,
}
"""Paths for diagnosis. Profiles in the format of Go programs are not available."""
