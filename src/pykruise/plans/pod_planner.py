"""Planners whose object is one pod: what they have in common.

key of a pod ──▶ PodPlanner.snapshot(), .plan() (the kind's own) ──▶ Reconciler
"""

from typing import Any, Generic, Protocol, TypeVar

from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import Owner
from pykruise.plans.sources import Sources
from pykruise.pods.views import PodView

__all__ = ["PodPlanner"]


class _OfOnePod(Protocol):
    @property
    def pod(self) -> PodView: ...


S = TypeVar("S", bound=_OfOnePod)


class PodPlanner(Generic[S]):
    """The part of `plans.reconcile.Planner` that is the same for all that look after single pods."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def owner(self, snapshot: S) -> Owner:
        """The pod."""
        pod = snapshot.pod
        return Owner(
            resource=PODS,
            key=Key(pod.namespace, pod.name),
            uid=pod.uid,
            resource_version=str(pod.resource_version),
            stored_status={},
        )

    def status_after(self, snapshot: S, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """A pod's status is its kubelet's to report."""
        return None

    def is_current(self, snapshot: S) -> bool:
        """Whether the pod is still the same."""
        now = self.sources.pods.get(Key(snapshot.pod.namespace, snapshot.pod.name))
        return now is not None and now.uid == snapshot.pod.uid
