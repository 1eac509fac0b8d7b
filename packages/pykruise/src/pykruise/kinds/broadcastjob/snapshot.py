"""Everything that a decision about one BroadcastJob needs, as one value.

bytes of a BroadcastJob ──▶ BROADCAST_JOB_VIEWS ──▶ BroadcastJobView (stored in the cache)
BroadcastJobView + Read ──▶ read_snapshot() ──▶ BroadcastJobSnapshot ──▶ plan.py

The snapshot contains time, names and settings, so the same snapshot always gives the same plan.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeGuard

import msgspec

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJobSpec, BroadcastJobStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.hashing import encode_safely
from pykruise.plans.pod_groups import FoundGroups, read_groups
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.settings import FromFlag, OnGate
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.node_placement import (
    NodeObstacle,
    NodeRequirements,
    Request,
    find_shortage,
    request_of,
    requirements_of,
)
from pykruise.pods.template.typed_parts import TEMPLATE
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import Projector, WorkloadView, make_spec_reader
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

_RAW: Final = frozenset({"template"})
"""Fields that are kept as untyped JSON."""

NEVER: Final = "Never"

LONGEST_NAME: Final = 63
"""Maximum length of a pod's name, which is also its host name."""

SUFFIX_LENGTH: Final = 10
"""Length of the suffix, which is derived from a hash. Even in the largest clusters, two nodes get the same suffix only
once in millions of jobs.
"""


class BroadcastJobSettings(DefaultingSettings, frozen=True, kw_only=True):
    """Feature gates and flags that change decisions about BroadcastJobs."""

    assign_by_scheduler: Annotated[
        bool, FromFlag("assign-bcj-pods-by-scheduler", "The scheduler places the pods of BroadcastJobs.")
    ] = True
    """Whether the scheduler places the pods. Otherwise the controller sets `spec.nodeName` when it creates a pod."""
    pod_groups: Annotated[bool, OnGate("PodGroups")] = False
    """Whether pods can be started as a group by Kubernetes' scheduler."""


class BroadcastJobView(WorkloadView, frozen=True, kw_only=True):
    """A BroadcastJob as stored in the cache."""

    spec: BroadcastJobSpec | None
    """The typed spec; None if it is unreadable: `problem` contains the reason."""
    status: BroadcastJobStatus = BroadcastJobStatus()
    requirements: NodeRequirements = NodeRequirements()
    """Requirements for nodes that the template defines: selector, affinity and tolerations."""
    request: Request = msgspec.field(default_factory=dict)
    """Resources that a pod of the job requests from a node."""

    @property
    def ends(self) -> bool:
        """Whether the job ends when its pods have finished: its completion policy is not Never."""
        policy = self.spec.completion_policy if self.spec else None
        return policy is None or policy.type != NEVER

    @property
    def has_failed(self) -> bool:
        """Whether the job has failed."""
        return self._has_condition("Failed") or (not self.ends and self.status.phase == "failed")

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended. A job with completion policy Never can fail, but cannot complete."""
        return self.has_failed or (self.ends and self._has_condition("Complete"))

    def _has_condition(self, kind: str) -> bool:
        return any(
            condition.type == kind and condition.status == "True"
            for condition in self.status.conditions or ()
        )

    def find_obstacle(self, node: NodeView) -> NodeObstacle | None:
        """Reason why a new pod cannot run on the node; None if it can."""
        return self.requirements.find_obstacle(node) or find_shortage(self.request, node)


read_spec: Final = make_spec_reader(BroadcastJobSpec, raw={"template"}, parts=TEMPLATE)


def _derive_fields(spec: BroadcastJobSpec, _: Document) -> dict[str, Any]:
    pod: Mapping[str, Any] = spec.template.get("spec") or {}
    return {"requirements": requirements_of(pod), "request": request_of(pod)}


BROADCAST_JOB_VIEWS: Final = Views[BroadcastJobView](
    resource=BROADCAST_JOBS,
    projector=lambda: Projector(
        BroadcastJobView, read_spec=read_spec, status=BroadcastJobStatus, derived=_derive_fields
    ),
)


class BroadcastJobSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one BroadcastJob at one instant."""

    job: BroadcastJobView
    pods: Sequence[PodView]
    """All pods that the job controls, also finished and terminating pods, sorted by name."""
    nodes: Sequence[NodeView]
    """All nodes of the cluster, sorted by name."""
    now: Instant
    names: Mapping[str, str] = {}
    """Node without a pod of the job → name that a new pod for this node would get."""
    groups: FoundGroups = FoundGroups()
    """Groups of the job's pods, if the option gang-min-count is set."""
    settings: BroadcastJobSettings = BroadcastJobSettings()


class ReadableBroadcastJobView(BroadcastJobView, frozen=True, kw_only=True):
    """A BroadcastJobView with a readable spec. Only a type: no object is created from this class."""

    spec: BroadcastJobSpec


class ReadableBroadcastJob(BroadcastJobSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    job: ReadableBroadcastJobView


def is_readable(snapshot: BroadcastJobSnapshot) -> TypeGuard[ReadableBroadcastJob]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.job.spec is not None and not snapshot.refused


async def read_snapshot(view: BroadcastJobView, read: Read[BroadcastJobSettings]) -> BroadcastJobSnapshot:
    """Read the job with its pods and all nodes from the caches."""
    groups = await read_groups(view, read)
    pods = sorted(read.list_owned(POD_VIEWS, view.uid), key=lambda pod: pod.name)
    nodes = sorted(read.list_all(NODE_VIEWS), key=lambda node: node.name)
    return BroadcastJobSnapshot(
        job=view,
        pods=pods,
        nodes=nodes,
        names=_choose_names(view, nodes, pods, read),
        groups=groups,
        now=read.now(),
        settings=read.settings,
    )


def _choose_names(
    view: BroadcastJobView,
    nodes: Sequence[NodeView],
    pods: Sequence[PodView],
    read: Read[BroadcastJobSettings],
) -> dict[str, str]:
    """Choose the names of new pods. The name is derived from the node, so the API server rejects a second pod for the
    same node, for example from another leader or from a request that arrives late. Another name is chosen only if a pod
    in the cache has this name.
    """
    has_pod = {pod.target_node for pod in pods}
    names: dict[str, str] = {}
    for node in nodes:
        if node.name in has_pod:
            continue
        attempt = 0
        while (
            read.get(POD_VIEWS, Key(view.namespace, name := format_pod_name(view, node.name, attempt)))
            is not None
        ):
            attempt += 1
        names[node.name] = name
    return names


def format_pod_name(job: BroadcastJobView, node: str, attempt: int = 0) -> str:
    """Return the name of a node's pod: the job's name and ten characters that are derived from the job and the node."""
    digest = hashlib.blake2b(f"{job.uid}/{node}/{attempt}".encode(), digest_size=SUFFIX_LENGTH).digest()
    return f"{job.name}-"[: LONGEST_NAME - SUFFIX_LENGTH] + encode_safely(digest)
