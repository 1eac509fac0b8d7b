"""Large conversions in a process of their own, so that what they hold and collect stops no other review.

ConversionReview ──▶ ConversionProcess.convert() ══ length, body ══▶ main() in the child: conversion.review()
                     answer ◀════════════════════ length, answer ══

One interpreter's lock, and one garbage collector that looks at every object of a large document, would hold up all
reviews. The child is started for the first large conversion, answers one after the other, and is ended when it was
not needed for a while. One that dies or takes too long is replaced; who asked gets a failure and may ask again.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
from typing import BinaryIO, Final

from pykruise.admission import conversion

_log = logging.getLogger(__name__)

IDLE_S: Final = 60.0
LONGEST_S: Final = 30.0
"""No API server waits longer for an answer."""

_HEAD: Final = 8
"""Bytes that say how many follow."""
_NICENESS: Final = 10
"""The child has what processor time the manager leaves."""


Child = subprocess.Popen[bytes]


class ConversionProcess:
    """Converts in a child. `close` ends it; a further conversion starts another one."""

    def __init__(self, *, idle_s: float = IDLE_S, longest_s: float = LONGEST_S) -> None:
        self._idle_s = idle_s
        self._longest_s = longest_s
        self._turn = asyncio.Lock()
        self._child: Child | None = None
        self._ending: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """Process ID of the child; 0: no child."""
        return self._child.pid if self._child is not None else 0

    async def convert(self, body: bytes) -> bytes:
        """The answer to a ConversionReview. Raises ConnectionError when the child dies, TimeoutError."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if self._ending is not None:
                self._ending.cancel()
            if self._child is None:
                self._child = _started()
            work = loop.run_in_executor(None, _ask, self._child, body)
            try:
                answer = await asyncio.wait_for(asyncio.shield(work), self._longest_s)
            except (
                BaseException
            ):  # also when no caller waits any more: its answer would be taken for the next one's
                self.close()
                await asyncio.gather(work, return_exceptions=True)
                raise
            self._ending = loop.call_later(self._idle_s, self.close)
            return answer

    def close(self) -> None:
        """End the child, whatever it does."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            asyncio.get_running_loop().run_in_executor(None, _reap, child)


def _started() -> Child:
    child = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _log.info("large conversions are done by process %d", child.pid)
    return child


def _ask(child: Child, body: bytes) -> bytes:
    """Waits for the answer, in a thread. It ends when the child is killed."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(len(body).to_bytes(_HEAD))
    child.stdin.write(body)
    child.stdin.flush()
    head = child.stdout.read(_HEAD)
    answer = child.stdout.read(int.from_bytes(head))
    if len(head) < _HEAD or len(answer) < int.from_bytes(head):
        raise ConnectionResetError("the process that converts has died")
    return answer


def _reap(child: Child) -> None:
    child.wait()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # the rest of a question that is not read any more
            pipe.close()


def main(asked: BinaryIO, answers: BinaryIO) -> None:
    """Answer until nothing more is asked."""
    while head := asked.read(_HEAD):
        answer = conversion.answer(asked.read(int.from_bytes(head)))
        answers.write(len(answer).to_bytes(_HEAD))
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the manager, which ends this one
    os.nice(_NICENESS)
    gc.disable()  # documents have no cycles
    main(sys.stdin.buffer, sys.stdout.buffer)
