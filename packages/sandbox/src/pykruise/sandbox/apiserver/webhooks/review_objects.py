"""How webhooks and policies see a write: in the version that their rules name, with the `request` around it.

a write under review + rules ──▶ Seeing.seen() ──▶ SeenByAdmission ──▶ document(), shown()

Reads the catalog and the namespaces; changes nothing. Rule: apiserver's matchPolicy and AdmissionRequest.
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
from pykruise.sandbox.apiserver.requests.statuses import not_found


class SeenByAdmission(NamedTuple):
    """How a reviewer sees a write: the entry whose version it is in."""

    entry: CatalogEntry
    resource: Resource


class Seeing:
    """Objects of one API server that admission reads."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def seen(
        self, request: AdmissionRequest, names: Callable[[Resource], bool], *, exact: bool
    ) -> SeenByAdmission | None:
        """The write in the first version that the rules name; `exact`: in its own or not at all."""
        resources = [request.resource]
        if not exact:
            resources += [each for each in self.versions(request.resource) if each != request.resource]
        for resource in resources:
            if names(resource):
                return SeenByAdmission(self.entry(resource), resource)
        return None

    def namespace_of(self, request: AdmissionRequest) -> Stored | None:
        """The namespace of what is written; None for what is in none, and for namespaces. Raises Refusal (404)."""
        if not request.namespace or is_namespace(request.resource):
            return None
        stored = self._core.storage.get("namespaces", Key("", request.namespace))
        if stored is None:
            namespaces = self._core.catalog.entry("", "v1", "namespaces")
            assert namespaces is not None
            raise not_found(namespaces.resource, request.namespace)
        return stored

    def namespace_labels(self, request: AdmissionRequest) -> Mapping[str, str] | None:
        """Labels for namespace selectors; None: no namespace. Raises Refusal (404)."""
        if is_namespace(request.resource):
            doc = request.object if request.object is not None else request.old_object
            return labels_of(doc or {})
        stored = self.namespace_of(request)
        return stored.labels if stored is not None else None

    def document(self, request: AdmissionRequest, seen: SeenByAdmission) -> dict[str, Any]:
        """The `request` of an AdmissionReview, without its objects."""
        own = self.entry(request.resource)
        document: dict[str, Any] = {
            "uid": request.uid,
            "kind": _kind(seen.entry, request.subresource),
            "resource": _resource(seen.resource),
            "requestKind": _kind(own, request.subresource),
            "requestResource": _resource(request.resource),
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
            "options": request.options or _options(request),
        }
        if request.subresource:
            document |= {"subResource": request.subresource, "requestSubResource": request.subresource}
        if request.namespace:
            document["namespace"] = request.namespace
        return document

    async def shown(self, doc: Any, request: AdmissionRequest, seen: SeenByAdmission) -> Any:
        """An object of the request in the version in which it is seen; what is scaled is a Scale."""
        shown = await self.converted(doc, request.resource, seen.resource)
        if request.subresource == "scale" and shown is not None:
            return scale_of(seen.entry, shown)
        return shown

    def versions(self, resource: Resource) -> Sequence[Resource]:
        """All resources that are the same objects."""
        entry = self._core.catalog.entry(resource.group, resource.version, resource.plural)
        if entry is None:
            return [resource]
        shelf = entry.shelf
        return [each.resource for each in self._core.catalog.entries() if each.shelf == shelf]

    def entry(self, resource: Resource) -> CatalogEntry:
        """The entry of a resource that is served."""
        entry = self._core.catalog.entry(resource.group, resource.version, resource.plural)
        assert entry is not None, resource
        return entry

    async def converted(self, doc: Any, source: Resource, wanted: Resource) -> Any:
        """A document in another version of its resource."""
        if doc is None or source == wanted:
            return doc
        stored = await self._core.for_storage(self.entry(source), deep_copy(doc))
        return await self._core.from_storage(self.entry(wanted), stored)


def is_namespace(resource: Resource) -> bool:
    """Whether these are namespaces, which are in none."""
    return (resource.group, resource.plural) == ("", "namespaces")


def _kind(entry: CatalogEntry, subresource: str) -> dict[str, str]:
    resource = entry.resource
    known = entry.subresources.get(subresource) if subresource else None
    if known is not None:
        return {"group": known.group, "version": known.version, "kind": known.kind}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def _options(request: AdmissionRequest) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": _OPTIONS.get(request.operation, "CreateOptions"),
        "apiVersion": "meta.k8s.io/v1",
    }
    return {**document, "dryRun": ["All"]} if request.dry_run else document
