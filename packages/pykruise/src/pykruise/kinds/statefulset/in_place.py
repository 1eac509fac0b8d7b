"""The in-place updates of a StatefulSet's pods: the difference between each pod and the update revision.

StatefulSetWorkingSet ──▶ differences_of() ──▶ Differences ──▶ update.py (how a pod is updated),
pre_download.py (whether images are pulled in advance), refresh.py (whether an update recreates a pod)

Pure. pods/in_place and plans/in_place.py contain the code that all workloads share: it finds the changes and builds the
writes.
"""

from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.plans.in_place import Differences, Recall, TurnTarget
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.view import keys


def differences_of(ws: StatefulSetWorkingSet) -> Differences:
    """Return the changes of pods to the update revision."""
    return Differences(
        {revision.hash: revision for revision in ws.revisions},
        ws.update,
        Recall(),
        undeclaring=ws.snapshot.undeclaring,
        refusal="" if ws.spec.is_in_place else f"podUpdatePolicy is {PodUpdatePolicy.RECREATE}",
        revision=ws.update.name,
        settings=ws.settings.in_place,
        grace_seconds=ws.spec.in_place.grace_period_seconds,
    )


def target_of(ws: StatefulSetWorkingSet) -> TurnTarget:
    """Return the revision and the labels that pods get by an in-place update."""
    return TurnTarget(
        revision=ws.update.name,
        labels={keys.REVISION_LABEL: ws.update.name},
        hook=ws.spec.hooks.in_place_update,
        now=ws.now,
        settings=ws.settings.in_place,
    )
