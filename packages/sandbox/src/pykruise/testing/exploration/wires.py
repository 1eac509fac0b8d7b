"""Transports to the API server on which steps wait to be chosen.

manager ──▶ GatedWire ──a write, perhaps with a fault; its response; the next event of a watch──▶ API server
kubelets ──▶ GatedNodes ──each report of a pod, each removal──▶ API server

Reads, writes of Events, and watch events of resources that are not in `watches` do not wait.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.errors import ConnectionLostError
from pykruise.testing.exploration.choices import ChoiceGates
from pykruise.testing.simulation.history import SENDER
from pykruise.testing.simulation.network import GONE, Wire
from pykruise.testing.simulation.scripts import Fault

_NAMESPACE: Final = re.compile(r"^.*/namespaces/[^/]+/|^/apis?/([^/]+/)?v[^/]+/")

__all__ = ["LOG", "Faults", "GatedNodes", "GatedWire", "ReconcileLog"]


class ReconcileLog:
    """A running reconcile: its plans, and the results of its writes so far."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.plans: list[str] = []
        self.came: list[str] = []


LOG: ContextVar[ReconcileLog | None] = ContextVar("log", default=None)


class Faults:
    """Faults that are still possible for a write or an event: at most `left` faults of the `kinds` in network.py."""

    def __init__(self, kinds: tuple[str, ...], left: int) -> None:
        self.kinds = kinds
        self.left = left

    def outcomes(self) -> tuple[str, ...]:
        """Return the possible outcomes."""
        return ("", *self.kinds) if self.left > 0 else ("",)


class GatedWire(Wire):
    """A Wire whose writes and gated watches wait. `watches`: plurals of the resources whose events wait.

    `are_answers_apart`: a write and its response are two steps, so events may come between them.
    """

    def __init__(
        self,
        *args: Any,
        gates: ChoiceGates,
        faults: Faults,
        watch_faults: Faults,
        watches: Collection[str],
        are_answers_apart: bool,
        **given: Any,
    ) -> None:
        super().__init__(*args, **given)
        self._gates = gates
        self._faults = faults
        self._watch_faults = watch_faults
        self._watches = watches
        self._are_answers_apart = are_answers_apart

    async def request(self, request: Request, /) -> Response:
        if self.dead:
            await asyncio.Event().wait()
        if request.method == "GET" or request.path.endswith("/events"):
            return await super().request(request)
        self.writes += 1
        return await asyncio.shield(self._send(self._choose(request)))

    async def _choose(self, request: Request) -> Response:
        SENDER.set(self._name)
        log = LOG.get()
        what = f"{request.method} {_shorten_path(request.path)}"
        detail = bytes(request.body or b"").decode()
        fate = await self._gates.wait(f"write {what}", self._faults.outcomes(), detail=detail)

        async def forward() -> Response:
            return await self._inner.request(msgspec.structs.replace(request, timeout_s=None))

        if fate:
            self._faults.left -= 1
        try:
            if self.dead and fate:
                raise ConnectionLostError("the operator that sent the request was killed")
            answer = await (self._with_fault(Fault(0.0, fate), forward) if fate else forward())
            if self._are_answers_apart and not self.dead:
                if log is not None:
                    log.came.append(f"{what} stored")
                await self._gates.wait(f"answer to {what}")
        finally:
            if log is not None:
                log.came.append(f"{what} {fate}")
        return answer

    async def _forward_lines(
        self, path: str, lines: AsyncIterator[bytes], idle_timeout_s: float | None
    ) -> AsyncGenerator[bytes, None]:
        plural = path.rpartition("/")[2]
        async for line in lines:
            event = json.loads(line)
            metadata = event["object"].get("metadata") or {}
            if plural in self._watches and event["type"] != "BOOKMARK":
                what = f"event {event['type']} {plural}/{metadata.get('name')}"
                fate = await self._gates.wait(what, self._watch_faults.outcomes())
                if fate:
                    self._watch_faults.left -= 1
                    yield GONE
                    return
            if self.dead:
                await asyncio.Event().wait()
            yield line


class GatedNodes(WrappedTransport):
    """The nodes' transport. Writes of kubelets and agents to certain resources wait to be chosen."""

    def __init__(self, inner: Transport, gates: ChoiceGates, reported: Collection[str]) -> None:
        """`reported`: plurals of the resources whose writes wait."""
        super().__init__(inner)
        self._gates = gates
        self._reported = tuple(f"/{plural}/" for plural in reported)

    async def request(self, request: Request, /) -> Response:
        """Send a request. A PATCH or DELETE of a resource in `reported` waits to be chosen."""
        if request.method in ("PATCH", "DELETE") and any(part in request.path for part in self._reported):
            word = "removes" if request.method == "DELETE" else "reports"
            detail = bytes(request.body or b"").decode()
            await self._gates.wait(
                f"node {word} {_shorten_path(request.path.removesuffix('/status'))}", detail=detail
            )
        return await super().request(request)


def _shorten_path(path: str) -> str:
    """Return the short form of a path, such as `pods/web-abcde`."""
    return _NAMESPACE.sub("", path)
