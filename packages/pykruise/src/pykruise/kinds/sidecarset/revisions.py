"""Revisions of a SidecarSet: what it put into pods at which time, and which of them a new pod gets.

spec ──▶ candidate_of() ──▶ Candidate ──▶ pods/revisions choose_update() ──▶ the revision pods should be of
injectionStrategy.revision + stored ones ──▶ find_revision()
revisions + pods ──▶ to_remove() ──▶ what is beyond the limit

Pure. They are ControllerRevisions in the manager's own namespace, for a SidecarSet is in none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.conversion import CUSTOM_VERSION
from pykruise.kinds.sidecarset.hashes import Hashes, typed_sidecar
from pykruise.kinds.sidecarset.sidecar_contents import RESTORED_FIELDS
from pykruise.kinds.sidecarset.types import RevisionChoice
from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import go_json
from pykruise.pods.view import keys
from pykruise.pods.workload.revisions import Candidate, RevisionView, meaning, sorted_revisions

SET_LABEL: Final = "kruise.io/sidecarset-name"
"""On a ControllerRevision: name of its SidecarSet."""

_SIDECARS: Final = ("containers", "initContainers")


def candidate_of(spec: Mapping[str, Any]) -> Candidate:
    """The revision that a spec would be stored as, byte for byte as the original writes it."""
    restored: Document = {field: _typed(field, spec.get(field)) for field in RESTORED_FIELDS}
    data = go_json({"spec": {"$patch": "replace", **restored}}, sort_keys=True)
    return Candidate(template=restored, data=data.encode(), meaning=meaning(restored))


def _typed(field: str, value: Any) -> Any:
    if field in _SIDECARS and isinstance(value, list):
        return [typed_sidecar(item) for item in value]
    return value


def find_revision(
    choice: RevisionChoice, revisions: Iterable[RevisionView], *, sidecarset: str
) -> RevisionView | None:
    """The revision that is asked for by name, or else the newest of a custom version.

    One of another SidecarSet does not count, whatever its name.
    """
    own = [revision for revision in revisions if revision.labels.get(SET_LABEL) == sidecarset]
    if choice.revision_name:
        return next((revision for revision in own if revision.name == choice.revision_name), None)
    with_it = [
        revision for revision in own if revision.labels.get(CUSTOM_VERSION) == (choice.custom_version or "")
    ]
    return sorted_revisions(with_it)[-1] if with_it else None


def recorded_hashes(revision: RevisionView) -> Hashes | None:
    """The hashes of a revision's sidecars, as recorded with it; None: they have to be reckoned."""
    full = revision.annotations.get(keys.SIDECARSET_HASH_ANNOTATION, "")
    imageless = revision.annotations.get(keys.SIDECARSET_IMAGELESS_ANNOTATION, "")
    return Hashes(full, imageless) if full and imageless else None


def to_remove(
    revisions: Sequence[RevisionView], *, in_use: Collection[str], limit: int
) -> list[RevisionView]:
    """Revisions beyond the limit, oldest first; never the last, and none that is in use.

    `revisions` are sorted, the one of the present spec is the last.
    """
    surplus = len(revisions) - limit
    idle = [
        revision for revision in revisions[:-1] if revision.name not in in_use and not revision.is_deleting
    ]
    leaving = sum(revision.is_deleting for revision in revisions[:-1])
    return idle[: max(surplus - leaving, 0)]
