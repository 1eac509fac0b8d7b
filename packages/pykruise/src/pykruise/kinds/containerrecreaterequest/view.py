"""Everything a decision about one ContainerRecreateRequest needs, as one value.

bytes of a request ──▶ project_request() ──▶ RequestView (what a cache keeps)
RequestView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py
                          └── a pod that the cache has never shown, asked of the API server
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeGuard

from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerRecreateRequestSpec,
    ContainerRecreateRequestStatus,
)
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.ids import Key
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import Projector, WorkloadView, spec_reader
from pykruise.runtime.named_objects import look_up
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

POD_LABEL: Final = "crr.apps.kruise.io/pod-uid"
NODE_LABEL: Final = "crr.apps.kruise.io/node-name"
ACTIVE_LABEL: Final = "crr.apps.kruise.io/active"
"""`true` until the request is over: agents see the others no more."""

TURN_ANNOTATION: Final = "pykruise.io/turn-since"
"""On a request that has waited for another one: since when it does not any more, or that it does."""
WAITS: Final = "waits"

BY_POD: Final = "pod"
"""Index: uid of the pod."""


class RequestView(WorkloadView, frozen=True, kw_only=True):
    """One ContainerRecreateRequest as the cache keeps it."""

    spec: ContainerRecreateRequestSpec | None
    """None: it cannot be read; `problem` says why."""
    status: ContainerRecreateRequestStatus = ContainerRecreateRequestStatus()

    @property
    def pod_uid(self) -> str:
        """UID of the pod that the request was created for."""
        return self.labels.get(POD_LABEL, "")

    @property
    def is_over(self) -> bool:
        """Whether its agent, or the controller, has said that nothing more happens."""
        return bool(self.status.completion_time)

    @property
    def is_carried_out(self) -> bool:
        """Whether its agent is at work on it."""
        return self.status.phase == "Recreating" and not self.is_over and not self.is_deleting


read_spec: Final = spec_reader(ContainerRecreateRequestSpec)

REQUEST_VIEWS: Final = Views[RequestView](
    resource=CONTAINER_RECREATE_REQUESTS,
    projector=lambda: Projector(RequestView, read_spec=read_spec, status=ContainerRecreateRequestStatus),
    indexes={BY_POD: lambda request: (request.pod_uid,) if request.pod_uid else ()},
)


class RecreationSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one request at one instant."""

    request: RequestView
    pod: PodView | None
    """The pod that it was made for. None: it is gone, or the request is over and has let go of it."""
    others: Sequence[RequestView]
    """Further requests for the same pod."""
    turn_at: Instant
    """Since when none of them is carried out, as far as is known; infinite: one is. Agents take one after the other."""
    is_turn_noted: bool = True
    """Whether the request says so, or its creation does."""
    now: Instant


class ReadableRequestView(RequestView, frozen=True, kw_only=True):
    """One whose spec can be read. A type alone: `is_readable()` says which snapshots have it."""

    spec: ContainerRecreateRequestSpec


class ReadableContainerRecreateRequest(RecreationSnapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    request: ReadableRequestView


def is_readable(snapshot: RecreationSnapshot) -> TypeGuard[ReadableContainerRecreateRequest]:
    """Whether the spec can be read, and admission has nothing against what is stored. The one place that decides it."""
    return snapshot.request.spec is not None and not snapshot.refused


class RequestTurn:
    """Since when it is a request's turn. Of a request before it that is deleted nothing says until when it went on, so
    the request itself is annotated while it waits and when it does not any more: managers that start later know it.
    """

    at: Instant | None = None

    def look(self, request: RequestView, others: Sequence[RequestView], now: Instant) -> Instant:
        """`RecreationSnapshot.turn_at` as of now."""
        if any(request.is_carried_out for request in others):
            self.at = math.inf
        elif self.at == math.inf:
            self.at = now
        elif self.at is None:
            self.at = _turn_of(request, now)
        return self.at


def _turn_of(request: RequestView, now: Instant) -> Instant:
    """For a manager that sees it for the first time, and none that is carried out before it."""
    noted = _noted_turn(request)
    if noted is not None:
        return min(noted, now)
    return now if request.status.phase == "Pending" else request.created_at


def _noted_turn(request: RequestView) -> Instant | None:
    """Time in its annotation: infinite: the request waits; None: no annotation, or an unreadable one."""
    text = request.annotations.get(TURN_ANNOTATION)
    if text == WAITS:
        return math.inf
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def _is_noted(request: RequestView, turn_at: Instant) -> bool:
    noted = _noted_turn(request)
    if noted is None:
        return turn_at == request.created_at
    return turn_at == noted if math.inf in (turn_at, noted) else turn_at <= noted


async def snapshot(view: RequestView, read: Read[Any]) -> RecreationSnapshot:
    """The request with its pod and the pod's other requests, as they are known now."""
    named = await look_up(read, POD_VIEWS, _pod_of(view))
    requests = read.by_index(REQUEST_VIEWS, BY_POD, view.pod_uid)
    others = tuple(request for request in requests if request.uid != view.uid)
    now = read.now()
    turn_at = read.memory(RequestTurn).look(view, others, now)
    return RecreationSnapshot(
        request=view,
        pod=named.views.get(view.pod_uid),
        others=others,
        turn_at=turn_at,
        is_turn_noted=_is_noted(view, turn_at),
        now=now,
    )


def _pod_of(view: RequestView) -> Iterator[tuple[Key, str]]:
    has_let_go = view.is_over and not view.finalizers and ACTIVE_LABEL not in view.labels
    if view.spec is not None and view.spec.pod_name and not has_let_go:
        yield Key(view.namespace, view.spec.pod_name), view.pod_uid
