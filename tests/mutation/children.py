"""Work in a copy of this process, with limits; the copy ends afterwards.

in_child(work) ──fork──▶ work() ──pipe──▶ the result, or the reason why there is none
"""

import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any

__all__ = ["LimitError", "in_child", "start", "wait"]

MEMORY = 3 << 30


class LimitError(Exception):
    """The copy ended without a result: it exceeded a limit of time or memory, or crashed."""


class Child:
    """A running copy."""

    def __init__(self, pid: int, pipe: int, until: float) -> None:
        self.pid = pid
        self.pipe = pipe
        self.until = until
        self.parts: list[bytes] = []


def start(work: Callable[[], Any], *, cpu_s: float) -> Child:
    """Start the work in a copy. It may use this many seconds of CPU, and ten times as many of wall-clock time."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            whole = int(cpu_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            answer = pickle.dumps(work())
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writing)
    return Child(pid, reading, time.monotonic() + 10 * cpu_s + 10)


def wait(children: list[Child]) -> tuple[Child, Any]:
    """Wait for the first copy that ends, and return it with its result; without a result, with a LimitError."""
    while True:
        pipes = {child.pipe: child for child in children}
        ready, _, _ = select.select(list(pipes), [], [], 1.0)
        for pipe in ready:
            child = pipes[pipe]
            part = os.read(pipe, 1 << 16)
            if part:
                child.parts.append(part)
                continue
            return child, _answer(child)
        for child in children:
            if time.monotonic() > child.until:
                os.kill(child.pid, signal.SIGKILL)
                child.parts.clear()
                return child, _answer(child)


def _answer(child: Child) -> Any:
    os.close(child.pipe)
    os.waitpid(child.pid, 0)
    raw = b"".join(child.parts)
    return pickle.loads(raw) if raw else LimitError("no answer")


def in_child(work: Callable[[], Any], *, cpu_s: float) -> Any:
    """The result of the work. Raises LimitError."""
    _, answer = wait([start(work, cpu_s=cpu_s)])
    if isinstance(answer, LimitError):
        raise answer
    return answer
