"""A node's container runtime with pods of legitimate and of hostile users, for the agent that bench_attacks.py attacks.

legitimate pods' probe ──PodProbeMarker──▶ manager ──NodePodProbe──▶ agent ──CRI──▶ FakeRuntime: times of commands
line on standard input ──▶ one line of JSON on standard output: the delays of legitimate probes since the last one

PYTHONPATH=tests:. python -m bench.lone_node SOCKET KUBECONFIG. It has its own process, because the output of hostile
commands costs it as much as it costs the agent.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from bench.attack_target import HOST, NODE, UNREVIEWED, typed
from bench.attacks_on_agents import FLOOD
from bench.orphans import end_with_parent
from pykruise.agent.cri.values import ExecResult
from pykruise.kube.client.client import Client
from pykruise.kube.clock import format_time, read_system_clock
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import Document, decode
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from support.cri_server import serving
from support.fake_runtime import FakeRuntime

PODS_EACH: Final = 8
"""Number of pods of the legitimate user, and of the hostile one."""
OUTPUT: Final = ExecResult(exit_code=0, stdout=b"x" * 16_000_000, stderr=b"")
NOTHING: Final = ExecResult(exit_code=0, stdout=b"", stderr=b"")
FLOODED: Final = "commands that printed 16 MB"
"""The words under which these commands are counted."""
PERIOD_S: Final = 1.0
LOST_S: Final = 10.0
"""Delay after which a probe counts as missing."""


class Probes:
    """Times of the legitimate pods' probes, by pod."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._late_s: list[float] = []
        self.floods = 0
        """Commands that printed 16 MB."""

    def note(self, pod: str) -> None:
        """Record a probe."""
        now = time.monotonic()
        if pod in self._last:
            self._late_s.append(now - self._last[pod] - PERIOD_S)
        self._last[pod] = now

    def report(self) -> dict[str, object]:
        """Delays since the last report; an overdue probe counts with its current delay."""
        now = time.monotonic()
        due = [late_s for last in self._last.values() if (late_s := now - last - PERIOD_S) > LOST_S]
        late_s, self._late_s = [*self._late_s, *due], []
        floods, self.floods = self.floods, 0
        return {
            "seconds": [max(0.0, item) for item in late_s],
            "lost": sum(item > LOST_S for item in late_s),
            "probed": len(self._last),
            "counts": {FLOODED: floods} if floods else {},
        }


class Node:
    """The node's runtime, and its pods."""

    def __init__(self, client: Client) -> None:
        self.runtime = FakeRuntime(read_system_clock)
        self.runtime.exec = self._exec
        self.probes = Probes()
        self._client = client

    async def _exec(self, _: str, command: Sequence[str]) -> ExecResult:
        if command[0] == FLOOD:
            self.probes.floods += 1
            return OUTPUT
        self.probes.note(command[-1])
        return NOTHING

    async def fill(self) -> None:
        """Create the node, its pods, and the legitimate probes: one marker per pod, whose command names it."""
        await self._client.create(NODES, "", {**typed(NODES), "metadata": {"name": NODE}})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(read_system_clock())}
        await self._client.patch(
            NODES,
            "",
            NODE,
            {"status": {"conditions": [ready]}},
            patch_type=PatchType.MERGE,
            subresource="status",
        )
        for number in range(PODS_EACH):
            await self._run("default", f"honest-{number}", "honest")
            await self._run(UNREVIEWED, f"hostile-{number}", "hostile")
            await self._client.create(POD_PROBE_MARKERS, "default", _marker(f"honest-{number}"))

    async def _run(self, namespace: str, name: str, app: str) -> None:
        made = decode(
            await self._client.create(
                PODS,
                namespace,
                {
                    **typed(PODS),
                    "metadata": {"name": name, "labels": {"app": app, "pod": name}},
                    "spec": {"nodeName": NODE, "containers": [{"name": "app", "image": "nginx:1"}]},
                },
            )
        )
        container = self.runtime.run_container(
            "app", pod_uid=made["metadata"]["uid"], pod=name, namespace=namespace, started_s_ago=60.0
        )
        status = {
            "phase": "Running",
            "podIP": HOST,
            "podIPs": [{"ip": HOST}],
            "conditions": [
                {"type": type_, "status": "True"} for type_ in ("Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                {
                    "name": "app",
                    "image": "nginx:1",
                    "imageID": "nginx:1",
                    "containerID": f"containerd://{container.id}",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {}},
                }
            ],
        }
        await self._client.patch(
            PODS, namespace, name, {"status": status}, patch_type=PatchType.MERGE, subresource="status"
        )


def _marker(pod: str) -> Document:
    probe = {
        "name": "idle",
        "containerName": "app",
        "podConditionType": "honest.io/idle",
        "probe": {"exec": {"command": ["/idle", pod]}, "periodSeconds": int(PERIOD_S)},
    }
    spec = {"selector": {"matchLabels": {"pod": pod}}, "probes": [probe]}
    return {**typed(POD_PROBE_MARKERS), "metadata": {"name": pod}, "spec": spec}


async def main() -> None:
    """Run the node until it is killed."""
    transport = HttpTransport(load_kubeconfig(Path(sys.argv[2])))
    node = Node(Client(transport))
    async with serving(node.runtime, Path(sys.argv[1])):
        await node.fill()
        print("{}", flush=True)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while await reader.readline():
            print(json.dumps(node.probes.report()), flush=True)


if __name__ == "__main__":
    end_with_parent()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
