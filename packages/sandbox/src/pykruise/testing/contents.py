"""Common parts of the two test clusters (in process and over HTTPS): manifests, failures, names of resources.

manifests (paths, texts, documents) ──▶ documents_of() ──▶ put()
"deployments", "Deployment", "things.example.com" ──▶ find_resource()
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.values.near_misses import format_hint
from pykruise.kube.yaml_documents import read_yaml_documents
from pykruise.sandbox.inventory import Inventory, discover
from pykruise.sandbox.nodes.faults import Rule, parse_rules

__all__ = [
    "Manifest",
    "documents_of",
    "find_resource",
    "list_documents_with_sources",
    "put",
    "put_all",
    "rules_of",
]

Manifest = Path | str | Mapping[str, Any]
"""A file, a text in YAML or JSON with one or more documents, or a document."""

_STRICT: Final = "Strict"


def documents_of(manifests: Iterable[Manifest]) -> list[Document]:
    """Return all documents in their order, with the items of lists as documents of their own. Raises ValueError,
    OSError.
    """
    return [document for _, document in list_documents_with_sources(manifests)]


def list_documents_with_sources(manifests: Iterable[Manifest]) -> list[tuple[str, Document]]:
    """Return all documents as `documents_of` does, each with the path of its file; the path is empty if there is no
    file.
    """
    documents: list[tuple[str, Document]] = []
    for manifest in manifests:
        source = str(manifest) if isinstance(manifest, Path) else ""
        if isinstance(manifest, Mapping):
            documents.append((source, dict(manifest)))
            continue
        text = manifest.read_text("utf-8") if isinstance(manifest, Path) else manifest
        for doc in read_yaml_documents(text):
            if doc is None:
                continue
            if not isinstance(doc, dict) or not doc.get("kind"):
                raise ValueError(
                    f"a manifest must be a Kubernetes object with a kind, but this is {doc!r:.80}"
                )
            items = doc["items"] if str(doc["kind"]).endswith("List") else [doc]
            documents += [(source, item) for item in items]
    return documents


def rules_of(failures: Sequence[Rule | Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Convert rules, some of which are written as mappings. Raises ValueError that shows the invalid rule."""
    plain = [
        msgspec.to_builtins(failure) if isinstance(failure, Rule) else dict(failure) for failure in failures
    ]
    return parse_rules(plain)


async def find_resource(client: Client, name: str) -> Resource:
    """Find a resource by plural (`pods`) or kind (`Pod`), with or without its group. Raises LookupError."""
    wanted, _, group = name.lower().partition(".")
    known: list[str] = []
    for resource in (await discover(client)).resources:
        names = (resource.plural, resource.kind.lower())
        if wanted in names and group in ("", resource.group):
            return resource
        known.append(resource.plural)
    raise LookupError(f"the cluster serves no resource {name!r}{format_hint(wanted, known)}")


async def put_all(client: Client, documents: Iterable[tuple[str, Document]]) -> list[Document]:
    """Create or merge all objects, and return them as stored. An error has a note with the object and its file."""
    stored = []
    for source, document in documents:
        try:
            stored.append(await put(client, document))
        except Exception as error:
            what = f"{document.get('kind')} {(document.get('metadata') or {}).get('name')}"
            error.add_note(f"{what} of {source}" if source else what)
            raise
    return stored


async def put(client: Client, doc: Document) -> Document:
    """Create the object, or merge it into the existing object. Return it as stored.

    A field that the kind does not have is an error, as with kubectl. Raises LookupError for a kind that is not served.
    """
    inventory = await discover(client)
    resource = inventory.find(api_version=doc.get("apiVersion", ""), kind=doc.get("kind", ""))
    if resource is None or (doc["apiVersion"], doc["kind"]) not in inventory.kinds:
        raise LookupError(f"the cluster serves no {_describe_unserved(inventory, doc)}")
    version = str(doc["apiVersion"]).rpartition("/")[2]
    resource = msgspec.structs.replace(resource, version=version)
    namespace = (doc["metadata"].get("namespace") or "default") if resource.namespaced else ""
    try:
        return decode(await client.create(resource, namespace, doc, field_validation=_STRICT))
    except AlreadyExistsError:
        name = doc["metadata"]["name"]
        return decode(
            await client.patch(
                resource, namespace, name, doc, patch_type=PatchType.MERGE, field_validation=_STRICT
            )
        )


def _describe_unserved(inventory: Inventory, doc: Document) -> str:
    """Describe the kind and version of a document. If the server has a similar kind, name it."""
    kind, version = str(doc.get("kind")), str(doc.get("apiVersion"))
    versions = inventory.versions_of(kind)
    if versions:
        others = f"; it serves {kind} of {', '.join(versions)}"
        return f"{kind} of {version}{format_hint(version, versions, otherwise=others)}"
    return f"{kind} of {version}{format_hint(kind, [resource.kind for resource in inventory.resources])}"
