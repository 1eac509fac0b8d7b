"""Comparison of recorded outcomes: values chosen by a run are no difference, and a declared difference must occur."""

from typing import Any

import pytest

from recorded_original.comparing import differences, surprises
from recorded_original.language import Create, Group, Scenario, Wanted
from recorded_original.views import Views

PATH = "1 Settle/objects/CloneSet web/status/replicas"


def outcome(replicas: Any, **status: Any) -> dict[str, Any]:
    return {"1 Settle": {"objects": {"CloneSet web": {"status": {"replicas": replicas, **status}}}}}


def build_group(*wanted: Wanted) -> Group:
    create = Create({"kind": "CloneSet", "metadata": {"name": "web"}})
    scenario = Scenario(name="a story", steps=(create,), differs=wanted)
    return Group(kind="Other", scenarios=(scenario,))


def compared(group: Group, recorded: Any, played: Any) -> list[str]:
    return surprises(group, {"a story": recorded}, {"a story": played}, version="v1beta1")


def test_an_undeclared_difference_is_a_surprise() -> None:
    [line] = compared(build_group(), outcome(3), outcome(2))
    assert line.splitlines()[0] == f"a story: {PATH}"


def test_a_declared_difference_is_not_a_surprise() -> None:
    assert compared(build_group(Wanted(at=("*/replicas",), why="so")), outcome(3), outcome(2)) == []


def test_a_declared_difference_that_does_not_occur_is_a_surprise() -> None:
    wanted = Wanted(at=("*/replicas", "*/readyReplicas"), why="so")
    [line] = compared(build_group(wanted), outcome(3), outcome(2))
    assert line == "a story: nothing differs any more at */readyReplicas: so"


def test_a_difference_of_a_group_must_show_in_one_of_its_scenarios() -> None:
    group = Group(
        kind="Other", scenarios=build_group().scenarios, differs=(Wanted(at=("*/replicas",), why="so"),)
    )
    assert compared(group, outcome(3), outcome(2)) == []
    [line] = compared(group, outcome(3), outcome(3))
    assert line == "Other: nothing differs any more: so"


def test_scenarios_and_recordings_must_match() -> None:
    assert "is not recorded" in surprises(build_group(), {}, {}, version="v1beta1")[0]
    nothing = Group(kind="Other", scenarios=())
    assert "there is no such scenario" in surprises(nothing, {"old": {}}, {}, version="v1beta1")[0]


@pytest.mark.parametrize(
    ("only", "recorded", "played", "counts"),
    [
        ("blank", {}, None, True),
        ("blank", {"a": {"b": 0}}, None, True),
        ("blank", {"a": 1}, None, False),
        ("both", 400, 422, True),
        ("both", "nothing", 422, False),
        ("more", "nothing", 422, True),
        ("more", 400, 422, False),
        ("written", "1000m", "1", True),
        ("written", "1000m", "2", False),
        ("written", "x", "1", False),
    ],
)
def test_a_declared_difference_can_be_about_some_pairs_of_values(
    only: Any, recorded: Any, played: Any, counts: bool
) -> None:
    group = build_group(Wanted(at=("*/number",), why="so", only=only))
    sides = [{} if item == "nothing" else {"number": item} for item in (recorded, played)]
    lines = compared(group, {"1 Try": sides[0]}, {"1 Try": sides[1]})
    assert (lines == []) is counts


def test_lists_of_texts_are_compared_as_sets_and_labels_by_their_entries() -> None:
    assert [path for path, *_ in differences({"e": ["a", "b"]}, {"e": ["b", "c"]})] == ["e/a", "e/c"]
    assert [path for path, *_ in differences({"x": {"labels": {"a": "b"}}}, {"x": {}})] == ["x/labels/a"]


def run(*, namespace: str, end: str, digest: str, time: str, uid: str) -> list[dict[str, Any]]:
    """The objects that a run stores for a CloneSet with one pod and one revision."""
    owner = {"kind": "CloneSet", "name": "web", "uid": uid, "controller": True}
    return [
        {
            "kind": "CloneSet",
            "apiVersion": "apps.kruise.io/v1beta1",
            "metadata": {"name": "web", "namespace": namespace, "generation": 4, "uid": uid},
            "spec": {"replicas": 1},
            "status": {
                "observedGeneration": 4,
                "updateRevision": f"web-{digest}",
                "conditions": [{"type": "A", "status": "True", "reason": "B", "lastTransitionTime": time}],
            },
        },
        {
            "kind": "ControllerRevision",
            "apiVersion": "apps/v1",
            "metadata": {"name": f"web-{digest}", "ownerReferences": [owner]},
            "revision": 1,
        },
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": f"web-{end}",
                "generateName": "web-",
                "labels": {
                    "controller-revision-hash": f"web-{digest}",
                    "pod-template-hash": digest,
                    "apps.kruise.io/cloneset-instance-id": end,
                },
                "annotations": {"state": f'{{"revision":"web-{digest}","at":"{time}"}}'},
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        },
    ]


def test_values_chosen_by_a_run_are_normalized_in_its_views() -> None:
    runs = [
        run(
            namespace=f"n{number}",
            end=("abcde", "74764")[number],
            digest=("7d9f8c", "f00ba4")[number],
            time=f"2026-01-0{number + 1}T00:00:00Z",
            uid=f"{number}" * 8 + "-1111-2222-3333-" + f"{number}" * 12,
        )
        for number in range(2)
    ]
    entry, other = (Views(f"n{n}", shows_nodes=False).scene(docs, []) for n, docs in enumerate(runs))
    assert entry == other
    assert entry["revisions"] == ["web-<revision 1> is 1"]
    assert entry["pods"][0]["annotations"]["state"] == {"revision": "web-<revision 1>", "at": "<time>"}


def test_names_that_no_run_chooses_stay() -> None:
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "web-0",
            "generateName": "web-",
            "labels": {"statefulset.kubernetes.io/pod-name": "web-0"},
        },
        "spec": {"containers": []},
    }
    [view] = Views("n", shows_nodes=False).scene([pod], [])["pods"]
    assert view["name"] == "web-0"
