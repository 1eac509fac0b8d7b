"""Further kinds of workloads that an administrator allows."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.workload.allowed_workloads import AllowedList, WhiteList, WhiteListError, read_white_list

GAME = AllowedList(
    target=GroupKind("example.com", "Game"),
    version="v1",
    replicas_path="spec.size",
    owners=(GroupKind("apps", "ReplicaSet"), GroupKind("example.com", "Room")),
)


@pytest.mark.parametrize("text", [None, "", "{}", '{"workloads":null}', '{"workloads":[]}'])
def test_no_further_kind_is_allowed_without_a_list(text: str | None) -> None:
    assert read_white_list(text) == WhiteList()


@pytest.mark.parametrize("written", [str, str.upper, str.lower])
def test_a_kind_is_listed_with_what_is_between_it_and_its_pods(written: Callable[[str], str]) -> None:
    """Names of members count in upper and lower case."""

    def kind(group: str, name: str) -> dict[str, Any]:
        return {written("Group"): group, written("Kind"): name}

    game = kind("example.com", "Game") | {
        written("Version"): "v1",
        written("replicasPath"): "spec.size",
        written("subResources"): [kind("apps", "ReplicaSet"), kind("example.com", "Room")],
    }
    white_list = read_white_list(json.dumps({written("workloads"): [game]}))
    assert white_list == WhiteList(workloads=(GAME,))
    assert white_list.owners == {GAME.target, *GAME.owners}


def test_an_entry_is_found_by_group_and_kind() -> None:
    other = AllowedList(target=GroupKind("example.com", "Quiz"))
    white_list = WhiteList(workloads=(other, GAME))
    assert white_list.find(GroupKind("example.com", "Game")) == GAME
    assert white_list.find(GroupKind("example.org", "Game")) is None


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "not valid JSON"),
        ("[]", "the white list: must be an object"),
        ('{"workloads":5}', "workloads: must be a list"),
        ('{"workloads":{}}', "workloads: must be a list"),
        ('{"workloads":[5]}', r"workloads\[0\]: must be an object"),
        ('{"workloads":[{},{"Kind":5}]}', r"workloads\[1\]\.Kind: must be a string"),
        ('{"workloads":[{"subResources":"x"}]}', r"workloads\[0\]\.subResources: must be a list"),
        (
            '{"workloads":[{"subResources":[{},{"Group":[]}]}]}',
            r"workloads\[0\]\.subResources\[1\]\.Group: must be a string",
        ),
    ],
)
def test_an_unreadable_white_list_field_is_reported_with_its_path(text: str, wrong: str) -> None:
    with pytest.raises(WhiteListError, match=f"^{wrong}"):
        read_white_list(text)
