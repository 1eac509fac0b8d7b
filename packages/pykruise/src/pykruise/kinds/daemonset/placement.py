"""Selection of the nodes that run a pod of a DaemonSet.

template ──▶ placement_of() ──▶ DaemonSetPlacement ──▶ fit(node) ──▶ Place: RUN, STAY or LEAVE, and the reason

Pure. The taints of the node, and the node name, the node selector and the required node affinity of the template
decide. A cordoned or full node should run a pod too: daemon pods tolerate the taint of a cordoned node, and only the
scheduler checks resources. A node that is not ready or not reachable has two taints with the same key. Daemon pods
tolerate its taint NoExecute, so an existing pod stays. They do not tolerate its taint NoSchedule, so no pod is created
there, unless the template tolerates this taint. These are the rules of Kubernetes' DaemonSet controller.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE
from pykruise.pods.template.node_placement import (
    NodeObstacle,
    NodeRequirements,
    make_taint_obstacle,
    requirements_of,
)
from pykruise.pods.view.nodes import NodeView


class Place(StrEnum):
    """Whether a node should run a pod of a DaemonSet, and what happens to an existing pod if it should not."""

    RUN = "run"
    """The node should run a pod."""
    STAY = "stay"
    """An existing pod is kept, but no pod is created."""
    LEAVE = "leave"
    """An existing pod is deleted, and no pod is created."""
    GONE = "gone"
    """The node does not exist, but pods are assigned to it."""


class Fit(msgspec.Struct, frozen=True):
    """Whether one node should run a pod of one DaemonSet. `obstacle`: why it should not."""

    place: Place
    obstacle: NodeObstacle | None = None


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


def list_daemon_tolerations(pod_spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tolerations of the template and the tolerations that every daemon pod has, without duplicates.

    Kubernetes' DaemonSet controller adds the same tolerations, for taints of nodes that accept no other pods. A
    toleration of the template with tolerationSeconds is replaced by the unlimited one.
    """
    keys = [*_DAEMON_TOLERATIONS, *([_HOST_NETWORK_TOLERATION] if pod_spec.get("hostNetwork") else ())]
    wanted = {(key, effect): {"key": key, "operator": "Exists", "effect": effect} for key, effect in keys}
    tolerations: list[dict[str, Any]] = []
    replaced = set()
    for item in pod_spec.get("tolerations") or ():
        pair = (item.get("key"), item.get("effect"))
        if pair in wanted and item.get("operator") == "Exists" and not item.get("value"):
            replaced.add(pair)
            item = wanted[pair]
        tolerations.append(item)
    return tolerations + [item for pair, item in wanted.items() if pair not in replaced]


class DaemonSetPlacement(NodeRequirements, frozen=True, kw_only=True):
    """Requirements for nodes that the template of a DaemonSet defines."""

    def fit(self, node: NodeView) -> Fit:
        """Return whether the node should run a pod of this template, and why not."""
        if mismatch := self.find_mismatch(node):
            return Fit(Place.LEAVE, mismatch)
        return self._fit_by_taints(node) if node.taints else RUNS

    def _fit_by_taints(self, node: NodeView) -> Fit:
        untolerated = self.list_untolerated(node)
        if not untolerated:
            return RUNS
        expels = [taint for taint in untolerated if taint.effect == NO_EXECUTE]
        place = Place.LEAVE if expels else Place.STAY
        return Fit(place, make_taint_obstacle((expels or untolerated)[0]))


def placement_of(template: Mapping[str, Any]) -> DaemonSetPlacement:
    """Return what a pod template requires of a node. A malformed affinity matches no node."""
    spec: Mapping[str, Any] = template.get("spec") or {}
    asked = requirements_of(spec)
    return DaemonSetPlacement(
        node_name=asked.node_name,
        node_selector=asked.node_selector,
        terms=asked.terms,
        tolerations=list_daemon_tolerations(spec),
    )
