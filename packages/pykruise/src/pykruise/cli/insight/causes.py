"""The cause that makes a pod unavailable, or keeps a terminating pod from ending: the reason from its owner's
conditions, with more details.

PodView ──pods/lifecycle/blockers.py──▶ reason, words, remedy ─┐
a Pod's document ──messages, exit codes, times────────┴──▶ cause_of() ──▶ WaitCause

Pure, and the same for every kind. Codes are the reasons of the condition Waiting, so both name the same cause.
Managers do not keep a pod's messages and exit codes, so this module reads them from the document.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.insight.cluster_reading import ClaimProblem, GateProblem, list_claim_names
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.pods.corrections import (
    IN_TEMPLATE,
    Correction,
    correct_container,
    correct_template_of,
    describe_holders,
    end_by_force,
    end_on_lost_node,
    join_remedies,
    read_log,
    release_pod,
)
from pykruise.pods.injection_records import find_container_origin
from pykruise.pods.lifecycle.blockers import (
    blocker_of,
    find_probe_delay,
    find_unended,
    is_overdue,
    unready_containers,
)
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.reasons import Code
from pykruise.pods.template.defaults import USUAL_GRACE_S
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason


class WaitCause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason. `code` is one word for programs; `since` is None when the start is not recorded."""

    code: str
    words: str
    since: Instant | None = None
    remedy: str = ""
    container: str = ""
    """Container that the reason is about; empty if the reason is about the whole pod."""
    origin: str = ""
    """Object other than the pod's owner that defines the container: `SidecarSet mesh`; empty if the owner defines
    it.
    """


_NO_CLAIMS: Final[Mapping[str, ClaimProblem]] = {}
_NO_GATES: Final[Mapping[str, GateProblem]] = {}


def cause_of(
    pod: Document,
    view: PodView,
    *,
    now: Instant,
    lifecycle: Lifecycle | None = None,
    min_ready_s: int = 0,
    lost_nodes: Collection[str] = (),
    claims: Mapping[str, ClaimProblem] = _NO_CLAIMS,
    gates: Mapping[str, GateProblem] = _NO_GATES,
    correction: Correction = IN_TEMPLATE,
    names_node: bool = True,
    returns_to: Collection[str] = (),
    template_finalizers: Collection[str] = (),
) -> WaitCause | None:
    """Return why a pod is not available or still terminates; None: it is available and not terminating.
    `lost_nodes` do not respond; `claims` maps the name of each PVC without a volume to its problem,
    and `gates` the name of each pod with a closed readiness gate. `names_node`: see `blocker_of`. `returns_to`: nodes
    whose pods are replaced only on the same node. `template_finalizers`: finalizers that the template sets on every
    pod.
    """
    correction = correct_template_of(view.name, correction, has_workload=view.controller is not None)
    meta, node = pod["metadata"], view.node_name
    if meta.get("deletionTimestamp"):
        is_of_template = not frozenset(template_finalizers).isdisjoint(view.finalizers)
        return _explain_termination(
            meta,
            node,
            lost_nodes,
            now=now,
            returns=node in returns_to,
            first=correction.describe_for("metadata.finalizers") if is_of_template else "",
        )
    if node and node in lost_nodes:
        return WaitCause(
            code=Code.NODE_LOST,
            words=f"its node {node} does not answer",
            since=_parse_transition_time(_find_condition(pod, "Ready")),
            remedy=f"bring {node} back, or delete the node{_REPLACED if node not in returns_to else ''}",
        )
    obstacle = blocker_of(
        view,
        lifecycle,
        min_ready_seconds=min_ready_s,
        now=now,
        correction=correction,
        names_node=names_node,
    )
    if obstacle is None:
        return None
    cause = _add_details(obstacle, pod, view, min_ready_s=min_ready_s, correction=correction, now=now)
    if cause.code == Code.READINESS_GATE and (gate := gates.get(view.name)) is not None:
        return msgspec.structs.replace(
            cause, words=gate.add_to(cause.words), remedy=gate.remedy or cause.remedy
        )
    return _add_claims(cause, pod, claims, correction) if cause.code == Code.UNBOUND_CLAIMS else cause


def _add_claims(
    cause: WaitCause, pod: Document, claims: Mapping[str, ClaimProblem], correction: Correction
) -> WaitCause:
    """Add to the cause: the PVCs of this pod that have no volume, their problems, and the first known remedy."""
    problems = {name: claims[name] for name in list_claim_names(pod) if name in claims}
    if not problems:
        return cause
    words = "; ".join([cause.words, *(f"PVC {name} {problem.words}" for name, problem in problems.items())])
    name, first = next(((name, problem) for name, problem in problems.items() if problem.remedy), ("", None))
    if first is None:
        return msgspec.structs.replace(cause, words=words)
    ways = [first.remedy]
    if first.is_of_template:
        meta, own = pod["metadata"], correction.where == IN_TEMPLATE.where
        field = "spec.volumeClaimTemplates" if own else f"volumeClaimTemplates in {correction.where}"
        deleted = [
            f"kubectl delete {what} -n {meta['namespace']}" for what in (f"pvc {name}", f"pod {meta['name']}")
        ]
        ways.append(f"correct storageClassName in {field}, then {' and '.join(deleted)}")
    return msgspec.structs.replace(cause, words=words, remedy=join_remedies(*ways))


def _explain_termination(
    meta: Mapping[str, Any],
    node: str,
    lost_nodes: Collection[str],
    *,
    now: Instant,
    returns: bool,
    first: str,
) -> WaitCause:
    ends_at = parse_time(meta["deletionTimestamp"])
    since = ends_at - (meta.get("deletionGracePeriodSeconds") or 0)
    finalizers = [name for name in meta.get("finalizers") or () if name != "foregroundDeletion"]
    if finalizers:
        return WaitCause(
            code=Code.FINALIZER,
            words=f"it terminates, but {describe_holders(finalizers)} it{_OF_EVERY_POD if first else ''}",
            since=since,
            remedy=release_pod(finalizers, meta["namespace"], meta["name"], first=first),
        )
    if node and node in lost_nodes:
        return WaitCause(
            code=Code.NODE_LOST,
            words=f"it terminates, but its node {node} does not answer",
            since=since,
            remedy=end_on_lost_node(node, meta["namespace"], meta["name"], returns=returns),
        )
    if node and is_overdue(ends_at, now=now):
        return WaitCause(
            code=Code.NODE_LOST,
            words=f"it terminates, but its node {node} does not stop it",
            since=since,
            remedy=f"bring {node} back, or {end_by_force(meta['namespace'], meta['name'])}",
        )
    grace_s = meta.get("deletionGracePeriodSeconds") or 0
    if grace_s > USUAL_GRACE_S:
        return WaitCause(
            code=Code.TERMINATING,
            words=f"it terminates, and its containers have up to {grace_s} s (its grace period) to stop",
            since=since,
            remedy="wait until they stop; for later pods, shorten preStop or lower terminationGracePeriodSeconds",
        )
    return WaitCause(code=Code.TERMINATING, words="it terminates", since=since)


_REPLACED: Final = ": its pods are then replaced"
_OF_EVERY_POD: Final = ", which the template sets on every pod"


# Details from the document


def _add_details(
    obstacle: Reason, pod: Document, view: PodView, *, min_ready_s: int, correction: Correction, now: Instant
) -> WaitCause:
    """Return the obstacle with the document's details. The text contains no ages, so that equal obstacles of several
    pods can be merged.
    """
    given = WaitCause(
        code=obstacle.code,
        words=obstacle.message,
        remedy=obstacle.remedy,
        container=obstacle.container,
        origin=find_container_origin(view.annotations, obstacle.container),
    )
    match obstacle.code:
        case Code.IMAGE_PULL if message := _find_waiting_message(pod):
            return msgspec.structs.replace(given, words=f"{given.words}: {message}")
        case Code.CONTAINER_FAILS:
            return _explain_failure(given, pod, view, correction)
        case Code.NO_SCHEDULER:
            name = pod["spec"].get("schedulerName") or "default-scheduler"
            words = f"no scheduler with the name {name} has processed it"
            return msgspec.structs.replace(given, words=words, since=view.created_at)
        case Code.UNSCHEDULABLE | Code.UNBOUND_CLAIMS | Code.SCHEDULING_GATED:
            return msgspec.structs.replace(
                given, since=_parse_transition_time(_find_condition(pod, "PodScheduled"))
            )
        case Code.MIN_READY_SECONDS:
            until = format_time((view.ready_since or 0.0) + min_ready_s)
            words = f"ready, and counts as available from {until} on (minReadySeconds {min_ready_s})"
            return msgspec.structs.replace(given, words=words, since=view.ready_since)
        case Code.STARTING if view.node_name:
            return msgspec.structs.replace(given, words=f"starts on {view.node_name}")
        case Code.READINESS_GATE:
            return msgspec.structs.replace(given, since=_parse_transition_time(_find_condition(pod, "Ready")))
        case Code.NOT_READY:
            return _explain_unready(given, pod, view, correction, now=now)
        case _:
            return given


def _find_waiting_message(pod: Document) -> str:
    messages = (
        (container.get("state") or {}).get("waiting") or {} for container in _list_container_statuses(pod)
    )
    return next((str(message["message"]) for message in messages if message.get("message")), "")


def _explain_failure(given: WaitCause, pod: Document, view: PodView, correction: Correction) -> WaitCause:
    """Return the cause with exit code and message of the container that does not start or terminates repeatedly.

    Containers that are not ready come first: a container that crashed once and runs again is not the cause.
    """
    for container in sorted(_list_container_statuses(pod), key=lambda status: bool(status.get("ready"))):
        state, name = container.get("state") or {}, container.get("name")
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            why = ended.get("reason") or "Error"
            where = correct_container(view.annotations, str(name), correction)
            return msgspec.structs.replace(
                given,
                code=Code.CONTAINER_FAILS,
                words=f"container {name} terminates repeatedly: exit code {ended['exitCode']} ({why}), "
                f"{format_count(container.get('restartCount', 0), 'restart')}",
                since=parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None,
                remedy=f"{read_log(view.namespace, view.name, str(name), previous=True)}, and {where.whole}",
                container=str(name),
                origin=find_container_origin(view.annotations, str(name)),
            )
        if (waiting := state.get("waiting") or {}).get("message"):
            words = f"container {name} cannot be created: {waiting.get('reason')}: {waiting['message']}"
            return msgspec.structs.replace(given, words=words)
    return given


def _explain_unready(
    given: WaitCause, pod: Document, view: PodView, correction: Correction, *, now: Instant
) -> WaitCause:
    if any(
        ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        for container in _list_container_statuses(pod)
    ):
        return _explain_failure(given, pod, view, correction)
    since = _parse_transition_time(_find_condition(pod, "Ready"))
    if find_unended(view) is not None:
        return msgspec.structs.replace(given, since=since)
    unready = unready_containers(view)
    names = ", ".join(unready)
    first = unready[0] if unready else ""
    where = correct_container(view.annotations, first, correction)
    words = f"container {names} runs, but is not ready" if names else "the containers are not ready"
    begins_at = _find_first_probe_time(pod, view, first)
    if begins_at is not None and begins_at > now:  # nothing is wrong until then
        words += f"; its readiness is probed only from {format_time(begins_at)} on (initialDelaySeconds)"
        return msgspec.structs.replace(given, words=words, since=since, remedy="", container=first)
    return msgspec.structs.replace(
        given,
        words=words,
        since=since,
        remedy=f"check its readiness probe and {read_log(view.namespace, view.name, first)}; {where.whole}",
        container=first,
        origin=find_container_origin(view.annotations, first),
    )


def _find_first_probe_time(pod: Document, view: PodView, container: str) -> Instant | None:
    """Return the time of the first probe of a running container; None if it is probed from its start."""
    delay_s = find_probe_delay(view, container)
    statuses = (item for item in _list_container_statuses(pod) if item.get("name") == container)
    state = next((item.get("state") or {} for item in statuses), {})
    started = (state.get("running") or {}).get("startedAt")
    return parse_time(started) + delay_s if delay_s and started else None


def _list_container_statuses(pod: Document) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _find_condition(pod: Document, kind: str) -> Mapping[str, Any]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    condition: Mapping[str, Any] = next((item for item in conditions if item.get("type") == kind), {})
    return condition


def _parse_transition_time(condition: Mapping[str, Any]) -> Instant | None:
    time = condition.get("lastTransitionTime")
    return parse_time(time) if time else None
