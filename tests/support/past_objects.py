"""Generations of objects whose names never repeat, and counts of everything that the program keeps in memory.

documents ──▶ Generations.pass_one(): create, change, delete, wait until all are deleted ──▶ count_memory() ──▶ Counts

A program whose memory follows the objects that exist has the same counts after each generation.
"""

import asyncio
import contextlib
import gc
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any, Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, PODS, Resource
from pykruise.sandbox.inventory import Inventory, discover

__all__ = ["Counts", "Generations", "count_memory", "find_growth"]

Counts = Mapping[str, int]
"""Objects by type, and entries of containers by the attribute that holds them."""

OF_THE_SANDBOX: Final[Mapping[str, Sequence[str]]] = {
    "Shape": ("_remembered",),
    "_Shared": ("_by_bytes", "_by_value"),
    "GarbageCollector": ("_absent",),
}
"""Tables of the simulated cluster with a limit, by class. No manager has them; they are emptied before each count."""

LEAST_GROWTH: Final = 0.05
"""Share of the last count. Tables that forget after a time vary by less; a table that forgets nothing grows by more."""

OF_THE_TEST: Final = ("collections.Counter",)
"""Types of the counts themselves."""

CONTAINERS: Final = (dict, list, set, deque, tuple, frozenset)


class Generations:
    """Creates and deletes the objects of `documents`, each time in a new namespace and with new names."""

    def __init__(
        self, client: Client, documents: Sequence[Document], *, work_s: float, rest_s: float
    ) -> None:
        self._client = client
        self._documents = documents
        self._work_s = work_s
        """Virtual seconds for the controllers after the creations, and after the changes."""
        self._rest_s = rest_s
        """Virtual seconds after the deletions, until nothing that is kept for a time is left."""
        self._passed = 0
        self._inventory: Inventory | None = None

    async def pass_one(self) -> None:
        """Create, change and delete all objects of a generation."""
        self._passed += 1
        namespace = f"past-{self._passed}"
        inventory = self._inventory = self._inventory or await discover(self._client)
        await self._client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        objects = [
            (_resource_of(inventory, document), document)
            for document in _renamed(self._documents, inventory, namespace)
        ]
        for resource, document in objects:
            await _try(self._client.create(resource, _namespace_of(document), document))
        await asyncio.sleep(self._work_s)
        for resource, document in objects:
            name = document["metadata"]["name"]
            await _try(
                self._client.patch(
                    *(resource, _namespace_of(document), name, _change_of(document)),
                    patch_type=PatchType.MERGE,
                )
            )
        pods = [decode(raw)["metadata"]["name"] for raw in (await self._client.list(PODS, namespace)).items]
        for name in pods[::3]:
            await _try(self._client.delete(PODS, namespace, name))
        await asyncio.sleep(self._work_s)
        for resource, document in reversed(objects):
            await _try(self._client.delete(resource, _namespace_of(document), document["metadata"]["name"]))
        await asyncio.sleep(self._work_s)
        await self._client.delete(NAMESPACES, "", namespace)
        await asyncio.sleep(self._rest_s)
        await self._check_deleted(namespace)

    async def _check_deleted(self, namespace: str) -> None:
        try:
            await self._client.get(NAMESPACES, "", namespace)
        except NotFoundError:
            return
        raise AssertionError(f"namespace {namespace} still exists after {self._rest_s:g} s")


async def _try(change: Any) -> None:
    """Make a change that the cluster may reject, for example because of a budget or an immutable field."""
    with contextlib.suppress(KubeError):
        await change


def _resource_of(inventory: Inventory, document: Document) -> Resource:
    resource = inventory.find(api_version=document["apiVersion"], kind=document["kind"])
    assert resource is not None, document["kind"]
    return msgspec.structs.replace(resource, version=document["apiVersion"].rpartition("/")[2])


def _namespace_of(document: Document) -> str:
    return str(document["metadata"].get("namespace", ""))


def _renamed(documents: Iterable[Document], inventory: Inventory, namespace: str) -> list[Document]:
    """Copies in that namespace. Names of cluster-scoped objects get it as a suffix, also where others refer to them."""
    renamed: list[Document] = []
    wide = {
        document["metadata"]["name"]
        for document in documents
        if not _resource_of(inventory, document).namespaced
    }
    for document in documents:
        copy = _replace_names(document, {name: f"{name}-{namespace}" for name in wide})
        copy["metadata"].pop("namespace", None)
        if _resource_of(inventory, document).namespaced:
            copy["metadata"]["namespace"] = namespace
        renamed.append(copy)
    return renamed


def _replace_names(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replace_names(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_names(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def _change_of(document: Document) -> Document:
    """A merge patch with one more replica, and another label, which creates a new revision of templates."""
    spec = document.get("spec")
    change: Document = {"metadata": {"labels": {"changed": document["metadata"]["name"]}}}
    if isinstance(spec, dict):
        if isinstance(spec.get("replicas"), int):
            change["spec"] = {"replicas": spec["replicas"] + 1}
        if isinstance(spec.get("template"), dict):
            annotations = {"metadata": {"annotations": {"changed": _namespace_of(document)}}}
            change.setdefault("spec", {})["template"] = annotations
    return change


def count_memory() -> Counts:
    """Count objects by type and entries by attribute, after a garbage collection.

    Containers without references to other containers are no objects for the garbage collector, so their entries are
    counted where an attribute of ours, or a module of ours, holds them.
    """
    gc.unfreeze()
    for each in gc.get_objects():
        for name in OF_THE_SANDBOX.get(type(each).__qualname__, ()):
            getattr(each, name).clear()
    gc.collect()
    gc.collect()
    counts: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        counts[f"{kind.__module__}.{kind.__qualname__}"] += 1
        if isinstance(each, ModuleType):
            if _is_ours(each.__name__):
                _add_entries(counts, each.__name__, vars(each))
        elif _is_ours(str(kind.__module__)) and not isinstance(each, type):
            _add_entries(counts, kind.__qualname__, _attributes_of(each))
    return counts


def _is_ours(module: str) -> bool:
    return module.startswith("pykruise.")


def _attributes_of(each: Any) -> dict[str, Any]:
    result = dict(getattr(each, "__dict__", {}))
    for kind in type(each).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            result[name] = getattr(each, name, None)
    for name in getattr(each, "__struct_fields__", ()):
        result[name] = getattr(each, name, None)
    return result


def _add_entries(counts: Counter[str], owner: str, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        if isinstance(value, CONTAINERS) and name != "__dict__":
            counts[f"entries of {owner}.{name}"] += _count_entries(value)


def _count_entries(value: Any) -> int:
    """Entries of a container, and of the containers in it."""
    inner = value.values() if isinstance(value, dict) else value
    return len(value) + sum(len(item) for item in inner if isinstance(item, CONTAINERS))


def find_growth(counts: Sequence[Counts]) -> dict[str, list[int]]:
    """Return the counts that are larger after each generation than after the previous one, together by at least
    LEAST_GROWTH.

    A count that rises and falls, such as that of watches that the server ends, does not grow.
    """
    names = sorted({name for each in counts for name in each})
    figures = {name: [each.get(name, 0) for each in counts] for name in names}
    return {
        name: values
        for name, values in figures.items()
        if name not in OF_THE_TEST
        and values[-1] - values[0] > LEAST_GROWTH * values[-1]
        and all(after > before for before, after in pairwise(values))
    }
