"""The terminal, raw while a remote program has it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

__all__ = ["raw_terminal", "sizes"]


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the program, and the terminal is as it was afterwards."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setraw(number)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


async def sizes() -> AsyncIterator[tuple[int, int]]:
    """Columns and rows of the terminal: now, and after each change."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = os.get_terminal_size(sys.stdin.fileno())
            yield size.columns, size.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
