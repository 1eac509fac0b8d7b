"""Resizes that fail permanently, and recreation of the pods instead. The rules are the same for every kind.

the kubelet reports Infeasible ──▶ plan_recreation_instead() ──▶ the pod is specified for deletion
                               ──▶ find_given_up() ──▶ time from which the pod counts as outdated (DaemonSet)
the API server rejects resizes ──▶ drop_other_causes() ──▶ conditions with the time of the first rejection
  for resize_patience_s        ──▶ find_overdue_refusals() ──▶ the first pod to resize, and why it is recreated
                               ──▶ plan_recreation_instead() ──▶ a pod that was prepared for its resize is specified
                                                                 for deletion

Pure. A pod is recreated only if the update policy allows this. The kind itself deletes the pods.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from pykruise.kube.clock import Instant, parse_time
from pykruise.plans.in_place import InPlaceProgress, find_progress, is_resize_infeasible
from pykruise.plans.phases import SpecifyPod
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.in_place import InPlaceSettings, UpdateSpec
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import condition_of, drop_conditions
from pykruise.runtime.plan import Note
from pykruise.runtime.reasons import Reason


class WrittenCondition(Protocol):
    """A condition of a workload. Each kind has its own type that fits this protocol."""

    @property
    def type(self) -> str:
        """Type of the condition."""

    @property
    def status(self) -> str:
        """`True`, `False` or `Unknown`."""

    @property
    def reason(self) -> str:
        """Code of the reason."""

    @property
    def last_transition_time(self) -> str | None:
        """Time since which the condition has its status."""


C = TypeVar("C", bound=WrittenCondition)


# Resizes of pods whose update has begun


def plan_recreation_instead(
    pod: PodView,
    progress: InPlaceProgress,
    *,
    policy: str,
    refused_since: Instant | None,
    settings: InPlaceSettings,
    now: Instant,
) -> SpecifyPod | None:
    """Decide whether a pod that waits for its new resources is recreated: because its node can never provide them, or
    because the API server has rejected the resize since `refused_since`. If so, the pod is specified for deletion.

    The kind then deletes the pod by its own rules. None if the pod has not waited long enough, or if the policy does
    not allow its recreation.
    """
    if policy != PodUpdatePolicy.IN_PLACE_IF_POSSIBLE or pod.is_specified_delete:
        return None
    is_resize = progress.decision is not None and progress.decision.is_resize
    if progress.has_given_up(now):
        because = explain_infeasible(settings)
    elif is_resize and _is_overdue(refused_since, settings=settings, now=now):
        because = _describe_refusal(settings)
    else:
        return None
    note = make_recreation_note(pod, because)
    return SpecifyPod(pod=pod, because=because, done=note, unchanged=True)


def explain_infeasible(settings: InPlaceSettings) -> str:
    """Return why a pod is recreated, if it has waited too long for resources that its node can never provide."""
    return (
        "its node can never provide the new resources, and "
        f"{settings.resize_patience_s:g} s have passed: the pod is recreated instead"
    )


def make_recreation_note(pod: PodView, because: str) -> Note:
    """Return the event about a pod that is recreated. `because` is the reason."""
    message = f"pod {pod.name} is recreated: {because}"
    return Note(reason=Code.RESIZE_INFEASIBLE, message=message, warning=True)


def find_given_up(pods: Iterable[PodView], *, settings: InPlaceSettings, now: Instant) -> dict[str, Instant]:
    """Return the uid of each pod whose node can never provide its new resources → the time at which the resize is given
    up.

    This is for kinds without a lifecycle state for pods in an update.
    """
    infeasible = (pod for pod in pods if pod.is_active and is_resize_infeasible(pod))
    times = ((pod.uid, find_progress(pod, now=now, settings=settings).gives_up_at) for pod in infeasible)
    return {uid: at for uid, at in times if at is not None}


# Resizes that the API server rejects


def find_overdue_refusals(
    changes: Iterable[tuple[PodView, UpdateSpec]],
    *,
    refused_since: Instant | None,
    settings: InPlaceSettings,
    now: Instant,
) -> dict[str, str]:
    """Return the first pod to resize and why it is recreated, if the API server has rejected resizes for too long.
    Otherwise return an empty result. Only one pod is returned, because other resizes are perhaps accepted.

    `changes`: pods whose update can begin now, each with its changes.
    """
    if not _is_overdue(refused_since, settings=settings, now=now):
        return {}
    first = next((pod for pod, change in changes if change.resources), None)
    return {first.name: _describe_refusal(settings)} if first is not None else {}


def _is_overdue(refused_since: Instant | None, *, settings: InPlaceSettings, now: Instant) -> bool:
    return refused_since is not None and now >= refused_since + settings.resize_patience_s


def _describe_refusal(settings: InPlaceSettings) -> str:
    return f"the API server has rejected the resize of a pod for {settings.resize_patience_s:g} s"


def read_refused_since(conditions: Iterable[WrittenCondition] | None, kind: str) -> Instant | None:
    """Return since when the condition of this type reports that the API server rejects a resize; None if it does not
    report this.
    """
    failed = condition_of(conditions, kind)
    if failed is None or (failed.status, failed.reason) != ("True", Code.RESIZE_REFUSED):
        return None
    return parse_time(failed.last_transition_time) if failed.last_transition_time else None


def drop_other_causes(conditions: Sequence[C], kind: str, reason: Reason) -> Sequence[C]:
    """Return the conditions. If `reason` is a rejected resize, leave out a condition of this type with another cause.

    Otherwise the condition would stay True and keep the transition time of the other cause. This time must be the time
    of the first rejected resize, because `resize_patience_s` is counted from it.
    """
    old = condition_of(conditions, kind)
    if reason.code != Code.RESIZE_REFUSED or old is None or old.reason == reason.code:
        return conditions
    return drop_conditions(conditions, kind)
