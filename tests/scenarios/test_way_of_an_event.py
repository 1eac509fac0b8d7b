"""The page about the way of an event names the files that a real pod event runs through, and no others.

HttpSandbox (a thread) ──watch──▶ Manager with CloneSet, this thread's calls noted ──▶ PATCH of the next pod
"""

import asyncio
import random
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pykruise.kinds import crds_of, find_kind
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.client.transport import Request, Response, WrappedTransport
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.documents import decode
from pykruise.kube.election.leases import FencedTransport, LeaseTerm
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.manager.manager import Manager
from pykruise.testing.http import HttpSandbox
from support.scenario import cloneset, rolling
from support.sources import source_of

pytestmark = [pytest.mark.sandbox_only, pytest.mark.real_time]

PAGE = Path(__file__).parents[2] / "docs" / "design" / "way-of-an-event.md"
MOST_FILES = 30
GATE = "example.com/serves"


MOMENTS = {
    "lines_of",  # a line of the watch is read
    "PodProjector.__call__",  # it becomes a view
    "_list_owners",  # which objects is it about?
    "WorkQueue.add",  # a key is enqueued
    "Controller._handle",  # and taken
    "read_snapshot",  # the data of a decision is read
    "start",  # an update in place is decided
    "RequestWriter.encode",  # and sent
}
"""Functions that mark moments of the event; the files on their call stacks are its way."""


class Trace:
    """Records the files of pykruise whose functions this thread enters between `begin()` and `end()`, and the files on
    the call stack at each moment."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.way: set[str] = set()

    def begin(self) -> None:
        sys.setprofile(self._on_call)

    def end(self) -> None:
        sys.setprofile(None)

    def _on_call(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (name := source_of(frame.f_code.co_filename)):
            self.files.add(name)
            if frame.f_code.co_qualname in MOMENTS:
                self.way |= self._callers(frame)

    def _callers(self, frame: FrameType | None) -> set[str]:
        callers = set()
        while frame is not None:
            if name := source_of(frame.f_code.co_filename):
                callers.add(name)
            frame = frame.f_back
        return callers


class Watched(WrappedTransport):
    """Notices updates of pods in place as soon as they are sent."""

    def __init__(self, inner: Any, on_update: Callable[[], None]) -> None:
        super().__init__(inner)
        self._on_update = on_update
        self.updates = 0

    async def request(self, request: Request, /) -> Response:
        if request.method == "PATCH" and "/pods/" in request.path and b'"image"' in (request.body or b""):
            self.updates += 1
            # The request is sent before the event loop's next iteration.
            asyncio.get_running_loop().call_soon(self._on_update)
        return await self._inner.request(request)


@asynccontextmanager
async def client_of(sandbox: HttpSandbox) -> AsyncIterator[Client]:
    transport = HttpTransport(await load(Path(sandbox.kubeconfig)))
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def serve(sandbox: HttpSandbox, name: str, *, serves: bool) -> None:
    """Write into the pod's readiness gate whether it serves, in another thread, whose calls are not recorded."""

    async def say() -> None:
        async with client_of(sandbox) as client:
            condition = {"type": GATE, "status": str(serves)}
            body = {"status": {"conditions": [condition]}}
            await client.patch(
                PODS, "default", name, body, patch_type=PatchType.STRATEGIC, subresource="status"
            )

    await asyncio.to_thread(asyncio.run, say())


async def pods_of(client: Client) -> list[Any]:
    return [decode(raw) for raw in (await client.list(PODS, "default")).items]


async def until(claim: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not await claim():
            await asyncio.sleep(0.05)


def is_ready(pod: Any) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def traced(sandbox: HttpSandbox) -> Trace:
    """Trace of the code between the event that a pod serves again, and the update of the pod that waited for it."""
    trace, sent = Trace(), asyncio.Event()
    spec = cloneset(replicas=2, updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1))
    spec["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": GATE}]
    async with client_of(sandbox) as client, client_of(sandbox) as own:

        def on_update() -> None:
            trace.end()
            sent.set()

        watched = Watched(own.transport, on_update)
        term = LeaseTerm(time.monotonic)
        term.extend(until=time.monotonic() + 600, taken_at=time.monotonic() + 600)
        transport = FencedTransport(MeteredTransport(watched), term)  # as in a manager
        manager = Manager(
            Client(transport), kinds=[find_kind("CloneSet")], rng=random.Random(1), oversees=False
        )
        running = asyncio.create_task(manager.run())
        try:
            # given two pods that serve, of which the first does no longer when both are to be updated
            await client.create(CLONE_SETS, "default", spec)

            async def has_pods() -> bool:
                return len(await pods_of(client)) == 2

            await until(has_pods)
            first, second = (pod["metadata"]["name"] for pod in await pods_of(client))
            for name in (first, second):
                await serve(sandbox, name, serves=True)

            async def serve_both() -> bool:
                return all(map(is_ready, await pods_of(client)))

            await until(serve_both)
            await serve(sandbox, first, serves=False)
            containers = [{"name": "main", "image": "nginx:2"}]
            await client.patch(
                CLONE_SETS,
                "default",
                "web",
                {"spec": {"template": {"spec": {"containers": containers}}}},
                patch_type=PatchType.MERGE,
            )
            await asyncio.wait_for(sent.wait(), 30)
            await asyncio.sleep(2.0)  # all statuses and events are written
            assert watched.updates == 1
            sent.clear()
            # when
            trace.begin()
            await serve(sandbox, first, serves=True)
            await asyncio.wait_for(sent.wait(), 30)
        finally:
            trace.end()
            manager.stop()
            await running
    return trace


def linked(section: str) -> list[str]:
    """The files that a section of the page links."""
    (text,) = re.findall(
        rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return re.findall(r"\]\(\.\./\.\./packages/\w+/src/pykruise/([\w/]+\.py)\)", text)


def test_the_page_names_the_files_that_a_pod_event_runs_through(tmp_path: Path) -> None:
    # when
    with HttpSandbox(tmp_path / "kubeconfig", manifests=crds_of([CLONE_SETS])) as sandbox:
        trace = asyncio.run(traced(sandbox))
    # then
    way, asked = linked("From file to file"), linked("Other files that are read on the way")
    meanwhile = set(linked("What may happen at the same time"))
    assert sorted(trace.way) == sorted(way)
    assert len(way) <= MOST_FILES
    assert sorted(trace.files - trace.way - meanwhile) == sorted(asked)
