"""Registration of the kind ContainerRecreateRequest for the rest of the program.

KIND ──▶ definitions, conversion, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)

This controller first takes the pod out of service. Then the agent on the pod's node stops the containers. If no agent
carries out the request, this controller ends it. Admission copies the data that the agent needs from the pod.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.containerrecreaterequest.admission import build_mutating_review
from pykruise.kinds.containerrecreaterequest.conversion import CONVERSION
from pykruise.kinds.containerrecreaterequest.plan import plan_request
from pykruise.kinds.containerrecreaterequest.shown import SHOWN
from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerRecreateRequest,
)
from pykruise.kinds.containerrecreaterequest.v1alpha1 import ContainerRecreateRequestV1Alpha1
from pykruise.kinds.containerrecreaterequest.validation import errors_of
from pykruise.kinds.containerrecreaterequest.view import (
    BY_POD,
    NODE_LABEL,
    REQUEST_VIEWS,
    RequestView,
    read_snapshot,
)
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import NODES, PODS
from pykruise.kube.schemas.crds import Column
from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight
from pykruise.plans.kind import AGE, Kind, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake

_COLUMNS = (
    Column("PHASE", "string", ".status.phase"),
    Column("POD", "string", ".spec.podName"),
    Column("NODE", "string", r".metadata.labels.crr\.apps\.kruise\.io/node-name"),
    AGE,
)


def _enqueue_by_request(change: Change[RequestView], around: Around[Any]) -> Iterator[Key]:
    """Enqueue the request. When it ends, also enqueue the other requests for its pod, because they wait for it."""
    yield change.key
    if change.new is None or change.new.is_over:
        for other in around.list_by_index(REQUEST_VIEWS, BY_POD, change.latest.pod_uid):
            if not other.is_over:
                yield other.key


def _enqueue_by_pod(change: Change[PodView], around: Around[Any]) -> Iterator[Key]:
    """Enqueue the requests for a pod that was created or deleted, or whose container statuses changed."""
    old, new = change.old, change.new
    if old is not None and new is not None and _is_alike(old, new):
        return
    for uid in {pod.uid for pod in (old, new) if pod is not None}:
        for request in around.list_by_index(REQUEST_VIEWS, BY_POD, uid):
            if not request.is_over and not request.is_deleting:
                yield request.key


def _is_alike(old: PodView, new: PodView) -> bool:
    before = (old.uid, old.is_deleting, old.container_statuses, old.init_statuses)
    return before == (new.uid, new.is_deleting, new.container_statuses, new.init_statuses)


def _format_headline(status: Mapping[str, Any]) -> str:
    states = status.get("containerRecreateStates") or ()
    done = sum(state.get("phase") == "Succeeded" for state in states)
    phase, message = status.get("phase") or "not begun", status.get("message")
    waiting = [state.get("name", "") for state in states if state.get("phase") == "Recreating"]
    counts = f"{done} of {format_count(len(states), 'container is', 'containers are')} recreated"
    said = [f"{phase}: {counts if states else 'no container is recreated'}"]
    if waiting and not status.get("completionTime"):
        said.append(
            f"it waits for {', '.join(waiting)} to be ready again, for minStartedSeconds if that is set"
        )
    return "; ".join([*said, message] if message else said)


_STORED: Final = StoredSpec(
    errors=errors_of,
    kept={
        "spec.ttlSecondsAfterFinished": "a time that has passed: the request is deleted when it has ended",
        "spec.strategy.minStartedSeconds": "0 seconds",
    },
)

KIND = Kind(
    resource=CONTAINER_RECREATE_REQUESTS,
    versions=make_two_versions(ContainerRecreateRequest, ContainerRecreateRequestV1Alpha1, columns=_COLUMNS),
    short_names=("crr",),
    conversion=CONVERSION,
    gates=("KruiseDaemon",),
    reviews=Reviews(mutating=lambda _, lookups: build_mutating_review(lookups)),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="crr",
            component="containerrecreaterequest-controller",
            objects=REQUEST_VIEWS,
            reads=lambda _: (POD_VIEWS, REQUEST_VIEWS),
            wakes=lambda _: (
                Wake(on=REQUEST_VIEWS, keys=_enqueue_by_request),
                Wake(on=POD_VIEWS, keys=_enqueue_by_pod),
            ),
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.request,
            plan=plan_request,
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=(make_right(PODS, "delete"), make_right(PODS, "create", subresource="exec")),
    rights=(
        make_right(
            CONTAINER_RECREATE_REQUESTS,
            *READ,
            "patch",
            "delete",
            why="ContainerRecreateRequest: to watch, mark and delete requests",
        ),
        make_right(
            CONTAINER_RECREATE_REQUESTS,
            "patch",
            subresource="status",
            why="ContainerRecreateRequest: to report that requests have ended",
        ),
        make_right(
            PODS, *READ, why="ContainerRecreateRequest: to read the pods whose containers are recreated"
        ),
        make_right(
            PODS,
            "patch",
            subresource="status",
            why="ContainerRecreateRequest: to take pods out of service during a recreation",
        ),
        make_right(NODES, "get", why="ContainerRecreateRequest: to check that the pod's node exists"),
    ),
    insight=Insight(
        names=frozenset({"crr"}),
        containers=(),
        headline=_format_headline,
        node_of=lambda snapshot, _: snapshot.request.labels.get(NODE_LABEL, ""),
        has_observed_generation=False,
    ),
    shown=SHOWN,
)
