"""Containers as an update in place sees them."""

import msgspec
import pytest

from pykruise.pods.containers import (
    ContainerStatusFacts,
    EnvSource,
    RawContainer,
    RawStatus,
    Resources,
    container_facts,
    env_sources_of,
    status_facts,
)
from support.updatable_pod import fed_from


def test_nulls_and_fields_of_a_newer_kubernetes_are_tolerated() -> None:
    text = b'{"name":"c","image":null,"env":null,"resources":{"limits":null},"resizePolicy":null,"new":[{}]}'
    facts = container_facts(msgspec.json.decode(text, type=RawContainer))
    assert (facts.name, facts.image, facts.env_sources, facts.resources) == ("c", "", (), Resources())


def test_a_status_says_why_its_container_waits() -> None:
    text = (
        b'{"name":"c","imageID":null,"state":{"waiting":{"reason":"ErrImagePull","message":"x"}},'
        b'"resources":{"limits":{"cpu":"1","nvidia.com/gpu":"1"}}}'
    )
    facts = status_facts(msgspec.json.decode(text, type=RawStatus))
    assert facts.waiting == "ErrImagePull"
    assert facts.resources is not None
    assert facts.resources.get("limits", "cpu") == "1"
    assert status_facts(RawStatus(name="c")) == ContainerStatusFacts(name="c")


def test_facts_of_equal_containers_are_equal_and_can_be_shared() -> None:
    text = b'{"name":"c","image":"i","env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1"}}}'
    one, other = (msgspec.json.decode(text, type=RawContainer) for _ in range(2))
    assert hash(one) == hash(other)
    assert hash(container_facts(one)) == hash(container_facts(other))


def test_sources_are_sorted_and_literals_and_other_references_are_none() -> None:
    """inplace-update 6.1.2, 6.8"""
    container = {
        "env": [
            fed_from("labels", "k", variable="Z"),
            {"name": "L", "value": "x"},
            {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {**fed_from("labels", "k", variable="V"), "value": "wins"},
            {"name": "N", "valueFrom": None},
            fed_from("annotations", "n", variable="A"),
        ],
        "envFrom": [{"configMapRef": {"name": "m"}}],
    }
    assert env_sources_of(container) == (
        EnvSource("A", "annotations", "n"),
        EnvSource("Z", "labels", "k"),
    )


@pytest.mark.parametrize("env", [None, [], "text", [1], [{"name": 5}]])
def test_an_env_that_is_none_has_no_sources(env: object) -> None:
    assert env_sources_of({"env": env}) == ()
