"""Defaults that admission writes into a CloneSet (v1beta1).

document [+ the stored one] ──▶ add_defaults() ──▶ the document to store

Pure; the input documents are not changed. Same rules as OpenKruise's mutating webhook. Only a new or changed template
gets defaults. If every template got them, an upgrade of this manager could start a rollout of every CloneSet.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.cloneset.types import DEFAULT_MAX_UNAVAILABLE
from pykruise.kube.documents import Document, drop_nulls, is_same
from pykruise.pods.api import IN_PLACE_POLICIES, PodUpdatePolicy, UpdateType
from pykruise.pods.template import defaults as template_defaults
from pykruise.pods.template.defaults import DefaultingSettings


def add_defaults(
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    settings: DefaultingSettings | None = None,
) -> Document:
    """Return the document with defaults. `old` is the stored object on an update, None on creation."""
    settings = settings or DefaultingSettings()
    spec: Document = {"replicas": 1, "revisionHistoryLimit": 10, **drop_nulls(doc.get("spec"))}
    if not settings.template_no_defaults:
        spec = _with_template_defaults(spec, (old or {}).get("spec") or {}, settings)
    spec["updateStrategy"] = _fill_strategy_defaults(drop_nulls(spec.get("updateStrategy")))
    return {**doc, "spec": spec}


def _with_template_defaults(
    spec: Document, stored: Mapping[str, Any], settings: DefaultingSettings
) -> Document:
    template = spec.get("template")
    if isinstance(template, Mapping) and not is_same(stored.get("template"), template):
        spec["template"] = template_defaults.add_defaults(template, host_ports=settings.host_network_ports)
    claims = spec.get("volumeClaimTemplates")
    if claims and not is_same(stored.get("volumeClaimTemplates"), claims):
        spec["volumeClaimTemplates"] = [template_defaults.add_claim_defaults(claim) for claim in claims]
    return spec


def _fill_strategy_defaults(strategy: Document) -> Document:
    """Add defaults to the update strategy, unless its type is OnDelete."""
    strategy["type"] = strategy.get("type") or str(UpdateType.ROLLING_UPDATE)
    if strategy["type"] != UpdateType.ROLLING_UPDATE:
        return strategy
    block = drop_nulls(strategy.get("rollingUpdate"))
    block["podUpdatePolicy"] = block.get("podUpdatePolicy") or str(PodUpdatePolicy.RECREATE)
    if block["podUpdatePolicy"] in IN_PLACE_POLICIES:
        block.setdefault("inPlaceUpdateStrategy", {})
    block.setdefault("partition", 0)
    block.setdefault("maxUnavailable", DEFAULT_MAX_UNAVAILABLE)
    block.setdefault("maxSurge", 0)
    if block.get("scatterStrategy"):
        block["scatterStrategy"] = [{"value": "", **drop_nulls(term)} for term in block["scatterStrategy"]]
    strategy["rollingUpdate"] = block
    return strategy
