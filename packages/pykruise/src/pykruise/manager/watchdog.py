"""Watchdog of the event loop: detects that it is blocked, reports where, and ends the process.

thread ──a call every second──▶ event loop ──beat──▶ thread
   └── no beat for `timeout_s`: stack traces of all threads to the log, exit code 70 ──▶ the pod is restarted

A blocked loop (an endless computation, a blocking call) does not respond to probes and reviews, and renews no Lease.
Code in the loop cannot detect this. The thread counts its own iterations instead of time, so that a process that
continues after it was suspended does not count as blocked. Code that never releases the interpreter's lock blocks this
thread too. For that case a timer of the C level, with a longer timeout, ends the process.
"""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Never

_log = logging.getLogger(__name__)

EXIT_CODE = 70
"""EX_SOFTWARE."""

_TURN_S = 1.0
_LOCKED_FACTOR = 4
"""Factor between the timeouts: the interpreter's lock may be held for this many times as long as the loop may be
blocked.
"""


class Watchdog:
    """Watches the running event loop from `start()` to `stop()`.

    `on_blocked` ends the process; tests replace it. `turn_s`: seconds between two checks.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        turn_s: float = _TURN_S,
        on_blocked: Callable[[str], object] | None = None,
    ) -> None:
        self._turns = max(1, round(timeout_s / turn_s))
        self._timeout_s = timeout_s
        self._turn_s = turn_s
        self._on_blocked = on_blocked or _end_process
        self._guards_lock = on_blocked is None
        self._stopping = threading.Event()
        self._beats = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch the running loop."""
        loop = asyncio.get_running_loop()
        watched = threading.get_ident()
        self._thread = threading.Thread(
            target=self._watch, args=(loop, watched), name="watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._guards_lock:
            faulthandler.cancel_dump_traceback_later()

    def _count_beat(self) -> None:
        self._beats += 1

    def _watch(self, loop: asyncio.AbstractEventLoop, watched: int) -> None:
        silent = 0
        asked, answered = 0, self._beats
        while not self._stopping.wait(self._turn_s):
            if self._guards_lock:
                faulthandler.dump_traceback_later(_LOCKED_FACTOR * self._timeout_s, exit=True)
            if self._beats > answered or asked == 0:
                silent, answered = 0, self._beats
            else:
                silent += 1
            if silent >= self._turns:
                self._on_blocked(
                    f"the event loop has been blocked for {self._timeout_s:g} s; this process ends\n"
                    + _format_stacks(watched)
                )
                return
            try:
                loop.call_soon_threadsafe(self._count_beat)
            except RuntimeError:  # the loop is closed: there is nothing to watch
                return
            asked += 1


def _format_stacks(first: int) -> str:
    """Return the current stacks of all threads, the watched one first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != first)
    return "".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in frames
    )


def _end_process(message: str) -> Never:
    """Log the message, wait briefly until it is written, and exit without a graceful end, which the blocked loop cannot
    provide.
    """
    _log.critical("%s", message)
    for handler in logging.getLogger().handlers:
        handler.flush()
    time.sleep(0.1)
    os._exit(EXIT_CODE)
