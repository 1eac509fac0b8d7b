"""Which barrier of a pod opens next.

pod + its ConfigMap ──▶ plan_barriers() ──▶ Plan: the ConfigMap with the next key, the pod marked when all are open

Pure. The level that may start now is the highest one with a container that is not ready; those above it are
all ready. Keys are never taken back, so a container that restarts later does not wait.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS
from pykruise.plans.phases import pod_chain, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle.launch_order import COMPLETED_ANNOTATION, barrier_key, barrier_name
from pykruise.pods.reasons import Code
from pykruise.pods.view.owners import pod_reference
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

FAILED: Final = Note(
    reason="FailedContainerLaunch", message="the next containers cannot be let start", warning=True
)


class Barrier(msgspec.Struct, frozen=True, kw_only=True):
    """The ConfigMap of a pod."""

    uid: str
    owner_uid: str = ""
    """UID of the owning pod; empty: it names none."""
    keys: frozenset[str] = frozenset()


class LaunchPrioritySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One pod at one instant."""

    pod: PodView
    barrier: Barrier | None
    """None: there is no such ConfigMap."""


def is_waiting(pod: PodView) -> bool:
    """Whether the pod has a barrier that may have to be opened."""
    if not pod.is_active or pod.annotations.get(COMPLETED_ANNOTATION) == "true":
        return False
    if not any(container.launch_priority is not None for container in pod.containers):
        return False
    ready = pod.condition("ContainersReady")
    return (ready is None or ready.status != "True") and bool(_waiting(pod))


def plan_barriers(snapshot: LaunchPrioritySnapshot) -> Plan:
    """Open the barrier of the highest level that is not ready; mark the pod with the last one."""
    pod = snapshot.pod
    if not is_waiting(pod):
        return Plan()
    waiting = _waiting(pod)
    lowest, highest = min(waiting), max(waiting)
    old, present, steps = snapshot.barrier, frozenset[str](), list[Step]()
    if old is not None and old.owner_uid not in ("", pod.uid):
        # Of an earlier pod of this name. It would go with that one, and be missed by this one then.
        steps.append(_without(pod, old))
        old = None
    if old is not None:
        present = old.keys
    is_last = barrier_key(lowest) in present
    if not is_last:
        # With those above: a ConfigMap that was deleted must not hold up containers that ran already.
        open_now = {barrier_key(priority) for priority in _priorities(pod) if priority >= highest}
        if missing := sorted(open_now - present):
            because = f"all containers of a priority above {highest} are ready"
            steps.append(_opening(pod, missing, is_new=old is None, because=because))
        is_last = lowest == highest
    if is_last:
        steps.append(_completed(pod))
    if not steps:
        message = f"containers of priority {highest} are not ready yet"
        return Plan(skipped={pod.name: Reason(Code.NOT_READY, message)})
    return Plan(stages=(Stage(purpose=Purpose.START_CONTAINERS, chains=(pod_chain(pod, *steps),)),))


def _priorities(pod: PodView) -> list[int]:
    return [
        container.launch_priority for container in pod.containers if container.launch_priority is not None
    ]


def _waiting(pod: PodView) -> list[int]:
    """Priorities of containers behind a barrier that are not ready, or not reported yet."""
    ready = {status.name for status in pod.container_statuses if status.ready}
    return [
        container.launch_priority
        for container in pod.containers
        if container.launch_priority is not None and container.name not in ready
    ]


def _key(pod: PodView) -> Key:
    return Key(pod.namespace, barrier_name(pod.name))


def _without(pod: PodView, barrier: Barrier) -> Step:
    return Step(
        action=Delete(resource=CONFIG_MAPS, key=_key(pod), uid=barrier.uid),
        because="it belongs to an earlier pod of this name",
        failed=FAILED,
    )


def _opening(pod: PodView, keys: list[str], *, is_new: bool, because: str) -> Step:
    data: Mapping[str, str] = dict.fromkeys(keys, "true")
    if not is_new:
        body: dict[str, Any] = {"data": data}
        patch = Patch(resource=CONFIG_MAPS, key=_key(pod), patch_type=PatchType.MERGE, body=body)
        return Step(action=patch, because=because, failed=FAILED)
    document: Document = {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": barrier_name(pod.name),
            "namespace": pod.namespace,
            "ownerReferences": [pod_reference(pod)],
        },
        "data": data,
    }
    create = Create(resource=CONFIG_MAPS, key=_key(pod), body=document)
    return Step(action=create, because=because, failed=FAILED)


def _completed(pod: PodView) -> Step:
    return Step(
        action=pod_patch(
            pod, {"metadata": {"annotations": {COMPLETED_ANNOTATION: "true"}}}, patch_type=PatchType.MERGE
        ),
        because="the last barrier is open",
    )
