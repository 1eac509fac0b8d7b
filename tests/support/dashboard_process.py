"""`pykruise dashboard` as a process, and a client that changes the cluster.

serving(kubeconfig) ──▶ Served: link, url      Hand: create, patch, delete with its own client
"""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.documents import decode
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, SERVICE_ACCOUNTS, Resource
from support.up import PYKRUISE

__all__ = ["Hand", "Served", "free_port", "serving"]

T = TypeVar("T")

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


class Hand:
    """Changes a cluster, one request at a time."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._kept: tuple[asyncio.Runner, HttpTransport] | None = None

    @contextmanager
    def connected(self) -> Iterator[Self]:
        """Keep one connection for all requests of the block, because a connection costs more than its requests."""
        with asyncio.Runner() as runner:
            transport = runner.run(self._connect())
            self._kept = runner, transport
            try:
                yield self
            finally:
                self._kept = None
                runner.run(transport.close())

    async def _connect(self) -> HttpTransport:
        return HttpTransport(await load(self.kubeconfig))

    def do(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run work with a client."""

        async def done(transport: HttpTransport) -> T:
            return await work(Client(transport))

        async def connected() -> T:
            transport = await self._connect()
            try:
                return await done(transport)
            finally:
                await transport.close()

        if self._kept is None:
            return asyncio.run(connected())
        runner, transport = self._kept
        return runner.run(done(transport))

    def namespace(self, name: str) -> str:
        """Create a namespace."""
        self.do(lambda client: client.create(NAMESPACES, "", {"metadata": {"name": name}}))
        return name

    def create(self, resource: Resource, namespace: str, document: Mapping[str, Any]) -> None:
        """A new object."""
        self.do(lambda client: client.create(resource, namespace, dict(document)))

    def patch(
        self, resource: Resource, namespace: str, name: str, change: Mapping[str, Any], **more: Any
    ) -> None:
        """A merge patch."""
        self.do(
            lambda client: client.patch(
                resource, namespace, name, dict(change), patch_type=PatchType.MERGE, **more
            )
        )

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object."""
        self.do(lambda client: client.delete(resource, namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        """The stored object."""
        return decode(self.do(lambda client: client.get(resource, namespace, name)))

    def token(
        self, namespace: str, name: str, *resources: str, verbs: tuple[str, ...] = ("get", "list", "watch")
    ) -> str:
        """Token of a new service account that may read these resources in its namespace, or do `verbs`."""
        self.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": name}})
        rule = {"apiGroups": ["*"], "resources": list(resources), "verbs": list(verbs)}
        self.create(ROLES, namespace, {"metadata": {"name": name}, "rules": [rule]})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        ref = {"apiGroup": ROLES.group, "kind": "Role", "name": name}
        self.create(BINDINGS, namespace, {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]})
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        made = self.do(
            lambda client: client.create(SERVICE_ACCOUNTS, namespace, asked, name=name, subresource="token")
        )
        return str(decode(made)["status"]["token"])


class Served:
    """A running dashboard. `link`: works once; empty if users log in."""

    def __init__(self, url: str, link: str, pid: int) -> None:
        self.url = url
        self.link = link
        self.pid = pid


def free_port() -> int:
    """A port that no process listens on."""
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        port: int = result.getsockname()[1]
        return port


@contextmanager
def serving(kubeconfig: Path, *arguments: str) -> Iterator[Served]:
    """Start it, wait for its output, and end it with Ctrl-C. A failed test shows its log and its exit code."""
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is closed below
    process = subprocess.Popen(
        [*PYKRUISE, "dashboard", "--kubeconfig", str(kubeconfig), *arguments],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"},
    )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if match := re.search(r"(http://[^\s#]+/)(#token=\S+)?(?=[\s;])", said):
                yield Served(match[1], match[0] if match[2] else "", process.pid)
                break
        else:
            raise AssertionError(f"pykruise dashboard ended: {said}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        log.seek(0)
        sys.stderr.write(f"dashboard {arguments} ended with {process.returncode}: {log.read()}\n")
        log.close()
