"""The in-place update of a pod: whether it is possible, its next step, and its progress.

pods + revisions        ──▶ Differences ──▶ UpdateSpec, or the reason to recreate the pod
pod + UpdateSpec + hook ──▶ find_hook_wait(), take_turn()
    ──▶ the reason to wait, or the decision: ask the hook, or begin
updating pod            ──▶ find_progress()
    ──▶ InPlaceProgress: a decision, the reason to wait, or that the update is complete

Pure; serves every kind. The engine (pods/in_place) knows the changes, the writes and when they are complete. The kind
decides which pods are updated, how many, in which order, and with which labels.
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
"""Maximum number of pods whose update one plan begins. Updated pods return to service before the next ones leave it,
so a pod is out of service only as long as its containers need, and not as long as the rollout.
"""

_FEWEST: Final = (
    10  # enough to keep an API server busy: fewer are slower, and more keep pods out of service longer
)
_PODS_PER_PLACE: Final = 64


def count_begun_updates(pods: int) -> int:
    """Return the number of pods whose update one plan begins when it considers `pods` of them.

    An updated pod waits for the end of the running plan, so it returns sooner when a plan begins fewer updates. But
    every plan considers all pods, so each plan of a large set begins more.
    """
    return min(max(_FEWEST, pods // _PODS_PER_PLACE), BEGUN_AT_ONCE)


# Begin of an update


class TurnTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Target of the updates."""

    revision: str
    """Name of the revision for messages."""
    labels: Mapping[str, str]
    """Labels with which the kind marks a pod's revision."""
    hook: LifecycleHook | None
    """The inPlaceUpdate hook."""
    now: Instant
    settings: InPlaceSettings


def find_hook_wait(pod: PodView, hook: LifecycleHook | None) -> Reason | None:
    """Return the reason why the pod must wait before any write to it; None: no wait. `hook` is inPlaceUpdate."""
    if pod.state == LifecycleState.PREPARING_UPDATE and is_hooked(hook, pod):
        return update_wait(hook, pod)
    if pod.state == LifecycleState.UPDATED and hook is None:
        return Reason(Code.UPDATING_IN_PLACE, "its previous in-place update is about to end")
    return None


def take_turn(pod: PodView, spec: UpdateSpec, target: TurnTarget) -> ChangePod | UpdatePod:
    """Decide the next step of a pod for which `find_hook_wait` returns None.

    The pod enters PreparingUpdate if the hook must approve, otherwise the update begins. A pod that is still Updated
    gets the hook again, so that it must be released once more.
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
        # If a pod that does not serve became ready meanwhile, its update would need a place in the budget.
        unchanged=bool(conditions) or not pod.is_serving,
    )


# Progress of an update


class InPlaceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one pod's update."""

    decision: UpdatePod | None = None
    """Writes that continue the update."""
    is_complete: bool = False
    conditions: tuple[Document, ...] = ()
    """If complete: conditions that bring the pod back into service."""
    waits: Reason | None = None
    look_at: Instant | None = None
    """Time at which the wait may end without an event."""
    is_broken: bool = False
    """Whether the update cannot continue without help; `waits` has the reason."""
    gives_up_at: Instant | None = None
    """Time at which a pod is recreated, if its policy allows that, because its node can never provide its new
    resources; None: the node can provide them.
    """

    def has_given_up(self, now: Instant) -> bool:
        """Whether it is time to recreate the pod, if its policy allows that."""
        return self.gives_up_at is not None and now >= self.gives_up_at


def find_progress(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
    """Return the next step of a pod that is, or may be, in an update."""
    result = find_next_step(pod, now=now, settings=settings)
    match result:
        case Continue(writes=writes):
            return InPlaceProgress(decision=UpdatePod(pod=pod, writes=writes))
        case Complete(conditions=conditions):
            return InPlaceProgress(is_complete=True, conditions=conditions)
        case Waiting():
            waits = _waiting_reason(result)
            ends = _gives_up_at(pod, result, settings)
            times = [time for time in (result.look_at, ends) if time is not None and time > now]
            look_at = min(times, default=result.look_at)
            return InPlaceProgress(waits=waits, look_at=look_at, gives_up_at=ends)
        case Broken(problem=problem):
            message = f"its in-place update cannot continue: {problem}"
            return InPlaceProgress(waits=Reason(Code.BROKEN_UPDATE, message), is_broken=True)


def _gives_up_at(pod: PodView, waiting: Waiting, settings: InPlaceSettings) -> Instant | None:
    if not is_resize_infeasible(pod) or waiting.since is None:
        return None
    return waiting.since + settings.resize_patience_s


def is_resize_infeasible(pod: PodView) -> bool:
    """Whether the kubelet reports that its node can never give the pod its new resources."""
    pending = pod.find_condition("PodResizePending")
    return pending is not None and (pending.status, pending.reason) == ("True", "Infeasible")


# Differences between revisions


class DifferenceOptions(TypedDict, total=False):
    """Options of `difference`, besides the two revisions."""

    revision: Required[str]
    settings: Required[InPlaceSettings]
    grace_seconds: int
    ignore_claims: bool


class Differences:
    """Differences between pods and a target revision, by the pod's revision; computed once per revision.

    `revisions`: stored revisions by the hash in pods' labels. `undeclaring`: nodes on which no pod is resized as a
    whole. `refusal`: reason why the policy recreates all pods; empty: it does not.
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
        """Return the change for pods of the revision `old`; None: their revision is no longer stored."""
        if self._refusal:
            return NotInPlace(self._refusal)
        return self._recall.find_difference(old, self._target, **self._options)

    def of_revision(self, revision: str) -> UpdateSpec | NotInPlace:
        """Return the change of pods with this revision on nodes that resize pods, or the reason to recreate them."""
        result = self._known.get(revision)
        if result is None:
            result = self._known[revision] = self.compare_revision(self._revisions.get(revision))
        return result

    def find_difference(self, pod: PodView) -> UpdateSpec | NotInPlace:
        """Return the change of the pod, or the reason to recreate it."""
        result = self.of_revision(pod.revision)
        return (
            fit_to_node(result, pod.node_name, undeclaring=self._undeclaring) if self._undeclaring else result
        )

    def split(self, pods: Sequence[PodView]) -> tuple[list[tuple[PodView, UpdateSpec]], dict[str, str]]:
        """Split the pods: those that can be updated in place, each with its changes, and the names of the others, each
        with the reason.
        """
        if self._undeclaring:  # then the result also depends on the pod's node
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
        """Return the names of pods that must not be updated at all, with the reason. `only`: the policy allows nothing
        but in-place updates. `updatable`: the known states of pods.
        """
        reasons = self.split(pods)[1] if only else {}
        refused = {name: make_only_in_place_reason(why) for name, why in reasons.items()}
        return refused | {
            pod.name: make_unknown_state_reason(pod) for pod in pods if pod.state not in updatable
        }


_MOST_DIFFERENCES: Final = 64


class SeenInPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the last plan: the progress of pods that wait in an update, which is valid while the pod is unchanged,
    and differences between two revisions.

    Hundreds of pods may be updated at the same time (image pulls take minutes), and every plan considers each of
    them. This is a value: the snapshot has that of the last plan, and the plan returns a new one (`Plan.memory`).
    Plans are the same without it.
    """

    pods: Mapping[str, tuple[PodView, InPlaceSettings, InPlaceProgress]] = {}
    """Results by pod UID."""
    differences: Mapping[tuple[Any, ...], tuple[Any, Any, UpdateSpec | NotInPlace]] = {}


class Recall:
    """Access of one plan to `SeenInPlace`, with its own new results; the next plan starts with `seen`."""

    def __init__(self, seen: SeenInPlace | None = None) -> None:
        known = seen or SeenInPlace()
        self._known = known.pods
        self._now: dict[str, tuple[PodView, InPlaceSettings, InPlaceProgress]] = {}
        self._differences = dict(known.differences)

    @property
    def seen(self) -> SeenInPlace:
        """All results so far. Pods that this plan did not query are kept until `forget_others()`."""
        return SeenInPlace(pods={**self._known, **self._now}, differences=dict(self._differences))

    def find_difference(
        self, old: Template | None, target: Template, **options: Unpack[DifferenceOptions]
    ) -> UpdateSpec | NotInPlace:
        """Return the result of the function `difference`, remembered for revisions that are the same objects from
        plan to plan.
        """
        key = (id(old), id(target), *options.values())
        known = self._differences.get(key)
        if known is not None:  # the entry keeps both alive, so their ids are unique
            answer: UpdateSpec | NotInPlace = known[2]
            return answer
        if len(self._differences) >= _MOST_DIFFERENCES:
            self._differences.clear()
        result = find_difference(old, target, **options)
        self._differences[key] = (old, target, result)
        return result

    def find_progress(self, pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
        """Return the result of the function `find_progress`, remembered for a pod that has not changed."""
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
        """Call after the last pod of a plan: forgets the pods that this plan did not query."""
        self._known = {}


def _waiting_reason(waiting: Waiting) -> Reason:
    message = f"its in-place update is under way: {waiting.because}"
    if waiting.since is not None:
        message += f" (since {format_time(waiting.since)})"
    return Reason(Code.UPDATING_IN_PLACE, message)


def make_only_in_place_reason(why: str) -> Reason:
    """Return the reason for a pod that is not updated, since its policy only allows in-place updates."""
    return Reason(
        Code.NOT_IN_PLACE, f"cannot be updated in place, and InPlaceOnly does not allow recreation: {why}"
    )


def make_unknown_state_reason(pod: PodView) -> Reason:
    """Return the reason for a pod that is not updated, since a newer manager may have set its state."""
    message = f"its lifecycle state {pod.state!r} is not known to this version"
    remedy = "correct the pod's label lifecycle.apps.kruise.io/state"
    return Reason(Code.BROKEN_UPDATE, message, remedy)


def summary_of(refused: Mapping[str, Reason], code: Code) -> Reason | None:
    """Return one reason for a condition or an event: that of the first pod, with the number of others; None: no pod
    has one.
    """
    if not refused:
        return None
    name, reason = next(iter(refused.items()))
    others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return Reason(code, f"pod {name}{others}: {reason.message}")
