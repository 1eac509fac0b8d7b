"""Everything a decision about one EphemeralJob needs, as one value.

bytes of an EphemeralJob ──▶ project_job() ──▶ EphemeralJobView (what a cache keeps)
EphemeralJobView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS, EphemeralJobSpec, EphemeralJobStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import decode
from pykruise.kube.selectors import NOTHING, Selector
from pykruise.kube.typed_documents import read as read_typed
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.views import PodView
from pykruise.pods.workloads import WorkloadView, selector_of, workload_fields
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE, Views

__all__ = ["EPHEMERAL_JOB_VIEWS", "EphemeralJobView", "Snapshot", "project_job", "read_spec", "snapshot"]


class EphemeralJobView(WorkloadView, frozen=True, kw_only=True):
    """One EphemeralJob as the cache keeps it."""

    spec: EphemeralJobSpec | None
    """None: it cannot be read; `problem` says why."""
    selector: Selector = NOTHING
    status: EphemeralJobStatus = EphemeralJobStatus()
    finalizers: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Of the containers that it puts into pods."""
        return frozenset(one.get("name") or "" for one in self.containers)

    @property
    def containers(self) -> Sequence[Mapping[str, Any]]:
        """What it puts into pods, as documents."""
        return self.spec.template.ephemeral_containers if self.spec else ()


def project_job(raw: bytes | msgspec.Raw) -> EphemeralJobView:
    """The view of an EphemeralJob's JSON text. A spec that does not fit the types gives a view with `problem`.

    Raises ValueError only for something that is no Kubernetes object.
    """
    document = decode(raw)
    fields = workload_fields(document)
    spec, problem = read_spec(document.get("spec") or {})
    selector = selector_of(spec.selector) if spec is not None else None
    if spec is not None and selector is None:
        spec, problem = None, "spec.selector: it cannot be read"
    status, _ = read_typed(fields["stored_status"], EphemeralJobStatus, path="status")
    return EphemeralJobView(
        **{**fields, "problem": problem},
        spec=spec,
        selector=selector or NOTHING,
        status=status or EphemeralJobStatus(),
        finalizers=tuple((document.get("metadata") or {}).get("finalizers") or ()),
    )


def read_spec(spec: Mapping[str, Any]) -> tuple[EphemeralJobSpec | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`. A null field counts as absent."""
    return read_typed(spec, EphemeralJobSpec, path="spec")


EPHEMERAL_JOB_VIEWS: Final = Views[EphemeralJobView](
    resource=EPHEMERAL_JOBS,
    projector=lambda: project_job,
    indexes={BY_NAMESPACE: lambda job: (job.namespace,)},
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The world of one EphemeralJob at one instant."""

    job: EphemeralJobView
    pods: Sequence[PodView]
    """Active ones that its selector matches, the oldest first."""
    now: Instant


async def snapshot(view: EphemeralJobView, read: Read[Any]) -> Snapshot:
    """The job with the pods that it is for, as they are known now."""
    matching = [
        pod
        for pod in read.by_index(POD_VIEWS, BY_NAMESPACE, view.namespace)
        if pod.is_active and view.selector.matches(pod.labels)
    ]
    return Snapshot(
        job=view,
        pods=sorted(matching, key=lambda pod: (pod.created_at or 0.0, pod.name)),
        now=read.now(),
    )
