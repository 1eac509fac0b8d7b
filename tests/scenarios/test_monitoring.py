"""Metrics of real rollouts: every name that alerts, board and docs use is there, and alerts fire and stop."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.program.metrics import make_metrics_responder
from pykruise.manager.manager import Manager
from pykruise.manager.metrics import make_registry
from pykruise.manager.monitoring import ALERTS, PANELS
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.state_metrics import make_state_registry
from pykruise.manager.webhook_metrics import WebhookMetrics
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool
from support.promql import Alarm, Scrapes, names_in, of_board
from support.scenario import Stage, cloneset, rolling
from support.statefulsets import Sets

pytestmark = pytest.mark.sandbox_only

DOCS = Path(__file__).parents[2] / "docs"

EVERY_S = 120.0


class Prometheus:
    """Scrapes a manager, and evaluates all alerts after each scrape."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._metered = MeteredTransport(stage.manager_transport())
        self.scrapes = Scrapes()
        self._alarms = {alert.name: Alarm(alert.expr, alert.for_s) for alert in ALERTS}
        self._now = 0.0

    async def start_manager(self) -> Manager:
        return await self._stage.start_manager(self._metered)

    def registries(self, manager: Manager, *namespaces: str) -> list[CollectorRegistry]:
        """Registries of both pages of metrics."""
        return [make_registry(manager, self._metered), make_state_registry(manager, namespaces=namespaces)]

    def pages(self, manager: Manager, *namespaces: str) -> list[str]:
        """Texts of both pages as the manager shows them now."""
        return [
            make_metrics_responder(registry)("", {}).text
            for registry in self.registries(manager, *namespaces)
        ]

    async def run(self, minutes: float, *managers: Manager) -> dict[str, list[dict[str, str]]]:
        """Scrape for so long; returns what fires at the end."""
        fires: dict[str, list[dict[str, str]]] = {}
        for _ in range(int(minutes * 60 / EVERY_S)):
            made = [registry for manager in managers for registry in self.registries(manager)]
            self.scrapes.note(
                self._now, (family for collector_registry in made for family in collector_registry.collect())
            )
            fires = {
                name: result
                for name, alarm in self._alarms.items()
                if (result := alarm.at(self._now, self.scrapes))
            }
            self._now += EVERY_S
            await asyncio.sleep(EVERY_S)
        return fires


async def test_an_overdue_rollout_fires_an_alert_with_its_cause_until_it_continues(
    stage: Stage,
) -> None:
    # given
    prometheus = Prometheus(stage)
    manager = await prometheus.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    assert await prometheus.run(6, manager) == {}
    # when
    stage.kubelets.set_rules([Rule(image="nginx:broken", image_pull_error=True)])
    await stage.set_image("web", "nginx:broken", updateStrategy=rolling(maxUnavailable=1))
    # then not at once
    assert "KruiseRolloutStuck" not in await prometheus.run(20, manager)
    fires = await prometheus.run(20, manager)
    assert fires["KruiseRolloutStuck"] == [
        {"kind": "CloneSet", "namespace": "scenario", "name": "web", "cause": "ImagePull"}
    ]
    assert fires["KruiseCloneSetReplicasMismatch"] == [{"namespace": "scenario", "cloneset": "web"}]
    # when
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=3)
    # then
    assert await prometheus.run(6, manager) == {}


async def test_a_missing_manager_fires_an_alert(stage: Stage) -> None:
    prometheus = Prometheus(stage)
    manager = await prometheus.start_manager()
    assert await prometheus.run(6, manager) == {}
    await stage.kill_manager()
    assert set(await prometheus.run(6)) == {"KruiseNoLeader"}
    assert await prometheus.run(6, await prometheus.start_manager()) == {}


async def test_every_name_that_is_used_anywhere_is_in_what_a_manager_shows(stage: Stage, pool: Pool) -> None:
    # given one of each kind
    prometheus = Prometheus(stage)
    manager = await prometheus.start_manager()
    sets = Sets(stage)
    await sets.create("db", replicas=1)
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    await pool.create("node")
    for kind, spec in _OTHERS.items():
        group = "policy.kruise.io" if kind == "PodUnavailableBudget" else "apps.kruise.io"
        resource = next(item.resource for item in manager.kinds if item.resource.kind == kind)
        doc = {"apiVersion": f"{group}/v1beta1", "kind": kind, "metadata": {"name": "one"}, "spec": spec}
        await stage.create(doc, resource=resource)
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=2)
    # when
    await prometheus.run(2, manager)
    webhooks = WebhookMetrics()
    names = prometheus.scrapes.names | set(_of_webhooks(webhooks))
    # then
    used = {name for alert in ALERTS for name in names_in(alert.expr)}
    used |= {name for panel in PANELS for expr, _ in panel.lines for name in names_in(of_board(expr))}
    assert used - names == set()
    text = (DOCS / "monitoring.md").read_text()
    named = set(re.findall(r"\b(?:py)?kruise_[a-z_]+[a-z]\b", text))
    assert {item for item in named if not any(name.startswith(item) for name in names)} == set()


_PODS = {"matchLabels": {"app": "web"}}
_TEMPLATE = {
    "metadata": {"labels": {"app": "one"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx:1"}]},
}
_CLONES = cloneset("one", replicas=1)["spec"]
_OTHERS = {
    "SidecarSet": {
        "selector": {"matchLabels": {"app": "none"}},
        "containers": [{"name": "log", "image": "log:1"}],
    },
    "PodUnavailableBudget": {"selector": _PODS, "maxUnavailable": 1},
    "BroadcastJob": {"template": _TEMPLATE},
    "AdvancedCronJob": {
        "schedule": "0 3 * * *",
        "template": {"broadcastJobTemplate": {"spec": {"template": _TEMPLATE}}},
    },
    "UnitedDeployment": {
        "replicas": 1,
        "selector": _CLONES["selector"],
        "template": {
            "cloneSetTemplate": {
                "metadata": {"labels": {"app": "one"}},
                "spec": {**_CLONES, "replicas": None},
            }
        },
        "topology": {"subsets": [{"name": "a"}]},
    },
    "WorkloadSpread": {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}],
    },
}


def _of_webhooks(metrics: WebhookMetrics) -> list[str]:
    """Names of series that exist as soon as a review has been answered."""
    return [
        "pykruise_webhook_reviews_total",
        "controller_runtime_webhook_latency_seconds_bucket",
    ]


async def test_only_namespaces_that_are_listed_have_metrics(stage: Stage) -> None:
    prometheus = Prometheus(stage)
    manager = await prometheus.start_manager()
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    assert 'cloneset="web"' in prometheus.pages(manager, "scenario")[1]
    assert 'cloneset="web"' not in prometheus.pages(manager, "elsewhere")[1]


async def test_a_standby_manager_has_no_metrics_of_objects(stage: Stage) -> None:
    # given two managers, of which one works
    prometheus = Prometheus(stage)
    managers = [await stage.start_manager(identity=name) for name in ("one", "two")]

    async def has_leader() -> bool:
        return any(manager.is_leading for manager in managers)

    await stage.until(has_leader, what="one leads")
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    # then
    shown = ['cloneset="web"' in prometheus.pages(manager)[1] for manager in managers]
    assert shown == [manager.is_leading for manager in managers]


async def test_managers_that_share_the_work_serve_each_waiting_object_once(stage: Stage) -> None:
    managers = [await stage.start_manager(identity=f"manager-{number}", members=3) for number in range(3)]
    await asyncio.sleep(60)
    for number in range(8):
        sets = cloneset(f"set-{number}")
        sets["spec"]["template"]["spec"]["nodeSelector"] = {"no": "node"}
        await stage.create(sets)
    await asyncio.sleep(60)

    shown = [
        (family.name, sample.labels["name"])
        for manager in managers
        for family in make_state_registry(manager).collect()
        if family.name in ("pykruise_rollout_waiting", "pykruise_phase")
        for sample in family.samples
        if sample.labels["kind"] == "CloneSet"
    ]
    names = [f"set-{number}" for number in range(8)]
    assert sorted(shown) == sorted(
        (family, name) for family in ("pykruise_phase", "pykruise_rollout_waiting") for name in names
    )


async def test_the_next_time_of_a_schedule_without_a_zone_is_when_the_manager_in_another_zone_runs_it(
    stage: Stage,
) -> None:
    # given a manager with TZ=Asia/Tokyo, nine hours ahead of UTC, and a schedule that is due in the next two hours
    manager = await stage.start_manager(settings=ManagerSettings(time_zone="Asia/Tokyo"))
    due = datetime.fromtimestamp(stage.clock(), UTC).replace(minute=0, second=0, microsecond=0) + timedelta(
        hours=2
    )

    def shown() -> list[tuple[str, float]]:
        return [
            (sample.labels["advancedcronjob"], sample.value)
            for family in make_state_registry(manager).collect()
            if family.name == "kruise_advancedcronjob_next_schedule_time"
            for sample in family.samples
        ]

    document = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "AdvancedCronJob",
        "metadata": {"name": "daily"},
        "spec": {
            "schedule": f"0 {(due.hour + 9) % 24} * * *",
            "template": {"broadcastJobTemplate": {"spec": {"template": _TEMPLATE}}},
        },
    }
    # when
    await stage.create(document, resource=ADVANCED_CRON_JOBS)
    await asyncio.sleep(60)
    # then
    assert shown() == [("daily", due.timestamp())]
    await asyncio.sleep(due.timestamp() - stage.clock() + 60)
    stored = await stage.get("daily", resource=ADVANCED_CRON_JOBS)
    assert stored["status"]["lastScheduleTime"] == f"{due:%Y-%m-%dT%H:%M:%SZ}"
    assert shown() == [("daily", (due + timedelta(days=1)).timestamp())]
