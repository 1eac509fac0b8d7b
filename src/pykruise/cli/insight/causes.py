"""Why a pod does not serve, read from what the cluster says about it.

a Pod's document ──▶ cause_of() ──▶ Cause: code, since when, in words, and what a person can do

Pure, and the same for every kind: these are Kubernetes' own reasons. What a workload's plan waits for comes
from the plan itself.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document

__all__ = ["Cause", "cause_of"]

_PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason. `code` is one word for programs; `since` is None where nobody recorded it."""

    code: str
    words: str
    since: Instant | None = None
    remedy: str = ""


def cause_of(pod: Document, *, lost_nodes: Collection[str] = ()) -> Cause | None:
    """Why a pod is not ready, or not gone; None: it is ready and stays. `lost_nodes` do not answer."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    node = spec.get("nodeName") or ""
    if meta.get("deletionTimestamp"):
        return _terminating(meta, node, lost_nodes)
    if node in lost_nodes:
        return Cause(
            code="NodeLost",
            words=f"its node {node} does not answer",
            since=_changed(_condition(pod, "Ready")),
            remedy=f"bring {node} back, or delete the node: its pods are then replaced",
        )
    if not node:
        return _unscheduled(pod)
    images = {
        one.get("name"): one.get("image") or ""
        for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    }
    for one in _containers(pod):
        cause = _container(one, node, image=images.get(one.get("name"), ""))
        if cause is not None:
            return cause
    return _not_ready(pod, node)


def _terminating(meta: Mapping[str, Any], node: str, lost_nodes: Collection[str]) -> Cause:
    since = parse_time(meta["deletionTimestamp"]) - (meta.get("deletionGracePeriodSeconds") or 0)
    finalizers = [name for name in meta.get("finalizers") or () if name != "foregroundDeletion"]
    if finalizers:
        names = ", ".join(finalizers)
        return Cause(
            code="Finalizer",
            words=f"it terminates, but finalizer {names} holds it",
            since=since,
            remedy=f"whoever set {names} has to take it off",
        )
    if node in lost_nodes:
        return Cause(
            code="NodeLost",
            words=f"it terminates, but its node {node} does not answer",
            since=since,
            remedy=f"bring {node} back, or delete the pod with --grace-period=0 --force",
        )
    return Cause(code="Terminating", words="it terminates", since=since)


def _unscheduled(pod: Document) -> Cause:
    condition = _condition(pod, "PodScheduled")
    if condition.get("status") != "False":
        return Cause(code="Scheduling", words="waits for the scheduler")
    if condition.get("reason") == "SchedulingGated":
        return Cause(
            code="SchedulingGated",
            words="its scheduling gates are closed",
            since=_changed(condition),
            remedy="whoever set spec.schedulingGates has to take them off",
        )
    message = str(condition.get("message") or "no reason given")
    return Cause(
        code="Unschedulable",
        words=f"no node takes it: {message}",
        since=_changed(condition),
        remedy="add room (nodes, uncordon, less requests), or correct nodeSelector, affinity or tolerations",
    )


def _containers(pod: Document) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _container(one: Mapping[str, Any], node: str, *, image: str) -> Cause | None:
    """`image` is the one that is wanted; the status still shows the last that ran."""
    state = one.get("state") or {}
    name = one.get("name")
    waiting = state.get("waiting") or {}
    reason, message = waiting.get("reason") or "", waiting.get("message") or ""
    if reason in _PULL:
        return Cause(
            code="ImagePull",
            words=f"container {name} cannot pull {image}: {message or reason}",
            remedy="correct the image, or its pull secret",
        )
    ended = state.get("terminated") or (one.get("lastState") or {}).get("terminated") or {}
    if reason == "CrashLoopBackOff" or (state.get("terminated") and ended.get("exitCode")):
        why = ended.get("reason") or "Error"
        return Cause(
            code="Crash",
            words=f"container {name} ends again and again: exit code {ended.get('exitCode')} ({why}), "
            f"{one.get('restartCount', 0)} restarts",
            since=parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None,
            remedy=f"read its log (kubectl logs -c {name} --previous), correct the template or roll back",
        )
    if reason and reason not in ("ContainerCreating", "PodInitializing"):
        return Cause(
            code="ContainerConfig",
            words=f"container {name} cannot be created: {reason}: {message}".rstrip(": "),
            remedy="correct what the message names: a secret, a config map, a volume",
        )
    if reason:
        return Cause(code="Starting", words=f"container {name} is being created on {node}")
    return None


def _not_ready(pod: Document, node: str) -> Cause | None:
    ready = _condition(pod, "Ready")
    status = pod.get("status") or {}
    if ready.get("status") == "True":
        return None
    since = _changed(ready)
    # Gates of this project are part of its plan, which says what they wait for.
    gates = [
        gate["conditionType"]
        for gate in (pod.get("spec") or {}).get("readinessGates") or ()
        if gate["conditionType"] not in ("InPlaceUpdateReady", "KruisePodReady")
        and _condition(pod, gate["conditionType"]).get("status") != "True"
    ]
    if gates:
        return Cause(
            code="ReadinessGate",
            words=f"readiness gate {', '.join(gates)} is closed",
            since=since,
            remedy="the controller that owns the gate's condition has to set it to True",
        )
    unready = [one["name"] for one in status.get("containerStatuses") or () if not one.get("ready")]
    if unready and status.get("phase") == "Running":
        return Cause(
            code="Readiness",
            words=f"container {', '.join(unready)} runs, but is not ready",
            since=since,
            remedy="look at its readiness probe and its log; correct the template or roll back",
        )
    if not status.get("containerStatuses"):
        return Cause(code="Starting", words=f"starts on {node}")
    return None


def _condition(pod: Document, kind: str) -> Mapping[str, Any]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    found: Mapping[str, Any] = next((one for one in conditions if one.get("type") == kind), {})
    return found


def _changed(condition: Mapping[str, Any]) -> Instant | None:
    time = condition.get("lastTransitionTime")
    return parse_time(time) if time else None
