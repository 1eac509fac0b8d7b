"""Parts from which both kinds of test cluster are built, and the words that their tests use.

manifests (paths, texts, documents) ──▶ documents_of() ──▶ put()
"deployments", "Deployment", "things.example.com" ──▶ resource_named()
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.sandbox.inventory import discover
from pykruise.sandbox.nodes.faults import Rule, rules_from

__all__ = ["Manifest", "documents_of", "put", "resource_named", "rules_of"]

Manifest = Path | str | Mapping[str, Any]
"""A file, a text in YAML or JSON with one or more documents, or a document."""


def documents_of(manifests: Iterable[Manifest]) -> list[Document]:
    """All documents in them, in their order; items of lists one by one. Raises ValueError, OSError."""
    documents: list[Document] = []
    for manifest in manifests:
        if isinstance(manifest, Mapping):
            documents.append(dict(manifest))
            continue
        text = manifest.read_text("utf-8") if isinstance(manifest, Path) else manifest
        for doc in yaml.safe_load_all(text):
            if doc is None:
                continue
            if not isinstance(doc, dict) or not doc.get("kind"):
                raise ValueError(f"a manifest must be a Kubernetes object, this is {doc!r:.80}")
            documents += doc["items"] if str(doc["kind"]).endswith("List") else [doc]
    return documents


def rules_of(failures: Sequence[Rule | Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Rules, some of them written as mappings. Raises ValueError that says which is wrong."""
    plain = [
        msgspec.to_builtins(failure) if isinstance(failure, Rule) else dict(failure) for failure in failures
    ]
    return rules_from(plain)


async def resource_named(client: Client, name: str) -> Resource:
    """The resource meant by a plural (`pods`), a kind (`Pod`), or either with its group. Raises LookupError."""
    wanted, _, group = name.lower().partition(".")
    for resource in (await discover(client)).resources:
        names = (resource.plural, resource.kind.lower())
        if wanted in names and group in ("", resource.group):
            return resource
    raise LookupError(f"the cluster serves nothing that is called {name!r}")


async def put(client: Client, doc: Document) -> Document:
    """Create the object, or merge it into the one that is there; returns it as stored."""
    inventory = await discover(client)
    resource = inventory.find(api_version=doc.get("apiVersion", ""), kind=doc.get("kind", ""))
    if resource is None:
        raise LookupError(f"the cluster serves no {doc.get('kind')} of {doc.get('apiVersion')}")
    version = str(doc["apiVersion"]).rpartition("/")[2]
    resource = msgspec.structs.replace(resource, version=version)
    namespace = (doc["metadata"].get("namespace") or "default") if resource.namespaced else ""
    try:
        return decode(await client.create(resource, namespace, doc))
    except AlreadyExistsError:
        name = doc["metadata"]["name"]
        return decode(await client.patch(resource, namespace, name, doc, patch_type=PatchType.MERGE))
