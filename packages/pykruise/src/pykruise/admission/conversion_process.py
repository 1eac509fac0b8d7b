"""Large conversions in a child process, so that their memory and garbage collection do not delay other reviews.

ConversionReview ──▶ ConversionProcess.convert() ══ length, body ══▶ main() in the child: conversion.answer()
                     response ◀════════════════ length, response ══

In the manager's process, a large conversion would delay all reviews: by the interpreter's lock, and by the garbage
collector, which visits every object of a document. The child starts at the first large conversion, responds to requests
sequentially, and is stopped after it was idle for a while. A child that exits or takes too long is replaced. The caller
of a failed conversion gets an error and can try again.
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
"""Maximum number of seconds for a response. No API server waits longer."""

_HEAD: Final = 8
"""Number of bytes before each message that contain its length."""
_NICENESS: Final = 10
"""Niceness of the child, so that it gets only processor time that the manager does not need."""


Child = subprocess.Popen[bytes]


class ConversionProcess:
    """Converts in a child process. `close` ends the child; a later conversion starts a new child."""

    def __init__(self, *, idle_s: float = IDLE_S, longest_s: float = LONGEST_S) -> None:
        self._idle_s = idle_s
        self._longest_s = longest_s
        self._turn = asyncio.Lock()
        self._child: Child | None = None
        self._ending: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """Process ID of the child; 0 if there is no child."""
        return self._child.pid if self._child is not None else 0

    async def convert(self, body: bytes) -> bytes:
        """Return the response to a ConversionReview. Raises ConnectionError if the child exits, and
        TimeoutError if it takes too long.
        """
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
                # End the child even if the caller was cancelled. Otherwise the next caller would read this response.
                self.close()
                await asyncio.gather(work, return_exceptions=True)
                raise
            self._ending = loop.call_later(self._idle_s, self.close)
            return answer

    def close(self) -> None:
        """End the child, even while it converts."""
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
    """Send a request and wait for the response. This runs in a thread, which ends if the child is killed."""
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
        with contextlib.suppress(OSError):  # a part of a request was not sent
            pipe.close()


def main(asked: BinaryIO, answers: BinaryIO) -> None:
    """Respond to requests until the input ends."""
    while head := asked.read(_HEAD):
        answer = conversion.answer(asked.read(int.from_bytes(head)))
        answers.write(len(answer).to_bytes(_HEAD))
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the manager handles Ctrl-C and ends this process
    os.nice(_NICENESS)
    gc.disable()  # not needed: documents have no reference cycles
    main(sys.stdin.buffer, sys.stdout.buffer)
