"""Revisions of a SidecarSet: the history of its contents, and the revision that a new pod gets.

spec ──▶ candidate_of() ──▶ Candidate ──▶ choose_update() (pods/workload/revisions.py) ──▶ the revision for pods
injectionStrategy.revision + stored revisions ──▶ find_revision()
revisions + pods ──▶ to_remove() ──▶ revisions beyond the limit

Pure. Revisions are ControllerRevisions in the manager's namespace, because a SidecarSet is cluster-scoped.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.conversion import CUSTOM_VERSION
from pykruise.kinds.sidecarset.hashes import Hashes, to_typed_sidecar
from pykruise.kinds.sidecarset.sidecar_contents import RESTORED_FIELDS
from pykruise.kinds.sidecarset.types import RevisionChoice
from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import encode_go_json
from pykruise.pods.view import keys
from pykruise.pods.workload.revisions import Candidate, RevisionView, encode_meaning, sort_revisions

SET_LABEL: Final = "kruise.io/sidecarset-name"
"""Label of a ControllerRevision: name of its SidecarSet."""

_SIDECARS: Final = ("containers", "initContainers")


def candidate_of(spec: Mapping[str, Any]) -> Candidate:
    """Build the revision that stores a spec. Its bytes are the same as those of OpenKruise's revision."""
    restored: Document = {field: _to_typed(field, spec.get(field)) for field in RESTORED_FIELDS}
    data = encode_go_json({"spec": {"$patch": "replace", **restored}}, sort_keys=True)
    return Candidate(template=restored, data=data.encode(), meaning=encode_meaning(restored))


def _to_typed(field: str, value: Any) -> Any:
    if field in _SIDECARS and isinstance(value, list):
        return [to_typed_sidecar(item) for item in value]
    return value


def find_revision(
    choice: RevisionChoice, revisions: Iterable[RevisionView], *, sidecarset: str
) -> RevisionView | None:
    """The revision with the requested name; without a requested name, the newest revision with the custom version.

    Revisions of other SidecarSets are ignored, even if their name is the requested one.
    """
    own = [revision for revision in revisions if revision.labels.get(SET_LABEL) == sidecarset]
    if choice.revision_name:
        return next((revision for revision in own if revision.name == choice.revision_name), None)
    with_it = [
        revision for revision in own if revision.labels.get(CUSTOM_VERSION) == (choice.custom_version or "")
    ]
    return sort_revisions(with_it)[-1] if with_it else None


def read_recorded_hashes(revision: RevisionView) -> Hashes | None:
    """Hashes of a revision's sidecars from its annotations; None: the revision has none, so they must be computed."""
    full = revision.annotations.get(keys.SIDECARSET_HASH_ANNOTATION, "")
    imageless = revision.annotations.get(keys.SIDECARSET_IMAGELESS_ANNOTATION, "")
    return Hashes(full, imageless) if full and imageless else None


def to_remove(
    revisions: Sequence[RevisionView], *, in_use: Collection[str], limit: int
) -> list[RevisionView]:
    """Revisions beyond the limit, oldest first, without revisions in use and without the last revision.

    `revisions` are sorted; the last one is the revision of the current spec.
    """
    surplus = len(revisions) - limit
    idle = [
        revision for revision in revisions[:-1] if revision.name not in in_use and not revision.is_deleting
    ]
    leaving = sum(revision.is_deleting for revision in revisions[:-1])
    return idle[: max(surplus - leaving, 0)]
