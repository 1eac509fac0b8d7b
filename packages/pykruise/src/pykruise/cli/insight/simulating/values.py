"""Inputs and results of a simulation. Plain values; times are in seconds."""

from collections.abc import Mapping, Sequence

import msgspec

from pykruise.cli.insight.explaining import Explanation
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
    """At `at_s` seconds after the change a node joins, or leaves for good."""

    node: str
    at_s: float
    joins: bool


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """From `at_s` to `until_s` seconds after the change, nodes take no pods, and lose those that they have."""

    name: str
    """Name of the subset of these nodes."""
    nodes: tuple[str, ...]
    at_s: float
    until_s: float | None = None
    """None: they do not come back."""


class PlayWorld(msgspec.Struct, frozen=True, kw_only=True):
    """State of the cluster before the change. Objects keep their uids, times and status."""

    workload: Document | None = None
    revisions: Sequence[Document] = ()
    pods: Sequence[Document] = ()
    claims: Sequence[Document] = ()
    beside: Sequence[Document] = ()
    """Objects of kinds that take part in admission of pods, with their controllers."""
    nodes: Sequence[NodeSpec] = ()
    """Empty: `Play.nodes` of them are made."""


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One play. Times are in seconds."""

    first: Document | None = None
    """The workload, created and settled before the change; None: the world has it, or the change creates it."""
    change: Document | None = None
    """The workload as it is to be: what differs from the one before is changed."""
    beside: Sequence[Document] = ()
    """Objects of kinds that take part in admission of pods; they are created before the workload."""
    beside_changes: Sequence[Document] = ()
    """Wanted state of the other objects; they change before the workload. With a SidecarSet among them, revisions are
    those of its sidecars, and not of the workload."""
    namespace: str = "default"
    is_admitted: bool = False
    """The change is as a cluster's admission left it: it is stored as it is, without defaults of this version."""
    start: Instant = 0.0
    world: PlayWorld = PlayWorld()
    nodes: int = 3
    ready_after_s: tuple[float, float] = (2.0, 2.0)
    """From the start of a container to its readiness: at least, at most."""
    stop_s: float = 1.0
    fail_share: float = 0.0
    """Share of pods whose containers never become ready, of those that start after the change; of a job's pods: that
    fail."""
    takes_s: tuple[float, float] = (1.0, 1.0)
    """Range of seconds that each pod of a job runs."""
    drains: Sequence[Drain] = ()
    node_changes: Sequence[NodeChange] = ()
    outages: Sequence[Outage] = ()
    hooks_released_after_s: float | None = 1.0
    """How long the owner of lifecycle hooks takes; None: they are never released."""
    seed: int = 1
    limit_s: float = 4 * 3600.0
    settings: ManagerSettings = ManagerSettings()

    @property
    def workload(self) -> Document:
        """The workload, as it is or is to be."""
        about = self.change or self.first or self.world.workload
        assert about is not None, "a play is about a workload"
        return about

    @property
    def sidecars(self) -> str:
        """Name of the SidecarSet that changes; empty: none does."""
        changed = (
            change["metadata"]["name"]
            for change in self.beside_changes
            if change["kind"] == SIDECAR_SETS.kind
        )
        return str(next(changed, ""))

    @property
    def united(self) -> Document | None:
        """The UnitedDeployment that makes the workloads; None: the workload is made as it is."""
        about = self.workload
        return about if about.get("kind") == UNITED_DEPLOYMENTS.kind else None

    def has(self, resource: Resource) -> bool:
        """Whether objects of a kind stand beside the workload."""
        return any(
            document["kind"] == resource.kind
            for document in (*self.world.beside, *self.beside, *self.beside_changes)
        )


class PlayAction(msgspec.Struct, frozen=True, kw_only=True):
    """One thing the manager did."""

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
    """How things stood from `at_s` on."""

    at_s: float
    revisions: Mapping[str, int]
    """Active pods by the hash of their revision."""
    available: int
    subsets: Mapping[str, int] = {}
    """Active pods by the subset that they are in, of those that are in one."""
    ended: Mapping[str, int] = {}
    """Ended pods of a job by phase."""

    @property
    def total(self) -> int:
        """All active pods."""
        return sum(self.revisions.values())


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a simulation. Times count from the change."""

    refused: tuple[str, ...] = ()
    """Why the change was not taken; then nothing else is here."""
    actions: tuple[PlayAction, ...] = ()
    samples: tuple[Sample, ...] = ()
    events: tuple[tuple[float, str], ...] = ()
    """Other events: pods that became ready or failed, drained nodes."""
    lowest_available: int = 0
    duration_s: float = 0.0
    """Until the last change of a pod."""
    restarts: int = 0
    kept: Mapping[str, int] = {}
    """Requests that budgets refused, by the name of the budget."""
    is_over: bool = True
    """False: `limit_s` was reached while things still happened."""
    status: Document = {}
    is_job: bool = False
    """Pods run to their end: there are no revisions, and nothing has to be available."""
    target: str = ""
    """Hash of the update revision."""
    wanted: int = 0
    """Pods that the workload wants in the end; 0: it does not say."""
    skipped: Mapping[str, Reason] = {}
    """Why pods stay as they are in the end, by the last plan."""
    skipped_nodes: Mapping[str, Reason] = {}
    end: Explanation | None = None
    """Final text of `explain`: of the changed SidecarSet if it waits, else of the workload."""
