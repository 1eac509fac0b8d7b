"""The kinds that the simulator plays: one line each.

Script.kind ──▶ KINDS ──▶ SimulatedKind: resource, rules; seed ──▶ generate() by GENERATORS ──▶ Script
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.resources import Resource
from simulation import generate_blind, generate_cloneset, generate_daemonset, generate_statefulset
from simulation.cloneset_rules import CloneSetRules
from simulation.daemonset_rules import DaemonSetRules
from simulation.rules import WorkloadRules
from simulation.script import Script
from simulation.statefulset_rules import StatefulSetRules

__all__ = ["GENERATORS", "KINDS", "SimulatedKind", "generate"]


class SimulatedKind(msgspec.Struct, frozen=True):
    """What a kind brings to the simulator."""

    resource: Resource
    rules: Callable[..., WorkloadRules[Any]]
    """Called with namespace, name, start, skew_s and is_calm."""


KINDS: Mapping[str, SimulatedKind] = {
    "cloneset": SimulatedKind(CLONE_SETS, CloneSetRules),
    "daemonset": SimulatedKind(DAEMON_SETS, DaemonSetRules),
    "statefulset": SimulatedKind(ADVANCED_STATEFUL_SETS, StatefulSetRules),
}


GENERATORS: Mapping[str, Callable[[int], Script]] = {
    "cloneset": generate_cloneset.generate,
    "daemonset": generate_daemonset.generate,
    "statefulset": generate_statefulset.generate,
    "blind": generate_blind.generate,
}
"""Scripts by chance: of each kind, and `blind` of CloneSets whose manager is kept in the dark."""


def generate(seed: int, generator: str = "cloneset") -> Script:
    """The script of this seed."""
    return GENERATORS[generator](seed)
