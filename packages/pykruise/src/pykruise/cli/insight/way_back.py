"""The revision that a rollback restores: the newest one with serving pods, or, if none has any, the newest older one.

revisions, those that serve, the current one ──▶ find_way_back() ──▶ the remedy, with its command and --to-revision

`rollout undo` without a revision restores the previous one. After two bad images, the previous one is the first bad
image. Pure.
"""

from collections.abc import Collection, Sequence

from pykruise.kube.resources import Resource
from pykruise.pods.workload.revisions import RevisionView

_UNSEEN = (
    " (no pod of this revision runs now, so nothing shows that the revision works; with"
    " spec.minReadySeconds, a rollout keeps the last pods"
    " that serve)"
)


def find_way_back(
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    revisions: Sequence[RevisionView],
    serving: Collection[str],
    current: str,
    is_paused: bool = False,
) -> str:
    """Return the remedy that rolls an object back, with its command; empty if there is no revision to restore.

    `serving`: names of the revisions that have ready pods. `current`: name of the newest revision. When the
    newest revision serves, no rollback is suggested. When no revision serves, the newest of the older revisions is
    restored. `is_paused`: updates are paused, so the rollback reaches no pod before they are resumed.
    """
    newest = find_revision_before(revisions, serving=serving, current=current)
    if newest is None:
        return ""
    where = f" -n {namespace}" if namespace else ""
    command = f"kubectl kruise rollout undo {resource}/{name} --to-revision={newest.number}{where}"
    if is_paused:
        return f"roll back and resume: {command}, then kubectl kruise rollout resume {resource}/{name}{where}"
    return f"roll back: {command}{'' if serving else _UNSEEN}"


def find_revision_before(
    revisions: Sequence[RevisionView], *, serving: Collection[str], current: str
) -> RevisionView | None:
    """Return the revision that `find_way_back()` suggests; None if there is no such revision."""
    stored = sorted(revisions, key=lambda revision: revision.number)
    newest = next((revision for revision in reversed(stored) if revision.name in serving), None)
    if newest is None:
        newest = next((revision for revision in reversed(stored) if revision.name != current), None)
    return None if newest is None or newest.name == current else newest
