"""A cluster with one kind's example, to plan documents of it that were never applied.

example files of the kind ──▶ stored_world() ──▶ World: the example as it is stored ──▶ plan_of(document) ──▶ Plan

Two worlds of a kind matter: a fresh one, where the controllers of all other kinds have run and its own has not, so that
its objects do not exist yet; and a settled one, where the next plan changes existing objects.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson

from pykruise.cli.insight.cluster_reading import Sight, look_at
from pykruise.cli.insight.known_kinds import is_of
from pykruise.kinds import find_kind, list_kinds
from pykruise.kube.resources import DEPLOYMENTS, NAMESPACES, Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.runtime.plan import Plan
from support.busy_keys import ALL_GATES, BusyPlace, busy_cluster
from support.paper import START
from support.sources import ROOT
from support.wrong_values import Document
from support.yaml_documents import yaml_documents

__all__ = ["World", "examples_of", "stored_world"]

SETTLE_S: Final = 60.0
REQUEST: Final = "../tests/support/data/containerrecreaterequest.yaml"
"""A request and its workload; examples/requests/ has a request for a running pod."""
FILES: Final = {
    "containerrecreaterequest": REQUEST,
    "nodeimage": "imagepulljob.yaml",
    "persistentpodstate": "persistentpodstate.yaml",
}
"""Examples for kinds whose objects controllers create."""
IMAGES: Final = ("nginx:1.27", "nginx:1.25", "busybox:1.36", "fluent-bit:3.1", "postgres:17", "redis:7.4")


class World:
    """A cluster that does not change except for its clock, and the kind's example."""

    def __init__(self, place: BusyPlace, kind: Kind, document: Document) -> None:
        self._place = place
        self.kind = kind
        self.document = document
        """The document as it is stored."""

    async def plan_of(self, document: Document) -> Plan | None:
        """The plan of the manager for this document; None: the manager decides nothing."""
        sight = await self.sight_of(document)
        return None if sight.snapshot is None else sight.plan()

    async def sight_of(self, document: Document) -> Sight:
        """All input of the plan for this document."""
        return await look_at(
            self._place.client,
            self.kind,
            document,
            now=START + asyncio.get_running_loop().time() + 3600,
            settings=ManagerSettings(gates=ALL_GATES),
        )


@asynccontextmanager
async def stored_world(kind: Kind, *, is_settled: bool) -> AsyncIterator[World]:
    """The example's world. `is_settled`: whether the kind's own controller has run, too; the document then has other
    images than its pods."""
    others = [item for item in list_kinds() if is_settled or item.name != kind.name]
    async with busy_cluster(reviewed=True, kinds=others) as place:
        team = {"metadata": {"name": "team", "labels": {"example.com/team": "a"}}}
        await place.create(NAMESPACES, team)
        own: list[str] = []
        for document in examples_of(kind):
            resource = _resource_of(document)
            stored = await place.create(resource, document)
            if is_of(kind, document):
                own.append(stored["metadata"]["name"])
            await asyncio.sleep(SETTLE_S / 4)
        await asyncio.sleep(SETTLE_S)
        document = await _stored(place, kind, own)
        yield World(place, kind, _with_other_images(document) if is_settled else document)


async def _stored(place: BusyPlace, kind: Kind, own: Sequence[str]) -> Document:
    """The example, or the first object that a controller has created for it."""
    name = own[0] if own else (await place.names(kind.resource))[0]
    return await place.get(kind.resource, name)


def examples_of(kind: Kind) -> Sequence[Document]:
    """The documents of the first example with the kind; objects that it depends on are the first."""
    names = [
        FILES.get(kind.name, f"{kind.name}.yaml"),
        *sorted(str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*.yaml")),
    ]
    for name in names:
        path = ROOT / "examples" / name
        if not path.exists():
            continue
        documents = yaml_documents(path.read_text("utf-8"))
        if kind.name in FILES or any(is_of(kind, document) for document in documents):
            return sorted(documents, key=lambda document: is_of(kind, document))
    raise AssertionError(f"no example has a {kind.resource.kind}")


def _resource_of(document: Document) -> Resource:
    if document["kind"] == "Deployment":
        return DEPLOYMENTS
    resource = find_kind(document["kind"]).resource
    assert document["apiVersion"] == resource.api_version, document
    return resource


def _with_other_images(document: Document) -> Document:
    text = orjson.dumps(document["spec"]).decode()
    for image in IMAGES:
        text = text.replace(f'"{image}"', f'"{image}-next"')
    images: dict[str, Any] = {**document, "spec": orjson.loads(text)}
    images["metadata"] = {**document["metadata"], "generation": document["metadata"]["generation"] + 1}
    return images
