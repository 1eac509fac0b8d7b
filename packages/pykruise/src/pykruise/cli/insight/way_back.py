"""The revision that a rollback goes to: the newest one whose pods serve.

revisions, those that serve, the current one ──▶ way_back() ──▶ the remedy, with its command and --to-revision

`rollout undo` alone goes to the revision before. After two bad images that is the first bad one. Pure.
"""

from collections.abc import Collection, Sequence

from pykruise.kube.resources import Resource
from pykruise.pods.workload.revisions import RevisionView

_UNSEEN = (
    " (no pod of it is left to show that it works; spec.minReadySeconds keeps a rollout from replacing the last pods"
    " that serve)"
)


def way_back(
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    revisions: Sequence[RevisionView],
    serving: Collection[str],
    current: str,
) -> str:
    """The remedy that rolls an object back, with its command; empty: there is no revision to go back to.

    `serving`: names of the revisions that have available pods. `current`: name of the newest revision. One that
    serves is no reason to go back. Where no pod serves, it is the newest of the older revisions.
    """
    newest = revision_before(revisions, serving=serving, current=current)
    if newest is None:
        return ""
    where = f" -n {namespace}" if namespace else ""
    command = f"kubectl kruise rollout undo {resource}/{name} --to-revision={newest.number}{where}"
    return f"roll back: {command}{'' if serving else _UNSEEN}"


def revision_before(
    revisions: Sequence[RevisionView], *, serving: Collection[str], current: str
) -> RevisionView | None:
    """The revision that a rollback goes to, as way_back() says it; None: there is none."""
    stored = sorted(revisions, key=lambda revision: revision.number)
    newest = next((revision for revision in reversed(stored) if revision.name in serving), None)
    if newest is None:
        newest = next((revision for revision in reversed(stored) if revision.name != current), None)
    return None if newest is None or newest.name == current else newest
