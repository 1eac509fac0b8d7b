"""Metrics: known names with true values, after a small rollout on the sandbox."""

import asyncio
import random

from prometheus_client.parser import text_string_to_metric_families

from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.election.leases import LeaderElector
from pykruise.kube.program.metrics import make_metrics_responder
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS
from pykruise.manager.manager import Manager
from pykruise.manager.metrics import make_registry
from support.faults import Answer, FaultyTransport, patches
from support.sandbox import small_cluster
from support.scenario import cloneset

# Metrics that dashboards of controller-runtime and OpenKruise read.
KNOWN = {
    "kruise_manager_is_leader",
    "leader_election_master_status",
    "leader_election_slowpath",
    "controller_runtime_reconcile",
    "controller_runtime_reconcile_errors",
    "controller_runtime_reconcile_panics",
    "controller_runtime_reconcile_time_seconds",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_active_workers",
    "controller_runtime_terminal_reconcile_errors",
    "workqueue_depth",
    "workqueue_adds",
    "workqueue_retries",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds",
    "workqueue_work_duration_seconds",
    "rest_client_requests",
    "process_resident_memory_bytes",
}

_QUEUE_BOUNDS = (
    "1e-08 1e-07 1e-06 9.999999999999999e-06 9.999999999999999e-05 0.001 0.01 0.1 1 10 100 1000 +Inf"
)
BOUNDS = {
    "controller_runtime_reconcile_time_seconds": (
        "0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1 1.25 1.5 1.75 2 2.5 3 3.5 4"
        " 4.5 5 6 7 8 9 10 15 20 25 30 40 50 60 +Inf"
    ),
    "workqueue_queue_duration_seconds": _QUEUE_BOUNDS,
    "workqueue_work_duration_seconds": _QUEUE_BOUNDS,
    "rest_client_request_duration_seconds": "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60 +Inf",
}
"""Labels `le` of histograms, as controller-runtime writes them."""


async def test_a_rollout_shows_in_the_metrics() -> None:
    async with small_cluster() as place:
        # given a manager that leads, and a write that is refused for a missing permission
        for crd in build_crds():
            await place.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        rng = random.Random(1)
        faulty = FaultyTransport(place.cluster.make_transport("manager"))
        faulty.on(
            patches("/clonesets/web/status"),
            Answer(403, message='User "m" cannot patch resource "clonesets/status"'),
        )
        metered = MeteredTransport(faulty)
        clock = place.cluster.clock
        client = Client(metered, clock=clock, rng=rng)
        elector = LeaderElector(
            place.client, namespace="default", name="kruise-manager", identity="a", clock=clock, rng=rng
        )
        manager = Manager(client, elector=elector, clock=clock, rng=rng, cpu_time=lambda: 0.0)
        running = asyncio.create_task(manager.run())
        # when
        await place.create(CLONE_SETS, cloneset(replicas=3))

        async def has_pods() -> bool:
            return len(await place.names(PODS)) == 3

        await place.until(has_pods)
        await asyncio.sleep(30.0)
        answer = make_metrics_responder(make_registry(manager, metered, host="10.0.0.1:6443"))("", {})
        manager.stop()
        await running
    # then
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert set(families) >= KNOWN
    values = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families.values()
        for sample in family.samples
    }

    def value(metric: str, /, **labels: str) -> float:
        return values[metric, tuple(sorted(labels.items()))]

    controller = "cloneset-controller"
    assert value("kruise_manager_is_leader") == 1
    assert value("leader_election_master_status", name="kruise-manager") == 1
    assert value("controller_runtime_max_concurrent_reconciles", controller=controller) == 3
    assert value("controller_runtime_reconcile_total", controller=controller, result="success") > 0
    assert value("controller_runtime_reconcile_total", controller=controller, result="error") == 1
    assert value("controller_runtime_reconcile_errors_total", controller=controller) == 1
    assert value("controller_runtime_reconcile_panics_total", controller=controller) == 0
    assert value("workqueue_retries_total", name=controller, controller=controller) == 1
    assert value("workqueue_depth", name=controller, controller=controller) == 0
    assert value("rest_client_requests_total", code="201", method="POST", host="10.0.0.1:6443") >= 3
    assert value("pykruise_api_requests_total", method="POST", resource="pods") == 3
    assert value("pykruise_missing_rights_total", method="PATCH", resource="clonesets/status") == 1
    assert value("pykruise_cache_objects", resource="pods") == 3
    assert value("pykruise_cache_connected", resource="clonesets.apps.kruise.io") == 1
    turns = value("controller_runtime_reconcile_time_seconds_count", controller=controller)
    assert turns == value("workqueue_work_duration_seconds_count", name=controller, controller=controller) > 0
    assert (
        value("controller_runtime_reconcile_time_seconds_bucket", controller=controller, le="+Inf") == turns
    )
    bounds = {
        name: [
            sample.labels["le"]
            for sample in families[name].samples
            if sample.name == f"{name}_bucket" and labels.items() <= sample.labels.items()
        ]
        for name, labels in (
            ("controller_runtime_reconcile_time_seconds", {"controller": controller}),
            ("workqueue_queue_duration_seconds", {"name": controller}),
            ("workqueue_work_duration_seconds", {"name": controller}),
            ("rest_client_request_duration_seconds", {"verb": "POST"}),
        )
    }
    assert {name: " ".join(texts) for name, texts in bounds.items()} == BOUNDS
