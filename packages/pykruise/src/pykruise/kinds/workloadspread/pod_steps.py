"""WorkloadSpread's admission steps for pods: one places a new pod in its subset, the other releases its slot.

pod ──▶ Assignment ──▶ the pod placed in its subset, or unchanged
DELETE of a pod, CREATE of pods/eviction ──▶ the slot is recorded as free; if this fails, the client must try again

A dry run does not allocate a slot, so it does not change the pod either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pykruise.kinds.workloadspread.assignment import AssignmentError, Spreading
from pykruise.kinds.workloadspread.origins import list_patched_pods
from pykruise.kinds.workloadspread.readers import RIGHTS, CachedSpreads, LiveSpreads
from pykruise.kinds.workloadspread.snapshot_reads import SpreadSettings
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.control.quota import FullError, Quota
from pykruise.kube.documents import Document
from pykruise.kube.errors import ErrorStatus, KubeError
from pykruise.kube.values.cel import Interests, any_of, build_selection, join_terms
from pykruise.plans.pod_steps import (
    PodOrigins,
    PodReaders,
    PodSelection,
    PodSteps,
    StepContext,
    StepError,
    build_retry_error,
    is_dry,
)
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION

_HAS_CONTROLLER: Final = (
    "has(object.metadata.ownerReferences) && "
    "object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller == true)"
)
"""CEL expression: the pod has a controller."""

_GOES: Final = (
    'request.operation == "DELETE" && oldObject != null && has(oldObject.metadata.annotations) && '
    f'"{MATCHED_SPREAD_ANNOTATION}" in oldObject.metadata.annotations'
)
"""CEL expression: the request deletes a pod with the annotation."""

_IS_EVICTED: Final = 'request.operation == "CREATE"'
"""CEL expression: the request is an eviction. It does not contain the pod."""


class SpreadInjection:
    """The step of `/mutate-pod`."""

    def __init__(self, spreading: Spreading | None) -> None:
        self._spreading = spreading

    def build_match_condition(self, interests: Interests) -> str:
        """CEL expression that selects pods with a controller, where WorkloadSpreads exist."""
        return join_terms(build_selection(interests, WORKLOAD_SPREADS.kind), _HAS_CONTROLLER)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if self._spreading is None or is_dry(request):
            return None
        try:
            with _limit_waiting(self._spreading, request.namespace):
                return await self._spreading.assignment.place_pod(pod, namespace=request.namespace)
        except AssignmentError as error:
            raise StepError(str(error)) from error


class SpreadRelease:
    """The step of `/validate-pod`."""

    def __init__(self, spreading: Spreading | None) -> None:
        self._spreading = spreading

    def build_match_condition(self, interests: Interests) -> str:
        """CEL expression that selects deletions of annotated pods, and all evictions where WorkloadSpreads exist."""
        return any_of([_GOES, join_terms(build_selection(interests, WORKLOAD_SPREADS.kind), _IS_EVICTED)])

    async def judge(self, request: AdmissionRequest) -> ErrorStatus | None:
        if self._spreading is None or is_dry(request):
            return None
        try:
            with _limit_waiting(self._spreading, request.namespace):
                pod = await _find_disrupted_pod(request, self._spreading)
                if pod is not None:
                    await self._spreading.assignment.release_slot(pod, namespace=request.namespace)
        except (AssignmentError, KubeError) as error:
            raise build_retry_error(str(error), request) from error
        return None


@contextmanager
def _limit_waiting(spreading: Spreading, namespace: str) -> Iterator[None]:
    """Limit the reviews that wait for a slow API server, so that other reviews are not blocked."""
    if spreading.quota is None:
        yield
        return
    try:
        with spreading.quota.place(namespace):
            yield
    except FullError as error:
        raise StepError(
            f"too many pods wait for their slot in a WorkloadSpread: {error}", code=429
        ) from error


async def _find_disrupted_pod(request: AdmissionRequest, spreading: Spreading) -> Document | None:
    """Return the pod that is deleted or evicted; None: the request does neither."""
    match request.operation, request.subresource:
        case "DELETE", "":
            return request.old_object
        case "CREATE", "eviction":
            # If the pod does not exist, the API server itself responds with 404. A client that drains a node needs this
            # response to continue.
            return await spreading.reader.read_pod(request.namespace, request.name)
    return None


def _build_spreading(context: StepContext) -> Spreading | None:
    """Build one allocator for both steps. At most half of the waiting reviews may be of one namespace."""
    if context.reader is None:
        return None
    settings: SpreadSettings = context.settings
    most = context.most_waiting
    return Spreading(
        context.reader,
        clock=context.clock,
        rng=context.rng,
        versioned=settings.versioned_kinds,
        quota=Quota(most, most_of_one=most // 2) if most is not None else None,
    )


STEPS: Final = PodSteps(
    name="workloadspread",
    order=20,
    shares=_build_spreading,
    mutate=SpreadInjection,
    judge=SpreadRelease,
    reads=PodReaders(
        live=lambda place: LiveSpreads(place.client, namespace=place.namespace, clock=place.clock),
        cached=lambda place: CachedSpreads(
            place.client(), namespace=place.namespace, clock=place.clock, rng=place.rng
        ),
    ),
    selects=PodSelection(views=SPREAD_VIEWS, announces=()),
    rights=RIGHTS,
    origins=PodOrigins(untraced=list_patched_pods),
)
