"""The cluster of a simulation with only the parts that it needs, so that a virtual hour takes almost no real time.

Play ──▶ make_cluster() ──▶ Cluster (with the manager's webhooks, CRDs, and the objects that existed before the change)
                ──▶ Manager over a marked transport

The copy leaves out everything without effect: managedFields, heartbeats, events that are never read, controllers and
caches of kinds that have no objects, intermediate statuses, bookmarks and regular ends of watches, versions of kinds
that are never read.
"""

import random
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from pykruise.admission.pods.chain import list_pod_kinds
from pykruise.admission.pods.readers import make_live_readers
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.cli.insight.followed_config import CONFIG_RESOURCES
from pykruise.cli.insight.simulating.record import PlayRecord, mark_actions
from pykruise.cli.insight.simulating.values import Play
from pykruise.kinds import crds_of, find, list_kinds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.workloads import TEMPLATES
from pykruise.kube.admission import ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request, Response, WrappedTransport
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import ApiError
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    Resource,
)
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.manager.manager import Manager
from pykruise.plans.insight import JobInsight
from pykruise.plans.kind import Kind
from pykruise.plans.pod_groups import list_server_gates
from pykruise.plans.pod_steps import ReaderPlace
from pykruise.plans.review import make_live_lookups
from pykruise.runtime.assemble import Tuning
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, StorageChange
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings

MANAGER_USER: Final = "system:serviceaccount:kruise-system:kruise-manager"

STATUS_EVERY_S: Final = 300.0
"""Interval at which the manager writes a status that keeps changing and that nothing reads before the end."""

_OF_CLAIMS: Final = ("claims", "ephemeral-volumes", "storage-class", "volumes")
_OF_WORKLOADS: Final = ("deployments", "replicasets", "statefulsets")
_OF_NODES: Final = ("disruption", "node-lifecycle", "pod-collector", "taint-eviction")


def make_cluster(given: Play, kind: Kind, record: PlayRecord, *, clock: Clock) -> Cluster:
    """Return the cluster, not yet started, without its kinds and objects."""
    has_claims = _has_claims(given)
    is_copy = bool(given.world.nodes)
    settings = ClusterSettings(
        kubernetes=given.settings.kubernetes or NEWEST_MINOR,
        feature_gates=list_server_gates(given.settings.gates.__getitem__),
        nodes=0 if given.world.nodes else given.nodes,
        kubelet=_build_kubelet_settings(given),
        agents=make_simulated_agents(AgentTasks(recreates=_may_restart(given))),
        tracks_fields=False,
        steady_watches=True,
        # The copy has no volumes and no service accounts of the cluster.
        waits_for_volumes=False,
        checks_accounts=False,
        # Copied nodes may already be lost; new nodes are always healthy.
        controllers=(
            *(_OF_CLAIMS if has_claims else ()),
            *(_OF_NODES if is_copy or given.node_changes else ()),
            *(_OF_WORKLOADS if given.united is not None else ()),
        ),
        collected=(
            PODS,
            CONTROLLER_REVISIONS,
            PERSISTENT_VOLUME_CLAIMS,
            kind.resource,
            *_list_created_kinds(given),
        )
        if has_claims or is_copy or isinstance(kind.insight, JobInsight) or given.united is not None
        else (),
    )
    # The webhooks are called only after the cluster exists.
    return (
        cluster := Cluster(
            settings,
            clock=clock,
            rng=random.Random(given.seed),
            storage=_RecordedStorage(record),
            reviewers=()
            if given.is_admitted
            else _build_reviewers(lambda: cluster.review_client, clock, given, kind, record),
        )
    )


def _list_created_kinds(given: Play) -> Sequence[Resource]:
    """Return the kinds that a UnitedDeployment creates, and the kinds that those create."""
    return (*TEMPLATES.values(), REPLICA_SETS) if given.united is not None else ()


def _list_workload_versions(given: Play) -> list[Document]:
    """Return all given versions of the workload, or of a UnitedDeployment's templates."""
    workloads = [entry for entry in (given.first, given.change, given.world.workload) if entry is not None]
    if given.united is None:
        return workloads
    return [
        template
        for entry in workloads
        for template in (get_path(entry, "spec", "template", default=None) or {}).values()
        if template
    ]


def _has_claims(given: Play) -> bool:
    documents = _list_workload_versions(given)
    volumes = (
        volume
        for document in documents
        for volume in get_path(document, "spec", "template", "spec", "volumes", default=None) or ()
    )
    return (
        bool(given.world.claims)
        or any(document["spec"].get("volumeClaimTemplates") for document in documents)
        or any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes)
    )


def _build_reviewers(
    client: Callable[[], Client], clock: Clock, given: Play, kind: Kind, record: PlayRecord
) -> Sequence[ReviewRule]:
    """Return the manager's webhooks, in process."""
    namespace, rng = given.settings.own_namespace, random.Random(given.seed)
    place = ReaderPlace(client=client, namespace=namespace, clock=clock, rng=rng)
    taking_part = {beside.name for beside in (*list_kinds_beside(given), kind)}
    readers = make_live_readers((part for part in list_pod_kinds() if part.kind.name in taking_part), place)
    return build_reviewers(
        make_admission_settings(given.settings.gates, namespace=namespace),
        ReviewContext(
            kind_settings=given.settings.read_kind_settings,
            lookups=make_live_lookups(client, namespace=namespace, readers=readers, clock=clock),
            report=record.keep,
            rng=rng,
        ),
    )


def list_kinds_beside(given: Play) -> tuple[Kind, ...]:
    """Return the kinds that take part in admission of pods and have objects in the simulation besides the workload."""
    return tuple(
        kind for kind, steps in list_pod_kinds() if steps.reads is not None and given.has(kind.resource)
    )


def _build_kubelet_settings(given: Play) -> KubeletSettings:
    """Return the kubelet settings. The start times of pods differ within the given range of readiness times."""
    least, most = given.ready_after_s
    start_s = max(least, 0.01)
    return KubeletSettings(
        start_s=start_s,
        start_jitter=max(most - start_s, 0.0) / start_s,
        ready_s=0.0,
        stop_s=given.stop_s,
        lease_s=None,
        heartbeat_s=1e9,
    )


def has_quiet_status(given: Play) -> bool:
    """Whether nothing reads statuses before the end. Intermediate statuses matter in three cases: admission reads
    statuses that it also writes, a UnitedDeployment reads the statuses of its workloads, and a copy must behave exactly
    like its original.
    """
    is_read = given.united is not None or any(
        kind.control is not None and kind.control.is_status_shared for kind in list_kinds_beside(given)
    )
    return given.world.workload is None and not is_read


def resources_of(given: Play, kind: Kind) -> tuple[Resource, ...]:
    """Return the resources of the kinds that the simulation contains."""
    return (
        kind.resource,
        *((CLONE_SETS, ADVANCED_STATEFUL_SETS) if given.united is not None else ()),
        *(beside.resource for beside in list_kinds_beside(given)),
    )


async def define_kind(cluster: Cluster, given: Play, kind: Kind) -> None:
    """Define the kinds in the cluster and restore the objects that existed before the change."""
    resources = {
        *resources_of(given, kind),
        *_read_beside(given),
        *((REQUESTS,) if _may_restart(given) else ()),
    }
    for crd in crds_of(resources, described=False):
        # All clients here use the stored version only.
        crd["spec"]["versions"] = [version for version in crd["spec"]["versions"] if version["storage"]]
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
    world, server = given.world, cluster.server
    if given.namespace != "default" and world.workload is not None:
        namespace = {"metadata": {"name": given.namespace, "uid": "copied"}}
        server.restore(NAMESPACES, [{**namespace, "status": {"phase": "Active"}}])
    for spec in world.nodes:
        cluster.kubelets.adopt_node(spec)
    if world.workload is not None:
        server.restore(kind.resource, [world.workload])
    server.restore(CONTROLLER_REVISIONS, world.revisions)
    server.restore(PERSISTENT_VOLUME_CLAIMS, world.claims)
    for beside in list_kinds_beside(given):
        stored = [document for document in world.beside if document["kind"] == beside.resource.kind]
        server.restore(beside.resource, stored)
    for resource in CONFIG_RESOURCES.values():
        server.restore(resource, [document for document in world.beside if document["kind"] == resource.kind])
    server.restore(PODS, world.pods)


def _may_restart(given: Play) -> bool:
    """Whether a kind beside the workload may request restarts of containers, which node agents execute."""
    return any(
        (right.group, right.resource) == (REQUESTS.group, REQUESTS.plural) and "create" in right.verbs
        for kind in list_kinds_beside(given)
        for right in kind.rights
    )


def _read_beside(given: Play) -> set[Resource]:
    """Return the kinds that controllers of the other objects read, such as kinds of workloads."""
    return {
        views.resource
        for kind in list_kinds_beside(given)
        if kind.control is not None
        for views in kind.control.reads(given.settings.read_kind_settings(kind))
        if (read := find(views.resource.kind.lower())) is not None and read.resource == views.resource
    }


async def populate(client: Client, given: Play) -> None:
    """Create the namespaces in the running cluster."""
    names = {given.namespace, *((given.settings.own_namespace,) if given.beside or given.sidecars else ())}
    for name in sorted(names - {"default", "kube-system"}):
        try:
            await client.get(NAMESPACES, "", name)
        except ApiError:
            await client.create(NAMESPACES, "", {"metadata": {"name": name}})


def manager_of(cluster: Cluster, given: Play, kind: Kind, *, clock: Clock) -> Manager:
    """Return the real manager for the kinds that the simulation contains."""
    resources = resources_of(given, kind)
    of_pods = _list_kinds_for_templates(given)
    transport = _Marked(cluster.make_transport(MANAGER_USER))
    tuning: Tuning = given.settings.tuning
    if has_quiet_status(given):
        tuning = msgspec.structs.replace(tuning, status_per_s=1 / STATUS_EVERY_S)
    return Manager(
        Client(transport, clock=clock, rng=random.Random(given.seed)),
        settings=msgspec.structs.replace(given.settings, tuning=tuning),
        kinds=[kind for kind in list_kinds() if kind.resource in resources or kind.name in of_pods],
        clock=clock,
        rng=random.Random(given.seed),
        cpu_time=skip_measuring,
        oversees=False,
    )


def _list_kinds_for_templates(given: Play) -> Collection[str]:
    """Return names of the kinds whose controllers run because pod templates need them."""
    templates = [
        get_path(workload, "spec", "template", default={}) for workload in _list_workload_versions(given)
    ]
    return {
        kind.name
        for kind, steps in list_pod_kinds()
        if steps.serves_template is not None and any(map(steps.serves_template, templates))
    }


_EVENTS: Final = f"/{EVENTS.plural}"


class _Marked(WrappedTransport):
    """The manager's transport: marks each of its writes as an action of the manager. It drops events, because nothing
    reads them.
    """

    async def request(self, request: Request, /) -> Response:
        if request.method == "GET":
            return await self._inner.request(request)
        if _EVENTS in request.path:
            return Response(201, {}, request.body or b"{}")
        with mark_actions():
            return await self._inner.request(request)


class _RecordedStorage(MemoryStorage):
    """Storage that reports every commit to the record, synchronously."""

    def __init__(self, record: PlayRecord) -> None:
        super().__init__()
        self._record = record

    def commit(self, change: StorageChange) -> None:
        super().commit(change)
        if change.shelf == PODS.plural:
            self._record.on_pod(change)
        elif change.shelf == PERSISTENT_VOLUME_CLAIMS.plural:
            self._record.on_claim(change)
