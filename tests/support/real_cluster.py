"""`make real`: a real control plane with simulated nodes and pykruise's CRDs, until Ctrl-C.

testbed ──▶ control plane ──▶ CRDs ──▶ `pykruise kubelets` in a process of its own ──▶ what to type next

The manager is not started: it is what one works on.
"""

import argparse
import asyncio
import signal
import sys

from support.control_plane import install_kinds
from support.up import PYKRUISE
from testbed.build import VERSIONS, BuildError
from testbed.control_plane import ControlPlane, ProcessError

STOP_S = 10.0


async def run(*, kubernetes: str | None, nodes: int) -> int:
    """Run until SIGINT or SIGTERM (0), or until a part of it ends by itself (1)."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await ControlPlane.start(kubernetes) as plane:
        await install_kinds(plane)
        kubelets = await asyncio.create_subprocess_exec(
            *PYKRUISE,
            "kubelets",
            "--kubeconfig",
            str(plane.kubeconfig),
            "--nodes",
            str(nodes),
            start_new_session=True,  # Ctrl-C is for this process, which ends it in its turn
        )
        try:
            greet(plane, nodes)
            return await watch(plane, kubelets, stop)
        finally:
            await end(kubelets)


async def watch(plane: ControlPlane, kubelets: asyncio.subprocess.Process, stop: asyncio.Event) -> int:
    """Wait for the end, whoever brings it."""
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), timeout=1)
        except TimeoutError:
            ended = [name for name in plane.components if not plane.alive(name)]
            ended += ["pykruise kubelets"] if kubelets.returncode is not None else []
            if ended:
                say(f"{', '.join(ended)} ended by itself")
                return 1
    return 0


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask it to end, and see to it that it does."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), timeout=STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def greet(plane: ControlPlane, nodes: int) -> None:
    """Say what there is, and what to do with it; the kubeconfig alone goes to standard output."""
    say(
        f"Kubernetes {plane.kubernetes} with {nodes} simulated nodes and pykruise's CRDs; Ctrl-C ends it. Next:"
    )
    say(f"  export KUBECONFIG={plane.kubeconfig}")
    say("  .venv/bin/pykruise manager --enable-leader-election=false --enable-webhooks=false &")
    say("  kubectl apply -f examples/cloneset.yaml")
    print(plane.kubeconfig, flush=True)


def say(text: str) -> None:
    """To standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run one in the foreground."""
    parser = argparse.ArgumentParser(prog="make real", description=__doc__.partition("\n")[0])
    parser.add_argument("--kubernetes", metavar="MINOR", help=f"one of {', '.join(VERSIONS)}")
    parser.add_argument("--nodes", type=int, default=3)
    asked = parser.parse_args()
    try:
        return asyncio.run(run(kubernetes=asked.kubernetes, nodes=asked.nodes))
    except (BuildError, ProcessError, OSError) as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
