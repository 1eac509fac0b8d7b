"""A workload's own object as its cache keeps it: what the kinds have in common.

document ──▶ workload_fields() ──▶ the fields of WorkloadView; a kind adds its spec and status
JSON ──▶ SpecTable ──▶ the same with the spec, which is read only once however often the status changes
revisions of the namespace ──▶ sort_out() ──▶ its own, those it may adopt, those whose name is in its way

Pure, but for the table, which keeps what it says; serves every kind that owns pods by a selector.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.owners import owner_reference
from pykruise.kube.resources import Resource
from pykruise.kube.selectors import Selector, SelectorError, selector_from
from pykruise.pods.names import LONGEST_REVISION_OWNER
from pykruise.pods.revisions import Candidate, RevisionView, candidate, sorted_revisions
from pykruise.runtime.kstatus import Conditions, without_kstatus

__all__ = ["OwnRevisions", "SpecTable", "WorkloadView", "selector_of", "sort_out", "workload_fields"]


S = TypeVar("S")


class WorkloadView(msgspec.Struct, frozen=True, kw_only=True):
    """What every kind keeps of its own object."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    creation_time: str = ""
    """When it was created, as it says it."""
    is_deleting: bool = False
    stored_status: Document = {}
    """The status as it is stored, to compare with; without the conditions of runtime/kstatus.py."""
    kstatus: Conditions = ()
    """These conditions."""
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
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    status: Document | None = None
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_decode_object = msgspec.json.Decoder(_Object).decode


class SpecTable(Generic[S]):
    """Workloads from their JSON text; specs by their text, for most events change nothing but the status.

    `read`: the typed spec of a document, or None and what is wrong with it. `template_of`: its pod template.
    `candidate_of`: the revision of a template. Remembers up to `limit` specs, and then starts afresh.
    """

    def __init__(
        self,
        read: Callable[[Mapping[str, Any]], tuple[S | None, str]],
        template_of: Callable[[S], Document],
        *,
        candidate_of: Callable[[Document], Candidate] = candidate,
        limit: int = 1000,
    ) -> None:
        self._candidate_of = candidate_of
        self._read = read
        self._template_of = template_of
        self._known: dict[bytes, tuple[S | None, str, Candidate | None]] = {}
        self._limit = limit

    def __call__(self, raw: bytes | msgspec.Raw) -> tuple[dict[str, Any], S | None]:
        """The fields of a WorkloadView, and the spec. Raises ValueError for what is no object."""
        found = _decode_object(raw)
        text = blake2b(found.spec, digest_size=16).digest()
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= self._limit:
                self._known = {}
            spec, problem = self._read(decode(found.spec) or {})
            wanted = self._candidate_of(self._template_of(spec)) if spec is not None else None
            known = spec, problem, wanted
            self._known[text] = known
        spec, problem, wanted = known
        return {**_fields(found.metadata, found.status), "problem": problem, "candidate": wanted}, spec


def workload_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a WorkloadView that metadata and status give. Raises ValueError for what is no object."""
    return _fields(msgspec.convert(document.get("metadata"), _Meta), document.get("status"))


def _fields(meta: _Meta, status: Document | None) -> dict[str, Any]:
    stored, kstatus = without_kstatus(status or {})
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resource_version": int(meta.resource_version or 0),
        "generation": meta.generation,
        "labels": meta.labels or {},
        "annotations": meta.annotations or {},
        "creation_time": meta.creation_timestamp or "",
        "is_deleting": meta.deletion_timestamp is not None,
        "stored_status": stored,
        "kstatus": kstatus,
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
    """Orphans that match its selector: it may adopt them."""
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
