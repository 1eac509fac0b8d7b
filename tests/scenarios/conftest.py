"""Scenarios run in the sandbox in virtual time by default, and with `--cluster=real` on a real control plane.

    @pytest.mark.checkered            one in eight parameter sets of a grid (small grids: one in two or three), taken on
                                      diagonals, so that each value meets an eighth of the others. tests/exploration
                                      plays every fault at every write for small clusters
    @pytest.mark.checkered(8)         one in eight, even if some values of the longer side are then left out
    @pytest.mark.exhaustive           a parameter set that a plain run leaves out
    @pytest.mark.exhaustive(in_sandbox=True)   the same, but a real cluster always runs it

With `--exhaustive` all parameter sets run.

    @pytest.mark.all_controllers      the sandbox runs all built-in controllers, collects the garbage of all kinds, and
                                      tracks the owners of fields. Otherwise it runs only the controllers of workloads,
                                      pods, claims and nodes

A real control plane runs in real time, so these marks select what runs there:

    @pytest.mark.few_on_real(3)       three of the parameter sets, spread evenly
    @pytest.mark.virtual_time("why")  does not run there: it waits for hours, or for timeouts
    @pytest.mark.sandbox_only         does not run there: it tests the sandbox's own command line
    @pytest.mark.real                 runs only there

With `--real-nodes` the control plane has real nodes (testbed/node.py) instead of simulated kubelets. Only scenarios
with these marks run there:

    @pytest.mark.node                 also runs on real nodes
    @pytest.mark.node_only            runs only on real nodes

A scenario that does not depend on the kind of cluster runs only in the sandbox: elsewhere its result is the same.
`--brief`, as in continuous integration, runs scenarios with the mark `real`. Of the others, which have passed in the
sandbox, it runs an eighth of the scenarios of each file with an eighth of their parameter sets. It leaves out

    @pytest.mark.not_in_brief("what proves it in a brief run")
"""

import asyncio
import functools
import math
import random
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

from pykruise.admission.counts import LiveCounts
from pykruise.admission.pods.chain import list_pod_kinds
from pykruise.admission.pods.readers import make_live_readers
from pykruise.admission.pods.reports import record_events
from pykruise.admission.protection import Protection
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds import list_conversions, use_stored_versions
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.gates import Gates
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kinds.podunavailablebudget.pod_steps import COMPONENT as PUB_COMPONENT
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.client.transport import Transport
from pykruise.kube.clock import make_loop_clock, parse_time, read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)
from pykruise.kube.resources import DAEMON_SETS as BUILTIN_DAEMON_SETS
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.manager.roles import build_roles
from pykruise.manager.settings import NAMESPACE, SECRETS_NAMESPACE
from pykruise.manager.webhooks import endpoint_of
from pykruise.plans.pod_steps import ReaderPlace
from pykruise.plans.review import make_live_lookups
from pykruise.sandbox.apiserver import ConversionFunctions
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.kubelet import Kubelets
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.sandbox.nodes.specs import make_node_specs
from pykruise.sandbox.paper_volumes import Volumes
from support.control_plane import connection, running_plane
from support.daemonsets import Pool, node_pool
from support.rbac import Authorizer, AuthorizingTransport
from support.real_webhooks import webhooks_in_thread
from support.scenario import AdmissionSwitch, PodWatch, Stage, pod_watch
from support.stored_kinds import older_version, storage_with_kinds
from support.webhooks import GATES, webhook_settings
from testbed.control_plane import API_SERVER, ControlPlane
from testbed.images import build_busybox_image
from testbed.node import Nodes

T = TypeVar("T")

START = parse_time("2026-01-31T12:00:00Z")
MANAGER_USER = "system:serviceaccount:kruise-system:kruise-manager"

OWNERS_ARE_CHECKED = {API_SERVER: ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]}
"""Some distributions enable this plugin: a client that sets blockOwnerDeletion then needs permission to update the
owner's finalizers."""

CONTROLLERS = (
    *("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "tracked-pods"),
    *("claims", "storage-class", "volumes"),
    *("disruption", "node-lifecycle", "pod-collector", "taint-eviction"),
)
COLLECTED = (
    *(PODS, CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS),
    *(CLONE_SETS, DAEMON_SETS, ADVANCED_STATEFUL_SETS, UNITED_DEPLOYMENTS, SIDECAR_SETS),
    *(BROADCAST_JOBS, IMAGE_LIST_PULL_JOBS, IMAGE_PULL_JOBS),
    *(DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, BUILTIN_DAEMON_SETS, JOBS),
)
"""The controllers that run by default, and the resources that their garbage collector watches. Watches of all served
resources would be half of the work of an idle cluster."""

NEVER_S = 1e9
REAL_NODES = 4
OF_JOBS = "busybox:1"
"""Image of jobs in scenarios; its containers end without a signal."""

_OPTIONS = frozenset({"request", "pytestconfig"})
_PLUGINS = ("_pytest.", "pytest_asyncio.", "xdist.", "_hypothesis", "hypothesis")
"""Modules whose fixtures read options, but do not depend on the cluster."""
_HERE = Path(__file__).parent
_REAL_TEST_S = 400.0
"""Time limit of a test on a real control plane: long, so that a test does not fail on a busy machine."""
_GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, are spread evenly however many there are


def _without_hub_words(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect scenarios that use fields of the hub version if the API server serves only v1alpha1."""
    if config.getoption("--stored") == "v1alpha1":
        unwanted = {item for item in items if item.get_closest_marker("hub_words")}
        config.hook.pytest_deselected(items=list(unwanted))
        items[:] = [item for item in items if item not in unwanted]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect or skip the tests that do not run on this kind of cluster."""
    _without_hub_words(config, items)
    files = {path for path in {item.path for item in items} if _HERE in path.parents}
    here = [item for item in items if item.path in files]
    if not config.getoption("--exhaustive"):
        here = _left_out(config, items, here, {item for item in here if _is_only_exhaustive(item)})
    if config.getoption("--cluster") != "real":
        for item in here:
            if item.get_closest_marker("real") or item.get_closest_marker("node_only"):
                item.add_marker(pytest.mark.skip(reason="needs a real control plane (--cluster=real)"))
        return
    has_nodes = config.getoption("--real-nodes")
    elsewhere = {
        item
        for item in here
        if _is_for_other_nodes(item, has_nodes=has_nodes) or not _knows_its_cluster(item)
    }
    here = _left_out(config, items, here, elsewhere)
    for item in here:
        if marker := item.get_closest_marker("virtual_time"):
            item.add_marker(pytest.mark.skip(reason=f"only in virtual time: {marker.args[0]}"))
        elif item.get_closest_marker("sandbox_only"):
            item.add_marker(pytest.mark.skip(reason="tests `pykruise up`"))
        item.add_marker(pytest.mark.timeout(_REAL_TEST_S))
    here = [item for item in here if not item.get_closest_marker("skip")]
    _left_out(config, items, here, _beyond_the_sample(here, is_brief=config.getoption("--brief")))


def _is_for_other_nodes(item: pytest.Item, *, has_nodes: bool) -> bool:
    is_only = bool(item.get_closest_marker("node_only"))
    return not (is_only or item.get_closest_marker("node")) if has_nodes else is_only


def _knows_its_cluster(item: pytest.Item) -> bool:
    """Whether the result of a test may depend on the kind of cluster: the test has the mark `real`, or the test or one
    of its fixtures reads the options. Other tests run only in the sandbox.
    """
    if item.get_closest_marker("real") or not isinstance(item, pytest.Function):
        return True
    fixtures = item._fixtureinfo
    ours = (
        item.argnames
        for result in fixtures.name2fixturedefs.values()
        for item in result
        if not item.func.__module__.startswith(_PLUGINS)
    )
    return any(_OPTIONS & set(names) for names in (fixtures.argnames, *ours))


def _left_out(
    config: pytest.Config, items: list[pytest.Item], here: list[pytest.Item], unwanted: set[pytest.Item]
) -> list[pytest.Item]:
    """Remove the unwanted tests from `items`; returns the rest of `here`."""
    config.hook.pytest_deselected(items=[item for item in items if item in unwanted])
    items[:] = [item for item in items if item not in unwanted]
    return [item for item in here if item not in unwanted]


def _is_only_exhaustive(item: pytest.Item) -> bool:
    """Whether a plain run leaves out the test: by its mark, or as a parameter set that `checkered` does not select."""
    if only := item.get_closest_marker("exhaustive"):
        return not (only.kwargs.get("in_sandbox") and item.config.getoption("--cluster") == "real")
    marker = item.get_closest_marker("checkered")
    if marker is None or not isinstance(item, pytest.Function):
        return False
    places, sizes = 0, []
    for mark in item.iter_markers("parametrize"):
        name, values = mark.args
        own = item.callspec.params[name]
        places += next(n for n, value in enumerate(values) if own in getattr(value, "values", (value,)))
        sizes.append(len(values))
    # At most the number of values of the shorter side, so that each value of the longer side is used.
    every = marker.args[0] if marker.args else max(2, min(8, *sizes))
    return bool(places % every)


def _beyond_the_sample(items: list[pytest.Item], *, is_brief: bool) -> set[pytest.Item]:
    """Tests that `few_on_real` leaves out, and those that `--brief` leaves out."""
    unwanted: set[pytest.Item] = set()
    files: dict[Path, list[list[pytest.Item]]] = {}
    for group in _grouped(items, lambda item: item.nodeid.partition("[")[0]):
        marker = group[0].get_closest_marker("few_on_real")
        count = min(marker.args[0], len(group)) if marker else len(group)
        if is_brief and group[0].get_closest_marker("not_in_brief"):
            count = 0
        elif is_brief and not group[0].get_closest_marker("real"):
            files.setdefault(group[0].path, []).append(group)
            count = math.ceil(count / 8)
        unwanted.update(set(group).difference(_spread(group, count)))
    for groups in files.values():
        kept = _spread(groups, math.ceil(len(groups) / 8))
        unwanted.update(item for group in groups if group not in kept for item in group)
    return unwanted


def _grouped(items: Iterable[T], key: Callable[[T], str]) -> Iterable[list[T]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.values()


def _spread(values: Sequence[T], count: int) -> list[T]:
    """Select this number of values, spread evenly."""
    if count >= len(values):
        return list(values)
    places = {int((number * _GOLDEN % 1) * len(values)) for number in range(count)}
    return [values[place] for place in sorted(places)]


# ── both clusters ────────────────────────────────────────────────────────────


@pytest.fixture
def cluster_settings(request: pytest.FixtureRequest) -> ClusterSettings:
    """Settings of the cluster. A test module overrides them for other nodes or delays."""
    is_real = request.config.getoption("--cluster") == "real"
    delay_s = 0.1 if is_real else 0.5  # a real cluster runs in real time
    has_all = request.node.get_closest_marker("all_controllers") is not None
    is_old = request.config.getoption("--stored") == "v1alpha1"
    served = older_version if is_old else lambda resource: resource
    # Only tests with dead nodes need Leases and heartbeats; an hour without them is much faster.
    kubelet = KubeletSettings(lease_s=None, heartbeat_s=NEVER_S)
    return ClusterSettings(
        nodes=4,
        kubelet=kubelet,
        start_s=delay_s,
        ready_s=delay_s,
        stop_s=delay_s,
        # The simulation (and tests of caches) cover watches that end and begin again; here hours pass.
        steady_watches=True,
        controllers=None if has_all else CONTROLLERS,
        collected=None if has_all else tuple(map(served, COLLECTED)),
        tracks_fields=has_all,
    )


@pytest.fixture
def rng() -> random.Random:
    return random.Random(20260131)


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest,
    real_plane: ControlPlane | None,
    real_nodes: Nodes | None,
    cluster_settings: ClusterSettings,
    rng: random.Random,
) -> AsyncIterator[Stage]:
    """A scenario's cluster without a manager: the test starts one."""
    if real_plane is None:
        is_old = request.config.getoption("--stored") == "v1alpha1"
        opened = _sandbox_stage(cluster_settings, rng, only="v1alpha1" if is_old else "")
    else:
        switch = request.getfixturevalue("webhook_switch")
        opened = _real_stage(real_plane, real_nodes, cluster_settings, rng, switch)
    async with opened as stage:
        yield stage


@pytest.fixture
async def seen(stage: Stage) -> AsyncIterator[PodWatch]:
    """A watch of the pods of the CloneSet `web` during the whole test."""
    async with pod_watch(stage) as watching:
        yield watching


@pytest.fixture
async def pool(stage: Stage) -> AsyncIterator[Pool]:
    """Four nodes that only this test uses, for a DaemonSet."""
    result = await node_pool(stage, 4)
    yield result
    await result.restore()


# ── the sandbox ──────────────────────────────────────────────────────────────


@functools.cache
def manager_rights() -> Authorizer:
    """Rights of the manager: those of `pykruise install` for the gates that scenarios switch on."""
    return Authorizer(
        build_roles(
            Gates.of(
                InPlaceWorkloadVerticalScaling=True,
                SidecarTerminator=True,
                ResourceDistributionGate=True,
                ImagePullJobGate=True,
                PodGroups=True,
            ),
            namespace="scenario",
        )
    )


def no_right_was_missing(refused: Iterable[str]) -> None:
    """Check that no request was forbidden: the manager continues without a permission, so a scenario might pass."""
    assert not (result := sorted(set(refused))), f"the generated roles lack: {', '.join(result)}"


@asynccontextmanager
async def _sandbox_stage(
    settings: ClusterSettings, rng: random.Random, *, only: str = ""
) -> AsyncIterator[Stage]:
    """A cluster for one test, with the CRDs and admission. `only`: see `storage_with_kinds`."""
    clock = make_loop_clock(start=START)
    switch = AdmissionSwitch()
    converting = ConversionFunctions(list_conversions())
    admission = make_admission_settings(GATES)
    place = ReaderPlace(client=lambda: client, namespace=NAMESPACE, clock=clock, rng=rng)
    rules = build_reviewers(
        admission,
        ReviewContext(
            lookups=make_live_lookups(
                place.client,
                namespace="scenario",
                clock=clock,
                readers=make_live_readers(list_pod_kinds(), place),
            ),
            protection=Protection(
                LiveCounts(place.client),
                is_on=admission.deletion_protection,
                crd_cascading=admission.crd_cascading,
            ),
            report=lambda component, report: (
                record_events(recorder, report) if report.prevented is not None else None
            ),
            rng=rng,
        ),
    )
    async with Cluster(
        settings,
        clock=clock,
        rng=rng,
        reviewers=switch.over(rules),
        conversions=converting,
        storage=await storage_with_kinds(START, only=only),
    ) as cluster:
        of_managers: list[AuthorizingTransport] = []

        def manager_transport() -> Transport:
            of_managers.append(AuthorizingTransport(cluster.make_transport(MANAGER_USER), manager_rights()))
            return use_stored_versions(of_managers[-1])

        # Without managedFields: tests do not use them, and reading them takes longer than all other fields.
        client = cluster.make_client("kubernetes-admin", user_agent="pykruise")
        client = client.replace_transport(use_stored_versions(client.transport))
        stage = Stage(
            client=client,
            manager_transport=manager_transport,
            namespace="scenario",
            clock=clock,
            rng=rng,
            patience_s=600.0,
            long_s=1200.0,
            kubelets=cluster.kubelets,
            admission=switch,
        )
        for name in (stage.namespace, NAMESPACE, SECRETS_NAMESPACE):
            await stage.client.create(NAMESPACES, "", {"metadata": {"name": name}})
        recorder = EventRecorder(client, PUB_COMPONENT, clock=clock, rng=rng)
        telling = asyncio.create_task(recorder.run())
        try:
            yield stage
        finally:
            await stage.close()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        no_right_was_missing(what for each in of_managers for what in each.refused)


# ── the real one ─────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def webhook_switch() -> AdmissionSwitch:
    """Switches the reviews of the real control plane's webhooks on and off."""
    return AdmissionSwitch()


@pytest.fixture(scope="session")
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, webhook_switch: AdmissionSwitch
) -> Iterator[ControlPlane]:
    """One real control plane with CRDs and webhooks for the whole run."""
    settings = webhook_settings(tmp_path_factory.mktemp("webhooks"), gates=GATES, certificate_writer="fs")
    conversion = build_webhook_conversion(url=endpoint_of(settings).base_url)
    with (
        running_plane(
            kinds=True,
            conversion=conversion,
            extra_args=OWNERS_ARE_CHECKED,
            nodes=request.config.getoption("--real-nodes"),
        ) as plane,
        webhooks_in_thread(plane, settings, webhook_switch),
    ):
        yield plane


@pytest.fixture(scope="session")
def nodes(plane: ControlPlane) -> Iterator[Nodes]:
    """The real nodes of the control plane for the whole run."""
    nodes = asyncio.run(Nodes.start(plane, REAL_NODES, services=True))
    nodes.registry.push(build_busybox_image("job", command=["sleep", "1"]), OF_JOBS)
    yield nodes
    asyncio.run(nodes.stop())


@pytest.fixture(scope="module")
def quiet_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane | None]:
    """A real API server for one module, with the kinds and without controllers; None in the sandbox."""
    if request.config.getoption("--cluster") != "real":
        yield None
        return
    with running_plane(kinds=True, controller_manager=False, scheduler=False) as plane:
        yield plane


@pytest.fixture
def real_plane(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The real control plane; None in the sandbox."""
    if request.config.getoption("--cluster") != "real":
        return None
    plane: ControlPlane = request.getfixturevalue("plane")
    return plane


@pytest.fixture
def real_nodes(request: pytest.FixtureRequest) -> Nodes | None:
    """The real nodes; None if nodes are simulated."""
    if not request.config.getoption("--real-nodes"):
        return None
    nodes: Nodes = request.getfixturevalue("nodes")
    return nodes


@asynccontextmanager
async def _real_stage(
    plane: ControlPlane,
    nodes: Nodes | None,
    settings: ClusterSettings,
    rng: random.Random,
    switch: AdmissionSwitch,
) -> AsyncIterator[Stage]:
    """A namespace and simulated kubelets for one test. The kubelets take over the nodes of the previous test.

    `nodes`: real nodes, which need no simulated kubelets.
    """
    transports: list[HttpTransport] = []
    of_managers: list[MeteredTransport] = []

    def transport(kubeconfig: Path) -> HttpTransport:
        transports.append(HttpTransport(connection(kubeconfig)))
        return transports[-1]

    def manager_transport() -> MeteredTransport:
        of_managers.append(MeteredTransport(transport(plane.manager_kubeconfig)))
        return of_managers[-1]

    shared = transport(plane.kubeconfig)  # each connection costs both sides more than some requests do
    client = Client(shared, user_agent="scenario", rng=rng)
    kubelets = None if nodes else await _simulated_kubelets(client, shared, settings, rng)
    stage = Stage(
        client=client,
        manager_transport=manager_transport,
        namespace=f"scenario-{secrets.token_hex(4)}",
        clock=read_system_clock,
        rng=rng,
        patience_s=180.0,
        long_s=5.0,
        kubelets=kubelets,
        nodes=nodes,
        admission=switch,
    )
    volumes = Volumes(stage.client, stage.namespace, rng=rng)
    parts = [volumes, *([kubelets] if kubelets else [])]
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        if kubelets:
            await kubelets.wait_registered()
        await stage.client.create(NAMESPACES, "", {"metadata": {"name": stage.namespace}})
        if nodes:  # pods can be created only after it exists
            await stage.until(lambda: stage.exists("default", resource=SERVICE_ACCOUNTS))
        yield stage
    finally:
        await stage.close()
        await _leave(stage)
        for part in parts:
            await part.stop()
        await asyncio.gather(*running)
        for each in transports:
            await each.close()
    if not stage.is_refused_at_times:
        no_right_was_missing(what for each in of_managers for what in each.missing_rights)


async def _simulated_kubelets(
    client: Client, shared: HttpTransport, settings: ClusterSettings, rng: random.Random
) -> Kubelets:
    # Nodes stay from test to test, and pods may come to any of them.
    nodes = [decode(raw) for raw in (await client.list(NODES)).items]
    return Kubelets(
        Client(shared, user_agent="kubelet", rng=rng),
        nodes=make_node_specs(max(settings.nodes, len(nodes)), pods=settings.pods_per_node),
        existing=nodes,
        settings=settings.build_kubelet_settings(),
        agents=settings.agents,
        clock=read_system_clock,
        rng=rng,
    )


LEFT_BEHIND = (
    UNITED_DEPLOYMENTS,
    RESOURCE_DISTRIBUTIONS,
    ADVANCED_CRON_JOBS,
    IMAGE_LIST_PULL_JOBS,
    IMAGE_PULL_JOBS,
    BROADCAST_JOBS,
    SIDECAR_SETS,
    WORKLOAD_SPREADS,
    CLONE_SETS,
    DAEMON_SETS,
    ADVANCED_STATEFUL_SETS,
    CRON_JOBS,
    JOBS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    BUILTIN_DAEMON_SETS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
"""Resources whose objects later managers would reconcile, or that create pods; owners first."""


async def _leave(stage: Stage) -> None:
    """Delete a scenario's objects without waiting until they are gone: kubelets of later tests end the last pods.

    The namespace stays. Its deletion would cost the control plane two requests for each of sixty resources, more than
    many scenarios need.
    """
    with suppress(NotFoundError):
        for resource in LEFT_BEHIND:
            for raw in (await stage.client.list(resource, stage.namespace)).items:
                meta = decode(raw)["metadata"]
                if meta.get("finalizers") and resource == IMAGE_PULL_JOBS:  # there is no manager any more
                    held = {"metadata": {"finalizers": None}}
                    await stage.merge(meta["name"], held, resource=resource)
                if not meta.get("ownerReferences"):  # these go with their owners
                    await stage.client.delete(resource, stage.namespace, meta["name"])
