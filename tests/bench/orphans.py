"""Processes of a bench that always end with it, also if `timeout` kills the bench."""

import ctypes
import signal

__all__ = ["end_with_parent"]

_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent() -> None:
    """Make the kernel kill this process when its starter ends (Linux)."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
