"""The pages of objects of every kind, while a manager runs: each page shows the result of explain.

Each field that a stream has is one of the documented ones.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pykruise.fixtures.server import KruiseServer
from pykruise.kinds import list_kinds
from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import InvalidError
from pykruise.kube.http.transport import HttpTransport
from pykruise.testing.contents import documents_of, put
from support.dashboard_json import (
    OF_LISTS,
    OF_NODES,
    OF_OBJECTS,
    Table,
    find_undocumented,
    read_documented_fields,
)
from support.dashboards import Stream, Visitor, dashboard, visitor
from support.sources import ROOT

pytestmark = [pytest.mark.sandbox_only, pytest.mark.real_time, pytest.mark.timeout(200)]

KINDS = [kind for kind in list_kinds() if kind.versions]
MADE_LATER = {"PersistentPodState", "NodePodProbe", "NodeImage"}
"""Kinds whose objects the manager creates, possibly a little later."""
GATES = "ImagePullJobGate=true,ResourceDistributionGate=true"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster with all examples; yields its kubeconfig."""
    path = tmp_path_factory.mktemp("kinds") / "kubeconfig"
    with KruiseServer(path, nodes=3, gates=GATES):
        asyncio.run(_put_examples(path))
        yield path


@asynccontextmanager
async def _connected(kubeconfig: Path) -> AsyncIterator[Client]:
    transport = HttpTransport(await load(kubeconfig))
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def _put_examples(kubeconfig: Path) -> None:
    async with _connected(kubeconfig) as client:
        for document in documents_of(sorted((ROOT / "examples").rglob("*.yaml"))):
            with suppress(LookupError):
                await _put(client, document)


@pytest.fixture
async def client(cluster: Path) -> AsyncIterator[Client]:
    async with _connected(cluster) as client:
        yield client


async def _put(client: Client, document: Document) -> None:
    while True:
        try:
            await put(client, document)
        except InvalidError:
            # Another example may have changed an object of that name; or this one's pod is not ready yet.
            if document["kind"] == "ContainerRecreateRequest":
                await asyncio.sleep(0.1)
                continue
        return


async def test_the_page_of_every_kind_shows_the_verdict_of_explain(
    cluster: Path, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    seen, remarks = [], []
    undocumented: set[str] = set()
    table = read_documented_fields()[OF_OBJECTS]
    async with dashboard(cluster) as served, visitor(served) as browser:
        for kind in KINDS:
            resource = kind.resource
            listed = [decode(raw)["metadata"] for raw in (await client.list(resource)).items]
            for meta in listed[:2]:
                where = f"&namespace={meta['namespace']}" if resource.namespaced else ""
                page = f"workload&kind={resource}{where}&name={meta['name']}"
                async with browser.stream(page) as stream:
                    await stream.until(lambda stream: "explained" in stream.rows)
                    said = stream.rows["explained"]
                    assert stream.rows["head"]["row"]["name"] == meta["name"]
                    undocumented |= find_undocumented_of_object(table, stream)
                seen.append(resource.kind)
                if said["remark"]:
                    remarks.append(f"{resource}: {said['remark']}")
                elif not said["headline"]:
                    remarks.append(f"{resource}: nothing is said")
    assert remarks == []
    assert undocumented == set()
    assert set(seen) >= {kind.resource.kind for kind in KINDS} - MADE_LATER
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def find_undocumented_of_object(table: Table, stream: Stream) -> set[str]:
    """Fields in the rows of one object that the documented table does not have."""
    fields: set[str] = set()
    for row_id, row in stream.rows.items():
        label = next(label for label in table if label.partition(",")[0] == row_id)
        # the row of the list is compared with the table of lists
        fields.update(find_undocumented(table, label, {**row, "row": None} if row_id == "head" else row))
    return fields


BOARDS = {
    "rollouts": "… of Rollouts, also",
    "jobs": "… of Jobs and images, also",
    "others": "… of Other objects, also",
}
WHY = "why/ID, in the same stream, if you may list pods"


async def synced(browser: Visitor, page: str) -> Stream:
    """The stream of a page, after all its rows."""
    async with browser.stream(page) as stream:
        await stream.until(lambda stream: "synced" in stream.events)
    return stream


async def test_each_field_of_a_list_and_of_a_node_is_documented(cluster: Path) -> None:
    tables = read_documented_fields()
    of_lists, of_nodes = dict(tables[OF_LISTS]), tables[OF_NODES]
    of_each = next(iter(of_lists))
    undocumented: set[str] = set()
    async with dashboard(cluster) as served, visitor(served) as browser:
        for page, label in BOARDS.items():
            of_lists[label] |= of_lists[of_each]
            rows = (await synced(browser, page)).rows
            assert rows, page
            for row_id, row in rows.items():
                is_why = row_id.startswith("why/")
                undocumented.update(find_undocumented(of_lists, WHY if is_why else label, row))
        for row in (await synced(browser, "pods")).rows.values():
            undocumented.update(find_undocumented(of_lists, "a pod that waits", row))
        for row_id, row in (await synced(browser, "health")).rows.items():
            name = {"finding": "a finding, of Health", "manager": "a manager, of Health"}
            label = name.get(row_id.partition("/")[0], "note, of Health")
            undocumented.update(find_undocumented(of_lists, label, row))
        for row_id, row in (await synced(browser, "node&name=node-1")).rows.items():
            label = "pods/NAMESPACE" if row_id.startswith("pods/") else row_id
            undocumented.update(find_undocumented(of_nodes, label, row))
    assert undocumented == set()
