"""A model of an API server for tests of caches: one resource, its history, and faults on demand.

test ──▶ create(), change(), mark(), remove() ──▶ history ──▶ list and watch (a Transport, below a Client)
     ──▶ hold(), deliver(), cut(), end(), expire(), refuse() … in between

Writes are plain calls that return the response of an API server; the test decides when the response
reaches the cache. Versions, watch order, DELETED versions, selectors and 410 follow Kubernetes.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import orjson

from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request, Response
from pykruise.kube.errors import ConnectionLostError, KubeError, SilentStreamError, parse_error
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import parse_label_selector

WIDGETS = Resource("example.io", "v1", "widgets", "Widget")
NAMESPACE = "ns"


class Item(msgspec.Struct, frozen=True, gc=False):
    """The view of a widget."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    value: int
    owner: str
    marked: bool


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    deletion_timestamp: str = ""


class _Spec(msgspec.Struct, gc=False):
    value: int
    owner: str = ""


class _Widget(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec


_decode = msgspec.json.Decoder(_Widget).decode


def project(raw: bytes | msgspec.Raw) -> Item:
    widget = _decode(raw)
    meta, spec = widget.metadata, widget.spec
    return Item(
        meta.namespace,
        meta.name,
        meta.uid,
        int(meta.resource_version),
        spec.value,
        spec.owner,
        bool(meta.deletion_timestamp),
    )


def key(name: str) -> Key:
    return Key(NAMESPACE, name)


class Written(msgspec.Struct, frozen=True):
    """The effect of a write, and the response."""

    answer: bytes
    uid: str
    version: int
    is_gone: bool = False


class _Change(msgspec.Struct, frozen=True):
    version: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None


_END = object()


class _Stream:
    """One open watch."""

    def __init__(
        self, server: "ModelServer", version: int, selector: str, idle_timeout_s: float | None
    ) -> None:
        self.server = server
        self.seen = version
        self.selector = parse_label_selector(selector)
        self.idle_timeout_s = idle_timeout_s
        self.inbox: deque[Any] = deque()
        self.wakeup = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self.inbox:
                item = self.inbox.popleft()
                if item is _END:
                    raise StopAsyncIteration
                if isinstance(item, Exception):
                    raise item
                return item
            if not self.server.stalled:
                line = self._next_line()
                if line is not None:
                    return line
            self.wakeup.clear()
            try:
                async with asyncio.timeout(self.idle_timeout_s):
                    await self.wakeup.wait()
            except TimeoutError as err:
                raise SilentStreamError("nothing arrived") from err

    def _next_line(self) -> bytes | None:
        for change in self.server.history_after(self.seen):
            if self.server.held_from is not None and change.version >= self.server.held_from:
                return None
            self.seen = change.version
            event = self._event(change)
            if event is not None:
                return line(*event)
        return None

    def _event(self, change: _Change) -> tuple[str, dict[str, Any]] | None:
        before = change.before if change.before and self._has(change.before) else None
        after = change.after if change.after and self._has(change.after) else None
        if after is not None:
            return ("MODIFIED" if before else "ADDED"), after
        if before is not None:
            return "DELETED", with_version(before, change.version)
        return None

    def _has(self, doc: Mapping[str, Any]) -> bool:
        return self.selector.matches(doc["metadata"].get("labels", {}))


class ModelServer:
    """A Transport; see the module's text. `page_limit`: the maximum length of a list page."""

    def __init__(self, *, page_limit: int = 0) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.history: list[_Change] = []
        self.oldest = 0
        self.uids = 0
        self.page_limit = page_limit
        self.streams: list[_Stream] = []
        self.held_from: int | None = None
        self.stalled = False
        self.refusals: dict[str, deque[Response | KubeError]] = {"list": deque(), "watch": deque()}
        self.list_gate: asyncio.Event | None = None
        self.lists = 0
        self.watches: list[dict[str, str]] = []
        self.stale_list: Response | None = None
        self._pages: dict[str, tuple[list[dict[str, Any]], int, int]] = {}

    # ── writes ───────────────────────────────────────────────────────────────

    def create(
        self, name: str, value: int = 0, *, owner: str = "", labels: dict[str, str] | None = None
    ) -> Written:
        assert name not in self.objects
        self.uids += 1
        return self._store(
            {
                "apiVersion": WIDGETS.api_version,
                "kind": WIDGETS.kind,
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": f"uid-{self.uids}",
                    "labels": labels or {},
                },
                "spec": {"value": value, "owner": owner},
            }
        )

    def change(
        self, name: str, value: Any = 1, *, owner: str = "", labels: dict[str, str] | None = None
    ) -> Written:
        old = self.objects[name]
        meta = old["metadata"] if labels is None else old["metadata"] | {"labels": labels}
        return self._store(old | {"metadata": meta, "spec": {"value": value, "owner": owner}})

    def mark(self, name: str, *, grace_s: int = 30, finalizers: tuple[str, ...] = ()) -> Written:
        """A DELETE that only begins."""
        old = self.objects[name]
        meta = {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace_s,
            "finalizers": list(finalizers),
        }
        return self._store(old | {"metadata": old["metadata"] | meta})

    def remove(self, name: str, *, returns_object: bool = False) -> Written:
        """A DELETE that removes the object. The response is a Status, or the last version of the object (with a grace
        period of 0 if it is terminating)."""
        doc = self.objects[name]
        if "deletionTimestamp" in doc["metadata"]:
            doc = doc | {"metadata": doc["metadata"] | {"deletionGracePeriodSeconds": 0}}
        deleted = self._delete(name)
        status = {"kind": "Status", "status": "Success", "details": {"name": name, "uid": deleted.uid}}
        return msgspec.structs.replace(deleted, answer=orjson.dumps(doc if returns_object else status))

    def unfinalize(self, name: str) -> Written:
        """A PATCH that takes the last finalizer off a terminating object, which ends it."""
        doc = self.objects[name]
        deleted = self._delete(name)
        meta = doc["metadata"] | {"finalizers": None}
        return msgspec.structs.replace(deleted, answer=orjson.dumps(doc | {"metadata": meta}))

    def _delete(self, name: str) -> Written:
        doc = self.objects.pop(name)
        self.version += 1
        self._record(_Change(self.version, doc, None))
        return Written(b"", doc["metadata"]["uid"], self.version, is_gone=True)

    def _store(self, doc: dict[str, Any]) -> Written:
        self.version += 1
        name = doc["metadata"]["name"]
        before = self.objects.get(name)
        after = self.objects[name] = with_version(doc, self.version)
        self._record(_Change(self.version, before, after))
        return Written(orjson.dumps(after), after["metadata"]["uid"], self.version)

    def _record(self, change: _Change) -> None:
        self.history.append(change)
        self.wake()

    def skip_versions(self, count: int) -> None:
        """Advance the version as writes of other resources do."""
        self.version += count

    def answer(self, name: str) -> bytes:
        """The response to a GET of the object now."""
        return orjson.dumps(self.objects[name])

    # ── delivery of watch events ─────────────────────────────────────────────

    def hold(self) -> None:
        """Deliver nothing that happens from now on, until `deliver`."""
        self.held_from = self.version + 1

    def deliver(self, count: int | None = None) -> None:
        """Deliver the next `count` changes (None: all, and stop holding)."""
        if count is None:
            self.held_from = None
        else:
            assert self.held_from is not None
            held = [change.version for change in self.history if change.version >= self.held_from]
            self.held_from = held[count] if count < len(held) else self.version + 1
        self.wake()

    def wake(self) -> None:
        for stream in self.streams:
            stream.wakeup.set()

    def send(self, *items: Any) -> None:
        """Put lines or errors into every open stream, before its next lines."""
        for stream in self.streams:
            stream.inbox.extend(items)
            stream.wakeup.set()

    def bookmark(self) -> None:
        self.send(bookmark(self.version))

    def cut(self) -> None:
        self.send(ConnectionLostError("cut"))

    def end(self) -> None:
        self.send(_END)

    def expire(self) -> None:
        """410 inside the stream."""
        self.send(line("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}))

    def compact(self) -> None:
        """Forget history: a watch from before now gets 410."""
        self.oldest = self.version

    def refuse(self, what: str, *answers: Response | KubeError) -> None:
        """Respond to the next requests ("list" or "watch") with these errors."""
        self.refusals[what].extend(answers)

    def history_after(self, version: int) -> Iterator[_Change]:
        return (change for change in self.history if change.version > version)

    # ── Transport ────────────────────────────────────────────────────────────

    async def request(self, request: Request, /) -> Response:
        assert request.method == "GET"
        if request.path != WIDGETS.format_path():
            assert request.path != WIDGETS.format_path(NAMESPACE), (
                "the model shows its namespace or an empty one"
            )
            return Response(200, {}, orjson.dumps({"metadata": {"resourceVersion": str(self.version)}}))
        query = request.query
        assert "resourceVersion" not in query, "caches read consistently"
        if self.refusals["list"]:
            refusal = self.refusals["list"].popleft()
            if isinstance(refusal, KubeError):
                raise refusal
            return refusal
        if "continue" not in query:
            self.lists += 1
        answer = self.list_page(query)
        if self.stale_list is not None:
            answer, self.stale_list = self.stale_list, None
        if self.list_gate is not None:
            await self.list_gate.wait()
        return answer

    def list_page(self, query: Mapping[str, str]) -> Response:
        if token := query.get("continue"):
            documents, version, start = self._pages[token]
            if version < self.oldest:
                return failure(410, "Expired")
        else:
            selector = parse_label_selector(query.get("labelSelector", ""))
            documents = [doc for doc in self.objects.values() if selector.matches(doc["metadata"]["labels"])]
            version, start = self.version, 0
        limit = int(query.get("limit", "0")) or len(documents)
        end = start + min(limit, self.page_limit or limit) if query.get("limit") else len(documents)
        meta = {"resourceVersion": str(version)}
        if end < len(documents):
            meta["continue"] = token = f"{version}-{end}"
            self._pages[token] = (documents, version, end)
        return Response(200, {}, orjson.dumps({"metadata": meta, "items": documents[start:end]}))

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        query = dict(request.query)
        self.watches.append(query)
        if self.refusals["watch"]:
            refusal = self.refusals["watch"].popleft()
            if isinstance(refusal, KubeError):
                raise refusal
            raise parse_error(refusal.status, refusal.body, refusal.headers)
        version = int(query["resourceVersion"])
        if version < self.oldest:
            gone = failure(410, "Expired")
            raise parse_error(gone.status, gone.body)
        stream = _Stream(self, version, query.get("labelSelector", ""), request.timeout_s)
        self.streams.append(stream)
        try:
            yield stream
        finally:
            self.streams.remove(stream)

    async def close(self) -> None:
        pass

    @property
    def client(self) -> Client:
        return Client(self)


def with_version(doc: Mapping[str, Any], version: int) -> dict[str, Any]:
    return {**doc, "metadata": {**doc["metadata"], "resourceVersion": str(version)}}


def line(kind: str, doc: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": doc})


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": WIDGETS.kind, "metadata": {"resourceVersion": str(version)}})


def failure(code: int, reason: str, *, retry_after_s: int = 0) -> Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}
    headers = {"retry-after": str(retry_after_s)} if retry_after_s else {}
    return Response(code, headers, orjson.dumps(status))
