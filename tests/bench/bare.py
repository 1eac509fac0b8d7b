"""A yardstick: a bare asyncio script that makes the same writes to pods as a manager does, and nothing else.

scripted_life() ──▶ this file as its own process ──▶ API server; the scheduler and the nodes run as usual
lines of JSON on its standard input (the work) ──▶ an empty line on its standard output (ready, done)

It decides nothing: no cache, no plan, no revision, no status, no retry. It measures how many pods per second this
machine handles if a manager costs almost nothing. So the figures of a manager, as a share of it, can be compared
between machines.

- up: one POST per pod, and one PATCH of its status when it has a node (readiness condition, lifecycle state). At most
  `in_flight` requests in parallel. It ends when all pods are ready.
- in place: each of `in_flight` workers takes a pod out of service (PATCH of the status), changes its image and
  labels (PATCH), waits until the container runs it, returns the pod to service (PATCH of the status), waits until it is
  ready, and takes the next one.
- down: one DELETE per pod.
"""

import asyncio
import json
import math
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson
import uvloop

from pykruise.kube.client.transport import Request
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.plans.in_place import count_begun_updates

if TYPE_CHECKING:
    from bench.stage import RealPhase, Stage

NAMESPACE = "bench"
MANAGERS_AT_ONCE = 32
"""Maximum number of a manager's concurrent requests, and of pods that one plan begins to update."""
JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
STATE, CHANGED_AT = "lifecycle.apps.kruise.io/state", "lifecycle.apps.kruise.io/timestamp"
GATE, SECOND_GATE = "InPlaceUpdateReady", "KruisePodReady"
NOW = "2026-01-31T12:00:00Z"


# ── requests of the bench ────────────────────────────────────────────────────


class Yardstick(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the script before and after the manager did the same work; ratios use the mean of both."""

    of: str
    """The manager's phase."""
    in_flight: int
    before: "RealPhase"
    after: "RealPhase"
    ratio: float
    """The manager's pods per second, divided by the script's."""
    cpu_ratio: float
    """The manager's CPU per pod, divided by the script's."""

    @property
    def pods_per_s(self) -> float:
        """The script's pods per second."""
        return (self.before.pods_per_s + self.after.pods_per_s) / 2


def yardsticks(
    before: Sequence["RealPhase"],
    after: Sequence["RealPhase"],
    *,
    scale_up: "RealPhase",
    in_place: "RealPhase",
    pods: int,
) -> list[Yardstick]:
    """The script before and after the manager's phases, so that changes of the host's speed affect both."""

    def yardstick(of: "RealPhase", in_flight: int, real_phase: "RealPhase", other: "RealPhase") -> Yardstick:
        return Yardstick(
            of=of.name,
            in_flight=in_flight,
            before=real_phase,
            after=other,
            ratio=2 * of.pods_per_s / (real_phase.pods_per_s + other.pods_per_s),
            cpu_ratio=_divide_cpu(
                2 * of.manager_cpu_ms_per_pod,
                real_phase.manager_cpu_ms_per_pod + other.manager_cpu_ms_per_pod,
            ),
        )

    compared = (scale_up, in_place, in_place)
    in_flight = (MANAGERS_AT_ONCE, out_at_once(pods), MANAGERS_AT_ONCE)
    return [yardstick(*item) for item in zip(compared, in_flight, before, after, strict=True)]


def _divide_cpu(cpu_ms: float, base_ms: float) -> float:
    """The ratio; NaN for a phase of a few pods that took less CPU than a tick of the kernel's clock."""
    return cpu_ms / base_ms if base_ms else math.nan


def out_at_once(pods: int) -> int:
    """Number of pods that a manager has out of service during an in-place update (measured): those of the
    current plan, and those of the last plan that are not ready yet."""
    return 2 * count_begun_updates(pods) - 2


async def scripted_life(stage: "Stage", *, pods: int) -> list["RealPhase"]:
    """Scale up, update in place with the same number of pods out of service as a manager has, and with 32; then
    delete all."""
    owner = await _owner(stage)
    async with _started(stage.plane.manager_kubeconfig, owner) as (process, do):
        bench = stage.bench(process.pid, worker="script")

        async def observe(name: str, in_flight: int, **order: Any) -> "RealPhase":
            task = {**order, "pods": pods, "in_flight": in_flight}
            real_phase = await bench.observe(f"{name}, {in_flight} in flight", lambda: do(task), pods=pods)
            await asyncio.sleep(2)
            return real_phase

        real_phases = [
            await observe("scale up until ready", MANAGERS_AT_ONCE, do="up"),
            await observe("in place", out_at_once(pods), do="in place", image="nginx:2"),
            await observe("in place", MANAGERS_AT_ONCE, do="in place", image="nginx:3"),
        ]
        await do({"do": "down", "pods": pods, "in_flight": MANAGERS_AT_ONCE})
        await bench.gone()
    return real_phases


async def _owner(stage: "Stage") -> str:
    """Create the owner of the pods. The garbage collector handles such pods like those of a manager."""
    with suppress(AlreadyExistsError):
        await stage.client.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "bare"}})
    stored = await stage.client.get(CONFIG_MAPS, NAMESPACE, "bare")
    uid: str = orjson.loads(stored)["metadata"]["uid"]
    return uid


Do = Callable[[dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def _started(kubeconfig: Path, owner: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Do]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.bare", str(kubeconfig), owner),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    await stdout.readline()

    async def do(task: dict[str, Any]) -> None:
        stdin.write(json.dumps(task).encode() + b"\n")
        if not await stdout.readline():
            raise RuntimeError(f"the bare script ended during {task}")

    try:
        yield process, do
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# ── the script ───────────────────────────────────────────────────────────────


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815 - as it is spelled there


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _Spec(msgspec.Struct, frozen=True):
    nodeName: str = ""  # noqa: N815


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []
    containerStatuses: list[_Container] = []  # noqa: N815


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def is_ready(self) -> bool:
        return any(
            condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions
        )

    def runs(self, image: str) -> bool:
        """Whether a container runs the image. A node reports `nginx:2` as `docker.io/library/nginx:2`."""
        return any(
            status.image.removeprefix("docker.io/library/") == image
            for status in self.status.containerStatuses
        )


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: _Pod


class _List(msgspec.Struct, frozen=True):
    metadata: _Meta
    items: list[_Pod] = []


class _RefusedError(Exception):
    """A write that must succeed failed."""


class _NotReachedError(Exception):
    """The state for which the script waited did not occur."""


PATIENCE_S: Final = 120.0
"""Seconds after which waiting for one pod fails."""


class Script:
    """Pods called bare-00000, bare-00001, …; `owner`: uid of the ConfigMap that they belong to."""

    def __init__(self, transport: HttpTransport, *, owner: str) -> None:
        self._transport = transport
        self._owner = owner
        self._pods: dict[str, _Pod] = {}
        self._awaited: dict[str, tuple[Callable[[_Pod], bool], asyncio.Future[None]]] = {}
        self._at_once = asyncio.Semaphore(MANAGERS_AT_ONCE)

    async def watch(self) -> None:
        """Watch all pods, until cancelled. When a busy server ends the watch, list all pods again."""
        path = PODS.format_path(NAMESPACE)
        decode_list, decode = msgspec.json.Decoder(_List).decode, msgspec.json.Decoder(_Event).decode
        while True:
            listed = decode_list((await self._transport.request(Request("GET", path))).body)
            for pod in listed.items:
                self._see(pod)
            query = {"watch": "true", "resourceVersion": listed.metadata.resourceVersion}
            async with self._transport.stream(Request("GET", path, query=query)) as lines:
                async for line in lines:
                    self._see(decode(line).object)

    def _see(self, pod: _Pod) -> None:
        name = pod.metadata.name
        self._pods[name] = pod
        is_met, turn = self._awaited.get(name, (None, None))
        if is_met is not None and turn is not None and is_met(pod):
            del self._awaited[name]
            if not turn.done():
                turn.set_result(None)

    async def do(self, task: dict[str, Any]) -> None:
        """Handle one command of the bench."""
        names = [f"bare-{number:05}" for number in range(task["pods"])]
        in_flight = task["in_flight"]
        match task["do"]:
            case "up":
                self._at_once = asyncio.Semaphore(in_flight)
                await _all(names, self._create, at_once=len(names))
            case "in place":
                await _all(names, lambda name: self._update(name, task["image"]), at_once=in_flight)
            case "down":
                await _all(names, lambda name: self._write("DELETE", name), at_once=in_flight)

    async def _create(self, name: str) -> None:
        async with self._at_once:
            await self._write("POST", "", _new_pod(name, self._owner), content=JSON)
        await self._until(name, "has a node", lambda pod: bool(pod.spec.nodeName))
        async with self._at_once:
            await self._write("PATCH", name, _service(GATE, SECOND_GATE), subresource="status")
        await self._until(name, "is ready", lambda pod: pod.is_ready)

    async def _update(self, name: str, image: str) -> None:
        await self._write("PATCH", name, _out_of_service(), subresource="status")
        await self._write("PATCH", name, _other_image(image))
        await self._until(name, f"runs {image}", lambda pod: pod.runs(image))
        await self._write("PATCH", name, _service(GATE), subresource="status")
        await self._until(name, f"runs {image} and is ready", lambda pod: pod.is_ready and pod.runs(image))

    async def _write(
        self, method: str, name: str, body: Any = None, *, subresource: str = "", content: str = STRATEGIC
    ) -> None:
        answer = await self._transport.request(
            Request(
                method,
                PODS.format_path(NAMESPACE, name, subresource),
                headers={"content-type": content, "accept": JSON},
                body=orjson.dumps(body) if body is not None else None,
            )
        )
        if answer.status >= 300:
            raise _RefusedError(f"{method} {name}: {answer.status} {answer.body[:300]!r}")

    async def _until(self, name: str, what: str, is_met: Callable[[_Pod], bool]) -> None:
        """Wait until a pod has the state `what`. Raises _NotReachedError after PATIENCE_S."""
        pod = self._pods.get(name)
        if pod is not None and is_met(pod):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited[name] = (is_met, turn)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await turn
        except TimeoutError:
            seen = self._pods.get(name)
            raise _NotReachedError(
                f"after {PATIENCE_S:g} s no event says that pod {name} {what}: {seen}"
            ) from None


async def _all(names: Sequence[str], work: Callable[[str], Awaitable[None]], *, at_once: int) -> None:
    todo: Iterable[str] = iter(names)

    async def worker() -> None:
        for name in todo:
            await work(name)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(at_once, len(names))):
            tasks.create_task(worker())


# ── what it writes ───────────────────────────────────────────────────────────


def _new_pod(name: str, owner: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "nginx:1",
        "env": [{"name": f"SETTING_{number}", "value": f"value of setting {number}"} for number in range(10)],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "bare",
        "uid": owner,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {
        "app": "web",
        "apps.kruise.io/cloneset-instance-id": name[-5:],
        STATE: "PreparingNormal",
        "controller-revision-hash": "bare-7c5d9f8b6d",
        "pod-template-hash": "7c5d9f8b6d",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {CHANGED_AT: NOW},
            "ownerReferences": [reference],
        },
        "spec": {
            "containers": [container],
            "readinessGates": [{"conditionType": GATE}, {"conditionType": SECOND_GATE}],
        },
    }


def _service(*gates: str) -> dict[str, Any]:
    conditions = [
        {"type": gate, "status": "True", "lastTransitionTime": NOW, "reason": None} for gate in gates
    ]
    return {
        "metadata": {"labels": {STATE: "Normal"}, "annotations": {CHANGED_AT: NOW}},
        "status": {"conditions": conditions},
    }


def _out_of_service() -> dict[str, Any]:
    conditions = [
        {"type": GATE, "status": "False", "lastTransitionTime": NOW, "reason": "StartInPlaceUpdate"},
        {"type": "Ready", "status": "False", "lastTransitionTime": NOW, "reason": "ReadinessGatesNotReady"},
    ]
    return {"status": {"conditions": conditions}}


def _other_image(image: str) -> dict[str, Any]:
    labels = {
        "controller-revision-hash": "bare-5f6d8c9b7f",
        "pod-template-hash": "5f6d8c9b7f",
        STATE: "Updating",
    }
    state = {"revision": "bare-5f6d8c9b7f", "updateTimestamp": NOW, "updateImages": True}
    annotations = {CHANGED_AT: NOW, "apps.kruise.io/inplace-update-state": json.dumps(state)}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


async def main() -> None:
    """Handle commands sequentially until there are no more."""
    transport = HttpTransport(load_kubeconfig(Path(sys.argv[1])), pool=MANAGERS_AT_ONCE)
    script = Script(transport, owner=sys.argv[2])
    watching = asyncio.create_task(script.watch())
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    print(flush=True)  # the start is not measured
    try:
        while line := await reader.readline():
            work = asyncio.create_task(script.do(json.loads(line)))
            await asyncio.wait((work, watching), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            work.result()
            print(flush=True)
    finally:
        watching.cancel()
        await transport.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
