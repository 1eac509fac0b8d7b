"""Discovery: the resource of a kind, as API servers report it."""

from typing import Any

import orjson

from pykruise.kube.client.discovery import Discovery
from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.kube.resources import Resource


class Answers:
    """A client that answers these paths."""

    def __init__(self, **paths: Any) -> None:
        self._paths = {path.replace("_", "/"): answer for path, answer in paths.items()}
        self.asked: list[str] = []

    async def get_path(self, path: str) -> bytes:
        self.asked.append(path)
        if path.lstrip("/") not in self._paths:
            raise NotFoundError(ErrorStatus(code=404, reason="NotFound", message=path))
        return orjson.dumps(self._paths[path.lstrip("/")])


TRAININGS = {
    "resources": [
        {"name": "trainings/status", "kind": "Training", "namespaced": True},
        {"name": "trainings", "kind": "Training", "namespaced": True},
    ]
}


def over(client: Any) -> Discovery:
    return Discovery(lambda: client)


async def test_a_kind_is_looked_up_in_its_version_and_remembered() -> None:
    client = Answers(**{"apis_example.org_v1": TRAININGS})
    discovery = over(client)
    for _ in range(2):
        resource = await discovery.find_resource("example.org", "Training", version="v1")
        assert resource == Resource("example.org", "v1", "trainings", "Training")
    assert client.asked == ["/apis/example.org/v1"]


async def test_the_preferred_version_counts_without_a_version() -> None:
    group = {"preferredVersion": {"version": "v2"}}
    discovery = over(Answers(**{"apis_example.org": group, "apis_example.org_v2": TRAININGS}))
    resource = await discovery.find_resource("example.org", "Training")
    assert resource is not None
    assert resource.version == "v2"


async def test_the_core_group_has_its_own_place() -> None:
    nodes = {"resources": [{"name": "nodes", "kind": "Node", "namespaced": False}]}
    resource = await over(Answers(api_v1=nodes)).find_resource("", "Node")
    assert resource == Resource("", "v1", "nodes", "Node", namespaced=False)


async def test_a_kind_that_is_not_served_is_looked_up_again() -> None:
    client = Answers()
    discovery = over(client)
    for _ in range(2):
        assert await discovery.find_resource("example.org", "Training", version="v1") is None
    assert len(client.asked) == 2
