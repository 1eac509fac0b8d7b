"""PersistentPodStates and workloads in the caches."""

from typing import Any

import pytest

from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    BUILT_IN,
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    RecordedWorkload,
    StateView,
    make_further_views,
    project_state,
    workload_of,
)
from pykruise.kube.documents import Document, encode
from pykruise.kube.resources import Resource
from pykruise.pods.workload.ordinals import Reserved, reserved_of

TARGET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}


def state(**fields: Any) -> StateView:
    return project_state(encode({"metadata": {"name": "web"}, **fields}))


@pytest.mark.parametrize("nothing", [{}, {"spec": None, "status": None}, {"spec": {}, "status": {}}])
def test_an_empty_object_names_no_workload_and_has_no_records(nothing: Document) -> None:
    result = state(**nothing)
    assert result == StateView(namespace="", name="web", problem=result.problem)
    assert result.problem == "spec: Object missing required field `targetRef`"
    assert (result.target, result.required_keys, result.node_keys, result.annotation_keys) == (
        *(None, ()),
        *(frozenset(), frozenset()),
    )


def test_the_view_keeps_the_stored_spec_and_status_beside_the_parsed_ones() -> None:
    spec = {"targetRef": TARGET, "requiredPersistentTopology": None}
    status = {"observedGeneration": 1, "podStates": {"web-0": {"nodeName": "n0"}}}
    result = state(spec=spec, status=status)
    assert (result.stored_spec, result.stored_status) == (spec, status)
    assert result.records["web-0"].node_name == "n0"


@pytest.mark.parametrize(
    ("reference", "keys"),
    [
        (TARGET, (("", BUILT_IN, "web"),)),
        ({**TARGET, "apiVersion": "apps.kruise.io/v1alpha1"}, (("", ADVANCED, "web"),)),
        ({**TARGET, "name": ""}, ()),
        ({**TARGET, "apiVersion": "a/b/c"}, ()),
        (3, ()),
    ],
)
def test_a_state_is_indexed_by_its_workload_in_any_version(reference: Any, keys: Any) -> None:
    assert tuple(STATE_VIEWS.indexes["target"](state(spec={"targetRef": reference}))) == keys


NOTHING = RecordedWorkload(namespace="", name="web", uid="", resource_version=0)


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({}, {}),
        ({"annotations": None}, {"spec": None}),
        ({"annotations": {}}, {"spec": {"replicas": None, "ordinals": None, "reserveOrdinals": None}}),
        ({}, {"spec": {"replicas": "3", "ordinals": [5], "reserveOrdinals": {"a": 1}}}),
        ({}, {"spec": {"replicas": True, "ordinals": {"start": "5"}, "reserveOrdinals": [None, 1.5, {}]}}),
    ],
    ids=["nothing", "null", "nulls inside", "other types", "other types inside"],
)
def test_an_empty_workload_of_any_kind_has_no_pods_and_requests_nothing(
    metadata: Document, fields: Document
) -> None:
    assert workload_of({"metadata": {"name": "web", **metadata}, **fields}) == NOTHING


def test_reserved_ordinals_and_ranges_are_read_beside_nulls() -> None:
    workload = workload_of({"metadata": {"name": "web"}, "spec": {"reserveOrdinals": [3, None, "5-7"]}})
    assert workload.reserved == reserved_of([3, "5-7"]) != Reserved()


def test_views_of_workloads_are_cached_separately_from_other_views() -> None:
    listed = make_further_views(Resource("game.kruise.io", "v1", "gamesets", "GameSet"))
    assert [views.is_apart for views in (*WORKLOAD_VIEWS.values(), listed)] == [True] * 3
