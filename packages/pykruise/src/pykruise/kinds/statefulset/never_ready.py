"""Pods of older revisions that have never been ready: the time when they are replaced, independently of the update
order.

StatefulSetWorkingSet ──▶ NeverReady ──▶ scale.py, update.py, waiting.py, plan.py

Pure. Without the option replace-never-ready-after-seconds no pod qualifies. A pod qualifies under three
conditions: its stored status proves that it has never been ready (PodView.is_never_ready), it is old enough, and the
partition and the strategy allow its update now. Its update costs no budget, because the pod does not serve.
"""

from collections.abc import Iterator
from typing import Final

from pykruise.kinds.statefulset.order import list_candidates
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.clock import Instant, format_time
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import REPLACE_NEVER_READY

NEVER_READY: Final = "it has never been ready"


class NeverReady:
    """The pods that the option replaces, each with the instant from which it is replaced."""

    def __init__(self, ws: StatefulSetWorkingSet) -> None:
        self._now = ws.now
        self.is_on = False
        """Whether the option is set."""
        self._due_at: dict[str, Instant] = {}
        after_s = REPLACE_NEVER_READY.read(ws.snapshot.statefulset.annotations)
        if after_s is None:
            return
        self.is_on = True
        if not ws.spec.is_paused:
            self._due_at = dict(_find_due_times(ws, after_s=after_s))

    def is_due(self, pod: PodView) -> bool:
        """Whether the pod is replaced now."""
        due_at = self._due_at.get(pod.name)
        return due_at is not None and due_at <= self._now

    def explain(self, pod: PodView) -> str:
        """Text about the time of the replacement, for the end of a sentence about the pod; empty: the option does not
        replace this pod.
        """
        due_at = self._due_at.get(pod.name)
        if due_at is None:
            return ""
        return f"{NEVER_READY}, and is replaced by a pod of the newest revision at {format_time(due_at)}"

    def find_next_time(self) -> Instant | None:
        """The next instant at which the option replaces another pod; None: it replaces no pod later."""
        return min((due_at for due_at in self._due_at.values() if due_at > self._now), default=None)


def _find_due_times(ws: StatefulSetWorkingSet, *, after_s: int) -> Iterator[tuple[str, Instant]]:
    for slot in list_candidates(ws):
        pod = slot.pod
        if pod is not None and pod.created_at is not None and _may_be_replaced(ws, pod):
            yield pod.name, pod.created_at + after_s


def _may_be_replaced(ws: StatefulSetWorkingSet, pod: PodView) -> bool:
    return pod.is_active and pod.is_never_ready and not ws.is_updated(pod)
