"""Watches that stay open and deliver nothing more: the fault that is hardest to detect.

cache ──▶ SilencedTransport ──▶ any Transport; after silence(), existing watches are silent and never end
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from pykruise.kube.client.transport import Request, Transport, WrappedTransport

__all__ = ["SilencedTransport"]


class SilencedTransport(WrappedTransport):
    """Silences the watches whose paths end with `path`. Watches that are opened after `silence()` work."""

    def __init__(self, inner: Transport, path: str) -> None:
        super().__init__(inner)
        self._path = path
        self._silences = 0

    def silence(self) -> None:
        """Silence all open watches."""
        self._silences += 1

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        stream = super().stream(request)
        return self._until_silenced(stream) if request.path.endswith(self._path) else stream

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
                await asyncio.Event().wait()  # the end is not delivered either

        async with stream as opened:
            yield lines()
