"""A client for commands that send requests to a cluster: it uses the user's kubeconfig and is closed at the end."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

from pykruise.kinds import use_stored_versions
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.config.kubeconfig import Overrides, load
from pykruise.kube.http.transport import HttpTransport

REQUEST_TIMEOUT_S: Final = 30.0
_NOTHING: Final = Overrides()

Reach = Callable[[Path | None, str | None], AbstractAsyncContextManager[tuple[Client, str]]]
"""Function from kubeconfig and context to a client and its default namespace."""


class Traced(WrappedTransport):
    """Transport that reports each request (for the flag `-v=6`): method, path, status, milliseconds."""

    def __init__(self, inner: Transport, trace: Callable[[str], object]) -> None:
        super().__init__(inner)
        self._trace = trace

    @property
    def inner(self) -> Transport:
        """The transport that sends the requests."""
        return self._inner

    async def request(self, request: Request, /) -> Response:
        begun = perf_counter()
        response = await super().request(request)
        took_ms = (perf_counter() - begun) * 1000
        self._trace(f"{request.method} {request.path} {response.status} in {took_ms:.0f} ms")
        return response


@asynccontextmanager
async def connect_traced(
    kubeconfig: Path | None,
    context: str | None,
    *,
    overrides: Overrides = _NOTHING,
    timeout_s: float = REQUEST_TIMEOUT_S,
    trace: Callable[[str], object] | None = None,
) -> AsyncIterator[tuple[Client, str]]:
    """Open a client and return it with the context's namespace. It retries rarely, because a person waits for the
    answer.

    `overrides`: values that replace those of the kubeconfig. `timeout_s`: timeout of one request. `trace`: receives a
    line for each request.
    """
    connection = await load(kubeconfig, context=context, overrides=overrides, prefers_files=True)
    transport: Transport = HttpTransport(connection, timeout_s=timeout_s)
    if trace is not None:
        transport = Traced(transport, trace)
    try:
        yield (
            Client(use_stored_versions(transport), retry=RetryPolicy(reads=1, total_s=5.0)),
            connection.namespace,
        )
    finally:
        await transport.close()
