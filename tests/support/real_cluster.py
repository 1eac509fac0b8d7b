"""`make real`: a real control plane with nodes and pykruise's CRDs, until Ctrl-C; `make demo REAL=1`: the demo on it.

testbed ──▶ control plane ──▶ CRDs ──▶ `pykruise kubelets` in its own process, or real nodes ──▶ hints

The manager is not started, because a developer starts the version under work. The demo runs one in this process.
"""

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykruise.cli.demo import play_demo
from pykruise.cli.errors import CommandError
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import read_system_clock
from pykruise.kube.http.transport import HttpTransport
from pykruise.manager.manager import Manager
from support.control_plane import connection, install_kinds
from support.up import PYKRUISE
from testbed.build import VERSIONS, BuildError
from testbed.control_plane import ControlPlane, ProcessError
from testbed.node import Nodes, check

STOP_S = 10.0
DEMO_STEP_S = 60.0


async def run(*, kubernetes: str | None, nodes: int, real: bool) -> int:
    """Run until SIGINT or SIGTERM (0), or until a part of it ends by itself (1)."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if real:
        async with running_nodes(kubernetes, nodes) as plane:
            greet(plane, f"{nodes} real nodes")
            return await watch(plane, None, stop)
    async with await ControlPlane.start(kubernetes) as plane:
        await install_kinds(plane)
        kubelets = await asyncio.create_subprocess_exec(
            *PYKRUISE,
            "kubelets",
            "--kubeconfig",
            str(plane.kubeconfig),
            "--nodes",
            str(nodes),
            start_new_session=True,  # Ctrl-C is for this process, which then ends the child process
        )
        try:
            greet(plane, f"{nodes} simulated nodes")
            return await watch(plane, kubelets, stop)
        finally:
            await end(kubelets)


@asynccontextmanager
async def running_nodes(kubernetes: str | None, count: int) -> AsyncIterator[ControlPlane]:
    """A control plane with real nodes and the CRDs."""
    check()
    async with await ControlPlane.start(kubernetes, nodes=True) as plane:
        await install_kinds(plane)
        async with await Nodes.start(plane, count, services=True):
            yield plane


async def demo(*, kubernetes: str | None, nodes: int) -> int:
    """Run the demo on real nodes; the registry builds its images from busybox on demand."""
    say(f"a real control plane with {nodes} real nodes: their containers really run")
    async with running_nodes(kubernetes, nodes) as plane:
        user = HttpTransport(connection(plane.kubeconfig))
        metered = MeteredTransport(HttpTransport(connection(plane.manager_kubeconfig)))
        manager = Manager(Client(metered), clock=read_system_clock, rng=random.Random())
        running = asyncio.create_task(manager.run())
        try:
            await manager.wait_synced()
            await play_demo(Client(user), lambda: metered.writes, step_timeout_s=DEMO_STEP_S)
        finally:
            manager.stop()
            await running
            for each in (user, metered):
                await each.close()
    return 0


async def watch(plane: ControlPlane, kubelets: asyncio.subprocess.Process | None, stop: asyncio.Event) -> int:
    """Wait for the end, from any cause."""
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), timeout=1)
        except TimeoutError:
            ended = [name for name in plane.components if not plane.is_alive(name)]
            ended += ["pykruise kubelets"] if kubelets and kubelets.returncode is not None else []
            if ended:
                say(f"{', '.join(ended)} ended by itself")
                return 1
    return 0


async def end(process: asyncio.subprocess.Process) -> None:
    """Send a signal to end, and wait for the end."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), timeout=STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def greet(plane: ControlPlane, nodes: str) -> None:
    """Print the parts of the cluster and the next commands; only the kubeconfig goes to standard output."""
    say(f"Kubernetes {plane.kubernetes} with {nodes} and pykruise's CRDs; Ctrl-C ends it. Next:")
    say(f"  export KUBECONFIG={plane.kubeconfig}")
    say("  .venv/bin/pykruise manager --enable-leader-election=false --enable-webhooks=false &")
    say("  kubectl apply -f examples/cloneset.yaml")
    print(plane.kubeconfig, flush=True)


def say(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run a cluster in the foreground."""
    parser = argparse.ArgumentParser(prog="make real", description=__doc__.partition("\n")[0])
    parser.add_argument("--kubernetes", metavar="MINOR", help=f"one of {', '.join(VERSIONS)}")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--real", action="store_true", help="nodes whose pods really run (testbed/node.py)")
    parser.add_argument("--demo", action="store_true", help="play the demo on real nodes")
    asked = parser.parse_args()
    try:
        if asked.demo:
            return asyncio.run(demo(kubernetes=asked.kubernetes, nodes=asked.nodes))
        return asyncio.run(run(kubernetes=asked.kubernetes, nodes=asked.nodes, real=asked.real))
    except (BuildError, CommandError, ProcessError, OSError) as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
