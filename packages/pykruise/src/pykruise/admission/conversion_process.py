"""Large conversions in a child process, so that their memory and garbage collection do not delay other reviews.

ConversionReview ──▶ ConversionProcess.convert() ══ length, body ══▶ main() in the child: conversion.review()
                     response ◀════════════════ length, response ══

In one process, the interpreter's lock, and a garbage collector that visits every object of a large document, would
delay all reviews. The child starts with the first large conversion, answers requests sequentially, and is stopped when
it has been idle for a while. A child that dies or takes too long is replaced. The caller of a failed conversion gets an
error and may try again.
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
"""Maximum seconds for a response: no API server waits longer."""

_HEAD: Final = 8
"""Number of bytes that encode the length of a message."""
_NICENESS: Final = 10
"""Niceness of the child, which gets the processor time that the manager leaves."""


Child = subprocess.Popen[bytes]


class ConversionProcess:
    """Converts in a child process. `close` ends it; a later conversion starts another one."""

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
        """Return the response to a ConversionReview. Raises ConnectionError when the child dies, TimeoutError."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if self._ending is not None:
                self._ending.cancel()
            if self._child is None:
                self._child = _start_child()
            work = loop.run_in_executor(None, _ask, self._child, body)
            try:
                answer = await asyncio.wait_for(asyncio.shield(work), self._longest_s)
            except BaseException:
                # End the child also when the caller was cancelled: otherwise the next caller would read this response.
                self.close()
                await asyncio.gather(work, return_exceptions=True)
                raise
            self._ending = loop.call_later(self._idle_s, self.close)
            return answer

    def close(self) -> None:
        """End the child, also while it is working."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            asyncio.get_running_loop().run_in_executor(None, _reap, child)


def _start_child() -> Child:
    child = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _log.info("process %d converts large ConversionReviews", child.pid)
    return child


def _ask(child: Child, body: bytes) -> bytes:
    """Wait for the response in a thread. The thread ends when the child is killed."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(len(body).to_bytes(_HEAD))
    child.stdin.write(body)
    child.stdin.flush()
    head = child.stdout.read(_HEAD)
    answer = child.stdout.read(int.from_bytes(head))
    if len(head) < _HEAD or len(answer) < int.from_bytes(head):
        raise ConnectionResetError("the process that converts objects has ended")
    return answer


def _reap(child: Child) -> None:
    child.wait()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # the unsent rest of a request
            pipe.close()


def main(asked: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while head := asked.read(_HEAD):
        answer = conversion.answer(asked.read(int.from_bytes(head)))
        answers.write(len(answer).to_bytes(_HEAD))
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the manager, which ends this process
    os.nice(_NICENESS)
    gc.disable()  # documents have no cycles
    main(sys.stdin.buffer, sys.stdout.buffer)
