"""The page of an object of every kind, beside the manager: what explain says of it is there, whatever kind it is."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
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
from support.dashboards import dashboard, visitor
from support.sources import ROOT

pytestmark = [pytest.mark.sandbox_only, pytest.mark.real_time, pytest.mark.timeout(200)]

KINDS = [kind for kind in list_kinds() if kind.versions]
MADE_LATER = {"PersistentPodState", "NodePodProbe", "NodeImage"}
"""Of managers, which may not have come to it yet."""
GATES = "ImagePullJobGate=true,ResourceDistributionGate=true"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("kinds") / "kubeconfig"
    with KruiseServer(path, nodes=3, gates=GATES):
        yield path


@pytest.fixture
async def client(cluster: Path) -> AsyncIterator[Client]:
    """With all examples in it."""
    transport = HttpTransport(await load(cluster))
    client = Client(transport)
    for document in documents_of(sorted((ROOT / "examples").rglob("*.yaml"))):
        with suppress(LookupError):
            await _put(client, document)
    yield client
    await transport.close()


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


async def test_the_page_of_every_kind_says_what_explain_says(
    cluster: Path, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    seen, remarks = [], []
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
                seen.append(resource.kind)
                if said["remark"]:
                    remarks.append(f"{resource}: {said['remark']}")
                elif not said["headline"]:
                    remarks.append(f"{resource}: nothing is said")
    assert remarks == []
    assert set(seen) >= {kind.resource.kind for kind in KINDS} - MADE_LATER
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
