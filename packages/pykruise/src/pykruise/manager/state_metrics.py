"""How objects are, for Prometheus: one series an object and count, under the names of kruise-state-metrics.

Manager.objects(kind), Manager.rollouts ──▶ StateCollector ──▶ /state-metrics (behind --state-metrics)

Nothing is asked of the API server: a scrape reads the caches that controllers work with. Only the manager that works
answers with series, so that none is there twice; `max by (…)` over replicas bridges a change of leader. The table
says where each number is in an object; a number that is absent is 0, as Go writes statuses.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, get_path
from pykruise.manager.manager import Manager

__all__ = ["TABLES", "StateCollector", "Table", "state_registry"]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one kind: `kruise_<controller>_<name>`, labelled with namespace and, as `<controller>`, name."""

    counts: Mapping[str, str]
    """Name → dotted path in `{spec, status}`."""
    amounts: Mapping[str, str] = {}
    """Name → path of a number or percentage; of a percentage only the digits, with the label `unit`."""
    texts: Mapping[str, str] = {}
    """Name → path of a text, which becomes the label `value` of a series that is 1."""
    has_conditions: bool = True


_BLOCK: Final = "spec.updateStrategy.rollingUpdate"

_POD_COUNTS: Final = {
    "spec_replicas": "spec.replicas",
    "status_observed_generation": "status.observedGeneration",
    "status_replicas": "status.replicas",
    "status_replicas_available": "status.availableReplicas",
    "status_replicas_ready": "status.readyReplicas",
    "status_replicas_updated": "status.updatedReplicas",
}

TABLES: Final[Mapping[str, Table]] = {
    "cloneset": Table(
        counts={
            **_POD_COUNTS,
            "status_replicas_unavailable": "",
            "status_replicas_updated_ready": "status.updatedReadyReplicas",
        },
        amounts={
            "spec_strategy_partition": f"{_BLOCK}.partition",
            "spec_strategy_rollingupdate_max_surge": f"{_BLOCK}.maxSurge",
            "spec_strategy_rollingupdate_max_unavailable": f"{_BLOCK}.maxUnavailable",
        },
        texts={"spec_strategy_type": "spec.updateStrategy.type"},
    ),
    "statefulset": Table(
        counts={**_POD_COUNTS, "status_replicas_current": "status.currentReplicas"},
        amounts={
            "spec_strategy_partition": f"{_BLOCK}.partition",
            "spec_strategy_rollingupdate_max_unavailable": f"{_BLOCK}.maxUnavailable",
        },
        texts={
            "spec_strategy_type": "spec.updateStrategy.type",
            "status_current_revision": "status.currentRevision",
            "status_update_revision": "status.updateRevision",
        },
    ),
    "daemonset": Table(
        counts={
            "status_observed_generation": "status.observedGeneration",
            "status_current_number_scheduled": "status.currentNumberScheduled",
            "status_desired_number_scheduled": "status.desiredNumberScheduled",
            "status_number_available": "status.numberAvailable",
            "status_number_misscheduled": "status.numberMisscheduled",
            "status_number_ready": "status.numberReady",
            "status_number_unavailable": "status.numberUnavailable",
            "status_updated_number_scheduled": "status.updatedNumberScheduled",
        },
        amounts={
            "spec_strategy_partition": f"{_BLOCK}.partition",
            "spec_strategy_rollingupdate_max_surge": f"{_BLOCK}.maxSurge",
        },
        texts={"spec_strategy_type": "spec.updateStrategy.type"},
    ),
    "uniteddeployment": Table(
        counts={
            "spec_replicas": "spec.replicas",
            "status_observed_generation": "status.observedGeneration",
            "status_replicas": "status.replicas",
            "status_replicas_ready": "status.readyReplicas",
            "status_replicas_updated": "status.updatedReplicas",
            "status_replicas_updated_ready": "status.updatedReadyReplicas",
        },
    ),
    "sidecarset": Table(
        counts={
            "status_observed_generation": "status.observedGeneration",
            "status_replicas_matched": "status.matchedPods",
            "status_replicas_updated": "status.updatedPods",
            "status_replicas_ready": "status.readyPods",
            "status_replicas_updated_ready": "status.updatedReadyPods",
        },
        amounts={
            "spec_strategy_partition": "spec.updateStrategy.partition",
            "spec_strategy_rollingupdate_max_unavailable": "spec.updateStrategy.maxUnavailable",
        },
        texts={"spec_strategy_type": "spec.updateStrategy.type"},
    ),
    "broadcastjob": Table(
        counts={
            "status_active": "status.active",
            "status_desired": "status.desired",
            "status_failed": "status.failed",
            "status_succeeded": "status.succeeded",
        },
    ),
    "podunavailablebudget": Table(
        counts={
            "status_observed_generation": "status.observedGeneration",
            "status_current_available": "status.currentAvailable",
            "status_desired_available": "status.desiredAvailable",
            "status_total_replicas": "status.totalReplicas",
            "status_unavailable_allowed": "status.unavailableAllowed",
        },
        has_conditions=False,
    ),
}
"""By the controller's name. WorkloadSpreads, whose counts are by subset, are counted by a function of their own."""

_SPREAD: Final = "workloadspread"

_LABEL: Final = re.compile(r"[^a-zA-Z0-9_]")


class StateCollector(Collector):
    """Turns objects into metrics at each scrape. `namespaces`: only objects of these, and those in none; empty: of
    all."""

    def __init__(self, manager: Manager, *, namespaces: Collection[str] = ()) -> None:
        self._manager = manager
        self._namespaces = frozenset(namespaces)

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead: caches may not be there yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics; none while another manager works."""
        if not self._manager.is_leading:
            return
        for kind in self._manager.kinds:
            if kind.control is None:
                continue
            name = kind.control.name
            if name not in TABLES and name != _SPREAD:
                continue
            views = [view for view in self._manager.objects(kind) if self._is_shown(view.namespace)]
            if name == _SPREAD:
                yield from _spreads(views)
            else:
                yield from _table(name, TABLES[name], views)
        yield self._waiting()

    def _is_shown(self, namespace: str) -> bool:
        return not self._namespaces or not namespace or namespace in self._namespaces

    def _waiting(self) -> Metric:
        found = GaugeMetricFamily(
            "pykruise_rollout_waiting",
            "1 while an object is not as its spec wants it, with the cause in one word (docs/reasons.md).",
            labels=["kind", "namespace", "name", "cause"],
        )
        kinds = {one.name: kind.resource.kind for kind in self._manager.kinds if (one := kind.control)}
        for name, meter in self._manager.rollouts.items():
            for key, cause in meter.waiting.items():
                if self._is_shown(key.namespace):
                    found.add_metric([kinds[name], key.namespace, key.name, cause], 1)
        return found


def state_registry(manager: Manager, *, namespaces: Collection[str] = ()) -> CollectorRegistry:
    """What `/state-metrics` shows."""
    made = CollectorRegistry(auto_describe=False)
    made.register(StateCollector(manager, namespaces=namespaces))
    return made


def _table(label: str, table: Table, views: Sequence[Any]) -> Iterator[Metric]:
    documents = [_document(view) for view in views]
    found = list(zip(views, documents, strict=True))
    yield from _common(label, views)
    for name, path in table.counts.items():
        metric = _gauge(label, name)
        for view, document in found:
            value = _count(document, path) if path else _unavailable(document)
            metric.add_metric([view.namespace, view.name], value)
        yield metric
    for name, path in table.amounts.items():
        metric = _gauge(label, name, "unit")
        for view, document in found:
            digits, unit = _amount(get_path(document, *path.split(".")))
            if digits is not None:
                metric.add_metric([view.namespace, view.name, unit], digits)
        yield metric
    for name, path in table.texts.items():
        metric = _gauge(label, name, "value")
        for view, document in found:
            if text := get_path(document, *path.split(".")):
                metric.add_metric([view.namespace, view.name, str(text)], 1)
        yield metric
    if table.has_conditions:
        yield _conditions(label, found)


def _common(label: str, views: Sequence[Any]) -> Iterator[Metric]:
    prefix, labels = f"kruise_{label}", ["namespace", label]
    created = GaugeMetricFamily(f"{prefix}_created", "When it was created, Unix time.", labels=labels)
    generation = GaugeMetricFamily(f"{prefix}_metadata_generation", "The spec's number.", labels=labels)
    shown = GaugeMetricFamily(f"{prefix}_labels", "1, with its labels.", labels=labels)
    for view in views:
        place = [view.namespace, view.name]
        created.add_metric(place, _created(view))
        generation.add_metric(place, getattr(view, "generation", 0))
        own = {f"label_{_LABEL.sub('_', key)}": value for key, value in getattr(view, "labels", {}).items()}
        shown.add_sample(f"{prefix}_labels", {**own, "namespace": place[0], label: place[1]}, 1)
    yield from (created, generation, shown)


def _created(view: Any) -> float:
    time = getattr(view, "creation_time", "")
    return parse_time(time) if time else float(getattr(view, "created_at", None) or 0.0)


def _gauge(label: str, name: str, *labels: str) -> GaugeMetricFamily:
    what = f"{label}: {name.replace('_', ' ')}."
    return GaugeMetricFamily(f"kruise_{label}_{name}", what, labels=["namespace", label, *labels])


def _document(view: Any) -> Document:
    spec = getattr(view, "spec", None)
    conditions = [*(view.stored_status.get("conditions") or ()), *getattr(view, "kstatus", ())]
    return {
        "spec": msgspec.to_builtins(spec) if spec is not None else {},
        "status": {**view.stored_status, "conditions": conditions},
    }


def _count(document: Document, path: str) -> float:
    value = get_path(document, *path.split("."))
    return float(value) if isinstance(value, int | float) else 0.0


def _unavailable(document: Document) -> float:
    there = _count(document, "status.replicas") - _count(document, "status.availableReplicas")
    return max(there, 0.0)


def _amount(value: Any) -> tuple[float | None, str]:
    """A number or a percentage, and which."""
    if isinstance(value, int):
        return float(value), "pods"
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        return float(value.removesuffix("%")), "percent"
    return None, ""


def _conditions(label: str, found: Sequence[tuple[Any, Document]]) -> Metric:
    metric = _gauge(label, "status_condition", "condition", "status")
    for view, document in found:
        for one in document["status"]["conditions"]:
            for status in ("true", "false", "unknown"):
                is_it = str(one.get("status", "")).lower() == status
                labels = [view.namespace, view.name, str(one.get("type", "")), status]
                metric.add_metric(labels, float(is_it))
    return metric


def _spreads(views: Sequence[Any]) -> Iterator[Metric]:
    yield from _common(_SPREAD, views)
    labels = ["namespace", _SPREAD, "subset"]
    there = GaugeMetricFamily("kruise_workloadspread_status_subset_replicas", "Its pods.", labels=labels)
    missing = GaugeMetricFamily(
        "kruise_workloadspread_status_subset_replicas_missing",
        "Pods that it still takes; -1: any number.",
        labels=labels,
    )
    for view in views:
        for subset in view.stored_status.get("subsetStatuses") or ():
            place = [view.namespace, view.name, subset.get("name", "")]
            there.add_metric(place, _count(subset, "replicas"))
            missing.add_metric(place, _count(subset, "missingReplicas"))
    yield from (there, missing)
