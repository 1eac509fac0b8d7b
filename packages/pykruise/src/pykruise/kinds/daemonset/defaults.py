"""Defaults that admission writes into a DaemonSet (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure: the input document is not changed. Same rules as OpenKruise's mutating webhook. The pod template gets no defaults,
unlike the templates of other workloads.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.daemonset.types import DEFAULT_BURST, SURGING, RollingUpdateType
from pykruise.kube.documents import Document, drop_nulls
from pykruise.pods.api import UpdateType


def add_defaults(doc: Mapping[str, Any]) -> Document:
    """Return the document with the defaults of its own version. Only v1alpha1 has the type Surging."""
    spec: Document = {
        "burstReplicas": DEFAULT_BURST,
        "revisionHistoryLimit": 10,
        **drop_nulls(doc.get("spec")),
    }
    strategy = drop_nulls(spec.get("updateStrategy"))
    spec["updateStrategy"] = _fill_strategy_defaults(strategy, has_surging=has_surging(doc))
    return {**doc, "spec": spec}


def has_surging(doc: Mapping[str, Any]) -> bool:
    """Whether the version of the document has the type Surging."""
    return str(doc.get("apiVersion")).endswith("/v1alpha1")


def _fill_strategy_defaults(strategy: Document, *, has_surging: bool) -> Document:
    """Return the update strategy with defaults. OnDelete has no defaults."""
    strategy["type"] = strategy.get("type") or str(UpdateType.ROLLING_UPDATE)
    if strategy["type"] != UpdateType.ROLLING_UPDATE:
        return strategy
    block = drop_nulls(strategy.get("rollingUpdate"))
    if has_surging:
        block = replace_surging(block)
    block["rollingUpdateType"] = block.get("rollingUpdateType") or str(RollingUpdateType.STANDARD)
    if "maxUnavailable" not in block and "maxSurge" not in block:
        block |= {"maxUnavailable": 1, "maxSurge": 0}
    strategy["rollingUpdate"] = block
    return strategy


def replace_surging(block: Document) -> Document:
    """Replace v1alpha1's type Surging by Standard. Where the document sets no value, maxSurge is 1 and maxUnavailable
    is 0.
    """
    if block.get("rollingUpdateType") != SURGING:
        return block
    given = drop_nulls(block)
    return {
        "maxSurge": 1,
        "maxUnavailable": 0,
        **given,
        "rollingUpdateType": str(RollingUpdateType.STANDARD),
    }
