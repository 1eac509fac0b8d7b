"""Agents as processes on real nodes, each with exactly the permissions of `pykruise install`.

agents = Agents(stage); await agents.start(); …; await agents.kill("node-1"); await agents.start("node-1")
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pykruise.kinds.gates import Gates
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, SERVICE_ACCOUNTS, Resource
from pykruise.manager.daemon import DAEMON, build_daemon_roles
from pykruise.manager.settings import NAMESPACE, SECRETS_NAMESPACE
from support.scenario import Stage

ADDRESS = "127.0.0.1:10221"
_RBAC = "rbac.authorization.k8s.io"


def _resource(kind: str) -> Resource:
    return Resource(_RBAC, "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))


class Agents:
    """One agent per node."""

    program: Sequence[str] = (
        sys.executable,
        "-m",
        "pykruise.agent.main",
        "--runtime-dir=/run",
        "--enable-pprof=false",
        "--v=5",
    )

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._kubeconfig: Path | None = None

    async def start(self, *names: str, flags: tuple[str, ...] = ()) -> None:
        """Start them on these nodes (default: all), and wait until each has received the objects that it
        watches."""
        if self._kubeconfig is None:
            self._kubeconfig = await self._account()
        nodes = [self._stage.nodes[name] for name in names] or list(self._stage.nodes)
        for node in nodes:
            command = node.build_command(
                "/usr/bin/env",
                f"NODE_NAME={node.name}",
                *self.program,
                f"--kubeconfig={self._kubeconfig}",
                f"--addr={ADDRESS}",
                *flags,
            )
            self._running[node.name] = self._popen(node.name, command)
        for node in nodes:
            await self._stage.until(lambda node=node: self._is_healthy(node), what=f"agent of {node.name}")

    def _popen(self, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
        with self.log(name).open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    async def kill(self, name: str) -> None:
        """SIGKILL to the agent of a node."""
        await self._end(name, signal.SIGKILL)

    async def stop(self, name: str) -> int:
        """SIGTERM to the agent of a node; its exit code."""
        return await self._end(name, signal.SIGTERM)

    async def close(self) -> None:
        """Kill those that are left."""
        for name in tuple(self._running):
            await self.kill(name)

    def log(self, name: str) -> Path:
        """Logs of the agents of a node."""
        return self._stage.nodes[name].directory / "agent.log"

    async def metrics(self, name: str) -> str:
        return await self._stage.nodes[name].run("/bin/busybox", "wget", "-qO-", f"http://{ADDRESS}/metrics")

    async def _is_healthy(self, node: Any) -> bool:
        process = self._running[node.name]
        assert process.poll() is None, self.log(node.name).read_text()[-2000:]
        try:
            return "ok" in await node.run("/bin/busybox", "wget", "-qO-", f"http://{ADDRESS}/healthz")
        except Exception:
            return False

    async def _end(self, name: str, number: signal.Signals) -> int:
        """Send the signal to the program itself: `nsenter` and `env` have become the program, or wait for it."""
        process = self._running.pop(name)
        for child in _children(process.pid):
            os.kill(child, number)
        if not _children(process.pid):
            process.send_signal(number)
        return await asyncio.to_thread(process.wait)

    async def _account(self) -> Path:
        """Create the agents' ServiceAccount with its roles, and return a kubeconfig with its token."""
        for name in (NAMESPACE, SECRETS_NAMESPACE):
            await self.make_namespace(name)
        await self.grant(*build_daemon_roles(Gates(), namespace=NAMESPACE))
        return await self.kubeconfig(DAEMON)

    async def make_namespace(self, name: str) -> None:
        """Create a namespace if it does not exist."""
        await _create(self._stage.client, NAMESPACES, "", {"metadata": {"name": name}})

    async def grant(self, *roles: dict[str, Any]) -> None:
        """Create roles and their bindings."""
        for role in roles:
            await self._stage.client.patch(
                _resource(role["kind"]),
                role["metadata"].get("namespace", ""),
                role["metadata"]["name"],
                role,
                patch_type=PatchType.APPLY,
                field_manager="scenario",
                force=True,
            )

    async def kubeconfig(self, account: str) -> Path:
        """Create a ServiceAccount, and return its kubeconfig."""
        client = self._stage.client
        await _create(client, SERVICE_ACCOUNTS, NAMESPACE, {"metadata": {"name": account}})
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200},
        }
        answer = await client.create(SERVICE_ACCOUNTS, NAMESPACE, asked, name=account, subresource="token")
        return self._stage.nodes.write_kubeconfig(account, decode(answer)["status"]["token"])


async def _create(client: Any, resource: Any, namespace: str, doc: dict[str, Any]) -> None:
    try:
        await client.create(resource, namespace, doc)
    except AlreadyExistsError:
        return


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text() if Path(f"/proc/{pid}").exists() else ""
    return [int(part) for part in text.split()]
