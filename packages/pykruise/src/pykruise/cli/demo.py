"""Command `pykruise demo`: shows a CloneSet's main operations on a cluster that exists as long as the demo.

manifest ──▶ playground (API server, nodes, manager) ──▶ steps ──▶ live table ──▶ summary, exit code

Every step is a write that a user would make, and a condition that must become true. A step that exceeds its time
limit ends the demo with the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pykruise.cli.errors import CommandError
from pykruise.cli.examples import read_example
from pykruise.cli.manifests import load_documents, read_documents
from pykruise.cli.playground import start_playground
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.owners import is_controlled_by
from pykruise.sandbox.cluster import ClusterSettings

Object = dict[str, Any]
POLL_S = 0.1


class View(msgspec.Struct, frozen=True, kw_only=True):
    """State of the CloneSet at one moment."""

    cloneset: Object
    pods: tuple[Object, ...]

    @property
    def status(self) -> Object:
        status: Object = self.cloneset.get("status", {})
        return status

    def has_caught_up(self, *, replicas: int, updated: int) -> bool:
        """Whether all pods exist, are ready and counted in the status, `updated` of them have the newest revision,
        and none terminates.
        """
        observed = self.status.get("observedGeneration") == self.cloneset["metadata"]["generation"]
        counted = all(
            self.status.get(field, 0) == wanted
            for field, wanted in (
                ("replicas", replicas),
                ("readyReplicas", replicas),
                ("availableReplicas", replicas),
                ("updatedReplicas", updated),
            )
        )
        return observed and counted and len(self.pods) == replicas


class DemoStep(msgspec.Struct, frozen=True, kw_only=True):
    """A user's write, and the condition that must become true."""

    title: str
    act: Callable[[], Awaitable[object]]
    done: Callable[[View], bool]
    keeps_pods: bool = False
    """Whether the pods must survive the step: only their containers restart."""


class Result(msgspec.Struct, frozen=True):
    """A completed step, with its duration and writes."""

    title: str
    seconds: float
    writes: int
    remark: str = ""


async def run_demo(*, step_timeout_s: float, manifest: Path | None = None) -> None:
    """Run the demo on a new cluster. Raises CommandError when a step is not done within `step_timeout_s` seconds."""
    cloneset = _read_cloneset(manifest)
    console = Console()
    console.print("[bold]pykruise demo[/]: an API server, three nodes and the manager in this process\n")
    async with start_playground(ClusterSettings(nodes=3)) as place:
        await _run_steps(place.client, lambda: place.writes, cloneset, console, step_timeout_s)


async def play_demo(client: Client, writes: Callable[[], int], *, step_timeout_s: float) -> None:
    """Run the demo on a cluster with a running manager. `writes` returns the number of the manager's writes."""
    await _run_steps(client, writes, _read_cloneset(None), Console(), step_timeout_s)


async def _run_steps(
    client: Client, writes: Callable[[], int], cloneset: Object, console: Console, step_timeout_s: float
) -> None:
    demo = _Demo(client, writes, cloneset, console=console, step_timeout_s=step_timeout_s)
    results = [await demo.play(step) for step in demo.list_steps()]
    await demo.print_summary(results)


def _read_cloneset(manifest: Path | None) -> Object:
    documents = (
        read_documents(manifest)
        if manifest
        else load_documents(read_example("cloneset.yaml"), source="example")
    )
    cloneset = next((document for document in documents if document["kind"] == "CloneSet"), None)
    if cloneset is None:
        raise CommandError(f"{manifest}: the file contains no CloneSet")
    cloneset["metadata"].setdefault("namespace", "default")
    return cloneset


class _Demo:
    def __init__(
        self,
        client: Client,
        writes: Callable[[], int],
        cloneset: Object,
        *,
        console: Console,
        step_timeout_s: float,
    ) -> None:
        self._client = client
        self._writes = writes
        self._cloneset = cloneset
        self._key = Key(cloneset["metadata"]["namespace"], cloneset["metadata"]["name"])
        self._console = console
        self._timeout_s = step_timeout_s
        self._created: set[str] = set()

    def list_steps(self) -> Sequence[DemoStep]:
        """Steps: create, scale up, scale down, update half, update the rest, update all in place."""
        start = int(self._cloneset["spec"].get("replicas", 1))
        more, fewer = start + 3, max(start - 1, 1)
        half = fewer // 2
        strategy = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": half}}}
        first = self._cloneset["spec"]["template"]["spec"]["containers"][0]
        image, next_image = (f"{str(first['image']).split(':')[0]}:{tag}" for tag in ("1.28", "1.29"))
        in_place = {
            "partition": 0,
            "podUpdatePolicy": "InPlaceIfPossible",
            "maxSurge": 0,
            "maxUnavailable": 2,
        }
        return (
            DemoStep(
                title=f"create CloneSet {self._key.name} with {format_count(start, 'pod')}",
                act=lambda: self._client.create(CLONE_SETS, self._key.namespace, self._cloneset),
                done=lambda view: view.has_caught_up(replicas=start, updated=start),
            ),
            DemoStep(
                title=f"scale up to {more}",
                act=lambda: self._patch_cloneset({"spec": {"replicas": more}}),
                done=lambda view: view.has_caught_up(replicas=more, updated=more),
            ),
            DemoStep(
                title=f"scale down to {fewer}",
                act=lambda: self._patch_cloneset({"spec": {"replicas": fewer}}),
                done=lambda view: view.has_caught_up(replicas=fewer, updated=fewer),
            ),
            DemoStep(
                title=f"update to {image}, all but {half} (partition)",
                act=lambda: self._update(image, strategy),
                done=lambda view: view.has_caught_up(replicas=fewer, updated=fewer - half),
            ),
            DemoStep(
                title="update the other pods",
                act=lambda: self._patch_cloneset(
                    {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
                ),
                done=lambda view: view.has_caught_up(replicas=fewer, updated=fewer),
            ),
            DemoStep(
                title=f"update to {next_image} in place",
                act=lambda: self._update(next_image, {"updateStrategy": {"rollingUpdate": in_place}}),
                done=lambda view: view.has_caught_up(replicas=fewer, updated=fewer),
                keeps_pods=True,
            ),
        )

    async def play(self, step: DemoStep) -> Result:
        """Make the step's write, and show the pods until the condition is true."""
        loop = asyncio.get_running_loop()
        began, writes = loop.time(), self._writes()
        before = await self._read_view() if step.keeps_pods else None
        with Live(console=self._console, refresh_per_second=10, transient=False) as live:
            await step.act()
            while True:
                view = await self._read_view()
                took = loop.time() - began
                live.update(_render_view(step.title, view, took))
                if step.done(view):
                    break
                if took > self._timeout_s:
                    raise CommandError(
                        f"the step '{step.title}' did not finish within {self._timeout_s:g} s: {_describe_view(view)}"
                    )
                await asyncio.sleep(POLL_S)
        self._console.print()
        remark = _describe_kept_pods(before, view) if before is not None else ""
        return Result(step.title, loop.time() - began, self._writes() - writes, remark)

    async def print_summary(self, results: Sequence[Result]) -> None:
        """Print the time of each step, and the number of writes that the manager needed."""
        table = Table(title="summary", title_justify="left", box=None, pad_edge=False)
        table.add_column("step")
        table.add_column("seconds", justify="right")
        table.add_column("writes by the manager", justify="right")
        for result in results:
            table.add_row(result.title, f"{result.seconds:.1f}", str(result.writes))
        self._console.print()
        self._console.print(table)
        for result in results:
            if result.remark:
                self._console.print(f"\n{result.title}: {result.remark}")
        self._console.print(
            f"\n{format_count(len(self._created), 'pod was', 'pods were')} created. "
            "To try it yourself: [bold]pykruise up[/], then kubectl."
        )

    async def _read_view(self) -> View:
        cloneset = decode(await self._client.get(CLONE_SETS, *self._key))
        listed = await self._client.list(PODS, self._key.namespace)
        pods = tuple(
            pod for pod in map(decode, listed.items) if is_controlled_by(pod, cloneset["metadata"]["uid"])
        )
        self._created.update(pod["metadata"]["uid"] for pod in pods)
        return View(cloneset=cloneset, pods=pods)

    async def _update(self, image: str, strategy: Object) -> None:
        template = {
            "spec": {
                "containers": [
                    {**self._cloneset["spec"]["template"]["spec"]["containers"][0], "image": image}
                ]
            }
        }
        await self._patch_cloneset({"spec": {"template": template, **strategy}})

    async def _patch_cloneset(self, patch: Object) -> None:
        await self._client.patch(CLONE_SETS, *self._key, patch, patch_type=PatchType.MERGE)


def _describe_kept_pods(before: View, after: View) -> str:
    """Result of an in-place update, in words. Raises CommandError when a pod's name, uid or IP changed."""

    def identities(view: View) -> set[tuple[str, str, str]]:
        return {
            (pod["metadata"]["name"], pod["metadata"]["uid"], pod["status"].get("podIP", ""))
            for pod in view.pods
        }

    def restarts(view: View) -> int:
        return sum(
            status["restartCount"] for pod in view.pods for status in pod["status"]["containerStatuses"]
        )

    if identities(before) != identities(after):
        raise CommandError("the in-place update did not keep the pods' names, uids and IPs")
    count = restarts(after) - restarts(before)
    return (
        f"{format_count(len(after.pods), 'pod')} kept their names, uids and IPs; "
        f"{format_count(count, 'container')} restarted"
    )


def _render_view(title: str, view: View, took: float) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for name in ("revision", "pods"):
        table.add_column(name)
    for name in ("ready", "starting", "leaving"):
        table.add_column(name, justify="right")
    for revision in sorted({_revision_of(pod) for pod in view.pods}):
        states = [_compute_pod_state(pod) for pod in view.pods if _revision_of(pod) == revision]
        newest = revision == view.status.get("updateRevision")
        table.add_row(
            Text(revision, style="bold" if newest else ""),
            Text.assemble(*((_DOTS[state]) for state in sorted(states))),
            *(str(states.count(state)) for state in (0, 1, 2)),
        )
    head = Text.assemble(("▸ ", "cyan"), (title, "bold"), (f"  {took:4.1f} s", "dim"))
    return Group(head, table)


_DOTS = {0: ("●", "green"), 1: ("○", "yellow"), 2: ("×", "red")}


def _compute_pod_state(pod: Object) -> int:
    """State of a pod: 0 ready, 1 starting, 2 terminating."""
    if pod["metadata"].get("deletionTimestamp"):
        return 2
    conditions = pod.get("status", {}).get("conditions", ())
    return 0 if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) else 1


def _revision_of(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get("controller-revision-hash", "?"))


def _describe_view(view: View) -> str:
    """The most useful reason: a Failed condition, or the pods' states and the reason why one of them does not run."""
    for condition in view.status.get("conditions", ()):
        if condition["type"].startswith("Failed") and condition["status"] == "True":
            return f"{condition['type']}: {condition.get('message', '')}"
    states = [_compute_pod_state(pod) for pod in view.pods]
    counts = f"{format_count(states.count(0), 'pod')} ready, {states.count(1)} starting, {states.count(2)} terminating"
    held = next((reason for pod in view.pods if (reason := _describe_pod_wait(pod))), "")
    return f"{counts}; {held}" if held else counts


def _describe_pod_wait(pod: Object) -> str:
    """Why a pod does not run, from the scheduler's condition or a waiting container; empty if there is no reason."""
    status = pod.get("status", {})
    name = pod["metadata"]["name"]
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{name} is not scheduled: {condition.get('message', '')}"
    for container in status.get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"{name}, container {container['name']}: {waiting.get('reason', '')} {waiting.get('message', '')}"
    return ""
