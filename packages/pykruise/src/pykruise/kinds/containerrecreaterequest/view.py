"""Everything that a decision about one ContainerRecreateRequest needs, as one value.

bytes of a request ──▶ REQUEST_VIEWS ──▶ RequestView (stored in the cache)
RequestView + Read ──▶ read_snapshot() ──▶ RecreationSnapshot ──▶ plan.py
                       └── reads the pod from the API server if the cache has never contained it
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeGuard

from pykruise.kinds.containerrecreaterequest.conversion import PRE_RECREATE_GRACE
from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerRecreateRequestSpec,
    ContainerRecreateRequestStatus,
    RecreateStrategy,
)
from pykruise.kube.clock import Instant, parse_optional_time
from pykruise.kube.ids import Key
from pykruise.kube.schemas.types import Condition
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.lifecycle.blockers import find_probe_delay
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import Projector, WorkloadView, make_spec_reader
from pykruise.runtime.named_objects import look_up
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

POD_LABEL: Final = "crr.apps.kruise.io/pod-uid"
NODE_LABEL: Final = "crr.apps.kruise.io/node-name"
ACTIVE_LABEL: Final = "crr.apps.kruise.io/active"
"""Label with value `true` until the request has ended. Agents watch only requests with this label."""

TURN_ANNOTATION: Final = "pykruise.io/turn-since"
"""Annotation of a request that waits or waited for another request. Its value is `waits`, or the time at which the wait
ended.
"""
WAITS: Final = "waits"

BY_POD: Final = "pod"
"""Index of requests by the uid of their pod."""


_DEFAULTS: Final = RecreateStrategy()


class RequestView(WorkloadView, frozen=True, kw_only=True):
    """A ContainerRecreateRequest as stored in the cache."""

    spec: ContainerRecreateRequestSpec | None
    """The typed spec; None if it is unreadable: `problem` contains the reason."""
    status: ContainerRecreateRequestStatus = ContainerRecreateRequestStatus()

    @property
    def pod_uid(self) -> str:
        """UID of the pod for which the request was created."""
        return self.labels.get(POD_LABEL, "")

    @property
    def is_over(self) -> bool:
        """Whether the request has ended, according to its status."""
        return bool(self.status.completion_time)

    @property
    def strategy(self) -> RecreateStrategy:
        """The strategy of the spec, or the defaults."""
        strategy = self.spec.strategy if self.spec is not None else None
        return strategy if strategy is not None else _DEFAULTS

    @property
    def grace_condition(self) -> Condition | None:
        """Condition of a request that has taken its pod out of service; None: it has not done so."""
        return next(
            (
                condition
                for condition in self.status.conditions or ()
                if condition.type == PRE_RECREATE_GRACE and condition.status == "True"
            ),
            None,
        )

    @property
    def is_carried_out(self) -> bool:
        """Whether the agent is recreating containers for this request."""
        return self.status.phase == "Recreating" and not self.is_over and not self.is_deleting


read_spec: Final = make_spec_reader(ContainerRecreateRequestSpec)

REQUEST_VIEWS: Final = Views[RequestView](
    resource=CONTAINER_RECREATE_REQUESTS,
    projector=lambda: Projector(RequestView, read_spec=read_spec, status=ContainerRecreateRequestStatus),
    indexes={BY_POD: lambda request: (request.pod_uid,) if request.pod_uid else ()},
)


class RecreationSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one request at one instant."""

    request: RequestView
    pod: PodView | None
    """The pod of the request; None if the pod no longer exists, or is no longer needed because the request has
    ended.
    """
    others: Sequence[RequestView]
    """Other requests for the same pod."""
    turn_at: Instant
    """Time since which no other request for the pod is carried out, as far as is known; infinite if another request is
    being carried out. Agents carry out the requests of a pod sequentially.
    """
    is_turn_noted: bool = True
    """Whether `turn_at` is stored: in the request's annotation, or because it is the creation time."""
    ready_since: Instant | None = None
    """Time since which the pod is ready, also after the end of the request; None if it is not ready."""
    probe_delay_s: int = 0
    """Seconds between the start of the first container that is not recreated yet and its first probe; 0 if it is
    unknown.
    """
    now: Instant


class ReadableRequestView(RequestView, frozen=True, kw_only=True):
    """A RequestView with a readable spec. Only a type: no object is created from this class."""

    spec: ContainerRecreateRequestSpec


class ReadableContainerRecreateRequest(RecreationSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    request: ReadableRequestView


def is_readable(snapshot: RecreationSnapshot) -> TypeGuard[ReadableContainerRecreateRequest]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.request.spec is not None and not snapshot.refused


class RequestTurn:
    """Remembers since when a request no longer waits for other requests. After another request is deleted, no object
    shows when it ended. So the waiting request is annotated, and other managers know its state too.
    """

    at: Instant | None = None

    def look(self, request: RequestView, others: Sequence[RequestView], now: Instant) -> Instant:
        """Return `RecreationSnapshot.turn_at` at the instant `now`."""
        if any(request.is_carried_out for request in others):
            self.at = math.inf
        elif self.at == math.inf:
            self.at = now
        elif self.at is None:
            self.at = _find_turn(request, now)
        return self.at


def _find_turn(request: RequestView, now: Instant) -> Instant:
    """Return since when the request does not wait. Call this when this manager sees the request for the first time, and
    only if no other request for the pod is being carried out.
    """
    noted = _parse_turn(request)
    if noted is not None:
        return min(noted, now)
    return now if request.status.phase == "Pending" else request.created_at


def find_begin(request: RequestView) -> Instant:
    """Return since when the request does not wait for others, according to its annotation or its creation time."""
    noted = _parse_turn(request)
    return noted if noted is not None and noted != math.inf else request.created_at


def _parse_turn(request: RequestView) -> Instant | None:
    """Parse the time in the request's annotation. Return infinity if the request waits, and None if the annotation is
    absent or unreadable.
    """
    text = request.annotations.get(TURN_ANNOTATION)
    return math.inf if text == WAITS else parse_optional_time(text)


def _is_noted(request: RequestView, turn_at: Instant) -> bool:
    noted = _parse_turn(request)
    if noted is None:
        return turn_at == request.created_at
    return turn_at == noted if math.inf in (turn_at, noted) else turn_at <= noted


async def read_snapshot(view: RequestView, read: Read[Any]) -> RecreationSnapshot:
    """Read the request, its pod, and other requests for this pod."""
    named = await look_up(read, POD_VIEWS, _find_pod_key(view))
    requests = read.list_by_index(REQUEST_VIEWS, BY_POD, view.pod_uid)
    others = tuple(request for request in requests if request.uid != view.uid)
    now = read.now()
    turn_at = read.find_memory(RequestTurn).look(view, others, now)
    target = _find_target(view, read)
    return RecreationSnapshot(
        request=view,
        pod=named.views.get(view.pod_uid),
        others=others,
        turn_at=turn_at,
        is_turn_noted=_is_noted(view, turn_at),
        ready_since=target.ready_since if target is not None and target.is_ready else None,
        probe_delay_s=find_probe_delay(target, find_unfinished(view)) if target is not None else 0,
        now=now,
    )


def find_unfinished(request: RequestView) -> str:
    """Return the name of the first requested container that was not recreated; empty if all were recreated."""
    states = request.status.container_recreate_states or ()
    done = {state.name for state in states if state.phase == "Succeeded"}
    wanted = request.spec.containers if request.spec is not None else ()
    return next((container.name for container in wanted if container.name not in done), "")


def _find_target(view: RequestView, read: Read[Any]) -> PodView | None:
    """Return the pod of the request, also after the end of the request; None if it no longer exists."""
    pod = read.get(POD_VIEWS, Key(view.namespace, view.spec.pod_name)) if view.spec is not None else None
    return pod if pod is not None and pod.uid == view.pod_uid else None


def _find_pod_key(view: RequestView) -> Iterator[tuple[Key, str]]:
    has_let_go = view.is_over and not view.finalizers and ACTIVE_LABEL not in view.labels
    if view.spec is not None and view.spec.pod_name and not has_let_go:
        yield Key(view.namespace, view.spec.pod_name), view.pod_uid
