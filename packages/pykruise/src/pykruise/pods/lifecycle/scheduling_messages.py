"""Remedies for a pod without a node, from the message of Kubernetes' scheduler. blockers.py only searches the message
for missing PersistentVolumeClaims.

message of the condition PodScheduled ──▶ describe_remedy(), describe_obstacles()

Pure. The scheduler reports its reasons only as text, with the number of nodes for each reason. Only remedies and
messages depend on the text; no decision depends on it. Unknown reasons result in the general remedy.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pykruise.pods.corrections import Correction
from pykruise.pods.template.node_placement import LOST


class _Complaint(msgspec.Struct, frozen=True):
    """A reason in the message."""

    words: str
    on_nodes: str
    """Instruction that changes nodes; empty if only new nodes help."""
    field: str
    """Field of the pod that a person can change instead; empty: none."""
    is_mismatch: bool = False
    """Whether the pod selects other nodes."""
    is_early: bool = False
    """Whether the scheduler checks this reason before it checks which nodes the pod selects."""


_ANY: Final = (
    "add nodes or capacity (uncordon or label nodes, or take their taints off)",
    "requests, host ports, selectors, affinity, spread constraints or tolerations",
)
_TAINT: Final = re.compile(r"untolerated taint(?:\(s\))? (\{[^}]*\})")
_INSUFFICIENT: Final = re.compile(r"Insufficient ([^\s,]*[^\s,.])")
_VOLUMES: Final = "had volume node affinity conflict"
_CORDONED: Final = "node(s) were unschedulable"
_TEXTS: Final = (
    ("Too many pods", "free places for pods on {}", "requests", False),
    (_CORDONED, "uncordon {}", "", False),
    ("didn't have free ports", "free the host ports on {}", "host ports", False),
    ("didn't match Pod's node affinity/selector", "label {}", "nodeSelector or node affinity", True),
    (_VOLUMES, "", "", False),
    ("didn't match pod affinity rules", "", "pod affinity", False),
    ("didn't match pod anti-affinity rules", "", "pod anti-affinity", False),
    ("didn't satisfy existing pods anti-affinity rules", "", "labels", False),
    ("didn't match pod topology spread constraints", "", "spread constraints", False),
)
"""Text in the message, instruction for nodes, field of the pod, whether it is a mismatch."""


def describe_remedy(said: str, node: str, correction: Correction) -> str:
    """Return the remedy. `node`: the only node that the pod may run on, in words, or empty."""
    reasons = _select(said, node)
    if not reasons:
        return f"{_ANY[0]}, or {correction.change(_ANY[1])}"
    where = node or "nodes"
    on_nodes = list(dict.fromkeys(reason.on_nodes.format(where) for reason in reasons if reason.on_nodes))
    needs_volumes = any(reason.words == _VOLUMES for reason in reasons)
    if not node:
        on_nodes.append("add nodes that can mount the volumes of the pod" if needs_volumes else "add nodes")
    fields = list(dict.fromkeys(reason.field for reason in reasons if reason.field))
    if node:
        fields.append("node affinity")
    changed = [correction.change(" or ".join(fields))] if fields else []
    replaced = ["delete the PVCs whose data is not needed, then the pod"] if needs_volumes else []
    return ", or ".join((*on_nodes, *changed, *replaced))


def describe_obstacles(said: str, node: str) -> str:
    """Return the reasons why the only possible node takes no pod; empty if they are unknown."""
    return ", ".join(dict.fromkeys(reason.words for reason in _select(said, node)))


def _select(said: str, node: str) -> Sequence[_Complaint]:
    """Return the reasons in the message. For a pod with one possible node, only the reasons of that node.

    For each node, the scheduler reports the first check that fails: cordon, taints, the nodes that the pod selects,
    then all others. Only the possible node passes the check of the nodes that the pod selects. So the reason of a later
    check belongs to the possible node, and cordons and taints in the same message belong to other nodes.
    """
    # The scheduler reports in a second sentence whether the deletion of other pods would help.
    reasons = list(_find(said.partition(" preemption: ")[0]))
    if not node:
        return reasons
    matching = [reason for reason in reasons if not reason.is_mismatch]
    return [reason for reason in matching if not reason.is_early] or matching


def _find(said: str) -> Iterator[_Complaint]:
    for name in _INSUFFICIENT.findall(said):
        yield _Complaint(f"Insufficient {name}", f"free {name} on {{}}", f"{name} requests")
    for taint in _TAINT.findall(said):
        # Braces would be placeholders.
        shown = taint.replace("{", "{{").replace("}", "}}")
        if any(key in taint for key in LOST):
            yield _Complaint(f"untolerated taint {taint}", "make {} ready again", "", is_early=True)
            continue
        yield _Complaint(
            f"untolerated taint {taint}", f"take the taint {shown} off {{}}", "tolerations", is_early=True
        )
    for text, on_nodes, field, is_mismatch in _TEXTS:
        if text in said:
            yield _Complaint(text, on_nodes, field, is_mismatch, is_early=text == _CORDONED)
