"""Kinds whose feature gate is off: no controller handles their objects, whatever their status says.

Explanation + the manager's settings ──▶ hold_for_gates() ──▶ Explanation with the wait GateOff first

Pure.
"""

from typing import Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code


def hold_for_gates(explanation: Explanation, kind: Kind, settings: ManagerSettings | None) -> Explanation:
    """Return the explanation of an object of the kind. If a feature gate of the kind is off, the first wait names the
    gate, and the list of next writes is empty. The explanation of an object that has ended does not change. If
    `settings` are not those of the cluster's manager (`is_known` is False), a gate counts only if --feature-gates sets
    it. Without `settings` no gate counts.
    """
    wait = _find_gate_wait(kind, settings)
    if wait is None or explanation.phase in _ENDED:
        return explanation
    verdict = "terminating" if explanation.verdict == "terminating" else "waiting"
    return msgspec.structs.replace(
        explanation, waits=(wait, *explanation.waits), verdict=verdict, phase=Phase.DEGRADED, next=()
    )


_ENDED: Final = frozenset({Phase.COMPLETED, Phase.FAILED})


def _find_gate_wait(kind: Kind, settings: ManagerSettings | None) -> Wait | None:
    if settings is None:
        return None
    gates = settings.gates
    closed = gates.list_closed(kind)
    if not settings.is_known:
        closed = [name for name in closed if name in gates.differing or name in gates.kept_off]
    if not closed:
        return None
    value = gates.turn_on(closed)
    are_off = " and ".join(f"feature gate {name} is off" for name in closed)
    return Wait(
        code=Code.GATE_OFF,
        words=f"{are_off}, so no controller handles objects of kind {kind.resource.kind}",
        remedy=f"start the manager with --feature-gates={value} (in a cluster: pykruise install"
        f" --feature-gates={value} | kubectl apply --server-side -f -)",
    )
