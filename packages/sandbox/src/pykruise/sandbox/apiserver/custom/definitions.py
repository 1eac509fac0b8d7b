"""Updates the served resources when stored CRDs change, and removes a terminating CRD after its last object.

Core commits a change of a CRD or of its objects ──▶ Definitions ──▶ the CRD's status, the Catalog, removals

All this happens in the same step as the commit: the resource is served before the client gets the response to its POST.
"""

import msgspec

from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document, decode
from pykruise.sandbox.apiserver.catalog import CatalogEntry, Conversions
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.custom.crds import CRD_SHELF, read_crd, set_condition, settle
from pykruise.sandbox.apiserver.objects.storage import StorageChange, Stored
from pykruise.sandbox.apiserver.requests.deletion import CRD_CLEANUP


class Definitions:
    """Maintains the part of the catalog that comes from CRDs. `conversions` convert the objects of these CRDs."""

    def __init__(self, core: Core, conversions: Conversions | None = None) -> None:
        self._core = core
        self._conversions = conversions
        self._shelves: set[str] = set()
        self._names: dict[str, Document] = {}
        """The group and the accepted names of each CRD. Other CRDs of the group cannot have these names."""
        core.on_change(CRD_SHELF, self._on_crd_changed)
        for stored in core.storage.scan(CRD_SHELF).items:
            self._serve(stored)

    def _on_crd_changed(self, change: StorageChange) -> None:
        if change.new is not None:
            self._settle(change.new)
            return
        assert change.old is not None
        name = change.old.key.name
        self._names.pop(name, None)
        shelves = {entry.shelf for entry in self._core.catalog.list_crd_entries(name)}
        self._core.catalog.remove(name)
        for shelf in shelves:
            self._core.hub.end(shelf)
        # The names of the deleted CRD are free now, so another CRD may get them.
        for stored in self._core.storage.scan(CRD_SHELF).items:
            self._settle(stored)

    def _settle(self, stored: Stored) -> None:
        """Write the names and conditions into the CRD's status, or serve the CRD when the status already has them."""
        name = stored.key.name
        others = [names for other, names in self._names.items() if other != name]
        now = self._core.clock()
        before = decode(stored.raw)
        doc = settle(decode(stored.raw), others, format_time(now))
        managed = self._core.ownership.record_controller_change(
            self._find_crd_entry(), stored.managed, before, doc, now=now, subresource="status"
        )
        # A write that changes the status calls this method again with a new change.
        if self._core.put(self._find_crd_entry(), stored, doc, managed=managed) is stored:
            self._serve(stored)

    def _serve(self, stored: Stored) -> None:
        name = stored.key.name
        doc, entries = read_crd(stored.raw)
        if (conversions := self._conversions) is not None:
            entries = tuple(
                msgspec.structs.replace(
                    entry, converter=conversions.find_converter(doc, entry.resource.version)
                )
                for entry in entries
            )
        accepted = (doc.get("status") or {}).get("acceptedNames") or {}
        self._names[name] = {
            "spec": {"group": doc["spec"].get("group")},
            "status": {"acceptedNames": accepted},
        }
        catalog = self._core.catalog
        served = {entry.resource.version for entry in entries if entry.served}
        shelves = {entry.shelf for entry in entries}
        known = {version for shelf in shelves for version in catalog.versions_of(shelf)}
        is_less_served = {entry.resource.version for entry in catalog.list_crd_entries(name)} - served
        if is_less_served or known - {entry.api_version for entry in entries}:
            catalog.remove(name)
        catalog.install(entries)
        for shelf in shelves - self._shelves:
            self._shelves.add(shelf)
            self._core.on_change(shelf, self._on_custom_resource_changed)

    def end_if_empty(self, name: str) -> None:
        """Remove the cleanup finalizer of a terminating CRD when it has no objects left."""
        stored = self._core.get(self._find_crd_entry(), "", name)
        if stored is None:
            return
        doc = decode(stored.raw)
        finalizers = doc["metadata"].get("finalizers") or []
        if not doc["metadata"].get("deletionTimestamp") or CRD_CLEANUP not in finalizers:
            return
        if any(
            self._core.storage.scan(entry.shelf, limit=1).items
            for entry in self._core.catalog.list_crd_entries(name)
        ):
            self._set_terminating(
                doc, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
            )
            self._core.put(self._find_crd_entry(), stored, doc)
            return
        finalizers = [each for each in finalizers if each != CRD_CLEANUP]
        if not finalizers:
            self._core.remove(self._find_crd_entry(), stored)
            return
        doc["metadata"]["finalizers"] = finalizers
        self._set_terminating(doc, "False", "InstanceDeletionCompleted", "removed all instances")
        self._core.put(self._find_crd_entry(), stored, doc)

    def _set_terminating(self, doc: Document, status: str, reason: str, message: str) -> None:
        now = format_time(self._core.clock())
        set_condition(doc["status"], "Terminating", status == "True", reason, message, now)

    def _find_crd_entry(self) -> CatalogEntry:
        entry = self._core.catalog.find_shelf_entry(CRD_SHELF)
        assert entry is not None
        return entry

    def _on_custom_resource_changed(self, change: StorageChange) -> None:
        if change.new is not None:
            return
        entry = self._core.catalog.find_shelf_entry(change.shelf)
        if entry is not None and entry.terminating:
            self.end_if_empty(entry.crd)
