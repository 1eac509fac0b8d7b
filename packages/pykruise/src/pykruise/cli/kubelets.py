"""Command `pykruise kubelets`: simulated nodes for a cluster that has an API server and a scheduler but no nodes.

kubeconfig ──▶ HttpTransport ──▶ Client ──▶ sandbox.kubelet.Kubelets: nodes registered, pods simulated

For control planes without nodes, in tests and benchmarks. Existing nodes with the same names are adopted, so the
command may be stopped and started again. API servers give new nodes a taint that a controller removes when they are
ready. Where no controller does so, this command removes the taint and prints a message.
"""

import asyncio
import random
import signal
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from pykruise.agent.simulated import ALL_TASKS, AgentTasks, make_simulated_agents
from pykruise.cli.errors import CommandError
from pykruise.cli.garbage import collect_as_usual
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError, ConflictError, NotFoundError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.program.process import run_beside
from pykruise.kube.resources import NODES
from pykruise.kube.values.counts import format_count, format_first
from pykruise.sandbox.controllers.node_lifecycle import NOT_READY
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.faults_file import FaultsFileError, read_rules
from pykruise.sandbox.nodes.kubelet import Kubelets
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.sandbox.nodes.specs import make_node_specs
from pykruise.sandbox.paper_volumes import Volumes

PATIENCE_S: Final = 10.0
"""Seconds to wait after the nodes are registered. Controllers remove the taint from ready nodes within a second or
two.
"""
TRIES: Final = 5
"""Tries for a node that changes while its taint is removed."""


class KubeletsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Number and speed of the nodes. Times are in seconds."""

    nodes: int
    pods_per_node: int
    prefix: str
    """Prefix of the nodes' names; numbers from 1 follow it."""
    start_s: float
    ready_s: float
    stop_s: float
    has_volumes: bool = False
    """Whether PVCs get simulated volumes."""
    has_agents: bool = False
    """Whether the nodes simulate all tasks of the node agent. Otherwise they only pull images ahead."""
    has_events: bool = False
    """Whether an event is written for each container that starts."""
    failures: Path | None = None
    """File of failure rules (sandbox/nodes/faults_file.py)."""


async def run_kubelets(options: KubeletsOptions, *, kubeconfig: Path | None, context: str | None) -> None:
    """Run until SIGINT or SIGTERM, then finish pending writes. The nodes stay registered.

    Raises CommandError if the file of failure rules is invalid, or if the request for the nodes fails (for example
    because this user cannot list nodes), and the errors of `kube.config.kubeconfig.load`.
    """
    try:
        rules = read_rules(options.failures) if options.failures else ()
    except FaultsFileError as error:
        raise CommandError(str(error)) from error
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    transport = HttpTransport(await load(kubeconfig, context=context))
    try:
        client = Client(transport)
        await _check_access(client)
        await _serve(client, options, rules, stop)
    finally:
        await transport.close()


async def _check_access(client: Client) -> None:
    """Send one cheap request, so that an access error is reported immediately and not in a log."""
    try:
        await client.list(NODES, limit=1)
    except ApiError as error:
        raise CommandError(f"this user cannot list nodes: {error}") from error


async def _serve(
    client: Client, options: KubeletsOptions, rules: tuple[Rule, ...], stop: asyncio.Event
) -> None:
    rng = random.Random()
    recorder = EventRecorder(client, "kubelet", clock=read_system_clock, rng=rng)
    kubelets = Kubelets(
        client,
        nodes=make_node_specs(options.nodes, pods=options.pods_per_node, prefix=options.prefix),
        settings=KubeletSettings(
            start_s=options.start_s,
            start_jitter=0.0,
            ready_s=options.ready_s,
            stop_s=options.stop_s,
            records_starts=options.has_events,
        ),
        clock=read_system_clock,
        rng=rng,
        rules=rules,
        recorder=recorder,
        agents=make_simulated_agents(ALL_TASKS if options.has_agents else AgentTasks(pulls_ahead=True)),
    )
    telling = asyncio.create_task(recorder.run(), name="events")
    volumes = Volumes(client, rng=rng)
    running = asyncio.create_task(
        run_beside(kubelets.run(), *([volumes.run()] if options.has_volumes else [])), name="kubelets"
    )
    greeting = asyncio.create_task(_greet(client, kubelets, options), name="greeting")
    stopping = asyncio.create_task(stop.wait(), name="signal")
    try:
        await asyncio.wait({running, telling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            await volumes.stop()
            await kubelets.stop()
            await recorder.flush(timeout_s=1.0)
            await running
        for part in (running, telling):
            if part.done():  # raises the error, if an error ended the task
                await part
    finally:
        for task in (running, telling, greeting, stopping):
            task.cancel()
        await asyncio.gather(running, telling, greeting, stopping, return_exceptions=True)


async def _greet(client: Client, kubelets: Kubelets, options: KubeletsOptions) -> None:
    await kubelets.wait_registered()
    collect_as_usual()
    first, last = f"{options.prefix}1", f"{options.prefix}{options.nodes}"
    names = first if options.nodes == 1 else f"{first} to {last}"
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(
        f"{format_count(options.nodes, 'simulated node is', 'simulated nodes are')} registered ({names});"
        " no container runs there. Ctrl-C ends the command."
    )
    await asyncio.sleep(PATIENCE_S)
    own = {f"{options.prefix}{number + 1}" for number in range(options.nodes)}
    if taken := await take_off_not_ready(client, own):
        console.print(describe_taken(taken))


async def take_off_not_ready(client: Client, names: Collection[str]) -> list[str]:
    """Remove the taint `node.kubernetes.io/not-ready` from these nodes. Return those that had it. Raises KubeError."""
    taken: set[str] = set()
    for _ in range(TRIES):
        tainted = [
            node
            for node in map(decode, (await client.list(NODES)).items)
            if node["metadata"]["name"] in names and len(_list_other_taints(node)) < len(_taints_of(node))
        ]
        taken |= {node["metadata"]["name"] for node in tainted if await _remove_taint(client, node)}
        if taken.issuperset(node["metadata"]["name"] for node in tainted):
            break
    return sorted(taken)


async def _remove_taint(client: Client, node: Document) -> bool:
    """Remove the taint from a node. Return False when the node changed since it was read (controllers annotate new
    nodes), or was deleted.
    """
    meta = node["metadata"]
    patch = {
        "metadata": {"resourceVersion": meta["resourceVersion"]},
        "spec": {"taints": _list_other_taints(node) or None},
    }
    try:
        await client.patch(NODES, "", meta["name"], patch, patch_type=PatchType.MERGE)
    except (ConflictError, NotFoundError):
        return False
    return True


def _taints_of(node: Document) -> list[Document]:
    taints: list[Document] = get_path(node, "spec", "taints", default=[])
    return taints


def _list_other_taints(node: Document) -> list[Document]:
    return [taint for taint in _taints_of(node) if taint["key"] != NOT_READY]


def describe_taken(taken: Sequence[str]) -> str:
    """Message about nodes that kept the taint although they were ready."""
    return (
        f"{len(taken)} of these nodes still had the taint {NOT_READY} ({format_first(taken, 5)}),"
        " which kept pods away; "
        "no controller in this cluster removes it, so this command removed it"
    )
