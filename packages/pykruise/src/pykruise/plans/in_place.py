"""The in-place update of a pod: whether it is possible, its next step, and its progress.

pods + revisions        ──▶ Differences ──▶ UpdateSpec, or the reason to recreate the pod
pod + UpdateSpec + hook ──▶ find_hook_wait(), take_turn()
    ──▶ the reason to wait, or the decision: wait for the hook, or begin the update
updating pod            ──▶ find_progress()
    ──▶ InPlaceProgress: a decision, the reason to wait, or that the update is complete

Pure; used by every kind. The engine (pods/in_place) computes the changes, the writes, and whether an update is
complete. The kind decides which pods are updated, how many, in which order, and which labels they get.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Required, TypedDict, Unpack

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.plans.phases import ChangePod, UpdatePod
from pykruise.pods.in_place import (
    Broken,
    Complete,
    Continue,
    InPlaceSettings,
    NotInPlace,
    Template,
    UpdateSpec,
    Waiting,
    find_difference,
    find_next_step,
    start,
)
from pykruise.pods.in_place.declared_features import fit_to_node
from pykruise.pods.lifecycle.readiness import PRE_UPDATE_HOOK, hold_back
from pykruise.pods.lifecycle.states import (
    LifecycleHook,
    LifecycleState,
    build_state_metadata,
    is_hooked,
    update_wait,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason

BEGUN_AT_ONCE: Final = 32
"""Maximum number of pods whose update one plan begins. Because of this limit, updated pods return to service before
further pods are taken out of service. So a pod is not out of service for longer than its containers need.
"""

_FEWEST: Final = 10  # fewer updates leave an API server idle; more keep pods out of service longer
_PODS_PER_PLACE: Final = 64


def count_begun_updates(pods: int) -> int:
    """Return the maximum number of updates that one plan begins, if the plan is for this number of pods.

    An updated pod returns to service in the next plan. So it is out of service for a shorter time if a plan begins
    fewer updates. But a plan for a large workload takes longer, so it must begin more updates.
    """
    return min(max(_FEWEST, pods // _PODS_PER_PLACE), BEGUN_AT_ONCE)


# Begin of an update


class TurnTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Revision, labels and hook for the updates of pods."""

    revision: str
    """Name of the revision for messages."""
    labels: Mapping[str, str]
    """Labels for the revision of a pod, as the kind sets them."""
    hook: LifecycleHook | None
    """The inPlaceUpdate hook."""
    now: Instant
    settings: InPlaceSettings


def find_hook_wait(pod: PodView, hook: LifecycleHook | None) -> Reason | None:
    """Return why the pod must wait before its update can begin; None if it does not wait. `hook` is inPlaceUpdate."""
    if pod.state == LifecycleState.PREPARING_UPDATE and is_hooked(hook, pod):
        return update_wait(hook, pod)
    if pod.state == LifecycleState.UPDATED and hook is None:
        return Reason(Code.UPDATING_IN_PLACE, "its previous in-place update is about to end")
    return None


def take_turn(pod: PodView, spec: UpdateSpec, target: TurnTarget) -> ChangePod | UpdatePod:
    """Decide the next step of a pod for which `find_hook_wait` returns None.

    If the hook must release the pod first, the pod enters PreparingUpdate; otherwise the update begins. If the pod is
    still in Updated, its hook is set again, so that the pod must be released again.
    """
    hook, now = target.hook, target.now
    has_been_asked = pod.state in (LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATING)
    is_held_again = pod.state == LifecycleState.UPDATED
    if hook is None or not (is_held_again or (is_hooked(hook, pod) and not has_been_asked)):
        metadata = build_state_metadata(LifecycleState.UPDATING, now=now)
        writes = start(pod, spec, labels=target.labels, metadata=metadata, now=now, settings=target.settings)
        return UpdatePod(pod=pod, writes=writes, revision=target.revision)
    metadata = build_state_metadata(LifecycleState.PREPARING_UPDATE, now=now)
    if is_held_again:
        metadata["labels"] |= hook.labels_handler or {}
        if hook.finalizers_handler:
            metadata["finalizers"] = list(hook.finalizers_handler)
    conditions = hold_back(pod, PRE_UPDATE_HOOK, now=now) if hook.mark_pod_not_ready else []
    return ChangePod(
        pod=pod,
        metadata=metadata,
        conditions=conditions,
        because=f"must be updated in place to {target.revision}; the inPlaceUpdate hook delays the update",
        # The update of a pod that does not serve uses no budget. The write fails if the pod has become ready meanwhile.
        unchanged=bool(conditions) or not pod.is_serving,
    )


# Progress of an update


class InPlaceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of the update of one pod."""

    decision: UpdatePod | None = None
    """Writes that continue the update."""
    is_complete: bool = False
    conditions: tuple[Document, ...] = ()
    """If the update is complete: the conditions that bring the pod back into service."""
    waits: Reason | None = None
    look_at: Instant | None = None
    """Time at which the wait can end even without an event."""
    is_broken: bool = False
    """Whether the update cannot continue until a person acts; `waits` is the reason."""
    gives_up_at: Instant | None = None
    """If the node can never provide the new resources: the time at which the pod is recreated, if its policy allows
    recreation. None if the node can provide them.
    """

    def has_given_up(self, now: Instant) -> bool:
        """Whether `gives_up_at` is reached."""
        return self.gives_up_at is not None and now >= self.gives_up_at


def find_progress(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
    """Return the progress of a pod that is, or possibly is, in an update."""
    result = find_next_step(pod, now=now, settings=settings)
    match result:
        case Continue(writes=writes):
            return InPlaceProgress(decision=UpdatePod(pod=pod, writes=writes))
        case Complete(conditions=conditions):
            return InPlaceProgress(is_complete=True, conditions=conditions)
        case Waiting():
            waits = _explain_waiting(result)
            ends = _find_give_up_time(pod, result, settings)
            times = [time for time in (result.look_at, ends) if time is not None and time > now]
            look_at = min(times, default=result.look_at)
            return InPlaceProgress(waits=waits, look_at=look_at, gives_up_at=ends)
        case Broken(problem=problem):
            message = f"its in-place update cannot continue: {problem}"
            return InPlaceProgress(waits=Reason(Code.BROKEN_UPDATE, message), is_broken=True)


def _find_give_up_time(pod: PodView, waiting: Waiting, settings: InPlaceSettings) -> Instant | None:
    if not is_resize_infeasible(pod) or waiting.since is None:
        return None
    return waiting.since + settings.resize_patience_s


def is_resize_infeasible(pod: PodView) -> bool:
    """Whether the kubelet reports that its node can never give the pod its new resources."""
    pending = pod.find_condition("PodResizePending")
    return pending is not None and (pending.status, pending.reason) == ("True", "Infeasible")


# Differences between revisions


class DifferenceOptions(TypedDict, total=False):
    """Arguments of `find_difference`, besides the two revisions."""

    revision: Required[str]
    settings: Required[InPlaceSettings]
    grace_seconds: int
    ignore_claims: bool


class Differences:
    """Differences between pods and a target revision. They are computed once for each revision of pods.

    `revisions`: hash in the labels of pods → stored revision. `undeclaring`: names of nodes that cannot resize whole
    pods. `refusal`: reason why the policy recreates all pods; empty if it does not.
    """

    def __init__(
        self,
        revisions: Mapping[str, RevisionView],
        target: RevisionView,
        recall: "Recall",
        *,
        undeclaring: Collection[str] = (),
        refusal: str = "",
        **options: Unpack[DifferenceOptions],
    ) -> None:
        self._revisions = revisions
        self._target = target
        self._recall = recall
        self._undeclaring = undeclaring
        self._refusal = refusal
        self._options = options
        self._known: dict[str, UpdateSpec | NotInPlace] = {}

    def compare_revision(self, old: RevisionView | None) -> UpdateSpec | NotInPlace:
        """Return the change for pods of the revision `old`, or the reason to recreate them. `old` is None if their
        revision is no longer stored.
        """
        if self._refusal:
            return NotInPlace(self._refusal)
        return self._recall.find_difference(old, self._target, **self._options)

    def of_revision(self, revision: str) -> UpdateSpec | NotInPlace:
        """Return the change for pods with this revision, or the reason to recreate them. Their nodes must be able to
        resize whole pods.
        """
        result = self._known.get(revision)
        if result is None:
            result = self._known[revision] = self.compare_revision(self._revisions.get(revision))
        return result

    def find_difference(self, pod: PodView) -> UpdateSpec | NotInPlace:
        """Return the change for the pod, or the reason to recreate it."""
        result = self.of_revision(pod.revision)
        return (
            fit_to_node(result, pod.node_name, undeclaring=self._undeclaring) if self._undeclaring else result
        )

    def split(self, pods: Sequence[PodView]) -> tuple[list[tuple[PodView, UpdateSpec]], dict[str, str]]:
        """Return the pods that can be updated in place, each with its changes, and the names of all other pods, each
        with the reason to recreate it.
        """
        if self._undeclaring:  # in this case the result also depends on the pod's node
            ways = [(pod, self.find_difference(pod)) for pod in pods]
        else:
            by_revision = {
                revision: self.of_revision(revision) for revision in {pod.revision for pod in pods}
            }
            ways = [(pod, by_revision[pod.revision]) for pod in pods]
        changes = [(pod, way) for pod, way in ways if isinstance(way, UpdateSpec)]
        if len(changes) == len(ways):
            return changes, {}
        return changes, {pod.name: way.reason for pod, way in ways if isinstance(way, NotInPlace)}

    def find_refusals(
        self, pods: Sequence[PodView], *, only: bool, updatable: Collection[str]
    ) -> dict[str, Reason]:
        """Return the names of pods that must not be updated at all, each with the reason. `only`: whether the policy
        allows only in-place updates. `updatable`: lifecycle states that this program knows.
        """
        reasons = self.split(pods)[1] if only else {}
        refused = {name: make_only_in_place_reason(why) for name, why in reasons.items()}
        return refused | {
            pod.name: make_unknown_state_reason(pod) for pod in pods if pod.state not in updatable
        }


_MOST_DIFFERENCES: Final = 64


class SeenInPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the last plan: the progress of pods that wait in an update, and differences between two revisions. The
    progress of a pod is valid until the pod or the settings change, or until its `look_at`.

    These results make plans faster, but do not change them: hundreds of pods may be updated at the same time (image
    pulls take minutes), and every plan inspects each of them. The snapshot contains the results of the last plan, and
    the plan returns new results (`Plan.memory`).
    """

    pods: Mapping[str, tuple[PodView, InPlaceSettings, InPlaceProgress]] = {}
    """UID of each pod → result."""
    differences: Mapping[tuple[Any, ...], tuple[Any, Any, UpdateSpec | NotInPlace]] = {}


class Recall:
    """The results of the last plan, together with new results of this plan. The next plan starts with `seen`."""

    def __init__(self, seen: SeenInPlace | None = None) -> None:
        known = seen or SeenInPlace()
        self._known = known.pods
        self._now: dict[str, tuple[PodView, InPlaceSettings, InPlaceProgress]] = {}
        self._differences = dict(known.differences)

    @property
    def seen(self) -> SeenInPlace:
        """All results so far. Results for pods that this plan does not inspect are dropped by `forget_others()`."""
        return SeenInPlace(pods={**self._known, **self._now}, differences=dict(self._differences))

    def find_difference(
        self, old: Template | None, target: Template, **options: Unpack[DifferenceOptions]
    ) -> UpdateSpec | NotInPlace:
        """Return the result of the function `find_difference`. It is remembered while the two revisions are the same
        Python objects.
        """
        key = (id(old), id(target), *options.values())
        known = self._differences.get(key)
        if known is not None:  # the entry references both revisions, so no other object has their ids
            answer: UpdateSpec | NotInPlace = known[2]
            return answer
        if len(self._differences) >= _MOST_DIFFERENCES:
            self._differences.clear()
        result = find_difference(old, target, **options)
        self._differences[key] = (old, target, result)
        return result

    def find_progress(self, pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
        """Return the result of the function `find_progress`. Results for waiting pods are remembered (SeenInPlace)."""
        known = self._known.get(pod.uid)
        if known is not None and known[0] is pod and known[1] == settings:
            look_at = known[2].look_at
            if look_at is None or now < look_at:
                self._now[pod.uid] = known
                return known[2]
        progress = find_progress(pod, now=now, settings=settings)
        if progress.waits is not None:
            self._now[pod.uid] = (pod, settings, progress)
        return progress

    def forget_others(self) -> None:
        """Drop the results for pods that this plan did not inspect. Call this after the last pod of a plan."""
        self._known = {}


def _explain_waiting(waiting: Waiting) -> Reason:
    message = f"its in-place update is under way: {waiting.because}"
    if waiting.since is not None:
        message += f" (since {format_time(waiting.since)})"
    return Reason(Code.UPDATING_IN_PLACE, message)


def make_only_in_place_reason(why: str) -> Reason:
    """Return why a pod is not updated if the policy allows only in-place updates."""
    return Reason(
        Code.NOT_IN_PLACE, f"cannot be updated in place, and InPlaceOnly does not allow recreation: {why}"
    )


def make_unknown_state_reason(pod: PodView) -> Reason:
    """Return why a pod with an unknown lifecycle state is not updated: a newer manager may have set the state."""
    message = f"its lifecycle state {pod.state!r} is not known to this version"
    remedy = "correct the pod's label lifecycle.apps.kruise.io/state"
    return Reason(Code.BROKEN_UPDATE, message, remedy)


def summary_of(refused: Mapping[str, Reason], code: Code) -> Reason | None:
    """Return one reason for a condition or an event: the reason of the first pod, with the number of further pods. None
    if there are no pods.
    """
    if not refused:
        return None
    name, reason = next(iter(refused.items()))
    others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return Reason(code, f"pod {name}{others}: {reason.message}")
