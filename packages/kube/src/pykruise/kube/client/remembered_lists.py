"""A client for a command that reads many objects at one moment: it reads each list once.

Client ──▶ RememberedLists ──list() of a whole namespace or cluster──▶ the first result, for all later callers
                           ──remember(key, read)──▶ the first result of `read` for this key

All other requests are sent as the given client sends them. Lists with selectors are needed for one object only, and
are not remembered.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

from pykruise.kube.client.client import Client, ListResult
from pykruise.kube.resources import Resource

__all__ = ["RememberedLists"]

T = TypeVar("T")

MOST_REMEMBERED: Final = 128
"""Maximum number of results that are kept: the most recently used ones. The objects of a namespace need about 30."""


class RememberedLists(Client):
    """A client whose lists show the moment of their first read. Create one for each run of a command."""

    def __init__(self, client: Client) -> None:
        super().__init__(
            client.transport,
            clock=client.clock,
            user_agent=client._user_agent,
            limiter=client.limiter,
            rng=client._rng,
            retry=client._retry,
        )
        self._results: OrderedDict[Hashable, asyncio.Future[Any]] = OrderedDict()

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

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        **options: Any,
    ) -> ListResult:
        """List the objects. Later callers get the result of the first call; lists with a selector are always read."""

        def read() -> Awaitable[ListResult]:
            return super(RememberedLists, self).list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                metadata_only=metadata_only,
                **options,
            )

        if label_selector or field_selector or options:
            return await read()
        return await self.remember((resource, namespace, metadata_only), read)
