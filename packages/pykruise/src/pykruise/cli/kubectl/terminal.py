"""The terminal, raw while a remote program has it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["raw_terminal"]


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
