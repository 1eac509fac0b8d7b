"""A client for a command that asks a cluster: the user's kubeconfig, closed again at the end."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from pykruise.kube.client import Client, RetryPolicy
from pykruise.kube.config import load
from pykruise.kube.http import HttpTransport

__all__ = ["Reach", "reached"]

Reach = Callable[[Path | None, str | None], AbstractAsyncContextManager[tuple[Client, str]]]
"""Kubeconfig and context → a client and the namespace that is meant when none is said."""


@asynccontextmanager
async def reached(kubeconfig: Path | None, context: str | None) -> AsyncIterator[tuple[Client, str]]:
    """The client and the context's namespace. Who asks by hand wants an answer: few repetitions."""
    connection = await load(kubeconfig, context=context)
    transport = HttpTransport(connection)
    try:
        yield Client(transport, retry=RetryPolicy(reads=1, total_s=5.0)), connection.namespace
    finally:
        await transport.close()
