"""Reason why a CloneSet does not match its spec yet, for the condition `Waiting`.

CloneSetWorkingSet + pods that the phases skipped ──▶ waiting_of() ──▶ Reason; None: converged

Pure. A CloneSet has converged if every desired pod exists, has the newest template and is available. It then has the
condition only if a terminating pod cannot end. Otherwise it has the condition, unless FailedScale, FailedUpdate or
SelectorMismatch reports the cause. If there are several reasons, a reason that needs a person has precedence, then a
limit of the spec, then work that continues automatically.
"""

from collections.abc import Mapping
from typing import Final

from pykruise.kinds.cloneset.limits import SCALE_LIMIT, UPDATE_LIMIT, allows_none
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.values.counts import format_count
from pykruise.pods.lifecycle.blockers import blockers_of, find_end_blocker
from pykruise.pods.reasons import Code, rank_of, remedy_of
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.pods.workload.waiting import find_pod_wait, find_strategy_wait
from pykruise.runtime.reasons import Reason

_SAID_AS_THEY_ARE: Final = frozenset({Code.NOT_IN_PLACE, Code.BROKEN_UPDATE, Code.POD_GROUP})
"""Codes of reasons why pods keep an older template. A person must act, and the message does not depend on the pod."""


def is_converged(ws: CloneSetWorkingSet) -> bool:
    """Whether all pods exist, have the update revision and are available, and no pod must be deleted or evicted."""
    is_complete = len(ws.pods) == ws.limits.replicas and not (ws.old or ws.unavailable or ws.leaving)
    return is_complete and not ws.evictions.waiting


def waiting_of(
    ws: CloneSetWorkingSet, *, skipped: Mapping[str, Reason]
) -> tuple[Reason | None, Reason | None]:
    """Return the reason why the CloneSet waits (None if it has converged), and the reason that the status reports.
    `skipped`: name of a pod → why the plan skips it.

    The reasons differ only if the CloneSet has converged, but terminating pods cannot end: the status reports this.
    """
    kept = ((pod, find_end_blocker(pod, now=ws.now)) for pod in ws.snapshot.pods if pod.is_deleting)
    held = find_pod_wait([(pod, reason) for pod, reason in kept if reason])
    if is_converged(ws):
        return None, held
    obstacles = blockers_of(
        [*ws.unavailable, *ws.evictions.pending],
        ws.spec.lifecycle,
        min_ready_seconds=ws.spec.min_ready_seconds,
        now=ws.now,
    )
    stuck = [(pod, reason) for pod, reason in obstacles if not reason.is_wait]
    waiting = (
        find_pod_wait([pair for pair in stuck if pair[1].code != Code.NOT_READY])
        or held
        or _drop_caused_limit(_explain_pod_count(ws, skipped), stuck=stuck, obstacles=obstacles)
        or find_pod_wait(stuck)
        or find_pod_wait(obstacles)
        or _explain_updates(ws, skipped)
    )
    return waiting, waiting


def _drop_caused_limit(
    number: Reason | None,
    *,
    stuck: list[tuple[PodView, Reason]],
    obstacles: list[tuple[PodView, Reason]],
) -> Reason | None:
    """Return `number`, the reason why the number of pods is wrong. None if the reason is a used-up limit, and there are
    pods that use it up: pods in `stuck` use up scaleStrategy.maxUnavailable, pods in `obstacles` maxUnavailable.
    """
    if number is None:
        return None
    causes = {Code.SCALE_UP_LIMITED: stuck, Code.MAX_UNAVAILABLE: obstacles}
    return None if causes.get(Code(number.code)) else number


def _explain_pod_count(ws: CloneSetWorkingSet, skipped: Mapping[str, Reason]) -> Reason | None:
    """Return the reason if pods are missing, surplus, or specified for deletion; None if the number of pods is
    right.
    """
    numbers = ws.scale_numbers
    if numbers.create > 0:
        return _explain_missing_pods(ws, skipped, missing=numbers.create, now=numbers.create_now)
    if ws.leaving or numbers.remove > 0:
        reasons = (skipped.get(pod.name) for pod in ws.pods)
        held = any(
            reason is not None and reason.code in (Code.BUDGET, Code.LIMIT_IS_ZERO) for reason in reasons
        )
        message = f"{format_count(len(ws.leaving) or numbers.remove, 'pod is', 'pods are')} to be deleted"
        if not held:
            return Reason(Code.DELETING, message)
        if allows_none(ws.limits):
            return limit_is_zero(UPDATE_LIMIT, f"{message}, but no serving pod can be deleted")
        remedy = "wait until more pods are available, or find out why they are not"
        return Reason(Code.MAX_UNAVAILABLE, f"{message}: maxUnavailable is used up", remedy)
    return None


def _explain_missing_pods(
    ws: CloneSetWorkingSet, skipped: Mapping[str, Reason], *, missing: int, now: int
) -> Reason:
    if now == 0 and not ws.scale_numbers.create_held:
        limit = ws.limits.scale_max_unavailable
        if limit == 0:
            return limit_is_zero(
                SCALE_LIMIT, f"{format_count(missing, 'pod is', 'pods are')} missing, and no pod is created"
            )
        return Reason(
            Code.SCALE_UP_LIMITED,
            f"{format_count(missing, 'pod is', 'pods are')} missing, and scaleStrategy.maxUnavailable "
            f"({limit}) is used up",
            "find out why pods are not available",
        )
    leaving = [pod for pod in ws.snapshot.pods if pod.is_deleting and pod.name in skipped]
    if leaving:
        pod = min(leaving, key=lambda pod: pod.name)
        return Reason(
            Code.TERMINATING,
            f"pod {pod.name}: {skipped[pod.name].message}",
            "if that lasts, find out why the pod does not terminate",
        )
    return Reason(Code.CREATING, f"{format_count(missing, 'pod is', 'pods are')} missing and being created")


def _explain_updates(ws: CloneSetWorkingSet, skipped: Mapping[str, Reason]) -> Reason:
    """Return the reason if all desired pods exist and are available, but pods have an older template or must be
    evicted.
    """
    old, evicted = ws.old, ws.evictions.waiting
    if evicted and not old:
        count = format_count(len(evicted), "pod is", "pods are")
        foremost_wait = f"pod {evicted[0].name}: {ws.evictions.explain_wait(evicted[0]).message}"
        return Reason(Code.SPECIFIED, f"{count} waiting to be evicted; {foremost_wait}")
    count = f"{len(old)} of {format_count(len(ws.pods), 'pod is', 'pods are')} of an older template"
    held = find_strategy_wait(count, is_on_delete=ws.spec.is_on_delete, is_paused=ws.spec.is_paused)
    if held is not None:
        return held
    if old and len(old) <= ws.limits.partition:
        return Reason(
            Code.PARTITION,
            f"{count}; the partition keeps {ws.limits.partition} on older revisions",
            "lower spec.updateStrategy.rollingUpdate.partition to continue",
        )
    if old and all(pod.name in skipped for pod in old):
        if allows_none(ws.limits) and any(skipped[pod.name].code == Code.LIMIT_IS_ZERO for pod in old):
            return limit_is_zero(UPDATE_LIMIT, f"{count}, but no serving pod can be updated")
        name = min(pod.name for pod in old)
        foremost = min(old, key=lambda pod: (rank_of(skipped[pod.name].code), pod.name))
        first = skipped[foremost.name]
        if first.code in _SAID_AS_THEY_ARE:
            return Reason(first.code, f"{count}; {first.message}", remedy_of(first))
        if first.code == Code.DISRUPTION_BUDGET:
            return Reason(first.code, f"{count}; pod {foremost.name}: {first.message}", remedy_of(first))
        return Reason(
            Code.UPDATE_HELD,
            f"{count}; pod {name}: {skipped[name].message}",
            f"remove the obstacle that keeps pod {name} from being updated",
        )
    return Reason(Code.UPDATING, f"{count} and being updated")
