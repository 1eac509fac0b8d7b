"""Conversion of a document between the versions of its kind, for the ownership of fields.

document, its CatalogEntry, another version ──▶ KindVersions.convert() ──▶ the document in that version

A document can still be converted to a version that is no longer served, but not to a version that has been removed.

Same rules as apimachinery's `managedfields/internal/versionconverter.go` and apiextensions' `crConverter`.
"""

from collections.abc import Mapping

from pykruise.kube.documents import Document
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.requests.statuses import make_unclassified_error


class KindVersions:
    """The versions of an entry's kind. `entries`: the entries on its shelf, by apiVersion."""

    def __init__(self, entry: CatalogEntry, entries: Mapping[str, CatalogEntry]) -> None:
        self._entries = entries
        self._group = entry.resource.group
        self._is_custom = entry.is_custom

    def is_missing(self, api_version: str) -> bool:
        """Whether a built-in kind does not have this version in its group. Owners in such a version lose their fields.

        As in an API server, other groups that have the same kind (events) are not searched.
        """
        if self._is_custom:
            return False
        entry = self._entries.get(api_version)
        return entry is None or entry.resource.group != self._group

    def find_entry(self, api_version: str) -> CatalogEntry:
        """Return the entry of a version. Raises Refusal (500) when a custom resource does not have the version."""
        entry = self._entries.get(api_version)
        if entry is None:
            raise make_unclassified_error(f"request to convert CR to an invalid group/version: {api_version}")
        return entry

    async def convert(self, doc: Document, api_version: str) -> Document:
        """Convert the document to that version; a document that already has it is returned unchanged. Raises Refusal
        (500).
        """
        if doc.get("apiVersion") == api_version:
            return doc
        target = self.find_entry(api_version)
        source = self.find_entry(str(doc.get("apiVersion")))
        if source.converter is not None:
            doc = (await source.converter.to_storage([doc]))[0]
        if target.converter is not None:
            return (await target.converter.from_storage([doc]))[0]
        return {**doc, "apiVersion": api_version}
