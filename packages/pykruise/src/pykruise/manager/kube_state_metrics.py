"""Configuration with which kube-state-metrics provides the series of /state-metrics for the kinds.

Kind.shown ──▶ build_custom_resource_state() ──▶ the file of its flag --custom-resource-state-config-file

Pure. Names and labels are those of the manager's own series (state_metrics.py), so dashboards and alerts work with
either. Values that must be computed from several fields are left out, because the file can contain only paths of
numbers.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds import list_kinds
from pykruise.kube.documents import Document
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Count
from pykruise.plans.shown import Metrics

__all__ = ["build_custom_resource_state"]

_QUIET: Final = 5
"""Verbosity at which kube-state-metrics logs a missing field, because most objects have no status at first."""

_NO_METRICS: Final = Metrics(has_conditions=False)


def build_custom_resource_state() -> Document:
    """The file, with every kind that has a definition."""
    resources = [_build_resource(kind) for kind in list_kinds() if kind.versions]
    return {"kind": "CustomResourceStateMetrics", "spec": {"resources": resources}}


def _build_resource(kind: Kind) -> Document:
    label = kind.control.name if kind.control is not None else kind.resource.kind.lower()
    metrics = kind.shown.metrics if kind.shown is not None and kind.shown.metrics is not None else _NO_METRICS
    names = {"namespace": ["metadata", "namespace"]} if kind.resource.namespaced else {}
    return {
        "groupVersionKind": {
            "group": kind.resource.group,
            "version": kind.resource.version,
            "kind": kind.resource.kind,
        },
        "metricNamePrefix": f"kruise_{label}",
        "errorLogV": _QUIET,
        "labelsFromPath": {**names, label: ["metadata", "name"]},
        "metrics": list(_build_metrics(label, metrics)),
    }


def _build_metrics(label: str, metrics: Metrics) -> Iterator[Document]:
    yield _build_gauge("created", "Creation time as Unix time.", path="metadata.creationTimestamp")
    yield _build_gauge("metadata_generation", "Generation of the spec.", path="metadata.generation")
    for name, number in metrics.counts.items():
        if isinstance(number, Count):
            yield _build_gauge(name, _help(label, name), path=number.path, nilIsZero=True)
    for name, path in metrics.texts.items():
        info = {"labelsFromPath": {"value": path.split(".")}}
        yield {"name": name, "help": _help(label, name), "each": {"type": "Info", "info": info}}
    for name, (field, what) in metrics.item_counts.items():
        labels = {metrics.item_label: ["name"]}
        yield _build_gauge(
            name, what, path=metrics.items, labelsFromPath=labels, valueFrom=[field], nilIsZero=True
        )
    if metrics.has_conditions:
        labels = {"condition": ["type"]}
        path, help_ = "status.conditions", "1: the condition is True; 0: it is False or unknown."
        yield _build_gauge("status_condition", help_, path=path, labelsFromPath=labels, valueFrom=["status"])


def _build_gauge(name: str, help_: str, *, path: str, **more: Any) -> Document:
    gauge: Mapping[str, Any] = {"path": path.split("."), **more}
    return {"name": name, "help": help_, "each": {"type": "Gauge", "gauge": gauge}}


def _help(label: str, name: str) -> str:
    return f"{label}: {name.replace('_', ' ')}."
