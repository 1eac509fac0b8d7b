"""Resources that are the same objects under two groups: events.

Storage has core/v1 Events ──▶ EventConverter ──▶ events.k8s.io/v1 Events, and back

Pure. Conversion webhooks of custom resources stand behind the same seam (`catalog.Converter`).
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kube.documents import Document

_RENAMED: Final = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)
"""Members of a core/v1 Event and what events.k8s.io/v1 calls them."""

_PARTS: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
EVENT_FACTS: Final = (
    *(f"involvedObject.{part}" for part in _PARTS),
    "reason",
    "reportingComponent",
    "type",
    "source",
)
"""Selectable fields of a stored Event."""

EVENT_FIELDS: Final = (
    *(f"regarding.{part}" for part in _PARTS),
    "reason",
    "reportingController",
    "type",
)
"""The same as events.k8s.io/v1 calls them, in the same places; it does not select by source."""


class EventConverter:
    """Between stored core/v1 Events and events.k8s.io/v1."""

    async def from_storage(self, docs: Sequence[Document]) -> list[Document]:
        """As events.k8s.io/v1."""
        return [_renamed(doc, "events.k8s.io/v1", dict(_RENAMED)) for doc in docs]

    async def to_storage(self, docs: Sequence[Document]) -> list[Document]:
        """As core/v1."""
        back = {new: old for old, new in _RENAMED}
        return [_completed(_renamed(doc, "v1", back)) for doc in docs]


def _renamed(doc: Document, api_version: str, names: dict[str, str]) -> Document:
    renamed = {names.get(member, member): value for member, value in doc.items()}
    renamed["apiVersion"] = api_version
    return renamed


def _completed(doc: Document) -> Document:
    """Fields that a core/v1 Event always has."""
    for member in ("involvedObject", "source"):
        doc.setdefault(member, {})
    for member in ("firstTimestamp", "lastTimestamp"):
        doc.setdefault(member, None)
    return doc
