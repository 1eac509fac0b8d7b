"""OpenKruise's own manager on a control plane of the testbed. Tests compare pykruise with it, and switch over from it.

    manager = OpenKruise(plane, "1.8")
    await manager.install()  # its definitions, webhook configurations, namespace and secret
    await manager.start()    # returns when it is ready
    await manager.stop()

It is built from its Go module, like the control plane. It runs on the loopback with the rights of an admin, and API
servers reach its webhooks by address.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from testbed.build import OPENKRUISE, build, source_folder
from testbed.control_plane import ControlPlane
from testbed.processes import free_ports

__all__ = ["GATES", "NAMESPACE", "OpenKruise"]

NAMESPACE = "kruise-system"
_PREFIX = "kruise-"
"""Prefix that its manifests add to the names of its objects."""

GATES = "ImagePullJobGate=true"
"""Gates that the chart of every release switches on."""

_READY_S = 120.0
_END_S = 20.0


class OpenKruise:
    """One release's manager, running or not."""

    def __init__(self, plane: ControlPlane, version: str, *, gates: str = GATES) -> None:
        self.version = version
        self.gates = gates
        self._plane = plane
        self._source = source_folder(OPENKRUISE, version)
        self._folder = Path(tempfile.mkdtemp(prefix=f"openkruise-{version}-"))
        self._process: asyncio.subprocess.Process | None = None
        self.webhook_port, self._health_port, self._metrics_port, self._pprof_port = free_ports(4)

    @property
    def log(self) -> Path:
        """File with the complete output of the manager."""
        return self._folder / "manager.log"

    def manifests(self) -> list[dict[str, Any]]:
        """Return its definitions, webhook configurations, namespace and secret, as in its release."""
        manifests = [
            yaml.safe_load(path.read_text()) for path in sorted(self._source.glob("config/crd/bases/*.yaml"))
        ]
        manifests += [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": NAMESPACE, "labels": {"control-plane": "openkruise"}},
            },
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-daemon-config"}},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"{_PREFIX}webhook-certs", "namespace": NAMESPACE},
            },
        ]
        manifests.append(self._deployment())
        for document in yaml.safe_load_all((self._source / "config/webhook/manifests.yaml").read_text()):
            if document:
                document["metadata"]["name"] = f"{_PREFIX}{document['metadata']['name']}"
                for webhook in document["webhooks"]:
                    service = webhook["clientConfig"]["service"]
                    service |= {"name": f"{_PREFIX}{service['name']}", "namespace": NAMESPACE}
                    if webhook["name"] == "mpod.kb.io":
                        webhook["namespaceSelector"] = {
                            "matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]
                        }
                    if "builtin" in webhook["name"] or "namespace" in webhook["name"]:
                        webhook["objectSelector"] = {
                            "matchExpressions": [
                                {"key": "policy.kruise.io/delete-protection", "operator": "Exists"}
                            ]
                        }
                manifests.append(document)
        return manifests

    def _deployment(self) -> dict[str, Any]:
        """Build the Deployment that shows the release and its gates. The manager itself is a process here."""
        container = {
            "name": "manager",
            "image": f"openkruise/kruise-manager:v{self.version}.0",
            "args": ["--enable-leader-election", f"--feature-gates={self.gates}"],
        }
        labels = {"control-plane": "controller-manager"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"{_PREFIX}controller-manager", "namespace": NAMESPACE},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }

    async def install(self) -> None:
        """Apply its manifests, as an upgrade or a downgrade to this release does."""
        text = yaml.safe_dump_all(self.manifests())
        command = [str(self._plane.binary("kubectl")), "--kubeconfig", str(self._plane.kubeconfig)]
        command += ["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", "-"]
        done = await asyncio.to_thread(
            subprocess.run, command, input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"OpenKruise {self.version} cannot be installed: {done.stderr}")

    async def start(self) -> None:
        """Start it, and return when it is ready. Raises RuntimeError with the end of its log if it does not become
        ready.
        """
        program = await asyncio.to_thread(build, self.version, part=OPENKRUISE) / OPENKRUISE.commands[0]
        environment = {
            **os.environ,
            "POD_NAMESPACE": NAMESPACE,
            "WEBHOOK_HOST": "127.0.0.1",
            "WEBHOOK_PORT": str(self.webhook_port),
            "WEBHOOK_CERT_DIR": str(self._folder / "certificates"),
        }
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                str(program),
                f"--kubeconfig={self._plane.kubeconfig}",
                "--enable-leader-election",
                f"--leader-election-namespace={NAMESPACE}",
                f"--metrics-addr=127.0.0.1:{self._metrics_port}",
                f"--health-probe-addr=127.0.0.1:{self._health_port}",
                f"--pprof-addr=127.0.0.1:{self._pprof_port}",
                f"--feature-gates={self.gates}",
                "--rest-config-qps=500",
                "--rest-config-burst=1000",
                "-v=3",
                env=environment,
                stdout=output,
                stderr=output,
            )
        try:
            async with asyncio.timeout(_READY_S):
                while not await asyncio.to_thread(self._is_ready):
                    if self._process.returncode is not None:
                        raise RuntimeError(f"OpenKruise {self.version} ended: {self._last_lines()}")
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise RuntimeError(f"OpenKruise {self.version} is not ready: {self._last_lines()}") from None

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop it, and wait until it has ended."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await process.wait()
                return
        process.kill()
        await process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health_port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
