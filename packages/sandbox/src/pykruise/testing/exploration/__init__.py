"""Exhaustive small worlds of any operator on `pykruise.runtime`: every order of writes, events and reconciles.

Simulation (as in pykruise.testing.simulation) + actions + faults ──▶ explore() ──▶ Exploration: its size, and a failure

    explore()     everything that can happen in a small world, or as much of it as the bound allows
    check_all()   does it as a test
    replay()      plays the way to a failure again
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
