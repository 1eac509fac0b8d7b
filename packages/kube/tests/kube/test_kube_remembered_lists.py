"""A client that reads each list once."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.client.remembered_lists import MOST_REMEMBERED, RememberedLists
from pykruise.kube.client.transport import Request, Response
from pykruise.kube.resources import NODES, PODS

EMPTY = b'{"metadata":{"resourceVersion":"7"},"items":[]}'


class Lists:
    """Answers lists, and counts them by path and query. The first `failures` requests fail."""

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[str] = []
        self._failures = failures

    async def request(self, request: Request, /) -> Response:
        await asyncio.sleep(0)
        query = {key: value for key, value in request.query.items() if key != "limit"}
        self.asked.append(f"{request.path} {query}" if query else request.path)
        if len(self.asked) <= self._failures:
            return Response(status=422, headers={}, body=b'{"kind":"Status","code":422,"message":"no"}')
        return Response(status=200, headers={}, body=EMPTY)


def remembering(transport: Any) -> RememberedLists:
    return RememberedLists.of(Client(transport))


async def test_callers_at_the_same_time_and_later_share_one_request() -> None:
    lists = Lists()
    client = remembering(lists)
    await asyncio.gather(*(client.list(PODS, "shop") for _ in range(3)))
    await client.list(PODS, "shop")
    assert lists.asked == ["/api/v1/namespaces/shop/pods"]


async def test_other_namespaces_resources_and_selectors_are_other_lists() -> None:
    lists = Lists()
    client = remembering(lists)
    for _ in range(2):
        await client.list(PODS, "shop")
        await client.list(PODS, "team")
        await client.list(NODES)
        await client.list(PODS, "shop", label_selector="app=web")
    assert lists.asked.count("/api/v1/namespaces/shop/pods") == 1
    assert lists.asked.count("/api/v1/namespaces/team/pods") == 1
    assert lists.asked.count("/api/v1/nodes") == 1
    assert len(lists.asked) == 3 + 2  # lists with a selector are not remembered


async def test_a_failed_list_is_read_again() -> None:
    lists = Lists(failures=1)
    client = remembering(lists)
    with pytest.raises(Exception, match="no"):
        await client.list(PODS, "shop")
    assert (await client.list(PODS, "shop")).resource_version == "7"


async def test_the_lists_of_the_last_callers_are_kept() -> None:
    lists = Lists()
    client = remembering(lists)
    for number in range(MOST_REMEMBERED + 1):
        await client.list(PODS, "first")
        await client.list(PODS, f"team-{number}")
    assert lists.asked.count("/api/v1/namespaces/first/pods") == 1
    await client.list(PODS, "team-0")
    assert lists.asked.count("/api/v1/namespaces/team-0/pods") == 2


async def test_a_caller_that_is_cancelled_does_not_end_the_request_of_another() -> None:
    client = remembering(Lists())
    first = asyncio.ensure_future(client.list(PODS, "shop"))
    second = asyncio.ensure_future(client.list(PODS, "shop"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).items == []
