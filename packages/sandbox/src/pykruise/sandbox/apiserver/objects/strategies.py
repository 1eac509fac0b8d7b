"""Interface between the rules for all objects and the rules of one kind: each resource has a Strategy.

writes.py, deletion.py ──▶ Strategy (builtin/ for built-in kinds, crds.py for custom resources)

All methods are pure functions of documents. They may change the document passed as `doc` or `new` (it is a fresh
copy) and return it; `old` is never changed.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause


class Strategy(Protocol):
    """Rules of a kind, in addition to the rules for all objects (metadata, versions, deletion)."""

    def decode(self, doc: Document) -> tuple[Document, list[str]]:
        """Return the document in its kind's canonical shape, and the paths of unknown fields that were dropped.

        Raises ValueError when a value has the wrong type.
        """
        ...

    def drop_disabled(self, doc: Document) -> Document:
        """Drop the fields of disabled features."""
        ...

    def prepare_create(self, doc: Document) -> Document:
        """Reset the fields that a creator must not set, usually the status."""
        ...

    def default(self, doc: Document) -> Document:
        """Fill in defaults."""
        ...

    def default_changed(self, new: Document, old: Document) -> Document:
        """Fill in defaults of an object that is already stored."""
        ...

    def validate_create(self, doc: Document) -> list[Cause]:
        """All errors of a new object, except those in its metadata."""
        ...

    def prepare_update(self, new: Document, old: Document) -> Document:
        """Keep the fields of the status endpoint in an update of the main endpoint."""
        ...

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        """Keep everything except the status in an update of the status endpoint."""
        ...

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        """All errors of a change, except those in metadata."""
        ...

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        """All errors of a status change, except those in metadata."""
        ...

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        """Whether metadata.generation increases; None for resources without a generation."""
        ...

    def compute_grace_period(self, doc: Document, options: Mapping[str, Any]) -> int | None:
        """Grace period in seconds (0: none); None for kinds that are removed immediately."""
        ...
