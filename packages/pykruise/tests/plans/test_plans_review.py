"""Reads of the cluster by reviews."""

import json
import random
from typing import Any

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.control.offload import OnLoop
from pykruise.kube.errors import ForbiddenError
from pykruise.plans.review import Lookups, make_live_lookups, run_beside_the_loop
from support.scripted import ScriptedTransport, answer, refusal

SECRET = {"kind": "Secret", "metadata": {"name": "s", "namespace": "elsewhere"}, "data": {"a": "Yg=="}}


def lookups(transport: ScriptedTransport, **more: Any) -> Lookups:
    return make_live_lookups(lambda: Client(transport, rng=random.Random(1)), namespace="kruise", **more)


POD = {"kind": "Pod", "metadata": {"name": "web-0"}}
NODE = {"kind": "Node", "metadata": {"name": "n1"}}


async def test_pods_and_nodes_are_read_each_time() -> None:
    # given
    transport = ScriptedTransport(answer(200, POD), answer(200, NODE))
    result = lookups(transport)
    assert result.pods is not None
    assert result.nodes is not None
    # when, then
    assert await result.pods("shop", "web-0") == POD
    assert await result.nodes("n1") == NODE
    assert [asked.path for asked in transport.asked] == [
        "/api/v1/namespaces/shop/pods/web-0",
        "/api/v1/nodes/n1",
    ]


async def test_a_missing_object_is_none() -> None:
    result = lookups(ScriptedTransport(refusal(404, "NotFound"), repeat_last=True))
    assert result.pods is not None
    assert await result.pods("shop", "web-0") is None


async def test_storage_classes_are_all_listed() -> None:
    items = [{"metadata": {"name": "slow"}}, {"metadata": {"name": "fast"}}]
    result = lookups(ScriptedTransport(answer(200, {"metadata": {"resourceVersion": "1"}, "items": items})))
    assert result.classes is not None
    assert list(await result.classes()) == items


@pytest.mark.parametrize("metadata", [SECRET["metadata"], None])
async def test_a_trial_is_a_dry_run_in_the_manager_s_own_namespace(metadata: Any) -> None:
    # given
    transport = ScriptedTransport(answer(201, {"metadata": {"name": "a"}}))
    result = lookups(transport)
    assert result.trial is not None
    # when
    await result.trial({**SECRET, "metadata": metadata})
    # then
    (asked,) = transport.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/kruise/secrets")
    assert dict(asked.query)["dryRun"] == "All"
    assert json.loads(asked.body or b"") == {
        **SECRET,
        "metadata": {**(metadata or {}), "namespace": "kruise"},
    }


async def test_a_dry_run_passes_for_an_existing_name_and_fails_with_the_api_servers_error() -> None:
    result = lookups(ScriptedTransport(refusal(409, "AlreadyExists"), refusal(403, "Forbidden", "no")))
    assert result.trial is not None
    await result.trial(SECRET)
    with pytest.raises(ForbiddenError, match="no"):
        await result.trial(SECRET)


def test_readers_are_those_of_the_manager() -> None:
    transport = ScriptedTransport()
    assert lookups(transport).readers == {}
    assert lookups(transport, readers={"budget": 1}).readers == {"budget": 1}


async def test_lookups_beside_the_loop_are_executed_on_the_loop() -> None:
    # given
    transport = ScriptedTransport(answer(200, POD), repeat_last=True)
    whole = lookups(transport, readers={"budget": lookups(transport)}, clock=lambda: 7.0)
    # when
    beside = run_beside_the_loop(whole)
    assert beside.pods is not None
    assert beside.nodes is not None
    assert beside.classes is not None
    assert beside.trial is not None
    asked: list[Any] = [
        beside.pods("shop", "web-0"),
        beside.nodes("n1"),
        beside.classes(),
        beside.trial(SECRET),
        beside.readers["budget"].pods("shop", "web-0"),
    ]
    # then nothing was read yet
    assert all(isinstance(item, OnLoop) for item in asked)
    assert transport.asked == []
    assert await asked[0].work() == POD
    assert beside.clock() == 7.0


def test_empty_lookups_are_empty_beside_the_loop_too() -> None:
    nothing = run_beside_the_loop(Lookups())
    assert (nothing.pods, nothing.nodes, nothing.classes, nothing.trial) == (None, None, None, None)
