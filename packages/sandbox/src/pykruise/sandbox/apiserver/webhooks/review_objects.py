"""The form in which webhooks and policies see a write: objects in the version that their rules name, and a `request`.

a write under review + rules ──▶ Seeing.find_seen() ──▶ SeenByAdmission ──▶ to_document(), convert_shown()

Reads the catalog and the namespaces; changes nothing. This is the rule of apiserver's matchPolicy and AdmissionRequest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import deep_copy, labels_of
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.requests.scale import scale_of
from pykruise.sandbox.apiserver.requests.statuses import make_not_found


class SeenByAdmission(NamedTuple):
    """Form in which a reviewer sees a write: the entry and resource of its version."""

    entry: CatalogEntry
    resource: Resource


class Seeing:
    """Reads the objects of one API server for admission."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def find_seen(
        self, request: AdmissionRequest, names: Callable[[Resource], bool], *, exact: bool
    ) -> SeenByAdmission | None:
        """Return the write in the first version that the rules name. `exact`: consider only the write's own version."""
        resources = [request.resource]
        if not exact:
            resources += [each for each in self.list_versions(request.resource) if each != request.resource]
        for resource in resources:
            if names(resource):
                return SeenByAdmission(self.find_entry(resource), resource)
        return None

    def namespace_of(self, request: AdmissionRequest) -> Stored | None:
        """Return the namespace of the written object; None for cluster-scoped objects and namespaces. Raises Refusal
        (404).
        """
        if not request.namespace or is_namespace(request.resource):
            return None
        stored = self._core.storage.get("namespaces", Key("", request.namespace))
        if stored is None:
            namespaces = self._core.catalog.find_entry("", "v1", "namespaces")
            assert namespaces is not None
            raise make_not_found(namespaces.resource, request.namespace)
        return stored

    def read_namespace_labels(self, request: AdmissionRequest) -> Mapping[str, str] | None:
        """Labels for namespace selectors; None if there is no namespace. Raises Refusal (404)."""
        if is_namespace(request.resource):
            doc = request.object if request.object is not None else request.old_object
            return labels_of(doc or {})
        stored = self.namespace_of(request)
        return stored.labels if stored is not None else None

    def to_document(self, request: AdmissionRequest, seen: SeenByAdmission) -> dict[str, Any]:
        """Build the `request` of an AdmissionReview, without its objects."""
        own = self.find_entry(request.resource)
        document: dict[str, Any] = {
            "uid": request.uid,
            "kind": _build_kind_document(seen.entry, request.subresource),
            "resource": _build_resource_document(seen.resource),
            "requestKind": _build_kind_document(own, request.subresource),
            "requestResource": _build_resource_document(request.resource),
            "name": request.name,
            "operation": request.operation,
            "userInfo": {
                "username": request.username,
                "groups": list(request.groups),
                **(
                    {"extra": {name: list(values) for name, values in request.extra.items()}}
                    if request.extra
                    else {}
                ),
            },
            "dryRun": request.dry_run,
            "options": request.options or _build_options_document(request),
        }
        if request.subresource:
            document |= {"subResource": request.subresource, "requestSubResource": request.subresource}
        if request.namespace:
            document["namespace"] = request.namespace
        return document

    async def convert_shown(self, doc: Any, request: AdmissionRequest, seen: SeenByAdmission) -> Any:
        """Convert an object of the request to the version that the reviewer sees. For the scale subresource it is a
        Scale.
        """
        shown = await self.convert_document(doc, request.resource, seen.resource)
        if request.subresource == "scale" and shown is not None:
            return scale_of(seen.entry, shown)
        return shown

    def list_versions(self, resource: Resource) -> Sequence[Resource]:
        """All versions (in any group) in which the stored objects of the resource are served."""
        entry = self._core.catalog.find_entry(resource.group, resource.version, resource.plural)
        if entry is None:
            return [resource]
        shelf = entry.shelf
        return [each.resource for each in self._core.catalog.list_entries() if each.shelf == shelf]

    def find_entry(self, resource: Resource) -> CatalogEntry:
        """Return the entry of a served resource."""
        entry = self._core.catalog.find_entry(resource.group, resource.version, resource.plural)
        assert entry is not None, resource
        return entry

    async def convert_document(self, doc: Any, source: Resource, wanted: Resource) -> Any:
        """Convert a document to another version of its resource."""
        if doc is None or source == wanted:
            return doc
        stored = await self._core.encode_for_storage(self.find_entry(source), deep_copy(doc))
        return await self._core.from_storage(self.find_entry(wanted), stored)


def is_namespace(resource: Resource) -> bool:
    """Whether the resource is `namespaces`, whose objects are cluster-scoped."""
    return (resource.group, resource.plural) == ("", "namespaces")


def _build_kind_document(entry: CatalogEntry, subresource: str) -> dict[str, str]:
    resource = entry.resource
    known = entry.subresources.get(subresource) if subresource else None
    if known is not None:
        return {"group": known.group, "version": known.version, "kind": known.kind}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _build_resource_document(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def _build_options_document(request: AdmissionRequest) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": _OPTIONS.get(request.operation, "CreateOptions"),
        "apiVersion": "meta.k8s.io/v1",
    }
    return {**document, "dryRun": ["All"]} if request.dry_run else document
