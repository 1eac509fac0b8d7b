"""Objects that commands list once: forbidden lists, and resources that are not served."""

from typing import Any

import msgspec
import pytest

from pykruise.kube.errors import ErrorStatus, ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, Resource
from pykruise.plans.views import CLAIM_VIEWS, NODE_VIEWS, POD_VIEWS, PULL_JOB_VIEWS
from pykruise.runtime.listed_objects import Listed, list_once
from pykruise.runtime.views import BY_CONTROLLER, Views
from support.cloneset_builder import NAMESPACE, UID, cloneset


class Page(msgspec.Struct):
    items: list[bytes]


class Reader:
    """A client that may list pods, but not PVCs and nodes; ImagePullJobs are not served."""

    async def list(self, resource: Resource, namespace: str = "", **_: Any) -> Page:
        if resource == PODS:
            return Page([msgspec.json.encode(pod) for pod in cloneset(2).pods.values()])
        if resource in (PERSISTENT_VOLUME_CLAIMS, NODES):
            raise ForbiddenError(ErrorStatus(code=403, message=f"{resource} is forbidden"))
        raise NotFoundError(ErrorStatus(code=404, message="not served"))


async def listed() -> dict[Views[Any], Listed[Any]]:
    client: Any = Reader()
    views = (POD_VIEWS, CLAIM_VIEWS, NODE_VIEWS, PULL_JOB_VIEWS)
    return await list_once(client, views, namespace=NAMESPACE)


async def test_listed_objects_are_found_by_name_by_index_and_as_documents() -> None:
    pods = (await listed())[POD_VIEWS]
    names = {pod.name for pod in pods.values()}
    assert names == {pod.name for pod in pods.list_owned(UID)} == {"web-a", "web-b"}
    assert {doc["metadata"]["name"] for doc in pods.list_owned_documents(UID)} == names
    result = pods.get(Key(NAMESPACE, "web-a"))
    assert result is not None
    assert result.uid == "uid-a"


async def test_a_forbidden_list_fails_only_where_it_is_read() -> None:
    """The owner of a namespace may explain a workload that does not use the forbidden objects."""
    claims = (await listed())[CLAIM_VIEWS]
    for look in (
        claims.values,
        claims.list_documents,
        lambda: claims.get(Key(NAMESPACE, "data")),
        lambda: claims.list_by_index(BY_CONTROLLER, UID),
    ):
        with pytest.raises(ForbiddenError, match="is forbidden"):
            look()


async def test_nodes_that_may_not_be_read_and_what_is_not_served_are_empty() -> None:
    result = await listed()
    for views in (NODE_VIEWS, PULL_JOB_VIEWS):
        assert not result[views].synced
        assert not await result[views].wait_served()
        assert result[views].values() == ()
