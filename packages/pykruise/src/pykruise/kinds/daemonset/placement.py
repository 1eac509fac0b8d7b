"""Which nodes run a pod of a DaemonSet.

template ──▶ placement_of() ──▶ Placement ──▶ fit(node) ──▶ Place: RUN, STAY or LEAVE, and why

Pure. Taints, the node selector and the required node affinity of the template decide. A node that is cordoned,
not ready or full runs its pod all the same: the pod tolerates the taints that stand for those states, and the
scheduler looks at resources.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE
from pykruise.pods.template.node_placement import NodeRequirements, requirements_of
from pykruise.pods.view.nodes import NodeView


class Place(StrEnum):
    """Suitability of a node for a DaemonSet."""

    RUN = "run"
    """It runs a pod."""
    STAY = "stay"
    """A pod that is there stays; none is created."""
    LEAVE = "leave"
    """A pod that is there goes."""
    GONE = "gone"
    """There is no such node: only pods that were meant for it."""


class Fit(msgspec.Struct, frozen=True):
    """Fit of one node for one DaemonSet, with the reason in words."""

    place: Place
    because: str = ""


RUNS: Final = Fit(Place.RUN)

_NODE: Final = "node.kubernetes.io"
_DAEMON_TOLERATIONS: Final = (
    (f"{_NODE}/not-ready", NO_EXECUTE),
    (f"{_NODE}/unreachable", NO_EXECUTE),
    (f"{_NODE}/disk-pressure", NO_SCHEDULE),
    (f"{_NODE}/memory-pressure", NO_SCHEDULE),
    (f"{_NODE}/pid-pressure", NO_SCHEDULE),
    (f"{_NODE}/unschedulable", NO_SCHEDULE),
)
_HOST_NETWORK_TOLERATION: Final = (f"{_NODE}/network-unavailable", NO_SCHEDULE)


def daemon_tolerations(pod_spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tolerations of the template with those that every daemon pod has, once each.

    Rule: Kubernetes' DaemonSet controller; its pods ignore what makes a node unfit for others.
    """
    tolerations = list(pod_spec.get("tolerations") or ())
    wanted = list(_DAEMON_TOLERATIONS)
    if pod_spec.get("hostNetwork"):
        wanted.append(_HOST_NETWORK_TOLERATION)
    have = {
        (item.get("key"), item.get("effect"))
        for item in tolerations
        if item.get("operator") == "Exists" and not item.get("value")
    }
    return tolerations + [
        {"key": key, "operator": "Exists", "effect": effect}
        for key, effect in wanted
        if (key, effect) not in have
    ]


class DaemonSetPlacement(NodeRequirements, frozen=True, kw_only=True):
    """Requirements of a DaemonSet's template on nodes."""

    def fit(self, node: NodeView) -> Fit:
        """Fit of the node for pods of this template."""
        if mismatch := self.mismatch(node):
            return Fit(Place.LEAVE, mismatch)
        return self._fit_by_taints(node) if node.taints else RUNS

    def _fit_by_taints(self, node: NodeView) -> Fit:
        untolerated = self.untolerated(node)
        if not untolerated:
            return RUNS
        expels = [taint for taint in untolerated if taint.effect == NO_EXECUTE]
        place = Place.LEAVE if expels else Place.STAY
        return Fit(place, f"the node has the taint {(expels or untolerated)[0]}, which is not tolerated")


def placement_of(template: Mapping[str, Any]) -> DaemonSetPlacement:
    """Requirements of a pod template on nodes. An affinity that has not the shape of one matches no node."""
    spec: Mapping[str, Any] = template.get("spec") or {}
    asked = requirements_of(spec)
    return DaemonSetPlacement(
        node_name=asked.node_name,
        node_selector=asked.node_selector,
        terms=asked.terms,
        tolerations=daemon_tolerations(spec),
    )
