"""Revisions: which templates are the same, what they are called, which one is used."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from pykruise.kube.hashing import hash_text
from pykruise.pods import keys
from pykruise.pods.names import short_hash
from pykruise.pods.revisions import (
    RevisionView,
    UpdateChoice,
    candidate,
    choose_current,
    choose_update,
    meaning,
    project_revision,
    revision_body,
    revision_data,
    revision_hash,
    sorted_revisions,
    to_truncate,
)
from support.cloneset_builder import NAMESPACE, revision, template

VECTORS = json.loads((Path(__file__).parent / "data" / "revisions_written_by_go.json").read_text())
A, B, C = template("nginx:1"), template("nginx:2"), template("nginx:3")


def view(document: dict[str, Any]) -> RevisionView:
    return project_revision(orjson.dumps(document))


def views(*documents: dict[str, Any]) -> list[RevisionView]:
    return sorted_revisions(map(view, documents))


def choose(wanted: dict[str, Any], *stored: RevisionView, **arguments: Any) -> UpdateChoice:
    body = partial(
        revision_body,
        namespace=NAMESPACE,
        labels={"app": "web"},
        annotations={"kubernetes.io/change-cause": "a test"},
        owner={"uid": "owner-uid", "controller": True},
    )
    given = {"owner": "web", "collision_count": 0, "others": {}, "annotations": {"hash": ""}, "body": body}
    return choose_update(candidate(wanted), stored, **{**given, **arguments})


@pytest.mark.parametrize("vector", VECTORS)
def test_data_and_names_are_byte_for_byte_those_of_a_manager_written_in_go(vector: dict[str, Any]) -> None:
    data = revision_data(vector["template"])
    assert data.decode() == vector["data"]
    assert revision_hash(data, 0) == vector["hash"]


def test_the_collision_count_is_part_of_the_hash() -> None:
    assert revision_hash(b"data", 0) != revision_hash(b"data", 1)
    assert revision_hash(b"", 12) == hash_text(
        ((((2166136261 * 16777619) & 0xFFFFFFFF) ^ ord("1")) * 16777619 & 0xFFFFFFFF) ^ ord("2")
    )


def test_equal_templates_in_another_spelling_are_one_revision() -> None:
    """cloneset case 59"""
    plain = template("nginx:1")
    container = plain["spec"]["containers"][0]
    elaborate = {
        "metadata": {**plain["metadata"], "creationTimestamp": None, "annotations": {}},
        "spec": {
            "containers": [
                {
                    **container,
                    "resources": {},
                    "env": [],
                    "command": None,
                    "stdin": False,
                    "workingDir": "",
                    "securityContext": {},
                }
            ],
            "hostNetwork": False,
            "nodeSelector": {},
            "affinity": None,
        },
        "$patch": "replace",
    }
    assert meaning(elaborate) == meaning(plain)


@pytest.mark.parametrize(("left", "right"), [("1", "1000m"), ("0.5Gi", "512Mi"), (1, "1"), ("1e3", "1k")])
def test_quantities_are_compared_by_amount(left: Any, right: Any) -> None:
    def with_cpu(amount: Any) -> dict[str, Any]:
        found = template()
        found["spec"]["containers"][0]["resources"] = {"limits": {"x": amount}}
        return found

    assert meaning(with_cpu(left)) == meaning(with_cpu(right))


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": "web", "new": ""}}},
        {"metadata": {"labels": {"app": "web"}, "annotations": {"note": ""}}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1"}], "hostNetwork": True}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1"}], "enableServiceLinks": False}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1", "args": [""]}]}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1", "aFieldOfTomorrow": 1}]}},
    ],
)
def test_a_different_template_is_another_revision(change: dict[str, Any]) -> None:
    assert meaning({**template("nginx:1"), **change}) != meaning(template("nginx:1"))


def test_an_empty_selector_of_an_affinity_term_is_not_an_absent_one() -> None:
    def with_term(term: dict[str, Any]) -> bytes:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}
        return meaning(template(affinity={"podAntiAffinity": required}))

    assert with_term({"labelSelector": {}}) != with_term({})


def test_the_template_of_a_stored_revision_comes_back_without_its_directive() -> None:
    stored = view(revision(A, 1))
    assert stored.template["spec"]["containers"][0]["image"] == "nginx:1"
    assert "$patch" not in stored.template
    assert stored.meaning == meaning(A)
    assert (stored.number, stored.controller_uid) == (1, "owner-uid")


@pytest.mark.parametrize("data", [None, {}, {"spec": {"template": "x"}}, [1]])
def test_data_of_another_shape_is_an_empty_template_and_no_crash(data: Any) -> None:
    assert view({**revision(A, 1), "data": data}).template == {}


def test_the_first_template_gets_a_revision_of_its_own() -> None:
    choice = choose(A)
    assert choice.create is not None
    metadata = choice.create["metadata"]
    assert metadata["name"] == choice.revision.name == f"web-{revision_hash(revision_data(A), 0)}"
    assert metadata["labels"] == {"app": "web", keys.REVISION_HASH_LABEL: choice.revision.hash}
    assert choice.create["revision"] == 1
    assert orjson.dumps(choice.create["data"], option=orjson.OPT_SORT_KEYS) == revision_data(A)


def test_a_changed_template_gets_the_next_number() -> None:
    choice = choose(B, *views(revision(A, 4)))
    assert choice.create is not None
    assert choice.create["revision"] == 5


def test_the_last_revision_is_used_as_it_is() -> None:
    choice = choose(A, *views(revision(B, 1), revision(A, 2)))
    assert (choice.revision.number, choice.create, choice.patch) == (2, None, None)


def test_going_back_to_an_older_template_reuses_its_revision() -> None:
    """cloneset case 52, cloneset case 58 (the annotation is missing and no crash)"""
    choice = choose(A, *views(revision(A, 1), revision(B, 2)))
    assert choice.create is None
    assert choice.revision.name == view(revision(A, 1)).name
    assert choice.patch == {"revision": 3, "metadata": {"annotations": {"hash": ""}}}


def test_going_back_leaves_annotations_alone_that_are_right() -> None:
    choice = choose(A, *views(revision(A, 1, annotations={"hash": ""}), revision(B, 2)))
    assert choice.patch == {"revision": 3}


def test_a_name_taken_by_something_else_moves_the_collision_count() -> None:
    """cloneset case 54"""
    taken = view(revision(B, 1, name=f"web-{revision_hash(revision_data(A), 0)}"))
    choice = choose(A, taken)
    assert choice.collision_count == 1
    assert choice.revision.name == f"web-{revision_hash(revision_data(A), 1)}"
    assert choice.create is not None
    assert choice.create["metadata"]["labels"][keys.REVISION_HASH_LABEL] == choice.revision.hash


def test_a_name_taken_in_the_namespace_by_another_owner_counts_too() -> None:
    name = f"web-{revision_hash(revision_data(A), 0)}"
    foreign = view(revision(C, 1, name=name, controller="another-owner"))
    assert choose(A, others={name: foreign}).collision_count == 1


def test_a_left_behind_revision_that_says_the_same_is_used() -> None:
    foreign = view(revision(A, 1, controller="former-owner"))
    choice = choose(A, others={foreign.name: foreign})
    assert (choice.revision, choice.create, choice.collision_count) == (foreign, None, 0)


def test_the_current_revision_is_the_one_the_status_names_or_else_the_update_revision() -> None:
    stored = views(revision(A, 1), revision(B, 2))
    assert choose_current(stored, stored[0].name, update=stored[1]) == stored[0]
    assert choose_current(stored, "web-gone", update=stored[1]) == stored[1]


def test_the_oldest_idle_revisions_go_beyond_the_limit() -> None:
    stored = views(*(revision(template(f"nginx:{number}"), number) for number in range(1, 7)))
    live = {stored[0].hash, stored[5].hash}
    assert [one.number for one in to_truncate(stored, live=live, limit=2)] == [2, 3]


def test_a_limit_of_zero_keeps_only_live_revisions() -> None:
    """cloneset case 55"""
    stored = views(revision(A, 1), revision(B, 2), revision(C, 3))
    assert [one.number for one in to_truncate(stored, live={stored[2].hash}, limit=0)] == [1, 2]
    assert [one.number for one in to_truncate(stored, live={stored[0].hash, stored[2].hash}, limit=0)] == [2]


def test_revisions_are_sorted_by_number_then_creation_then_name() -> None:
    older = view(revision(A, 1, creationTimestamp="2020-01-01T00:00:00Z"))
    newer = view(revision(B, 1, creationTimestamp="2021-01-01T00:00:00Z"))
    assert sorted_revisions([newer, older]) == [older, newer]


@pytest.mark.parametrize(
    ("text", "expected"), [("web-7c9d", "7c9d"), ("7c9d", "7c9d"), ("a-b-c", "c"), ("", "")]
)
def test_the_hash_of_a_revision_is_what_follows_the_last_dash(text: str, expected: str) -> None:
    assert short_hash(text) == expected
