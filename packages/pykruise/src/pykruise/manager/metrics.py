"""What Prometheus reads: the stats of queues, controllers, caches, requests and the election, under known names.

Manager.stats(), MeteredTransport, LeaderElector ──▶ StatsCollector ──▶ /metrics

Names and labels of controller-runtime and of OpenKruise where they have one, so that dashboards go on working;
`pykruise_…` for the rest. Nothing is counted here: a scrape reads what the parts count themselves.
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
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.kube.cache import CacheStats
from pykruise.kube.controller import ControllerStats
from pykruise.kube.histogram import HistogramStats
from pykruise.kube.metered import MeteredTransport
from pykruise.kube.queue import QueueStats
from pykruise.kube.version import __version__
from pykruise.manager.manager import Manager, ManagerStats
from pykruise.manager.serving import Answer, Query, Responder

__all__ = ["StatsCollector", "metrics_responder", "registry"]


def registry(manager: Manager, metered: MeteredTransport, *, host: str = "") -> CollectorRegistry:
    """Everything about one manager, and about its process. `host`: of the API server, for labels.

    Other parts (webhooks) register their own metrics with it.
    """
    made = CollectorRegistry(auto_describe=False)
    made.register(StatsCollector(manager, metered, host=host))
    prometheus_client.ProcessCollector(registry=made)
    prometheus_client.PlatformCollector(registry=made)
    prometheus_client.GCCollector(registry=made)
    return made


def metrics_responder(made: CollectorRegistry) -> Responder:
    """What `/metrics` answers."""

    def respond(_rest: str, _query: Query) -> Answer:
        text = prometheus_client.generate_latest(made).decode()
        return Answer(text, content_type=prometheus_client.CONTENT_TYPE_LATEST)

    return respond


class StatsCollector(Collector):
    """Turns stats into metrics at each scrape."""

    def __init__(self, manager: Manager, metered: MeteredTransport, *, host: str = "") -> None:
        self._manager = manager
        self._metered = metered
        self._host = host

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead: there is no event loop to ask yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics. Called where the event loop runs."""
        stats = self._manager.stats()
        labels = {one.name: one.component for kind in self._manager.kinds if (one := kind.control)}
        yield from self._election()
        yield from _controllers(stats, labels)
        yield from _queues(stats, labels)
        yield from _caches(stats)
        yield from self._requests()
        yield self._rollouts()
        yield _gauge("pykruise_build_info", "1, with the version.", ["version"], [([__version__], 1)])
        problems = {
            "caches-synced": len(self._manager.cache_problems()),
            **{one.name: len(one.problems()) for one in self._manager.components},
        }
        yield _gauge(
            "pykruise_readiness_problems",
            "Why this replica is not ready, by check.",
            ["check"],
            [([name], count) for name, count in problems.items()],
        )

    def _election(self) -> Iterator[Metric]:
        leads = int(self._manager.is_leading)
        yield _gauge("kruise_manager_is_leader", "1 while this replica leads.", [], [([], leads)])
        elector = self._manager.elector
        if elector is None:
            return
        name = [self._manager.settings.election.name]
        stats = elector.stats()
        yield _gauge(
            "leader_election_master_status", "1 while this replica leads.", ["name"], [(name, leads)]
        )
        yield _counter(
            "leader_election_slowpath",
            "Renewals that had to read the lease first.",
            ["name"],
            [(name, stats.slow_renewals)],
        )
        yield _counter(
            "pykruise_lease_errors",
            "Failed tries to take or renew the lease.",
            ["name"],
            [(name, stats.errors)],
        )

    def _rollouts(self) -> Metric:
        kinds = {one.name: kind.resource.kind for kind in self._manager.kinds if (one := kind.control)}
        return _histogram(
            "pykruise_rollout_duration_seconds",
            "From a changed spec until the object is as it wants it: complete; held by a pause or a partition; stalled;"
            " superseded by the next change.",
            ["kind", "result"],
            [
                ([kinds[name], result], stats)
                for name, meter in self._manager.rollouts.items()
                for result, stats in meter.durations.items()
            ],
        )

    def _requests(self) -> Iterator[Metric]:
        metered = self._metered
        yield _counter(
            "rest_client_requests",
            "Requests to the API server by their answer.",
            ["code", "method", "host"],
            [
                ([str(code) if code else "<error>", method, self._host], count)
                for (method, code), count in metered.answers.items()
            ],
        )
        yield _histogram(
            "rest_client_request_duration_seconds",
            "How long requests to the API server took.",
            ["verb", "host"],
            [([method, self._host], one.snapshot()) for method, one in metered.durations.items()],
        )
        yield _counter(
            "pykruise_api_requests",
            "Requests by method and resource; watches too.",
            ["method", "resource"],
            [(what.split(" ", 1), count) for what, count in metered.requests.items()],
        )
        yield _counter(
            "pykruise_missing_rights",
            "Requests that RBAC refused.",
            ["method", "resource"],
            [(what.split(" ", 1), count) for what, count in metered.missing_rights.items()],
        )
        yield _counter(
            "pykruise_api_conflicts",
            "Writes that found the object changed.",
            ["method"],
            [([method], count) for (method, code), count in metered.answers.items() if code == 409],
        )


def _controllers(stats: ManagerStats, labels: Mapping[str, str]) -> Iterator[Metric]:
    found = [([labels.get(name, name)], one) for name, one in stats.controllers.items()]
    yield _counter(
        "controller_runtime_reconcile",
        "Turns by how they ended.",
        ["controller", "result"],
        [
            ([*name, result], one.results.get(result, 0))
            for name, one in found
            for result in ("success", "requeue", "requeue_after", "error")
        ],
    )
    yield from _tables(["controller"], found, _OF_CONTROLLERS)


def _queues(stats: ManagerStats, labels: Mapping[str, str]) -> Iterator[Metric]:
    found = [([labels.get(name, name)] * 2, one) for name, one in stats.queues.items()]
    yield from _tables(["name", "controller"], found, _OF_QUEUES)


def _caches(stats: ManagerStats) -> Iterator[Metric]:
    found = [([name], one) for name, one in stats.caches.items()]
    yield from _tables(["resource"], found, _OF_CACHES)


S = TypeVar("S")


class _Of(msgspec.Struct, Generic[S], frozen=True):
    """A metric that each of a kind of parts has, and where its stats say it (None: not yet)."""

    name: str
    what: str
    read: Callable[[S], float | HistogramStats | None]
    type: Literal["gauge", "counter", "histogram"] = "gauge"
    """The format ends the names of counters with `_total`."""


_OF_CONTROLLERS: tuple[_Of[ControllerStats], ...] = (
    _Of("controller_runtime_reconcile_errors", "Failed turns.", lambda one: one.failures, type="counter"),
    _Of(
        "controller_runtime_terminal_reconcile_errors",
        "Failed turns that are not tried again: none here.",
        lambda _: 0,
        type="counter",
    ),
    _Of("controller_runtime_max_concurrent_reconciles", "Workers.", lambda one: one.workers),
    _Of("controller_runtime_active_workers", "Busy workers.", lambda one: one.in_flight),
    _Of(
        "pykruise_conflicts", "Turns that found the world changed.", lambda one: one.conflicts, type="counter"
    ),
    _Of(
        "pykruise_plan_seconds",
        "CPU time of turns: planning, mostly.",
        lambda one: one.cost_sum_s,
        type="counter",
    ),
    _Of(
        "controller_runtime_reconcile_time_seconds",
        "How long turns took, writes included.",
        lambda one: one.durations,
        type="histogram",
    ),
)

_OF_QUEUES: tuple[_Of[QueueStats], ...] = (
    _Of("workqueue_depth", "Keys that wait.", lambda one: one.depth),
    _Of("workqueue_adds", "Keys added.", lambda one: one.adds, type="counter"),
    _Of("workqueue_retries", "Keys added after a failure.", lambda one: one.retries, type="counter"),
    _Of(
        "workqueue_unfinished_work_seconds",
        "How long keys have been worked on that are not done, together.",
        lambda one: one.unfinished_s,
    ),
    _Of(
        "workqueue_longest_running_processor_seconds",
        "... and the one that has been for longest.",
        lambda one: one.longest_s,
    ),
    _Of("workqueue_queue_duration_seconds", "How long keys waited.", lambda one: one.waits, type="histogram"),
    _Of("workqueue_work_duration_seconds", "How long work took.", lambda one: one.works, type="histogram"),
)

_OF_CACHES: tuple[_Of[CacheStats], ...] = (
    _Of("pykruise_cache_objects", "Mirrored objects.", lambda one: one.objects),
    _Of("pykruise_cache_synced", "1 once filled.", lambda one: one.synced),
    _Of("pykruise_cache_connected", "1 while a watch is open.", lambda one: one.connected),
    _Of(
        "pykruise_cache_pending_writes",
        "Own writes that the watch has not shown yet.",
        lambda one: one.pending,
    ),
    _Of(
        "pykruise_cache_lag_seconds",
        "How long the watch took to show a write of this manager's, the last time that was measured.",
        lambda one: one.lag_s,
    ),
    _Of(
        "pykruise_cache_last_event_timestamp_seconds",
        "When something last came.",
        lambda one: one.last_event_at,
    ),
    _Of("pykruise_cache_events", "Events and bookmarks received.", lambda one: one.events, type="counter"),
    _Of("pykruise_cache_relists", "Lists after the first.", lambda one: one.relists, type="counter"),
    _Of("pykruise_cache_reconnects", "Watches after the first.", lambda one: one.reconnects, type="counter"),
    _Of("pykruise_cache_errors", "Lists and watches that failed.", lambda one: one.errors, type="counter"),
    _Of(
        "pykruise_cache_unreadable",
        "Objects that could not be read.",
        lambda one: one.unreadable,
        type="counter",
    ),
)


def _tables(
    labels: list[str], found: Sequence[tuple[list[str], S]], rows: Iterable[_Of[S]]
) -> Iterator[Metric]:
    for row in rows:
        values = [(name, value) for name, one in found if (value := row.read(one)) is not None]
        if row.type == "histogram":
            histograms = [(name, value) for name, value in values if isinstance(value, HistogramStats)]
            yield _histogram(row.name, row.what, labels, histograms)
        else:
            numbers = [
                (name, float(value)) for name, value in values if not isinstance(value, HistogramStats)
            ]
            yield (_gauge if row.type == "gauge" else _counter)(row.name, row.what, labels, numbers)


Samples = Iterable[tuple[list[str], float]]


def _gauge(name: str, what: str, labels: list[str], samples: Samples) -> Metric:
    family = GaugeMetricFamily(name, what, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _counter(name: str, what: str, labels: list[str], samples: Samples) -> Metric:
    """`name` without `_total`, which the format adds."""
    family = CounterMetricFamily(name, what, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, what: str, labels: list[str], found: Iterable[tuple[list[str], HistogramStats]]
) -> Metric:
    family = HistogramMetricFamily(name, what, labels=labels)
    for values, stats in found:
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*stats.bounds, float("inf")), stats.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(total)))
        family.add_metric(values, buckets=buckets, sum_value=stats.sum_s)
    return family
