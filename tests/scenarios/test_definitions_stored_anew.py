"""A CRD is applied again, with another spec, while a manager follows its objects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.kube.transport import Request, Transport, WrappedTransport
from support.scenario import Object, Stage, cloneset

CRD = "clonesets.apps.kruise.io"
SOON_S = 30.0
"""Far less than the two minutes after which a silent watch is opened again."""


class SilencedTransport(WrappedTransport):
    """Watches of CloneSets that are open at `silence()` stay open and deliver nothing more.

    An API server that replaces what serves a CRD's objects does that to them at times; here it does each time.
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._silences = 0

    def silence(self) -> None:
        """All that are open now."""
        self._silences += 1

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        stream = super().stream(request)
        return self._until_silenced(stream) if request.path.endswith("/clonesets") else stream

    @asynccontextmanager
    async def _until_silenced(
        self, stream: AbstractAsyncContextManager[AsyncIterator[bytes]]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        before = self._silences

        async def lines() -> AsyncIterator[bytes]:
            async for line in opened:
                if self._silences == before:
                    yield line
            if self._silences != before:
                await asyncio.Event().wait()  # not even its end

        async with stream as opened:
            yield lines()


async def _versions(stage: Stage) -> list[Object]:
    found: list[Object] = decode(await stage.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", CRD))["spec"][
        "versions"
    ]
    return found


async def _set_versions(stage: Stage, versions: list[Object]) -> None:
    patch = {"spec": {"versions": versions}}
    await stage.client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD, patch, patch_type=PatchType.MERGE)


@pytest.fixture
async def versions(stage: Stage) -> AsyncIterator[list[Object]]:
    """Those of the CRD, which are put back."""
    before = await _versions(stage)
    yield before
    await _set_versions(stage, before)


async def test_what_happens_after_it_is_seen_at_once(stage: Stage, versions: list[Object]) -> None:
    # given a manager at work
    transport = SilencedTransport(stage.manager_transport())
    await stage.start_manager(transport)
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    # when the CRD has another column, time and again, and watches that were open hear nothing more
    for number in range(3):
        column = {"name": f"Seen{number}", "type": "string", "jsonPath": ".metadata.name"}
        changed = [
            {**one, "additionalPrinterColumns": [*(one.get("additionalPrinterColumns") or ()), column]}
            for one in versions
        ]
        transport.silence()
        await _set_versions(stage, changed)
        # then a CloneSet that changes soon after is seen
        await stage.scale("web", number + 2)
        await stage.settled(replicas=number + 2, within_s=SOON_S)
