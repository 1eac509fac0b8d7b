"""Everything a decision about one BroadcastJob needs, as one value.

bytes of a BroadcastJob ──▶ BROADCAST_JOB_VIEWS ──▶ BroadcastJobView (what a cache keeps)
BroadcastJobView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py

The snapshot carries time, names and settings, so that the same snapshot always gives the same plan.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeGuard

import msgspec

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJobSpec, BroadcastJobStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.hashing import safe_encode
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.settings import FromFlag
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.node_placement import (
    NodeRequirements,
    Request,
    request_of,
    requirements_of,
    shortage,
)
from pykruise.pods.template.typed_parts import TEMPLATE
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import Projector, WorkloadView, spec_reader
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

_RAW: Final = frozenset({"template"})
"""Fields that stay documents."""

NEVER: Final = "Never"

LONGEST_NAME: Final = 63
"""Characters of a pod's name, which is its host name too."""

SUFFIX_LENGTH: Final = 10
"""With as many nodes as a cluster can have, two of them get the same end once in millions of jobs."""


class BroadcastJobSettings(DefaultingSettings, frozen=True, kw_only=True):
    """Feature gates and flags that change decisions about BroadcastJobs."""

    assign_by_scheduler: Annotated[
        bool, FromFlag("assign-bcj-pods-by-scheduler", "Pods of BroadcastJobs are placed by the scheduler.")
    ] = True
    """False: pods are created with their node's name."""


class BroadcastJobView(WorkloadView, frozen=True, kw_only=True):
    """One BroadcastJob as the cache keeps it."""

    spec: BroadcastJobSpec | None
    """None: it cannot be read; `problem` says why."""
    status: BroadcastJobStatus = BroadcastJobStatus()
    requirements: NodeRequirements = NodeRequirements()
    """Requirements of the template on nodes."""
    request: Request = msgspec.field(default_factory=dict)
    """Resources that a pod of the job requests from a node."""

    @property
    def ends(self) -> bool:
        """Whether it has a completion policy under which it ends."""
        policy = self.spec.completion_policy if self.spec else None
        return policy is None or policy.type != NEVER

    @property
    def has_failed(self) -> bool:
        """Whether it is over, and has failed."""
        return self._has_condition("Failed") or (not self.ends and self.status.phase == "failed")

    @property
    def is_finished(self) -> bool:
        """Whether it is over. One that never ends can only fail."""
        return self.has_failed or (self.ends and self._has_condition("Complete"))

    def _has_condition(self, kind: str) -> bool:
        return any(
            condition.type == kind and condition.status == "True"
            for condition in self.status.conditions or ()
        )

    def obstacle(self, node: NodeView) -> str:
        """Why a new pod may not be on the node; empty: it may."""
        return self.requirements.obstacle(node) or shortage(self.request, node)


read_spec: Final = spec_reader(BroadcastJobSpec, raw={"template"}, parts=TEMPLATE)


def _derived(spec: BroadcastJobSpec, _: Document) -> dict[str, Any]:
    pod: Mapping[str, Any] = spec.template.get("spec") or {}
    return {"requirements": requirements_of(pod), "request": request_of(pod)}


BROADCAST_JOB_VIEWS: Final = Views[BroadcastJobView](
    resource=BROADCAST_JOBS,
    projector=lambda: Projector(
        BroadcastJobView, read_spec=read_spec, status=BroadcastJobStatus, derived=_derived
    ),
)


class BroadcastJobSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one BroadcastJob at one instant."""

    job: BroadcastJobView
    pods: Sequence[PodView]
    """All that it controls, finished and terminating ones too, by name."""
    nodes: Sequence[NodeView]
    """All of the cluster, by name."""
    now: Instant
    names: Mapping[str, str] = {}
    """Node without a pod of the job to the name of its future pod."""
    settings: BroadcastJobSettings = BroadcastJobSettings()


class ReadableBroadcastJobView(BroadcastJobView, frozen=True, kw_only=True):
    """One whose spec can be read. A type alone: `is_readable()` says which snapshots have it."""

    spec: BroadcastJobSpec


class ReadableBroadcastJob(BroadcastJobSnapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    job: ReadableBroadcastJobView


def is_readable(snapshot: BroadcastJobSnapshot) -> TypeGuard[ReadableBroadcastJob]:
    """Whether the spec can be read, and admission has nothing against what is stored. The one place that decides it."""
    return snapshot.job.spec is not None and not snapshot.refused


async def snapshot(view: BroadcastJobView, read: Read[BroadcastJobSettings]) -> BroadcastJobSnapshot:
    """The job with its pods and all nodes, as they are known now."""
    pods = sorted(read.owned(POD_VIEWS, view.uid), key=lambda pod: pod.name)
    nodes = sorted(read.all(NODE_VIEWS), key=lambda node: node.name)
    return BroadcastJobSnapshot(
        job=view,
        pods=pods,
        nodes=nodes,
        names=_names(view, nodes, pods, read),
        now=read.now(),
        settings=read.settings,
    )


def _names(
    view: BroadcastJobView,
    nodes: Sequence[NodeView],
    pods: Sequence[PodView],
    read: Read[BroadcastJobSettings],
) -> dict[str, str]:
    """A node's pod has always the same name, so that the API server refuses a second one, be it from another
    leader or a creation that arrives late. Only where a pod of another owner has the name there is another one."""
    has_pod = {pod.target_node for pod in pods}
    names: dict[str, str] = {}
    for node in nodes:
        if node.name in has_pod:
            continue
        attempt = 0
        while (
            read.get(POD_VIEWS, Key(view.namespace, name := pod_name(view, node.name, attempt))) is not None
        ):
            attempt += 1
        names[node.name] = name
    return names


def pod_name(job: BroadcastJobView, node: str, attempt: int = 0) -> str:
    """The name of the pod of a node: that of the job with ten characters that follow from job and node."""
    digest = hashlib.blake2b(f"{job.uid}/{node}/{attempt}".encode(), digest_size=SUFFIX_LENGTH).digest()
    return f"{job.name}-"[: LONGEST_NAME - SUFFIX_LENGTH] + safe_encode(digest)
