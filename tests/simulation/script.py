"""Events of one simulation, as plain values that can be printed, replayed and shrunk.

generate(seed) ──▶ Script ──▶ world.run(script)

An operation is an action of a user, another controller or a machine. A fault disturbs the connection between a manager
and the API server, or the manager itself. Both have a time in virtual seconds. A number selects the pod or node of an
operation when it is executed, so a script stays valid when it is shortened.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from pykruise.testing.simulation.scripts import Fault
from pykruise.testing.simulation.scripts import SimulatedOperation as Operation

__all__ = ["FOUND", "Fault", "Operation", "Script", "from_json", "to_json"]

FOUND: Final = sorted((Path(__file__).parent / "found").glob("*.json"))
"""Scripts that once found an error."""


class Script(msgspec.Struct, frozen=True, omit_defaults=True):
    """One simulation. `seed` determines everything that is not in the script: uids, names, delays."""

    seed: int
    kind: str = "cloneset"
    object: dict[str, Any] = {}
    """The workload that is created at the start."""
    beside: dict[str, Any] = {}
    """The object that is created just before it: a WorkloadSpread or a SidecarSet, for kinds that act on other pods."""
    is_versioned: bool = False
    """Whether a WorkloadSpread distinguishes revisions of the CloneSet (--ws-enabled-versioned-status)."""
    nodes: int = 4
    managers: int = 1
    """More than one: they take part in leader election, and faults may end the leader."""
    shares: bool = False
    """Whether managers share the work (election/membership.py); faults may end the one that owns the workload."""
    operations: tuple[Operation, ...] = ()
    faults: tuple[Fault, ...] = ()
    latency_s: float = 0.02
    """Requests take up to this long each way."""
    reads_in_portions: bool = False
    """Whether the manager collects events of pods before it reads them (kube/cache/event_batching.py)."""
    hook_s: float = 3.0
    """Time that the handler of lifecycle hooks takes."""
    kubelet: dict[str, float] = {}
    """KubeletSettings: how long things take on the nodes."""


def to_json(script: Script) -> str:
    """Readable text that `from_json` takes."""
    return msgspec.json.format(msgspec.json.encode(script), indent=1).decode()


def from_json(text: str | bytes) -> Script:
    """The script of `to_json`."""
    return msgspec.json.decode(text, type=Script)
