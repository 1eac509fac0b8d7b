"""List and watch of one resource, until cancelled, despite all errors.

API server ──list──▶ Reflector.run() ──Listing.read(), .finish()──▶ ingest.py
           ──watch─▶                 ──on_event()──▶

Lists are always consistent reads, because `resourceVersion=0` could return a state older than a write of this program.
A list below the known version (`Listing.floor`) is stale and is requested again. If that repeats, the reflector assumes
that the cluster's storage was restored from a backup, and accepts the list.

**Faults.** After a stream's normal end, and after silence, the reflector watches again from the same position. After
410 in any form it lists. After a cut connection, 429, 5xx or 401 it waits, then watches again. The wait grows
exponentially, with jitter, to 30 s; it is as long as Retry-After if that is longer; progress resets the wait. After 404
(the CRD does not exist yet) it tries again and keeps the known objects: an error is never treated as an empty list.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, Never

from pykruise.kube.cache.delivery import SLICE
from pykruise.kube.cache.ingest import Ingest
from pykruise.kube.client.client import PAGE_SIZE, Client, WatchEvent
from pykruise.kube.control.timeout_scope import end_now
from pykruise.kube.errors import (
    ApiError,
    BadRequestError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    RequestTimeoutError,
    SilentStreamError,
)
from pykruise.kube.resources import Resource

__all__ = ["IDLE_TIMEOUT_S", "Reflector"]

_log = logging.getLogger(__name__)

IDLE_TIMEOUT_S: Final = 120.0
"""Seconds of silence after which a watch is opened again. A real API server sends a bookmark about once a minute to
clients that request them, so two bookmarks are missing. API servers do not guarantee bookmarks. But opening the
watch again costs one request and loses nothing, and the server ends every watch after some minutes anyway.
"""

BACKOFF_BASE_S = 0.2
BACKOFF_CAP_S = 30.0
_HEALTHY_S = 5.0  # a watch that was open this long ends a series of failures
_STALE_LISTS = 5  # after this many stale lists in a row, the storage is assumed to be restored from a backup


class _DistrustError(Exception):
    """The order of events was broken, or a list is older than the known state."""


class Reflector:
    """Lists and watches `resource`, and passes the objects to `ingest`. `namespace=""` means all namespaces."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        ingest: Ingest[Any],
        *,
        namespace: str,
        label_selector: str,
        field_selector: str,
        rng: random.Random,
        idle_timeout_s: float,
        metadata_only: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self.is_connected = False
        """Whether a watch is open."""
        self.lists = 0
        self.watches = 0
        self.errors = 0
        """Lists and watches that failed."""
        self.last_error = ""
        """Reason why no watch is open; empty while one is open."""
        self.last_code = 0
        """HTTP status with which the server rejected the list or watch; else 0."""
        self._client = client
        self._resource = resource
        self._ingest = ingest
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._rng = rng
        self._idle_timeout_s = idle_timeout_s
        self._metadata_only = metadata_only
        self._page_size = page_size
        self._must_list = True
        self._distrust = ""
        self._end_watch: Callable[[], None] = _do_nothing
        self._is_replaced = False  # the watch was ended on purpose, to be opened again: not a failure
        self._wanted_lists: list[asyncio.Future[None]] = []
        self._stale_lists = 0
        self._is_running = False
        self._has_progressed = False
        self._open_s = 0.0
        self._failures = 0
        self._logged_error = ""
        self._was_gone = False

    async def run(self) -> Never:
        """List and watch until cancelled. Raises RuntimeError when it is running already."""
        if self._is_running:
            raise RuntimeError(f"the cache of {self._resource} is running already")
        self._is_running = True
        try:
            while True:
                wait_s = await self._list_and_watch()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
        finally:
            self._is_running = False

    def relist(self, *, because: str) -> None:
        """End the watch, whose events can no longer be trusted, and list again."""
        self._distrust = because
        self._end_watch()
        self._end_watch = _do_nothing

    def watch_anew(self) -> None:
        """Open the watch again from the current position. Does nothing while no watch is open."""
        if self.is_connected:
            self._is_replaced = self._has_progressed = True
            self._end_watch()

    async def list_anew(self) -> None:
        """Return when a list that was requested after this call has been applied. Failed lists are repeated."""
        wanted = asyncio.get_running_loop().create_future()
        self._wanted_lists.append(wanted)
        self.watch_anew()
        await wanted

    async def _list_and_watch(self) -> float:
        """List if necessary, then watch until the watch ends; returns the seconds to wait before the next try."""
        self._has_progressed = False
        self._open_s = 0.0
        try:
            if self._must_list or self._distrust or self._wanted_lists:
                await self._list_all()
            await self._watch_until_end()
        except SilentStreamError as error:
            _log.debug(
                "%s: %s; the watch continues from resourceVersion %d",
                self._resource,
                error,
                self._ingest.position,
            )
            self._has_progressed = True  # a quiet resource does not mean a failing server
        except (KubeError, _DistrustError) as error:
            return self._note_failure(error)
        except Exception as error:  # the cache must keep running, whatever error a bug raises here
            _log.exception("%s: list and watch failed", self._resource)
            return self._note_failure(error)
        if self._has_progressed or self._open_s >= _HEALTHY_S:
            self._failures = 0
            return 0.0
        # Without a wait, a server that ends every watch immediately would get requests without a pause.
        self._failures += 1
        return self._compute_backoff_s()

    # ── list ─────────────────────────────────────────────────────────────────

    async def _list_all(self) -> None:
        listing = self._ingest.begin_list()
        wanted = tuple(self._wanted_lists)
        text = await self._client.read_list(
            self._resource,
            self._namespace,
            listing.read,
            listing.restart,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=self._page_size,
            metadata_only=self._metadata_only,
        )
        version = int(text)
        self._check_not_stale(version, listing.floor)
        await listing.finish(version)
        self.lists += 1
        self._must_list = False
        self._distrust = ""
        await self._ingest.deliver()
        self._wanted_lists = [item for item in self._wanted_lists if item not in wanted]
        for future in wanted:
            if not future.done():
                future.set_result(None)

    def _check_not_stale(self, version: int, floor: int) -> None:
        if version >= floor:
            self._stale_lists = 0
            return
        self._stale_lists += 1
        if self._stale_lists < _STALE_LISTS:
            raise _DistrustError(f"the list has resourceVersion {version}, lower than the known {floor}")
        _log.warning(
            "%s: lists still have resourceVersion %d, lower than the known %d: the cluster was"
            " probably restored from a backup",
            self._resource,
            version,
            floor,
        )
        self._stale_lists = 0
        self._ingest.reset()

    # ── watch ────────────────────────────────────────────────────────────────

    async def _watch_until_end(self) -> None:
        loop = asyncio.get_running_loop()
        self.watches += 1
        async with AsyncExitStack() as stack:
            watch = self._client.watch(
                self._resource,
                self._namespace,
                resource_version=str(self._ingest.position),
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                idle_timeout_s=self._idle_timeout_s,
                metadata_only=self._metadata_only,
            )
            try:
                async with asyncio.timeout(self._idle_timeout_s):
                    events = await stack.enter_async_context(watch)
            except TimeoutError as err:
                raise RequestTimeoutError(f"no watch was opened within {self._idle_timeout_s:g} s") from err
            if self._wanted_lists:  # a list was requested while the watch was being opened
                self._has_progressed = True
                return
            opened_at = loop.time()
            self.is_connected, self._is_replaced = True, False
            self.last_error = self._logged_error = ""
            self.last_code = 0
            try:
                async with asyncio.timeout(None) as scope:
                    self._end_watch = lambda: end_now(scope)
                    await self._apply_events(events)
            except TimeoutError:
                if self._distrust:  # an event that had waited in the inbox was out of order
                    raise _DistrustError(self._distrust) from None
                if not self._is_replaced:
                    raise
            finally:
                self._end_watch = _do_nothing
                self.is_connected = False
                self._open_s = loop.time() - opened_at
                self._ingest.flush()

    async def _apply_events(self, events: AsyncIterator[WatchEvent]) -> None:
        count = 0
        async for event in events:
            self._has_progressed = True
            self._ingest.on_event(event)
            if self._distrust:
                raise _DistrustError(self._distrust)
            # Iterating over lines that have already arrived never awaits.
            count += 1
            if count % SLICE == 0:
                await asyncio.sleep(0)

    # ── failures ─────────────────────────────────────────────────────────────

    def _note_failure(self, error: Exception) -> float:
        self.errors += 1
        self.last_error = f"{type(error).__name__.lstrip('_')}: {error}"
        self.last_code = error.code if isinstance(error, ApiError) else 0
        needs_list = _needs_list(error)
        # Lists are expensive: before another list, progress resets the wait only if the watch was open long enough.
        if self._open_s >= _HEALTHY_S or (self._has_progressed and not needs_list):
            self._failures = 0
        # A server that returns after an outage has a new history and responds with 410. It works again, so the backoff
        # starts with the shortest wait. If the list does not help, a second 410 in a row causes a longer wait as usual.
        is_gone = isinstance(error, GoneError)
        if is_gone and not self._was_gone:
            self._failures = 0
        self._was_gone = is_gone
        self._failures += 1
        self._must_list = self._must_list or needs_list
        wait_s = self._compute_backoff_s()
        if isinstance(error, ApiError) and error.retry_after_s:
            wait_s = max(wait_s, error.retry_after_s)
        _log.log(
            self._choose_log_level(),
            "%s: %s; %s starts in %.1f s (failure %d)",
            self._resource,
            self.last_error,
            "a new list" if self._must_list else f"a watch from resourceVersion {self._ingest.position}",
            wait_s,
            self._failures,
        )
        return wait_s

    def _choose_log_level(self) -> int:
        """Return the log level. The first failure may be harmless, the second is a warning, and a repeated error is
        logged at the level debug.
        """
        if self._failures == 1:
            return logging.INFO
        is_logged = self._logged_error == self.last_error
        self._logged_error = self.last_error
        return logging.DEBUG if is_logged else logging.WARNING

    def _compute_backoff_s(self) -> float:
        full = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** min(self._failures - 1, 16))
        return full * self._rng.uniform(0.5, 1.0)


def _do_nothing() -> None:
    """Do nothing: no watch is open."""


def _needs_list(error: Exception) -> bool:
    """Whether a list is needed, because a new watch from the same position would fail again."""
    match error:
        case GoneError() | NotFoundError() | BadRequestError() | InvalidError() | _DistrustError():
            return True
        case ApiError():
            return any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
        case KubeError():
            return False
        case _:
            return True
