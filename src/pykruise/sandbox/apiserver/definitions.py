"""Keeps what is served in step with the CRDs that are stored, and ends a CRD with its objects.

Core commits a change of a CRD or of a custom resource ──▶ Definitions ──▶ Catalog, or the next removal

Everything happens in the step of the commit: when the answer to the POST of a CRD is out, its resource is served.
"""

from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document, decode
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.crds import CRD_SHELF, CrdSource, entries_of
from pykruise.sandbox.apiserver.deletion import CRD_CLEANUP
from pykruise.sandbox.apiserver.storage import Change, Stored

__all__ = ["Definitions"]


class Definitions:
    """Owns the part of the catalog that comes from CRDs."""

    def __init__(self, core: Core, source: CrdSource) -> None:
        self._core = core
        self._source = source
        self._shelves: set[str] = set()
        core.on_change(CRD_SHELF, self._crd_changed)
        for stored in core.storage.scan(CRD_SHELF).items:
            self._serve(stored)

    def _crd_changed(self, change: Change) -> None:
        if change.new is None:
            assert change.old is not None
            name = change.old.key.name
            self._source.set(name, None)
            shelves = {entry.shelf for entry in self._core.catalog.of_crd(name)}
            self._core.catalog.remove(name)
            for shelf in shelves:
                self._core.hub.end(shelf)
            return
        self._serve(change.new)

    def _serve(self, stored: Stored) -> None:
        name = stored.key.name
        doc = decode(stored.raw)
        self._source.set(name, stored.raw)
        entries = entries_of(doc)
        served = {entry.resource.version for entry in entries}
        if {entry.resource.version for entry in self._core.catalog.of_crd(name)} - served:
            self._core.catalog.remove(name)
        self._core.catalog.install(entries)
        for shelf in {entry.shelf for entry in entries} - self._shelves:
            self._shelves.add(shelf)
            self._core.on_change(shelf, self._custom_resource_changed)

    def end_if_empty(self, name: str) -> None:
        """Take the cleanup finalizer off a terminating CRD that has no objects any more."""
        entries = self._core.catalog.of_crd(name)
        crd = self._core.catalog.of_shelf(CRD_SHELF)
        assert crd is not None
        stored = self._core.get(crd, "", name)
        if stored is None:
            return
        doc = decode(stored.raw)
        finalizers = doc["metadata"].get("finalizers") or []
        if not doc["metadata"].get("deletionTimestamp") or CRD_CLEANUP not in finalizers:
            return
        if any(self._core.storage.scan(entry.shelf, limit=1).items for entry in entries):
            return
        finalizers = [each for each in finalizers if each != CRD_CLEANUP]
        if not finalizers:
            self._core.remove(crd, stored)
            return
        doc["metadata"]["finalizers"] = finalizers
        _terminating_done(doc, format_time(self._core.clock()))
        self._core.put(crd, stored, doc)

    def _custom_resource_changed(self, change: Change) -> None:
        if change.new is not None:
            return
        entry = self._core.catalog.of_shelf(change.shelf)
        if entry is not None and entry.terminating:
            self.end_if_empty(entry.crd)


def _terminating_done(doc: Document, now: str) -> None:
    for condition in doc.get("status", {}).get("conditions") or ():
        if condition.get("type") == "Terminating":
            condition.update(
                status="False",
                lastTransitionTime=now,
                reason="InstanceDeletionCompleted",
                message="removed all instances",
            )
