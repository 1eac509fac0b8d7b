"""The pods of a StatefulSet by their ordinals, looked at once for all decisions of a plan.

Snapshot + revisions + limits ──▶ StatefulSetWorkingSet ──▶ scale.py, update.py, refresh.py, claims.py, status.py

Pure. A slot is one ordinal that the set wants; its rank is its place among all slots. Pods with other ordinals
are surplus. A pod whose name says no ordinal takes part in nothing.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from pykruise.kinds.statefulset.limits import StatefulSetLimits
from pykruise.kinds.statefulset.snapshot import StatefulSetSettings, StatefulSetSnapshot, start_of
from pykruise.kinds.statefulset.types import StatefulSetSpec
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.plans.in_place import go_on
from pykruise.pods.lifecycle.availability import is_available
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView, claim_name
from pykruise.pods.workload.ordinals import (
    NO_ORDINAL,
    pod_name,
    reserved_of,
    split_name,
    wanted_ordinals,
)
from pykruise.pods.workload.revisions import RevisionView


class Slot(msgspec.Struct, frozen=True):
    """One pod that the set wants."""

    ordinal: int
    rank: int
    name: str
    pod: PodView | None


class StatefulSetWorkingSet:
    """One look at everything a plan decides about. Never changed once it is made."""

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
        """Its own and those it adopts, oldest first."""
        self.pods = pods
        """Claimed: controlled by it or about to be, matching selector and name; terminating ones too."""
        self._update_hash = update.hash
        self._claim_names = spec.claim_names
        self.reserved = reserved_of(spec.reserve_ordinals or ())
        by_ordinal = {ordinal: pod for pod in pods if (ordinal := self.ordinal(pod)) != NO_ORDINAL}
        wanted = wanted_ordinals(
            start=start_of(spec, settings=snapshot.settings), replicas=limits.replicas, reserved=self.reserved
        )
        owner = snapshot.statefulset.name
        self.slots: Sequence[Slot] = [
            Slot(ordinal, rank, pod_name(owner, ordinal), by_ordinal.pop(ordinal, None))
            for rank, ordinal in enumerate(wanted)
        ]
        self.surplus: Sequence[PodView] = [pod for _, pod in sorted(by_ordinal.items(), reverse=True)]
        """Pods that are to go, the highest ordinal first."""

    # what it was made of

    @property
    def settings(self) -> StatefulSetSettings:
        """Gates."""
        return self.snapshot.settings

    @property
    def now(self) -> Instant:
        """The instant of the decision."""
        return self.snapshot.now

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.snapshot.statefulset.name

    @property
    def namespace(self) -> str:
        """Namespace of the set and of everything that it creates."""
        return self.snapshot.statefulset.namespace

    def key(self, name: str) -> Key:
        """Where a write to an object of the set goes."""
        return Key(self.namespace, name)

    # pods

    def ordinal(self, pod: PodView) -> int:
        """The ordinal in the pod's name; NO_ORDINAL when this set would not have named it so."""
        _, ordinal = split_name(pod.name)
        return ordinal if pod.name == pod_name(self.name, ordinal) else NO_ORDINAL

    @cached_property
    def slot_pods(self) -> Sequence[PodView]:
        """The pods of slots, ascending."""
        return [slot.pod for slot in self.slots if slot.pod is not None]

    @property
    def counted(self) -> Iterator[PodView]:
        """Pods that the status counts."""
        yield from self.slot_pods
        yield from self.surplus

    def is_available(self, pod: PodView) -> bool:
        """Serving for minReadySeconds. One that terminates may still be."""
        return is_available(pod, min_ready_seconds=self.limits.min_ready_seconds, now=self.now)

    @staticmethod
    def is_healthy(pod: PodView) -> bool:
        """Serving and not on its way out."""
        return pod.is_serving and not pod.is_deleting

    @cached_property
    def first_unhealthy(self) -> str:
        """Name of the surplus pod with the lowest ordinal that is not healthy; empty: all are.

        Not one in PreparingDelete: it does not come back, so waiting for it would never end.
        """
        result = [
            pod.name
            for pod in self.surplus
            if not self.is_healthy(pod) and pod.state != LifecycleState.PREPARING_DELETE
        ]
        return result[-1] if result else ""

    def is_updated(self, pod: PodView) -> bool:
        """Whether it is of the update revision."""
        return pod.revision == self._update_hash

    def counts_as_updated(self, pod: PodView) -> bool:
        """The same for who comes first without an order; a gate lets pods that prepare count too."""
        preparing = self.settings.preparing_update_as_update and pod.state == LifecycleState.PREPARING_UPDATE
        return preparing or self.is_updated(pod)

    def is_in_flux(self, pod: PodView) -> bool:
        """Whether an update in place of the pod is not complete."""
        if not pod.may_be_updating:
            return False
        return not go_on(pod, now=self.now, settings=self.settings.in_place).is_complete

    # claims

    def claims_of(self, ordinal: int) -> list[ClaimView]:
        """The claims there are of the pod with this ordinal, in the order of the templates."""
        result = (
            self.snapshot.claims.get(claim_name(name, owner=self.name, suffix=str(ordinal)))
            for name in self._claim_names
        )
        return [claim for claim in result if claim is not None]
