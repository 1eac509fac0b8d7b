"""The seam between the generic life of an object and what its kind wants: one Strategy for each resource.

writes.py, deletion.py ──▶ Strategy (builtin/ for built-in kinds, crds.py for custom ones)

All methods are pure on documents. They may change the document they are given as `doc` or `new` (it is a
fresh copy) and return it; `old` is never changed.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause


class Strategy(Protocol):
    """Strategy of a kind, added to the common life of objects (metadata, versions, deletion)."""

    def decode(self, doc: Document) -> tuple[Document, list[str]]:
        """The document in its kind's canonical shape, and the paths of unknown fields that were dropped.

        Raises ValueError when a value has the wrong type.
        """
        ...

    def without_disabled(self, doc: Document) -> Document:
        """Drop the fields of features that are off."""
        ...

    def prepare_create(self, doc: Document) -> Document:
        """Reset what a creator may not set: usually the status."""
        ...

    def default(self, doc: Document) -> Document:
        """Fill in defaults."""
        ...

    def default_changed(self, new: Document, old: Document) -> Document:
        """Fill in defaults of an object that is stored already."""
        ...

    def validate_create(self, doc: Document) -> list[Cause]:
        """Everything wrong with a new object, besides its metadata."""
        ...

    def prepare_update(self, new: Document, old: Document) -> Document:
        """Through the main endpoint: keep what belongs to the status endpoint."""
        ...

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        """Through the status endpoint: keep everything but the status."""
        ...

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        """Everything wrong with the change, besides metadata."""
        ...

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        """Everything wrong with a change of the status, besides metadata."""
        ...

    def spec_changed(self, new: Document, old: Document) -> bool | None:
        """Whether metadata.generation counts on; None for resources without a generation."""
        ...

    def graceful_deletion(self, doc: Document, options: Mapping[str, Any]) -> int | None:
        """Seconds the object gets to end by itself (0: none); None for kinds that are removed at once."""
        ...
