"""A cluster that runs in the same process as the test, in virtual time.

test ──▶ Sandbox.apply(), get(), advance(), until(), run(coroutine) ──▶ its event loop ──▶ Cluster

Nothing happens between two calls: the loop only runs during a call, and its clock jumps over every wait. An hour of
rollouts takes only as long as its requests, and runs with equal seeds are equal. An operator under test runs as a task
of this loop (`start()`), with `client` or its own transport.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

from pykruise.kube.client.client import Client
from pykruise.kube.clock import make_loop_clock, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.sandbox.apiserver.access.users import AUTHENTICATED, User, make_account_user
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.virtual_time import VirtualLoop
from pykruise.testing.claims import ClaimAttempt, Look, attempt, describe_claim, format_failure, has_condition
from pykruise.testing.contents import Manifest, find_resource, list_documents_with_sources, put_all, rules_of

__all__ = ["Sandbox"]

T = TypeVar("T")

START = parse_time("2026-01-01T00:00:00Z")

_MOST_LOOKS: Final = 3
"""Number of objects that the message of a failure shows."""


class Sandbox:
    """A cluster for one test. Enter its context to start it. All methods are ordinary functions.

    `nodes`, `start_s`, `ready_s`, `stop_s`: as in ClusterSettings. `seed`: for all names, uids and delays.
    `manifests`: objects to create before the test begins, such as CRDs. `failures`: scripted failures (`Rule` or
    mappings). With `rbac`, users other than the administrator may only do what their roles allow.
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
        self._manifests = list_documents_with_sources(manifests)
        self._rules = rules_of(failures)
        self._tasks: list[asyncio.Task[Any]] = []
        self._read: dict[tuple[str, str, str], None] = {}
        """Kind, namespace and name of the objects that the function passed to `until` has read."""
        self.loop: asyncio.AbstractEventLoop
        self.cluster: Cluster

    @property
    def client(self) -> Client:
        """The asynchronous client, for coroutines that are passed to `run` and `start`."""
        return self.cluster.client

    def client_as(self, user: str, *groups: str) -> Client:
        """Return a client that acts as another user than the administrator. `user`: a user's name, or `namespace:name`
        of a service account.

        With `rbac`, it may only do what the user's roles allow.
        """
        namespace, colon, name = user.partition(":")
        is_account = bool(colon) and namespace != "system"
        who = (
            make_account_user(namespace, name)
            if is_account
            else User(name=user, groups=(*groups, AUTHENTICATED))
        )
        return self.cluster.make_granted_client(who)

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
            clock=make_loop_clock(start=START),
            rng=random.Random(self._seed),
            rules=self._rules,
        )
        await self.cluster.start()
        await put_all(self.client, self._manifests)

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
        """Seconds of virtual time since the cluster was created."""
        return self.loop.time()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the cluster's time. Return its result, or raise its error."""
        __tracebackhide__ = True
        result = self.loop.run_until_complete(work)
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error  # an operator that died must not look like an operator that does nothing
        return result

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine that runs beside the test, such as an operator. It is cancelled at the end of the test."""
        task = self.loop.create_task(work)
        self._tasks.append(task)
        return task

    def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        self.run(asyncio.sleep(seconds))

    def until(self, claim: Callable[[], Any], *, within_s: float = 60.0, every_s: float = 0.1) -> None:
        """Let time pass until `claim()` is true. It is called every `every_s` seconds of virtual time.

        `claim` may use the methods of this class. An object, a field or an item that does not exist yet
        (NotFoundError, KeyError, IndexError) means that the claim is not true yet. Raises AssertionError when the claim
        is not true within `within_s` seconds: the message has the claim, the status of the objects that it read last,
        and the last events of their namespaces.
        """
        __tracebackhide__ = True
        self._wait_until(claim, lambda: describe_claim(claim), within_s=within_s, every_s=every_s)

    def wait(
        self, target: str, condition: str = "Ready", *, namespace: str = "default", within_s: float = 60.0
    ) -> Document | None:
        """Let time pass until an object has a condition: `wait("clonesets/web")`, `wait("jobs/a", "Complete")`.

        `condition`: its type, with `=False` or `=Unknown` for another status than True; `deleted`: wait until the
        object is deleted. A condition that is older than the last change of the spec is ignored. Returns the
        object, or None if it is deleted. Raises AssertionError as `until` does after `within_s` seconds, ValueError
        for a target that is not kind/name.
        """
        __tracebackhide__ = True
        kind, slash, name = target.partition("/")
        if not slash or not name:
            raise ValueError(f"{target!r}: must be a kind and a name, such as deployments/web")

        def document() -> Document | None:
            try:
                return self.get(kind, name, namespace=namespace)
            except NotFoundError:
                return None

        def is_so() -> bool:
            there = document()
            if condition == "deleted":
                return there is None
            return there is not None and has_condition(there, condition)

        claim = f"{target} is deleted" if condition == "deleted" else f"{target} has condition {condition}"
        self._wait_until(is_so, lambda: claim, within_s=within_s, every_s=0.1)
        return document()

    def _wait_until(
        self, claim: Callable[[], Any], text: Callable[[], str], *, within_s: float, every_s: float
    ) -> None:
        __tracebackhide__ = True
        end = self.now + within_s
        while True:
            self._read.clear()
            last = attempt(claim, not_yet=self._not_yet)
            if last.is_true:
                return
            if self.now >= end:
                raise AssertionError(self._format_failure(text(), within_s, last))
            self.advance(every_s)

    _not_yet: ClassVar[tuple[type[Exception], ...]] = (NotFoundError,)
    """Errors of a claim which mean that it is not true yet."""

    def _format_failure(self, claim: str, within_s: float, last: ClaimAttempt) -> str:
        read = list(self._read)[:_MOST_LOOKS]
        looks = [self._look(*item) for item in read]
        spaces = dict.fromkeys(namespace for _, namespace, _ in read)
        events = [event for namespace in spaces for event in self.events(namespace=namespace)]
        return format_failure(claim, within_s=within_s, last=last, looks=looks, events=events)

    def _look(self, kind: str, namespace: str, name: str) -> Look:
        where = f"{namespace}/{name}" if namespace else name
        try:
            document = self.get(kind, name, namespace=namespace)
        except (NotFoundError, LookupError):
            return Look(title=f"{kind} {where}", document=None)
        explanation = self._explain_object(kind, namespace, name)
        return Look(title=f"{document['kind']} {where}", document=document, explanation=explanation)

    def _explain_object(self, kind: str, namespace: str, name: str) -> str:
        """The reason why the object's state differs from its spec; empty if the reason is not known."""
        return ""

    # ── objects ──────────────────────────────────────────────────────────────

    def apply(self, *manifests: Manifest) -> list[Document]:
        """Create the objects of the manifests, or merge them into existing ones. Return the objects as stored.

        A field that its kind does not have is an error, as with kubectl. An error names the object and its file.
        """
        __tracebackhide__ = True
        return self.run(put_all(self.client, list_documents_with_sources(manifests)))

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Document:
        """Return an object: `get("deployments", "web")`. Raises NotFoundError; LookupError for a kind that is not
        served.
        """
        __tracebackhide__ = True
        self._read[kind, namespace, name] = None
        return self._request_object(
            kind, namespace, lambda resource, space: self.client.get(resource, space, name)
        )

    def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "default",
        subresource: str = "",
    ) -> Document:
        """Merge-patch an object, and return it as stored. `subresource`: `status`, `scale`, or empty for the object."""
        return self._request_object(
            kind,
            namespace,
            lambda resource, space: self.client.patch(
                resource, space, name, patch, patch_type=PatchType.MERGE, subresource=subresource
            ),
        )

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> Document:
        """Delete an object, and its dependents in the background. Return the server's response."""
        return self._request_object(
            kind,
            namespace,
            lambda resource, space: self.client.delete(resource, space, name, propagation="Background"),
        )

    def list(self, kind: str, *, namespace: str = "", label_selector: str = "") -> list[Document]:
        """Return objects of a kind, of all namespaces or of one. `label_selector`: such as `app=web,tier!=cache`."""

        async def listed() -> list[Document]:
            resource = await find_resource(self.client, kind)
            space = namespace if resource.namespaced else ""
            result = await self.client.list(resource, space, label_selector=label_selector)
            return [decode(raw) for raw in result.items]

        return self.run(listed())

    def events(self, target: str = "", *, namespace: str = "default") -> Sequence[Document]:
        """Return the events of a namespace, or of the object `target` (`events("clonesets/web")`), oldest first."""
        kind, _, name = target.partition("/")
        wanted = self.run(find_resource(self.client, kind)).kind if kind else ""
        events = [
            entry
            for entry in self.list("events", namespace=namespace)
            if not kind
            or (entry["involvedObject"].get("kind"), entry["involvedObject"].get("name")) == (wanted, name)
        ]
        return sorted(events, key=_read_event_time)

    def _request_object(
        self, kind: str, namespace: str, ask: Callable[[Any, str], Awaitable[bytes]]
    ) -> Document:
        async def asked() -> Document:
            resource = await find_resource(self.client, kind)
            return decode(await ask(resource, namespace if resource.namespaced else ""))

        return self.run(asked())

    # ── faults ───────────────────────────────────────────────────────────────

    def fail(self, *failures: Rule | Mapping[str, Any]) -> None:
        """Replace the scripted failures: `fail({"image": "shop:2", "never_ready": True})`. Without arguments, no
        failures remain.
        """
        rules = rules_of(failures)
        self.run(_run_in_loop(lambda: self.cluster.kubelets.set_rules(rules)))

    def stop_node(self, name: str) -> None:
        """Cut the node's power. Raises KeyError if there is no such node."""
        self.run(_run_in_loop(lambda: self.cluster.kubelets.stop_node(name)))

    def start_node(self, name: str) -> None:
        """Restore the node's power. Raises KeyError if there is no such node."""
        self.run(_run_in_loop(lambda: self.cluster.kubelets.start_node(name)))


async def _run_in_loop(change: Callable[[], None]) -> None:
    """Make the change inside the loop, because the change wakes tasks of this loop."""
    change()


def _read_event_time(event: Document) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
