"""When commands look for garbage: hardly ever while they start, as every program once they stay.

entry.py ──▶ collect_rarely() … `pykruise up` and `kubelets`, when they are ready ──▶ collect_as_usual()

A command makes hundreds of thousands of objects that live as long as it does. Looking at them again and again would be
a tenth to a fifth of its start.
"""

import gc

_USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """From now on garbage collection costs next to nothing."""
    gc.set_threshold(100_000, 50, 1000)


def collect_as_usual() -> None:
    """From now on memory is what counts. What is there by now is never looked at again."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
