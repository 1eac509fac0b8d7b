"""A real control plane with simulated nodes and pykruise's manager as it is installed, with webhooks and conversion.

cluster = Cluster(plane, folder)
await cluster.start()     # returns when its webhooks answer
cluster.apply(document)   # as kubectl apply does
await cluster.until(lambda: cluster.get("cloneset", "web")["status"]["replicas"] == 3)
cluster.stop()
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from pykruise.manager.install import CHART_GATES
from support.up import PYKRUISE
from testbed.control_plane import ControlPlane
from testbed.processes import free_ports

__all__ = ["FAILS", "NEVER_READY", "Cluster", "Document"]

Document = dict[str, Any]

NODES: Final = 4
NEVER_READY: Final = "never-ready:1"
FAILS: Final = "fails:1"
"""Images of containers that run and are never ready, and of those that end with an error."""
NAMESPACE: Final = "kruise-system"
_LONGEST_S: Final = 120.0


class Cluster:
    """One control plane, four simulated nodes, and one manager.

    `nodes`: further flags of the simulated nodes.
    """

    def __init__(self, plane: ControlPlane, folder: Path, *, nodes: Sequence[str] = ()) -> None:
        self.plane = plane
        self.folder = folder
        self._nodes = nodes
        [self._webhook_port] = free_ports(1)
        self._running: list[subprocess.Popen[bytes]] = []
        self._last_answer = ""

    async def start(self) -> None:
        """Install pykruise and start it beside simulated nodes; returns when it leads and its webhooks respond."""
        self._spawn(
            "kubelets",
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--nodes={NODES}",
            "--agent",
            "--volumes",
            f"--failures={self._failures()}",
            *self._nodes,
        )
        await asyncio.to_thread(self._install)
        self._spawn(
            "manager",
            f"--kubeconfig={self.plane.kubeconfig}",
            *(f"--{server}-addr=127.0.0.1:0" for server in ("metrics", "health-probe", "pprof")),
            f"--feature-gates={CHART_GATES},ResourceDistributionGate=true",  # all kinds
            POD_NAMESPACE=NAMESPACE,
            WEBHOOK_HOST="127.0.0.1",
            WEBHOOK_PORT=str(self._webhook_port),
        )
        await self.until(self._is_answering, what="pykruise's webhooks answer")

    def stop(self) -> None:
        """End all processes that `start()` started."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kubectl(self, *words: str, text: str | None = None, check: bool = True) -> str:
        """The output of kubectl with the rights of an admin; without `check`, also its errors."""
        command = [str(self.plane.find_binary("kubectl")), f"--kubeconfig={self.plane.kubeconfig}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert not check or not done.returncode, f"{' '.join(words)}: {done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def pykruise(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command of pykruise against the cluster."""
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        return subprocess.run(
            [*PYKRUISE, *words], capture_output=True, text=True, check=False, env=environment
        )

    def kruise(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command of the plugin for kubectl."""
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        command = [str(Path(sys.executable).parent / "kubectl-kruise"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    def json_patch(self, kind: str, name: str, operations: "Sequence[Document]") -> None:
        """Apply a JSON patch to an object."""
        self.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(operations))

    def apply(self, *documents: Document) -> None:
        """Apply objects with a client-side apply, as users do."""
        self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    def patch(self, kind: str, name: str, patch: Document, *words: str) -> None:
        """Apply a merge patch to an object."""
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch), *words)

    def get(self, kind: str, name: str) -> Document:
        """An object; empty if it does not exist."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        document: Document = json.loads(text) if text else {}
        return document

    def list(self, kind: str, selector: str = "") -> "list[Document]":
        """Objects of a kind in the default namespace."""
        words = ["-l", selector] if selector else []
        items: list[Document] = json.loads(self.kubectl("get", kind, *words, "-o", "json"))["items"]
        return items

    def images(self, app: str) -> "list[str]":
        """The image of each pod of an app that does not terminate, sorted."""
        pods = self.list("pods", f"app={app}")
        lasting = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return sorted(pod["spec"]["containers"][0]["image"] for pod in lasting)

    async def until(self, claim: Callable[[], Any], *, what: str = "", within_s: float = _LONGEST_S) -> None:
        """Return when the claim is true. A claim may fail while objects are not complete."""
        end = time.monotonic() + within_s
        while True:
            try:
                if await asyncio.to_thread(claim):
                    return
            except (KeyError, IndexError):
                pass
            assert time.monotonic() < end, f"not within {within_s:g} s: {what}; last: {self._last_answer}"
            await asyncio.sleep(0.3)

    def log(self, program: str) -> str:
        """The log of one of pykruise's programs."""
        return (self.folder / f"{program}.log").read_text(errors="replace")

    def _failures(self) -> Path:
        path = self.folder / "failures.yaml"
        path.write_text(
            yaml.safe_dump([{"image": NEVER_READY, "never_ready": True}, {"image": FAILS, "exit_code": 1}])
        )
        return path

    def _spawn(self, *words: str, **environment: str) -> None:
        with (self.folder / f"{words[0]}.log").open("ab") as log:
            command = [*PYKRUISE, *words]
            self._running.append(
                subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
            )

    def _install(self) -> None:
        printed = self.pykruise("install", "--webhook-host=127.0.0.1", f"--webhook-port={self._webhook_port}")
        assert printed.returncode == 0, printed.stderr
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=printed.stdout)

    def _is_answering(self) -> bool:
        """Whether a new object gets its defaults, which only a webhook sets."""
        labels = {"app": "asked"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        }
        asked = {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "metadata": {"name": "asked"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        words = ("create", "--dry-run=server", "-o", "yaml", "-f", "-")
        self._last_answer = self.kubectl(*words, text=json.dumps(asked), check=False)
        return "revisionHistoryLimit" in self._last_answer
