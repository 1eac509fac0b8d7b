"""Processes of a bench that do not outlive it, however it ends: also one that `timeout` has killed."""

import ctypes
import signal

__all__ = ["end_with_parent"]

_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent() -> None:
    """Have the kernel kill this process when the one that started it is gone. Linux."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
