"""Changes that go on for hours: all examples are created, changed, deleted and created again, and pods are deleted.

documents of examples/ ──▶ Churn.change_all() ──▶ API server

What is created is also deleted, so the number of objects stays about the same, and what grows is a leak.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ConflictError, InvalidError, KubeError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from pykruise.sandbox.inventory import discover

__all__ = ["NAMESPACE", "Churn"]

NAMESPACE: Final = "default"
DELETED: Final = 0.15
"""Share of the objects that a turn deletes; a later turn creates them again."""
PODS_DELETED: Final = 0.05
TAGS: Final = 5
"""Number of images that follow each other: revisions are used again, as rollbacks do."""
REPLICAS: Final = (1, 6)


class Churn:
    """Changes of the objects of `documents`, drawn from `rng`."""

    def __init__(self, client: Client, rng: random.Random, documents: Sequence[Document]) -> None:
        self._client = client
        self._rng = rng
        self._documents = documents
        self._turn = 0
        self._resources: dict[tuple[str, str], Resource] = {}
        self.refused: dict[str, int] = {}
        """Number of refused changes by kind and class of the error: budgets and immutable fields refuse some."""

    async def begin(self) -> None:
        """Look up the resources of all documents. Raises LookupError for a kind that is not served."""
        inventory = await discover(self._client)
        for document in self._documents:
            name = (document["apiVersion"], document["kind"])
            resource = inventory.find(api_version=name[0], kind=name[1])
            if resource is None:
                raise LookupError(f"the cluster does not serve {' '.join(name)}")
            version = name[0].rpartition("/")[2]
            self._resources[name] = msgspec.structs.replace(resource, version=version)

    async def change_all(self) -> None:
        """Do one turn: delete some objects, create or change all others, and delete some pods."""
        self._turn += 1
        for document in self._documents:
            if self._rng.random() < DELETED:
                await self._try(document["kind"], self._delete(document))
            else:
                await self._try(document["kind"], self._put(document))
        pods = [decode(raw)["metadata"] for raw in (await self._client.list(PODS, NAMESPACE)).items]
        for metadata in pods:
            if self._rng.random() < PODS_DELETED:
                await self._try("Pod", self._client.delete(PODS, NAMESPACE, metadata["name"]))

    async def delete_all(self) -> None:
        """Delete every object."""
        for document in reversed(self._documents):
            await self._try(document["kind"], self._delete(document))

    async def _try(self, kind: str, change: Any) -> None:
        try:
            await change
        except NotFoundError:
            pass
        except KubeError as error:
            what = f"{kind} {type(error).__name__}"
            self.refused[what] = self.refused.get(what, 0) + 1

    async def _delete(self, document: Document) -> None:
        resource, namespace, name = self._place_of(document)
        await self._client.delete(resource, namespace, name)

    async def _put(self, document: Document) -> None:
        resource, namespace, name = self._place_of(document)
        changed = self._changed(document)
        try:
            await self._client.patch(resource, namespace, name, changed, patch_type=PatchType.MERGE)
        except NotFoundError:
            try:
                await self._client.create(resource, namespace, changed)
            except ConflictError:
                return  # it is still being deleted
        except InvalidError:
            # Specs of jobs and requests are immutable, so a later turn creates the object with the change.
            await self._client.delete(resource, namespace, name)
            raise

    def _place_of(self, document: Document) -> tuple[Resource, str, str]:
        resource = self._resources[document["apiVersion"], document["kind"]]
        metadata = document["metadata"]
        return (
            resource,
            (metadata.get("namespace") or NAMESPACE) if resource.namespaced else "",
            metadata["name"],
        )

    def _changed(self, document: Document) -> Document:
        """The document with other images and another number of replicas."""
        changed: Document = msgspec.json.decode(msgspec.json.encode(document))
        tag = self._turn % TAGS
        for container in _containers_of(changed.get("spec")):
            image = str(container["image"]).rpartition(":")[0] or container["image"]
            container["image"] = f"{image}:{tag}"
        spec = changed.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("replicas"), int):
            spec["replicas"] = self._rng.randint(*REPLICAS)
        return changed


def _containers_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all mappings below `value` that have a name and an image."""
    if isinstance(value, Mapping):
        if isinstance(value, dict) and isinstance(value.get("image"), str) and "name" in value:
            yield value
        for child in value.values():
            yield from _containers_of(child)
    elif isinstance(value, list):
        for child in value:
            yield from _containers_of(child)
