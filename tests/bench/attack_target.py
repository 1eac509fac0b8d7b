"""The target of attacks, and their common actions: connect from their own address, retry, store objects.

Target ──▶ connected() ──▶ one connection      repeated(256, work) ──▶ this number in parallel, until cancelled
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import Resource

__all__ = [
    "HOST",
    "MIB",
    "NAMESPACE",
    "NODE",
    "UNREVIEWED",
    "Attack",
    "Talk",
    "Target",
    "connected",
    "head",
    "repeated",
    "store",
    "stored_meanwhile",
    "storing",
    "typed",
]

_log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
NAMESPACE: Final = "attacked"
UNREVIEWED: Final = "attacked-unreviewed"
"""A namespace without webhooks, in which objects can be stored that admission rejects."""
NODE: Final = "node-a"
"""The node of the agent that is attacked."""
MIB: Final = 1024 * 1024


class Target(msgspec.Struct, frozen=True):
    """Addresses of a manager, and access of a user of one namespace to the API server."""

    webhook: int
    plain: tuple[int, ...] = ()
    """Ports of probes, metrics and thread dumps."""
    address: str = "127.0.0.2"
    """Address of the attack."""
    kubeconfig: str = ""
    dashboard: int = 0
    """Port of a shared dashboard."""
    token: str = ""
    """Token of a user of the dashboard."""
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    """Results of the attacks by name; all attacks of a run add to them."""


Talk = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Attack = Callable[[Target], Awaitable[None]]


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_TLS: Final = _tls()


async def connected(port: int, target: Target, *, tls: bool = True) -> Talk:
    """A connection from the attack's own address."""
    return await asyncio.open_connection(
        HOST, port, ssl=_TLS if tls else None, local_addr=(target.address, 0)
    )


def head(path: str, length: int) -> bytes:
    """The head of a POST."""
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


async def repeated(count: int, work: Callable[[], Awaitable[None]]) -> None:
    """Run this number of copies of the work in parallel, repeatedly."""

    async def again() -> None:
        while True:
            with suppress(OSError, EOFError, RuntimeError, ValueError):  # uvloop: a transport that is closed
                await work()
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(again())


# ── objects ──────────────────────────────────────────────────────────────────


def typed(resource: Resource) -> Document:
    """The fields apiVersion and kind of an object."""
    return {"apiVersion": resource.api_version, "kind": resource.kind}


@asynccontextmanager
async def storing(target: Target) -> AsyncIterator[Client]:
    """A user's client of the API server."""
    transport = HttpTransport(load_kubeconfig(target.kubeconfig))
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def store(client: Client, resource: Resource, namespace: str, doc: Document) -> None:
    """Create the object; ignore errors of its admission review, and an existing object."""
    try:
        await client.create(resource, namespace, {**typed(resource), **doc})
    except KubeError as error:
        _log.debug("%s is not stored: %s", resource.kind, error)


@asynccontextmanager
async def stored_meanwhile(
    client: Client, objects: Sequence[tuple[Resource, Document]]
) -> AsyncIterator[None]:
    """Objects of the namespace without reviews; afterwards they are deleted, so that the next attack is alone."""
    for resource, doc in objects:
        await store(client, resource, UNREVIEWED, doc)
    try:
        yield
    finally:
        for resource, doc in objects:
            with suppress(KubeError):
                await client.delete(resource, UNREVIEWED, doc["metadata"]["name"])
