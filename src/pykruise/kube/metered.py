"""A transport that counts what goes through it: requests by verb and resource, answers, durations, refusals.

Client ──▶ MeteredTransport ──▶ any Transport

What a manager asks of an API server is its cost to the cluster; benches, the demo and metrics read it here.
A request that RBAC refuses is told in the log the first time, so that a missing right is one clear line however
often it is asked for again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from pykruise.kube.errors import ForbiddenError, error_for
from pykruise.kube.histogram import Histogram
from pykruise.kube.transport import Response, Transport

_log = logging.getLogger(__name__)

_RIGHTS = " cannot "
"""Of the message with which an API server's authorizer refuses: `User "x" cannot list resource "pods" …`."""


class MeteredTransport:
    """Counts requests as `VERB resource[/subresource]`, such as `PATCH pods/status`; streams as `WATCH`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.requests: Counter[str] = Counter()
        self.answers: Counter[tuple[str, int]] = Counter()
        """By method and HTTP status; 0: no answer came."""
        self.durations: dict[str, Histogram] = {}
        """By method."""
        self.missing_rights: Counter[str] = Counter()
        """As `requests`, of which RBAC refused."""

    @property
    def writes(self) -> int:
        """Everything but reads and watches."""
        return sum(count for what, count in self.requests.items() if not what.startswith(("GET ", "WATCH ")))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """Count and pass on."""
        what = f"{method} {_resource(path)}"
        self.requests[what] += 1
        loop = asyncio.get_running_loop()
        started = loop.time()
        status = 0
        try:
            answer = await self._inner.request(
                method, path, query=query, headers=headers, body=body, timeout_s=timeout_s
            )
            status = answer.status
        finally:
            self.answers[method, status] += 1
            durations = self.durations.get(method)
            if durations is None:
                durations = self.durations[method] = Histogram()
            durations.observe(loop.time() - started)
        if status == 403 and _RIGHTS.encode() in answer.body:
            self._refused(what, error_for(403, answer.body))
        return answer

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Count and pass on."""
        what = f"WATCH {_resource(path)}"
        self.requests[what] += 1
        return self._heard(
            what, self._inner.stream(path, query=query, headers=headers, idle_timeout_s=idle_timeout_s)
        )

    @asynccontextmanager
    async def _heard(
        self, what: str, stream: AbstractAsyncContextManager[AsyncIterator[bytes]]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with AsyncExitStack() as stack:
            try:
                lines = await stack.enter_async_context(stream)
            except ForbiddenError as error:
                if _RIGHTS in str(error):
                    self._refused(what, error)
                raise
            yield lines

    def _refused(self, what: str, error: Exception) -> None:
        self.missing_rights[what] += 1
        if self.missing_rights[what] == 1:
            _log.error("a right is missing, %s is refused: %s", what, error)

    async def close(self) -> None:
        """Close the inner one."""
        await self._inner.close()


def _resource(path: str) -> str:
    """`/apis/apps/v1/namespaces/x/deployments/web/scale` is `deployments/scale`; other paths stay."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        rest = parts[2:]
    elif parts[0] == "apis":
        rest = parts[3:]
    else:
        return path
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return path
    return f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
