"""Steps of a simulation as plain values: operations of people and machines, and faults of the network.

Each step has a time in virtual seconds. A script of such steps is printed, written to a file, replayed and shortened.
"""

from typing import Any

import msgspec

__all__ = ["Fault", "SimulatedOperation"]


class SimulatedOperation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation: its time in seconds, its name and its arguments."""

    at: float
    do: str
    args: dict[str, Any] = {}


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault. It affects the next `count` matching requests or events after `at`. For `crash` and `node loss`, `count`
    chooses the exact moment or the node.
    """

    at: float
    kind: str
    on: str = ""
    """Part of the path of the affected requests; empty means all requests."""
    count: int = 1
    seconds: float = 0.0
    """Duration of the fault in seconds, for faults that have a duration."""
