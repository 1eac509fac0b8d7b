"""PodProbeMarkers and NodePodProbes as decisions use them, and results of probes on a pod."""

from typing import Any

import orjson
import pytest

from pykruise.kube.ids import Key
from pykruise.kube.schemas.types import Probe
from pykruise.pods.probes.api import ContainerProbe, MarkerPolicy, ProbeState
from pykruise.pods.probes.marks import (
    MarkConflict,
    MarkOutcome,
    Marks,
    build_metadata_patch,
    compute_conditions_after,
    marks_of,
)
from pykruise.pods.probes.views import (
    RESERVED_TYPES,
    MarkerView,
    NodeProbesView,
    list_marker_keys,
    make_marker_projector,
    name_of_probe,
    project_node_probes,
    split_name,
)
from pykruise.pods.view.pod_view import ConditionView, PodView

TIME = "2026-01-31T12:00:00Z"


def marker(selector: Any) -> MarkerView:
    spec = {"selector": selector, "probes": []}
    metadata = {"name": "m", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    return make_marker_projector()(orjson.dumps({"metadata": metadata, "spec": spec}))


def node_probes(spec: Any = None, status: Any = None, **metadata: Any) -> NodeProbesView:
    document = {"metadata": {"name": "n1", **metadata}, "spec": spec, "status": status}
    return project_node_probes(orjson.dumps(document))


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({}, False),
        ({"matchLabels": {}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Like"}]}, False),
    ],
)
def test_a_marker_selects_its_pods_and_never_all_pods(selector: Any, selects: bool) -> None:
    result = marker(selector)
    assert result.selects({"app": "web"}) is selects
    assert (result.selector is not None) is ("matchLabels" in selector and bool(selector["matchLabels"]))


@pytest.mark.parametrize(
    ("spec", "status"), [(None, None), ({}, {}), ({"podProbes": None}, {"podProbeStatuses": None})]
)
def test_a_node_without_probes_has_no_pods_and_no_statuses(spec: Any, status: Any) -> None:
    result = node_probes(spec, status)
    assert (result.pods, result.statuses, result.problem) == ((), (), "")
    assert (result.uid, result.resource_version, result.generation, result.is_deleting) == ("", 0, 0, False)


@pytest.mark.parametrize(
    ("spec", "status", "problem"),
    [
        ({"podProbes": 5}, None, "spec.podProbes: "),
        (None, {"podProbeStatuses": 5}, "status.podProbeStatuses: "),
    ],
)
def test_an_unreadable_nodepodprobe_reports_its_field(spec: Any, status: Any, problem: str) -> None:
    result = node_probes(spec, status)
    assert result.problem.startswith(problem)
    assert (result.pods, result.statuses) == ((), ())


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("m#p", ("m", "p")),
        ("m#p#q", ("m", "p#q")),
        ("m", ("", "")),
        ("m#", ("m", "")),
        ("#p", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_probe_on_a_node_is_called_by_its_marker_and_its_name(name: str, parts: tuple[str, str]) -> None:
    assert split_name(name) == parts
    assert parts == ("", "") or name_of_probe(*parts) == name


def test_the_markers_of_a_node_are_those_with_entries_or_results() -> None:
    # given pods with probes, and others of which only results are left
    def probes(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "containerName": "c", "probe": {}} for name in names]

    def states(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "state": "Succeeded"} for name in names]

    pod = {"name": "a", "namespace": "shop", "uid": "u", "IP": ""}
    spec = {"podProbes": [{**pod, "probes": probes("m1#p", "m1#q", "nobody")}, {**pod, "probes": None}]}
    status = {
        "podProbeStatuses": [
            {**pod, "namespace": "bank", "probeStates": states("m2#p", "#p")},
            {**pod, "probeStates": None},
        ]
    }
    # then
    assert list_marker_keys(node_probes(spec, status)) == {Key("shop", "m1"), Key("bank", "m2")}


def outcome(
    name: str, state: str = "Succeeded", *, type_: str = "example.com/idle", **times: str
) -> MarkOutcome:
    probe = ContainerProbe(container_name="c", name=name, pod_condition_type=type_, probe=Probe())
    return MarkOutcome(
        marker="m", probe=probe, state=ProbeState(name=name, state=state, message=f"says {name}", **times)
    )


def pod(*conditions: ConditionView) -> PodView:
    return PodView(namespace="shop", name="a", uid="u", resource_version=1, conditions=conditions)


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ({}, {}),
        ({"last_probe_time": TIME}, {"lastProbeTime": TIME}),
        ({"last_transition_time": TIME}, {"lastTransitionTime": TIME}),
    ],
)
def test_a_condition_shows_what_its_probe_found_and_when(
    times: dict[str, str], shown: dict[str, str]
) -> None:
    result, conflicts = compute_conditions_after(pod(), [outcome("p", "Failed", **times)])
    assert result == [{"type": "example.com/idle", "status": "False", "message": "says p", **shown}]
    assert conflicts == []


@pytest.mark.parametrize(
    ("before", "is_written"),
    [
        (ConditionView("example.com/idle", "True", "", "says p"), False),
        (ConditionView("example.com/idle", "False", "", "says p"), True),
        (ConditionView("example.com/idle", "True", "", "said p"), True),
        (ConditionView("example.com/other", "True", "", "says p"), True),
    ],
)
def test_a_condition_is_written_when_its_status_or_message_changed(
    before: ConditionView, is_written: bool
) -> None:
    result, _ = compute_conditions_after(pod(before), [outcome("p")])
    assert [entry["status"] for entry in result] == ["True"] * is_written


@pytest.mark.parametrize("type_", ["", *RESERVED_TYPES])
def test_a_probe_shows_no_condition_that_is_another_s(type_: str) -> None:
    assert compute_conditions_after(pod(), [outcome("p", type_=type_)]) == ([], [])


def test_the_first_of_two_probes_with_one_condition_type_sets_it_and_conflicts_are_named() -> None:
    first, second, third = outcome("p"), outcome("q", "Failed"), outcome("r", type_="example.com/busy")
    result, conflicts = compute_conditions_after(pod(), [first, second, third])
    assert [(entry["type"], entry["message"]) for entry in result] == [
        ("example.com/idle", "says p"),
        ("example.com/busy", "says r"),
    ]
    assert conflicts == [MarkConflict(second, first)]


POLICIES = [
    MarkerPolicy(state="Succeeded", labels={"a": "1"}, annotations=None),
    MarkerPolicy(state="Failed", labels=None, annotations={"b": "2"}),
    MarkerPolicy(state="Failed", labels={"c": "3"}),
]


@pytest.mark.parametrize(
    ("state", "marks"),
    [
        ("Succeeded", Marks({"a": "1", "c": None}, {"b": None})),
        ("Failed", Marks({"a": None, "c": "3"}, {"b": "2"})),
        ("Unknown", Marks({"a": None, "c": None}, {"b": None})),
    ],
)
def test_a_state_sets_its_own_keys_and_removes_those_of_others(state: str, marks: Marks) -> None:
    assert marks_of([(POLICIES, state)]) == marks


def test_a_key_that_one_policy_sets_is_not_removed_by_another() -> None:
    shared = [
        MarkerPolicy(state="Succeeded", labels={"a": "1"}),
        MarkerPolicy(state="Failed", labels={"a": "0"}),
    ]
    assert marks_of([(shared, "Succeeded")]).labels == {"a": "1"}
    assert marks_of([(shared, "Failed")]).labels == {"a": "0"}


@pytest.mark.parametrize(
    ("labels", "annotations", "metadata"),
    [
        ({"a": "1"}, {"b": "2"}, None),
        ({}, {"b": "2"}, {"labels": {"a": "1"}}),
        ({"a": "0", "c": "3"}, {"b": "2"}, {"labels": {"a": "1", "c": None}}),
        ({"a": "1"}, {}, {"annotations": {"b": "2"}}),
        ({}, {}, {"labels": {"a": "1"}, "annotations": {"b": "2"}}),
    ],
)
def test_only_what_differs_is_written(
    labels: dict[str, str], annotations: dict[str, str], metadata: Any
) -> None:
    marks = Marks({"a": "1", "c": None}, {"b": "2"})
    result = build_metadata_patch(marks, labels=labels, annotations=annotations)
    assert result == (None if metadata is None else {"metadata": metadata})
