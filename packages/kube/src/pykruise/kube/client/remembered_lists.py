"""A client for a command that reads many objects at one moment: it reads each list once.

Client ──▶ RememberedLists ──list() of a whole namespace or cluster──▶ the first result, for all later callers
                           ──remember(key, read)──▶ the first result of `read` for this key

All other requests are sent as the given client sends them. Lists with selectors are needed for one object only, and
are not remembered.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Final, TypeVar

from pykruise.kube.client.client import Client, ListResult
from pykruise.kube.client.transport import Transport
from pykruise.kube.resources import Resource

__all__ = ["RememberedLists"]

T = TypeVar("T")

MOST_REMEMBERED: Final = 128
"""Maximum number of results that are kept: the most recently used ones. The objects of a namespace need about 30."""


class RememberedLists(Client):
    """A client whose lists show the moment of their first read. Create one for each run of a command."""

    def __init__(self, transport: Transport, **options: Any) -> None:
        super().__init__(transport, **options)
        self._results: OrderedDict[Hashable, asyncio.Future[Any]] = OrderedDict()

    @classmethod
    def of(cls, client: Client) -> "RememberedLists":
        """Return a client with the transport, limits, retries and user agent of the given one."""
        return client.copy_as(cls, client.transport, client.limiter)

    async def remember(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return the result for the key; the first caller reads it. If the read fails, its error is raised, and the
        next caller reads again.
        """
        result: asyncio.Future[T] | None = self._results.get(key)
        if result is None:
            result = self._results[key] = asyncio.ensure_future(read())
            if len(self._results) > MOST_REMEMBERED:
                self._results.popitem(last=False)
        self._results.move_to_end(key)
        try:
            return await asyncio.shield(result)
        except Exception:
            if self._results.get(key) is result:
                del self._results[key]
            raise

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ListResult:
        """List the objects. Later callers get the result of the first call; lists with a selector are always read."""
        read = partial(super().list, resource, namespace, **options)
        if options.get("label_selector") or options.get("field_selector"):
            return await read()
        given = sorted((name, value) for name, value in options.items() if value)
        return await self.remember((resource, namespace, *given), read)
