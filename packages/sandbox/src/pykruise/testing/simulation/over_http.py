"""Simulation of operators that bring their own client: over HTTPS, in real time.

script ──▶ player_of(operator) ──▶ HttpSandbox whose server responds with the script's faults ◀── the operator

make_thread_runner(main) ──▶ an operator whose client is asynchronous, in its own thread and event loop

The operator runs in its own thread or process, with kopf, kubernetes_asyncio, kr8s, or in another language. It meets
the faults of a network and of a busy API server. In real time a run takes seconds, so a few dozen seeds must be enough
instead of a thousand, and a script can have another outcome when it is played again.
"""

import asyncio
import logging
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Response
from pykruise.kube.clock import read_system_clock
from pykruise.kube.errors import KubeError
from pykruise.kube.http.app import StreamCutError, Streamed, Upgraded
from pykruise.kube.http.wire import WireRequest
from pykruise.sandbox.apiserver import LineStream
from pykruise.sandbox.apiserver.access.users import User
from pykruise.sandbox.certificates import Certificate
from pykruise.sandbox.cluster import Cluster
from pykruise.sandbox.http_front import HttpFront
from pykruise.testing.http import HttpSandbox
from pykruise.testing.simulation.history import SENDER
from pykruise.testing.simulation.network import ANSWERS, GARBAGE, GONE, NetworkFaults
from pykruise.testing.simulation.scripts import Fault, SimulatedOperation
from pykruise.testing.simulation.store import ObservedStorage, SimulatedStore
from pykruise.testing.simulation.worlds import (
    Simulation,
    SimulationOutcome,
    SimulationScript,
    Violation,
    judge,
    rng_of,
)

__all__ = ["HTTP_FAULTS", "RunOperator", "make_thread_runner", "player_of"]

T = TypeVar("T")

_REQUESTS: Final = (
    *(kind for kind in ANSWERS if kind not in ("quota", "webhook timeout")),
    *("refused", "request lost", "answer lost", "late effect", "slow"),
)
_STREAMS: Final = ("cut", "gone", "end", "garbage", "delay", "stall", "duplicate")

HTTP_FAULTS: Final = (*_REQUESTS, *_STREAMS, "crash", "compact")
"""Kinds of faults that a server can cause; `crash` ends the operator and starts it again."""

RunOperator = Callable[[str], AbstractContextManager[Any]]
"""Runs an operator while the context is entered. The argument is the path of a kubeconfig."""

_STEP_S: Final = 0.05
_THREAD_S: Final = 20.0


def make_thread_runner(
    main: Callable[[str], Coroutine[Any, Any, Any]], *, restart_s: float = 0.2
) -> RunOperator:
    """Return a RunOperator that runs the coroutine `main(kubeconfig)` in its own thread, with its own event loop.

    At the end of the context, the coroutine is cancelled. A `main` that returns or raises is called again after
    `restart_s` seconds, as Kubernetes restarts a container that ends. Raises TimeoutError at the end of the context if
    the thread does not end within 20 seconds.
    """

    @contextmanager
    def run(kubeconfig: str) -> Iterator[None]:
        loop = asyncio.new_event_loop()
        life = loop.create_task(_restart(main, kubeconfig, restart_s))
        thread = threading.Thread(target=_run_life, args=(loop, life), daemon=True)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(life.cancel)
            thread.join(_THREAD_S)
            if thread.is_alive():
                raise TimeoutError(f"the operator does not end within {_THREAD_S:g} s after its cancellation")

    return run


async def _restart(
    main: Callable[[str], Coroutine[Any, Any, Any]], kubeconfig: str, restart_s: float
) -> None:
    while True:
        with suppress(Exception):
            await main(kubeconfig)
        await asyncio.sleep(restart_s)


def _run_life(loop: asyncio.AbstractEventLoop, life: "asyncio.Task[None]") -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner, suppress(asyncio.CancelledError):
        runner.run(_wait_for_life(life))


async def _wait_for_life(life: "asyncio.Task[None]") -> None:
    await life


def player_of(
    operator: RunOperator, *, quiet_s: float = 2.0, patience_s: float = 30.0
) -> Callable[[Simulation, SimulationScript], SimulationOutcome]:
    """Return the argument `play` of `check()` and `hunt()`, which plays a script for an operator over HTTPS.

    The Simulation's `faults` must be among HTTP_FAULTS, and its `length_s` is real time: some seconds. `quiet_s`:
    the cluster is at rest after this number of seconds without a write. It must be longer than the operator's longest
    delay between retries. `patience_s`: after the script, the cluster must come to rest within this number of seconds.
    """

    def play(simulation: Simulation, script: SimulationScript) -> SimulationOutcome:
        with (
            tempfile.TemporaryDirectory() as folder,
            _without_logs(),
            _DisturbedSandbox(Path(folder) / "kubeconfig", simulation, script) as sandbox,
        ):
            return _Run(operator, sandbox, simulation, script).play(quiet_s, patience_s)

    return play


@contextmanager
def _without_logs() -> Iterator[None]:
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(level)


class _DisturbedSandbox(HttpSandbox):
    """A cluster over HTTPS that records all writes, and whose server has the faults of the script."""

    def __init__(self, kubeconfig: Path, simulation: Simulation, script: SimulationScript) -> None:
        super().__init__(kubeconfig, nodes=simulation.nodes, seed=script.seed, manifests=simulation.manifests)
        self._settings = msgspec.structs.replace(self._settings, controllers=simulation.controllers)
        self._script = script
        self.faults: NetworkFaults
        self.storage: ObservedStorage

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Cluster]:
        self.storage = ObservedStorage(clock=read_system_clock, start=read_system_clock())
        begun = asyncio.get_running_loop().time()
        self.faults = NetworkFaults((), now=lambda: asyncio.get_running_loop().time() - begun)
        async with Cluster(self._settings, storage=self.storage) as cluster:
            yield cluster

    def _make_front(self, cluster: Cluster, certificate: Certificate) -> HttpFront:
        return _FaultyFront(
            lambda: self.faults, cluster.server, token=self.token, port=0, certificate=certificate
        )

    def begin(self) -> None:
        """Let the script's faults begin: their times are relative to now."""

        async def start() -> None:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            self.faults = NetworkFaults(self._script.faults, now=lambda: loop.time() - begun)

        self.run(lambda _: start())

    def run(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the cluster's thread, with a client that has no faults."""
        assert self._cluster is not None
        assert self._loop is not None
        client = self._cluster.client

        async def inside() -> T:
            SENDER.set("user")
            return await work(client)

        return asyncio.run_coroutine_threadsafe(inside(), self._loop).result(30.0)


class _FaultyFront(HttpFront):
    """The server of a cluster. It responds with faults."""

    def __init__(self, faults: Callable[[], NetworkFaults], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._faults = faults
        self._late: set[asyncio.Task[Any]] = set()

    async def answer(self, request: WireRequest) -> Response | Streamed | Upgraded:
        """Respond to the request, or apply the next fault."""
        SENDER.set("operator")
        faults, path = self._faults(), request.path
        if self._server.is_stream(request.method, path, request.query):
            fault = faults.take(("refused", "unavailable", "too many"), path, "STREAM")
            if fault is not None:
                return _Cut() if fault.kind == "refused" else ANSWERS[fault.kind].to_response()
            return await super().answer(request)
        fault = faults.take(_REQUESTS, path, request.method)
        return await super().answer(request) if fault is None else await self._with_fault(fault, request)

    async def _open_lines(self, request: WireRequest, user: User) -> LineStream | Response:
        opened = await super()._open_lines(request, user)
        return opened if isinstance(opened, Response) else _FaultyLines(opened, self._faults(), request.path)

    async def _with_fault(self, fault: Fault, request: WireRequest) -> Response | Streamed | Upgraded:
        match fault.kind:
            case "refused" | "request lost":
                return _Cut()
            case "answer lost":
                await super().answer(request)
                return _Cut()
            case "late effect":
                task = asyncio.get_running_loop().create_task(self._answer_late(fault.seconds, request))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                return _Cut()
            case "slow":
                await asyncio.sleep(fault.seconds)
                return await super().answer(request)
        given = ANSWERS[fault.kind]
        if given.takes_effect:
            await super().answer(request)
        return given.to_response()

    async def _answer_late(self, seconds: float, request: WireRequest) -> None:
        await asyncio.sleep(seconds)
        await super().answer(request)


class _Cut:
    """A response whose connection breaks before its first byte of content."""

    content_type = "application/json"
    headers: Mapping[str, str] = {}

    async def chunk(self) -> bytes:
        raise StreamCutError

    async def aclose(self) -> None:
        return None


class _FaultyLines:
    """A watch with faults at its next events."""

    def __init__(self, opened: LineStream, faults: NetworkFaults, path: str) -> None:
        self._opened = opened
        self._faults = faults
        self._path = path
        self._is_over = False
        self.content_type = opened.content_type

    async def read_batch(self, *, most: int = 256) -> list[bytes]:
        """The next lines, with the effect of a fault."""
        if self._is_over:
            return []
        lines = await self._opened.read_batch(most=most)
        fault = self._faults.take(_STREAMS, self._path, "STREAM") if lines else None
        match fault.kind if fault is not None else "":
            case "cut":
                raise StreamCutError
            case "end":
                return []
            case "gone" | "garbage":
                self._is_over = True
                return [GONE if fault is not None and fault.kind == "gone" else GARBAGE]
            case "delay" | "stall":
                assert fault is not None
                await self._faults.hang(fault.seconds)
                if fault.kind == "stall":
                    raise StreamCutError
            case "duplicate":
                return [*lines, *lines]
        return lines

    async def aclose(self) -> None:
        """Stop immediately."""
        await self._opened.aclose()


class _Run:
    """One run: the operator, the steps of the script, and the end."""

    def __init__(
        self,
        operator: RunOperator,
        sandbox: _DisturbedSandbox,
        simulation: Simulation,
        script: SimulationScript,
    ) -> None:
        self._operator = operator
        self._sandbox = sandbox
        self._simulation = simulation
        self._script = script
        self._store = SimulatedStore(sandbox.storage)
        self._violations: list[Violation] = []
        self._begun = time.monotonic()

    def play(self, quiet_s: float, patience_s: float) -> SimulationOutcome:
        self._sandbox.storage.on_write = self._judge_write
        with ExitStack() as stack:
            life = stack.enter_context(ExitStack())
            life.enter_context(self._operator(self._sandbox.kubeconfig))
            self._begun = time.monotonic()
            self._sandbox.begin()
            self._play_steps(life)
            if not self._violations:
                self._come_to_rest(quiet_s, patience_s)
            self._sandbox.storage.on_write = lambda: None
        return SimulationOutcome(
            violations=tuple(self._violations), trace=tuple(self._sandbox.storage.trace), seconds=self._now()
        )

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _play_steps(self, life: ExitStack) -> None:
        steps: list[tuple[float, SimulatedOperation | Fault]] = [
            (item.at, item) for item in self._script.operations
        ]
        steps += [(fault.at, fault) for fault in self._script.faults if fault.kind in ("crash", "compact")]
        for at, step in sorted(steps, key=lambda entry: entry[0]):
            self._wait_until(at)
            if self._violations:
                return
            if isinstance(step, SimulatedOperation):
                self._act(step)
            elif step.kind == "compact":
                self._sandbox.run(self._compact)
            else:
                life.close()
                life.enter_context(self._operator(self._sandbox.kubeconfig))
        self._wait_until(self._simulation.length_s)

    def _wait_until(self, at: float) -> None:
        while self._now() < at and not self._violations:
            time.sleep(min(_STEP_S, max(0.0, at - self._now())))

    def _act(self, operation: SimulatedOperation) -> None:
        action = self._simulation.actions[operation.do]
        with suppress(KubeError):
            self._sandbox.run(lambda client: action(client, rng_of(operation)))

    async def _compact(self, _: Client) -> None:
        self._sandbox.storage.compact(self._sandbox.storage.revision)

    def _come_to_rest(self, quiet_s: float, patience_s: float) -> None:
        async def clear(_: Client) -> None:
            self._sandbox.faults.clear()

        self._sandbox.run(clear)
        end = self._now() + patience_s
        while not self._violations:
            time.sleep(_STEP_S)
            is_quiet = read_system_clock() - self._sandbox.storage.last_change_at >= quiet_s
            if not is_quiet and self._now() < end:
                continue
            problems = self._sandbox.run(self._judge_rest)
            if is_quiet and not problems:
                return
            if self._now() >= end:
                what = f"objects still change; the last write: {self._sandbox.storage.trace[-1]}"
                self._violations += problems or [Violation("rest", what, self._now())]

    async def _judge_rest(self, _: Client) -> list[Violation]:
        return list(judge(self._simulation.at_rest, self._store, self._now()))

    def _judge_write(self) -> None:
        """Judge a write in the cluster's thread."""
        if not self._violations:
            self._violations += list(judge(self._simulation.always, self._store, self._now()))[:1]
