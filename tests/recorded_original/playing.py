"""Plays a scenario through a client: on a real control plane or in the sandbox, with the same code.

play(scenario, …) ──step by step──▶ client ──responses, and objects at rest──▶ views.py ──▶ Outcome
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds import find
from pykruise.kube import resources as builtin
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.clock import Clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError, ApiError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from recorded_original.language import (
    NAMESPACE,
    Create,
    Delete,
    DeletePod,
    Document,
    Evict,
    Group,
    NextMinute,
    Patch,
    PatchPod,
    Scenario,
    Settle,
    Step,
    Try,
    TryPatch,
)
from recorded_original.views import Views

__all__ = ["Outcome", "Player", "resource_of"]

Outcome = dict[str, Any]
"""`step 1 Create CloneSet web` → the response, or the recorded objects."""

_POLL_S: Final = 1.0
_ACCOUNT_S: Final = 60.0

_BUILTIN: Final[Mapping[str, Resource]] = {
    var.kind: var for var in vars(builtin).values() if isinstance(var, Resource)
} | {
    "StatefulSet.apps": builtin.STATEFUL_SETS,
    "DaemonSet.apps": builtin.DAEMON_SETS,
}


def resource_of(kind: str, version: str) -> Resource:
    """The resource of a kind; OpenKruise's kinds get this version. `StatefulSet.apps` is Kubernetes' own."""
    own = find(kind.lower())
    if own is None or not own.resource.group.endswith("kruise.io"):
        return _BUILTIN[kind]
    has_versions = own.conversion is not None
    return msgspec.structs.replace(own.resource, version=version) if has_versions else own.resource


class Player:
    """Plays the scenarios of one group through one client."""

    def __init__(self, client: Client, group: Group, *, version: str, prefix: str, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._group = group
        self._version = version
        self._prefix = prefix

    async def play(self, scenario: Scenario) -> Outcome:
        """The outcome of every step."""
        number = self._group.scenarios.index(scenario)
        namespace = f"{self._prefix}{self._group.kind.lower()}-{number}"
        return await _Play(self._client, self._group, scenario, namespace, self._version, self._clock).run()


class _Play:
    def __init__(
        self, client: Client, group: Group, scenario: Scenario, namespace: str, version: str, clock: Clock
    ) -> None:
        self._client = client
        self._clock = clock
        self._scenario = scenario
        self._namespace = namespace
        self._version = version
        kinds = (group.kind, *group.watched, "Pod", "ControllerRevision")
        self._watched = [resource_of(kind, version) for kind in dict.fromkeys(kinds)]
        self._views = Views(namespace, shows_nodes=group.shows_nodes)
        self._do: Mapping[type[Step], Callable[[Any], Awaitable[Any]]] = {
            Create: self._create,
            Patch: self._patch,
            Delete: self._delete,
            PatchPod: self._patch_pod,
            DeletePod: self._delete_pod,
            Evict: self._evict,
            Try: self._try,
            TryPatch: self._try_patch,
            Settle: self._settle,
            NextMinute: self._next_minute,
        }

    async def run(self) -> Outcome:
        for name in (self._namespace, *map(self._real, self._scenario.namespaces)):
            await self._make_namespace(name)
        outcome: Outcome = {}
        for number, step in enumerate(self._scenario.steps, start=1):
            outcome[f"{number} {_title(step)}"] = await self._answer(step)
        return outcome

    async def _make_namespace(self, name: str) -> None:
        labels = {"scenario": self._namespace, **self._scenario.namespace_labels}
        await self._client.create(NAMESPACES, "", {"metadata": {"name": name, "labels": labels}})
        try:  # no pod can be created before; the sandbox needs none, a real control plane creates it too
            await self._client.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})
        except AlreadyExistsError:
            return

    async def _answer(self, step: Step) -> Any:
        try:
            return await self._do[type(step)](step)
        except ApiError as error:
            return self._views.refusal(error)

    # ── steps ────────────────────────────────────────────────────────────────

    async def _create(self, step: Create) -> Any:
        resource, namespace, document = self._place(step.document)
        await self._client.create(resource, namespace, document)
        return "done"

    async def _patch(self, step: Patch) -> Any:
        await self._send_patch(step)
        return "done"

    async def _try(self, step: Try) -> Any:
        resource, namespace, document = self._place(step.document)
        stored = await self._client.create(resource, namespace, document, dry_run=True)
        return self._views.stored(decode(stored))

    async def _try_patch(self, step: TryPatch) -> Any:
        return self._views.stored(await self._send_patch(step, dry_run=True))

    async def _send_patch(self, step: Patch | TryPatch, *, dry_run: bool = False) -> Document:
        resource = resource_of(step.kind, self._version)
        subresource = step.subresource if isinstance(step, Patch) else ""
        return decode(
            await self._client.patch(
                resource,
                self._namespace if resource.namespaced else "",
                self._real(step.name),
                self._filled(step.change),
                patch_type=PatchType.MERGE,
                subresource=subresource,
                dry_run=dry_run,
            )
        )

    async def _delete(self, step: Delete) -> Any:
        resource = resource_of(step.kind, self._version)
        namespace = self._namespace if resource.namespaced else ""
        policy: Any = {"propagation": step.policy} if step.policy else {}
        await self._client.delete(resource, namespace, self._real(step.name), **policy)
        return "done"

    async def _patch_pod(self, step: PatchPod) -> Any:
        name = await self._pod(step.app, step.place)
        change = self._filled(step.change)
        await self._client.patch(
            PODS,
            self._namespace,
            name,
            change,
            patch_type=PatchType.STRATEGIC,
            subresource=step.subresource,
        )
        return "done"

    async def _delete_pod(self, step: DeletePod) -> Any:
        await self._client.delete(PODS, self._namespace, await self._pod(step.app, step.place))
        return "done"

    async def _evict(self, step: Evict) -> Any:
        name = await self._pod(step.app, step.place)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        client = Client(
            self._client.transport, clock=self._clock, retry=RetryPolicy(writes=0)
        )  # 429 is an answer
        await client.create(PODS, self._namespace, eviction, name=name, subresource="eviction")
        return "done"

    async def _next_minute(self, step: NextMinute) -> Any:
        await asyncio.sleep(60.0 - self._clock() % 60.0 + step.after_s)
        return "done"

    async def _settle(self, step: Settle) -> Any:
        loop = asyncio.get_running_loop()
        end = loop.time() + step.at_most_s
        last, since = await self._read(), loop.time()
        while loop.time() - since < step.quiet_s:
            if loop.time() > end:
                raise TimeoutError(f"{self._scenario.name}: objects go on changing")
            await asyncio.sleep(_POLL_S)
            now = await self._read()
            if now != last:
                last, since = now, loop.time()
        events = [
            decode(raw) for text in ("default", self._namespace) for raw in await self._list(EVENTS, text)
        ]
        return self._views.scene([json.loads(raw) for raw in last], events)

    # ── parts ────────────────────────────────────────────────────────────────

    async def _read(self) -> list[bytes]:
        """Everything that is watched, as it is stored."""
        known: list[bytes] = []
        for resource in self._watched:
            if resource.namespaced:
                for namespace in (self._namespace, *map(self._real, self._scenario.namespaces)):
                    known += [_with_kind(raw, resource) for raw in await self._list(resource, namespace)]
            else:
                listed = await self._list(resource, "")
                known += [_with_kind(raw, resource) for raw in listed if self._is_own(raw)]
        return known

    async def _list(self, resource: Resource, namespace: str) -> list[bytes]:
        return [bytes(raw) for raw in (await self._client.list(resource, namespace)).items]

    def _is_own(self, raw: bytes) -> bool:
        name = str(json.loads(raw)["metadata"]["name"])
        return name == self._namespace or name.startswith(f"{self._namespace}-")

    async def _pod(self, app: str, place: int) -> str:
        listed = await self._client.list(PODS, self._namespace, label_selector=f"app={app}")
        names = sorted(str(decode(raw)["metadata"]["name"]) for raw in listed.items)
        return names[place]

    def _place(self, document: Document) -> tuple[Resource, str, Document]:
        kind = document["kind"]
        if document["apiVersion"] == "apps/v1" and f"{kind}.apps" in _BUILTIN:
            kind = f"{kind}.apps"
        resource = resource_of(kind, self._version)
        filled = self._filled(document) | {"apiVersion": resource.api_version}
        return (
            resource,
            filled["metadata"].get("namespace", self._namespace) if resource.namespaced else "",
            filled,
        )

    def _filled(self, document: Document) -> Document:
        result: Document = json.loads(self._real(json.dumps(document)))
        return result

    def _real(self, text: str) -> str:
        return text.replace(NAMESPACE, self._namespace)


def _with_kind(raw: bytes, resource: Resource) -> bytes:
    """The item of a list with its kind and apiVersion, which the API server leaves out in lists."""
    document = {**json.loads(raw), "kind": resource.kind, "apiVersion": resource.api_version}
    return json.dumps(document).encode()


def _title(step: Step) -> str:
    match step:
        case Create(document) | Try(document):
            words: Iterable[str] = (document["kind"], document["metadata"]["name"])
        case Patch() | TryPatch() | Delete():
            words = (step.kind, step.name)
        case PatchPod() | DeletePod() | Evict():
            words = (step.app, str(step.place))
        case _:
            words = ()
    return " ".join((type(step).__name__, *words))
