"""A transport that fails on purpose, between a client and any other transport.

Client, caches ──▶ FaultyTransport (rules) ──▶ LocalTransport, a scripted one, or HTTP

    faulty = FaultyTransport(cluster.transport)
    faulty.on(posts("/pods"), DropAnswer(), None, Refuse())   # 1st: lost response, 2nd: passes, 3rd: refused
    faulty.on(watches("/pods"), CutAfter(3), GoneAfter(0))    # 1st watch breaks after 3 lines, 2nd is 410
    faulty.on(writes(), lambda request: Answer(500) if rng.random() < 0.1 else None)   # for all requests

Each request gets the next fault of the first matching rule that has one left. Everything is
deterministic; time is the event loop's.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from pykruise.kube.client.transport import Request as SentRequest
from pykruise.kube.client.transport import Response, Transport
from pykruise.kube.errors import (
    ConnectionLostError,
    RequestTimeoutError,
    SilentStreamError,
    UnreachableError,
    parse_error,
)
from pykruise.testing.simulation.answers import ScriptedAnswer

# ── requests, and what matches them ──────────────────────────────────────────


class Request(SentRequest, frozen=True, kw_only=True):
    """One request as the transport received it. `method` of a stream is STREAM; `number` counts from 0."""

    number: int

    @property
    def to_document(self) -> Any:
        """The decoded body."""
        return json.loads(self.body or b"null")


Predicate = Callable[[Request], bool]


def requests(*methods: str, path: str = "") -> Predicate:
    """Requests with one of the methods (default: any) and `path` in their path."""
    return lambda request: (not methods or request.method in methods) and path in request.path


def writes(path: str = "") -> Predicate:
    """POST, PUT, PATCH and DELETE."""
    return requests("POST", "PUT", "PATCH", "DELETE", path=path)


def workload_writes(path: str = "") -> Predicate:
    """Like `writes`, without those of NodeImages, which every manager writes for every node."""
    return lambda request: writes(path)(request) and "/nodeimages" not in request.path


def posts(path: str = "") -> Predicate:
    return requests("POST", path=path)


def patches(path: str = "") -> Predicate:
    return requests("PATCH", path=path)


def deletes(path: str = "") -> Predicate:
    return requests("DELETE", path=path)


def reads(path: str = "") -> Predicate:
    """GET of objects and lists."""
    return requests("GET", path=path)


def watches(path: str = "") -> Predicate:
    return requests("STREAM", path=path)


# ── faults of requests ───────────────────────────────────────────────────────

Forward = Callable[[], Any]


class RequestFault(Protocol):
    """A fault of a request."""

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response: ...


@dataclass(frozen=True)
class Refuse:
    """There is no connection, so nothing was sent. Streams can have this fault, too."""

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response:
        raise UnreachableError(f"{request.method} {request.path}: refused on purpose")


@dataclass(frozen=True)
class DropRequest:
    """The connection breaks before the server sees the request; the client cannot know."""

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response:
        raise ConnectionLostError(f"{request.method} {request.path}: dropped on purpose, before")


@dataclass(frozen=True)
class DropAnswer:
    """The request takes effect, but its response is lost."""

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response:
        await forward()
        raise ConnectionLostError(f"{request.method} {request.path}: dropped on purpose, after")


@dataclass(frozen=True)
class TakeEffectLate:
    """The client loses the connection immediately; the request takes effect `after_s` later."""

    after_s: float

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response:
        async def late() -> None:
            await asyncio.sleep(self.after_s)
            await forward()

        owner.later.append(asyncio.get_running_loop().create_task(late()))
        raise ConnectionLostError(f"{request.method} {request.path}: dropped on purpose, late")


@dataclass(frozen=True)
class TimeOut:
    """No response within `after_s` seconds (or the timeout the client asked for, passed as None)."""

    after_s: float = 30.0
    takes_effect: bool = False

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response:
        if self.takes_effect:
            await forward()
        await asyncio.sleep(self.after_s)
        raise RequestTimeoutError(f"{request.method} {request.path}: timed out on purpose")


@dataclass(frozen=True)
class Delay:
    """The request, or its response, is delayed by `seconds`."""

    seconds: float
    on_the_way_back: bool = False

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response:
        if self.on_the_way_back:
            answer: Response = await forward()
            await asyncio.sleep(self.seconds)
            return answer
        await asyncio.sleep(self.seconds)
        result: Response = await forward()
        return result


@dataclass(frozen=True)
class Answer(ScriptedAnswer):
    """A response with this status, with a Status as body (or `body`). Streams can have this fault, too.

    `takes_effect`: the request is carried out anyway, like a write that a 500 or 504 follows.
    """

    async def request(self, request: Request, forward: Forward, owner: "FaultyTransport") -> Response:
        if self.takes_effect:
            await forward()
        return self.to_response()


def conflict() -> Answer:
    """409: another client was faster."""
    return Answer(409)


def too_many(retry_after_s: int = 1) -> Answer:
    """429 as a busy API server sends it."""
    return Answer(429, retry_after_s=retry_after_s)


# ── faults of streams ────────────────────────────────────────────────────────

Lines = AsyncIterator[bytes]


class StreamFault(Protocol):
    """A fault of a stream's lines."""

    def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]: ...


@dataclass(frozen=True)
class CutAfter:
    """The connection breaks after `lines_count` lines."""

    lines_count: int

    async def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
        count = 0
        while count < self.lines_count:
            line = await anext(lines, None)
            if line is None:
                return
            yield line
            count += 1
        raise ConnectionLostError("stream: cut on purpose")


@dataclass(frozen=True)
class EndAfter:
    """The server ends the stream properly after `lines_count` lines."""

    lines_count: int

    async def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
        for _ in range(self.lines_count):
            line = await anext(lines, None)
            if line is None:
                return
            yield line


@dataclass(frozen=True)
class InjectAfter:
    """After `lines_count` lines the client gets a line that the server did not send."""

    lines_count: int
    line: bytes

    async def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
        count = 0
        if count == self.lines_count:
            yield self.line
        async for line in lines:
            yield line
            count += 1
            if count == self.lines_count:
                yield self.line


def GoneAfter(lines_count: int) -> InjectAfter:  # noqa: N802 - reads as a fault beside the others
    """An ERROR event with a 410 Status after `lines_count` lines."""
    status = Answer(410, message="too old resource version: on purpose").to_response().body
    return InjectAfter(lines_count, b'{"type":"ERROR","object":' + status + b"}")


def GarbageAfter(lines_count: int) -> InjectAfter:  # noqa: N802 - reads as a fault beside the others
    """Half an event after `lines_count` lines."""
    return InjectAfter(lines_count, b'{"type":"ADDED","object":{"metada')


@dataclass(frozen=True)
class Duplicate:
    """The client gets line number `index` (from 0) twice."""

    index: int

    async def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
        count = 0
        async for line in lines:
            yield line
            if count == self.index:
                yield line
            count += 1


@dataclass(frozen=True)
class Swap:
    """Lines `index` and `index + 1` (from 0) are swapped; the first waits for the second."""

    index: int

    async def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
        count = 0
        held: bytes | None = None
        async for line in lines:
            if count == self.index:
                held = line
            else:
                yield line
                if held is not None:
                    yield held
                    held = None
            count += 1
        if held is not None:
            yield held


@dataclass(frozen=True)
class StallAfter:
    """The client gets nothing after `lines_count` lines: a half-open connection.

    Like every transport, it raises SilentStreamError after `idle_timeout_s`, if that is set.
    """

    lines_count: int

    async def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
        for _ in range(self.lines_count):
            line = await anext(lines, None)
            if line is None:
                break
            yield line
        if idle_timeout_s is None:
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(idle_timeout_s)
        raise SilentStreamError(f"stream: nothing arrived for {idle_timeout_s} s, on purpose")


@dataclass(frozen=True)
class Together:
    """Several stream faults together; the first is the nearest to the server."""

    faults: Sequence[StreamFault]

    async def lines(self, lines: Lines, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
        for fault in self.faults:
            lines = fault.lines(lines, idle_timeout_s)
        async for line in lines:
            yield line


# ── the transport ────────────────────────────────────────────────────────────

Fault = RequestFault | StreamFault | None
"""None: no fault."""


@dataclass
class _Rule:
    when: Predicate
    faults: list[Fault]
    choose: Callable[[Request], Fault] | None = None


class FaultyTransport:
    """`Transport` that applies the faults of its rules and forwards all other requests to `inner`."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.log: list[Request] = []
        """Every request and every opened stream, in order."""
        self.faults_done = 0
        self.later: list[asyncio.Task[None]] = []
        self._rules: list[_Rule] = []

    def on(self, when: Predicate, *faults: Fault | Callable[[Request], Fault]) -> None:
        """The next matching requests get these faults, one each; a function is called for every request."""
        for fault in faults:
            if fault is not None and not hasattr(fault, "request") and not hasattr(fault, "lines"):
                assert len(faults) == 1, "a function stands alone"
                self._rules.append(_Rule(when, [], choose=fault))
                return
        self._rules.append(_Rule(when, list(faults)))  # type: ignore[arg-type]  # no functions among them

    def clear(self) -> None:
        """Remove all faults."""
        self._rules.clear()

    async def request(self, sent: SentRequest, /) -> Response:
        request = self._note(sent)

        async def forward() -> Response:
            return await self.inner.request(sent)

        fault = self._next(request)
        if fault is None:
            return await forward()
        assert hasattr(fault, "request"), f"{fault} is a fault of streams, {request.method} is none"
        self.faults_done += 1
        answer: Response = await fault.request(request, forward, self)
        return answer

    def stream(self, sent: SentRequest, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(sent)

    @asynccontextmanager
    async def _stream(self, sent: SentRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        request = self._note(msgspec.structs.replace(sent, method="STREAM"))
        fault = self._next(request)
        if fault is not None:
            self.faults_done += 1
        if isinstance(fault, Answer):
            answer = fault.to_response()
            raise parse_error(answer.status, answer.body, answer.headers)
        if fault is not None and not hasattr(fault, "lines"):

            async def nothing() -> Response:
                return Response(200, {}, b"")

            await fault.request(request, nothing, self)
            fault = None  # a Delay is over; every other one has raised
        async with self.inner.stream(sent) as lines:
            if fault is None:
                yield lines
            else:
                async with aclosing(fault.lines(lines, sent.timeout_s)) as changed:
                    yield changed

    async def close(self) -> None:
        """Wait for writes that take effect late, and close the inner transport."""
        await asyncio.gather(*self.later)
        await self.inner.close()

    def _note(self, sent: SentRequest) -> Request:
        request = Request(**msgspec.structs.asdict(sent), number=len(self.log))
        self.log.append(request)
        return request

    def _next(self, request: Request) -> Any:
        for rule in self._rules:
            if not rule.when(request):
                continue
            if rule.choose is not None:
                return rule.choose(request)
            if rule.faults:
                return rule.faults.pop(0)
        return None
