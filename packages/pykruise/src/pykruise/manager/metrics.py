"""Prometheus metrics: the stats of queues, controllers, caches, requests and the election, under well-known names.

Manager.read_stats(), MeteredTransport, LeaderElector ──▶ StatsCollector ──▶ /metrics

Names and labels are those of controller-runtime and OpenKruise if these have such a metric, so that dashboards still
work; other names begin with `pykruise_`. This module counts nothing itself: at each scrape it reads the counters of the
other parts.
"""

from collections.abc import Iterable, Iterator

import prometheus_client
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.election.key_slots import SLOTS
from pykruise.kube.program.metrics import (
    cache_metrics,
    collect_controller_metrics,
    collect_queue_metrics,
    collect_request_metrics,
    make_counter,
    make_gauge,
    make_histogram,
)
from pykruise.kube.version import __version__
from pykruise.manager.manager import Manager


def make_registry(manager: Manager, metered: MeteredTransport, *, host: str = "") -> CollectorRegistry:
    """Return the metrics of one manager and its process. `host`: host of the API server, for labels.

    Other parts (webhooks) add their own metrics to the registry.
    """
    made = CollectorRegistry(auto_describe=False)
    made.register(StatsCollector(manager, metered, host=host))
    prometheus_client.ProcessCollector(registry=made)
    prometheus_client.PlatformCollector(registry=made)
    prometheus_client.GCCollector(registry=made)
    return made


class StatsCollector(Collector):
    """Converts stats to metrics at each scrape."""

    def __init__(self, manager: Manager, metered: MeteredTransport, *, host: str = "") -> None:
        self._manager = manager
        self._metered = metered
        self._host = host

    def describe(self) -> Iterable[Metric]:
        """Return nothing in advance, because there is no event loop yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. Must be called in the event loop's thread."""
        stats = self._manager.read_stats()
        labels = {
            control.name: control.component for kind in self._manager.kinds if (control := kind.control)
        }
        yield from self._build_election_metrics()
        yield from self._build_slot_metrics()
        yield from collect_controller_metrics(stats.controllers, labels)
        yield from collect_queue_metrics(stats.queues, labels)
        yield from cache_metrics(stats.caches)
        yield from collect_request_metrics(self._metered, self._host)
        yield make_gauge(
            "pykruise_api_held_back_seconds",
            "Time until requests are sent again, after a response (429, 503) asked to retry later.",
            ["scope"],
            [([scope], left_s) for scope, left_s in stats.limiter.held_s.items()],
        )
        yield make_counter(
            "pykruise_api_holds",
            "Responses that asked to retry later.",
            [],
            [([], stats.limiter.holds)],
        )
        yield self._build_rollout_histogram()
        yield make_gauge(
            "pykruise_build_info", "1, with the version as a label.", ["version"], [([__version__], 1)]
        )
        problems = {
            "caches-synced": len(self._manager.cache_problems()),
            **{component.name: len(component.list_problems()) for component in self._manager.components},
        }
        yield make_gauge(
            "pykruise_readiness_problems",
            "Number of problems that keep this replica from being ready, by check.",
            ["check"],
            [([name], count) for name, count in problems.items()],
        )

    def _build_election_metrics(self) -> Iterator[Metric]:
        leads = int(self._manager.is_leading)
        yield make_gauge("kruise_manager_is_leader", "1 while this replica is the leader.", [], [([], leads)])
        elector = self._manager.elector
        if elector is None:
            return
        name = [self._manager.settings.election.name]
        stats = elector.read_stats()
        yield make_gauge(
            "leader_election_master_status", "1 while this replica is the leader.", ["name"], [(name, leads)]
        )
        yield make_counter(
            "leader_election_slowpath",
            "Renewals for which the lease was read before it was written.",
            ["name"],
            [(name, stats.slow_renewals)],
        )
        yield make_counter(
            "pykruise_lease_errors",
            "Failed attempts to take or renew the lease.",
            ["name"],
            [(name, stats.errors)],
        )

    def _build_slot_metrics(self) -> Iterator[Metric]:
        """Yield slot metrics when managers share the work. Each manager reports all slots, so that a slot without a
        holder is visible.
        """
        membership = self._manager.membership
        held = membership.read_stats().held if membership is not None else frozenset()
        yield make_gauge(
            "pykruise_slot_held",
            "1 while this replica works on the objects of the slot.",
            ["slot"],
            [([str(slot)], int(slot in held)) for slot in (range(SLOTS) if membership is not None else ())],
        )

    def _build_rollout_histogram(self) -> Metric:
        kinds = {
            control.name: kind.resource.kind for kind in self._manager.kinds if (control := kind.control)
        }
        return make_histogram(
            "pykruise_rollout_duration_seconds",
            "Time from a change of the spec until the rollout is complete, stopped by a pause or a partition, stalled,"
            " or superseded by the next change.",
            ["kind", "result"],
            [
                ([kinds[name], result], stats)
                for name, meter in self._manager.rollouts.items()
                for result, stats in meter.durations.items()
            ],
        )
