"""Strategy of a built-in kind: its own defaults, checks and immutable fields, in addition to the rules for all objects.

    a body ──▶ decode (types, unknown fields) ──▶ default ──▶ (mutating admission) ──▶ decode, default
           ──▶ drop_disabled (fields of features that are off)
           ──▶ create:         uid and creationTimestamp are set ──▶ prepare_create ──▶ validate_create
           ──▶ update:         prepare_update ──▶ validate_update
           ──▶ update status:  prepare_status_update ──▶ validate_status_update
           ──▶ (validating admission) ──▶ stored

Every method is a plain function of plain documents. A method that returns a document may change the passed document
(the caller passes a fresh copy) and return it. `old` is never changed. `default` is idempotent.

The base class is a complete strategy, for kinds without rules of their own. The core, not the strategy, handles
generic metadata (names, labels, uid, resourceVersion, deletion).
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.schemas.builtin_types import Decoder
from pykruise.kube.schemas.disabled_fields import drop_disabled_fields
from pykruise.kube.schemas.releases import NEWEST_MINOR, Release
from pykruise.sandbox.version import find_served_release


class BuiltinStrategy:
    """Rules of one built-in kind. The base class is the strategy of kinds without rules of their own."""

    tracks_generation: bool = False
    """Whether `metadata.generation` starts at 1 and counts changes of the desired state."""

    has_status: bool = False
    """Whether `status` is written through the status subresource only."""

    allows_create_on_update: bool = False
    """Whether a PUT of an absent object creates it (configmaps, leases, endpoints and a few more)."""

    allows_unconditional_update: bool = True
    """Whether a PUT without resourceVersion overwrites the stored object."""

    release: Release = find_served_release(NEWEST_MINOR)
    """The Kubernetes release whose rules apply."""

    definition: str = ""
    """Name of the kind's OpenAPI definition; some of its fields are disabled in some releases."""

    def __init__(self, decoder: Decoder | None = None) -> None:
        self._decoder = decoder

    def decode(self, doc: Document) -> tuple[Document, list[str]]:
        """Return the document as the server writes it, and the sorted paths of the unknown fields that were dropped.

        Raises DecodeError (a ValueError) when a value has the wrong type. The caller then responds with 400, and with
        `Pod in version "v1" cannot be handled as a Pod: ` before the error's message.
        """
        return self._decoder.decode(doc) if self._decoder else (doc, [])

    def default(self, doc: Document) -> Document:
        """Fill missing fields, as the API server does when it decodes an object."""
        return doc

    def default_changed(self, new: Document, old: Document) -> Document:
        """Fill missing fields of an update. Parts that have not changed since they were stored already have their
        defaults.
        """
        return self.default(new)

    def drop_disabled(self, doc: Document) -> Document:
        """Drop the fields of disabled features, as the API server does silently."""
        return drop_disabled_fields(doc, self.definition, self.release)

    def prepare_create(self, doc: Document) -> Document:
        """Set the fields of a new object that only the server decides, such as its first status."""
        if self.has_status:
            doc.pop("status", None)
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        """All field errors of a new object; empty when it is valid."""
        return []

    def prepare_update(self, new: Document, old: Document) -> Document:
        """Restore the fields that an update of the main resource must not change, such as the status."""
        if self.has_status:
            keep(new, old, "status")
        return new

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        """Restore the fields that an update of the status must not change: all but status and metadata."""
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

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        """Whether `metadata.generation` increases; None when the kind has no generation."""
        if not self.tracks_generation:
            return None
        return any(
            new.get(field) != old.get(field) for field in new.keys() | old.keys() if field not in _NOT_SPEC
        )

    def compute_grace_period(self, doc: Document, options: Mapping[str, Any]) -> int | None:
        """Seconds between a delete request and removal; None when the object is removed immediately.

        `options` is the document of a `DeleteOptions`. If the result is 0, the object is also removed immediately, but
        its deletionGracePeriodSeconds is set.
        """
        return None


def keep(new: Document, old: Document, field: str) -> None:
    """Copy `field` from the old document to the new one, or remove it if the old document does not have it."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


_OF_STATUS_UPDATE = frozenset({"apiVersion", "kind", "metadata", "status"})
_NOT_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})
