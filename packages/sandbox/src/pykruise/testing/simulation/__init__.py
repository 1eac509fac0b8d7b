"""Simulation of any operator: random operations and faults in virtual time, rules, and the shortest script that fails.

Simulation(work, manifests, actions, always, at_rest) ──▶ check(seeds=1000) ──▶ AssertionError with a script

    simulate()   plays one script: the same script has the same outcome each time
    hunt()       plays seeds until a rule is broken, and shrinks the script
    check()      hunts in a test, and keeps failing scripts in a folder
"""

from pykruise.testing.simulation.hunting import (
    FAULTS,
    FoundFailure,
    check,
    hunt,
    load_script,
    script_of,
    shrink,
)
from pykruise.testing.simulation.scripts import Fault, SimulatedOperation
from pykruise.testing.simulation.store import Rule, SimulatedStore, Write
from pykruise.testing.simulation.worlds import (
    Action,
    Simulation,
    SimulationOutcome,
    SimulationScript,
    Violation,
    create,
    delete,
    patch,
    simulate,
)

__all__ = [
    "FAULTS",
    "Action",
    "Fault",
    "FoundFailure",
    "Rule",
    "SimulatedOperation",
    "SimulatedStore",
    "Simulation",
    "SimulationOutcome",
    "SimulationScript",
    "Violation",
    "Write",
    "check",
    "create",
    "delete",
    "hunt",
    "load_script",
    "patch",
    "script_of",
    "shrink",
    "simulate",
]
