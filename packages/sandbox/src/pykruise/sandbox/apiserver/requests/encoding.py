"""Stored bytes as answers, without decoding them.

Stored.raw (canonical JSON) ──▶ splice version, revision, list frame ──▶ bytes of an answer

Stored objects begin with their apiVersion and kind; all other members are sorted, and each is spelled in
exactly one way. That makes a few splices safe; where one is not certain, the document is decoded.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from pykruise.kube.documents import Document, canonical, decode
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.objects.storage import Stored

Bytes = bytes | memoryview
_FIRST: Final = ("apiVersion", "kind")


def encode_object(doc: Document) -> bytes:
    """The one spelling of an object: apiVersion, kind, then the rest with sorted keys. Equal objects give
    equal bytes.
    """
    rest = canonical({member: value for member, value in doc.items() if member not in _FIRST})
    return _head(doc["apiVersion"], doc["kind"]) + memoryview(rest)[1:]


def _head(api_version: str, kind: str) -> bytes:
    return b'{"apiVersion":"%s","kind":"%s",' % (api_version.encode(), kind.encode())


def relabel(raw: bytes, api_version: str) -> bytes:
    """A stored object with another apiVersion."""
    head = b'{"apiVersion":"%s",' % api_version.encode()
    return raw if raw.startswith(head) else head + memoryview(raw)[raw.index(b",") + 1 :]


def with_revision(stored: Stored, revision: int) -> bytes:
    """The object with another resourceVersion: how a deletion shows what is gone."""
    return stored.raw if stored.revision == revision else revised(stored.raw, stored.revision, revision)


def revised(raw: bytes, old: int, revision: int) -> bytes:
    """An object's bytes of one resourceVersion with another."""
    shown = b'"resourceVersion":"%d"'
    said = shown % old
    # An owner's or an event's reference may hold the same number; then only a decoder can tell them apart.
    if raw.count(said) == 1:
        return raw.replace(said, shown % revision)
    doc = decode(raw)
    doc["metadata"]["resourceVersion"] = str(revision)
    return encode_object(doc)


def event_line(kind: str, raw: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%s","object":%s}' % (kind.encode(), raw)


def list_body(
    entry: CatalogEntry,
    items: Iterable[bytes],
    *,
    revision: int,
    token: str = "",
    remaining: int | None = None,
) -> bytes:
    """A list. As on a real API server, the items of built-in lists do not repeat apiVersion and kind."""
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        entry.list_kind.encode(),
        entry.api_version.encode(),
        orjson.dumps(_list_metadata(revision, token, remaining, custom=entry.is_custom)),
    )
    parts: Iterable[Bytes] = items
    if not entry.is_custom:
        own = _head(entry.api_version, entry.resource.kind)
        parts = (_without(item, own) for item in items)
    return b"".join((head, b",".join(parts), b"]}"))


def _without(item: bytes, head: bytes) -> Bytes:
    return b"{" + memoryview(item)[len(head) :] if item.startswith(head) else item


def _list_metadata(revision: int, token: str, remaining: int | None, *, custom: bool) -> Document:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if token or custom:
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return metadata
