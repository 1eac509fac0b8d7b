"""The kinds that the simulator plays: one line each.

Script.kind ──▶ KINDS ──▶ SimulatedKind: resource, rules; seed ──▶ generate() of the kind ──▶ Script
"""

from collections.abc import Callable, Mapping

import msgspec

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.resources import Resource
from simulation import generate_cloneset, generate_daemonset
from simulation.cloneset_rules import CloneSetRules
from simulation.daemonset_rules import DaemonSetRules
from simulation.rules import WorkloadRules
from simulation.script import Script

__all__ = ["KINDS", "SimulatedKind", "generate"]


class SimulatedKind(msgspec.Struct, frozen=True):
    """What a kind brings to the simulator."""

    resource: Resource
    rules: "Callable[..., WorkloadRules[object]]"
    """Called with namespace, name, start and skew_s."""
    generate: Callable[[int], Script]
    """The script of a seed, always the same."""


KINDS: Mapping[str, SimulatedKind] = {
    "cloneset": SimulatedKind(CLONE_SETS, CloneSetRules, generate_cloneset.generate),  # type: ignore[arg-type]
    "daemonset": SimulatedKind(DAEMON_SETS, DaemonSetRules, generate_daemonset.generate),  # type: ignore[arg-type]
}


def generate(seed: int, kind: str = "cloneset") -> Script:
    """The script of this seed."""
    return KINDS[kind].generate(seed)
