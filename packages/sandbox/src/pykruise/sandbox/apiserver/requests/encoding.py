"""Encoding of stored bytes as responses, without decoding them.

Stored.raw (canonical JSON) ──▶ splice version, revision, list frame ──▶ bytes of a response

Stored objects begin with their apiVersion and kind. All other members are sorted, and each has exactly one encoding,
which makes a few splices safe. When a splice may be wrong, the document is decoded.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from pykruise.kube.documents import Document, decode, encode_canonical
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.objects.storage import Stored

Bytes = bytes | memoryview
_FIRST: Final = ("apiVersion", "kind")


def encode_object(doc: Document) -> bytes:
    """Encode an object canonically: apiVersion, kind, then the other members sorted. Equal objects have equal bytes."""
    rest = encode_canonical({member: value for member, value in doc.items() if member not in _FIRST})
    return _encode_head(doc["apiVersion"], doc["kind"]) + memoryview(rest)[1:]


def _encode_head(api_version: str, kind: str) -> bytes:
    return b'{"apiVersion":"%s","kind":"%s",' % (api_version.encode(), kind.encode())


def relabel(raw: bytes, api_version: str) -> bytes:
    """Return a stored object with another apiVersion."""
    head = b'{"apiVersion":"%s",' % api_version.encode()
    return raw if raw.startswith(head) else head + memoryview(raw)[raw.index(b",") + 1 :]


def replace_revision(stored: Stored, revision: int) -> bytes:
    """Return the object with another resourceVersion, as a deletion shows the removed object."""
    return stored.raw if stored.revision == revision else revise_bytes(stored.raw, stored.revision, revision)


def revise_bytes(raw: bytes, old: int, revision: int) -> bytes:
    """Replace the resourceVersion in an object's bytes."""
    shown = b'"resourceVersion":"%d"'
    said = shown % old
    # If an owner reference or the reference of an event contains the same number, only a decoder can distinguish them.
    if raw.count(said) == 1:
        return raw.replace(said, shown % revision)
    doc = decode(raw)
    doc["metadata"]["resourceVersion"] = str(revision)
    return encode_object(doc)


def encode_event_line(kind: str, raw: bytes) -> bytes:
    """Encode one line of a watch."""
    return b'{"type":"%s","object":%s}' % (kind.encode(), raw)


def list_body(
    entry: CatalogEntry,
    items: Iterable[bytes],
    *,
    revision: int,
    token: str = "",
    remaining: int | None = None,
) -> bytes:
    """Encode a list. As on a real API server, the items of built-in lists do not repeat apiVersion and kind."""
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        entry.list_kind.encode(),
        entry.api_version.encode(),
        orjson.dumps(_list_metadata(revision, token, remaining, custom=entry.is_custom)),
    )
    parts: Iterable[Bytes] = items
    if not entry.is_custom:
        own = _encode_head(entry.api_version, entry.resource.kind)
        parts = (_remove_head(item, own) for item in items)
    return b"".join((head, b",".join(parts), b"]}"))


def _remove_head(item: bytes, head: bytes) -> Bytes:
    return b"{" + memoryview(item)[len(head) :] if item.startswith(head) else item


def _list_metadata(revision: int, token: str, remaining: int | None, *, custom: bool) -> Document:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if token or custom:
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return metadata
