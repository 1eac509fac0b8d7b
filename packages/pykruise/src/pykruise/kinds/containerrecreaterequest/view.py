"""Everything a decision about one ContainerRecreateRequest needs, as one value.

bytes of a request ──▶ project_request() ──▶ RequestView (what a cache keeps)
RequestView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerRecreateRequestSpec,
    ContainerRecreateRequestStatus,
)
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import decode, get_path
from pykruise.kube.ids import Key
from pykruise.kube.typed_documents import read as read_typed
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.views import PodView
from pykruise.pods.workloads import WorkloadView, workload_fields
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

__all__ = [
    "ACTIVE_LABEL",
    "BY_POD",
    "NODE_LABEL",
    "POD_LABEL",
    "REQUEST_VIEWS",
    "RequestView",
    "Snapshot",
    "project_request",
    "read_spec",
    "snapshot",
]

POD_LABEL: Final = "crr.apps.kruise.io/pod-uid"
NODE_LABEL: Final = "crr.apps.kruise.io/node-name"
ACTIVE_LABEL: Final = "crr.apps.kruise.io/active"
"""`true` until the request is over: agents see the others no more."""

BY_POD: Final = "pod"
"""Index: uid of the pod."""


class RequestView(WorkloadView, frozen=True, kw_only=True):
    """One ContainerRecreateRequest as the cache keeps it."""

    spec: ContainerRecreateRequestSpec | None
    """None: it cannot be read; `problem` says why."""
    status: ContainerRecreateRequestStatus = ContainerRecreateRequestStatus()
    finalizers: tuple[str, ...] = ()
    created_at: Instant = 0.0

    @property
    def pod_uid(self) -> str:
        """Of the pod that it was made for."""
        return self.labels.get(POD_LABEL, "")

    @property
    def is_over(self) -> bool:
        """Whether its agent, or the controller, has said that nothing more happens."""
        return bool(self.status.completion_time)


def project_request(raw: bytes | msgspec.Raw) -> RequestView:
    """The view of a request's JSON text (v1beta1). A spec that does not fit the types gives a view with `problem`.

    Raises ValueError only for something that is no Kubernetes object.
    """
    document = decode(raw)
    fields = workload_fields(document)
    spec, problem = read_spec(document.get("spec") or {})
    status, _ = read_typed(fields["stored_status"], ContainerRecreateRequestStatus, path="status")
    created = get_path(document, "metadata", "creationTimestamp")
    return RequestView(
        **{**fields, "problem": problem},
        spec=spec,
        status=status or ContainerRecreateRequestStatus(),
        finalizers=tuple(get_path(document, "metadata", "finalizers", default=())),
        created_at=parse_time(created) if created else 0.0,
    )


def read_spec(spec: Mapping[str, Any]) -> tuple[ContainerRecreateRequestSpec | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`. A null field counts as absent."""
    return read_typed(spec, ContainerRecreateRequestSpec, path="spec")


REQUEST_VIEWS: Final = Views[RequestView](
    resource=CONTAINER_RECREATE_REQUESTS,
    projector=lambda: project_request,
    indexes={BY_POD: lambda request: (request.pod_uid,) if request.pod_uid else ()},
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The world of one request at one instant."""

    request: RequestView
    pod: PodView | None
    """The pod of that name, whichever it is; None: there is none."""
    others: Sequence[RequestView]
    """Further requests for the same pod."""
    now: Instant


async def snapshot(view: RequestView, read: Read[Any]) -> Snapshot:
    """The request with its pod and the pod's other requests, as they are known now."""
    name = view.spec.pod_name if view.spec is not None else ""
    others = read.by_index(REQUEST_VIEWS, BY_POD, view.pod_uid) if view.pod_uid else ()
    return Snapshot(
        request=view,
        pod=read.get(POD_VIEWS, Key(view.namespace, name)) if name else None,
        others=tuple(one for one in others if one.uid != view.uid),
        now=read.now(),
    )
