"""A workload's own object as its cache keeps it: what the kinds have in common.

JSON ──▶ Projector ──▶ a kind's view; a spec is read only once, however often the status changes
document ──▶ workload_fields() ──▶ what every view has of its metadata and status
revisions of the namespace ──▶ sort_out() ──▶ its own, those it may adopt, those whose name is in its way

Pure, but for the projector, which remembers specs that it has read; serves every kind.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

import msgspec

from pykruise.kube.cache.remembering import remembers
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.owners import owner_reference
from pykruise.kube.values.selectors import Selector, SelectorError, selector_from
from pykruise.pods.template.typed_parts import NO_PARTS, Parts, read_spec
from pykruise.pods.view.names import LONGEST_REVISION_OWNER
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import Candidate, RevisionView, candidate, sorted_revisions
from pykruise.runtime.kstatus import Conditions, without_kstatus


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
    """When it was created, as it says it."""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    stored_status: Document = {}
    """The status as it is stored, to compare with; without the conditions of runtime/kstatus.py."""
    kstatus: Conditions = ()
    """Conditions that it writes."""
    problem: str = ""
    """`<path>: <what is wrong>` of a spec that does not fit the types (admission was bypassed)."""
    candidate: Candidate | None = None
    """The revision that its template would be stored as; None: the spec cannot be read."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def created_at(self) -> Instant:
        """When it was created; 0: it does not say."""
        return parse_time(self.creation_time) if self.creation_time else 0.0

    def reference_as(self, resource: Resource) -> Document:
        """Owner reference of its pods and revisions, for an object of this resource."""
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
    finalizers: tuple[str, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    status: Document | None = None
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_decode_object = msgspec.json.Decoder(_Object).decode


SpecReader = Callable[[Mapping[str, Any]], tuple[Any, str]]
"""The typed spec of a document, or None and `<path>: <what is wrong>`. A null field counts as absent."""


def spec_reader(kind: type, *, raw: Collection[str] = (), parts: Parts = NO_PARTS) -> SpecReader:
    """Reads specs of this type. Fields named in `raw` (templates) stay documents, nulls and all; `parts` of it are of
    types that Kubernetes has, and are read as these."""
    return partial(read_spec, kind=kind, raw=raw, parts=parts)


V = TypeVar("V", bound=WorkloadView)


SPECS: Final = 1_000
SPEC_BYTES: Final = 768 * 1024
"""Most bytes of JSON of the remembered specs of one kind. What is made of them is four times as large; it is the views'
own as long as their objects are there."""
KINDS: Final = 20
remembers("specs by kind", entries=KINDS, bytes_each=4 * SPEC_BYTES)


class Projector(Generic[V]):
    """Makes views of a kind's objects (hub version) from their JSON text; one per cache.

    `view` has fields `spec`, None where it cannot be read (`problem` says why, and the watch goes on), and `status`, of
    type `status`. `candidate_of`: the revision that a spec would be stored as. `derived`: further fields of the view
    that follow from the typed spec and its document. Remembers up to `limit` specs, and SPEC_BYTES of them, and then
    starts afresh.
    Calls raise ValueError only for what is no Kubernetes object.
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
        self._known: dict[bytes, Mapping[str, Any]] = {}
        self._limit = limit
        self._left = SPEC_BYTES

    def __call__(self, raw: bytes | msgspec.Raw) -> V:
        result = _decode_object(raw)
        text = blake2b(result.spec, digest_size=16).digest()
        known = self._known.get(text)
        if known is None:
            self._left -= len(result.spec)
            if len(self._known) >= self._limit or self._left < 0:
                self._known, self._left = {}, SPEC_BYTES
            known = self._known[text] = self._of_spec(bytes(result.spec))
        fields = {**_fields(result.metadata, result.status), **known}
        if self._status is not None:
            found_status, _ = read(fields["stored_status"], self._status, path="status")
            fields["status"] = self._status() if found_status is None else found_status
        return self._view(**fields)

    def _of_spec(self, text: bytes) -> Mapping[str, Any]:
        document = {} if text == b"null" else decode(text)
        spec, problem = self._read_spec(document)
        if spec is None:
            return {"spec": None, "problem": problem}
        candidate = self._candidate_of(spec) if self._candidate_of else None
        return {"spec": spec, "candidate": candidate, **self._derived(spec, document)}


def template_candidate(spec: Any) -> Candidate:
    """The revision that `spec.template` would be stored as."""
    return candidate(spec.template)


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
        "finalizers": meta.finalizers or (),
        "stored_status": stored,
        "kstatus": kstatus,
    }


def selector_of(selector: Any) -> Selector | None:
    """The selector that a typed `spec.selector` says; None: it cannot be read."""
    try:
        return selector_from(msgspec.to_builtins(selector))
    except SelectorError:
        return None


def selects(selector: Selector | None, pod: PodView) -> bool:
    """Whether a workload with this selector means the pod; one that is empty or cannot be read means none."""
    return selector is not None and not selector.is_empty and selector.matches(pod.labels)


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
