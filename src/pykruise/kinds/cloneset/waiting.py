"""Why a CloneSet is not (yet) as its spec wants it, in one condition: `Waiting`.

WorkingSet + what the phases left alone ──▶ waiting_of() ──▶ Waiting: reason, words, remedy; or None: converged

Pure. A CloneSet that has converged (every pod wanted is there, of the newest template and available) does not
carry the condition; every other one does, unless FailedScale, FailedUpdate or SelectorMismatch says it. What
needs a person comes first, then what the spec itself holds back, then what goes on by itself.
"""

from collections.abc import Mapping

from pykruise.kinds.cloneset.working_set import Mark, WorkingSet
from pykruise.pods.obstacles import Obstacle, obstacles_of
from pykruise.pods.views import PodView
from pykruise.pods.waiting import Waiting, waiting_for_pods, waiting_for_strategy

__all__ = ["is_converged", "waiting_of"]


def is_converged(ws: WorkingSet) -> bool:
    """Whether all pods are there, of the update revision, available, and none is to go."""
    if len(ws.pods) != ws.limits.replicas:
        return False
    wanted = Mark.NEW | Mark.AVAILABLE
    return all(bits & (wanted | Mark.TO_DELETE | Mark.PRE_DELETING) == wanted for bits in {*ws.marks})


def waiting_of(ws: WorkingSet, *, left: Mapping[str, str]) -> Waiting | None:
    """What the CloneSet waits for; None: it has converged. `left`: why the plan leaves pods alone."""
    if is_converged(ws):
        return None
    obstacles = _obstacles(ws)
    stuck = [(pod, found) for pod, found in obstacles if found.is_stuck]
    return (
        waiting_for_pods([pair for pair in stuck if pair[1].reason != "NotReady"])
        or _of_number(ws, left)
        or waiting_for_pods(stuck)
        or waiting_for_pods(obstacles)
        or _of_updates(ws, left)
    )


def _obstacles(ws: WorkingSet) -> list[tuple[PodView, Obstacle]]:
    unavailable = (pod for pod, bits in zip(ws.pods, ws.marks, strict=True) if not bits & Mark.AVAILABLE)
    return obstacles_of(
        unavailable, ws.spec.lifecycle, min_ready_seconds=ws.spec.min_ready_seconds, now=ws.now
    )


def _of_number(ws: WorkingSet, left: Mapping[str, str]) -> Waiting | None:
    """Pods that are missing, too many, or specified for deletion."""
    numbers = ws.scale_numbers()
    if numbers.create > 0:
        return _of_missing(ws, left, missing=numbers.create, now=numbers.create_now)
    going = list(ws.marked(Mark.TO_DELETE | Mark.PRE_DELETING))
    if going or numbers.remove > 0:
        count = len(going) or numbers.remove
        held = next(
            (left[pod.name] for pod in ws.pods if "maxUnavailable is used up" in left.get(pod.name, "")), ""
        )
        remedy = "raise maxUnavailable, or wait until more pods are available" if held else ""
        return Waiting(
            reason="MaxUnavailable" if held else "Deleting",
            because=f"{count} pods are to be deleted" + (": maxUnavailable is used up" if held else ""),
            remedy=remedy,
        )
    return None


def _of_missing(ws: WorkingSet, left: Mapping[str, str], *, missing: int, now: int) -> Waiting:
    if now == 0:
        limit = ws.limits.scale_max_unavailable
        return Waiting(
            reason="ScaleUpLimited",
            because=f"{missing} pods are missing, and scaleStrategy.maxUnavailable ({limit}) is used up",
            remedy="raise it, or see why pods are not available",
        )
    leaving = [pod for pod in ws.snapshot.pods if pod.is_deleting and pod.name in left]
    if leaving:
        pod = min(leaving, key=lambda one: one.name)
        held = f" (finalizers: {', '.join(pod.finalizers)})" if pod.finalizers else ""
        return Waiting(
            reason="Terminating",
            because=f"pod {pod.name} {left[pod.name]}{held}",
            remedy="see why it does not end, if that lasts",
        )
    return Waiting(reason="Creating", because=f"{missing} pods are missing and being created")


def _of_updates(ws: WorkingSet, left: Mapping[str, str]) -> Waiting:
    """All pods wanted are there and available, but not all are of the newest template."""
    old = [pod for pod, bits in zip(ws.pods, ws.marks, strict=True) if not bits & Mark.NEW]
    count = f"{len(old)} of {len(ws.pods)} pods are of an older template"
    held = waiting_for_strategy(count, is_on_delete=ws.spec.is_on_delete, is_paused=ws.spec.is_paused)
    if held is not None:
        return held
    if old and len(old) <= ws.limits.partition:
        return Waiting(
            reason="Partition",
            because=f"{count}; the partition keeps {ws.limits.partition} there",
            remedy="lower spec.updateStrategy.rollingUpdate.partition to go on",
        )
    if old and all(pod.name in left for pod in old):
        name = min(pod.name for pod in old)
        return Waiting(
            reason="UpdateHeld",
            because=f"{count}; pod {name} {left[name]}",
            remedy="raise maxUnavailable or take away what holds it",
        )
    return Waiting(reason="Updating", because=f"{count} and being updated")
