"""Typed requests to an API server: get, list, watch, create, update, patch, delete.

caches, Writer, executor ──▶ Client ──▶ Limiter (how many at the same time) ──▶ Transport (HTTP or in process)
                         ◀── raw bytes, or a typed error of kube/errors.py

Responses stay bytes: a caller that needs an object projects it (caches) or decodes it (kube/documents.py). The client
guarantees two things: an error response is raised as its type, and a request is repeated only where that is safe
(kube/client/retries.py).
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Final, TypedDict, TypeVar, Unpack

import msgspec
import orjson

from pykruise.kube.client.answers import check_object
from pykruise.kube.client.limiter import MOST_OF_REVIEWS, Limiter
from pykruise.kube.client.retries import RetryPolicy, is_read_repeatable, is_write_repeatable
from pykruise.kube.client.transport import Request, Transport
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.errors import (
    AnswerTooLargeError,
    ApiError,
    ErrorStatus,
    GoneError,
    KubeError,
    MalformedAnswerError,
    parse_error,
)
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource, collection_of
from pykruise.kube.version import __version__

__all__ = ["PAGE_SIZE", "Body", "Client", "DeleteOptions", "WatchEvent", "WriteOptions"]

Body = Mapping[str, Any] | Sequence[Any] | bytes
"""A document, the operations of a JSON patch, or the encoded bytes of either."""

JSON_CONTENT = "application/json"

_METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
"""Accept header of lists that contain only metadata. API servers reject the header of single objects for lists, and
this header for single objects.
"""


class WriteOptions(TypedDict, total=False):
    """Options of all writes that send an object or a patch; each is optional."""

    subresource: str
    """Subresource, such as `status`."""
    dry_run: bool
    """Process the request without storing anything."""
    field_validation: str
    """`Strict`: unknown and repeated fields are errors; empty: the API server only warns."""
    field_manager: str
    """Manager named in managedFields; empty: the server derives it from the user agent."""
    priority: int
    """Requests with priority 1 are sent before waiting requests with priority 0."""


class DeleteOptions(TypedDict, total=False):
    """Options of a deletion besides the UID precondition; each is optional."""

    resource_version: str
    """Required resourceVersion of the object; empty: any."""
    grace_period_s: int | None
    """Grace period in seconds; None: the grace period of the object."""
    propagation: str
    """Background, Foreground or Orphan; empty: the default of the resource."""
    dry_run: bool
    priority: int


_WATCH_TIMEOUT_S = (300.0, 600.0)  # spread, so that watches opened together do not end together


class ListResult(msgspec.Struct, frozen=True):
    """All pages of a list. `resource_version` is the version from which a watch continues.

    An item is a view into its page and keeps the whole page in memory, so project (or copy) the item and drop the
    reference. Items of built-in kinds have no `apiVersion` and `kind`, as the API server sends them.
    """

    resource_version: str
    items: list[msgspec.Raw]


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """A line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object as it was sent."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _ListEnvelope(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


PAGE_SIZE: Final = 500
"""Objects per page of a list."""
_SMALL_PAGE: Final = 20
"""Objects per page that certainly fit into a response, even with 3 MiB each."""
_OBJECTS: Final = frozenset({"", "status", "scale", "ephemeralcontainers", "resize"})
"""Subresources whose response is an object with metadata."""

_decode_list = msgspec.json.Decoder(_ListEnvelope).decode
_decode_event = msgspec.json.Decoder(WatchEvent).decode
_decode_status = msgspec.json.Decoder(ErrorStatus).decode


C = TypeVar("C", bound="Client")
T = TypeVar("T")


class Client:
    """Requests of one program to one API server. Safe to share between tasks.

    `limiter=None` creates a limiter for this client. Clients of the same server should share one, except clients for
    reviews (`separate_limit`). `priority=1` on any
    request puts it before waiting requests of priority 0.

    Every method raises `ApiError` types when the server rejects the request and `TransportError` types when no response
    arrives (`sent` is true when the request may have taken effect).
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock = read_system_clock,
        user_agent: str = f"pykruise/{__version__}",
        limiter: Limiter | None = None,
        rng: random.Random | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    ) -> None:
        self.transport = transport
        self.clock = clock
        self._user_agent = user_agent
        self.limiter = limiter if limiter is not None else Limiter()
        self._rng = rng if rng is not None else random.Random()
        self._retry = retry
        self._read_headers = {"accept": JSON_CONTENT, "user-agent": user_agent}
        self._metadata_headers = {**self._read_headers, "accept": _METADATA}
        self._metadata_list_headers = {**self._read_headers, "accept": _METADATA_LIST}
        self._write_headers = {
            kind: {**self._read_headers, "content-type": kind}
            for kind in (JSON_CONTENT, *(patch_type.value for patch_type in PatchType))
        }

    def replace_transport(self, transport: Transport) -> "Client":
        """Return a client with the same limits, retries and user agent, but another transport."""
        return self._copy_with(transport, self.limiter)

    def replace_limiter(self, limiter: Limiter) -> "Client":
        """Return a client with the same transport, retries and user agent, but another limiter."""
        return self._copy_with(self.transport, limiter)

    def separate_limit(self) -> "Client":
        """Return a client with the same transport, whose requests never wait for a slot of this client.

        Reviews need it. A write of this client stays in flight, and occupies its slot, until the webhooks have
        responded. If a review then waits for a slot of the same limiter, both wait forever. An `HttpTransport` has by
        default a connection for each slot of both clients.
        """
        return self.replace_limiter(Limiter(maximum=MOST_OF_REVIEWS))

    def _copy_with(self, transport: Transport, limiter: Limiter) -> "Client":
        return self.copy_as(Client, transport, limiter)

    def copy_as(self, kind: type[C], transport: Transport, limiter: Limiter) -> C:
        """Return a client of the class `kind` with the same clock, retries and user agent, but another transport and
        limiter.
        """
        return kind(
            transport,
            clock=self.clock,
            user_agent=self._user_agent,
            limiter=limiter,
            rng=self._rng,
            retry=self._retry,
        )

    # ── reads ────────────────────────────────────────────────────────────────

    async def get(
        self, resource: Resource, namespace: str, name: str, *, subresource: str = "", priority: int = 0
    ) -> bytes:
        """Return the object (or its subresource) as it is stored now. Raises NotFoundError."""
        is_object = subresource in _OBJECTS
        path = resource.format_path(namespace, name, subresource)
        return await self._read(path, {}, priority=priority, is_object=is_object)

    async def get_path(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_s: float | None = None
    ) -> bytes:
        """Return the response to a GET of any path: `/version`, `/readyz`, discovery. `path` is percent-encoded."""
        return await self._read(path, query or {}, timeout_s=timeout_s)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        resource_version: str = "",
        timeout_s: float = 60.0,
        priority: int = 0,
        metadata_only: bool = False,
    ) -> ListResult:
        """Return all objects of a resource (in a namespace, or in all), read in pages of `limit` (0: one page).

        `resource_version=""` reads the stored objects; "0" accepts the server's cache. A continue token that expires
        between pages (410) restarts the list as one single page, which cannot expire; so the list is read at most
        twice. `timeout_s` applies to each page. `metadata_only`: see `read_list`.
        """
        items: list[msgspec.Raw] = []

        async def keep(page: Sequence[msgspec.Raw]) -> None:
            items.extend(page)

        version = await self.read_list(
            resource,
            namespace,
            keep,
            items.clear,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            resource_version=resource_version,
            timeout_s=timeout_s,
            priority=priority,
            metadata_only=metadata_only,
        )
        return ListResult(version, items)

    async def read_list(
        self,
        resource: Resource,
        namespace: str,
        on_page: Callable[[Sequence[msgspec.Raw]], Awaitable[None]],
        on_restart: Callable[[], object],
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        resource_version: str = "",
        timeout_s: float = 60.0,
        priority: int = 0,
        metadata_only: bool = False,
    ) -> str:
        """List like `list`, but call `on_page` for each page as it arrives, for lists that are too long for memory;
        returns the list's version.

        `on_restart` is called when the list starts again: the pages so far are no longer valid. `metadata_only`:
        objects have only metadata (kind PartialObjectMetadata); the API server does not send the other fields.
        """
        selectors = _to_query(label_selector, field_selector)
        path = resource.format_path(namespace)
        asked = _ListRequest(path, selectors, resource_version, timeout_s, priority, metadata_only)
        try:
            return await self._read_pages(asked, limit, on_page)
        except AnswerTooLargeError:
            if 0 < limit <= _SMALL_PAGE:
                raise
            on_restart()
            return await self._list_small(asked, on_page)
        except _ExpiredPageError:
            on_restart()
        try:
            return await self._read_pages(asked, 0, on_page)
        except _ExpiredPageError as err:  # a server that returns pages although the request had no limit
            raise err.gone from err

    async def _list_small(
        self, asked: "_ListRequest", on_page: Callable[[Sequence[msgspec.Raw]], Awaitable[None]]
    ) -> str:
        try:
            return await self._read_pages(asked, _SMALL_PAGE, on_page)
        except _ExpiredPageError as err:
            raise err.gone from err

    async def _read_pages(
        self,
        asked: "_ListRequest",
        limit: int,
        on_page: Callable[[Sequence[msgspec.Raw]], Awaitable[None]],
    ) -> str:
        query = dict(asked.selectors)
        if limit:
            query["limit"] = str(limit)
        version = asked.resource_version
        page = await self._read_page(asked, {**query, "resourceVersion": version} if version else query)
        # All pages belong to one snapshot. If a server ever advanced between pages, the version of the first page
        # would make the watch repeat events, but not omit any.
        version = page.metadata.resource_version
        while page.metadata.continue_:
            # The API server prepares the next page while this program reads this one.
            following = self._read_page(asked, {**query, "continue": page.metadata.continue_})
            async with _start_early(following) as next_page:
                await on_page(page.items or ())
                try:
                    page = await next_page
                except GoneError as err:
                    raise _ExpiredPageError(err) from err
        await on_page(page.items or ())
        return version

    async def _read_page(self, asked: "_ListRequest", query: Mapping[str, str]) -> _ListEnvelope:
        body = await self._read(
            asked.path,
            query,
            timeout_s=asked.timeout_s,
            priority=asked.priority,
            headers=self._metadata_list_headers if asked.metadata_only else None,
        )
        try:
            return _decode_list(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            raise MalformedAnswerError(f"GET {asked.path}: the response is not a list: {err}") from err

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        timeout_s: float | None = None,
        idle_timeout_s: float | None = None,
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Watch changes after `resource_version`.

            async with client.watch(PODS, resource_version=rv) as events:
                async for event in events: ...

        Entering raises the error of a response that is not 200. The iterator ends when the server ends the watch
        (after `timeout_s`; None: 5 to 10 minutes, jittered). It raises the ApiError of an ERROR event (410 is
        GoneError: list again), and TransportError when the connection breaks, a line is not an event, or nothing (not
        even a bookmark) arrives for `idle_timeout_s`. Nothing is repeated here: the caller knows where to continue.
        The limiter does not count watches. `metadata_only`: see `read_list`.
        """
        query = _to_query(label_selector, field_selector)
        query["watch"] = "true"
        query["resourceVersion"] = resource_version
        if bookmarks:
            query["allowWatchBookmarks"] = "true"
        seconds = self._rng.uniform(*_WATCH_TIMEOUT_S) if timeout_s is None else timeout_s
        query["timeoutSeconds"] = str(max(1, round(seconds)))
        headers = self._metadata_headers if metadata_only else self._read_headers
        path = resource.format_path(namespace)
        return self._open_watch(Request("GET", path, query=query, headers=headers, timeout_s=idle_timeout_s))

    @asynccontextmanager
    async def _open_watch(self, request: Request) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        path = request.path
        async with self.transport.stream(request) as lines, aclosing(_decode_events(path, lines)) as events:
            yield events

    # ── writes ───────────────────────────────────────────────────────────────

    async def create(
        self,
        resource: Resource,
        namespace: str,
        body: Body,
        *,
        name: str = "",
        **options: Unpack[WriteOptions],
    ) -> bytes:
        """POST a new object or, with `name`, a subresource of an existing one (`eviction`, `binding`).

        Returns the stored object. Raises AlreadyExistsError, InvalidError, ForbiddenError; ValueError for a name
        without a subresource, or a subresource without a name.
        """
        if bool(name) != bool(options.get("subresource")):
            raise ValueError("create: give a name and a subresource, or neither of them")
        return await self._write("POST", resource, namespace, name, body, JSON_CONTENT, options)

    async def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Body,
        **options: Unpack[WriteOptions],
    ) -> bytes:
        """PUT a whole object. Raises ConflictError when its resourceVersion is not the stored one.

        Use it only for objects that this program owns exclusively; patch all others.
        """
        return await self._write("PUT", resource, namespace, name, body, JSON_CONTENT, options)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Body,
        *,
        patch_type: PatchType,
        force: bool = False,
        **options: Unpack[WriteOptions],
    ) -> bytes:
        """PATCH an object or a subresource. The body contains the preconditions.

        `force` takes fields over from other managers (server-side apply only). Raises NotFoundError, ConflictError,
        InvalidError (for example when the `test` of a JSON patch fails).
        """
        kind = patch_type.value
        return await self._write("PATCH", resource, namespace, name, body, kind, options, force=force)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        **options: Unpack[DeleteOptions],
    ) -> bytes:
        """DELETE an object, only if it still has `uid` and `resource_version` (where given).

        Returns the terminating object if it is only marked for deletion, else the deleted object or a Status. Raises
        NotFoundError; ConflictError when a precondition does not hold.
        """
        path = resource.format_path(namespace, name)
        body = orjson.dumps(_to_delete_options(uid, options))
        return await self._send("DELETE", path, {}, body, JSON_CONTENT, options.get("priority", 0))

    # ── one request ──────────────────────────────────────────────────────────

    async def _read(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        timeout_s: float | None = None,
        priority: int = 0,
        headers: Mapping[str, str] | None = None,
        is_object: bool = False,
    ) -> bytes:
        request = Request(
            "GET", path, query=query, headers=headers or self._read_headers, timeout_s=timeout_s
        )
        return await self._send_with_retries(
            request, self._retry.reads, is_read_repeatable, priority, is_object=is_object
        )

    async def _write(
        self,
        method: str,
        resource: Resource,
        namespace: str,
        name: str,
        body: Body,
        content_type: str,
        options: WriteOptions,
        *,
        force: bool = False,
    ) -> bytes:
        path = resource.format_path(namespace, name, options.get("subresource", ""))
        query = {}
        if options.get("dry_run"):
            query["dryRun"] = "All"
        if manager := options.get("field_manager"):
            query["fieldManager"] = manager
        if validation := options.get("field_validation"):
            query["fieldValidation"] = validation
        if force:
            query["force"] = "true"
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        # A POST may be a query (SubjectAccessReview) or a command (Eviction) that stores no object.
        is_object = options.get("subresource", "") in _OBJECTS and not resource.kind.endswith("Review")
        priority = options.get("priority", 0)
        return await self._send(method, path, query, data, content_type, priority, is_object=is_object)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        data: bytes,
        content_type: str,
        priority: int,
        *,
        is_object: bool = False,
    ) -> bytes:
        request = Request(method, path, query=query, headers=self._write_headers[content_type], body=data)
        return await self._send_with_retries(
            request, self._retry.writes, is_write_repeatable, priority, is_object=is_object
        )

    async def _send_with_retries(
        self,
        request: Request,
        repetitions: int,
        is_repeatable: Callable[[KubeError], bool],
        priority: int,
        *,
        is_object: bool,
    ) -> bytes:
        started = asyncio.get_running_loop().time()
        is_write = request.method != "GET"
        scope = f"{'writes' if is_write else 'reads'} of {collection_of(request.path)}"
        failures = 0
        while True:
            try:
                async with self.limiter.acquire_slot(priority=priority, scope=scope, is_write=is_write):
                    answer = await self.transport.request(request)
                    if answer.status < 300:
                        if is_object:
                            check_object(answer.body, what=f"{request.method} {request.path}")
                        return answer.body
                    raise parse_error(answer.status, answer.body, answer.headers)
            except KubeError as err:
                failures += 1
                if failures > repetitions or not is_repeatable(err) or self._retry.is_too_long(err):
                    raise
                wait_s = self._retry.wait_s(err, failures, self._rng)
                waited_s = asyncio.get_running_loop().time() - started
                if waited_s + wait_s > self._retry.total_s:
                    raise
            await asyncio.sleep(wait_s)


class _ListRequest(msgspec.Struct, frozen=True):
    """Common parameters of all pages of one list."""

    path: str
    selectors: Mapping[str, str]
    resource_version: str
    timeout_s: float
    priority: int
    metadata_only: bool


class _ExpiredPageError(Exception):
    """A continue token was too old."""

    def __init__(self, gone: GoneError) -> None:
        super().__init__(str(gone))
        self.gone = gone


@asynccontextmanager
async def _start_early(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run `work` while the block runs. The work is cancelled if the block ends without its result."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # an error that the block did not see is not logged


def _to_query(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def _to_delete_options(uid: str, options: DeleteOptions) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid} if uid else {}
    if version := options.get("resource_version"):
        preconditions["resourceVersion"] = version
    if preconditions:
        body["preconditions"] = preconditions
    grace_period_s = options.get("grace_period_s")
    if grace_period_s is not None:
        body["gracePeriodSeconds"] = grace_period_s
    if propagation := options.get("propagation"):
        body["propagationPolicy"] = propagation
    if options.get("dry_run"):
        body["dryRun"] = ["All"]
    return body


async def _decode_events(path: str, lines: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent, None]:
    async for line in lines:
        try:
            event = _decode_event(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            # The connection broke within a line, or the response is not from an API server.
            raise MalformedAnswerError(
                f"watch {path}: a line of the response is not a watch event: {err}"
            ) from err
        if event.type == "ERROR":
            raise _parse_error_event(event)
        yield event


def _parse_error_event(event: WatchEvent) -> ApiError:
    body = bytes(event.object)
    try:
        code = _decode_status(body).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = 0
    return parse_error(code or 500, body)
