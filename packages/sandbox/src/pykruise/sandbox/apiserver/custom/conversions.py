"""Resources that serve the same objects in two groups: events.

stored core/v1 Events ──▶ EventConverter ──▶ events.k8s.io/v1 Events, and back

Pure. Conversion webhooks of custom resources use the same interface (`catalog.Converter`).
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
"""Members of a core/v1 Event, and their names in events.k8s.io/v1."""

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
"""The same fields under their names in events.k8s.io/v1, in the same order. events.k8s.io/v1 cannot select by source.
"""


class EventConverter:
    """Converts between stored core/v1 Events and events.k8s.io/v1."""

    async def from_storage(self, docs: Sequence[Document]) -> list[Document]:
        """Convert to events.k8s.io/v1."""
        return [_rename_members(doc, "events.k8s.io/v1", dict(_RENAMED)) for doc in docs]

    async def to_storage(self, docs: Sequence[Document]) -> list[Document]:
        """Convert to core/v1."""
        back = {new: old for old, new in _RENAMED}
        return [_fill_event(_rename_members(doc, "v1", back)) for doc in docs]


def _rename_members(doc: Document, api_version: str, names: dict[str, str]) -> Document:
    renamed = {names.get(member, member): value for member, value in doc.items()}
    renamed["apiVersion"] = api_version
    return renamed


def _fill_event(doc: Document) -> Document:
    """Fill the fields that a core/v1 Event always has."""
    for member in ("involvedObject", "source"):
        doc.setdefault(member, {})
    for member in ("firstTimestamp", "lastTimestamp"):
        doc.setdefault(member, None)
    return doc
