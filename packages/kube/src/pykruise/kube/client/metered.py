"""A transport that counts requests by verb and resource, their responses, durations and denials.

Client ──▶ MeteredTransport ──▶ any Transport

The requests of a manager are its cost to the cluster; benches, the demo and metrics read these counts. A request that
RBAC denies is logged only the first time, so that a missing permission causes one clear line.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.errors import ForbiddenError, parse_error
from pykruise.kube.values.histogram import Histogram

__all__ = ["MeteredTransport"]

_log = logging.getLogger(__name__)

_RIGHTS = " cannot "
"""Part of the message with which an API server's authorizer denies a request: `User "x" cannot list resource "pods"
…`.
"""


class MeteredTransport(WrappedTransport):
    """Counts requests as `VERB resource[/subresource]`, such as `PATCH pods/status`; streams as `WATCH`."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.requests: Counter[str] = Counter()
        self.answers: Counter[tuple[str, int]] = Counter()
        """Requests by method and HTTP status; 0: no response arrived."""
        self.durations: dict[str, Histogram] = {}
        """Durations by method."""
        self.missing_rights: Counter[str] = Counter()
        """Requests that RBAC denied, named as in `requests`."""

    @property
    def writes(self) -> int:
        """Number of requests other than reads and watches."""
        return sum(count for what, count in self.requests.items() if not what.startswith(("GET ", "WATCH ")))

    async def request(self, request: Request, /) -> Response:
        """Count the request and pass it on."""
        method = request.method
        what = f"{method} {_parse_resource(request.path)}"
        self.requests[what] += 1
        loop = asyncio.get_running_loop()
        started = loop.time()
        status = 0
        try:
            answer = await self._inner.request(request)
            status = answer.status
        finally:
            self.answers[method, status] += 1
            durations = self.durations.get(method)
            if durations is None:
                durations = self.durations[method] = Histogram()
            durations.observe(loop.time() - started)
        if status == 403 and _RIGHTS.encode() in answer.body:
            self._note_refusal(what, parse_error(403, answer.body))
        return answer

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Count the stream and pass it on."""
        what = f"WATCH {_parse_resource(request.path)}"
        self.requests[what] += 1
        return self._open_stream(what, self._inner.stream(request))

    @asynccontextmanager
    async def _open_stream(
        self, what: str, stream: AbstractAsyncContextManager[AsyncIterator[bytes]]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with AsyncExitStack() as stack:
            try:
                lines = await stack.enter_async_context(stream)
            except ForbiddenError as error:
                if _RIGHTS in str(error):
                    self._note_refusal(what, error)
                raise
            yield lines

    def _note_refusal(self, what: str, error: Exception) -> None:
        self.missing_rights[what] += 1
        if self.missing_rights[what] == 1:
            _log.error("a permission is missing, %s is forbidden: %s", what, error)


def _parse_resource(path: str) -> str:
    """Return the resource of a path: `/apis/apps/v1/namespaces/x/deployments/web/scale` is `deployments/scale`. Other
    paths are returned unchanged.
    """
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
