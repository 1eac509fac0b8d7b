"""The network between an operator and the API server: slow, with the faults of the script.

manager's Client ──▶ Wire.request(), Wire.stream() ──faults of the script──▶ LocalTransport ──▶ API server

Every request travels in its own task, as on a network: a request that an operator has sent arrives even if the operator
gives up, and may arrive after the operator was killed. A fault affects the first matching requests after its time.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from pykruise.kube.client.transport import Request, Response, Transport
from pykruise.kube.errors import ConnectionLostError, RequestTimeoutError, UnreachableError, parse_error
from pykruise.testing.simulation.answers import ScriptedAnswer as Answer
from pykruise.testing.simulation.history import RECONCILE, SENDER
from pykruise.testing.simulation.scripts import Fault

__all__ = ["ANSWERS", "GARBAGE", "GONE", "REQUEST_FAULTS", "STREAM_FAULTS", "NetworkFaults", "Wire"]

ANSWERS: Mapping[str, Answer] = {
    "conflict": Answer(409),
    "too many": Answer(429, retry_after_s=1),
    "error": Answer(500),
    "error after the fact": Answer(500, takes_effect=True),
    "unavailable": Answer(503),
    "timeout after the fact": Answer(504, takes_effect=True),
    "quota": Answer(403, message="pods is forbidden: exceeded quota: team, requested: pods=1, used: pods=9"),
    "webhook timeout": Answer(
        500, message='failed calling webhook "v.kb.io": context deadline exceeded', reason="InternalError"
    ),
}

GONE = (
    b'{"type":"ERROR","object":'
    + Answer(410, message="too old resource version: on purpose").to_response().body
    + b"}"
)
"""Event that ends a watch whose history was compacted: the client must list again."""

GARBAGE = b'{"type":"ADDED","object":{"metada'
"""Half an event."""

BOOKMARK = b'{"type":"BOOKMARK"'

REQUEST_FAULTS = (*ANSWERS, "refused", "request lost", "answer lost", "late effect", "slow", "no answer")
STREAM_FAULTS = ("cut", "gone", "end", "garbage", "delay", "stall", "duplicate", "swap")


@dataclass
class _Left:
    """A fault, and the number of requests that it will still affect."""

    fault: Fault
    count: int


class NetworkFaults:
    """Faults of a script that have not ended, shared by all wires of a simulation."""

    def __init__(self, faults: tuple[Fault, ...], *, now: Callable[[], float]) -> None:
        self._now = now
        self._left = [_Left(fault, fault.count) for fault in faults]
        self._cleared = asyncio.Event()
        self.last_arrival = 0.0
        """Time at which the last request that a fault delays reaches the API server."""

    @property
    def is_clear(self) -> bool:
        """Whether no fault affects requests any more."""
        return self._cleared.is_set()

    def clear(self) -> None:
        """End all faults; connections that hang are broken."""
        self._cleared.set()

    def hold(self, seconds: float) -> None:
        """Record that a request is delayed for this number of seconds, also after `clear()`."""
        self.last_arrival = max(self.last_arrival, self._now() + seconds)

    async def hang(self, seconds: float) -> None:
        """Wait for this number of seconds, or until all faults have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._cleared.wait()

    def take(self, kinds: tuple[str, ...], path: str, method: str) -> Fault | None:
        """Return the fault for this request or event, and count its use; None if there is no fault for it."""
        if self.is_clear:
            return None
        now = self._now()
        for entry in self._left:
            fault = entry.fault
            if entry.count > 0 and fault.at <= now and fault.kind in kinds and _concerns(fault, path, method):
                entry.count -= 1
                return fault
        return None

    def comes(self, kinds: tuple[str, ...]) -> bool:
        """Whether a fault of one of these kinds may still affect a request."""
        return not self.is_clear and any(left.count > 0 and left.fault.kind in kinds for left in self._left)


def _concerns(fault: Fault, path: str, method: str) -> bool:
    if fault.kind == "quota":
        return method == "POST" and path.endswith("/pods")
    if fault.kind in ("conflict", "webhook timeout"):
        return method in ("POST", "PATCH", "PUT") and fault.on in path and not path.endswith("/events")
    return fault.on in path


NO_ANSWER_S = 30.0
"""Seconds after which a request without its own timeout fails, as with HttpTransport."""


class Wire:
    """Transport of one operator, or of webhooks. `dead`: the operator was killed, so it sends and receives nothing.

    `decides`: whether a request is part of the reconcile in whose context it is sent. Requests of webhooks are not,
    because the reconcile of another client calls the webhook.
    """

    def __init__(
        self,
        inner: Transport,
        *,
        name: str,
        network_faults: NetworkFaults,
        rng: random.Random,
        latency_s: float,
        decides: bool = True,
    ):
        self._decides = decides
        self._inner = inner
        self._name = name
        self._network_faults = network_faults
        self._rng = rng
        self._latency_s = latency_s
        self._under_way: set[asyncio.Task[Any]] = set()
        self.dead = False
        self.held: dict[str, int] = {}
        """Path of a watch → version of its event that is held back. The next event of this path is delivered before
        it.
        """
        self.writes = 0

    async def request(self, request: Request, /) -> Response:
        if self.dead:  # fails after the timeout: an operator that was cut off may be connected again by then
            await asyncio.sleep(request.timeout_s or NO_ANSWER_S)
            raise RequestTimeoutError("the operator was cut off on purpose")
        method, path, timeout_s = request.method, request.path, request.timeout_s
        self.writes += method != "GET" and not path.endswith("/events")
        fault = self._network_faults.take(REQUEST_FAULTS, path, method)

        async def forward() -> Response:
            return await self._inner.request(msgspec.structs.replace(request, timeout_s=None))

        sent = self._send(self._travel(fault, forward))
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(sent)
        except TimeoutError as error:
            raise RequestTimeoutError(f"no response to {method} {path} within {timeout_s} s") from error

    def _send(self, work: Any) -> "asyncio.Task[Response]":
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._on_request_done)
        return task

    def _on_request_done(self, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # read the error, because the manager that waited for the task may have ended

    async def _travel(self, fault: Fault | None, forward: Callable[[], Any]) -> Response:
        SENDER.set(self._name)
        if not self._decides:
            RECONCILE.set(None)
        await asyncio.sleep(self._rng.uniform(0, self._latency_s))
        if self.dead and self._rng.random() < 0.5:
            raise ConnectionLostError("the operator that sent the request was killed")
        answer = await forward() if fault is None else await self._with_fault(fault, forward)
        await asyncio.sleep(self._rng.uniform(0, self._latency_s))
        return answer

    async def _with_fault(self, fault: Fault, forward: Callable[[], Any]) -> Response:
        answer: Response
        match fault.kind:
            case "refused":
                raise UnreachableError("connection refused on purpose")
            case "request lost":
                raise ConnectionLostError("connection lost on purpose, before the request was processed")
            case "answer lost":
                await forward()
                raise ConnectionLostError("connection lost on purpose, after the request was processed")
            case "late effect":
                self._network_faults.hold(fault.seconds)
                self._send(_forward_later(fault.seconds, forward))
                raise ConnectionLostError("connection lost on purpose; the request is processed later")
            case "slow":
                await asyncio.sleep(fault.seconds)
                answer = await forward()
                return answer
            case "no answer":
                await forward()
                await asyncio.sleep(fault.seconds)
                raise RequestTimeoutError("no response, on purpose")
            case "webhook timeout":
                await asyncio.sleep(10.0)
        given = ANSWERS[fault.kind]
        if given.takes_effect:
            await forward()
        return given.to_response()

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        path = request.path
        if self.dead:
            await asyncio.Event().wait()
        await asyncio.sleep(self._rng.uniform(0, self._latency_s))
        fault = self._network_faults.take(("refused", "unavailable", "too many"), path, "STREAM")
        if fault is not None:
            if fault.kind == "refused":
                raise UnreachableError("connection refused on purpose")
            answer = ANSWERS[fault.kind].to_response()
            raise parse_error(answer.status, answer.body, answer.headers)
        async with self._inner.stream(request) as lines:
            generator = self._forward_lines(path, lines, request.timeout_s)
            try:
                yield generator
            finally:
                self.held.pop(path, None)
                await generator.aclose()

    async def _forward_lines(
        self, path: str, lines: AsyncIterator[bytes], idle_timeout_s: float | None
    ) -> AsyncGenerator[bytes, None]:
        held: bytes | None = None
        async for line in lines:
            if self.dead:  # a client that is cut off receives nothing
                await asyncio.sleep(idle_timeout_s or 300.0)
                raise ConnectionLostError("the operator was cut off on purpose")
            if self._rng.random() < 0.3:
                await asyncio.sleep(self._rng.uniform(0, self._latency_s))
            fault = self._network_faults.take(STREAM_FAULTS, path, "STREAM")
            if held is not None:
                # Every API server sends all events up to a bookmark's version before the bookmark.
                first, last = (held, line) if line.startswith(BOOKMARK) else (line, held)
                yield first
                self.held.pop(path, None)
                yield last
                held = None
                continue
            match fault.kind if fault else "":
                case "cut":
                    raise ConnectionLostError("watch cut on purpose")
                case "end":
                    return
                case "gone":
                    yield GONE
                    return
                case "garbage":
                    yield GARBAGE
                    return
                case "delay":
                    assert fault is not None
                    await self._network_faults.hang(fault.seconds)
                case "stall":
                    await self._network_faults.hang(idle_timeout_s or 300.0)
                    raise ConnectionLostError("watch stalled on purpose")
                case "duplicate":
                    yield line
                case "swap":
                    version = int(json.loads(line)["object"]["metadata"].get("resourceVersion") or 0)
                    held, self.held[path] = line, version
                    continue
            yield line

    async def close(self) -> None:
        """Wait for requests in progress."""
        while self._under_way:
            await asyncio.wait(self._under_way)


async def _forward_later(seconds: float, forward: Callable[[], Any]) -> Any:
    await asyncio.sleep(seconds)
    return await forward()
