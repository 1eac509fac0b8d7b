"""A transport that responds from a script and records the requests.

    transport = ScriptedTransport(answer(200, {...}), UnreachableError("no"), answer(201, {...}))

Each request takes the next entry: a Response, an error to raise, a number of seconds to wait before the entry
after it, or a function of the request. Streams take the next entry of `streams`: an error, or a list of lines
(an error among them is raised when its turn comes, a number waits).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from pykruise.kube.client.transport import Request, Response


class Asked(Request, frozen=True, kw_only=True):
    """One received request, and its time (seconds of the event loop)."""

    at: float

    @property
    def to_document(self) -> Any:
        """The decoded body."""
        return json.loads(self.body or b"null")


Entry = Response | Exception | float | Callable[[Asked], Response]


def answer(status: int, document: Any = None, *, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON document (bytes are used unchanged)."""
    body = document if isinstance(document, bytes) else json.dumps(document or {}).encode()
    return Response(status, dict(headers or {}), body)


def refusal(
    code: int, reason: str = "", message: str = "", *, retry_after_s: int | None = None, **details: Any
) -> Response:
    """An error response with a Status."""
    status = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    headers = {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
    return answer(code, status, headers=headers)


class ScriptedTransport:
    """`Transport` from a script; an exhausted script repeats its last entry when `repeat_last` is set."""

    def __init__(
        self, *script: Entry, streams: Sequence[Exception | Sequence[Any]] = (), repeat_last: bool = False
    ) -> None:
        self.script = list(script)
        self.streams = list(streams)
        self.asked: list[Asked] = []
        self.open_streams = 0
        self._repeat_last = repeat_last

    async def request(self, request: Request, /) -> Response:
        asked = self._note(request)
        entry = self._next()
        if isinstance(entry, float | int):
            await asyncio.sleep(entry)
            entry = self._next()
        assert not isinstance(entry, float | int), "one wait at a time"
        if isinstance(entry, Exception):
            raise entry
        return entry if isinstance(entry, Response) else entry(asked)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self._note(msgspec.structs.replace(request, method="STREAM"))
        return self._stream(self.streams.pop(0))

    async def close(self) -> None:
        self.script.clear()

    @asynccontextmanager
    async def _stream(self, entry: Exception | Sequence[Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        if isinstance(entry, Exception):
            raise entry
        self.open_streams += 1
        try:
            yield self._lines(entry)
        finally:
            self.open_streams -= 1

    async def _lines(self, entries: Sequence[Any]) -> AsyncIterator[bytes]:
        for entry in entries:
            if isinstance(entry, Exception):
                raise entry
            if isinstance(entry, float | int):
                await asyncio.sleep(entry)
            else:
                yield entry if isinstance(entry, bytes) else json.dumps(entry).encode()

    def _next(self) -> Entry:
        assert self.script, f"nothing was scripted for {self.asked[-1]}"
        return self.script[0] if self._repeat_last and len(self.script) == 1 else self.script.pop(0)

    def _note(self, request: Request) -> Asked:
        asked = Asked(**msgspec.structs.asdict(request), at=asyncio.get_running_loop().time())
        self.asked.append(asked)
        return asked
