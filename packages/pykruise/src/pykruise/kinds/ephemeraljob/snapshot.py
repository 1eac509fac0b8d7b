"""Everything that a decision about one EphemeralJob needs, as one value.

bytes of an EphemeralJob ──▶ EPHEMERAL_JOB_VIEWS ──▶ EphemeralJobView (stored in the cache)
EphemeralJobView + Read ──▶ read_snapshot() ──▶ EphemeralJobSnapshot ──▶ plan.py
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS, EphemeralJobSpec, EphemeralJobStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.values.selectors import NOTHING, Selector
from pykruise.plans.selected_pods import select_pods
from pykruise.plans.stored_values import Judged
from pykruise.pods.template.typed_parts import Parts
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import Projector, WorkloadView, make_spec_reader, selector_of
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE, Views


class EphemeralJobView(WorkloadView, frozen=True, kw_only=True):
    """An EphemeralJob as stored in the cache."""

    spec: EphemeralJobSpec | None
    """The typed spec; None if it is unreadable: `problem` contains the reason."""
    selector: Selector = NOTHING
    status: EphemeralJobStatus = EphemeralJobStatus()

    @property
    def names(self) -> frozenset[str]:
        """Names of the containers that the job adds to pods."""
        return frozenset(container.get("name") or "" for container in self.containers)

    @property
    def containers(self) -> Sequence[Mapping[str, Any]]:
        """Containers that the job adds to pods, as documents."""
        return self.spec.template.ephemeral_containers if self.spec else ()


PARTS: Final[Parts] = {"template.ephemeralContainers": "[]io.k8s.api.core.v1.EphemeralContainer"}
read_spec: Final = make_spec_reader(EphemeralJobSpec, raw={"ephemeralContainers"}, parts=PARTS)


def _derive_selector(spec: EphemeralJobSpec, _: Document) -> dict[str, Any]:
    selector = selector_of(spec.selector)
    if selector is None:
        return {"spec": None, "problem": "spec.selector: it is not a valid label selector"}
    return {"selector": selector}


EPHEMERAL_JOB_VIEWS: Final = Views[EphemeralJobView](
    resource=EPHEMERAL_JOBS,
    projector=lambda: Projector(
        EphemeralJobView, read_spec=read_spec, status=EphemeralJobStatus, derived=_derive_selector
    ),
    indexes={BY_NAMESPACE: lambda job: (job.namespace,)},
)


class EphemeralJobSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one EphemeralJob at one instant."""

    job: EphemeralJobView
    pods: Sequence[PodView]
    """Active pods that the job's selector matches, oldest first."""
    now: Instant


class ReadableEphemeralJobView(EphemeralJobView, frozen=True, kw_only=True):
    """An EphemeralJobView with a readable spec. Only a type: no object is created from this class."""

    spec: EphemeralJobSpec


class ReadableEphemeralJob(EphemeralJobSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    job: ReadableEphemeralJobView


def is_readable(snapshot: EphemeralJobSnapshot) -> TypeGuard[ReadableEphemeralJob]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.job.spec is not None and not snapshot.refused


async def read_snapshot(view: EphemeralJobView, read: Read[Any]) -> EphemeralJobSnapshot:
    """Read the job, and the pods that its selector matches, from the caches."""
    matching = [pod for pod in select_pods(view.selector, view.namespace, read) if pod.is_active]
    return EphemeralJobSnapshot(
        job=view,
        pods=sorted(matching, key=lambda pod: (pod.created_at or 0.0, pod.name)),
        now=read.now(),
    )
