"""managedFields on their way through the API server: recorded at each write, shown to readers.

Call + documents ──▶ FieldOwnership.record_creation(), record_change(), record_apply(),
                     record_server_change() ──▶ Stored.managed
Stored           ──▶ FieldOwnership.show() ──▶ its bytes with managedFields

managed/ has the rules. This module connects them with the request (writer, endpoint) and with the stored bytes.
For a client in this process that does not request managedFields, they are not computed.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.schemas.builtin_types import find_decoder
from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry
from pykruise.sandbox.apiserver.custom.kind_versions import KindVersions
from pykruise.sandbox.apiserver.managed import applies, managers
from pykruise.sandbox.apiserver.managed.applies import Applied, UnconvertibleError
from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet
from pykruise.sandbox.apiserver.managed.owned import OwnedFields
from pykruise.sandbox.apiserver.managed.shapes import FREE, Shape, build_definition_shape, build_schema_shape
from pykruise.sandbox.apiserver.managed.state import APPLY, FieldManager, Taken
from pykruise.sandbox.apiserver.managed.values import InvalidFieldsError, check
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.requests.call import Call, parse_flag
from pykruise.sandbox.apiserver.requests.encoding import encode_object
from pykruise.sandbox.apiserver.requests.statuses import Refusal

_LONGEST_AGENT: Final = 128
_MOST_SHOWN: Final = 1_024
"""Number of object versions whose rendered managedFields are cached."""


class OwnedKind(NamedTuple):
    """The facts about a served kind that this module needs."""

    entry: CatalogEntry
    shape: Shape
    empty: Document
    """Empty object: the zero value of its type."""
    owned: OwnedFields
    """Fields that creators own."""

    def list_ignored(self, subresource: str = "") -> FieldSet:
        """Fields that an endpoint does not write."""
        return _select_ignored_fields(self.entry, subresource)


def _select_ignored_fields(entry: CatalogEntry, subresource: str = "") -> FieldSet:
    if subresource == "status":
        return _NOT_OF_STATUS_CUSTOM if entry.is_custom else _NOT_OF_STATUS
    return _NOT_OF_MAIN if "status" in entry.subresources else EMPTY


_NOT_OF_MAIN: Final[FieldSet] = {"f:status": {}}
_NOT_OF_STATUS: Final[FieldSet] = {"f:spec": {}}
_NOT_OF_STATUS_CUSTOM: Final[FieldSet] = {"f:spec": {}, "f:metadata": {}}


def manager_of(call: Call, operation: str = "Update") -> FieldManager:
    """Return the manager of a write: `fieldManager`, or the first part of the User-Agent."""
    name = call.query.get("fieldManager") or ""
    if not name:
        agent = (call.headers.get("user-agent") or "").partition("/")[0][:_LONGEST_AGENT]
        name = (agent if agent.isprintable() else "".join(filter(str.isprintable, agent))) or "unknown"
    return FieldManager(name, operation, call.entry.api_version, call.subresource)


class _Views:
    """A kind in all its versions, for one endpoint (`applies.Versions`)."""

    def __init__(self, ownership: "FieldOwnership", entry: CatalogEntry, subresource: str) -> None:
        self._ownership = ownership
        self._entry = entry
        self._subresource = subresource
        self._versions = ownership.list_versions(entry)

    def _find_kind(self, api_version: str) -> OwnedKind:
        try:
            return self._ownership.find_kind(self._versions.find_entry(api_version))
        except Refusal as refusal:
            raise UnconvertibleError(refusal.status.message) from refusal

    def find_shape(self, api_version: str) -> Shape:
        return self._find_kind(api_version).shape

    def list_ignored(self, api_version: str) -> FieldSet:
        return self._find_kind(api_version).list_ignored(self._subresource)

    def is_missing(self, api_version: str) -> bool:
        return self._versions.is_missing(api_version)

    async def convert_view(self, doc: Document, api_version: str) -> Document:
        """Convert the document and check its shape: a version without a conversion may lack a field."""
        shape = self.find_shape(api_version)
        if doc.get("apiVersion") == api_version:
            return doc
        try:
            view = await self._versions.convert(doc, api_version)
            check(view, shape)
        except InvalidFieldsError as err:
            raise UnconvertibleError(str(err)) from err
        except Refusal as refusal:
            raise UnconvertibleError(refusal.status.message) from refusal
        return view


class FieldOwnership:
    """The managedFields of one API server's objects. Caches facts about kinds.

    Without `tracks`, fields have no owners: writes are faster, but an apply cannot detect conflicts.
    """

    def __init__(self, catalog: Catalog, *, tracks: bool = True) -> None:
        self._catalog = catalog
        self._tracks = tracks
        self._kinds: dict[tuple[str, str], OwnedKind] = {}
        self._shown: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def find_kind(self, entry: CatalogEntry) -> OwnedKind:
        """Return the facts about the entry's kind."""
        key = (entry.api_version, entry.resource.plural)
        kind = self._kinds.get(key)
        if kind is None or kind.entry is not entry:
            kind = self._kinds[key] = _build_kind(entry, self._catalog.minor)
        return kind

    def list_versions(self, entry: CatalogEntry) -> KindVersions:
        """Return all versions of the kind."""
        return KindVersions(entry, self._catalog.versions_of(entry.shelf))

    def _find_kind_in_version(self, entry: CatalogEntry, api_version: str) -> OwnedKind:
        """Return the kind in another version; the entry's own version when that version no longer exists."""
        return self.find_kind(self._catalog.versions_of(entry.shelf).get(api_version, entry))

    # --- writes ----------------------------------------

    def record_creation(self, call: Call, asked: Document, doc: Document, now: Instant) -> bytes:
        """Return the field managers of a new object: its creator owns the fields that it sent. No manager owns the
        fields that the server added.
        """
        if not self._tracks:
            return b""
        entry, kind = call.entry, self.find_kind(call.entry)
        kept = managers.record_creation(
            manager_of(call), format_time(now), asked, doc, kind.shape, ignored=kind.list_ignored()
        )
        if entry.converter is None and entry.api_version == entry.storage_api_version:
            return kept
        return managers.make_explicit(kept, doc, kind.shape, empty=kind.empty, ignored=kind.list_ignored())

    async def record_change(
        self, call: Call, stored: Stored, old: Document, new: Document, now: Instant
    ) -> bytes:
        """Return the field managers of an object after a PUT or PATCH. Removes managedFields from the new document."""
        sent = new["metadata"].pop("managedFields", None)
        if not self._tracks:
            return b""
        kept = self._read_owners_before(call, stored, sent)
        kind = self.find_kind(call.entry)
        others = self._list_other_versions(call.entry, kept)
        from_all, elsewhere = kept, None
        if others:
            from_all = self._with_all_sets(call.entry, kept, stored)
            try:
                elsewhere = await self._list_changes_elsewhere(call, old, new, others)
            except UnconvertibleError:
                return kept  # if the owners cannot be converted, the write must not fail
        data = managers.record_update(
            from_all,
            old,
            new,
            kind.shape,
            empty=kind.empty,
            who=manager_of(call),
            now=format_time(now),
            ignored=kind.list_ignored(call.subresource),
            not_creators=kind.list_ignored(),
            elsewhere=elsewhere,
        )
        return kept if data is from_all else data

    def _list_other_versions(self, entry: CatalogEntry, kept: bytes) -> set[str]:
        """The other versions in which managers own fields."""
        if not entry.is_custom and len(self._catalog.versions_of(entry.shelf)) <= 1:
            return set()
        return managers.list_versions(kept).keys() - {entry.api_version}

    async def _list_changes_elsewhere(
        self, call: Call, old: Document, new: Document, others: Iterable[str]
    ) -> dict[str, Taken | None]:
        views = _Views(self, call.entry, call.subresource)
        missing = {version for version in others if views.is_missing(version)}
        before = {version: await views.convert_view(old, version) for version in sorted({*others} - missing)}
        result = await applies.list_changes_by_version(before, new, views, own=call.entry.api_version)
        return {**result, **dict.fromkeys(missing)}

    @staticmethod
    def _open_version(kept: bytes) -> str:
        """The version of the creator, if its set is not computed yet; empty when every manager has a set."""
        return next((version for version, is_open in managers.list_versions(kept).items() if is_open), "")

    def _with_all_sets(self, entry: CatalogEntry, kept: bytes, stored: Stored) -> bytes:
        """The managers of the stored object, each with a set."""
        version = self._open_version(kept)
        if not version:
            return kept
        kind = self._find_kind_in_version(entry, version)
        return managers.make_explicit(
            kept, decode(stored.raw), kind.shape, empty=kind.empty, ignored=kind.list_ignored()
        )

    async def record_apply(
        self,
        call: Call,
        stored: Stored | None,
        live: Document,
        config: Document,
        now: Instant,
        *,
        allowed: FieldSet,
    ) -> Applied:
        """Apply to the live object. `stored` is None for a new object, whose live document is the kind's `empty`.

        Raises ConflictsError, InvalidFieldsError or UnconvertibleError.
        """
        kept = stored.managed if stored is not None else b""
        from_all = self._with_all_sets(call.entry, kept, stored) if stored is not None else kept
        result = await applies.apply_document(
            from_all,
            live,
            config,
            _Views(self, call.entry, call.subresource),
            empty=self.find_kind(call.entry).empty,
            who=manager_of(call, APPLY),
            now=format_time(now),
            force=parse_flag(call.query, "force"),
            allowed=allowed,
        )
        return Applied(result.document, kept) if result.kept is from_all else result

    def _read_owners_before(self, call: Call, stored: Stored, sent: Any) -> bytes:
        """Owners before the change: the owners that the client sent, if it sent any."""
        if not sent or call.subresource or not isinstance(sent, list):
            return stored.managed
        if sent == [{}]:
            return b""
        if sent == orjson.loads(self._spell_out_owners(call.entry, stored.raw, stored.managed)):
            return stored.managed
        data = managers.read_entries([each for each in sent if isinstance(each, Mapping)])
        return data or stored.managed

    def record_server_change(self, entry: CatalogEntry, kept: bytes, old: Document, new: Document) -> bytes:
        """Return the field managers after a change by the server itself: no manager owns the fields that it set. Both
        documents are in the stored version.
        """
        if not self._tracks:
            return b""
        return managers.record_server_change(
            kept, old, new, self._find_kind_in_version(entry, str(old.get("apiVersion"))).shape
        )

    def record_controller_change(
        self,
        entry: CatalogEntry,
        kept: bytes,
        old: Document,
        new: Document,
        *,
        now: Instant,
        subresource: str,
    ) -> bytes:
        """Owners after a change by a controller inside the server, for a kind with one version."""
        if not self._tracks:
            return b""
        kind = self.find_kind(entry)
        return managers.record_update(
            kept,
            old,
            new,
            kind.shape,
            empty=kind.empty,
            who=FieldManager("kube-apiserver", "Update", entry.api_version, subresource),
            now=format_time(now),
            ignored=kind.list_ignored(subresource),
            not_creators=kind.list_ignored(),
        )

    # --- reads ----------------------------------------

    def add_managed_fields(
        self, entry: CatalogEntry, doc: Document, kept: bytes, *, stored: Stored | None = None
    ) -> Document:
        """Add managedFields to the document; changes and returns `doc`.

        `stored`: the stored object. It is used if its creator wrote in another version and has no set yet.
        """
        if not kept:
            return doc
        if stored is not None and self._is_open_elsewhere(entry, kept):
            data = self._spell_out_owners(entry, stored.raw, kept)
        else:
            data = self._spell_out_owners(entry, encode_object(doc), kept)
        if entries := orjson.loads(data):
            doc["metadata"]["managedFields"] = entries
        return doc

    def show(self, entry: CatalogEntry, raw: bytes, stored: Stored) -> bytes:
        """Add managedFields to an object's bytes. `raw` may differ from the stored object in its version only."""
        if not stored.managed:
            return raw
        data = self._get_managed_fields(entry, raw, stored)
        if data == b"[]":
            return raw
        # In most objects the uid is the last member of metadata and occurs nowhere else.
        mark = b'"uid":"%s"}' % stored.uid.encode()
        if raw.count(mark) == 1:
            place = raw.index(mark) + len(mark) - 1
            return b"".join((raw[:place], b',"managedFields":', data, raw[place:]))
        doc = decode(raw)
        doc["metadata"]["managedFields"] = orjson.loads(data)
        return encode_object(doc)

    def _spell_out_owners(self, entry: CatalogEntry, raw: bytes, kept: bytes) -> bytes:
        return managers.spell_out(kept, raw, lambda version: self._find_kind_in_version(entry, version).owned)

    def _get_managed_fields(self, entry: CatalogEntry, raw: bytes, stored: Stored) -> bytes:
        """Return the managedFields of the stored object, from a cache: the writer reads them for the response, and the
        watchers read them again.
        """
        asked = (entry.api_version, stored.revision)
        data = self._shown.get(asked)
        if data is None:
            if self._is_open_elsewhere(entry, stored.managed):
                raw = stored.raw
            data = self._shown[asked] = self._spell_out_owners(entry, raw, stored.managed)
            if len(self._shown) > _MOST_SHOWN:
                self._shown.popitem(last=False)
        return data

    def _is_open_elsewhere(self, entry: CatalogEntry, kept: bytes) -> bool:
        """Whether the creator's set is not computed yet, and the creator wrote in another version than the entry's."""
        if len(self._catalog.versions_of(entry.shelf)) <= 1:
            return False
        return self._open_version(kept) not in ("", entry.api_version)


def _build_kind(entry: CatalogEntry, minor: str) -> OwnedKind:
    if entry.is_custom:
        shape = build_schema_shape(
            entry.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        )
        return _with_owned(entry, shape, {"metadata": {}})
    decoder = find_decoder(entry.definition, minor) if entry.definition else None
    if decoder is None:
        return _with_owned(entry, FREE, {"metadata": {}})
    empty, _ = decoder.decode({})
    return _with_owned(entry, build_definition_shape(entry.definition), empty)


def _with_owned(entry: CatalogEntry, shape: Shape, empty: Document) -> OwnedKind:
    ignored = _select_ignored_fields(entry)
    return OwnedKind(entry, shape, empty, OwnedFields(shape, empty=empty, ignored=ignored))
