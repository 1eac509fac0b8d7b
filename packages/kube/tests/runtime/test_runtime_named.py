"""Objects that another object names: read from the cache, or from the API server."""

import asyncio
import random
from typing import Any

import pytest

from pykruise.kube.documents import encode
from pykruise.kube.errors import ErrorStatus, ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, Resource
from pykruise.plans.views import POD_VIEWS
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.named_objects import Named, look_up
from pykruise.runtime.read import Memories, Read


def stored(name: str, *, uid: str = "") -> bytes:
    metadata = {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}", "resourceVersion": "5"}
    return encode({"metadata": metadata, "spec": {"containers": []}})


class Server:
    """An API server with these pods; it records the names that are read."""

    def __init__(self, **uids: str) -> None:
        self._uids = uids
        self.asked: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        assert (resource, namespace) == (PODS, "shop")
        self.asked.append(name)
        if name not in self._uids:
            raise NotFoundError(ErrorStatus(code=404))
        return stored(name, uid=self._uids[name])


def looked_up(
    *names: str, cache: tuple[str, ...] = (), live: Any, memories: Memories | None = None, before: str = ""
) -> Named[Any]:
    """Look up pods of these names, whose uids follow from their names; `cache`: names in the cache; `before`: the name
    of an earlier pod in the cache."""
    raws = [stored(name) for name in cache] + ([stored(before, uid="earlier")] if before else [])
    pods = Listed(POD_VIEWS, [POD_VIEWS.project(raw) for raw in raws])
    read: Read[None] = Read(
        {POD_VIEWS: pods},
        key=Key("", "n1"),
        uid="u",
        now=lambda: 0.0,
        rng=random.Random(1),
        settings=None,
        live=live,
        memories=memories,
    )
    return asyncio.run(look_up(read, POD_VIEWS, [(Key("shop", name), f"uid-{name}") for name in names]))


def test_names_that_the_cache_has_cost_no_request() -> None:
    server = Server()
    named = looked_up("a", "b", "a", cache=("a", "b", "c"), live=server)
    assert (set(named.views), named.is_behind, server.asked) == ({"uid-a", "uid-b"}, False, [])


def test_names_that_the_cache_never_had_are_read_from_the_api_server() -> None:
    server = Server(new="uid-new", again="another")
    named = looked_up("here", "new", "again", "gone", "new", cache=("here",), live=server)
    assert set(named.views) == {"uid-here", "uid-new"}
    assert named.views["uid-new"].name == "new"
    assert named.is_behind
    assert server.asked == ["new", "again", "gone"]


def test_a_name_of_which_the_cache_has_a_predecessor_is_read_from_the_api_server() -> None:
    server = Server(new="uid-new")
    assert looked_up("new", before="new", live=server).views["uid-new"].uid == "uid-new"
    assert looked_up("gone", before="gone", live=server).views == {}
    assert server.asked == ["new", "gone"]


def test_a_name_that_left_the_cache_counts_as_deleted() -> None:
    memories, server = Memories(), Server(a="uid-a")
    looked_up("a", "b", cache=("a", "b"), live=server, memories=memories)
    for _ in range(2):
        named = looked_up("a", "b", cache=("b",), live=server, memories=memories)
        assert (set(named.views), named.is_behind, server.asked) == ({"uid-b"}, False, [])
    # when the name is no longer looked up, its memory is freed
    looked_up("b", cache=("b",), live=server, memories=memories)
    looked_up("a", cache=(), live=server, memories=memories)
    assert server.asked == ["a"]


def test_a_name_that_only_the_api_server_has_is_read_each_time() -> None:
    memories, server = Memories(), Server(new="uid-new")
    for _ in range(2):
        assert looked_up("new", live=server, memories=memories).is_behind
    assert server.asked == ["new", "new"]


def test_an_api_server_error_does_not_count_as_not_found() -> None:
    class Closed:
        async def get(self, *_: object) -> bytes:
            raise ForbiddenError(ErrorStatus(code=403, message="not you"))

    with pytest.raises(ForbiddenError, match="not you"):
        looked_up("new", live=Closed())
