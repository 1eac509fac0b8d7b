"""Updates in place of a StatefulSet's pods: the difference between each pod and the update revision.

StatefulSetWorkingSet ──▶ StatefulSetDifferences ──▶ update.py (how), pre_download.py (whether), refresh.py
(recreation)

Pure. The engine (pods/in_place) knows what changes; plans/in_place_steps.py builds the steps and writes.
"""

from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.plans.in_place import ByRevision
from pykruise.plans.in_place_steps import TurnTarget
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.in_place import NotInPlace, UpdateSpec, difference
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView


class StatefulSetDifferences(ByRevision):
    """Differences between pods and the update revision."""

    def __init__(self, ws: StatefulSetWorkingSet) -> None:
        revisions: dict[str, RevisionView] = {revision.hash: revision for revision in ws.revisions}
        super().__init__(revisions, undeclaring=ws.snapshot.undeclaring)
        self._ws = ws

    def between(self, old: RevisionView | None) -> UpdateSpec | NotInPlace:
        """See `ByRevision.between`."""
        if not self._ws.spec.is_in_place:
            return NotInPlace(f"podUpdatePolicy is {PodUpdatePolicy.RECREATE}")
        return difference(
            old,
            self._ws.update,
            revision=self._ws.update.name,
            settings=self._ws.settings.in_place,
            grace_seconds=self._ws.spec.in_place.grace_period_seconds,
        )

    def recreates(self, pod: PodView) -> bool:
        """Whether an update deletes the pod."""
        only = self._ws.spec.policy == PodUpdatePolicy.IN_PLACE_ONLY
        return not only and isinstance(self.of(pod), NotInPlace)


def target_of(ws: StatefulSetWorkingSet) -> TurnTarget:
    """Target of updates in place."""
    return TurnTarget(
        revision=ws.update.name,
        labels={keys.REVISION_LABEL: ws.update.name},
        hook=ws.spec.hooks.in_place_update,
        now=ws.now,
        settings=ws.settings.in_place,
    )
