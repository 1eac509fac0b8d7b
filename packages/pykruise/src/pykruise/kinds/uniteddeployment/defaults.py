"""Defaults that admission writes into a UnitedDeployment (either version).

document [+ the stored one] ──▶ add_defaults() ──▶ the document to store

Pure; the input document is not changed. Same rules as OpenKruise's mutating webhook. Only the template of built-in
StatefulSets gets defaults here. Workloads of the other kinds get their defaults when they are created.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.uniteddeployment.workloads import STATEFUL_SET
from pykruise.kube.documents import Document, drop_nulls, get_path, is_same
from pykruise.pods.template import defaults as template_defaults
from pykruise.pods.template.defaults import DefaultingSettings


def add_defaults(
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    settings: DefaultingSettings = DefaultingSettings(),  # noqa: B008 - frozen
) -> Document:
    """Return the document with defaults. `old` is the stored document on an update: an unchanged template gets no
    defaults, and neither do replicas that the stored spec leaves to its subsets.
    """
    spec: Document = {"revisionHistoryLimit": 10, **drop_nulls(doc.get("spec"))}
    if not (old is not None and _is_sized_by_subsets(old.get("spec")) and _is_sized_by_subsets(spec)):
        spec.setdefault("replicas", 1)
    strategy = drop_nulls(spec.get("updateStrategy"))
    strategy["type"] = strategy.get("type") or "Manual"
    if strategy["type"] == "Manual":
        strategy.setdefault("manualUpdate", {})
    spec["updateStrategy"] = strategy
    template = spec.get("template")
    stored = ((old or {}).get("spec") or {}).get("template")
    if template and not is_same(stored, template) and not settings.template_no_defaults:
        spec["template"] = _fill_template_defaults(template, host_ports=settings.host_network_ports)
    topology = spec.get("topology")
    if isinstance(topology, Mapping) and topology.get("subsets"):
        spec["topology"] = {**topology, "subsets": _fill_subset_defaults(topology["subsets"])}
    return {**doc, "spec": spec}


def _is_sized_by_subsets(spec: Any) -> bool:
    """Whether the spec has no replicas, and each of its subsets has replicas. OpenKruise 1.8 stores such specs; their
    number of pods is the sum of the subsets' replicas.
    """
    if get_path(spec, "replicas") is not None:
        return False
    subsets = get_path(spec, "topology", "subsets", default=())
    return bool(subsets) and all(get_path(subset, "replicas") is not None for subset in subsets)


def _fill_template_defaults(template: Mapping[str, Any], *, host_ports: bool) -> Document:
    result = dict(template)
    given = result.get(STATEFUL_SET)
    if not isinstance(given, Mapping) or not isinstance(inner := given.get("spec"), Mapping):
        return result
    spec = dict(inner)
    if isinstance(spec.get("template"), Mapping):
        spec["template"] = template_defaults.add_defaults(spec["template"], host_ports=host_ports)
    if spec.get("volumeClaimTemplates"):
        spec["volumeClaimTemplates"] = [
            template_defaults.add_claim_defaults(claim) for claim in spec["volumeClaimTemplates"]
        ]
    return {**result, STATEFUL_SET: {**given, "spec": spec}}


def _fill_subset_defaults(subsets: list[Any]) -> list[Any]:
    """Set missing minimums to 0 if any subset has bounds and no subset has replicas."""
    has_bounds = any(
        subset.get("minReplicas") is not None or subset.get("maxReplicas") is not None for subset in subsets
    )
    if not has_bounds or any(subset.get("replicas") is not None for subset in subsets):
        return subsets
    return [
        subset if subset.get("minReplicas") is not None else {**subset, "minReplicas": 0}
        for subset in subsets
    ]
