"""Exhaustive exploration of small worlds of any operator on `pykruise.runtime`: every order of writes, events
and reconciles.

Simulation (as in pykruise.testing.simulation) + actions + faults ──▶ explore() ──▶ Exploration: its size, and a
failure

    explore()     tries everything that can happen in a small world, up to a bound
    check_all()   does the same, and raises AssertionError for a failure
    replay()      plays the path to a failure again
"""

from pykruise.testing.exploration.worlds import (
    EXPLORED_FAULTS,
    Exploration,
    ExplorationFailure,
    SmallWorld,
    check_all,
    explore,
    replay,
)

__all__ = [
    "EXPLORED_FAULTS",
    "Exploration",
    "ExplorationFailure",
    "SmallWorld",
    "check_all",
    "explore",
    "replay",
]
