"""Credentials that fit an image, by its registry."""

import json
from base64 import b64encode
from typing import Any

import pytest

from pykruise.kube.values.registry_credentials import (
    Credential,
    list_matching_credentials,
    read_credentials,
    read_secret_credentials,
)


def encoded(value: Any) -> str:
    return b64encode(json.dumps(value).encode()).decode()


def found_for(repository: str, **entries: str) -> list[str]:
    config = {"auths": {where: {"username": name, "password": "x"} for where, name in entries.items()}}
    return [
        credential.username for credential in list_matching_credentials(read_credentials(config), repository)
    ]


def test_credentials_with_the_longest_match_are_tried_first() -> None:
    """images case 55"""
    entries = {"gcr.io": "a", "https://gcr.io/p/": "b", "other.io": "c", "gcr.i": "d"}
    assert found_for("gcr.io/p/app", **entries) == ["b", "a"]


@pytest.mark.parametrize(
    "where",
    ["docker.io", "index.docker.io", "https://index.docker.io/v1/", "https://index.docker.io/v2/library"],
)
def test_docker_hub_has_several_names(where: str) -> None:
    assert found_for("docker.io/library/nginx", **{where: "me"}) == ["me"]


@pytest.mark.parametrize(
    ("where", "repository", "is_match"),
    [
        ("*.example.com", "eu.example.com/a", True),
        ("*.example.com", "a.eu.example.com/a", False),
        ("example.com", "example.com:5000/a", False),
        ("example.com:5000/team", "example.com:5000/team/a", True),
        ("example.com:5000/team", "example.com:5000/teams/a", True),
        ("example.com:5000/team/", "example.com:5000/teams/a", False),
        ("example.com:5000/team/", "example.com:5000/team/a", True),
        ("example.com:5000/other", "example.com:5000/team/a", False),
    ],
)
def test_hosts_match_part_by_part_and_paths_from_the_left(
    where: str, repository: str, is_match: bool
) -> None:
    assert found_for(repository, **{where: "me"}) == (["me"] if is_match else [])


@pytest.mark.parametrize(
    ("entry", "user"),
    [
        ({"auth": "bWU6cGFzcw=="}, "me:pass"),
        ({"auth": "bWU6cGFzcw"}, "me:pass"),
        ({"auth": "bWU6\ncGFzcw==\n"}, "me:pass"),
        ({"auth": "bWU6cGFzcw==", "username": "other", "password": "old"}, "me:pass"),
        ({"auth": "", "username": "other", "password": "old"}, "other:old"),
        # without a colon, no base64, and a wrong length
        ({"auth": "bWU=", "username": "other", "password": "old"}, ""),
        ({"auth": "b%U6cGFzcw=="}, ""),
        ({"auth": "bWU6c"}, ""),
    ],
)
def test_auth_replaces_user_and_password(entry: dict[str, str], user: str) -> None:
    credentials = read_credentials({"auths": {"r.io": entry}})
    assert [credential.text for credential in credentials] == ([user] if user else [])


def test_both_kinds_of_secrets_are_read_and_what_cannot_be_read_is_left_out() -> None:
    auth = b64encode(b"me:pass:word").decode()
    entries = {"r.io": {"auth": auth}, "odd.io": {"auth": "%"}, "none.io": 5}
    expected = [Credential(where="r.io", username="me", password="pass:word")]
    assert read_secret_credentials({"data": {".dockerconfigjson": encoded({"auths": entries})}}) == expected
    assert read_secret_credentials({"data": {".dockercfg": encoded(entries)}}) == expected
    assert read_secret_credentials({"data": {".dockerconfigjson": "no base64"}}) == []
    assert read_secret_credentials({}) == []
