"""Settings of the garbage collector: rare collections while a command starts, the default thresholds for commands that
keep running.

entry.py ──▶ collect_rarely() … `pykruise up` and `kubelets`, when they are ready ──▶ collect_as_usual()

A command creates hundreds of thousands of objects that live until it ends. Searching them repeatedly would take a tenth
to a fifth of the command's start time.
"""

import gc

_USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """Make garbage collections rare, so that they cost almost no time."""
    gc.set_threshold(100_000, 50, 1000)


def collect_as_usual() -> None:
    """Return to the default thresholds to save memory. Objects that exist now are never searched again."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
