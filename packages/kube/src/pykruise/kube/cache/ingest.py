"""Decodes the events of one resource and puts them into the store.

watch events, lists (reflector.py) ─┐
responses to writes (cache.py)     ─┴▶ Ingest ──project──▶ store.py ──▶ delivery.py
                                       └── event_batching.py: immediately, or a moment later and together
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from pykruise.kube.cache.delivery import SLICE, Delivery
from pykruise.kube.cache.event_batching import Inbox, Pace
from pykruise.kube.cache.store import Entry, Projected, Store
from pykruise.kube.client.client import WatchEvent
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.documents import Document, decode, get_path, labels_of
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.field_selectors import parse_field_selector
from pykruise.kube.values.selectors import parse_label_selector

__all__ = ["Ingest", "Listing", "Project", "SelectorView"]

_log = logging.getLogger(__name__)

_HEAD: Final = 1024
"""Bytes at the start of an event that are searched for the object's version."""

_VERSION: Final = re.compile(rb'"resourceVersion":"([0-9]+)"')
_GRACE: Final = re.compile(rb'"deletionGracePeriodSeconds":[1-9]')
"""The deletion grace period of a pod whose containers may still run. An object with such a period is not deleted
yet, so it does not have to be decoded as a whole.
"""

T = TypeVar("T", bound=Projected)

Project = Callable[[bytes | msgspec.Raw], T]
"""Converts the JSON text of an object to its view."""


class _Meta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None


class _Details(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    """Fields that all objects have, and the only field of a Status that is needed here: the UID of its object."""

    kind: str = ""
    metadata: _Meta = _Meta()
    details: _Details | None = None

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def version(self) -> int:
        return int(self.metadata.resource_version)

    @property
    def is_finished(self) -> bool:
        """Whether the object is terminating and has nothing left to wait for: the API server removes it with this
        write.

        The grace period must be present and 0: Namespaces have none, and wait for `spec.finalizers`.
        """
        meta = self.metadata
        return bool(
            meta.deletion_timestamp and not meta.finalizers and meta.deletion_grace_period_seconds == 0
        )


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def _has_grace(raw: bytes) -> bool:
    return _GRACE.search(raw, 0, _HEAD) is not None


class SelectorView:
    """The selectors of a cache, for responses to writes: an API server applies them only to lists and watches."""

    def __init__(self, label_selector: str, field_selector: str) -> None:
        self._labels = parse_label_selector(label_selector)
        self._fields = parse_field_selector(field_selector)

    def has(self, raw: bytes) -> bool:
        doc = decode(raw)
        return self._labels.matches(labels_of(doc)) and self._fields.matches(
            lambda path: _read_field(doc, path)
        )


def _read_field(doc: Document, path: str) -> str:
    """Return the value of a field, such as `spec.nodeName`, as field selectors see it; empty when it is not set."""
    value = get_path(doc, *path.split("."), default="")
    return str(value).lower() if isinstance(value, bool) else str(value)


class Ingest(Generic[T]):
    """Fills `store` and makes `delivery` deliver. Only one event loop may use it.

    `namespace=""` means all namespaces; `view`: the selectors of the cache; None: no selectors.
    """

    def __init__(
        self,
        resource: Resource,
        store: Store[T],
        delivery: Delivery[T],
        *,
        project: Project[T],
        namespace: str,
        view: SelectorView | None,
        clock: Clock,
        pace: Pace | None,
        on_distrust: Callable[[str], None],
    ) -> None:
        self.events = 0
        self.foreign = 0
        """Number of responses to writes of objects that do not belong to this cache."""
        self.unreadable = 0
        self.last_event_at: Instant | None = None
        self.synced = asyncio.Event()
        """Set when the first list has been applied."""
        self.inbox = Inbox(pace)
        self.flush = self.inbox.process_events
        self._resource = resource
        self._store = store
        self._delivery = delivery
        self._project = project
        self._namespace = namespace
        self._view = view
        self._clock = clock
        self._on_distrust = on_distrust

    # ── writes of this program ───────────────────────────────────────────────

    def take_written(self, raw: bytes) -> None:
        """Apply the response to a write."""
        try:
            obj, values = self.read(raw)
            is_finished = (
                b'"deletionTimestamp"' in raw and not _has_grace(raw) and _decode_envelope(raw).is_finished
            )
        except Exception as error:
            self.note_unreadable(raw, error)
            return
        key = Key(obj.namespace, obj.name)
        if not obj.uid or not self._is_in_namespace(key):
            self.foreign += 1
        elif is_finished:
            self._store.put_deleted(key, obj.uid, known=obj.resource_version)
        else:
            matches = self._view is None or self._view.has(raw)
            self._store.put_written(key, obj, values, matches=matches)
        self._delivery.deliver()

    def take_deleted(self, answer: tuple[Key, str, bytes]) -> None:
        """Apply the response to a DELETE of the object with this uid; b"": the server reported that it is gone."""
        key, uid, raw = answer
        if not raw:
            self._put_deleted(key, uid, known=0)
            return
        if _has_grace(raw):
            self.take_written(raw)
            return
        try:
            envelope = _decode_envelope(raw)
            if envelope.kind == "Status":
                self._put_deleted(key, uid or (envelope.details.uid if envelope.details else ""), known=0)
            elif envelope.metadata.deletion_timestamp is None or envelope.is_finished:
                known = envelope.version if envelope.metadata.resource_version else 0
                self._put_deleted(key, uid or envelope.metadata.uid, known=known)
            else:
                self.take_written(raw)
        except (msgspec.DecodeError, ValueError) as error:
            self.note_unreadable(raw, error)

    def _put_deleted(self, key: Key, uid: str, *, known: int) -> None:
        if uid and self._is_in_namespace(key):
            self._store.put_deleted(Key(*key), uid, known=known)
            self._delivery.deliver()
        else:
            self.foreign += 1

    def _is_in_namespace(self, key: Key) -> bool:
        return not self._namespace or key[0] == self._namespace

    # ── watch events ─────────────────────────────────────────────────────────

    @property
    def position(self) -> int:
        """The version from which to watch."""
        self.flush()
        return self._store.position

    def on_event(self, event: WatchEvent) -> None:
        """Process an event of the watch."""
        self.events += 1
        self.last_event_at = self._clock()
        self.inbox.put(self._take_event, event)

    def _take_event(self, event: WatchEvent) -> None:
        if event.type == "MODIFIED" or event.type == "ADDED":
            self._take_changed(event.object)
        else:
            self._take_envelope(event.type, event.object)
        self._delivery.deliver()
        if self._store.distrust:
            self._on_distrust(self._store.distrust)

    def _take_changed(self, raw: msgspec.Raw) -> None:
        if self._is_own_write(raw):
            self._store.confirm_pending()
            return
        try:
            obj, values = self.read(raw)
        except Exception as error:
            self.note_unreadable(raw, error)
            self._skip(raw)
            return
        self._store.apply_changed(Key(obj.namespace, obj.name), obj, values)

    def _is_own_write(self, raw: msgspec.Raw) -> bool:
        """Whether the event only shows a write of this program whose response, or a later one, is in the store already.

        Almost half of the events of a busy manager are of this kind and are not decoded again. The uid is compared too,
        because another text in the object may look like its version.
        """
        pending = self._store.find_next_pending()
        if pending is None:
            return False
        version, held = pending
        head = memoryview(raw)[:_HEAD]
        match = _VERSION.search(head)
        return match is not None and int(match[1]) == version and held.uid.encode() in bytes(head)

    def _skip(self, raw: msgspec.Raw) -> None:
        """Note that the version of an object has been seen, although `project` cannot read the object."""
        try:
            envelope = _decode_envelope(raw)
            version = envelope.version
        except (msgspec.DecodeError, ValueError):
            return
        self._store.apply_unreadable(envelope.key, version)

    def _take_envelope(self, kind: str, raw: msgspec.Raw) -> None:
        # Metadata is enough for DELETED and BOOKMARK: a deleted object has the resourceVersion of its deletion.
        try:
            envelope = _decode_envelope(raw)
            version = envelope.version
            if kind not in ("DELETED", "BOOKMARK"):
                raise ValueError(f"unknown event type {kind!r}")
        except (msgspec.DecodeError, ValueError) as error:
            self.note_unreadable(raw, error)
            return
        if kind == "DELETED":
            self._store.apply_deleted(envelope.key, envelope.metadata.uid, version)
        else:
            self._store.apply_bookmark(version)

    # ── lists ────────────────────────────────────────────────────────────────

    def begin_list(self) -> "Listing[T]":
        """Begin a list. Call it before the list is requested."""
        self.flush()
        return Listing(self, self._store)

    def reset(self) -> None:
        """Forget everything: the server's versions have started again below the known ones."""
        self._store.reset()

    async def deliver(self) -> None:
        """Deliver the changes of a finished list."""
        await self._delivery.deliver_in_slices()

    # ── reading ──────────────────────────────────────────────────────────────

    def read(self, raw: bytes | msgspec.Raw) -> Entry[T]:
        """Return the object and its index values. Errors happen here, before the store changes."""
        obj = self._project(raw)
        return obj, self._store.index_values(obj)

    def note_unreadable(self, raw: bytes | msgspec.Raw, error: Exception) -> None:
        """Count and log an object that cannot be read."""
        self.unreadable += 1
        _log.warning("%s %s: cannot be read: %s", self._resource, _describe(raw), error)


class Listing(Generic[T]):
    """A list that is being read page by page. It is stale if its version is below `floor`."""

    def __init__(self, ingest: Ingest[T], store: Store[T]) -> None:
        self.floor = store.floor
        self._ingest = ingest
        self._store = store
        self._number = store.begin_list()
        self._listed: list[Entry[T]] = []
        self._unreadable: set[Key] = set()

    async def read(self, page: Sequence[msgspec.Raw]) -> None:
        """Read the next page."""
        for count, raw in enumerate(page, 1):
            try:
                self._listed.append(self._ingest.read(raw))
            except Exception as error:
                self._ingest.note_unreadable(raw, error)
                self._unreadable.add(_read_key(raw))
            if count % SLICE == 0:
                await asyncio.sleep(0)

    def restart(self) -> None:
        """Start the list again, and drop the pages read so far."""
        self._listed.clear()

    async def finish(self, version: int) -> None:
        """Apply the list after all pages were read."""
        if not self._ingest.synced.is_set():
            await self._put_in_slices()
        self._ingest.flush()
        # There is no await from here on: the list is applied as a whole.
        self._store.replace(version, self._listed, self._unreadable, number=self._number)
        self._ingest.synced.set()

    async def _put_in_slices(self) -> None:
        """Apply the first list in slices. No controller plans from a cache that is not synced."""
        for count, (obj, values) in enumerate(self._listed, 1):
            self._store.put_listed(Key(obj.namespace, obj.name), obj, values, number=self._number)
            if count % SLICE == 0:
                await asyncio.sleep(0)


def _read_key(raw: bytes | msgspec.Raw) -> Key:
    try:
        return _decode_envelope(raw).key
    except msgspec.DecodeError:
        return Key("", "")


def _describe(raw: bytes | msgspec.Raw) -> str:
    """Return key and version of an object that cannot be read, as far as they can be decoded."""
    try:
        envelope = _decode_envelope(raw)
    except msgspec.DecodeError:
        return "(an object without readable metadata)"
    return f"{envelope.key} at version {envelope.metadata.resource_version or '?'}"
