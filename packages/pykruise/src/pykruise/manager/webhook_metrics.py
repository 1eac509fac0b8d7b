"""Metrics of webhooks (requests and reviews by path, and rejected deletions) and the protection log.

WebhookServer, ReviewDispatcher, Protection ──▶ WebhookMetrics ──▶ /metrics, protection.log

Names of metrics are those of controller-runtime and OpenKruise, because dashboards use them.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import orjson
import prometheus_client
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.admission.pods.chain import list_pod_kinds
from pykruise.admission.protection import RefusedDeletion
from pykruise.kube.program.metrics import make_histogram
from pykruise.kube.values.histogram import WEBHOOK_BOUNDS, Histogram
from pykruise.plans.pod_steps import PreventedDisruption

_log = logging.getLogger(__name__)


class WebhookMetrics:
    """Counts requests, reviews and rejections. `register` exports them. `log_folder`: folder of `protection.log`;
    empty: this log is not written.
    """

    def __init__(self, *, log_folder: str = "") -> None:
        self._log_path = Path(log_folder) / "protection.log" if log_folder else None
        self._has_failed = False
        self._requests = prometheus_client.Counter(
            "controller_runtime_webhook_requests",
            "Requests by HTTP status code, which is also 200 for a rejection.",
            ["webhook", "code"],
            registry=None,
        )
        self._reviews = prometheus_client.Counter(
            "pykruise_webhook_reviews",
            "Reviews by the code of the answer: 200 if allowed, else the code of the rejection.",
            ["webhook", "code"],
            registry=None,
        )
        self._latencies: dict[str, Histogram] = {}
        """Durations of requests by path."""
        # Gauges that only increase: for a counter, the library would add `_total` to the names that dashboards use.
        self._refused = {
            kind: prometheus_client.Gauge(
                f"{kind}_deletion_protection", "Refused deletions.", labels, registry=None
            )
            for kind, labels in (
                ("namespace", ["name", "username"]),
                ("crd", ["name", "username"]),
                ("workload", ["kind_namespace_name", "username"]),
            )
        }
        self._preventions = {
            kind.resource.kind: steps.prevention
            for kind, steps in list_pod_kinds()
            if steps.prevention is not None
        }
        self._prevented = {
            kind: prometheus_client.Gauge(
                prevention.metric,
                prevention.description,
                ["kind_namespace_name", "username"],
                registry=None,
            )
            for kind, prevention in self._preventions.items()
        }
        self._running = Counter[str]()
        """Number of requests in progress, by path."""
        self._in_flight = prometheus_client.Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Requests in progress.",
            ["webhook"],
            registry=None,
        )
        self._shed = prometheus_client.Gauge(
            "pykruise_webhook_requests_shed",
            "Requests rejected because too many were in progress.",
            registry=None,
        )

    def register(self, registry: CollectorRegistry, *, paths: Iterable[str], shed: Callable[[], int]) -> None:
        """Export all metrics with `registry`. As in controller-runtime, the counts of the most likely codes of each
        path begin at 0.
        """
        for path in paths:
            self._in_flight.labels(path).set_function(partial(self._running.__getitem__, path))
            for code in ("200", "500"):
                self._requests.labels(path, code)
        self._shed.set_function(shed)
        own = (self._requests, self._reviews, _Latencies(self._latencies), self._in_flight, self._shed)
        for metric in (*own, *self._prevented.values(), *self._refused.values()):
            registry.register(metric)

    def begin(self, path: str) -> None:
        """Count a request in progress."""
        self._running[path] += 1

    def end(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._running[path] -= 1
        self._requests.labels(path, str(status)).inc()
        latencies = self._latencies.get(path)
        if latencies is None:
            latencies = self._latencies[path] = Histogram(WEBHOOK_BOUNDS)
        latencies.observe(seconds)

    def observe_review(self, path: str, code: int) -> None:
        """Count an answered review."""
        self._reviews.labels(path, str(code)).inc()

    def refuse(self, refused: RefusedDeletion) -> None:
        """Count and log a rejected deletion."""
        match refused.kind:
            case _ if not refused.is_counted:
                return
            case "Namespace":
                self._refused["namespace"].labels(refused.name, refused.username).inc()
            case "CustomResourceDefinition":
                self._refused["crd"].labels(refused.name, refused.username).inc()
            case _:
                which = f"{refused.kind}_{refused.namespace}_{refused.name}"
                self._refused["workload"].labels(which, refused.username).inc()
        self._write_log(
            "DeletionProtection", refused.kind, refused.namespace, refused.name, username=refused.username
        )

    def prevent(self, prevented: PreventedDisruption) -> None:
        """Count and log a disruption that an object prevented."""
        owner = prevented.owner
        kind, name = ("unknown", prevented.pod) if owner is None else (owner.kind, owner.name)
        namespace = prevented.namespace or "default"
        self._prevented[prevented.kind].labels(f"{kind}_{namespace}_{name}", prevented.username).inc()
        self._write_log(
            prevented.kind,
            kind,
            namespace,
            name,
            username=prevented.username,
            **{"Pod": prevented.pod, self._preventions[prevented.kind].log_field: prevented.name},
        )

    def _write_log(
        self, event: str, kind: str, namespace: str, name: str, *, username: str, **more: str
    ) -> None:
        if self._log_path is None:
            return
        line = {
            "Event": event,
            "Kind": kind,
            "Namespace": namespace,
            "Name": name,
            "UserAgent": username,
            **more,
        }
        try:
            self._log_path.parent.mkdir(parents=True, exist_ok=True)
            with self._log_path.open("ab") as file:
                file.write(orjson.dumps(line) + b"\n")
        except OSError as error:
            if not self._has_failed:
                _log.warning(
                    "the protection log cannot be written; it is printed to standard output: %s",
                    error,
                )
            self._has_failed = True
            sys.stdout.write(f"{orjson.dumps(line).decode()}\n")
            sys.stdout.flush()


class _Latencies(Collector):
    """Converts durations of requests by path to a metric at each scrape."""

    def __init__(self, latencies: Mapping[str, Histogram]) -> None:
        self._latencies = latencies

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        yield make_histogram(
            "controller_runtime_webhook_latency_seconds",
            "Durations of requests.",
            ["webhook"],
            [([path], durations.take_snapshot()) for path, durations in self._latencies.items()],
        )
