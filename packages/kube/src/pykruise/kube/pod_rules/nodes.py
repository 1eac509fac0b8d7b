"""Nodes that a pod may run on: taints and tolerations, node selectors and required node affinity.

node's taints + tolerations     ──▶ tolerates()
node's labels and name + terms  ──▶ matches_term()

Pure; same rules as Kubernetes' scheduler and its DaemonSet controller. Tolerations and terms are kept as untyped JSON,
as in a pod's spec. A term or toleration that cannot be read matches nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

__all__ = [
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "ZONE_LABEL",
    "Taint",
    "matches_requirement",
    "matches_term",
    "tolerates",
]

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
"""Label that names the zone of a node."""


class Taint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A taint: it repels pods that do not tolerate it (`NoSchedule`, `PreferNoSchedule`, `NoExecute`)."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None
    """Time at which a NoExecute taint was added."""

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint. This is the rule of Kubernetes' `Toleration.ToleratesTaint`."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.effect:
            continue
        key = toleration.get("key") or ""
        if key and key != taint.key:
            continue
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" or (
            operator == "Equal" and key and (toleration.get("value") or "") == taint.value
        ):
            return True
    return False


def matches_term(term: Mapping[str, Any], *, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node meets all requirements of one node selector term; an empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(
        matches_requirement(expression, labels.get(expression.get("key", ""))) for expression in expressions
    ) and all(field.get("key") == "metadata.name" and matches_requirement(field, name) for field in fields)


def matches_requirement(requirement: Mapping[str, Any], value: str | None) -> bool:
    """Whether a label's value (None: the node does not have the label) meets `{operator, values}`."""
    values: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                have, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return have > bound if operator == "Gt" else have < bound
        case _:
            return False
