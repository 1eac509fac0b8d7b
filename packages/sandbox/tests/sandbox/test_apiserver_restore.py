"""Objects that are restored as another API server stored them."""

import random

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import decode
from pykruise.kube.resources import PODS, Resource
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.local import LocalTransport
from support.api import START

POD = {
    "metadata": {
        "name": "web-a",
        "namespace": "default",
        "uid": "kept",
        "resourceVersion": "4711",
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "another"}],
    },
    "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "app:1"}]},
    "status": {"phase": "Running"},
}


async def test_a_restored_object_keeps_uid_times_and_status_and_gets_a_new_resource_version() -> None:
    # given
    server = ApiServer(clock=make_loop_clock(start=START), rng=random.Random(1))
    # when
    server.restore(PODS, [POD])
    # then
    stored = decode(await Client(LocalTransport(server)).get(PODS, "default", "web-a"))
    for field in ("uid", "creationTimestamp", "deletionTimestamp"):
        assert stored["metadata"][field] == POD["metadata"][field]  # type: ignore[index]
    assert stored["metadata"]["resourceVersion"] != "4711"
    assert "managedFields" not in stored["metadata"]
    assert (stored["kind"], stored["status"]) == ("Pod", {"phase": "Running"})
    # and the given document is not changed
    assert POD["metadata"]["resourceVersion"] == "4711"  # type: ignore[index]


async def test_an_unserved_resource_cannot_be_restored() -> None:
    server = ApiServer(clock=make_loop_clock(start=START), rng=random.Random(1))
    with pytest.raises(KeyError):
        server.restore(Resource(group="x.io", version="v1", plural="things", kind="Thing"), [POD])
