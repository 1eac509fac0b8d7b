"""Updates in place as steps of a plan: the engine's writes with their preconditions and events.

pods/in_place start() ──▶ writes ──▶ update_steps() ──▶ steps of a chain
pod under way         ──▶ go_on() ──▶ Progress: steps, what it waits for, or that nothing is open any more

Pure; serves every kind. The engine (pods/in_place) knows what changes and when it is done; which pods, how
many and with which labels is the kind's.
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
"""Most pods whose update one plan begins. Those that are done come back into service before the next are taken
out: a pod is then out of service for as long as its containers need, and not for as long as the rollout."""

_FEWEST: Final = 10  # keep an API server busy: with fewer it is slower, with more they are out for longer
_PODS_PER_PLACE: Final = 64


def begun_at_once(pods: int) -> int:
    """Pods whose update one plan begins, when it looks at `pods` of them.

    A pod that is done waits for the plan under way to end, so the fewer a plan begins the sooner it is back;
    but every plan looks at all pods, so a large set begins more of them with each.
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
    """The engine's writes as steps; `done` is called after the last. `unchanged`: the first one insists on the pod as
    it was seen, as those that the engine has marked `checked` do."""
    last = len(writes) - 1
    return tuple(
        Step(
            # After the chain's own first write the version that was looked at is gone.
            action=pod_patch(
                pod,
                write.body,
                subresource=write.subresource,
                unchanged=(write.checked or unchanged) and number == 0,
            ),
            because=write.because,
            done=done if number == last else None,
            failed=failed,
        )
        for number, write in enumerate(writes)
    )


def begin_steps(pod: PodView, writes: Sequence[PodPatch], *, revision: str) -> tuple[Step, ...]:
    """The steps that begin an update of the pod to `revision`, with their events."""
    done = Note(reason="SuccessfulUpdatePodInPlace", message=f"updated pod {pod.name} in place to {revision}")
    failed = Note(
        reason="FailedUpdatePodInPlace",
        message=f"failed to update pod {pod.name} in place to {revision}",
        warning=True,
    )
    # Had a pod that does not serve become ready meanwhile, it would cost a place in the budget.
    return update_steps(pod, writes, done=done, failed=failed, unchanged=not pod.is_serving)


class InPlaceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the update of one pod is."""

    steps: tuple[Step, ...] = ()
    """Writes by which it goes on."""
    is_complete: bool = False
    conditions: tuple[Document, ...] = ()
    """When complete: what brings the pod back into service."""
    waits: Reason | None = None
    look_at: Instant | None = None
    """When time alone may end the waiting."""
    is_broken: bool = False
    """It cannot go on by itself; `waits` says why."""
    gives_up_at: Instant | None = None
    """When a pod that may be recreated is, because its node can never give it its new resources; None: it can."""

    def has_given_up(self, now: Instant) -> bool:
        """Whether it is time to recreate the pod, where its policy allows that."""
        return self.gives_up_at is not None and now >= self.gives_up_at


def go_on(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
    """The next step of a pod that is, or may be, under way."""
    result = next_step(pod, now=now, settings=settings)
    match result:
        case Continue(writes=writes):
            failed = Note(
                reason="FailedUpdatePodInPlace",
                message=f"failed to go on with the update in place of pod {pod.name}",
                warning=True,
            )
            return InPlaceProgress(steps=update_steps(pod, writes, failed=failed))
        case Complete(conditions=conditions):
            return InPlaceProgress(is_complete=True, conditions=conditions)
        case Waiting():
            ends = _gives_up_at(pod, result, settings)
            times = [time for time in (result.look_at, ends) if time is not None and time > now]
            look_at = min(times, default=result.look_at)
            return InPlaceProgress(waits=_since(result), look_at=look_at, gives_up_at=ends)
        case Broken(problem=problem):
            message = f"its update in place cannot go on: {problem}"
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

    `revisions`: those that are stored, under the hash that pods carry. `undeclaring`: nodes on which no pod can be
    resized as a whole.
    """

    def __init__(self, revisions: Mapping[str, RevisionView], *, undeclaring: Collection[str] = ()) -> None:
        self._revisions = revisions
        self._undeclaring = undeclaring
        self._found: dict[str, UpdateSpec | NotInPlace] = {}

    def of(self, pod: PodView) -> UpdateSpec | NotInPlace:
        """Change of the pod, or the reason to recreate it."""
        result = self._found.get(pod.revision)
        if result is None:
            result = self._found[pod.revision] = self.between(self._revisions.get(pod.revision))
        return on_node(result, pod.node_name, undeclaring=self._undeclaring) if self._undeclaring else result

    @abstractmethod
    def between(self, old: RevisionView | None) -> UpdateSpec | NotInPlace:
        """The same for pods of a revision; None: it is not stored any more."""


class DifferenceOptions(TypedDict):
    """Options of `difference`, besides the two revisions."""

    revision: str
    settings: InPlaceSettings
    grace_seconds: int
    ignore_claims: bool


_MOST_DIFFERENCES: Final = 64


class SeenInPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of the last plan: pods that wait in an update, which still wait if they have not changed since, and
    differences between two revisions.

    Hundreds of pods may be under way at once (images are pulled for minutes), and every plan asks about each. It is a
    value: the snapshot has that of the last plan, and the plan its own (`Plan.memory`). Plans come out the same
    without it.
    """

    pods: Mapping[str, tuple[PodView, InPlaceSettings, InPlaceProgress]] = {}
    """Findings by pod UID."""
    differences: Mapping[tuple[Any, ...], tuple[Any, Any, UpdateSpec | NotInPlace]] = {}


class Recall:
    """Reads of one plan from `SeenInPlace`, with its own findings; the next plan starts with `seen`."""

    def __init__(self, seen: SeenInPlace | None = None) -> None:
        known = seen or SeenInPlace()
        self._found = known.pods
        self._now: dict[str, tuple[PodView, InPlaceSettings, InPlaceProgress]] = {}
        self._differences = dict(known.differences)

    @property
    def seen(self) -> SeenInPlace:
        """All that was found until now. Pods that were not asked about are kept until `forget_others()`."""
        return SeenInPlace(pods={**self._found, **self._now}, differences=dict(self._differences))

    def difference(
        self, old: Template | None, target: Template, **options: Unpack[DifferenceOptions]
    ) -> UpdateSpec | NotInPlace:
        """As the function `difference`, of revisions that stay the same values from plan to plan."""
        key = (id(old), id(target), *options.values())
        known = self._differences.get(key)
        if known is not None:  # it holds both, so their ids are still theirs
            answer: UpdateSpec | NotInPlace = known[2]
            return answer
        if len(self._differences) >= _MOST_DIFFERENCES:
            self._differences.clear()
        result = difference(old, target, **options)
        self._differences[key] = (old, target, result)
        return result

    def go_on(self, pod: PodView, *, now: Instant, settings: InPlaceSettings) -> InPlaceProgress:
        """As the function `go_on`."""
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
        """Call it after the last pod of a plan: forgets the pods that this plan did not ask about."""
        self._found = {}


def _since(waiting: Waiting) -> Reason:
    message = f"its update in place is under way: {waiting.because}"
    if waiting.since is not None:
        message += f" (since {format_time(waiting.since)})"
    return Reason(Code.UPDATING_IN_PLACE, message)


def only_in_place(why: str) -> Reason:
    """Why a pod is not updated at all: its policy allows no other way."""
    return Reason(Code.NOT_IN_PLACE, f"cannot be updated in place, and InPlaceOnly forbids more: {why}")


def unknown_state(pod: PodView) -> Reason:
    """Why a pod is not updated: a newer manager may have put it into its state."""
    message = f"its lifecycle state {pod.state!r} is not known to this version"
    remedy = "correct the pod's label lifecycle.apps.kruise.io/state"
    return Reason(Code.BROKEN_UPDATE, message, remedy)


def summary_of(refused: Mapping[str, Reason], code: Code) -> Reason | None:
    """One reason for a condition or an event: the first pod's, and how many more there are; None: there is none."""
    if not refused:
        return None
    name, reason = next(iter(refused.items()))
    others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return Reason(code, f"pod {name}{others}: {reason.message}")
