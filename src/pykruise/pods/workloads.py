"""A workload's own object as its cache keeps it: what the kinds have in common.

document ──▶ workload_fields() ──▶ the fields of WorkloadView; a kind adds its spec and status
revisions of the namespace ──▶ sort_out() ──▶ its own, those it may adopt, those whose name is in its way

Pure; serves every kind that owns pods by a selector.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.owners import owner_reference
from pykruise.kube.resources import Resource
from pykruise.kube.selectors import Selector, SelectorError, selector_from
from pykruise.pods.names import LONGEST_REVISION_OWNER
from pykruise.pods.revisions import Candidate, RevisionView, sorted_revisions

__all__ = ["OwnRevisions", "WorkloadView", "selector_of", "sort_out", "workload_fields"]


class WorkloadView(msgspec.Struct, frozen=True, kw_only=True):
    """What every kind keeps of its own object."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    is_deleting: bool = False
    stored_status: Document = {}
    """The status as it is stored, to compare with."""
    problem: str = ""
    """`<path>: <what is wrong>` of a spec that does not fit the types (admission was bypassed)."""
    candidate: Candidate | None = None
    """The revision that its template would be stored as; None: the spec cannot be read."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    def reference_as(self, resource: Resource) -> Document:
        """What its pods and revisions carry, for an object of this resource."""
        return owner_reference(
            api_version=resource.api_version, kind=resource.kind, name=self.name, uid=self.uid
        )


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


def workload_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a WorkloadView that metadata and status give. Raises ValueError for what is no object."""
    meta = msgspec.convert(document.get("metadata"), _Meta)
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resource_version": int(meta.resource_version or 0),
        "generation": meta.generation,
        "labels": meta.labels or {},
        "annotations": meta.annotations or {},
        "is_deleting": meta.deletion_timestamp is not None,
        "stored_status": document.get("status") or {},
    }


def selector_of(selector: Any) -> Selector | None:
    """The selector that a typed `spec.selector` says; None: it cannot be read."""
    try:
        return selector_from(msgspec.to_builtins(selector))
    except SelectorError:
        return None


class OwnRevisions(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions around one workload, each sequence oldest first."""

    own: list[RevisionView]
    """Controlled by it, by uid."""
    free: list[RevisionView]
    """Nobody's, and matching its selector: it may adopt them."""
    others: Mapping[str, RevisionView]
    """Further ones that hold a name it may want, by name."""


def sort_out(
    revisions: Iterable[RevisionView], workload: WorkloadView, *, selector: Selector | None
) -> OwnRevisions:
    """Whose the `revisions` of its namespace are. `selector`: the workload's; None: it cannot be read."""
    own: list[RevisionView] = []
    free: list[RevisionView] = []
    others: dict[str, RevisionView] = {}
    wanted = selector if selector is not None and not selector.is_empty else None
    prefix = f"{workload.name[:LONGEST_REVISION_OWNER]}-"
    for revision in revisions:
        if revision.controller_uid == workload.uid:
            own.append(revision)
        elif wanted is not None and _is_free(revision) and wanted.matches(revision.labels):
            free.append(revision)
        elif revision.name.startswith(prefix):
            others[revision.name] = revision
    return OwnRevisions(own=sorted_revisions(own), free=sorted_revisions(free), others=others)


def _is_free(revision: RevisionView) -> bool:
    return not revision.controller_uid and not revision.is_deleting and bool(revision.template)
