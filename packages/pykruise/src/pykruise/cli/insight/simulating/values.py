"""Inputs and results of a simulation. Plain values; times are in seconds."""

from collections.abc import Mapping, Sequence

import msgspec

from pykruise.cli.insight.explanations import Explanation
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.runtime.reasons import Reason
from pykruise.sandbox.nodes.specs import NodeSpec


class Drain(msgspec.Struct, frozen=True):
    """At `at_s` seconds after the change, a node is cordoned and its pods are evicted."""

    node: str
    at_s: float


class NodeChange(msgspec.Struct, frozen=True):
    """At `at_s` seconds after the change, a node joins or leaves permanently."""

    node: str
    at_s: float
    joins: bool


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """Outage between `at_s` and `until_s` seconds after the change: nodes accept no pods and lose their pods."""

    name: str
    """Name of the subset that the nodes belong to."""
    nodes: tuple[str, ...]
    at_s: float
    until_s: float | None = None
    """End of the outage; None if the nodes never return."""


class PlayWorld(msgspec.Struct, frozen=True, kw_only=True):
    """State of the cluster before the change. Objects keep their UIDs, times and status."""

    workload: Document | None = None
    revisions: Sequence[Document] = ()
    pods: Sequence[Document] = ()
    claims: Sequence[Document] = ()
    beside: Sequence[Document] = ()
    """Objects of kinds that take part in admission of pods and whose controllers run too, ConfigMaps and Secrets."""
    nodes: Sequence[NodeSpec] = ()
    """Nodes of the cluster; if empty, `Play.nodes` new nodes are created."""


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """Input of one simulation. Times are in seconds."""

    first: Document | None = None
    """The workload, created and settled before the change; None if the world contains it, or the change creates it."""
    change: Document | None = None
    """The wanted workload; fields that differ from the existing one are changed."""
    beside: Sequence[Document] = ()
    """Objects of kinds that take part in admission of pods, ConfigMaps and Secrets, created before the workload."""
    beside_changes: Sequence[Document] = ()
    """Wanted state of the other objects; they change before the workload. If they include a SidecarSet, results count
    revisions of its sidecars instead of revisions of the workload.
    """
    namespace: str = "default"
    is_admitted: bool = False
    """Whether a real cluster's admission has already completed the change. Then the change is stored unchanged, without
    the defaults of this version of pykruise.
    """
    start: Instant = 0.0
    world: PlayWorld = PlayWorld()
    nodes: int = 3
    ready_after_s: tuple[float, float] = (2.0, 2.0)
    """Minimum and maximum seconds from the start of a container to its readiness."""
    stop_s: float = 1.0
    fail_share: float = 0.0
    """Share of the pods started after the change whose containers never become ready; for a job, share of its pods
    that fail.
    """
    takes_s: tuple[float, float] = (1.0, 1.0)
    """Minimum and maximum seconds that each pod of a job runs."""
    drains: Sequence[Drain] = ()
    node_changes: Sequence[NodeChange] = ()
    outages: Sequence[Outage] = ()
    hooks_released_after_s: float | None = 1.0
    """Seconds until the owner of lifecycle hooks releases them; None if they are never released."""
    seed: int = 1
    limit_s: float = 4 * 3600.0
    settings: ManagerSettings = ManagerSettings()

    @property
    def workload(self) -> Document:
        """The workload in its wanted state, or in its existing one when it does not change."""
        about = self.change or self.first or self.world.workload
        assert about is not None, "a simulation needs a workload"
        return about

    @property
    def sidecars(self) -> str:
        """Name of the SidecarSet that changes; empty if no SidecarSet changes."""
        changed = (
            change["metadata"]["name"]
            for change in self.beside_changes
            if change["kind"] == SIDECAR_SETS.kind
        )
        return str(next(changed, ""))

    @property
    def united(self) -> Document | None:
        """The workload when it is a UnitedDeployment, which creates the workloads that own pods; None if the workload
        is of another kind.
        """
        about = self.workload
        return about if about.get("kind") == UNITED_DEPLOYMENTS.kind else None

    def has(self, resource: Resource) -> bool:
        """Whether the simulation has objects of a kind besides the workload."""
        return any(
            document["kind"] == resource.kind
            for document in (*self.world.beside, *self.beside, *self.beside_changes)
        )


class PlayAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action of the manager."""

    at_s: float
    batch: int
    """Actions with the same number were decided without waiting for pods in between."""
    do: str
    """create, update in place, upgrade sidecars, delete, prepare deletion, prepare update, create claim, delete
    claim."""
    name: str
    revision: str = ""
    subset: str = ""
    """Subset of the pod, for a WorkloadSpread or a UnitedDeployment."""
    node: str = ""
    """Node that the pod was created for, for a job."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Counts that are valid from `at_s` on."""

    at_s: float
    revisions: Mapping[str, int]
    """Active pods by the hash of their revision."""
    available: int
    subsets: Mapping[str, int] = {}
    """Active pods by subset; pods without a subset are left out."""
    ended: Mapping[str, int] = {}
    """Ended pods of a job by phase."""

    @property
    def total(self) -> int:
        """All active pods."""
        return sum(self.revisions.values())


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a simulation. Times count from the change."""

    refused: tuple[str, ...] = ()
    """Errors with which admission rejected the change; then all other fields except the warnings are empty."""
    warnings: tuple[str, ...] = ()
    """Warnings of the API server and of admission about the given objects, as `kubectl apply` prints them."""
    actions: tuple[PlayAction, ...] = ()
    samples: tuple[Sample, ...] = ()
    events: tuple[tuple[float, str], ...] = ()
    """Other events: pods that became ready or failed, drained nodes."""
    lowest_available: int = 0
    duration_s: float = 0.0
    """Seconds from the change to the last change of a pod."""
    restarts: int = 0
    kept: Mapping[str, int] = {}
    """Number of requests that budgets denied, by the name of the budget."""
    is_over: bool = True
    """Whether the rollout ended; False if `limit_s` was reached first."""
    status: Document = {}
    is_job: bool = False
    """Whether pods run to completion: there are no revisions, and no pod has to be available."""
    target: str = ""
    """Hash of the update revision."""
    record: Mapping[str, str] = {}
    """Annotations of the content of ConfigMaps and Secrets that the update revision has."""
    wanted: int = 0
    """Number of pods that the workload should have at the end; 0 if the number is unknown."""
    skipped: Mapping[str, Reason] = {}
    """Reasons of pods that the last plan skips."""
    skipped_nodes: Mapping[str, Reason] = {}
    end: Explanation | None = None
    """Final explanation: of the changed SidecarSet if it waits, otherwise of the workload."""
