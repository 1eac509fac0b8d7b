"""Discovery: the requests by which clients learn the served groups, versions and resources.

    path + Accept + Catalog ──▶ answer_discovery() ──▶ document of /api, /apis, /apis/<group>… or /version

Newer clients request everything at once from /api and /apis (aggregated discovery); older clients request each path.
Pure.
"""

from collections.abc import Sequence
from typing import Any, Final

from pykruise.kube.client.stored_versions import compute_storage_version_hash
from pykruise.kube.documents import Document
from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry, Subresource
from pykruise.sandbox.version import version_of

_AGGREGATED: Final = ("v2", "v2beta1")


def answer_discovery(path: str, accept: str, catalog: Catalog) -> Document | None:
    """Return the document at a discovery path; None for other paths and for groups that are not served."""
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return dict(version_of(catalog.minor))
        case ["api" | "apis"]:
            version = _choose_aggregated_version(accept)
            if version:
                return _build_aggregated(catalog, legacy=parts == ["api"], version=version)
            return _build_legacy_versions() if parts == ["api"] else _group_list(catalog)
        case ["api", version]:
            return _build_resource_list(catalog, "", version)
        case ["apis", group] if group in catalog.list_groups() and group:
            return {"kind": "APIGroup", "apiVersion": "v1", **_build_group(catalog, group)}
        case ["apis", group, version]:
            return _build_resource_list(catalog, group, version) if group else None
    return None


def _choose_aggregated_version(accept: str) -> str:
    """The version of aggregated discovery that the client prefers; empty when it wants the classic form."""
    for media_type in accept.split(","):
        name, *parameters = (part.strip() for part in media_type.split(";"))
        wanted = dict(parameter.partition("=")[::2] for parameter in parameters)
        if name not in ("application/json", "*/*") or wanted.get("as") not in (None, "APIGroupDiscoveryList"):
            continue
        if wanted.get("as") is None:
            return ""
        if wanted.get("g") == "apidiscovery.k8s.io" and wanted.get("v") in _AGGREGATED:
            return wanted["v"]
    return ""


# --- the classic form ---


def _build_legacy_versions() -> Document:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    }


def _group_list(catalog: Catalog) -> Document:
    groups = [_build_group(catalog, group) for group in catalog.list_groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _build_group(catalog: Catalog, group: str) -> Document:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in catalog.list_versions(group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _build_resource_list(catalog: Catalog, group: str, version: str) -> Document | None:
    entries = catalog.list_resources(group, version)
    if not entries:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [
            resource
            for entry in _sort_entries(entries)
            for resource in (_build_resource(entry), *_build_subresources(entry))
        ],
    }


def _sort_entries(entries: Sequence[CatalogEntry]) -> Sequence[CatalogEntry]:
    return sorted(entries, key=lambda entry: entry.resource.plural)


def _build_resource(entry: CatalogEntry) -> Document:
    doc: Document = {
        "name": entry.resource.plural,
        "singularName": entry.singular,
        "namespaced": entry.resource.namespaced,
        "kind": entry.resource.kind,
        "verbs": list(entry.verbs),
    }
    if entry.short_names:
        doc["shortNames"] = list(entry.short_names)
    if entry.categories:
        doc["categories"] = list(entry.categories)
    if entry.is_custom:
        own = entry.resource
        doc["storageVersionHash"] = compute_storage_version_hash(own.group, entry.storage_version, own.kind)
    return doc


def _build_subresources(entry: CatalogEntry) -> list[Document]:
    subresources = []
    for subresource in entry.subresources.values():
        doc: Document = {
            "name": f"{entry.resource.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": entry.resource.namespaced,
        }
        if _lives_elsewhere(entry, subresource):
            doc |= {"group": subresource.group, "version": subresource.version}
        subresources.append({**doc, "kind": subresource.kind, "verbs": list(subresource.verbs)})
    return subresources


def _lives_elsewhere(entry: CatalogEntry, subresource: Subresource) -> bool:
    own = entry.resource.group, entry.resource.version
    return (subresource.group, subresource.version) != own


# --- the aggregated form ---


def _build_aggregated(catalog: Catalog, *, legacy: bool, version: str) -> Document:
    groups = [""] if legacy else [group for group in catalog.list_groups() if group]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group_discovery(catalog, group) for group in groups],
    }


def _group_discovery(catalog: Catalog, group: str) -> Document:
    metadata: dict[str, Any] = {"name": group} if group else {}
    versions = [
        {
            "version": version,
            "resources": [
                _build_resource_discovery(entry)
                for entry in _sort_entries(catalog.list_resources(group, version))
            ],
            "freshness": "Current",
        }
        for version in catalog.list_versions(group)
    ]
    return {"metadata": {**metadata, "creationTimestamp": None}, "versions": versions}


def _build_resource_discovery(entry: CatalogEntry) -> Document:
    resource = entry.resource
    doc: Document = {
        "resource": resource.plural,
        # As on a real server, the group is omitted for a built-in kind of the resource's own group.
        "responseKind": _build_response_kind(
            resource.group if entry.is_custom else "", resource.version, resource.kind, entry
        ),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": entry.singular,
        "verbs": list(entry.verbs),
    }
    if entry.short_names:
        doc["shortNames"] = list(entry.short_names)
    if entry.categories:
        doc["categories"] = list(entry.categories)
    if entry.subresources:
        doc["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": _build_response_kind(
                    subresource.group if entry.is_custom or _lives_elsewhere(entry, subresource) else "",
                    subresource.version,
                    subresource.kind,
                    entry,
                ),
                "verbs": list(subresource.verbs),
            }
            for subresource in entry.subresources.values()
        ]
    return doc


def _build_response_kind(group: str, version: str, kind: str, entry: CatalogEntry) -> Document:
    if not group and not entry.is_custom:
        version = ""
    return {"group": group, "version": version, "kind": kind}
