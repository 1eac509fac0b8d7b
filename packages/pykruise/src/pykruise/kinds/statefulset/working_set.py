"""The pods of a StatefulSet by their ordinals, inspected once for all decisions of a plan.

StatefulSetSnapshot + revisions + limits
    ──▶ StatefulSetWorkingSet ──▶ scale.py, update.py, refresh.py, claims.py, status.py

Pure. A slot is one ordinal that the set should have. Its rank is its position among all slots. Pods with other
ordinals are surplus. A pod without an ordinal in its name is ignored.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from pykruise.kinds.statefulset.limits import StatefulSetLimits
from pykruise.kinds.statefulset.snapshot import StatefulSetSettings, StatefulSetSnapshot, start_of
from pykruise.kinds.statefulset.types import StatefulSetSpec
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.plans.in_place import find_progress
from pykruise.pods.lifecycle.availability import is_available
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView, format_claim_name
from pykruise.pods.workload.ordinals import (
    NO_ORDINAL,
    format_pod_name,
    list_wanted_ordinals,
    reserved_of,
    split_name,
)
from pykruise.pods.workload.revisions import RevisionView


class Slot(msgspec.Struct, frozen=True):
    """A pod that the set should have."""

    ordinal: int
    rank: int
    name: str
    pod: PodView | None


class StatefulSetWorkingSet:
    """All facts on which a plan is based, computed once. They never change after their creation."""

    def __init__(
        self,
        snapshot: StatefulSetSnapshot,
        *,
        spec: StatefulSetSpec,
        limits: StatefulSetLimits,
        update: RevisionView,
        current: RevisionView,
        revisions: Sequence[RevisionView],
        pods: Sequence[PodView],
    ) -> None:
        self.snapshot = snapshot
        self.spec = spec
        self.limits = limits
        self.update = update
        self.current = current
        self.revisions = revisions
        """The set's own revisions and those that it adopts, oldest first."""
        self.pods = pods
        """Pods that the set controls or adopts, whose labels and name match; terminating pods are included."""
        self._update_hash = update.hash
        self._claim_names = spec.claim_names
        self.reserved = reserved_of(spec.reserve_ordinals or ())
        by_ordinal = {ordinal: pod for pod in pods if (ordinal := self.read_ordinal(pod)) != NO_ORDINAL}
        wanted = list_wanted_ordinals(
            start=start_of(spec, settings=snapshot.settings), replicas=limits.replicas, reserved=self.reserved
        )
        owner = snapshot.statefulset.name
        self.slots: Sequence[Slot] = [
            Slot(ordinal, rank, format_pod_name(owner, ordinal), by_ordinal.pop(ordinal, None))
            for rank, ordinal in enumerate(wanted)
        ]
        self.surplus: Sequence[PodView] = [pod for _, pod in sorted(by_ordinal.items(), reverse=True)]
        """Surplus pods, the highest ordinal first."""

    # values of the snapshot

    @property
    def settings(self) -> StatefulSetSettings:
        """Gates."""
        return self.snapshot.settings

    @property
    def now(self) -> Instant:
        """Instant of the decision."""
        return self.snapshot.now

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.snapshot.statefulset.name

    @property
    def namespace(self) -> str:
        """Namespace of the set and of everything that it creates."""
        return self.snapshot.statefulset.namespace

    def make_key(self, name: str) -> Key:
        """Key of an object in the set's namespace."""
        return Key(self.namespace, name)

    # pods

    def read_ordinal(self, pod: PodView) -> int:
        """Ordinal in the pod's name; NO_ORDINAL when this set does not give such a name to pods."""
        _, ordinal = split_name(pod.name)
        return ordinal if pod.name == format_pod_name(self.name, ordinal) else NO_ORDINAL

    @cached_property
    def slot_pods(self) -> Sequence[PodView]:
        """Pods of the slots, in ascending order."""
        return [slot.pod for slot in self.slots if slot.pod is not None]

    @property
    def counted(self) -> Iterator[PodView]:
        """Pods that the status counts."""
        yield from self.slot_pods
        yield from self.surplus

    def is_available(self, pod: PodView) -> bool:
        """Whether the pod has been serving for minReadySeconds. A terminating pod may still be available."""
        return is_available(pod, min_ready_seconds=self.limits.min_ready_seconds, now=self.now)

    @staticmethod
    def is_healthy(pod: PodView) -> bool:
        """Whether the pod serves and is not terminating."""
        return pod.is_serving and not pod.is_deleting

    @cached_property
    def first_unhealthy(self) -> str:
        """Name of the surplus pod with the lowest ordinal that is not healthy; empty: all are healthy.

        A pod in PreparingDelete is ignored: it does not return to service, so waiting for it would never end.
        """
        result = [
            pod.name
            for pod in self.surplus
            if not self.is_healthy(pod) and pod.state != LifecycleState.PREPARING_DELETE
        ]
        return result[-1] if result else ""

    def is_updated(self, pod: PodView) -> bool:
        """Whether the pod has the update revision."""
        return pod.revision == self._update_hash

    def counts_as_updated(self, pod: PodView) -> bool:
        """Whether the pod counts as updated under unorderedUpdate. With the feature gate PreparingUpdateAsUpdate, this
        includes pods in PreparingUpdate.
        """
        preparing = self.settings.preparing_update_as_update and pod.state == LifecycleState.PREPARING_UPDATE
        return preparing or self.is_updated(pod)

    def is_in_flux(self, pod: PodView) -> bool:
        """Whether an in-place update of the pod is not complete."""
        if not pod.may_be_updating:
            return False
        return not find_progress(pod, now=self.now, settings=self.settings.in_place).is_complete

    # claims

    def claims_of(self, ordinal: int) -> list[ClaimView]:
        """Existing claims of the pod with this ordinal, in the order of the templates."""
        result = (
            self.snapshot.claims.get(format_claim_name(name, owner=self.name, suffix=str(ordinal)))
            for name in self._claim_names
        )
        return [claim for claim in result if claim is not None]
