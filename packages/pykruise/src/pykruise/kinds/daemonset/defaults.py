"""Defaults that admission writes into a DaemonSet (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure: the input document is not changed. Same rule as OpenKruise's mutating webhook. Unlike the templates of other
workloads, the template gets no defaults.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.daemonset.types import DEFAULT_BURST, SURGING, RollingUpdateType
from pykruise.kube.documents import Document, drop_nulls
from pykruise.pods.api import UpdateType


def add_defaults(doc: Mapping[str, Any]) -> Document:
    """Return the document with the defaults of its own version: only v1alpha1 has the type Surging."""
    spec: Document = {
        "burstReplicas": DEFAULT_BURST,
        "revisionHistoryLimit": 10,
        **drop_nulls(doc.get("spec")),
    }
    strategy = drop_nulls(spec.get("updateStrategy"))
    spec["updateStrategy"] = _update_strategy(strategy, has_surging=has_surging(doc))
    return {**doc, "spec": spec}


def has_surging(doc: Mapping[str, Any]) -> bool:
    """Whether the version of the document has the type Surging."""
    return str(doc.get("apiVersion")).endswith("/v1alpha1")


def _update_strategy(strategy: Document, *, has_surging: bool) -> Document:
    """Write the defaults of the update strategy. OnDelete has no defaults."""
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
    """Express v1alpha1's type Surging as Standard with maxSurge 1 and maxUnavailable 0, unless the document sets
    them.
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
