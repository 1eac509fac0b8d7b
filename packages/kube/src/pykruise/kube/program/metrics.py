"""Metrics of programs with caches, queues and controllers, under the names of controller-runtime.

stats of caches, queues, controllers, MeteredTransport ──▶ cache_metrics(), … ──▶ a Collector ──▶ /metrics

Nothing is counted here: a scrape reads the counters of the parts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Literal, TypeVar

import msgspec
import prometheus_client
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import CollectorRegistry

from pykruise.kube.cache.cache import NOT_SERVED, CacheStats
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.control.controller import ControllerStats
from pykruise.kube.control.queue import QueueStats
from pykruise.kube.program.serving import PathAnswer, Query, Responder
from pykruise.kube.values.histogram import HistogramStats

__all__ = [
    "cache_metrics",
    "collect_controller_metrics",
    "collect_queue_metrics",
    "collect_request_metrics",
    "make_counter",
    "make_gauge",
    "make_histogram",
    "make_metrics_responder",
]


def make_metrics_responder(made: CollectorRegistry) -> Responder:
    """Return a responder for `/metrics`."""

    def respond(_rest: str, _query: Query) -> PathAnswer:
        text = prometheus_client.generate_latest(made).decode()
        return PathAnswer(text, content_type=prometheus_client.CONTENT_TYPE_LATEST)

    return respond


def collect_request_metrics(metered: MeteredTransport, host: str) -> Iterator[Metric]:
    """Yield the metrics of requests to the API server, by responses and durations."""
    yield make_counter(
        "rest_client_requests",
        "Requests to the API server by status code.",
        ["code", "method", "host"],
        [
            ([str(code) if code else "<error>", method, host], count)
            for (method, code), count in metered.answers.items()
        ],
    )
    yield make_histogram(
        "rest_client_request_duration_seconds",
        "Durations of requests to the API server.",
        ["verb", "host"],
        [([method, host], duration.take_snapshot()) for method, duration in metered.durations.items()],
    )
    yield make_counter(
        "pykruise_api_requests",
        "Requests by method and resource, including watches.",
        ["method", "resource"],
        [(what.split(" ", 1), count) for what, count in metered.requests.items()],
    )
    yield make_counter(
        "pykruise_missing_rights",
        "Requests that RBAC denied.",
        ["method", "resource"],
        [(what.split(" ", 1), count) for what, count in metered.missing_rights.items()],
    )
    yield make_counter(
        "pykruise_api_conflicts",
        "Writes that the API server rejected with a conflict.",
        ["method"],
        [([method], count) for (method, code), count in metered.answers.items() if code == 409],
    )


def collect_controller_metrics(
    controllers: Mapping[str, ControllerStats], labels: Mapping[str, str]
) -> Iterator[Metric]:
    """Return controller-runtime's series about reconciles. `labels`: label values that replace controller names."""
    metrics = [([labels.get(name, name)], controller) for name, controller in controllers.items()]
    yield make_counter(
        "controller_runtime_reconcile",
        "Reconciles by result.",
        ["controller", "result"],
        [
            ([*name, result], controller.results.get(result, 0))
            for name, controller in metrics
            for result in ("success", "requeue", "requeue_after", "error")
        ],
    )
    yield from _yield_metrics(["controller"], metrics, _OF_CONTROLLERS)


def collect_queue_metrics(queues: Mapping[str, QueueStats], labels: Mapping[str, str]) -> Iterator[Metric]:
    """Return the series of work queues, as client-go names them. `labels`: label values that replace queue names."""
    metrics = [([labels.get(name, name)] * 2, queue) for name, queue in queues.items()]
    yield from _yield_metrics(["name", "controller"], metrics, _OF_QUEUES)


def cache_metrics(caches: Mapping[str, CacheStats]) -> Iterator[Metric]:
    """Return the series of caches, by resource."""
    metrics = [([name], cache) for name, cache in caches.items()]
    yield from _yield_metrics(["resource"], metrics, _OF_CACHES)


S = TypeVar("S")


class _Of(msgspec.Struct, Generic[S], frozen=True):
    """A metric of caches, queues or controllers. `read` returns its value from their stats; None: no value yet."""

    name: str
    what: str
    read: Callable[[S], float | HistogramStats | None]
    type: Literal["gauge", "counter", "histogram"] = "gauge"
    """The text format adds `_total` to the names of counters."""


_OF_CONTROLLERS: tuple[_Of[ControllerStats], ...] = (
    _Of(
        "controller_runtime_reconcile_errors",
        "Failed reconciles.",
        lambda controller: controller.failures,
        type="counter",
    ),
    _Of(
        "controller_runtime_terminal_reconcile_errors",
        "Failed reconciles that are not retried: always 0.",
        lambda _: 0,
        type="counter",
    ),
    _Of(
        "controller_runtime_reconcile_panics",
        "Reconciles that failed with an unexpected exception.",
        lambda controller: controller.bugs,
        type="counter",
    ),
    _Of("controller_runtime_max_concurrent_reconciles", "Workers.", lambda controller: controller.workers),
    _Of("controller_runtime_active_workers", "Busy workers.", lambda controller: controller.in_flight),
    _Of(
        "pykruise_conflicts",
        "Reconciles that found an object changed since the plan.",
        lambda controller: controller.conflicts,
        type="counter",
    ),
    _Of(
        "pykruise_plan_seconds",
        "CPU time of reconciles, mostly of planning.",
        lambda controller: controller.cost_sum_s,
        type="counter",
    ),
    _Of(
        "controller_runtime_reconcile_time_seconds",
        "Durations of reconciles, including writes.",
        lambda controller: controller.durations,
        type="histogram",
    ),
)

_OF_QUEUES: tuple[_Of[QueueStats], ...] = (
    _Of("workqueue_depth", "Queue depth.", lambda queue: queue.depth),
    _Of("workqueue_adds", "Keys added.", lambda queue: queue.adds, type="counter"),
    _Of(
        "workqueue_retries",
        "Keys that were added again after a failure.",
        lambda queue: queue.retries,
        type="counter",
    ),
    _Of(
        "workqueue_unfinished_work_seconds",
        "Sum of the durations of unfinished reconciles.",
        lambda queue: queue.unfinished_s,
    ),
    _Of(
        "workqueue_longest_running_processor_seconds",
        "Duration of the longest unfinished reconcile.",
        lambda queue: queue.longest_s,
    ),
    _Of(
        "workqueue_queue_duration_seconds",
        "Time that keys waited in the queue.",
        lambda queue: queue.waits,
        type="histogram",
    ),
    _Of(
        "workqueue_work_duration_seconds",
        "Time from taking a key from the queue until its reconcile ended.",
        lambda queue: queue.works,
        type="histogram",
    ),
)

_OF_CACHES: tuple[_Of[CacheStats], ...] = (
    _Of("pykruise_cache_objects", "Cached objects.", lambda cache: cache.objects),
    _Of("pykruise_cache_synced", "1 if the cache is filled.", lambda cache: cache.synced),
    _Of(
        "pykruise_cache_connected",
        "1 while a watch is open; no series if the API server does not serve the resource.",
        lambda cache: None if cache.last_code == NOT_SERVED else cache.connected,
    ),
    _Of(
        "pykruise_cache_pending_writes",
        "Writes of this program that the watch has not delivered yet.",
        lambda cache: cache.pending,
    ),
    _Of(
        "pykruise_cache_lag_seconds",
        "Time from a write of this program until the watch shows it; 0 if it was not measured in the last two minutes.",
        lambda cache: cache.lag_s,
    ),
    _Of(
        "pykruise_cache_last_event_timestamp_seconds",
        "Time of the last event or bookmark.",
        lambda cache: cache.last_event_at,
    ),
    _Of(
        "pykruise_cache_events", "Events and bookmarks received.", lambda cache: cache.events, type="counter"
    ),
    _Of(
        "pykruise_cache_relists", "Lists after the initial list.", lambda cache: cache.relists, type="counter"
    ),
    _Of(
        "pykruise_cache_reconnects",
        "Watches after the initial watch.",
        lambda cache: cache.reconnects,
        type="counter",
    ),
    _Of(
        "pykruise_cache_errors", "Lists and watches that failed.", lambda cache: cache.errors, type="counter"
    ),
    _Of(
        "pykruise_cache_unreadable",
        "Objects that could not be read.",
        lambda cache: cache.unreadable,
        type="counter",
    ),
)


def _yield_metrics(
    labels: list[str], tables: Sequence[tuple[list[str], S]], rows: Iterable[_Of[S]]
) -> Iterator[Metric]:
    for row in rows:
        values = [(name, value) for name, s in tables if (value := row.read(s)) is not None]
        if row.type == "histogram":
            histograms = [(name, value) for name, value in values if isinstance(value, HistogramStats)]
            yield make_histogram(row.name, row.what, labels, histograms)
        else:
            numbers = [
                (name, float(value)) for name, value in values if not isinstance(value, HistogramStats)
            ]
            yield (make_gauge if row.type == "gauge" else make_counter)(row.name, row.what, labels, numbers)


Samples = Iterable[tuple[list[str], float]]


def make_gauge(name: str, what: str, labels: list[str], samples: Samples) -> Metric:
    """Return a gauge. `what`: its help text; `samples`: values of the labels, and the value."""
    family = GaugeMetricFamily(name, what, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def make_counter(name: str, what: str, labels: list[str], samples: Samples) -> Metric:
    """Return a counter. `name` is without `_total`, which the format adds."""
    family = CounterMetricFamily(name, what, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def make_histogram(
    name: str, what: str, labels: list[str], value: Iterable[tuple[list[str], HistogramStats]]
) -> Metric:
    """Return a histogram of durations in seconds that are already counted. Bounds are written as Go writes them (`1`,
    not `1.0`): a query may select a bucket by its label `le`.
    """
    family = HistogramMetricFamily(name, what, labels=labels)
    for values, stats in value:
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*stats.bounds, float("inf")), stats.counts, strict=True):
            total += count
            buckets.append(
                ("+Inf" if bound == float("inf") else repr(bound).removesuffix(".0"), float(total))
            )
        family.add_metric(values, buckets=buckets, sum_value=stats.sum_s)
    return family
