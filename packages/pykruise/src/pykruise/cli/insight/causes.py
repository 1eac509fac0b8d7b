"""Why a pod does not serve, or does not go: the reason that its owner's conditions give, and what more is known.

PodView ──pods/lifecycle/blockers.py──▶ reason, words, remedy ─┐
a Pod's document ──messages, exit codes, times────────┴──▶ cause_of() ──▶ Cause

Pure, and the same for every kind. Codes are the reasons of the condition Waiting, so that both say the same.
What a manager does not keep of a pod (messages, exit codes) is read from the document here.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.pods.corrections import IN_TEMPLATE, Correction
from pykruise.pods.lifecycle.blockers import blocker_of, is_overdue
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason


class WaitCause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason. `code` is one word for programs; `since` is None where it is not recorded."""

    code: str
    words: str
    since: Instant | None = None
    remedy: str = ""
    container: str = ""
    """The container that it is about, where it is about one."""


_NO_CLAIMS: Final[Mapping[str, str]] = {}


def cause_of(
    pod: Document,
    view: PodView,
    *,
    now: Instant,
    lifecycle: Lifecycle | None = None,
    min_ready_s: int = 0,
    lost_nodes: Collection[str] = (),
    claims: Mapping[str, str] = _NO_CLAIMS,
    correction: Correction = IN_TEMPLATE,
) -> WaitCause | None:
    """Why a pod is not available, or not gone; None: it is available and stays. `lost_nodes` do not answer; `claims`:
    PVCs without a volume, by name, and what is wrong with them."""
    meta, node = pod["metadata"], view.node_name
    if meta.get("deletionTimestamp"):
        return _terminating(meta, node, lost_nodes, now=now)
    if node and node in lost_nodes:
        return WaitCause(
            code=Code.NODE_LOST,
            words=f"its node {node} does not answer",
            since=_changed(_condition(pod, "Ready")),
            remedy=f"bring {node} back, or delete the node: its pods are then replaced",
        )
    obstacle = blocker_of(view, lifecycle, min_ready_seconds=min_ready_s, now=now, correction=correction)
    if obstacle is None:
        return None
    cause = _explained(obstacle, pod, view, min_ready_s=min_ready_s, correction=correction)
    return _with_claims(cause, pod, claims) if cause.code == Code.UNBOUND_CLAIMS else cause


def _with_claims(cause: WaitCause, pod: Document, claims: Mapping[str, str]) -> WaitCause:
    """Named: the PVCs of this pod that have no volume, and what is missing for them."""
    volumes = pod["spec"].get("volumes") or ()
    names = [str((volume.get("persistentVolumeClaim") or {}).get("claimName")) for volume in volumes]
    texts = [f"PVC {name} {claims[name]}" for name in names if name in claims]
    return msgspec.structs.replace(cause, words="; ".join([cause.words, *texts])) if texts else cause


def _terminating(
    meta: Mapping[str, Any], node: str, lost_nodes: Collection[str], *, now: Instant
) -> WaitCause:
    ends_at = parse_time(meta["deletionTimestamp"])
    since = ends_at - (meta.get("deletionGracePeriodSeconds") or 0)
    finalizers = [name for name in meta.get("finalizers") or () if name != "foregroundDeletion"]
    if finalizers:
        names = ", ".join(finalizers)
        return WaitCause(
            code=Code.FINALIZER,
            words=f"it terminates, but finalizer {names} holds it",
            since=since,
            remedy=f"the controller that set {names} has to take it off",
        )
    if node and node in lost_nodes:
        return WaitCause(
            code=Code.NODE_LOST,
            words=f"it terminates, but its node {node} does not answer",
            since=since,
            remedy=f"bring {node} back, or delete the pod with --grace-period=0 --force",
        )
    if node and is_overdue(ends_at, now=now):
        return WaitCause(
            code=Code.NODE_LOST,
            words=f"it terminates, but its node {node} does not end it",
            since=since,
            remedy=f"bring {node} back, or delete the pod with --grace-period=0 --force",
        )
    return WaitCause(code=Code.TERMINATING, words="it terminates", since=since)


# What the document adds


def _explained(
    obstacle: Reason, pod: Document, view: PodView, *, min_ready_s: int, correction: Correction
) -> WaitCause:
    """The obstacle with what the document knows of it; words name no time, so that equal ones are shown once."""
    given = WaitCause(
        code=obstacle.code, words=obstacle.message, remedy=obstacle.remedy, container=obstacle.container
    )
    match obstacle.code:
        case Code.IMAGE_PULL if message := _waiting_message(pod):
            return msgspec.structs.replace(given, words=f"{given.words}: {message}")
        case Code.CONTAINER_FAILS:
            return _failing(given, pod, correction)
        case Code.NO_SCHEDULER:
            name = pod["spec"].get("schedulerName") or "default-scheduler"
            words = f"no scheduler called {name} has looked at it"
            return msgspec.structs.replace(given, words=words, since=view.created_at)
        case Code.UNSCHEDULABLE | Code.UNBOUND_CLAIMS | Code.SCHEDULING_GATED:
            return msgspec.structs.replace(given, since=_changed(_condition(pod, "PodScheduled")))
        case Code.MIN_READY_SECONDS:
            until = format_time((view.ready_since or 0.0) + min_ready_s)
            words = f"ready, and counts as available from {until} on (minReadySeconds {min_ready_s})"
            return msgspec.structs.replace(given, words=words, since=view.ready_since)
        case Code.STARTING if view.node_name:
            return msgspec.structs.replace(given, words=f"starts on {view.node_name}")
        case Code.READINESS_GATE:
            return msgspec.structs.replace(given, since=_changed(_condition(pod, "Ready")))
        case Code.NOT_READY:
            return _not_ready(given, pod, correction)
        case _:
            return given


def _waiting_message(pod: Document) -> str:
    messages = ((container.get("state") or {}).get("waiting") or {} for container in _containers(pod))
    return next((str(message["message"]) for message in messages if message.get("message")), "")


def _failing(given: WaitCause, pod: Document, correction: Correction) -> WaitCause:
    """Exit code and message of the container that does not start, or ends again and again."""
    for container in _containers(pod):
        state, name = container.get("state") or {}, container.get("name")
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            why = ended.get("reason") or "Error"
            return msgspec.structs.replace(
                given,
                code=Code.CONTAINER_FAILS,
                words=f"container {name} ends again and again: exit code {ended['exitCode']} ({why}), "
                f"{container.get('restartCount', 0)} restarts",
                since=parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None,
                remedy=f"read its log (kubectl logs -c {name} --previous), {correction.whole}",
                container=str(name),
            )
        if (waiting := state.get("waiting") or {}).get("message"):
            words = f"container {name} cannot be created: {waiting.get('reason')}: {waiting['message']}"
            return msgspec.structs.replace(given, words=words)
    return given


def _not_ready(given: WaitCause, pod: Document, correction: Correction) -> WaitCause:
    if any(
        ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        for container in _containers(pod)
    ):
        return _failing(given, pod, correction)
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    unready = [status["name"] for status in statuses if not status.get("ready")]
    names = ", ".join(unready)
    return msgspec.structs.replace(
        given,
        words=f"container {names} runs, but is not ready" if names else "the containers are not ready",
        since=_changed(_condition(pod, "Ready")),
        remedy=f"look at its readiness probe and its log; {correction.whole}",
        container=unready[0] if unready else "",
    )


def _containers(pod: Document) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _condition(pod: Document, kind: str) -> Mapping[str, Any]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    condition: Mapping[str, Any] = next((item for item in conditions if item.get("type") == kind), {})
    return condition


def _changed(condition: Mapping[str, Any]) -> Instant | None:
    time = condition.get("lastTransitionTime")
    return parse_time(time) if time else None
