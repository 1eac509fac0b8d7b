"""Updates in place as steps of a plan: the engine's writes with their preconditions and events.

pods/in_place start() ──▶ writes ──▶ update_steps() ──▶ steps of a chain
updating pod          ──▶ go_on() ──▶ InPlaceProgress: steps, the reason to wait, or that the update is complete

Pure; serves every kind. The engine (pods/in_place) knows the changes and when they are complete. The kind decides
which pods are updated, how many, and with which labels.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.plans.phases import pod_patch
from pykruise.pods.in_place import (
    Broken,
    Complete,
    Continue,
    InPlaceSettings,
    NotInPlace,
    PodPatch,
    Template,
    UpdateSpec,
    Waiting,
    difference,
    next_step,
)
from pykruise.pods.in_place.declared_features import on_node
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.plan import Note, Step
from pykruise.runtime.reasons import Reason

BEGUN_AT_ONCE: Final = 32
"""Maximum number of pods whose update one plan begins. Updated pods return to service before the next ones leave it,
so a pod is out of service only as long as its containers need, and not as long as the rollout.
"""

_FEWEST: Final = (
    10  # enough to keep an API server busy: fewer are slower, and more keep pods out of service longer
)
_PODS_PER_PLACE: Final = 64


def begun_at_once(pods: int) -> int:
    """Return the number of pods whose update one plan begins when it considers `pods` of them.

    An updated pod waits for the end of the running plan, so it returns sooner when a plan begins fewer updates. But
    every plan considers all pods, so each plan of a large set begins more.
    """
    return min(max(_FEWEST, pods // _PODS_PER_PLACE), BEGUN_AT_ONCE)


def update_steps(
    pod: PodView,
    writes: Sequence[PodPatch],
    *,
    done: Note | None = None,
    failed: Note | None = None,
    unchanged: bool = False,
) -> tuple[Step, ...]:
    """Return the engine's writes as steps; `done` is recorded after the last one. `unchanged`: the first one requires
    the pod's resourceVersion, like writes that the engine has marked `checked`.
    """
    last = len(writes) - 1
    # After the first real write of its own chain, the resourceVersion is no longer the planned one.
    first = next((number for number, write in enumerate(writes) if not write.is_dry_run), 0)
    return tuple(
        Step(
            action=pod_patch(
                pod,
                write.body,
                subresource=write.subresource,
                unchanged=(write.checked or unchanged) and number <= first,
                is_dry_run=write.is_dry_run,
            ),
            because=write.because,
            done=done if number == last else None,
            failed=failed,
        )
        for number, write in enumerate(writes)
    )


def begin_steps(pod: PodView, writes: Sequence[PodPatch], *, revision: str) -> tuple[Step, ...]:
    """Return the steps that begin an update of the pod to `revision`, with their events."""
    done = Note(reason="SuccessfulUpdatePodInPlace", message=f"updated pod {pod.name} in place to {revision}")
    failed = Note(
        reason="FailedUpdatePodInPlace",
        message=f"failed to update pod {pod.name} in place to {revision}",
        warning=True,
    )
    # If a pod that does not serve became ready meanwhile, its update would need a place in the budget.
    return update_steps(pod, writes, done=done, failed=failed, unchanged=not pod.is_serving)


class InPlaceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one pod's update."""

    steps: tuple[Step, ...] = ()
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
    resources; None: the node can.
    """

    def has_given_up(self, now: Instant) -> bool:
        """Whether it is time to recreate the pod, if its policy allows that."""
        return self.gives_up_at is not None and now >= self.gives_up_at


def go_on(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
    """Return the next step of a pod that is, or may be, in an update."""
    result = next_step(pod, now=now, settings=settings)
    match result:
        case Continue(writes=writes):
            failed = Note(
                reason="FailedUpdatePodInPlace",
                message=f"failed to continue the update in place of pod {pod.name}",
                warning=True,
            )
            return InPlaceProgress(steps=update_steps(pod, writes, failed=failed))
        case Complete(conditions=conditions):
            return InPlaceProgress(is_complete=True, conditions=conditions)
        case Waiting():
            ends = _gives_up_at(pod, result, settings)
            times = [time for time in (result.look_at, ends) if time is not None and time > now]
            look_at = min(times, default=result.look_at)
            return InPlaceProgress(waits=_waiting_reason(result), look_at=look_at, gives_up_at=ends)
        case Broken(problem=problem):
            message = f"its update in place cannot continue: {problem}"
            return InPlaceProgress(waits=Reason(Code.BROKEN_UPDATE, message), is_broken=True)


def _gives_up_at(pod: PodView, waiting: Waiting, settings: InPlaceSettings) -> Instant | None:
    if not is_resize_infeasible(pod) or waiting.since is None:
        return None
    return waiting.since + settings.resize_patience_s


def is_resize_infeasible(pod: PodView) -> bool:
    """Whether the kubelet reports that its node can never give the pod its new resources."""
    pending = pod.condition("PodResizePending")
    return pending is not None and (pending.status, pending.reason) == ("True", "Infeasible")


class ByRevision(ABC):
    """Differences between pods and their wanted revision, by the pod's revision; computed once per revision.

    `revisions`: stored revisions by the hash in pods' labels. `undeclaring`: nodes on which no pod is resized as a
    whole.
    """

    def __init__(self, revisions: Mapping[str, RevisionView], *, undeclaring: Collection[str] = ()) -> None:
        self._revisions = revisions
        self._undeclaring = undeclaring
        self._found: dict[str, UpdateSpec | NotInPlace] = {}

    def of(self, pod: PodView) -> UpdateSpec | NotInPlace:
        """Return the change of the pod, or the reason to recreate it."""
        result = self._found.get(pod.revision)
        if result is None:
            result = self._found[pod.revision] = self.between(self._revisions.get(pod.revision))
        return on_node(result, pod.node_name, undeclaring=self._undeclaring) if self._undeclaring else result

    @abstractmethod
    def between(self, old: RevisionView | None) -> UpdateSpec | NotInPlace:
        """Return the change for pods of a revision; None: it is not stored any more."""


class DifferenceOptions(TypedDict):
    """Options of `difference`, besides the two revisions."""

    revision: str
    settings: InPlaceSettings
    grace_seconds: int
    ignore_claims: bool


_MOST_DIFFERENCES: Final = 64


class SeenInPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the last plan: pods that wait in an update, which still wait if they have not changed, and
    differences between two revisions.

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
        self._found = known.pods
        self._now: dict[str, tuple[PodView, InPlaceSettings, InPlaceProgress]] = {}
        self._differences = dict(known.differences)

    @property
    def seen(self) -> SeenInPlace:
        """All results so far. Pods that this plan did not query are kept until `forget_others()`."""
        return SeenInPlace(pods={**self._found, **self._now}, differences=dict(self._differences))

    def difference(
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
        result = difference(old, target, **options)
        self._differences[key] = (old, target, result)
        return result

    def go_on(self, pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
        """Return the result of the function `go_on`, remembered for a pod that has not changed."""
        known = self._found.get(pod.uid)
        if known is not None and known[0] is pod and known[1] == settings:
            look_at = known[2].look_at
            if look_at is None or now < look_at:
                self._now[pod.uid] = known
                return known[2]
        progress = go_on(pod, now=now, settings=settings)
        if progress.waits is not None:
            self._now[pod.uid] = (pod, settings, progress)
        return progress

    def forget_others(self) -> None:
        """Call after the last pod of a plan: forgets the pods that this plan did not query."""
        self._found = {}


def _waiting_reason(waiting: Waiting) -> Reason:
    message = f"its update in place is under way: {waiting.because}"
    if waiting.since is not None:
        message += f" (since {format_time(waiting.since)})"
    return Reason(Code.UPDATING_IN_PLACE, message)


def only_in_place(why: str) -> Reason:
    """Return the reason for a pod that is not updated, since its policy only allows in-place updates."""
    return Reason(Code.NOT_IN_PLACE, f"cannot be updated in place, and InPlaceOnly forbids more: {why}")


def unknown_state(pod: PodView) -> Reason:
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
