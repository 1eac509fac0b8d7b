"""State of objects for Prometheus: one series per object and count, with the names of kruise-state-metrics.

Manager.list_objects(kind), Manager.rollouts ──▶ StateCollector ──▶ /state-metrics (behind --state-metrics)

A scrape sends no requests to the API server: it reads the controllers' caches. A manager returns the series of the
objects that it reconciles, because only this manager knows why they wait: the leader returns all series, or, when
managers share the work, each returns those of its slots. So each series exists once; in queries, `max by (…)` merges
the series of two replicas while a slot or the leader changes. The phase of an object does not contain the causes of
children that another manager reconciles. Kinds declare the path of each number (plans/shown.py). An absent number is
0, because Go clients omit zeros in a status.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.manager.known_causes import KnownCauses, document_of, read_creation_time
from pykruise.manager.manager import Manager
from pykruise.plans.progress import Count, add_waits, read_at, with_waits_of_children
from pykruise.plans.shown import Field, Metrics, Shown
from pykruise.pods.reasons import AT_REST

_AMOUNTS: Final = (
    ("partition", "spec_strategy_partition"),
    ("maxSurge", "spec_strategy_rollingupdate_max_surge"),
    ("maxUnavailable", "spec_strategy_rollingupdate_max_unavailable"),
)
"""Series by field of a kind. The value is a number or the digits of a percentage, which the label `unit`
distinguishes.
"""

_LABEL: Final = re.compile(r"[^a-zA-Z0-9_]")


class StateCollector(Collector):
    """Converts objects to metrics at each scrape. `namespaces`: only objects of these namespaces and cluster-scoped
    objects are included; empty: all objects.
    """

    def __init__(self, manager: Manager, *, namespaces: Collection[str] = ()) -> None:
        self._manager = manager
        self._namespaces = frozenset(namespaces)

    def describe(self) -> Iterable[Metric]:
        """Return no metrics in advance, because there may be no caches yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the objects that this manager reconciles."""
        if self._manager.membership is None and not self._manager.is_leading:
            return
        phases = GaugeMetricFamily(
            "pykruise_phase",
            "1, with the phase of an object: Progressing, Healthy, Degraded, Paused, Failed or Completed.",
            labels=["kind", "namespace", "name", "phase"],
        )
        causes = KnownCauses(self._manager)
        for kind in self._manager.kinds:
            if kind.control is None:
                continue
            if kind.shown is None or kind.shown.progress is None:
                continue
            is_reconciled = self._manager.select_reconciled(kind)
            views = [
                view
                for view in self._manager.list_objects(kind)
                if self._is_selected(view.namespace) and is_reconciled(Key(view.namespace, view.name))
            ]
            documents = [document_of(view) for view in views]
            result = list(zip(views, documents, strict=True))
            for view, document in result:
                key = Key(view.namespace, view.name)
                phase = add_waits(kind.shown.progress_of(document).phase, causes.list_codes(kind, key))
                phase = with_waits_of_children(phase, causes.list_codes_of_children(kind, key))
                phases.add_metric([kind.resource.kind, view.namespace, view.name, phase], 1)
            if kind.shown.metrics is not None:
                zone = self._manager.settings.time_zone
                yield from _build_series(kind.control.name, kind.shown, kind.shown.metrics, result, zone=zone)
        yield phases
        yield self._build_waiting_metric()

    def _is_selected(self, namespace: str) -> bool:
        return not self._namespaces or not namespace or namespace in self._namespaces

    def _build_waiting_metric(self) -> Metric:
        gauge = GaugeMetricFamily(
            "pykruise_rollout_waiting",
            "1 while the state of an object does not match its spec, with the cause as a label (docs/reasons.md).",
            labels=["kind", "namespace", "name", "cause"],
        )
        kinds = {control.name: kind for kind in self._manager.kinds if (control := kind.control)}
        for name, meter in self._manager.rollouts.items():
            own = {
                key: causes[0]
                for key, causes in meter.causes.items()
                if key not in meter.waiting and causes[0] not in AT_REST
            }
            is_reconciled = self._manager.select_reconciled(kinds[name])
            for key, cause in (*meter.waiting.items(), *own.items()):
                if self._is_selected(key.namespace) and is_reconciled(key):
                    gauge.add_metric([kinds[name].resource.kind, key.namespace, key.name, cause], 1)
        return gauge


def make_state_registry(manager: Manager, *, namespaces: Collection[str] = ()) -> CollectorRegistry:
    """Return the registry of the metrics under `/state-metrics`."""
    made = CollectorRegistry(auto_describe=False)
    made.register(StateCollector(manager, namespaces=namespaces))
    return made


Found = Sequence[tuple[Any, Document]]


def _build_series(
    label: str, shown: Shown, metrics: Metrics, objects: Found, *, zone: str
) -> Iterator[Metric]:
    yield from _build_common_metrics(label, [view for view, _ in objects])
    for name, number in metrics.counts.items():
        metric = _build_gauge(label, name)
        for view, document in objects:
            metric.add_metric([view.namespace, view.name], number.of(document))
        yield metric
    for name, time_of in metrics.times.items():
        metric = _build_gauge(label, name)
        for view, document in objects:
            if (time := time_of(document, zone)) is not None:
                metric.add_metric([view.namespace, view.name], time)
        yield metric
    for field_name, name in _AMOUNTS:
        if (field := shown.fields.get(field_name)) is not None:
            yield _fill_amounts(_build_gauge(label, name, "unit"), field, objects)
    for name, path in metrics.texts.items():
        metric = _build_gauge(label, name, "value")
        for view, document in objects:
            if text := read_at(document, path):
                metric.add_metric([view.namespace, view.name, str(text)], 1)
        yield metric
    for name, (field_name, what) in metrics.item_counts.items():
        yield _of_items(label, name, what, field_name, metrics, objects)
    if metrics.has_conditions:
        yield _build_condition_metric(label, objects)


def _fill_amounts(metric: GaugeMetricFamily, field: Field, amounts: Found) -> Metric:
    for view, document in amounts:
        digits, unit = _parse_amount(field.read_value(document))
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


def _build_common_metrics(label: str, views: Sequence[Any]) -> Iterator[Metric]:
    prefix, labels = f"kruise_{label}", ["namespace", label]
    created = GaugeMetricFamily(f"{prefix}_created", "Creation time as Unix time.", labels=labels)
    generation = GaugeMetricFamily(f"{prefix}_metadata_generation", "Generation of the spec.", labels=labels)
    shown = GaugeMetricFamily(
        f"{prefix}_labels", "1, with the labels of the object as labels.", labels=labels
    )
    for view in views:
        place = [view.namespace, view.name]
        created.add_metric(place, read_creation_time(view))
        generation.add_metric(place, getattr(view, "generation", 0))
        own = {f"label_{_LABEL.sub('_', key)}": value for key, value in getattr(view, "labels", {}).items()}
        shown.add_sample(f"{prefix}_labels", {**own, "namespace": place[0], label: place[1]}, 1)
    yield from (created, generation, shown)


def _build_gauge(label: str, name: str, *labels: str) -> GaugeMetricFamily:
    what = f"{label}: {name.replace('_', ' ')}."
    return GaugeMetricFamily(f"kruise_{label}_{name}", what, labels=["namespace", label, *labels])


def _parse_amount(value: Any) -> tuple[float | None, str]:
    """Return the value of a number or a percentage, and its unit."""
    if isinstance(value, int):
        return float(value), "pods"
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        return float(value.removesuffix("%")), "percent"
    return None, ""


def _build_condition_metric(label: str, conditions: Found) -> Metric:
    metric = _build_gauge(label, "status_condition", "condition", "status")
    for view, document in conditions:
        for condition in document["status"].get("conditions") or ():
            for status in ("true", "false", "unknown"):
                is_it = str(condition.get("status", "")).lower() == status
                labels = [view.namespace, view.name, str(condition.get("type", "")), status]
                metric.add_metric(labels, float(is_it))
    return metric
