"""A cluster in the process of the test, in virtual time.

test ──▶ Sandbox.apply(), get(), advance(), until(), run(coroutine) ──▶ its event loop ──▶ Cluster

Nothing happens between two calls: the loop runs only while one of them does, and its clock jumps over every
wait. An hour of rollouts takes as long as its requests, and equal seeds give equal runs. An operator under test
runs as a task of this loop (`start()`), with `client` or a transport of its own.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from pykruise.kube.client.client import Client
from pykruise.kube.clock import loop_clock, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.sandbox.apiserver.access.users import AUTHENTICATED, User, account_user
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.virtual_time import VirtualLoop
from pykruise.testing.contents import Manifest, documents_of, put, resource_named, rules_of

__all__ = ["Sandbox"]

T = TypeVar("T")

START = parse_time("2026-01-01T00:00:00Z")


class Sandbox:
    """A cluster for one test; enter it to start it. All methods are ordinary functions.

    `nodes`, `start_s`, `ready_s`, `stop_s`: as in ClusterSettings. `seed`: of all names, uids and delays.
    `manifests`: created before the test begins, such as CRDs. `failures`: scripted ones (`Rule` or mappings).
    With `rbac`, who is not an administrator may do what roles say.
    """

    def __init__(
        self,
        *,
        nodes: int = 3,
        seed: int = 0,
        manifests: Iterable[Manifest] = (),
        failures: Sequence[Rule | Mapping[str, Any]] = (),
        start_s: float | None = None,
        ready_s: float | None = None,
        stop_s: float | None = None,
        rbac: bool = False,
    ) -> None:
        self._settings = ClusterSettings(
            nodes=nodes, start_s=start_s, ready_s=ready_s, stop_s=stop_s, rbac=rbac
        )
        self._seed = seed
        self._manifests = documents_of(manifests)
        self._rules = rules_of(failures)
        self._tasks: list[asyncio.Task[Any]] = []
        self.loop: asyncio.AbstractEventLoop
        self.cluster: Cluster

    @property
    def client(self) -> Client:
        """The asynchronous client, for coroutines given to `run` and `start`."""
        return self.cluster.client

    def client_as(self, user: str, *groups: str) -> Client:
        """A client that is no administrator: a user's name, or `namespace:name` of a service account.

        With `rbac` it may do what roles say.
        """
        namespace, colon, name = user.partition(":")
        is_account = bool(colon) and namespace != "system"
        who = (
            account_user(namespace, name) if is_account else User(name=user, groups=(*groups, AUTHENTICATED))
        )
        return self.cluster.client_as(who)

    def __enter__(self) -> Self:
        self.loop = VirtualLoop()
        try:
            self.run(self._begin())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    async def _begin(self) -> None:
        self.cluster = Cluster(
            self._settings,
            clock=loop_clock(start=START),
            rng=random.Random(self._seed),
            rules=self._rules,
        )
        await self.cluster.start()
        for doc in self._manifests:
            await put(self.client, doc)

    def _end(self) -> None:
        try:
            self.loop.run_until_complete(self._stop())
        finally:
            self.loop.close()

    async def _stop(self) -> None:
        await self._end_tasks()
        await self.cluster.stop()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ── time ─────────────────────────────────────────────────────────────────

    @property
    def now(self) -> float:
        """Seconds of virtual time since the cluster was made."""
        return self.loop.time()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the cluster's time; returns what it returns, raises what it raises."""
        result = self.loop.run_until_complete(work)
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error  # an operator that died must not look like one that does nothing
        return result

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start something that runs beside the test, an operator; cancelled when the test is over."""
        task = self.loop.create_task(work)
        self._tasks.append(task)
        return task

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        self.run(asyncio.sleep(seconds))

    def until(self, claim: Callable[[], Any], *, within_s: float = 60.0, every_s: float = 0.1) -> None:
        """Let time pass until `claim()` is true. Raises AssertionError when it is not within `within_s`.

        `claim` may use the methods of this class; a NotFoundError in it counts as not true yet.
        """
        end = self.now + within_s
        while not _holds(claim):
            if self.now >= end:
                raise AssertionError(f"not true within {within_s:g} s: {claim}")
            self.advance(every_s)

    # ── objects ──────────────────────────────────────────────────────────────

    def apply(self, *manifests: Manifest) -> list[Document]:
        """Create what the manifests say, or merge it into what is there; returns the objects as stored."""
        return [self.run(put(self.client, doc)) for doc in documents_of(manifests)]

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Document:
        """An object: `get("deployments", "web")`. Raises NotFoundError."""
        return self._one(kind, namespace, lambda resource, space: self.client.get(resource, space, name))

    def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "default",
        subresource: str = "",
    ) -> Document:
        """Merge-patch an object; returns it as stored."""
        return self._one(
            kind,
            namespace,
            lambda resource, space: self.client.patch(
                resource, space, name, patch, patch_type=PatchType.MERGE, subresource=subresource
            ),
        )

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> Document:
        """Delete an object, and what it owns in the background; returns the server's answer."""
        return self._one(
            kind,
            namespace,
            lambda resource, space: self.client.delete(resource, space, name, propagation="Background"),
        )

    def list(self, kind: str, *, namespace: str = "", label_selector: str = "") -> list[Document]:
        """Objects of a kind, everywhere or in one namespace."""

        async def listed() -> list[Document]:
            resource = await resource_named(self.client, kind)
            space = namespace if resource.namespaced else ""
            result = await self.client.list(resource, space, label_selector=label_selector)
            return [decode(raw) for raw in result.items]

        return self.run(listed())

    def _one(self, kind: str, namespace: str, ask: Callable[[Any, str], Awaitable[bytes]]) -> Document:
        async def asked() -> Document:
            resource = await resource_named(self.client, kind)
            return decode(await ask(resource, namespace if resource.namespaced else ""))

        return self.run(asked())

    # ── trouble ──────────────────────────────────────────────────────────────

    def fail(self, *failures: Rule | Mapping[str, Any]) -> None:
        """Replace the scripted failures: `fail({"image": "shop:2", "never_ready": True})`; none: all is well."""
        rules = rules_of(failures)
        self.run(_inside(lambda: self.cluster.kubelets.set_rules(rules)))

    def stop_node(self, name: str) -> None:
        """The node loses power. KeyError: there is no such node."""
        self.run(_inside(lambda: self.cluster.kubelets.stop_node(name)))

    def start_node(self, name: str) -> None:
        """The node is back. KeyError: there is no such node."""
        self.run(_inside(lambda: self.cluster.kubelets.start_node(name)))


async def _inside(change: Callable[[], None]) -> None:
    """Do it where the loop runs: what it wakes belongs to the loop."""
    change()


def _holds(claim: Callable[[], Any]) -> bool:
    try:
        return bool(claim())
    except NotFoundError:
        return False
