"""Evicted pods of a CloneSet, each with the successor that is created before the pod is deleted.

pods + marks ──▶ find_evictions() ──▶ CloneSetEvictions ──▶ working_set.py, scale.py (creates successors), waiting.py,
                                                            evict.py (deletes evicted pods)

Pure. Without the option eviction-surge there are no evicted pods. All other decisions count an evicted pod and its
successor as one pod: until the successor is available, only the evicted pod counts, and afterwards only the successor.
So neither an update nor scaling uses the additional pod, and the evicted pod's deletion makes no pod unavailable.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.limits import Mark
from pykruise.kinds.cloneset.snapshot import ReadableCloneSet
from pykruise.kube.clock import Instant
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.evictions import WANTED_S, read_requested_at
from pykruise.pods.workload.options import EVICTION_SURGE
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason


class CloneSetEvictions(msgspec.Struct, frozen=True, kw_only=True):
    """Pods whose eviction was requested, in the order of their names."""

    most: int = 0
    """Maximum number of successors at the same time; 0 if the option is not set."""
    waiting: Sequence[PodView] = ()
    """Evicted pods without an available successor. They count as pods of the CloneSet."""
    released: Sequence[PodView] = ()
    """Evicted pods whose successor is available. They do not count as pods of the CloneSet."""
    pending: Sequence[PodView] = ()
    """Successors that are not available. They do not count as pods of the CloneSet."""
    stale: Sequence[PodView] = ()
    """Pods of `pending` with an outdated revision: a successor that is created now would get another revision."""
    successors: Mapping[str, PodView] = {}
    """Uid of an evicted pod → its successor."""
    expired: Sequence[PodView] = ()
    """Pods whose eviction request has expired."""
    look_at: Instant | None = None
    """Time at which the next eviction request expires."""

    @property
    def aside(self) -> frozenset[str]:
        """Names of the pods that do not count as pods of the CloneSet."""
        return frozenset(pod.name for pod in (*self.released, *self.pending))

    def choose_for_successors(self, *, surplus: int, terminating: int) -> Sequence[PodView]:
        """Choose the evicted pods that get a successor now. `surplus`: number of pods that a scale-in deletes, evicted
        pods first. `terminating`: number of terminating pods for which no successor can be created yet.
        """
        lacking = [pod for pod in self.waiting if pod.uid not in self.successors]
        room = self.most - len(self.pending) - len(self.released) - terminating
        return lacking[: max(min(room, len(lacking) - surplus), 0)]

    def explain_waits(self) -> dict[str, Reason]:
        """Return the name of each evicted pod that is not deleted yet, with the reason."""
        return {pod.name: self.explain_wait(pod) for pod in self.waiting}

    def explain_wait(self, pod: PodView) -> Reason:
        """Return the reason why this evicted pod is not deleted yet."""
        successor = self.successors.get(pod.uid)
        if successor is not None:
            return Reason(
                Code.SPECIFIED,
                f"must be evicted, and waits until its successor {successor.name} is available",
            )
        limit = f"{EVICTION_SURGE.annotation} allows {format_count(self.most, 'successor')} at the same time"
        return Reason(Code.SPECIFIED, f"must be evicted, and waits for a successor: {limit}")


NO_EVICTIONS: Final = CloneSetEvictions()


def choose_revision(pod: PodView, *, update: RevisionView, current: RevisionView) -> RevisionView:
    """Return the revision of an evicted pod's successor. If the pod has the update revision, so has the successor;
    otherwise the successor gets the current revision. So an eviction neither continues nor undoes an update.
    """
    return update if pod.revision == update.hash else current


def find_evictions(
    snapshot: ReadableCloneSet,
    *,
    pods: Sequence[PodView],
    marks: Sequence[Mark],
    update: RevisionView,
    current: RevisionView,
) -> CloneSetEvictions:
    """Find the evicted pods and their successors among the active pods."""
    surge = EVICTION_SURGE.read(snapshot.cloneset.annotations)
    if surge is None:
        return NO_EVICTIONS
    now = snapshot.now
    mark_of = {pod.name: mark for pod, mark in zip(pods, marks, strict=True)}
    followers = [pod for pod in pods if keys.SUCCESSOR_OF_ANNOTATION in pod.annotations]
    # For a short time there may be two leaders, and each may create a successor. Only one successor is used, preferably
    # an available one; the other successor is a surplus pod.
    followers.sort(key=lambda pod: (mark_of[pod.name].is_available, pod.name))
    follower_of = {pod.annotations[keys.SUCCESSOR_OF_ANNOTATION]: pod for pod in followers}
    requested = dict(_list_requests(pods, mark_of, follower_of))
    by_name = sorted((pod for pod in pods if pod.name in requested), key=lambda pod: pod.name)
    wanted = [pod for pod in by_name if requested[pod.name] + WANTED_S > now]
    pairs = [(pod, follower_of[pod.uid]) for pod in wanted if pod.uid in follower_of]
    released = {pod.name for pod, follower in pairs if mark_of[follower.name].is_available}
    held = [(pod, follower) for pod, follower in pairs if pod.name not in released]
    # If a successor that is not available is evicted, it needs no successor.
    uncounted = {*released, *(follower.name for _, follower in held)}
    return CloneSetEvictions(
        most=resolve(surge, of=snapshot.cloneset.spec.replicas, rounding=Rounding.UP),
        waiting=[pod for pod in wanted if pod.name not in uncounted],
        released=[pod for pod in wanted if pod.name in released],
        pending=[follower for _, follower in held],
        stale=[
            follower
            for pod, follower in held
            if follower.revision != choose_revision(pod, update=update, current=current).hash
        ],
        successors={pod.uid: follower for pod, follower in pairs},
        expired=[pod for pod in by_name if requested[pod.name] + WANTED_S <= now],
        look_at=min((requested[pod.name] + WANTED_S for pod in wanted), default=None),
    )


def _list_requests(
    pods: Sequence[PodView], mark_of: Mapping[str, Mark], followed: Collection[str]
) -> Iterator[tuple[str, Instant]]:
    """Yield the name of each pod with an eviction request, and the time of the request. Pods that are deleted for
    another reason are left out, because they need no successor. `followed`: uids of the pods that have a successor.
    """
    for pod in pods:
        requested_at, mark = read_requested_at(pod.annotations), mark_of[pod.name]
        is_leaving = mark.is_to_delete or (mark.is_pre_deleting and pod.uid not in followed)
        if requested_at is not None and not is_leaving:
            yield pod.name, requested_at
