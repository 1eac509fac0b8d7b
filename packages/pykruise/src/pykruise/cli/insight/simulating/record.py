"""Record of a simulation: every commit of a pod or a PVC, as actions, events and samples.

storage ──on_pod(), on_claim()──▶ PlayRecord ──▶ actions, samples, events, restarts

`mark_actions()` marks the actor: writes inside its context are the manager's.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from pykruise.cli.insight.simulating.values import PlayAction, Sample
from pykruise.kinds.uniteddeployment.workloads import REVISION_LABEL, SUBSET_LABEL
from pykruise.plans.pod_steps import StepReport
from pykruise.pods.injection_records import RecordError, read_records
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.decoding import PodProjector
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION, SIDECARSET_HASH_ANNOTATION
from pykruise.pods.view.matched_spread import read_matched
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.view.pod_view import FINISHED, PodView
from pykruise.sandbox.apiserver.objects.storage import StorageChange

_IS_MANAGER: ContextVar[bool] = ContextVar("is_manager", default=False)


@contextmanager
def mark_actions() -> Iterator[None]:
    """Mark every write inside this context as an action of the manager."""
    token = _IS_MANAGER.set(True)
    try:
        yield
    finally:
        _IS_MANAGER.reset(token)


class PlayRecord:
    """Record of one simulation. `sidecars`: name of the SidecarSet whose revisions are counted instead of the
    workload's. `is_job`: finished pods are counted too.

    `on_change` is called with every changed pod, before and after the change.
    """

    def __init__(
        self,
        *,
        sidecars: str,
        on_change: Callable[[PodView | None, PodView | None], None],
        is_job: bool = False,
    ) -> None:
        self._sidecars = sidecars
        self._is_job = is_job
        self._on_change = on_change
        self._project = PodProjector()
        self._batch = 0
        self._has_moved = True
        self._zero: float | None = None
        self._counted: dict[str, tuple[str, str, bool]] = {}
        """Active pods by UID with the values that are counted: revision, subset, and whether the pod is available."""
        self._revisions: Counter[str] = Counter()
        self._subsets: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._available = 0
        self.pods: dict[str, PodView] = {}
        """Pods by UID."""
        self.actions: list[PlayAction] = []
        self.samples: list[Sample] = []
        self.events: list[tuple[float, str]] = []
        self.restarts = 0
        self.kept: Counter[tuple[str, str, str]] = Counter()
        """Number of denied requests by kind and name of the denying object, and by pod."""
        self.last = 0.0
        """Time of a pod's last change, in the loop's time."""

    @property
    def has_begun(self) -> bool:
        """Whether the change has been made."""
        return self._zero is not None

    @property
    def duration_s(self) -> float:
        """Seconds from the change to the last change of a pod."""
        return max(self.last - (self._zero or 0.0), 0.0)

    def begin(self) -> None:
        """Start the clock of the result; the existing pods are the starting point."""
        self._zero = self.last = read_loop_time()
        self.actions.clear()
        self.events.clear()
        self.samples.clear()
        self.restarts = 0
        self.kept.clear()
        self._batch = 0
        self._has_moved = True
        self._record_sample()

    def tell(self, what: str) -> None:
        """Record an event."""
        self.events.append((self._compute_elapsed_s(), what))

    def keep(self, _component: str, report: StepReport) -> None:
        """Record that an object denied a request in order to protect a pod. Every denial is counted, and the first one
        becomes an event.
        """
        prevented = report.prevented
        if prevented is None:
            return
        about = (prevented.kind, prevented.name, prevented.pod)
        self.kept[about] += 1
        if self.kept[about] == 1:
            self.tell(f"{prevented.pod} is protected by {prevented.kind} {prevented.name}")

    def revision_of(self, pod: PodView) -> str:
        """Return the hash of the pod's revision: of the SidecarSet, the UnitedDeployment or the workload."""
        if not self._sidecars:
            # Each workload of a UnitedDeployment has its own revisions, so the label of the UnitedDeployment comes
            # first.
            united = pod.labels.get(REVISION_LABEL)
            return str(shorten_hash(united) if united else pod.revision)
        try:
            records = read_records(pod.annotations, SIDECARSET_HASH_ANNOTATION)
        except RecordError:
            return ""
        record = records.get(self._sidecars)
        return shorten_hash(record.revision) if record is not None else ""

    def on_pod(self, change: StorageChange) -> None:
        """Handle a pod that was stored or removed."""
        try:
            now = read_loop_time()
        except RuntimeError:
            return  # it existed before the simulation
        stored = change.new or change.old
        assert stored is not None
        before = self.pods.get(stored.uid)
        after = self._project(change.new.raw) if change.new is not None else None
        if after is None:
            self.pods.pop(stored.uid, None)
        else:
            self.pods[stored.uid] = after
        if before is None and after is None:
            return
        self._count(stored.uid, after)
        self.last = now
        if _IS_MANAGER.get():
            self._note_operation(before, after)
        else:
            self._note_event(before, after)
        self._on_change(before, after)
        self._record_sample()

    def on_claim(self, change: StorageChange) -> None:
        """Handle a PVC that was stored or removed."""
        if change.old is not None and change.new is not None:
            return
        stored = change.new or change.old
        assert stored is not None
        do = "create claim" if change.old is None else "delete claim"
        self.actions.append(
            PlayAction(at_s=self._compute_elapsed_s(), batch=self._batch, do=do, name=stored.key.name)
        )

    # ── internals ────────────────────────────────────────────────────────────

    def _compute_elapsed_s(self) -> float:
        return round(read_loop_time() - (self._zero or 0.0), 3)

    def _note_operation(self, before: PodView | None, after: PodView | None) -> None:
        if before is None and after is not None:
            self._record_action("create", after)
        elif before is not None and not before.is_deleting and (after is None or after.is_deleting):
            self._record_action("delete", before)
        elif before is not None and after is not None:
            if before.revision != after.revision:
                self._record_action("update in place", after)
            elif self.revision_of(before) != self.revision_of(after):
                self._record_action("upgrade sidecars", after)
            elif after.state != before.state and after.state == LifecycleState.PREPARING_DELETE:
                self._record_action("prepare deletion", after)
            elif after.state != before.state and after.state == LifecycleState.PREPARING_UPDATE:
                self._record_action("prepare update", after)

    def _record_action(self, do: str, pod: PodView) -> None:
        if self._has_moved:
            self._batch += 1
            self._has_moved = False
        self.actions.append(
            PlayAction(
                at_s=self._compute_elapsed_s(),
                batch=self._batch,
                do=do,
                name=pod.name,
                revision=self.revision_of(pod),
                subset=_find_subset_name(pod),
                node=pod.target_node if self._is_job else "",
            )
        )

    def _note_event(self, before: PodView | None, after: PodView | None) -> None:
        if before is None or after is None:
            self._has_moved = True
            return
        if before.is_ready != after.is_ready and not self._is_job:
            self._has_moved = True
            self.tell(f"{after.name} is {'ready' if after.is_ready else 'not ready'}")
        elif before.is_deleting != after.is_deleting:
            self._has_moved = True
        if self._is_job and before.phase != after.phase and after.phase in FINISHED:
            self._has_moved = True
            self.tell(f"{after.name} on {after.node_name} has {after.phase.lower()}")
        self.restarts += max(_restart_count(after) - _restart_count(before), 0)

    def _record_sample(self) -> None:
        if self._zero is None:
            return
        sample = Sample(
            at_s=self._compute_elapsed_s(),
            revisions=dict(+self._revisions),
            available=self._available,
            subsets=dict(+self._subsets),
            ended=dict(+self._ended),
        )
        last = self.samples[-1] if self.samples else None
        if last is not None and last.at_s == sample.at_s:
            self.samples[-1] = sample
        elif last is None or msgspec.structs.replace(last, at_s=sample.at_s) != sample:
            self.samples.append(sample)

    def _count(self, uid: str, pod: PodView | None) -> None:
        """Replace the old values of a pod in the counts with its present values."""
        if self._is_job:
            self._ended = Counter(pod.phase for pod in self.pods.values() if pod.phase in FINISHED)
        new: tuple[str, str, bool] | None = None
        if pod is not None and pod.is_active and pod.controller is not None:
            new = (self.revision_of(pod), _find_subset_name(pod), pod.is_serving)
        old = self._counted.pop(uid, None)
        if new is not None:
            self._counted[uid] = new
        for value, step in ((old, -1), (new, 1)):
            if value is not None and old != new:
                revision, subset, is_available = value
                self._revisions[revision] += step
                self._available += step * is_available
                if subset:
                    self._subsets[subset] += step


def _find_subset_name(pod: PodView) -> str:
    """Return the pod's subset of a WorkloadSpread or UnitedDeployment; empty if the pod has no subset."""
    matched = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return matched.subset if matched is not None else pod.labels.get(SUBSET_LABEL, "")


def read_loop_time() -> float:
    """Return the loop's current time."""
    return asyncio.get_running_loop().time()


def _restart_count(pod: PodView) -> int:
    return sum(status.restart_count for status in pod.container_statuses)
