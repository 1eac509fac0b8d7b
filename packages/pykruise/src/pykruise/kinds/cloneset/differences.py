"""Changes that update a CloneSet's pods in place from their revisions to another revision.

snapshot + target revision ──▶ differences_to() ──▶ Differences ──▶ surge.py, update.py, pre_download.py

Pure. plans/in_place.py compares the revisions. This module passes it the options of the CloneSet.
"""

from pykruise.kinds.cloneset.snapshot import ReadableCloneSet
from pykruise.plans.in_place import Differences, Recall
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.workload.revisions import RevisionView


def differences_to(target: RevisionView, snapshot: ReadableCloneSet, recall: Recall) -> Differences:
    """Return the changes that update pods to this revision. `recall` stores them for the next plan."""
    spec, settings = snapshot.cloneset.spec, snapshot.settings
    return Differences(
        {revision.hash: revision for revision in snapshot.revisions},
        target,
        recall,
        undeclaring=snapshot.undeclaring,
        revision=target.name,  # also with the gate CloneSetShortHash: only labels contain the short hash
        settings=settings.in_place,
        grace_seconds=spec.in_place.grace_period_seconds,
        ignore_claims=spec.policy == PodUpdatePolicy.IN_PLACE_ONLY,
    )


def label_of(revision: RevisionView, snapshot: ReadableCloneSet) -> str:
    """Return the value of the revision label of pods: the revision's name, or only its hash."""
    return revision.hash if snapshot.settings.short_hash else revision.name
