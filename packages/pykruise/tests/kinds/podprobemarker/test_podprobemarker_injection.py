"""Annotations of new pods for virtual nodes."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.admission.selector_index import list_selecting_kinds
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds.gates import parse
from pykruise.kinds.podprobemarker.injection import MARKERS_ANNOTATION, PROBES_ANNOTATION, inject
from pykruise.kinds.podprobemarker.kind import KIND
from pykruise.kinds.podprobemarker.pod_steps import ProbeInjection
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.errors import ErrorStatus, InternalError
from pykruise.kube.resources import PODS
from pykruise.plans.pod_steps import StepError
from pykruise.pods.probes.views import POD_PROBE_MARKERS, MarkerView
from support.pod_chains import chain_of, step_context
from support.probe_objects import EXEC, marker, probe

POD: dict[str, Any] = {
    "metadata": {"name": "web-0", "labels": {"app": "web"}, "annotations": {"kept": "yes"}},
    "spec": {
        "initContainers": [{"name": "once"}, {"name": "beside", "restartPolicy": "Always"}],
        "containers": [{"name": "main"}],
    },
}


def annotations(pod: Any) -> dict[str, str]:
    annotations: dict[str, str] = pod["metadata"]["annotations"]
    return annotations


def test_a_pod_gets_the_probes_of_all_that_select_it_without_policies() -> None:
    """containers case 58"""
    policies = [{"state": "Failed", "labels": {"a": "b"}}]
    markers = [
        marker("b", probe("more", podConditionType="b", containerName="beside")),
        marker("a", probe(podConditionType="a", markerPolicy=policies)),
        marker("c", selector={"matchLabels": {"app": "other"}}),
    ]
    probes = annotations(inject(POD, markers))
    assert probes["kept"] == "yes"
    assert (inject(POD, markers) or {})["metadata"]["name"] == "web-0"
    assert probes[MARKERS_ANNOTATION] == "a,b"
    assert json.loads(probes[PROBES_ANNOTATION]) == [
        {"name": "idle", "containerName": "main", "probe": EXEC, "podConditionType": "a"},
        {"name": "more", "containerName": "beside", "probe": EXEC, "podConditionType": "b"},
    ]
    assert annotations(POD) == {"kept": "yes"}


@pytest.mark.parametrize(
    "left_out",
    [
        probe(markerPolicy=[{"state": "Failed", "labels": {"a": "b"}}]),
        probe(containerName="unknown"),
        probe(containerName="once"),
    ],
    ids=["no condition", "unknown container", "init container"],
)
def test_a_pod_without_an_applicable_probe_is_not_changed(left_out: Any) -> None:
    """containers case 58"""
    assert inject(POD, [marker("a", left_out)]) is None


def test_the_first_of_two_probes_with_one_condition_or_name_is_injected() -> None:
    """admission case 31"""
    markers = [
        marker("a"),
        marker("b"),
        marker("c", probe(podConditionType="other")),
        marker("d", probe("more")),
    ]
    changed = annotations(inject(POD, markers))
    assert [load["name"] for load in json.loads(changed[PROBES_ANNOTATION])] == ["idle"]
    assert changed[MARKERS_ANNOTATION] == "a"


def test_a_pod_that_names_markers_gets_only_their_probes_in_its_order() -> None:
    # given markers that the pod names and its labels do not select, and one that only its labels select
    elsewhere = {"matchLabels": {"app": "other"}}
    markers = [
        marker("a", probe(podConditionType="a")),
        marker("b", probe(podConditionType="b"), selector=elsewhere),
        marker("c", probe("more", podConditionType="c", containerName="beside"), selector=elsewhere),
        marker("d", probe(podConditionType="d"), selector=elsewhere),
    ]
    named = {**POD, "metadata": {**POD["metadata"], "annotations": {MARKERS_ANNOTATION: "d,gone,c,b"}}}
    # when
    changed = annotations(inject(named, markers))
    # then the probe of `b` has the name of the probe of `d`
    types = [load["podConditionType"] for load in json.loads(changed[PROBES_ANNOTATION])]
    assert (types, changed[MARKERS_ANNOTATION]) == (["d", "c"], "c,d")


def test_pods_that_name_markers_are_reviewed_too() -> None:
    condition = injection(None).build_match_condition({POD_PROBE_MARKERS.kind: []})
    assert f'"{MARKERS_ANNOTATION}" in object.metadata.annotations' in condition


def test_a_terminating_marker_is_not_injected() -> None:
    going = marker("a", metadata={"deletionTimestamp": "2026-03-01T11:00:00Z"})
    assert inject(POD, [going]) is None


def test_a_pod_without_metadata_has_no_labels() -> None:
    """admission pitfall 7"""
    unlabelled = marker("a", selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})
    for metadata in ({}, {"metadata": None}):
        labels = inject(
            {"spec": {"initContainers": None, "containers": [{"name": "main"}]}, **metadata}, [unlabelled]
        )
        assert annotations(labels)[MARKERS_ANNOTATION] == "a"


@pytest.mark.parametrize("spec", [None, {}, {"initContainers": None, "containers": None}])
def test_a_pod_without_containers_has_nothing_to_check(spec: Any) -> None:
    assert inject({**POD, "spec": spec}, [marker()]) is None


class Markers:
    """A reader of these markers, or one that fails."""

    def __init__(self, *markers: MarkerView, is_down: bool = False) -> None:
        self._found = markers
        self._is_down = is_down

    async def list_in_namespace(self, namespace: str) -> Sequence[MarkerView]:
        if self._is_down:
            raise InternalError(ErrorStatus(code=500, reason="InternalError"))
        return [marker for marker in self._found if marker.namespace == namespace]


def injection(markers: Markers | None) -> ProbeInjection:
    return ProbeInjection(step_context(KIND, markers))


def created(step: ProbeInjection, namespace: str, pod: dict[str, Any] = POD) -> Any:
    request = AdmissionRequest(
        uid="u", operation="CREATE", resource=PODS, namespace=namespace, name="web-0", object=pod
    )
    return asyncio.run(step.change(pod, request))


def test_only_markers_of_the_pods_namespace_count() -> None:
    step = injection(Markers(marker()))
    assert created(step, "shop") is not None
    assert created(step, "elsewhere") is None
    # the namespace in the pod precedes that of the request
    said = {**POD, "metadata": {**POD["metadata"], "namespace": "shop"}}
    assert created(step, "elsewhere", said) is not None


def test_pods_without_labels_are_selected_by_no_marker() -> None:
    assert created(injection(Markers(marker())), "shop", {**POD, "metadata": None}) is None


def test_no_pod_gets_anything_without_a_reader() -> None:
    assert created(injection(None), "shop") is None


def test_a_pod_is_refused_when_its_markers_cannot_be_read() -> None:
    with pytest.raises(StepError):
        created(injection(Markers(is_down=True)), "shop")


@pytest.mark.parametrize("is_on", [True, False])
def test_pods_are_reviewed_for_markers_only_with_the_gate_on(is_on: bool) -> None:
    """containers case 58"""
    gates = parse([f"EnablePodProbeMarkerOnServerless={str(is_on).lower()}"])
    settings = make_admission_settings(gates)
    assert any(step.name == "podprobemarker" for step in chain_of(gates).changing) is is_on
    assert ("podprobemarker" in {kind.name for kind in list_selecting_kinds(settings)}) is is_on
