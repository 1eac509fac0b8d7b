"""The plan that opens the next barrier of a pod.

pod + its ConfigMap ──▶ plan_barriers() ──▶ Plan: the next key of the ConfigMap; a mark of the pod if all keys exist

Pure. A container waits until the ConfigMap has a key for its priority; this key is its barrier. The plan opens the
barrier of the highest priority with an unready container. All containers of higher priorities are ready. Keys are never
removed, so a container that restarts later does not wait.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS
from pykruise.plans.pod_writes import make_pod_chain, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle.launch_order import COMPLETED_ANNOTATION, format_barrier_key, format_barrier_name
from pykruise.pods.reasons import Code
from pykruise.pods.view.owners import build_pod_reference
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

FAILED: Final = Note(
    reason="FailedContainerLaunch", message="the next containers cannot be started", warning=True
)


class Barrier(msgspec.Struct, frozen=True, kw_only=True):
    """The ConfigMap of a pod."""

    uid: str
    owner_uid: str = ""
    """UID of the pod that owns the ConfigMap; empty if it has no owner."""
    keys: frozenset[str] = frozenset()


class LaunchPrioritySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One pod and its ConfigMap at one instant."""

    pod: PodView
    barrier: Barrier | None
    """The ConfigMap of the pod; None if it does not exist."""


def is_waiting(pod: PodView) -> bool:
    """Whether the pod possibly has a barrier that must be opened."""
    if not pod.is_active or pod.annotations.get(COMPLETED_ANNOTATION) == "true":
        return False
    if not any(container.launch_priority is not None for container in pod.containers):
        return False
    ready = pod.find_condition("ContainersReady")
    return (ready is None or ready.status != "True") and bool(_list_waiting(pod))


def plan_barriers(snapshot: LaunchPrioritySnapshot) -> Plan:
    """Plan to open the barrier of the highest priority with an unready container. Mark the pod after the last
    barrier.
    """
    pod = snapshot.pod
    if not is_waiting(pod):
        return Plan()
    waiting = _list_waiting(pod)
    lowest, highest = min(waiting), max(waiting)
    old, present, steps = snapshot.barrier, frozenset[str](), list[Step]()
    if old is not None and old.owner_uid not in ("", pod.uid):
        # An earlier pod with this name owns the ConfigMap. The garbage collector would delete it while this pod needs
        # it.
        steps.append(_delete_barrier(pod, old))
        old = None
    if old is not None:
        present = old.keys
    is_last = format_barrier_key(lowest) in present
    if not is_last:
        # Higher priorities are included: if the ConfigMap was deleted, containers that restart need their keys too.
        open_now = {format_barrier_key(priority) for priority in _list_priorities(pod) if priority >= highest}
        if missing := sorted(open_now - present):
            because = f"all containers of a priority above {highest} are ready"
            steps.append(_open_barriers(pod, missing, is_new=old is None, because=because))
        is_last = lowest == highest
    if is_last:
        steps.append(_mark_completed(pod))
    if not steps:
        message = f"containers of priority {highest} are not ready yet"
        return Plan(skipped={pod.name: Reason(Code.NOT_READY, message)})
    return Plan(stages=(Stage(purpose=Purpose.START_CONTAINERS, chains=(make_pod_chain(pod, *steps),)),))


def _list_priorities(pod: PodView) -> list[int]:
    return [
        container.launch_priority for container in pod.containers if container.launch_priority is not None
    ]


def _list_waiting(pod: PodView) -> list[int]:
    """Return the priorities of the containers with a barrier that are not ready or have no status yet."""
    ready = {status.name for status in pod.container_statuses if status.ready}
    return [
        container.launch_priority
        for container in pod.containers
        if container.launch_priority is not None and container.name not in ready
    ]


def _build_barrier_key(pod: PodView) -> Key:
    return Key(pod.namespace, format_barrier_name(pod.name))


def _delete_barrier(pod: PodView, barrier: Barrier) -> Step:
    return Step(
        action=Delete(resource=CONFIG_MAPS, key=_build_barrier_key(pod), uid=barrier.uid),
        because="it belongs to an earlier pod of this name",
        failed=FAILED,
    )


def _open_barriers(pod: PodView, keys: list[str], *, is_new: bool, because: str) -> Step:
    data: Mapping[str, str] = dict.fromkeys(keys, "true")
    if not is_new:
        body: dict[str, Any] = {"data": data}
        patch = Patch(
            resource=CONFIG_MAPS, key=_build_barrier_key(pod), patch_type=PatchType.MERGE, body=body
        )
        return Step(action=patch, because=because, failed=FAILED)
    document: Document = {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": format_barrier_name(pod.name),
            "namespace": pod.namespace,
            "ownerReferences": [build_pod_reference(pod)],
        },
        "data": data,
    }
    create = Create(resource=CONFIG_MAPS, key=_build_barrier_key(pod), body=document)
    return Step(action=create, because=because, failed=FAILED)


def _mark_completed(pod: PodView) -> Step:
    return Step(
        action=pod_patch(
            pod, {"metadata": {"annotations": {COMPLETED_ANNOTATION: "true"}}}, patch_type=PatchType.MERGE
        ),
        because="all containers are allowed to start",
    )
