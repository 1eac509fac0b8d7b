"""Operations of users on namespaces, and on the copies of a ResourceDistribution in them.

Operation of a script ──▶ Operations.do() ──▶ CopyOperations: requests by `user`

A number selects the copy among the objects of that kind and name, of any owner.
"""

from typing import Any

from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource

__all__ = ["CopyOperations"]

Object = dict[str, Any]

HELD = "sim/held"
"""A finalizer that a user puts on a copy."""


class CopyOperations:
    """A part of `Operations`."""

    _client: Client
    _first: Object
    _held: set[str]
    """Namespaces in which a copy has the finalizer."""

    async def _create_namespace(self, name: str, **labels: str) -> None:
        await self._client.create(NAMESPACES, "", {"metadata": {"name": name, "labels": labels}})

    async def _delete_namespace(self, name: str) -> None:
        await self._client.delete(NAMESPACES, "", name)

    async def _label_namespace(self, name: str, **labels: str | None) -> None:
        patch = {"metadata": {"labels": labels}}
        await self._client.patch(NAMESPACES, "", name, patch, patch_type=PatchType.MERGE)

    async def _place_object(self, namespace: str, **fields: Any) -> None:
        """Create an object with the name of a copy, without the distribution as its owner."""
        document = {"metadata": {"name": self._copy_name()}, **fields}
        await self._client.create(self._copied(), namespace, document)

    async def _write_copy(self, number: int, **fields: Any) -> None:
        """Change the content, labels or annotations of a copy."""
        if namespace := await self._namespace_of_copy(number):
            await self._merge_copy(namespace, fields)

    async def _disown_copy(self, number: int) -> None:
        """A user removes the owner reference of a copy, and so makes the copy their own."""
        if namespace := await self._namespace_of_copy(number):
            await self._merge_copy(namespace, {"metadata": {"ownerReferences": None}})

    async def _delete_copy(self, number: int) -> None:
        if namespace := await self._namespace_of_copy(number):
            await self._client.delete(self._copied(), namespace, self._copy_name())

    async def _hold_copy(self, number: int) -> None:
        """Add a finalizer that another client must remove."""
        if namespace := await self._namespace_of_copy(number):
            self._held.add(namespace)
            await self._merge_copy(namespace, {"metadata": {"finalizers": [HELD]}})

    async def _free_copies(self) -> None:
        """Remove finalizers."""
        while self._held:
            await self._merge_copy(self._held.pop(), {"metadata": {"finalizers": None}})

    def _copied(self) -> Resource:
        return SECRETS if self._first["spec"]["resource"]["kind"] == SECRETS.kind else CONFIG_MAPS

    def _copy_name(self) -> str:
        return str(self._first["spec"]["resource"]["metadata"]["name"])

    async def _merge_copy(self, namespace: str, patch: Object) -> None:
        await self._client.patch(
            self._copied(), namespace, self._copy_name(), patch, patch_type=PatchType.MERGE
        )

    async def _namespace_of_copy(self, number: int) -> str:
        metas = [decode(raw)["metadata"] for raw in (await self._client.list(self._copied(), "")).items]
        result = sorted(meta["namespace"] for meta in metas if meta["name"] == self._copy_name())
        return str(result[number % len(result)]) if result else ""
