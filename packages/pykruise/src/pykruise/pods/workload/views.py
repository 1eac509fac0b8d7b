"""A workload's own object in its cache: the common parts of all kinds.

JSON ──▶ Projector ──▶ a kind's view; a spec is read only once, however often the status changes
document ──▶ read_workload_fields() ──▶ fields of every view from metadata and status
revisions of the namespace ──▶ sort_out() ──▶ the workload's revisions, orphans, others whose names it may want

Pure, except for the projector, which caches specs; serves every kind.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

import msgspec

from pykruise.kube.cache.remembering import Recent, register_limit
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.owners import build_owner_reference
from pykruise.kube.values.selectors import Selector, SelectorError, parse_selector
from pykruise.pods.template.typed_parts import NO_PARTS, Parts, read_spec
from pykruise.pods.view.names import LONGEST_REVISION_OWNER
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import Candidate, RevisionView, make_candidate, sort_revisions
from pykruise.runtime.kstatus import Conditions, split_kstatus


class WorkloadView(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that each kind keeps of its own object."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    creation_time: str = ""
    """`metadata.creationTimestamp`."""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    stored_status: Document = {}
    """The stored status, for comparison, without the conditions of runtime/kstatus.py."""
    kstatus: Conditions = ()
    """Stored conditions of runtime/kstatus.py."""
    problem: str = ""
    """`<path>: <what is wrong>` when the spec does not fit its types (admission was bypassed); empty otherwise."""
    candidate: Candidate | None = None
    """The revision in which its template would be stored; None if the spec cannot be read."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def created_at(self) -> Instant:
        """Creation time; 0 if the object has none."""
        return parse_time(self.creation_time) if self.creation_time else 0.0

    def build_reference(self, resource: Resource) -> Document:
        """Owner reference for the object's pods and revisions; `resource` is the object's resource."""
        return build_owner_reference(
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
    finalizers: tuple[str, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    status: Document | None = None
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_decode_object = msgspec.json.Decoder(_Object).decode


SpecReader = Callable[[Mapping[str, Any]], tuple[Any, str]]
"""Returns the typed spec of a document, or None and `<path>: <what is wrong>`. A null field counts as absent."""


def make_spec_reader(kind: type, *, raw: Collection[str] = (), parts: Parts = NO_PARTS) -> SpecReader:
    """Create a reader of specs of this type. Fields named in `raw` (templates) are kept as untyped JSON with nulls. The
    `parts` of these fields are read as Kubernetes types.
    """
    return partial(read_spec, kind=kind, raw=raw, parts=parts)


V = TypeVar("V", bound=WorkloadView)


SPECS: Final = 1_000
SPEC_BYTES: Final = 768 * 1024
"""Maximum bytes of JSON of one kind's cached specs. The decoded specs are four times as large. Views share them while
their objects exist.
"""
KINDS: Final = 20
register_limit("specs by kind", entries=KINDS, bytes_each=4 * SPEC_BYTES)


_UNKNOWN: Final[Mapping[str, Any]] = {}


class Projector(Generic[V]):
    """Decodes objects of a kind (hub version) from JSON text into views; one projector per cache.

    `view` has a field `spec`, which is None when the spec cannot be read (`problem` gives the reason, and the watch
    continues), and a field `status` of type `status`. `candidate_of`: returns the revision in which a spec would be
    stored. `derived`: returns further fields of the view from the typed spec and its document. The cache holds up to
    `limit` specs and SPEC_BYTES of JSON, and forgets specs that no object has any more. Calls raise ValueError only
    when the text is not a Kubernetes object.
    """

    def __init__(
        self,
        view: type[V],
        *,
        read_spec: SpecReader,
        status: type[Any] | None = None,
        candidate_of: Callable[[Any], Candidate] | None = None,
        derived: Callable[[Any, Document], Mapping[str, Any]] = lambda *_: {},
        limit: int = SPECS,
    ) -> None:
        self._view = view
        self._read_spec = read_spec
        self._status = status
        self._candidate_of = candidate_of
        self._derived = derived
        self._known: Recent[bytes, Mapping[str, Any]] = Recent(entries=limit, size=SPEC_BYTES)

    def __call__(self, raw: bytes | msgspec.Raw) -> V:
        result = _decode_object(raw)
        text = blake2b(result.spec, digest_size=16).digest()
        known = self._known.get(text, _UNKNOWN)
        if known is _UNKNOWN:
            known = self._read_spec_text(bytes(result.spec))
            self._known.put(text, known, size=len(result.spec))
        fields = {**_read_fields(result.metadata, result.status), **known}
        if self._status is not None:
            found_status, _ = read(fields["stored_status"], self._status, path="status")
            fields["status"] = self._status() if found_status is None else found_status
        return self._view(**fields)

    def _read_spec_text(self, text: bytes) -> Mapping[str, Any]:
        document = {} if text == b"null" else decode(text)
        spec, problem = self._read_spec(document)
        if spec is None:
            return {"spec": None, "problem": problem}
        candidate = self._candidate_of(spec) if self._candidate_of else None
        return {"spec": spec, "candidate": candidate, **self._derived(spec, document)}


def make_template_candidate(spec: Any) -> Candidate:
    """The revision in which `spec.template` would be stored."""
    return make_candidate(spec.template)


def read_workload_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a WorkloadView from metadata and status. Raises ValueError when the document is not an object."""
    return _read_fields(msgspec.convert(document.get("metadata"), _Meta), document.get("status"))


def _read_fields(meta: _Meta, status: Document | None) -> dict[str, Any]:
    stored, kstatus = split_kstatus(status or {})
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
        "finalizers": meta.finalizers or (),
        "stored_status": stored,
        "kstatus": kstatus,
    }


def selector_of(selector: Any) -> Selector | None:
    """The selector in a typed `spec.selector`; None if it cannot be read."""
    try:
        return parse_selector(msgspec.to_builtins(selector))
    except SelectorError:
        return None


def selects(selector: Selector | None, pod: PodView) -> bool:
    """Whether a workload with this selector selects the pod. An empty or unreadable selector selects no pod."""
    return selector is not None and not selector.is_empty and selector.matches(pod.labels)


class OwnRevisions(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions around one workload, each sequence oldest first."""

    own: list[RevisionView]
    """Revisions that the workload controls, by uid."""
    free: list[RevisionView]
    """Orphans that match the workload's selector, so that it may adopt them."""
    others: Mapping[str, RevisionView]
    """Further revisions, by name, whose names the workload may need for its own revisions."""


def sort_out(
    revisions: Iterable[RevisionView], workload: WorkloadView, *, selector: Selector | None
) -> OwnRevisions:
    """Sort a namespace's `revisions` by their relation to a workload with this `selector`; None if the selector is
    unreadable.
    """
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
    return OwnRevisions(own=sort_revisions(own), free=sort_revisions(free), others=others)


def _is_free(revision: RevisionView) -> bool:
    return not revision.controller_uid and not revision.is_deleting and bool(revision.template)
