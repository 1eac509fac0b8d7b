"""A manager of another project as a process beside a control plane: applies its manifests, starts it, and ends it.

    class Some(GoManager):  # names its part of build.py, its manifests, arguments and environment
    manager = Some(plane, "1.2")
    await manager.install()
    await manager.start()    # returns when it is ready
    await manager.stop()

It is built from its Go module, as the control plane is. It runs on the loopback with the permissions of an admin, and
API servers reach its webhooks by address.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from testbed.build import Part, build, find_source_folder
from testbed.control_plane import ControlPlane
from testbed.processes import free_ports

__all__ = ["GoManager"]

_READY_S = 120.0
_END_S = 20.0


class GoManager:
    """One release's manager, running or not."""

    part: Part
    namespace: str
    reads_files = False
    """Whether the manager reads files that its image has beside the program. Here it reads them in its source."""

    def __init__(self, plane: ControlPlane, version: str) -> None:
        self.version = version
        self._plane = plane
        self._source = find_source_folder(self.part, version)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self.part.name}-{version}-"))
        self._process: asyncio.subprocess.Process | None = None
        self.webhook_port, self._health_port, self._metrics_port, self._pprof_port = free_ports(4)

    @property
    def pid(self) -> int:
        """Process id of the running manager. Raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError(f"{self.part.product} {self.version} does not run")
        return self._process.pid

    @property
    def log(self) -> Path:
        """The file with its complete output."""
        return self._folder / "manager.log"

    def build_manifests(self) -> list[dict[str, Any]]:
        """Return all manifests of its release except the manager's Deployment."""
        raise NotImplementedError

    def definitions(self) -> list[dict[str, Any]]:
        """Return the CustomResourceDefinitions of its release, without status."""
        paths = sorted(self._source.glob("config/crd/bases/*.yaml"))
        definitions = [yaml.safe_load(path.read_text()) for path in paths]
        for definition in definitions:
            definition.pop("status", None)
        return definitions

    def webhook_configurations(self) -> list[dict[str, Any]]:
        """Return the webhook configurations of its release, with the names and Services of the release."""
        text = (self._source / "config/webhook/manifests.yaml").read_text()
        return [document for document in yaml.safe_load_all(text) if document]

    def build_arguments(self) -> Sequence[str]:
        """Arguments of the program."""
        raise NotImplementedError

    def build_environment(self) -> Mapping[str, str]:
        """Environment variables of the program, in addition to those of this process."""
        return {
            "POD_NAMESPACE": self.namespace,
            "WEBHOOK_HOST": "127.0.0.1",
            "WEBHOOK_PORT": str(self.webhook_port),
            "WEBHOOK_CERT_DIR": str(self._folder / "certificates"),
        }

    async def install(self, *, kind: str = "") -> None:
        """Apply its manifests, as an upgrade or a downgrade to this release does. `kind`: apply only manifests of this
        kind.
        """
        text = yaml.safe_dump_all([item for item in self.build_manifests() if kind in ("", item["kind"])])
        command = [str(self._plane.find_binary("kubectl")), "--kubeconfig", str(self._plane.kubeconfig)]
        command += ["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", "-"]
        done = await asyncio.to_thread(
            subprocess.run, command, input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self.part.product} {self.version} cannot be installed: {done.stderr}")

    async def start(self) -> None:
        """Run it, and return when it is ready. Raises RuntimeError with the end of its log if it does not get ready."""
        program = await asyncio.to_thread(build, self.version, part=self.part) / self.part.commands[0]
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                str(program),
                *self.build_arguments(),
                env={**os.environ, **self.build_environment()},
                cwd=self._source if self.reads_files else None,
                stdout=output,
                stderr=output,
            )
        try:
            async with asyncio.timeout(_READY_S):
                while not await asyncio.to_thread(self._is_ready):
                    if self._process.returncode is not None:
                        raise RuntimeError(f"{self.part.product} {self.version} ended: {self._last_lines()}")
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise RuntimeError(
                f"{self.part.product} {self.version} is not ready: {self._last_lines()}"
            ) from None

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """End it, and wait until it has ended."""
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
