"""Updates pods to the update revision, in place or by deletion, and deletes pods that are specified for deletion.

StatefulSetWorkingSet + differences + Scale ──▶ plan_update() ──▶ PlanPhase

Pure. Every slot whose pod is missing, not healthy, in an update, or not yet available, or whose claims have not reached
their size, counts against maxUnavailable, wherever it is in the order. Surplus pods never count. With the option
ignore-unavailable-nodes, pods on nodes out of service do not count either. The update of a candidate that is already
unavailable needs no further unit of maxUnavailable. The first candidate that exceeds the limit ends the selection. Only
pods that already prepare for their update or deletion continue, and the option replace-never-ready-after-seconds still
replaces pods.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pykruise.kinds.statefulset.expansion import Growth
from pykruise.kinds.statefulset.in_place import target_of
from pykruise.kinds.statefulset.never_ready import NEVER_READY, NeverReady
from pykruise.kinds.statefulset.order import list_candidates
from pykruise.kinds.statefulset.pod_group import StatefulSetGang
from pykruise.kinds.statefulset.status import resize_refused_since
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.kube.clock import Instant
from pykruise.plans.failed_resizes import find_overdue_refusals, make_recreation_note
from pykruise.plans.in_place import (
    BEGUN_AT_ONCE,
    Differences,
    find_hook_wait,
    make_only_in_place_reason,
    make_unknown_state_reason,
    take_turn,
)
from pykruise.plans.nodes_out_of_service import find_pods_left_out
from pykruise.plans.phases import (
    MAX_UNAVAILABLE_USED_UP,
    MOST_AT_ONCE,
    ON_DELETE,
    OTHERS_FIRST,
    PAUSED,
    DecidedStage,
    Decision,
    PlanPhase,
    SpecifyPod,
    decide_deletion,
)
from pykruise.plans.purposes import Purpose
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.in_place import NotInPlace, UpdateSpec
from pykruise.pods.lifecycle.states import LifecycleState, is_hooked
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import FINISHED, PodView
from pykruise.pods.workload.pod_groups import BEFORE_OTHERS
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S
from pykruise.runtime.plan import Chain, Note
from pykruise.runtime.reasons import Reason

BY_PARTITION: Final = Reason(Code.PARTITION, "the partition keeps it at its revision")
SPECIFIED: Final = Reason(
    Code.SPECIFIED,
    "specified for deletion, but maxUnavailable is used up",
    "wait until more pods are available, or find out why they are not",
)
CLAIMS_GROW: Final = Reason(
    Code.CLAIMS_GROW, "waits until its claims have grown", "if that lasts, read the events of the claims"
)
FILE_SYSTEM_GROWS: Final = Reason(Code.CLAIMS_GROW, "waits until the file system of its claims has grown")
COMES_BACK: Final = Reason(Code.TURN, "is returning from PreparingDelete")

_UPDATABLE: Final = frozenset({"", *LifecycleState})
_PREPARING: Final = frozenset({LifecycleState.PREPARING_DELETE, LifecycleState.PREPARING_UPDATE})


class _Pass:
    """Collects the decisions of one update phase. A pass inspects the candidates once, in order."""

    def __init__(
        self, ws: StatefulSetWorkingSet, never_ready: NeverReady, *, written: frozenset[str]
    ) -> None:
        self.ws = ws
        self.never_ready = never_ready
        self.growth = Growth(ws)
        self.handled = set(written)
        """Pods to which scaling writes, or that this pass deletes because they are specified for deletion."""
        self.left_out = find_pods_left_out(
            ws.snapshot.statefulset.annotations,
            ws.slot_pods,
            ws.snapshot.nodes,
            is_available=lambda pod: ws.is_healthy(pod) and ws.is_available(pod),
            is_updated=ws.is_updated,
        )
        """Pods on nodes out of service. They do not count against maxUnavailable."""
        self.unavailable = {slot.name for slot in ws.slots if _is_unavailable(ws, slot, self.growth)}
        self.unavailable -= self.left_out.keys()
        self.decisions: list[Decision] = []
        self.skipped: dict[str, Reason] = {}
        self.failure: Reason | None = None
        self.notes: tuple[Note, ...] = ()
        self.begun = 0
        self.times: list[Instant] = []
        self.is_partial = False
        self.recreates = False
        """Whether all pods are recreated, because they are updated as one group."""
        may_recreate = ws.spec.policy == PodUpdatePolicy.IN_PLACE_IF_POSSIBLE
        self.refused_since = resize_refused_since(ws) if may_recreate else None
        """Instant since which the API server rejects resizes, if the policy allows recreation; None after this pass has
        recreated a pod because of this.
        """

    def may_lose(self, name: str) -> bool:
        """Whether this pod may be out of service."""
        if name in self.unavailable or name in self.left_out:
            return True
        return len(self.unavailable) < self.ws.limits.max_unavailable

    def act(self, pod: PodView, decision: Decision | Reason) -> None:
        """Record the write to the pod, or its reason for waiting. In both cases the pod counts as unavailable, unless
        it is in `left_out`.
        """
        if isinstance(decision, Reason):
            self.skipped[pod.name] = decision
        else:
            self.decisions.append(decision)
        if pod.name not in self.left_out:
            self.unavailable.add(pod.name)

    def delete(self, pod: PodView, because: str) -> None:
        """Delete the pod, or move it to PreparingDelete."""
        hook = self.ws.spec.hooks.pre_delete
        self.act(pod, decide_deletion(pod, hook=hook, now=self.ws.now, because=because))

    def recreate_instead(self, pod: PodView, why: str) -> None:
        """Recreate a pod whose resize the API server rejects; `why` says this.

        If the preDelete hook delays the deletion, the pod is first specified for deletion. While the pod waits for the
        hook, nothing is resized, so no condition reports rejected resizes any more. Without the mark, the pod would
        then return to service, and its resize would be rejected again.
        """
        hook = self.ws.spec.hooks.pre_delete
        because = f"recreated for revision {self.ws.update.name} ({why})"
        if hook is not None and is_hooked(hook, pod):
            note = make_recreation_note(pod, why)
            self.act(pod, SpecifyPod(pod=pod, because=because, done=note, unchanged=True))
        else:
            self.delete(pod, because)

    def find_refused_resize(self, pod: PodView, change: UpdateSpec) -> str:
        """Reason why the pod is recreated instead of resized; empty: the pod is resized. Call this when the pod is
        updated now. Only the first pod of a pass gets a reason.
        """
        overdue = find_overdue_refusals(
            [(pod, change)],
            refused_since=self.refused_since,
            settings=self.ws.settings.in_place,
            now=self.ws.now,
        )
        if overdue:
            self.refused_since = None
        return overdue.get(pod.name, "")

    def fail(self, pod: PodView, why: Reason, *, failure: Reason, event: str) -> None:
        """Record that the pod cannot be updated at all. The pass ends with this pod."""
        self.skipped[pod.name] = why
        self.failure = failure
        self.notes = (Note(reason=event, message=failure.message, warning=True, again_after_s=LOOK_AGAIN_S),)

    def build_phase(self) -> PlanPhase:
        """Build the phase from this pass."""
        return PlanPhase(
            decided=(DecidedStage(purpose=Purpose.UPDATE_PODS, decisions=self.decisions),),
            skipped={**self.left_out, **self.skipped},
            notes=self.notes,
            failure=self.failure,
            look_at=min(self.times, default=None),
            is_partial=self.is_partial,
        )


def _is_unavailable(ws: StatefulSetWorkingSet, slot: Slot, growth: Growth) -> bool:
    pod = slot.pod
    if pod is None or not ws.is_healthy(pod) or ws.is_in_flux(pod) or not ws.is_available(pod):
        return True
    return growth.is_on and not growth.is_ready(slot.ordinal)


def plan_update(
    ws: StatefulSetWorkingSet,
    differences: Differences,
    never_ready: NeverReady,
    *,
    written: frozenset[str],
    only: str = "",
    gang: StatefulSetGang | None = None,
) -> PlanPhase:
    """Plan the update pass. `written`: pods to which scaling writes. `only`: the only pod that may be updated. `gang`:
    the group of the pods; they are updated together.
    """
    current = _Pass(ws, never_ready, written=written)
    current.recreates = gang is not None and gang.recreates
    _delete_specified(current, only=only)
    if ws.spec.is_on_delete:
        current.skipped |= _skip_old(ws, ON_DELETE)
    elif ws.spec.is_paused:
        current.skipped |= _skip_old(ws, PAUSED)
    elif gang is not None and gang.hold is not None:
        current.skipped |= _skip_old(ws, gang.hold)
        current.failure = gang.failure
    else:
        wanted = list_candidates(ws)
        names = {slot.name for slot in wanted}
        kept = _skip_old(ws, BY_PARTITION)
        current.skipped |= {name: why for name, why in kept.items() if name not in names}
        _update_pods(current, [slot for slot in wanted if only in ("", slot.name)], differences)
    return current.build_phase()


def _skip_old(ws: StatefulSetWorkingSet, reason: Reason) -> Mapping[str, Reason]:
    return {pod.name: reason for pod in ws.slot_pods if not pod.is_deleting and not ws.is_updated(pod)}


# Specified for deletion


def _delete_specified(current: _Pass, *, only: str) -> None:
    """Delete specified pods from the highest ordinal down. A pod that exceeds maxUnavailable is skipped, and the
    next pods are checked.
    """
    for slot in reversed(current.ws.slots):
        pod = slot.pod
        if pod is None or not pod.is_specified_delete or only not in ("", slot.name):
            continue
        if pod.is_deleting or pod.name in current.handled or pod.phase in FINISHED:
            continue
        if not current.may_lose(pod.name):
            current.skipped[pod.name] = SPECIFIED
            continue
        current.delete(pod, "specified for deletion")
        current.handled.add(pod.name)


# Update to the update revision


def _update_pods(current: _Pass, wanted: Sequence[Slot], differences: Differences) -> None:
    for index, slot in enumerate(wanted):
        if current.begun >= BEGUN_AT_ONCE or len(current.decisions) >= MOST_AT_ONCE:
            current.is_partial = bool(current.decisions)
            reason = OTHERS_FIRST
        elif not _update_pod(current, slot, differences):
            _continue_preparing(current, wanted[index:], differences)
            _update_never_ready(current, wanted[index:], differences)
            reason = _explain_turn(current.failure)
        else:
            continue
        _skip_rest(current, wanted[index:], reason)
        return


def _continue_preparing(current: _Pass, slots: Sequence[Slot], differences: Differences) -> None:
    """Continue pods in PreparingUpdate or PreparingDelete, independently of the order: they use up the budget for which
    the first pod in the order waits.
    """
    for slot in slots:
        if current.failure is None and slot.pod is not None and slot.pod.state in _PREPARING:
            _update_pod(current, slot, differences)


def _update_never_ready(current: _Pass, slots: Sequence[Slot], differences: Differences) -> None:
    """Update due pods that have never been ready, independently of the order: they use up the budget for which the
    first pod in the order waits.
    """
    for slot in slots:
        if current.failure is None and slot.pod is not None and current.never_ready.is_due(slot.pod):
            _update_pod(current, slot, differences)


def _explain_turn(failure: Reason | None) -> Reason:
    """Reason for pods that wait because an earlier pod could not be updated, or maxUnavailable is used up."""
    if failure is None:
        return MAX_UNAVAILABLE_USED_UP
    return Reason(Code.TURN, f"waits for its turn: {failure.message}")


def _skip_rest(current: _Pass, slots: Sequence[Slot], reason: Reason) -> None:
    for slot in slots:
        pod = slot.pod
        if pod is not None and not pod.is_deleting and not current.ws.is_updated(pod):
            current.skipped.setdefault(pod.name, reason)


def _update_pod(current: _Pass, slot: Slot, differences: Differences) -> bool:
    """Update one candidate, or do nothing if it is up to date. False: no further candidate may be updated."""
    ws, growth, pod = current.ws, current.growth, slot.pod
    if pod is None:
        return True
    fits = not growth.is_on or growth.is_compatible(slot.ordinal)
    is_updated = ws.is_updated(pod)
    restart_at = growth.restart_at(slot.ordinal) if growth.is_on and is_updated else None
    if is_updated and fits and restart_at is None:
        return True
    if not current.may_lose(slot.name):
        return False
    if not fits:
        if reason := growth.explain_obstacle(slot.ordinal):
            current.fail(pod, reason, failure=reason, event="FailedUpdatePVC")
            return False
        current.act(pod, Chain(subject=pod.name, steps=growth.plan_steps(slot.ordinal)))
        return True
    if growth.is_on and not growth.is_complete(slot.ordinal):
        current.act(pod, CLAIMS_GROW)
        return True
    if pod.name in current.handled or pod.is_deleting or pod.phase in FINISHED:
        return True
    if restart_at is not None:
        _restart_pod(current, pod, restart_at)
        return True
    return _update_or_recreate(current, pod, differences)


def _restart_pod(current: _Pass, pod: PodView, at: Instant) -> None:
    """Recreate the pod when the instant `at` is reached: its claims have grown, but the file system grows only when the
    pod starts again.
    """
    if at > current.ws.now:
        current.times.append(at)
        current.act(pod, FILE_SYSTEM_GROWS)
    else:
        current.delete(pod, "recreated, because the file system of its claims grows only when the pod starts")


def _update_or_recreate(current: _Pass, pod: PodView, differences: Differences) -> bool:
    ws = current.ws
    if pod.state not in _UPDATABLE:
        current.act(pod, make_unknown_state_reason(pod))
        return True
    result = differences.find_difference(pod)
    if current.recreates and not isinstance(result, NotInPlace):
        result = NotInPlace(BEFORE_OTHERS)
    if isinstance(result, NotInPlace):
        if ws.spec.policy == PodUpdatePolicy.IN_PLACE_ONLY:
            why = make_only_in_place_reason(result.reason)
            failure = Reason(Code.CANNOT_UPDATE, f"pod {pod.name}: {why.message}")
            current.fail(pod, why, failure=failure, event="FailedUpdatePodInPlace")
            return False
        reasons = [
            *([result.reason] if ws.spec.is_in_place else ()),
            *([NEVER_READY] if current.never_ready.is_due(pod) else ()),
        ]
        reason = f" ({'; '.join(reasons)})" if reasons else ""
        current.delete(pod, f"recreated for revision {ws.update.name}{reason}")
        return True
    if pod.state == LifecycleState.PREPARING_DELETE:
        # An in-place update is no reason to delete the pod, so refresh.py first returns it to service.
        current.act(pod, COMES_BACK)
        return True
    if refused := current.find_refused_resize(pod, result):
        current.recreate_instead(pod, refused)
        return True
    target = target_of(ws)
    waits = find_hook_wait(pod, target.hook)
    current.begun += waits is None
    current.act(pod, waits or take_turn(pod, result, target))
    return True


def list_updating_names(ws: StatefulSetWorkingSet) -> frozenset[str]:
    """Names of the pods that should get the update revision; empty while updates are paused."""
    if ws.spec.is_paused:
        return frozenset()
    return frozenset(slot.name for slot in list_candidates(ws))
