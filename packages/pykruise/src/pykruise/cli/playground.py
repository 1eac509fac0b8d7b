"""A cluster for one command: sandbox, CRDs, admission and manager in one process.

ClusterSettings ──▶ start_playground() ──▶ Playground(cluster, manager, client) until the block ends
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Never

import msgspec

from pykruise.admission.counts import LiveCounts
from pykruise.admission.pods.chain import list_participants, list_pod_kinds
from pykruise.admission.pods.readers import make_live_readers
from pykruise.admission.pods.reports import StepReports
from pykruise.admission.protection import Protection
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.agent.simulated import make_simulated_agents
from pykruise.kinds import build_crds, list_conversions
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
)
from pykruise.manager.install import MANAGER, POD_LABELS, RUNS_IN
from pykruise.manager.manager import Manager
from pykruise.manager.roles import build_aggregated_roles
from pykruise.manager.settings import NAMESPACE, SECRETS_NAMESPACE, ManagerSettings
from pykruise.plans.pod_groups import list_server_gates
from pykruise.plans.pod_steps import ReaderPlace, StepReport
from pykruise.plans.review import make_live_lookups
from pykruise.sandbox.apiserver import ConversionFunctions
from pykruise.sandbox.apiserver.objects.storage import Storage
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.loading import Dump, Loaded, load, node_spec_of
from pykruise.sandbox.nodes.faults import Rule

MANAGER_USER = "system:serviceaccount:kruise-system:kruise-manager"


def add_agents(settings: ClusterSettings) -> ClusterSettings:
    """Settings with nodes that simulate the node agent: they pull images ahead, recreate containers, run probes and
    report running containers.
    """
    return msgspec.structs.replace(settings, agents=make_simulated_agents())


def add_ready_nodes(settings: ManagerSettings) -> ManagerSettings:
    """Manager settings that create NodeImages without a delay, so that new nodes can pull images immediately."""
    return msgspec.structs.replace(settings, flags={**settings.flags, "nodeimage-creation-delay": 0.0})


class Playground(msgspec.Struct, frozen=True):
    """Running parts of a playground."""

    cluster: Cluster
    manager: Manager
    client: Client
    """Client of a user with all permissions."""
    running: asyncio.Task[None]
    """Task of the running manager."""
    metered: MeteredTransport
    """Transport of the manager's requests."""

    @property
    def writes(self) -> int:
        """Number of the manager's writes so far."""
        return self.metered.writes

    async def wait_for_failure(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set. Raises the error that ended a part of the cluster or the manager."""
        stopping = asyncio.create_task(stop.wait())
        failing = asyncio.create_task(self.cluster.wait_failed())
        try:
            await asyncio.wait({stopping, failing, self.running}, return_when=asyncio.FIRST_COMPLETED)
            self.cluster.raise_failure()
            if self.running.done():
                await self.running
        finally:
            stopping.cancel()
            failing.cancel()


class PlaygroundContents(msgspec.Struct, frozen=True, kw_only=True):
    """Objects and scripted failures of a playground."""

    storage: Storage | None = None
    """Storage of the objects; None for storage in memory."""
    dump: Dump | None = None
    """Objects and nodes at the start."""
    rules: tuple[Rule, ...] = ()
    """Scripted failures."""


_Reports = asyncio.Queue[tuple[str, StepReport]]
"""Admission components with their reports about reviews. When the cluster runs, the reports are written as events."""


@asynccontextmanager
async def start_playground(
    settings: ClusterSettings,
    *,
    manager_settings: ManagerSettings = ManagerSettings(),  # noqa: B008 - frozen
    clock: Clock = read_system_clock,
    rng: random.Random | None = None,
    contents: PlaygroundContents = PlaygroundContents(),  # noqa: B008 - frozen
    on_loaded: Callable[[Loaded], None] | None = None,
    is_repeatable: bool = False,
) -> AsyncIterator[Playground]:
    """Start the cluster and the manager, wait until the manager's caches are synced, and stop everything at the end.

    `manager_settings`: settings of the manager and its webhooks. `on_loaded` gets the result of loading the dump.
    `is_repeatable`: the same seed gives the same run, whatever else the process does.
    """
    rng = rng or random.Random()
    reports: _Reports = asyncio.Queue()
    cluster = _build_cluster(settings, manager_settings, contents, reports, clock=clock, rng=rng)
    # Everything is loaded before the nodes start: they continue from the stored status of their pods.
    for crd in build_crds():
        await _put_crd(cluster.client, crd)
    for name in (NAMESPACE, SECRETS_NAMESPACE):
        with suppress(AlreadyExistsError):
            await cluster.client.create(NAMESPACES, "", {"metadata": {"name": name}})
    if settings.rbac:  # the roles view, edit and admin of a namespace include these kinds too
        for role in build_aggregated_roles():
            with suppress(AlreadyExistsError):
                await cluster.client.create(CLUSTER_ROLES, "", role)
    if contents.dump is not None:
        loaded = await load(cluster.client, contents.dump)
        if on_loaded is not None:
            on_loaded(loaded)
    for raw in (await cluster.client.list(NODES)).items:
        cluster.kubelets.adopt_node(node_spec_of(decode(raw)))
    async with cluster:
        metered = MeteredTransport(cluster.make_transport(MANAGER_USER))
        manager = Manager(
            Client(metered, clock=clock, rng=rng),
            settings=manager_settings,
            clock=clock,
            rng=rng,
            cpu_time=skip_measuring if is_repeatable else time.thread_time,
            freeze_heap=not is_repeatable,
        )
        running = asyncio.create_task(manager.run(), name="manager")
        recording = asyncio.create_task(
            _record_events(reports, StepReports(cluster.client, list_pod_kinds(), clock=clock, rng=rng))
        )
        try:
            await _wait_synced(manager, running)
            yield Playground(cluster, manager, cluster.client, running, metered)
        finally:
            recording.cancel()
            manager.stop()
            await running


def _build_cluster(
    settings: ClusterSettings,
    manager_settings: ManagerSettings,
    contents: PlaygroundContents,
    reports: _Reports,
    *,
    clock: Clock,
    rng: random.Random,
) -> Cluster:
    """The cluster with a manager's admission reviews, not yet started."""
    admission = make_admission_settings(manager_settings.gates)
    place = ReaderPlace(client=lambda: cluster.review_client, namespace=NAMESPACE, clock=clock, rng=rng)
    readers = make_live_readers(list_participants(manager_settings.gates.__getitem__), place)
    context = ReviewContext(
        kind_settings=manager_settings.read_kind_settings,
        lookups=make_live_lookups(place.client, namespace=NAMESPACE, clock=clock, readers=readers),
        protection=Protection(
            LiveCounts(place.client),
            is_on=admission.deletion_protection,
            crd_cascading=admission.crd_cascading,
        ),
        report=lambda component, report: reports.put_nowait((component, report)),
        rng=rng,
    )
    server_gates = list_server_gates(manager_settings.gates.__getitem__)
    # The reviews use the cluster only after it exists.
    cluster = Cluster(
        msgspec.structs.replace(settings, feature_gates=settings.feature_gates | server_gates),
        clock=clock,
        rng=rng,
        storage=contents.storage,
        reviewers=build_reviewers(admission, context),
        conversions=ConversionFunctions(list_conversions()),
        rules=contents.rules,
    )
    return cluster


async def publish_manager(client: Client, settings: ManagerSettings) -> None:
    """Create the Deployment of a manager that runs in this process, so that commands can read its gates as in other
    clusters.
    """
    labels = dict(POD_LABELS)
    container = {
        "name": "manager",
        "image": "pykruise",
        "args": ["manager", f"--feature-gates={settings.gates}"],
    }
    body: Document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER, "annotations": {RUNS_IN: "pykruise up"}, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    try:
        await client.create(DEPLOYMENTS, NAMESPACE, body)
    except AlreadyExistsError:  # the Deployment is from a data directory; the gates may have changed
        await client.patch(DEPLOYMENTS, NAMESPACE, MANAGER, body, patch_type=PatchType.STRATEGIC)


async def _record_events(reports: _Reports, recorder: StepReports) -> Never:
    """Write events about reviews of pods, as a manager's webhooks do."""
    while True:
        recorder.report(*await reports.get())
        await recorder.flush()


async def _put_crd(client: Client, crd: Document) -> None:
    """Create a definition, or replace the spec of one that a data directory or a dump contained."""
    try:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
    except AlreadyExistsError:
        await client.patch(
            CUSTOM_RESOURCE_DEFINITIONS,
            "",
            crd["metadata"]["name"],
            {"spec": crd["spec"]},
            patch_type=PatchType.MERGE,
        )


async def _wait_synced(manager: Manager, running: asyncio.Task[None]) -> None:
    """Wait until the caches are synced. Raises the manager's error when the manager ends earlier."""
    synced = asyncio.create_task(manager.wait_synced())
    await asyncio.wait({synced, running}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        synced.cancel()
        await running
