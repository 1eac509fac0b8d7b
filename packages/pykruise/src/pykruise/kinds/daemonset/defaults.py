"""Defaults that admission writes into a DaemonSet (either version).

document ──▶ with_defaults() ──▶ the document as it is to be stored

Pure; the document that comes in is not changed. Rule: the original's mutating webhook. The template is stored
as it is given, unlike that of other workloads.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.daemonset.types import DEFAULT_BURST, SURGING, RollingUpdateType
from pykruise.kube.documents import Document, without_nulls
from pykruise.pods.api import UpdateType


def with_defaults(doc: Mapping[str, Any]) -> Document:
    """The document with defaults, by the rules of its own version: only v1alpha1 has the type Surging."""
    spec: Document = {
        "burstReplicas": DEFAULT_BURST,
        "revisionHistoryLimit": 10,
        **without_nulls(doc.get("spec")),
    }
    strategy = without_nulls(spec.get("updateStrategy"))
    spec["updateStrategy"] = _update_strategy(strategy, has_surging=has_surging(doc))
    return {**doc, "spec": spec}


def has_surging(doc: Mapping[str, Any]) -> bool:
    """Whether the document is of the version that has the type Surging."""
    return str(doc.get("apiVersion")).endswith("/v1alpha1")


def _update_strategy(strategy: Document, *, has_surging: bool) -> Document:
    """Nothing is defaulted under OnDelete."""
    strategy["type"] = strategy.get("type") or str(UpdateType.ROLLING_UPDATE)
    if strategy["type"] != UpdateType.ROLLING_UPDATE:
        return strategy
    block = without_nulls(strategy.get("rollingUpdate"))
    if has_surging:
        block = with_surging_replaced(block)
    block["rollingUpdateType"] = block.get("rollingUpdateType") or str(RollingUpdateType.STANDARD)
    if "maxUnavailable" not in block and "maxSurge" not in block:
        block |= {"maxUnavailable": 1, "maxSurge": 0}
    strategy["rollingUpdate"] = block
    return strategy


def with_surging_replaced(block: Document) -> Document:
    """v1alpha1's type Surging in other words: Standard, one pod of surge and none unavailable unless given."""
    if block.get("rollingUpdateType") != SURGING:
        return block
    given = without_nulls(block)
    return {
        "maxSurge": 1,
        "maxUnavailable": 0,
        **given,
        "rollingUpdateType": str(RollingUpdateType.STANDARD),
    }
