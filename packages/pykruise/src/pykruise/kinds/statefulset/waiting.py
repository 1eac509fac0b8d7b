"""Reason why a StatefulSet has not converged, in one sentence with its remedy.

StatefulSetWorkingSet + reasons of the plan ──▶ waiting_of() ──▶ Reason, or None: it has converged

Pure. Reasons that need a person are reported first, then missing pods, then reasons that end automatically.
"""

from collections.abc import Mapping

from pykruise.kinds.statefulset.expansion import Growth
from pykruise.kinds.statefulset.never_ready import NeverReady
from pykruise.kinds.statefulset.older_pods import explain_older_pod
from pykruise.kinds.statefulset.scale import TERMINATES, Scale
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.values.counts import format_count
from pykruise.pods.corrections import OF_A_JOB
from pykruise.pods.lifecycle.blockers import blocker_of, blockers_of, find_end_blocker
from pykruise.pods.reasons import REPLACED_WITH_ITS_POD, Code, add_room
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import find_pod_wait, find_strategy_wait
from pykruise.runtime.reasons import Reason


def is_converged(ws: StatefulSetWorkingSet, growth: Growth) -> bool:
    """Whether all desired pods exist, are updated and available, their claims match the templates, and no other pod
    exists.
    """
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


def waiting_of(
    ws: StatefulSetWorkingSet,
    scale: Scale,
    never_ready: NeverReady,
    *,
    skipped: Mapping[str, Reason],
    problem: Reason | None = None,
) -> Reason | None:
    """Return the reason why the set waits; None: it has converged. `skipped`: name of a pod → why the plan skips it."""
    growth = Growth(ws)
    if is_converged(ws, growth):
        return None
    obstacles = blockers_of(
        (pod for pod in ws.slot_pods if not pod.is_deleting and not ws.is_available(pod)),
        ws.spec.lifecycle,
        min_ready_seconds=ws.limits.min_ready_seconds,
        now=ws.now,
    )
    stuck = [(pod, reason) for pod, reason in obstacles if not reason.is_wait]
    hard = [pair for pair in stuck if pair[1].code != Code.NOT_READY]
    missing = _explain_missing_pods(ws, scale, skipped)
    is_being_made = missing is not None and missing.code == Code.CREATING and ws.spec.is_parallel
    return (
        _explain_problem(problem)
        or find_pod_wait(_find_held_pods(ws))
        or _explain_outdated_pod(ws, hard, never_ready)
        or find_pod_wait(hard)
        or (missing if is_being_made else None)
        or _explain_outdated_pod(ws, stuck, never_ready)
        or find_pod_wait(stuck)
        or missing
        or _explain_surplus(ws, skipped)
        or find_pod_wait(obstacles)
        or _explain_claim_growth(ws, growth)
        or _explain_updates(ws, skipped)
    )


def _find_held_pods(ws: StatefulSetWorkingSet) -> list[tuple[PodView, Reason]]:
    """Pods whose deletion cannot end, because of finalizers or their node, or, for surplus pods, because of a hook."""
    pods = (pod for pod in (*ws.slot_pods, *ws.surplus) if pod.is_deleting)
    result = [(pod, kept) for pod in pods if (kept := find_end_blocker(pod, now=ws.now))]
    staying = (pod for pod in ws.surplus if not pod.is_deleting)
    hooked = [
        pair
        for pair in blockers_of(staying, ws.spec.lifecycle, now=ws.now)
        if pair[1].code == Code.PRE_DELETE_HOOK
    ]
    return [*result, *hooked]


def _explain_problem(problem: Reason | None) -> Reason | None:
    if problem is None:
        return None
    return Reason(Code.CANNOT_UPDATE, problem.message, "the update continues when this problem is solved")


def _explain_outdated_pod(
    ws: StatefulSetWorkingSet, stuck: list[tuple[PodView, Reason]], never_ready: NeverReady
) -> Reason | None:
    """Reason when a failing pod of an older template blocks its own update: OrderedReady updates no pod before it is
    available.
    """
    if not stuck or stuck[0][1].code not in REPLACED_WITH_ITS_POD:
        return None
    pod, first = stuck[0]
    slot = next(slot for slot in ws.slots if slot.pod is pod)
    older = explain_older_pod(ws, slot, never_ready)
    if older is None:
        return None
    kept = blocker_of(pod, ws.spec.lifecycle, now=ws.now, correction=OF_A_JOB) or first
    remedy = add_room(first.code, kept.remedy, older.remedy)
    return Reason(first.code, f"pod {pod.name}: {first.message}; {older.message}", remedy)


def _explain_missing_pods(
    ws: StatefulSetWorkingSet, scale: Scale, skipped: Mapping[str, Reason]
) -> Reason | None:
    missing = [slot for slot in ws.slots if slot.pod is None or not slot.pod.is_active]
    if not missing:
        return None
    held = next((slot for slot in missing if slot.name in skipped), None)
    if held is not None:
        pod = held.pod
        finalizers = (
            f" (finalizers: {', '.join(pod.finalizers)})" if pod is not None and pod.finalizers else ""
        )
        reason = skipped[held.name]
        if reason.code == Code.NAME_TAKEN:
            return reason
        if reason.code == Code.FINALIZER:
            return Reason(reason.code, f"pod {held.name}: {reason.message}", reason.remedy)
        code = Code.TERMINATING if pod is not None else Code.CLAIM
        return Reason(
            code,
            f"pod {held.name}: {reason.message}{finalizers}",
            "if that lasts, find out what blocks the deletion",
        )
    if scale.exhausted:
        limit = ws.limits.scale_max_unavailable
        return Reason(
            Code.SCALE_UP_LIMITED,
            f"{format_count(len(missing), 'pod is', 'pods are')} missing, and"
            f" scaleStrategy.maxUnavailable ({limit}) is used up",
            "if that lasts, find out why pods are not available",
        )
    if all(slot.pod is not None and slot.pod.is_deleting for slot in missing):
        return Reason(Code.DEPARTING, f"pod {missing[0].name}: {TERMINATES.message}")
    return Reason(
        Code.CREATING, f"{format_count(len(missing), 'pod is', 'pods are')} missing and being created"
    )


def _explain_surplus(ws: StatefulSetWorkingSet, skipped: Mapping[str, Reason]) -> Reason | None:
    if not ws.surplus:
        return None
    pod = ws.surplus[0]
    finalizers = f" (finalizers: {', '.join(pod.finalizers)})" if pod.finalizers and pod.is_deleting else ""
    why = f"; pod {pod.name}: {skipped[pod.name].message}{finalizers}" if pod.name in skipped else ""
    return Reason(
        Code.DELETING,
        f"{format_count(len(ws.surplus), 'pod is', 'pods are')} surplus{why}",
        "if that lasts, find out what blocks the deletion" if why else "",
    )


def _explain_claim_growth(ws: StatefulSetWorkingSet, growth: Growth) -> Reason | None:
    if not growth.is_on:
        return None
    names = [slot.name for slot in ws.slots if not growth.is_ready(slot.ordinal)]
    if not names:
        return None
    others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return Reason(
        Code.CLAIMS_GROW,
        f"claims of pod {names[0]}{others} do not have the requested size yet",
        "if that lasts, read the events of the claims",
    )


def _explain_updates(ws: StatefulSetWorkingSet, skipped: Mapping[str, Reason]) -> Reason:
    """Reason when all desired pods exist and are available, but some of them do not match the newest templates."""
    marked = [pod for pod in ws.slot_pods if pod.is_specified_delete]
    if marked:
        why = f": {skipped[marked[0].name].message}" if marked[0].name in skipped else ""
        return Reason(
            Code.DELETING, f"{format_count(len(marked), 'pod is', 'pods are')} specified for deletion{why}"
        )
    old = [pod for pod in ws.slot_pods if not ws.is_updated(pod)]
    if not old:
        return Reason(Code.CLAIMS_GROW, "claims are smaller than their templates and about to grow")
    count = f"{len(old)} of {format_count(len(ws.slots), 'pod is', 'pods are')} of an older template"
    held = find_strategy_wait(count, is_on_delete=ws.spec.is_on_delete, is_paused=ws.spec.is_paused)
    if held is not None:
        return held
    group = skipped.get(old[0].name)  # the same for all pods of a group
    if group is not None and group.code in (Code.POD_GROUP, Code.CLAIM_CANNOT_FOLLOW):
        return Reason(group.code, f"{count}; {group.message}", group.remedy)
    if len(old) <= ws.limits.partition:
        return Reason(
            Code.PARTITION,
            f"{count}; the partition keeps {min(ws.limits.partition, len(ws.slots))} on older revisions",
            "lower spec.updateStrategy.rollingUpdate.partition to continue",
        )
    return Reason(Code.UPDATING, f"{count} and being updated")
