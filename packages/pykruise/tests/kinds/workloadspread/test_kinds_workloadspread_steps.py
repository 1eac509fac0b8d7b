"""The two steps of pod admission: the pods that they get, and the requests that they handle."""

from typing import Any

import pytest

from pykruise.kinds.workloadspread.pod_steps import SpreadInjection, SpreadRelease
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.kube.values.cel import NEVER, LabelSelection
from pykruise.kube.values.selectors import EVERYTHING
from support.reviews import request
from support.spreads import SpreadServer, placed_in, pod, spread, subset

KIND = WORKLOAD_SPREADS.kind


async def placed() -> tuple[SpreadServer, Document]:
    """A server with two slots, one of which a stored pod has."""
    server = SpreadServer(spread(subset("a", 2)))
    result = await server.replica().create(pod("p1"))
    assert result is not None
    server.pods["p1"] = result
    assert server.missing() == {"a": 1}
    return server, result


async def test_an_evicted_pod_returns_its_slot_unless_it_is_a_dry_run() -> None:
    server, _ = await placed()
    await server.replica().evict("p1", dry_run=True)
    assert server.missing() == {"a": 1}
    await server.replica().evict("p1")
    assert server.missing() == {"a": 2}
    # and the API server answers 404 for a missing pod
    await server.replica().evict("p2")
    assert server.missing() == {"a": 2}


@pytest.mark.parametrize(
    "asked",
    [
        {"operation": "UPDATE"},
        {"operation": "CREATE"},
        {"operation": "CREATE", "subresource": "binding"},
        {"operation": "DELETE", "subresource": "eviction"},
    ],
)
async def test_requests_that_delete_no_pod_change_nothing(asked: Any) -> None:
    server, document = await placed()
    step = SpreadRelease(server.replica().spreading)
    assert await step.judge(request(PODS, document, old=document, **asked)) is None
    assert server.missing() == {"a": 1}


async def test_a_deletion_without_the_pod_changes_nothing() -> None:
    """API servers before 1.15 do not send the old object."""
    server, _ = await placed()
    step = SpreadRelease(server.replica().spreading)
    assert await step.judge(request(PODS, operation="DELETE", name="p1")) is None
    assert server.missing() == {"a": 1}


async def test_slots_belong_to_the_namespace_of_the_request() -> None:
    # given a pod without a namespace, as before an API server has filled it in, or with another namespace
    for namespace in (None, "market"):
        server = SpreadServer(spread(subset("a", 2)))
        document = pod("p1")
        document["metadata"]["namespace"] = namespace
        # then
        result = await server.replica().create(document)
        assert placed_in(result) == "a"
        assert result is not None
        await server.replica().delete(result, namespace="shop")
        assert server.missing() == {"a": 2}


def test_new_pods_are_reviewed_for_workload_spreads_and_annotated_ones_on_deletion() -> None:
    injection, release = SpreadInjection(None), SpreadRelease(None)
    everything = {KIND: [LabelSelection(selector=EVERYTHING)]}
    assert injection.build_match_condition({}) == injection.build_match_condition(everything)
    assert "o.controller == true" in injection.build_match_condition({})
    assert injection.build_match_condition({KIND: []}) == NEVER
    # when no WorkloadSpreads are left, slots of pods are still released
    gone = release.build_match_condition({KIND: []})
    assert '"apps.kruise.io/matched-workloadspread" in oldObject.metadata.annotations' in gone
    assert release.build_match_condition({}) == release.build_match_condition(everything) != gone
    assert gone in release.build_match_condition({})
