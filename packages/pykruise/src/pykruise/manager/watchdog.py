"""Watchdog of the event loop: notices when it blocks, reports where, and ends the process.

thread ──"are you there?" every second──▶ event loop ──beat──▶ thread
   └── no beat for `timeout_s`: stack traces of all threads to the log, exit code 70 ──▶ the pod is restarted

A loop that is blocked (an endless computation, a call that waits) answers no probe, no webhook, and renews no
Lease; nothing inside it can notice. The thread counts its own turns and not the clock: a process that was
stopped as a whole and goes on was not blocked. Code that never lets go of the interpreter's lock stops this
thread too; for that case the C level's own timer is armed, which is patient for longer and then ends the process.
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
"""The interpreter's lock may be held this many times as long as the loop may stand still."""


class Watchdog:
    """Watches over the running event loop from `start()` to `stop()`.

    `on_blocked` ends the process; tests give another one. `turn_s`: between two looks.
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
        self._on_blocked = on_blocked or _end
        self._guards_lock = on_blocked is None
        self._stopping = threading.Event()
        self._beats = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch over the running loop."""
        loop = asyncio.get_running_loop()
        watched = threading.get_ident()
        self._thread = threading.Thread(
            target=self._watch, args=(loop, watched), name="watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._guards_lock:
            faulthandler.cancel_dump_traceback_later()

    def _beat(self) -> None:
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
                    f"the event loop has stood still for {self._timeout_s:g} s; this process ends\n"
                    + _stacks(watched)
                )
                return
            try:
                loop.call_soon_threadsafe(self._beat)
            except RuntimeError:  # the loop is closed: there is nothing to watch over
                return
            asked += 1


def _stacks(first: int) -> str:
    """Stacks of all threads at this moment, the watched one first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != first)
    return "".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in frames
    )


def _end(message: str) -> Never:
    """Log, give the line a moment to leave, and end at once: a blocked loop cannot help."""
    _log.critical("%s", message)
    for handler in logging.getLogger().handlers:
        handler.flush()
    time.sleep(0.1)
    os._exit(EXIT_CODE)
