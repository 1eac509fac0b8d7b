"""Strategy of a built-in kind: its own defaults, checks and immutable fields, added to the common life of objects.

    a body ──▶ decode (types, unknown fields) ──▶ default ──▶ (mutating admission) ──▶ decode, default
           ──▶ without_disabled (fields of features that are off)
           ──▶ create:         identity is given ──▶ prepare_create ──▶ validate_create
           ──▶ update:         prepare_update ──▶ validate_update
           ──▶ update status:  prepare_status_update ──▶ validate_status_update
           ──▶ (validating admission) ──▶ stored

Every method is a plain function of plain documents. Methods that return a document may change the one passed
(the caller hands over a fresh copy) and return it; `old` is never changed. `default` is idempotent.

The base class is a complete strategy: the one of a kind without rules of its own. Generic metadata
(names, labels, uid, resourceVersion, deletion) is the core's, not the strategy's.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.schemas.builtin_types import Decoder
from pykruise.kube.schemas.disabled_fields import without_disabled
from pykruise.kube.schemas.releases import NEWEST_MINOR, Release
from pykruise.sandbox.version import served_release


class BuiltinStrategy:
    """Rules of one built-in kind; the base holds those of a kind that has none of its own."""

    tracks_generation: bool = False
    """Whether `metadata.generation` starts at 1 and counts changes of what the user asks for."""

    has_status: bool = False
    """Whether `status` is written through the status subresource only."""

    allows_create_on_update: bool = False
    """Whether a PUT of an absent object creates it (configmaps, leases, endpoints and a few more)."""

    allows_unconditional_update: bool = True
    """Whether a PUT without resourceVersion overwrites whatever is there."""

    release: Release = served_release(NEWEST_MINOR)
    """The Kubernetes whose rules these are."""

    definition: str = ""
    """The kind's definition, whose fields some releases do not have on."""

    def __init__(self, decoder: Decoder | None = None) -> None:
        self._decoder = decoder

    def decode(self, doc: Document) -> tuple[Document, list[str]]:
        """The document as the server writes it, and the sorted paths of the unknown fields that were dropped.

        Raises DecodeError (a ValueError) when a value has the wrong type; the caller answers 400 and puts
        `Pod in version "v1" cannot be handled as a Pod: ` before its message.
        """
        return self._decoder.decode(doc) if self._decoder else (doc, [])

    def default(self, doc: Document) -> Document:
        """Fill what was left out, as the API server does when it decodes an object."""
        return doc

    def default_changed(self, new: Document, old: Document) -> Document:
        """The same of an object that is stored already; what has not changed has its defaults."""
        return self.default(new)

    def without_disabled(self, doc: Document) -> Document:
        """Drop the fields of features that are off, as the API server does without a word."""
        return without_disabled(doc, self.definition, self.release)

    def prepare_create(self, doc: Document) -> Document:
        """Set what the server alone decides about a new object: its first status, for one."""
        if self.has_status:
            doc.pop("status", None)
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        """All field errors of a new object; empty when it may be stored."""
        return []

    def prepare_update(self, new: Document, old: Document) -> Document:
        """Undo what an update of the main resource must not change: the status, for one."""
        if self.has_status:
            keep(new, old, "status")
        return new

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        """Undo what an update of the status must not change: everything but status and metadata."""
        for field in [name for name in new if name not in _OF_STATUS_UPDATE]:
            if field not in old:
                del new[field]
        for field in old:
            if field not in _OF_STATUS_UPDATE:
                new[field] = old[field]
        return new

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        """All field errors of a changed object, forbidden changes included."""
        return self.validate_create(new)

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        """All field errors of a changed status."""
        return []

    def spec_changed(self, new: Document, old: Document) -> bool | None:
        """Whether `metadata.generation` goes up by one; None when the kind keeps no generation."""
        if not self.tracks_generation:
            return None
        return any(
            new.get(field) != old.get(field) for field in new.keys() | old.keys() if field not in _NOT_SPEC
        )

    def graceful_deletion(self, doc: Document, options: Mapping[str, Any]) -> int | None:
        """Seconds between a delete request and removal; None when the kind is removed at once.

        `options` is the document of a `DeleteOptions`. 0 also removes at once, but is recorded.
        """
        return None


def keep(new: Document, old: Document, field: str) -> None:
    """Make `field` of the new document what it is in the old one."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


_OF_STATUS_UPDATE = frozenset({"apiVersion", "kind", "metadata", "status"})
_NOT_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})
