"""What Prometheus reads: the stats of queues, controllers, caches, requests and the election, under known names.

Manager.stats(), MeteredTransport, LeaderElector ──▶ StatsCollector ──▶ /metrics

Names and labels of controller-runtime and of OpenKruise where they have one, so that dashboards go on working;
`pykruise_…` for the rest. Nothing is counted here: a scrape reads what the parts count themselves.
"""

from collections.abc import Iterable, Iterator, Mapping

import prometheus_client
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise import __version__
from pykruise.kube.histogram import HistogramStats
from pykruise.kube.metered import MeteredTransport
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
        labels = {kind.name: kind.component for kind in self._manager.kinds}
        yield from self._election()
        yield from _controllers(stats, labels)
        yield from _queues(stats, labels)
        yield from _caches(stats)
        yield from self._requests()
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
        durations = HistogramMetricFamily(
            "rest_client_request_duration_seconds",
            "How long requests to the API server took.",
            labels=["verb", "host"],
        )
        for method, histogram in metered.durations.items():
            _add(durations, [method, self._host], histogram.snapshot())
        yield durations
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
    label = ["controller"]
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
    yield _counter(
        "controller_runtime_reconcile_errors",
        "Failed turns.",
        label,
        [(name, one.failures) for name, one in found],
    )
    yield _counter(
        "controller_runtime_terminal_reconcile_errors",
        "Failed turns that are not tried again: none here.",
        label,
        [(name, 0) for name, _ in found],
    )
    yield _gauge(
        "controller_runtime_max_concurrent_reconciles",
        "Workers.",
        label,
        [(name, one.workers) for name, one in found],
    )
    yield _gauge(
        "controller_runtime_active_workers",
        "Busy workers.",
        label,
        [(name, one.in_flight) for name, one in found],
    )
    yield _counter(
        "pykruise_conflicts",
        "Turns that found the world changed.",
        label,
        [(n, one.conflicts) for n, one in found],
    )
    yield _counter(
        "pykruise_plan_seconds",
        "CPU time of turns: planning, mostly.",
        label,
        [(name, one.cost_sum_s) for name, one in found],
    )
    durations = HistogramMetricFamily(
        "controller_runtime_reconcile_time_seconds", "How long turns took, writes included.", labels=label
    )
    for name, one in found:
        _add(durations, name, one.durations)
    yield durations


def _queues(stats: ManagerStats, labels: Mapping[str, str]) -> Iterator[Metric]:
    label = ["name", "controller"]
    found = [([labels.get(name, name)] * 2, one) for name, one in stats.queues.items()]
    yield _gauge("workqueue_depth", "Keys that wait.", label, [(name, one.depth) for name, one in found])
    yield _counter("workqueue_adds", "Keys added.", label, [(name, one.adds) for name, one in found])
    yield _counter(
        "workqueue_retries", "Keys added after a failure.", label, [(n, one.retries) for n, one in found]
    )
    yield _gauge(
        "workqueue_unfinished_work_seconds",
        "How long keys have been worked on that are not done, together.",
        label,
        [(name, one.unfinished_s) for name, one in found],
    )
    yield _gauge(
        "workqueue_longest_running_processor_seconds",
        "... and the one that has been for longest.",
        label,
        [(name, one.longest_s) for name, one in found],
    )
    waits = HistogramMetricFamily("workqueue_queue_duration_seconds", "How long keys waited.", labels=label)
    works = HistogramMetricFamily("workqueue_work_duration_seconds", "How long work took.", labels=label)
    for name, one in found:
        _add(waits, name, one.waits)
        _add(works, name, one.works)
    yield waits
    yield works


def _caches(stats: ManagerStats) -> Iterator[Metric]:
    label = ["resource"]
    found = [([name], one) for name, one in stats.caches.items()]
    yield _gauge("pykruise_cache_objects", "Mirrored objects.", label, [(n, one.objects) for n, one in found])
    yield _gauge("pykruise_cache_synced", "1 once filled.", label, [(n, int(one.synced)) for n, one in found])
    yield _gauge(
        "pykruise_cache_connected",
        "1 while a watch is open.",
        label,
        [(n, int(one.connected)) for n, one in found],
    )
    yield _gauge(
        "pykruise_cache_pending_writes",
        "Own writes that the watch has not shown yet.",
        label,
        [(name, one.pending) for name, one in found],
    )
    yield _gauge(
        "pykruise_cache_lag_seconds",
        "How long the watch took to show a write of this manager's, the last time that was measured.",
        label,
        [(name, one.lag_s) for name, one in found],
    )
    yield _gauge(
        "pykruise_cache_last_event_timestamp_seconds",
        "When something last came.",
        label,
        [(name, one.last_event_at) for name, one in found if one.last_event_at is not None],
    )
    for field, what in (
        ("events", "Events and bookmarks received."),
        ("relists", "Lists after the first."),
        ("reconnects", "Watches after the first."),
        ("errors", "Lists and watches that failed."),
        ("unreadable", "Objects that could not be read."),
    ):
        yield _counter(f"pykruise_cache_{field}", what, label, [(n, getattr(one, field)) for n, one in found])


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


def _add(family: HistogramMetricFamily, labels: list[str], stats: HistogramStats) -> None:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*stats.bounds, float("inf")), stats.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(total)))
    family.add_metric(labels, buckets=buckets, sum_value=stats.sum_s)
