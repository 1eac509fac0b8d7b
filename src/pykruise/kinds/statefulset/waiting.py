"""Why a StatefulSet has not converged, in one sentence with what somebody has to do about it.

WorkingSet + reasons of the plan ──▶ waiting_of() ──▶ Waiting, or None: it has converged

Pure. First what stays until somebody does something, then what is missing, then what passes by itself.
"""

from collections.abc import Mapping

from pykruise.kinds.statefulset.expansion import Growth
from pykruise.kinds.statefulset.scale import Scale
from pykruise.kinds.statefulset.working_set import WorkingSet
from pykruise.pods.obstacles import Obstacle, obstacles_of
from pykruise.pods.views import PodView
from pykruise.pods.waiting import Waiting, waiting_for_pods, waiting_for_strategy

__all__ = ["is_converged", "waiting_of"]


def is_converged(ws: WorkingSet, growth: Growth) -> bool:
    """Whether all wanted pods are there, updated and available, their claims as they should be, and no others."""
    if ws.surplus:
        return False
    return all(
        slot.pod is not None
        and not slot.pod.is_deleting
        and not slot.pod.is_specified_delete
        and ws.is_updated(slot.pod)
        and ws.is_available(slot.pod)
        and not (growth.is_on and not (growth.is_compatible(slot.ordinal) and growth.is_ready(slot.ordinal)))
        for slot in ws.slots
    )


def waiting_of(ws: WorkingSet, scale: Scale, *, left: Mapping[str, str], problem: str = "") -> Waiting | None:
    """What the set waits for; None: it has converged. `left`: why the plan leaves pods alone."""
    growth = Growth(ws)
    if is_converged(ws, growth):
        return None
    obstacles = obstacles_of(
        (pod for pod in ws.slot_pods if not pod.is_deleting and not ws.is_available(pod)),
        ws.spec.lifecycle,
        min_ready_seconds=ws.limits.min_ready_seconds,
        now=ws.now,
    )
    stuck = [(pod, found) for pod, found in obstacles if found.is_stuck]
    hard = [pair for pair in stuck if pair[1].reason != "NotReady"]
    return (
        _of_problem(problem)
        or _of_outdated(ws, hard)
        or waiting_for_pods(hard)
        or _of_missing(ws, scale, left)
        or _of_outdated(ws, stuck)
        or waiting_for_pods(stuck)
        or _of_surplus(ws, left)
        or waiting_for_pods(obstacles)
        or _of_growth(ws, growth)
        or _of_updates(ws, left)
    )


def _of_problem(problem: str) -> Waiting | None:
    if not problem:
        return None
    return Waiting(reason="CannotUpdate", because=problem, remedy="the update does not go on before that")


def _of_outdated(ws: WorkingSet, stuck: list[tuple[PodView, Obstacle]]) -> Waiting | None:
    """OrderedReady updates nothing while a pod is not available: an old pod that fails is in its own way."""
    if ws.spec.is_parallel or not stuck:
        return None
    pod, first = stuck[0]
    if ws.is_updated(pod) or first.reason in ("PreNormalHook", "InPlaceUpdateHook", "PreDeleteHook"):
        return None
    return Waiting(
        reason=first.reason,
        because=f"pod {pod.name} {first.because}, and OrderedReady updates no pod before it is available",
        remedy=f"{first.remedy}; if the newest template has done that, delete the pod",
    )


def _of_missing(ws: WorkingSet, scale: Scale, left: Mapping[str, str]) -> Waiting | None:
    missing = [
        slot for slot in ws.slots if slot.pod is None or slot.pod.is_deleting or not slot.pod.is_active
    ]
    if not missing:
        return None
    held = next((slot for slot in missing if slot.name in left), None)
    if held is not None:
        pod = held.pod
        finalizers = (
            f" (finalizers: {', '.join(pod.finalizers)})" if pod is not None and pod.finalizers else ""
        )
        return Waiting(
            reason="Terminating" if pod is not None else "Claim",
            because=f"pod {held.name} {left[held.name]}{finalizers}",
            remedy="see what keeps it, if that lasts",
        )
    if scale.exhausted:
        limit = ws.limits.scale_max_unavailable
        return Waiting(
            reason="ScaleUpLimited",
            because=f"{len(missing)} pods are missing, and scaleStrategy.maxUnavailable ({limit}) is used up",
            remedy="raise it, or see why pods are not available, if that lasts",
        )
    return Waiting(reason="Creating", because=f"{len(missing)} pods are missing and being created")


def _of_surplus(ws: WorkingSet, left: Mapping[str, str]) -> Waiting | None:
    if not ws.surplus:
        return None
    pod = ws.surplus[0]
    finalizers = f" (finalizers: {', '.join(pod.finalizers)})" if pod.finalizers and pod.is_deleting else ""
    why = f"; pod {pod.name} {left[pod.name]}{finalizers}" if pod.name in left else ""
    return Waiting(
        reason="Deleting",
        because=f"{len(ws.surplus)} pods are surplus{why}",
        remedy="see what keeps it, if that lasts" if why else "",
    )


def _of_growth(ws: WorkingSet, growth: Growth) -> Waiting | None:
    if not growth.is_on:
        return None
    names = [slot.name for slot in ws.slots if not growth.is_ready(slot.ordinal)]
    if not names:
        return None
    others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return Waiting(
        reason="ClaimsGrow",
        because=f"claims of pod {names[0]}{others} have not the size yet that they ask for",
        remedy="see the events of the claims, if that lasts",
    )


def _of_updates(ws: WorkingSet, left: Mapping[str, str]) -> Waiting:
    """All pods wanted are there and available, but not all are as the newest templates say."""
    marked = [pod for pod in ws.slot_pods if pod.is_specified_delete]
    if marked:
        why = f": {left[marked[0].name]}" if marked[0].name in left else ""
        return Waiting(reason="Deleting", because=f"{len(marked)} pods are specified for deletion{why}")
    old = [pod for pod in ws.slot_pods if not ws.is_updated(pod)]
    if not old:
        return Waiting(
            reason="ClaimsGrow", because="claims are smaller than their templates and about to grow"
        )
    count = f"{len(old)} of {len(ws.slots)} pods are of an older template"
    held = waiting_for_strategy(count, is_on_delete=ws.spec.is_on_delete, is_paused=ws.spec.is_paused)
    if held is not None:
        return held
    if len(old) <= ws.limits.partition and len(ws.slots) - len(old) >= ws.limits.quota:
        return Waiting(
            reason="Partition",
            because=f"{count}; the partition keeps {min(ws.limits.partition, len(ws.slots))} there",
            remedy="lower spec.updateStrategy.rollingUpdate.partition to go on",
        )
    return Waiting(reason="Updating", because=f"{count} and being updated")
