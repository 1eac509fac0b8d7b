"""The revision that a DaemonSet's pods should have, and the writes of revisions.

DaemonSetSnapshot ──▶ choose_revisions() ──▶ Revisions: current and old ones ──▶ stages that label, store and merge
                                                                  └──▶ clean_up_revisions(): beyond the history limit

Pure. Templates with the same meaning are one revision, even if another program stored the revision
(pods/workload/revisions.py). So pykruise can take over a DaemonSet from another manager without a rollout.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pykruise.kinds.daemonset.snapshot import DaemonSetSnapshot
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetSpec
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.plans.ownership import delete_revision, plan_revisions
from pykruise.plans.phases import ChangePod
from pykruise.plans.pod_writes import chain_of, stage_of
from pykruise.plans.purposes import Purpose
from pykruise.plans.workload_frame import choose_update_revision
from pykruise.pods.view import keys
from pykruise.pods.view.names import RevisionHash, shorten_hash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView, UpdateChoice, sort_revisions
from pykruise.runtime.actions import patch_object
from pykruise.runtime.plan import Chain, Stage, Step


class Revisions(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions of a DaemonSet, as one plan uses them."""

    current: RevisionView
    label: str
    """Value of the revision label of pods with the current revision."""
    hashes: frozenset[str]
    """Hashes that mean the current revision: its own hash, and the hashes of duplicates."""
    old: Sequence[RevisionView] = ()
    """The DaemonSet's revisions with another meaning, oldest first."""
    duplicates: Sequence[RevisionView] = ()
    """The DaemonSet's other revisions with the same meaning as the current revision."""


def label_of(revision: RevisionView) -> str:
    """Return the value of the revision label of pods with this revision. If the revision has no such label, it is the
    revision's name.
    """
    return revision.labels.get(keys.REVISION_LABEL) or revision.name


def hash_of(revision: RevisionView) -> RevisionHash:
    """Return the hash at the end of `label_of()`. It identifies the revision."""
    return shorten_hash(label_of(revision))


def choose_revisions(snapshot: DaemonSetSnapshot) -> tuple[Revisions, UpdateChoice]:
    """Return all revisions, and how the revision of the template was chosen, with the writes that it needs. A label of
    pods contains the revision's hash.
    """
    own = sort_revisions([*snapshot.revisions, *snapshot.orphaned_revisions])
    choice = choose_update_revision(
        snapshot.daemonset,
        own,
        resource=DAEMON_SETS,
        others=snapshot.other_revisions,
        hash_label=keys.REVISION_LABEL,
    )
    current = choice.revision
    same = [
        revision for revision in own if revision.meaning == current.meaning and revision.name != current.name
    ]
    revisions = Revisions(
        current=current,
        label=label_of(current),
        hashes=frozenset({hash_of(current), *map(hash_of, same)}),
        old=[revision for revision in own if revision.meaning != current.meaning],
        duplicates=same,
    )
    return revisions, choice


# Writing


def store_revisions(
    snapshot: DaemonSetSnapshot,
    revisions: Revisions,
    choice: UpdateChoice,
    *,
    unrecorded: RevisionView | None,
) -> list[Stage]:
    """Return the writes of revisions. They are sent before pods of the current revision are created."""
    known = (*revisions.old, *revisions.duplicates, revisions.current)
    return [
        *stage_of(
            Purpose.LABEL_REVISIONS,
            (_label_revision(revision) for revision in known if _lacks_label(snapshot, revision)),
        ),
        *plan_revisions(choice, snapshot.daemonset, unrecorded=unrecorded),
    ]


def _lacks_label(snapshot: DaemonSetSnapshot, revision: RevisionView) -> bool:
    is_its_own = revision.controller_uid in ("", snapshot.daemonset.uid)
    return is_its_own and not revision.labels.get(keys.REVISION_LABEL)


def _label_revision(revision: RevisionView) -> Chain:
    action = patch_object(
        CONTROLLER_REVISIONS, revision, {"metadata": {"labels": {keys.REVISION_LABEL: revision.name}}}
    )
    return Chain(
        subject=revision.name, steps=(Step(action=action, because="it lacks the label with its hash"),)
    )


def merge_pods(revisions: Revisions, pods: Iterable[PodView]) -> tuple[Stage, ...]:
    """Label pods of duplicate revisions with the hash of the current revision. The pods are not restarted."""
    hashes = set(map(hash_of, revisions.duplicates)) - {hash_of(revisions.current)}
    if not hashes:
        return ()
    chains = (
        chain_of(
            ChangePod(
                pod=pod,
                metadata={"labels": {keys.REVISION_LABEL: revisions.label}},
                because=f"its revision has the same content as {revisions.current.name}",
            )
        )
        for pod in pods
        if pod.revision in hashes
    )
    return stage_of(Purpose.MERGE_REVISIONS, chains)


def clean_up_revisions(
    snapshot: DaemonSetSnapshot, spec: DaemonSetSpec, revisions: Revisions, pods: Sequence[PodView]
) -> Iterator[Chain]:
    """Plan to delete duplicates without pods, and then old revisions beyond the history limit, oldest first.

    The history keeps revisionHistoryLimit old revisions. A revision with pods is never deleted.
    """
    uid = snapshot.daemonset.uid
    limit = spec.revision_history_limit
    too_many = len(revisions.old) - limit
    if not revisions.duplicates and too_many <= 0:
        return
    live = {pod.revision for pod in pods}
    for duplicate in revisions.duplicates:
        if duplicate.controller_uid == uid and hash_of(duplicate) not in live and not duplicate.is_deleting:
            yield delete_revision(duplicate, f"it has the same content as {revisions.current.name}")
    idle = [item for item in revisions.old if hash_of(item) not in live and item.controller_uid == uid]
    for revision in idle[: max(too_many, 0)]:
        if not revision.is_deleting:
            yield delete_revision(revision, f"no pod has this revision, and revisionHistoryLimit is {limit}")


def read_unchanged_revisions(snapshot: DaemonSetSnapshot) -> Revisions:
    """Return the current revision according to the status. It is used only to count pods while all other writes are
    prevented.
    """
    label = snapshot.daemonset.status.update_revision
    shown = RevisionView(
        namespace=snapshot.daemonset.namespace,
        name=label,
        uid="",
        resource_version=0,
        number=0,
        template={},
        meaning=b"",
    )
    return Revisions(current=shown, label=label, hashes=frozenset({shorten_hash(label)}))
