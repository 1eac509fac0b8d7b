"""How objects are, for Prometheus: one series an object and count, under the names of kruise-state-metrics.

Manager.objects(kind), Manager.rollouts ──▶ StateCollector ──▶ /state-metrics (behind --state-metrics)

Nothing is asked of the API server: a scrape reads the caches that controllers work with. Only the manager that works
answers with series, so that none is there twice; `max by (…)` over replicas bridges a change of leader. Kinds
say where each number is (plans/shown.py); a number that is absent is 0, as Go writes statuses.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.manager.known_causes import KnownCauses, created_at, document_of
from pykruise.manager.manager import Manager
from pykruise.plans.progress import Count, read_at, with_waits, with_waits_of_children
from pykruise.plans.shown import Field, Metrics, Shown
from pykruise.pods.reasons import AT_REST

_AMOUNTS: Final = (
    ("partition", "spec_strategy_partition"),
    ("maxSurge", "spec_strategy_rollingupdate_max_surge"),
    ("maxUnavailable", "spec_strategy_rollingupdate_max_unavailable"),
)
"""Field of a kind → its series: a number or percentage; of a percentage only the digits, with the label `unit`."""

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
        phases = GaugeMetricFamily(
            "pykruise_phase",
            "1, with how an object is: Progressing, Healthy, Degraded, Paused, Failed or Completed.",
            labels=["kind", "namespace", "name", "phase"],
        )
        causes = KnownCauses(self._manager)
        for kind in self._manager.kinds:
            if kind.control is None:
                continue
            if kind.shown is None or kind.shown.progress is None:
                continue
            views = [view for view in self._manager.objects(kind) if self._is_shown(view.namespace)]
            documents = [document_of(view) for view in views]
            result = list(zip(views, documents, strict=True))
            for view, document in result:
                key = Key(view.namespace, view.name)
                phase = with_waits(kind.shown.progress_of(document).phase, causes.of(kind, key))
                phase = with_waits_of_children(phase, causes.of_children(kind, key))
                phases.add_metric([kind.resource.kind, view.namespace, view.name, phase], 1)
            if kind.shown.metrics is not None:
                yield from _series(kind.control.name, kind.shown, kind.shown.metrics, result)
        yield phases
        yield self._waiting()

    def _is_shown(self, namespace: str) -> bool:
        return not self._namespaces or not namespace or namespace in self._namespaces

    def _waiting(self) -> Metric:
        gauge = GaugeMetricFamily(
            "pykruise_rollout_waiting",
            "1 while an object is not as its spec wants it, with the cause in one word (docs/reasons.md).",
            labels=["kind", "namespace", "name", "cause"],
        )
        kinds = {
            control.name: kind.resource.kind for kind in self._manager.kinds if (control := kind.control)
        }
        for name, meter in self._manager.rollouts.items():
            own = {
                key: causes[0]
                for key, causes in meter.causes.items()
                if key not in meter.waiting and causes[0] not in AT_REST
            }
            for key, cause in (*meter.waiting.items(), *own.items()):
                if self._is_shown(key.namespace):
                    gauge.add_metric([kinds[name], key.namespace, key.name, cause], 1)
        return gauge


def state_registry(manager: Manager, *, namespaces: Collection[str] = ()) -> CollectorRegistry:
    """Metrics under `/state-metrics`."""
    made = CollectorRegistry(auto_describe=False)
    made.register(StateCollector(manager, namespaces=namespaces))
    return made


Found = Sequence[tuple[Any, Document]]


def _series(label: str, shown: Shown, metrics: Metrics, objects: Found) -> Iterator[Metric]:
    yield from _common(label, [view for view, _ in objects])
    for name, number in metrics.counts.items():
        metric = _gauge(label, name)
        for view, document in objects:
            metric.add_metric([view.namespace, view.name], number.of(document))
        yield metric
    for name, time_of in metrics.times.items():
        metric = _gauge(label, name)
        for view, document in objects:
            if (time := time_of(document)) is not None:
                metric.add_metric([view.namespace, view.name], time)
        yield metric
    for field_name, name in _AMOUNTS:
        if (field := shown.fields.get(field_name)) is not None:
            yield _amounts(_gauge(label, name, "unit"), field, objects)
    for name, path in metrics.texts.items():
        metric = _gauge(label, name, "value")
        for view, document in objects:
            if text := read_at(document, path):
                metric.add_metric([view.namespace, view.name, str(text)], 1)
        yield metric
    for name, (field_name, what) in metrics.item_counts.items():
        yield _of_items(label, name, what, field_name, metrics, objects)
    if metrics.has_conditions:
        yield _conditions(label, objects)


def _amounts(metric: GaugeMetricFamily, field: Field, amounts: Found) -> Metric:
    for view, document in amounts:
        digits, unit = _amount(field.value(document))
        if digits is not None:
            metric.add_metric([view.namespace, view.name, unit], digits)
    return metric


def _of_items(
    label: str, name: str, what: str, field_name: str, metrics: Metrics, items: Found
) -> GaugeMetricFamily:
    labels = ["namespace", label, metrics.item_label]
    metric = GaugeMetricFamily(f"kruise_{label}_{name}", what, labels=labels)
    for view, document in items:
        for item in read_at(document, metrics.items) or ():
            metric.add_metric(
                [view.namespace, view.name, str(item.get("name", ""))], Count(field_name).of(item)
            )
    return metric


def _common(label: str, views: Sequence[Any]) -> Iterator[Metric]:
    prefix, labels = f"kruise_{label}", ["namespace", label]
    created = GaugeMetricFamily(f"{prefix}_created", "When it was created, Unix time.", labels=labels)
    generation = GaugeMetricFamily(f"{prefix}_metadata_generation", "The spec's number.", labels=labels)
    shown = GaugeMetricFamily(f"{prefix}_labels", "1, with its labels.", labels=labels)
    for view in views:
        place = [view.namespace, view.name]
        created.add_metric(place, created_at(view))
        generation.add_metric(place, getattr(view, "generation", 0))
        own = {f"label_{_LABEL.sub('_', key)}": value for key, value in getattr(view, "labels", {}).items()}
        shown.add_sample(f"{prefix}_labels", {**own, "namespace": place[0], label: place[1]}, 1)
    yield from (created, generation, shown)


def _gauge(label: str, name: str, *labels: str) -> GaugeMetricFamily:
    what = f"{label}: {name.replace('_', ' ')}."
    return GaugeMetricFamily(f"kruise_{label}_{name}", what, labels=["namespace", label, *labels])


def _amount(value: Any) -> tuple[float | None, str]:
    """A number or a percentage, and which."""
    if isinstance(value, int):
        return float(value), "pods"
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        return float(value.removesuffix("%")), "percent"
    return None, ""


def _conditions(label: str, conditions: Found) -> Metric:
    metric = _gauge(label, "status_condition", "condition", "status")
    for view, document in conditions:
        for condition in document["status"].get("conditions") or ():
            for status in ("true", "false", "unknown"):
                is_it = str(condition.get("status", "")).lower() == status
                labels = [view.namespace, view.name, str(condition.get("type", "")), status]
                metric.add_metric(labels, float(is_it))
    return metric
