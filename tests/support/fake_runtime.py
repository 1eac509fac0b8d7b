"""A simulated container runtime with the methods of CriClient; cri_server.py serves it at a socket.

tests ──▶ FakeRuntime: images and their registry, pods, containers, events      agent ──▶ the same methods
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.agent.cri.errors import (
    CallRefusedError,
    CallTimeoutError,
    CriNotFoundError,
    RuntimeGoneError,
    UnsupportedCallError,
)
from pykruise.agent.cri.shortened import LONGEST_FIELD
from pykruise.agent.cri.values import (
    Auth,
    ContainerEvent,
    ContainerState,
    CriContainer,
    CriContainerStatus,
    CriSandboxConfig,
    ExecResult,
    Image,
    RuntimeVersion,
    SandboxStatus,
)
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.values.image_references import parse_image

__all__ = ["FakeContainer", "FakeRuntime", "Remote"]

OK: Final = ExecResult(exit_code=0, stdout=b"", stderr=b"")

Exec = Callable[[str, Sequence[str]], Awaitable[ExecResult]]
"""Name of a container and a command → its exit code and output."""


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """An image in a registry."""

    takes_s: float = 0.0
    user: str = ""
    """`name:password`; empty: everyone may pull it."""
    fails: int = 0
    """Number of tries that fail before one succeeds; -1: all."""
    digest: str = "sha256:" + "a" * 64


class FakeContainer(msgspec.Struct, kw_only=True):
    """A container; its fields may be changed."""

    id: str
    name: str
    pod_uid: str
    sandbox_id: str
    state: ContainerState
    created_at: Instant
    started_at: Instant = 0.0
    attempt: int = 0
    labels: dict[str, str]
    annotations: dict[str, str]


class FakeRuntime:
    """One node's runtime. `clock`: the agent's clock. `restarts_in_s`: seconds after which the kubelet starts a new
    container in place of a stopped one; None: it starts none."""

    def __init__(
        self,
        clock: Clock,
        *,
        name: str = "containerd",
        has_events: bool = True,
        restarts_in_s: float | None = 0.5,
        ends_in_s: float = 0.0,
    ) -> None:
        self.name = name
        self.has_events = has_events
        self.restarts_in_s = restarts_in_s
        self.ends_in_s = ends_in_s
        """Seconds that a container needs to end after the signal to stop."""
        self.is_down = False
        self.registry: dict[str, Remote] = {}
        self.local: dict[str, Image] = {}
        self.running: dict[str, FakeContainer] = {}
        self.ips: dict[str, str] = {}
        self.in_host_network: set[str] = set()
        """UIDs of the pods that use the network of the node."""
        self.calls: list[tuple[str, str]] = []
        self.pulls: list[tuple[str, Auth | None, CriSandboxConfig]] = []
        self.stopped: list[tuple[str, int]] = []
        self.execs: list[tuple[str, tuple[str, ...]]] = []
        self.exec: Exec | None = None
        self.pulling = 0
        self.most_pulling = 0
        self._clock = clock
        self._listeners: list[asyncio.Queue[ContainerEvent | None]] = []
        self._made = 0
        self._tasks: set[asyncio.Task[None]] = set()

    # ── what tests do ────────────────────────────────────────────────────────

    def run_container(
        self,
        name: str,
        *,
        pod_uid: str,
        pod: str = "web-0",
        namespace: str = "default",
        attempt: int = 0,
        hash_: int = 0x1A2B,
        state: ContainerState = "running",
        started_s_ago: float = 0.0,
        annotations: Mapping[str, str] | None = None,
    ) -> FakeContainer:
        self._made += 1
        now = self._clock()
        made = FakeContainer(
            id=f"{self._made:064x}",
            name=name,
            pod_uid=pod_uid,
            sandbox_id=f"sandbox-{pod_uid}",
            state=state,
            created_at=now - started_s_ago + self._made * 1e-3,
            started_at=now - started_s_ago,
            attempt=attempt,
            labels={
                "io.kubernetes.pod.name": pod,
                "io.kubernetes.pod.namespace": namespace,
                "io.kubernetes.pod.uid": pod_uid,
                "io.kubernetes.container.name": name,
            },
            annotations={
                "io.kubernetes.container.hash": f"{hash_:x}",
                "io.kubernetes.container.restartCount": str(attempt),
                **(annotations or {}),
            },
        )
        self.running[made.id] = made
        self._announce(made)
        return made

    def end_container(self, container_id: str) -> None:
        """End the container; the kubelet starts another one."""
        self._end(self.running[container_id])

    def newest(self, name: str, pod_uid: str) -> FakeContainer:
        fake_containers = [
            fake_container
            for fake_container in self.running.values()
            if (fake_container.name, fake_container.pod_uid) == (name, pod_uid)
        ]
        return max(fake_containers, key=lambda fake_container: fake_container.created_at)

    def go_down(self) -> None:
        self.is_down = True
        for queue in self._listeners:
            queue.put_nowait(None)

    def come_back(self) -> None:
        self.is_down = False

    def keep(self, reference: str, *, id_: str = "sha256:" + "b" * 64, digest: str = "") -> None:
        """Store an image on the node."""
        name = parse_image(reference)
        old = self.local.get(id_)
        tags = tuple(old.tags) if old else ()
        if not name.is_digest:
            tags = tuple(dict.fromkeys((*tags, f"{name.repository}:{name.tag}")))
        digests = (f"{name.repository}@{digest or name.tag}",) if digest or name.is_digest else ()
        self.local[id_] = Image(id=id_, tags=tags, digests=tuple(old.digests) if old else digests)

    # ── the methods of CriClient ─────────────────────────────────────────────

    def close(self) -> None:
        return

    async def read_version(self) -> RuntimeVersion:
        self._begin("Version")
        return RuntimeVersion(name=self.name, version="1.7.0", api_version="v1")

    async def check_images(self) -> None:
        self._begin("ImageFsInfo")

    async def watch_events(self) -> AsyncIterator[ContainerEvent]:
        self._begin("GetContainerEvents")
        if not self.has_events:
            raise UnsupportedCallError("method GetContainerEvents not implemented")
        queue: asyncio.Queue[ContainerEvent | None] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.remove(queue)
        raise RuntimeGoneError("the container runtime closed its event stream")

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> list[CriContainer]:
        self._begin("ListContainers")
        wanted = (labels or {}).items()
        containers = [
            CriContainer(
                id=fake_container.id,
                sandbox_id=fake_container.sandbox_id,
                state=fake_container.state,
                created_at=fake_container.created_at,
                attempt=fake_container.attempt,
                labels=dict(fake_container.labels),
                annotations=dict(fake_container.annotations),
            )
            for fake_container in self.running.values()
            if wanted <= fake_container.labels.items()
        ]
        return sorted(containers, key=lambda container: -container.created_at)

    async def read_container_status(self, container_id: str) -> CriContainerStatus:
        self._begin("ContainerStatus", container_id)
        fake_container = self._found(container_id)
        return CriContainerStatus(
            id=fake_container.id,
            state=fake_container.state,
            created_at=fake_container.created_at,
            started_at=fake_container.started_at,
            finished_at=0.0,
            exit_code=0,
            reason="",
            message="",
            labels=dict(fake_container.labels),
            annotations=dict(fake_container.annotations),
        )

    async def read_sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        self._begin("PodSandboxStatus", sandbox_id)
        uid = sandbox_id.removeprefix("sandbox-")
        return SandboxStatus(
            id=sandbox_id,
            pod_uid=uid,
            ip=self.ips.get(uid, ""),
            is_in_host_network=uid in self.in_host_network,
        )

    async def exec_sync(
        self, container_id: str, command: Sequence[str], *, timeout_s: float, most_output: int = LONGEST_FIELD
    ) -> ExecResult:
        self._begin("ExecSync", container_id)
        fake_container = self._found(container_id)
        if fake_container.state != "running":
            raise CallRefusedError("container is not running")
        self.execs.append((fake_container.name, tuple(command)))
        if self.exec is None:
            return OK
        try:
            async with asyncio.timeout(timeout_s):
                result = await self.exec(fake_container.name, command)
        except TimeoutError as error:
            raise CallTimeoutError(f"did not end within {timeout_s:g} s") from error
        return msgspec.structs.replace(
            result, stdout=result.stdout[:most_output], stderr=result.stderr[:most_output]
        )

    async def stop_container(self, container_id: str, *, grace_s: int) -> None:
        self._begin("StopContainer", container_id)
        fake_container = self.running.get(container_id)
        if fake_container is None:
            return
        self.stopped.append((fake_container.name, grace_s))
        await asyncio.sleep(min(self.ends_in_s, grace_s))
        if fake_container.state == "running":
            self._end(fake_container)

    async def list_images(self) -> list[Image]:
        self._begin("ListImages")
        return list(self.local.values())

    async def pull_image(
        self, reference: str, *, auth: Auth | None, sandbox: CriSandboxConfig, timeout_s: float
    ) -> str:
        self._begin("PullImage", reference)
        self.pulls.append((reference, auth, sandbox))
        name = parse_image(reference)
        remote = self.registry.get(reference)
        if remote is None:
            raise CriNotFoundError(f"failed to resolve reference {reference!r}: not found")
        self.pulling += 1
        self.most_pulling = max(self.most_pulling, self.pulling)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(remote.takes_s)
        except TimeoutError as error:
            raise CallTimeoutError("PullImage: no response in time") from error
        finally:
            self.pulling -= 1
        if remote.user and (auth is None or f"{auth.username}:{auth.password}" != remote.user):
            raise CallRefusedError(f"failed to authorize {reference!r}: 401 Unauthorized")
        if remote.fails:
            self.registry[reference] = msgspec.structs.replace(remote, fails=remote.fails - 1)
            raise CallRefusedError(f"failed to copy {reference!r}: the registry is out of order")
        id_ = "sha256:" + format(abs(hash(name.repository)), "064x")[:64]
        self.keep(reference, id_=id_, digest=remote.digest)
        return id_

    # ── inside ───────────────────────────────────────────────────────────────

    def _begin(self, call: str, about: str = "") -> None:
        self.calls.append((call, about))
        if self.is_down:
            raise RuntimeGoneError("connection refused")

    def _found(self, container_id: str) -> FakeContainer:
        fake_container = self.running.get(container_id)
        if fake_container is None:
            raise CriNotFoundError(f"container {container_id!r}: not found")
        return fake_container

    def _end(self, fake_container: FakeContainer) -> None:
        fake_container.state = "exited"
        self._announce(fake_container)
        if self.restarts_in_s is not None:
            task = asyncio.get_running_loop().create_task(self._restart(fake_container, self.restarts_in_s))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _restart(self, fake_container: FakeContainer, in_s: float) -> None:
        await asyncio.sleep(in_s)
        self.run_container(
            fake_container.name,
            pod_uid=fake_container.pod_uid,
            pod=fake_container.labels["io.kubernetes.pod.name"],
            namespace=fake_container.labels["io.kubernetes.pod.namespace"],
            attempt=fake_container.attempt + 1,
            hash_=int(fake_container.annotations["io.kubernetes.container.hash"], 16),
        )

    def _announce(self, fake_container: FakeContainer) -> None:
        for queue in self._listeners:
            queue.put_nowait(
                ContainerEvent(id=fake_container.id, pod_uid=fake_container.pod_uid, at=self._clock())
            )
