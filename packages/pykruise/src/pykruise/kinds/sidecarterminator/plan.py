"""The plan that ends the sidecars of a pod whose main containers have ended.

SidecarTerminatorSnapshot ──▶ plan_termination() ──▶ Plan ──▶ runtime/execute.py
             images on virtual nodes ▶ a request to kill ▶ the final phase, then the sidecars whose exit code is
             ignored

Pure. A pod has at most one ContainerRecreateRequest. Once the pod's phase is final, the kubelet ends the containers
that the request does not name.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kinds.sidecarterminator.groups import (
    groups_of,
    has_succeeded,
    is_completed,
    is_interesting,
    select_mains,
    select_running,
)
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.owners import build_owner_reference
from pykruise.plans.pod_writes import pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import NodeView
from pykruise.pods.reasons import Code
from pykruise.pods.view.containers import ContainerFacts
from pykruise.pods.view.pod_view import FINISHED, PodView
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

__all__ = ["REQUESTS", "SidecarTerminatorSnapshot", "format_request_name", "plan_termination"]

EVENT: Final = "SidecarTerminator"
RETRY_S: Final = 5.0
"""Seconds until an unknown node is looked up again."""


class SidecarTerminatorSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One pod at one instant."""

    pod: PodView
    node: NodeView | None
    """Node of the pod; None: it is unknown."""
    has_request: bool = False
    now: Instant


def format_request_name(pod: PodView) -> str:
    """Name of the request that kills the pod's sidecars."""
    return f"sidecar-termination-{pod.uid}"


def plan_termination(snapshot: SidecarTerminatorSnapshot) -> Plan:
    """Plan the writes that end the pod's sidecars."""
    pod, node = snapshot.pod, snapshot.node
    if not is_interesting(pod):
        return Plan()
    if node is None:
        reason = Reason(Code.NODE_LOST, f"its node {pod.node_name} is unknown")
        return Plan(requeue_after_s=RETRY_S, skipped={pod.name: reason})
    groups = groups_of(pod, is_virtual=node.is_virtual)
    steps = _replace_images(snapshot, select_running(pod, groups.by_image))
    steps += _kill(snapshot, select_running(pod, groups.normal))
    others = (*groups.by_image, *groups.normal)
    if groups.ignored and is_completed(pod, others):
        steps += _set_final_phase(snapshot)
        steps += _kill(snapshot, select_running(pod, groups.ignored))
    return _build_plan(pod, steps)


def _build_plan(pod: PodView, steps: Sequence[Step]) -> Plan:
    if not steps:
        return Plan()
    return Plan(
        stages=(Stage(purpose=Purpose.END_SIDECARS, chains=(Chain(subject=pod.name, steps=tuple(steps)),)),)
    )


def _join_names(containers: Sequence[ContainerFacts]) -> str:
    return ", ".join(container.name for container in containers)


def _replace_images(snapshot: SidecarTerminatorSnapshot, containers: Sequence[ContainerFacts]) -> list[Step]:
    changed = [
        container
        for container in containers
        if container.ends_with_job and container.image != container.ends_with_job.image
    ]
    if not changed:
        return []
    images = [
        {"name": container.name, "image": container.ends_with_job.image}
        for container in changed
        if container.ends_with_job
    ]
    note = Note(
        reason=EVENT,
        message=f"Kruise SidecarTerminator is trying to terminate sidecar {_join_names(changed)} using in-place update",
    )
    return [
        Step(
            action=_patch_pod(snapshot.pod, {"spec": {"containers": images}}),
            because="the main containers have ended; on a virtual node, a replaced image ends the sidecars",
            done=note,
        )
    ]


def _set_final_phase(snapshot: SidecarTerminatorSnapshot) -> list[Step]:
    pod = snapshot.pod
    if pod.phase in FINISHED:
        return []
    phase = "Succeeded" if has_succeeded(pod, select_mains(pod)) else "Failed"
    condition = {
        "type": "SidecarTerminated",
        "status": "True",
        "lastTransitionTime": format_time(snapshot.now),
        "message": "Terminated by Sidecar Terminator",
    }
    body: Document = {"status": {"phase": phase, "conditions": [condition]}}
    return [
        Step(
            action=_patch_pod(pod, body, subresource="status"),
            because=f"the main containers have ended, and the exit codes of sidecars do not count: {phase}",
        )
    ]


def _patch_pod(pod: PodView, body: Document, *, subresource: str = "") -> Patch:
    return pod_patch(pod, body, subresource=subresource, unchanged=True)


def _kill(snapshot: SidecarTerminatorSnapshot, containers: Sequence[ContainerFacts]) -> list[Step]:
    if not containers or snapshot.has_request:
        return []
    pod, name = snapshot.pod, format_request_name(snapshot.pod)
    body: Document = {
        "apiVersion": REQUESTS.api_version,
        "kind": REQUESTS.kind,
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "ownerReferences": [
                build_owner_reference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid)
            ],
        },
        "spec": {
            "podName": pod.name,
            "containers": [{"name": container.name} for container in containers],
            "strategy": {"forceRecreate": True, "failurePolicy": "Ignore"},
        },
    }
    message = f"Kruise SidecarTerminator is trying to terminate sidecar {_join_names(containers)} using crr"
    return [
        Step(
            action=Create(resource=REQUESTS, key=Key(pod.namespace, name), body=body),
            because=f"the main containers have ended, but sidecars still run: {_join_names(containers)}",
            done=Note(reason=EVENT, message=message),
            failed=Note(
                reason=EVENT, message=f"failed to terminate sidecar {_join_names(containers)}", warning=True
            ),
        )
    ]
