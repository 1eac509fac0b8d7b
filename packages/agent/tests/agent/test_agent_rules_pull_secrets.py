"""The namespaces whose requests a pull secret serves."""

import re
from typing import Any

import pytest

from pykruise.agent.rules.image_pulls import WantedPull
from pykruise.agent.rules.pull_secrets import SOURCE_KEY, may_use, read_served_namespace
from support.sources import SOURCES


def wanted(*namespaces: str) -> WantedPull:
    """A tag that jobs of these namespaces request."""
    return WantedPull(
        tag="1", owner_references=tuple({"namespace": namespace, "name": "job"} for namespace in namespaces)
    )


def secret(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "shared", "name": "s", "annotations": annotations}}


@pytest.mark.parametrize(
    ("note", "namespace"), [("shop/s", "shop"), ("", "shared"), ("/s", ""), ("no key", "shared")]
)
def test_a_copy_serves_the_namespace_of_its_source_and_any_other_secret_its_own(
    note: str, namespace: str
) -> None:
    annotations = {SOURCE_KEY: note} if note else {}
    assert read_served_namespace(secret(**annotations)) == namespace


def test_a_tag_may_use_secrets_only_of_namespaces_that_request_it() -> None:
    assert may_use(wanted("shop", "blog"), "blog")
    assert not may_use(wanted("shop", "blog"), "victim")
    assert not may_use(wanted(""), "")
    # and a tag that a person wrote, without owners, may use secrets of every namespace
    assert may_use(wanted(), "shop")


def test_every_reader_of_pull_credentials_on_nodes_is_listed() -> None:
    """Each new reader needs a review before it is added here."""
    readers = {
        path.name
        for folder in SOURCES
        for path in folder.rglob("*.py")
        if re.search(r"\bread_secret_credentials\(", path.read_text("utf-8"))
    }
    assert readers == {"registry_credentials.py", "pull_secrets.py", "keyring.py"}
