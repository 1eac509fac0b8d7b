"""Objects as tables and as bare metadata, for clients that request it in the Accept header.

bytes of objects ──▶ render_object(), list_in_form() ──▶ bytes of a Table or of PartialObjectMetadata(List)

Pure.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.requests.negotiation import Form


def render_object(entry: CatalogEntry, raw: bytes, *, form: Form, now: Instant) -> bytes:
    """Render one object."""
    doc = decode(raw)
    if form.shows == "metadata":
        return orjson.dumps(_to_partial(doc, form))
    return orjson.dumps(_to_table(entry, [doc], form, now, {"resourceVersion": _read_revision(doc)}))


def list_in_form(
    entry: CatalogEntry,
    raws: Sequence[bytes],
    *,
    form: Form,
    now: Instant,
    revision: int,
    token: str,
    remaining: int | None,
) -> bytes:
    """Render a list with its revision and continue token."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if token:
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    docs = [decode(raw) for raw in raws]
    if form.shows == "table":
        return orjson.dumps(_to_table(entry, docs, form, now, metadata))
    return orjson.dumps(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": metadata,
            "items": [_to_partial(doc, form) for doc in docs],
        }
    )


def _to_partial(doc: Document, form: Form) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": doc.get("metadata") or {},
    }


def _to_table(
    entry: CatalogEntry, docs: Sequence[Document], form: Form, now: Instant, metadata: dict[str, Any]
) -> Document:
    # Imported here, because the module knows every kind's columns, and most requests need no table.
    from pykruise.sandbox.apiserver.printing.tables import build_table

    table = build_table(entry, docs, now=now)
    table["apiVersion"] = f"meta.k8s.io/{form.version}"
    table["metadata"] = metadata
    for row, doc in zip(table["rows"], docs, strict=True):
        if form.include == "None":
            row["object"] = None
        elif form.include == "Object":
            row["object"] = doc
        else:
            row["object"] = _to_partial(doc, form)
    return table


def _read_revision(doc: Document) -> str:
    return str((doc.get("metadata") or {}).get("resourceVersion") or "")
