"""Conversion between the flat update strategy of a v1alpha1 CloneSet and the nested one.

{type: InPlaceOnly, partition: 3}  ──▶ nest()    ──▶ {type: RollingUpdate,
                                   ◀── flatten() ◀──    rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 3}}

The functions change the spec that they are given. They serve CloneSets and kinds with a CloneSet template. Values of a
wrong type are not moved.
"""

from typing import Any, Final

from pykruise.kube.documents import Document

POLICIES: Final = ("ReCreate", "InPlaceIfPossible", "InPlaceOnly")
"""Types of the flat strategy that are update policies of the nested one."""

FLAT_FIELDS: Final = (
    "partition",
    "maxUnavailable",
    "maxSurge",
    "paused",
    "priorityStrategy",
    "scatterStrategy",
    "inPlaceUpdateStrategy",
)
"""Fields of the flat strategy that the nested one has in `rollingUpdate`."""

_ROLLING_UPDATE: Final = "RollingUpdate"
_ON_DELETE: Final = "OnDelete"


def nest(spec: Document) -> None:
    """Turn the flat `updateStrategy` into the nested one. The nested OnDelete has no settings, so the settings are
    dropped.
    """
    strategy = spec.get("updateStrategy")
    if not isinstance(strategy, dict):
        return
    flat = {field: strategy.pop(field) for field in FLAT_FIELDS if field in strategy}
    kind = strategy.get("type")
    if kind == _ON_DELETE:
        return
    strategy["type"] = _ROLLING_UPDATE
    policy = kind if kind in POLICIES else POLICIES[0]
    strategy["rollingUpdate"] = {"podUpdatePolicy": policy, **flat}


def flatten(spec: Document) -> None:
    """Turn the nested `updateStrategy` into the flat one. The settings are kept under OnDelete, too."""
    strategy = spec.get("updateStrategy")
    if not isinstance(strategy, dict):
        return
    nested = strategy.get("rollingUpdate")
    rolling: Document = nested if isinstance(nested, dict) else {}
    if strategy.get("type") != _ON_DELETE:
        policy = rolling.get("podUpdatePolicy")
        strategy["type"] = policy if policy in POLICIES else POLICIES[0]
    if isinstance(nested, dict) or nested is None:
        strategy.pop("rollingUpdate", None)
    strategy.update({field: rolling[field] for field in FLAT_FIELDS if field in rolling})


def rolling_update_of(spec: Document) -> dict[str, Any] | None:
    """`updateStrategy.rollingUpdate` of a nested strategy, created when it is missing.

    None under OnDelete without such a field, and when a field has a wrong type.
    """
    strategy = spec.setdefault("updateStrategy", {"type": _ROLLING_UPDATE})
    if not isinstance(strategy, dict):
        return None
    if strategy.get("type") == _ON_DELETE and "rollingUpdate" not in strategy:
        return None
    rolling = strategy.setdefault("rollingUpdate", {})
    return rolling if isinstance(rolling, dict) else None
