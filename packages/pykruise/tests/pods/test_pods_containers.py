"""Containers as an update in place sees them."""

from typing import Any

import msgspec
import pytest

from pykruise.pods.view.containers import (
    ContainerFacts,
    ContainerStatusFacts,
    ContainerText,
    EndsWithJob,
    EnvSource,
    FactsTable,
    RawContainer,
    RawStatus,
    Resources,
    env_sources_of,
    read_container_facts,
    read_status_facts,
)
from support.updatable_pod import fed_from


def test_nulls_and_fields_of_a_newer_kubernetes_are_tolerated() -> None:
    text = b'{"name":"c","image":null,"env":null,"resources":{"limits":null},"resizePolicy":null,"new":[{}]}'
    facts = read_container_facts(msgspec.json.decode(text, type=RawContainer))
    assert (facts.name, facts.image, facts.env_sources, facts.resources) == ("c", "", (), Resources())


def test_a_container_status_has_its_waiting_reason() -> None:
    text = (
        b'{"name":"c","imageID":null,"state":{"waiting":{"reason":"ErrImagePull","message":"x"}},'
        b'"resources":{"limits":{"cpu":"1","nvidia.com/gpu":"1"}}}'
    )
    facts = read_status_facts(msgspec.json.decode(text, type=RawStatus))
    assert facts.waiting == "ErrImagePull"
    assert facts.resources is not None
    assert facts.resources.get("limits", "cpu") == "1"
    assert read_status_facts(RawStatus(name="c")) == ContainerStatusFacts(name="c")


def test_facts_of_equal_containers_are_equal_and_can_be_shared() -> None:
    text = b'{"name":"c","image":"i","env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1"}}}'
    raw_container, other = (msgspec.json.decode(text, type=RawContainer) for _ in range(2))
    assert hash(raw_container) == hash(other)
    assert hash(read_container_facts(raw_container)) == hash(read_container_facts(other))


def test_env_sources_are_sorted_without_literals_and_other_references() -> None:
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
def test_an_invalid_env_has_no_sources(env: object) -> None:
    assert env_sources_of({"env": env}) == ()


def facts(**fields: Any) -> ContainerFacts:
    return read_container_facts(msgspec.convert({"name": "c", **fields}, RawContainer))


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (None, [None, None, None, None]),
        ({}, [None, None, None, None]),
        ({"limits": {"cpu": "1", "memory": "2Gi"}}, ["1", "2Gi", None, None]),
        ({"requests": {"cpu": "1", "memory": "2Gi"}, "limits": None}, [None, None, "1", "2Gi"]),
        ({"limits": {"memory": "2Gi"}, "requests": {"cpu": "1"}}, [None, "2Gi", "1", None]),
    ],
)
def test_amounts_are_those_of_cpu_and_memory(resources: Any, expected: list[str | None]) -> None:
    result = facts(resources=resources).resources
    names = [(bound, name) for bound in ("limits", "requests") for name in ("cpu", "memory")]
    assert [result.get(bound, name) for bound, name in names] == expected
    assert result.get("limits", "nvidia.com/gpu") is None


def test_only_ports_with_a_name_can_be_named() -> None:
    ports = [
        {"name": "http", "containerPort": 80},
        {"containerPort": 81},
        {"name": None, "containerPort": 82},
    ]
    assert facts(ports=ports).named_ports == (("http", 80),)


def test_only_a_resize_that_restarts_its_container_is_known_as_one() -> None:
    policies = [
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
    ]
    assert facts(resizePolicy=policies).restarts_for == ("memory",)


def variable(name: str, value: str | None = None, **source: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "valueFrom": source or None}


ENDS, IMAGE = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
IGNORED = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (None, None),
        ([variable("A", "true")], None),
        ([variable(ENDS, "true")], EndsWithJob(is_killed=True)),
        ([variable(ENDS, "True")], EndsWithJob(is_killed=True)),
        ([variable(ENDS, "false")], None),
        ([variable(ENDS)], None),
        ([variable(ENDS, configMapKeyRef={"name": "m", "key": "true"})], None),
        ([variable(IMAGE, "exit:1")], EndsWithJob(image="exit:1")),
        ([variable(IGNORED, "true")], None),
        ([variable(ENDS, "true"), variable(IGNORED, "TRUE")], EndsWithJob(is_killed=True, is_ignored=True)),
        ([variable(ENDS, "true"), variable(IGNORED, "1")], EndsWithJob(is_killed=True)),
        (
            [variable(ENDS, "true"), variable(IMAGE, "exit:1")],
            EndsWithJob(is_killed=True, image="exit:1"),
        ),
    ],
)
def test_an_environment_variable_marks_a_sidecar_that_ends_with_its_job(
    env: Any, expected: EndsWithJob | None
) -> None:
    """jobs: SidecarTerminator"""
    assert facts(env=env).ends_with_job == expected


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([], None),
        ([variable("A", configMapKeyRef={"key": "p_7"})], None),
        ([variable("KRUISE_CONTAINER_BARRIER", configMapKeyRef={"key": "p_7"})], 7),
        ([variable("A", "1"), variable("KRUISE_CONTAINER_BARRIER", configMapKeyRef={"key": "p_-7"})], -7),
        ([variable("KRUISE_CONTAINER_BARRIER", configMapKeyRef={"key": "seven"})], 0),
        ([variable("KRUISE_CONTAINER_BARRIER", configMapKeyRef={"key": None})], 0),
        ([variable("KRUISE_CONTAINER_BARRIER", configMapKeyRef=None)], None),
        ([variable("KRUISE_CONTAINER_BARRIER", "p_7")], None),
    ],
)
def test_a_container_starts_when_its_barrier_is_open(env: Any, expected: int | None) -> None:
    """containers: launch priority"""
    assert facts(env=env).launch_priority == expected


def test_a_reference_without_a_field_is_not_a_source() -> None:
    assert facts(env=[variable("A", fieldRef={"fieldPath": None})]).env_sources == ()


@pytest.mark.parametrize(
    ("state", "waiting", "exit_code"),
    [
        (None, "", None),
        ({"waiting": {}}, "", None),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff", None),
        ({"terminated": {"exitCode": 137}}, "", 137),
        ({"terminated": {}}, "", 0),
    ],
)
def test_a_container_waits_runs_or_has_ended(state: Any, waiting: str, exit_code: int | None) -> None:
    status = read_status_facts(msgspec.convert({"name": "c", "state": state}, RawStatus))
    assert (status.waiting, status.exit_code) == (waiting, exit_code)


def test_facts_of_a_text_are_read_once_until_there_are_too_many_texts() -> None:
    # given a table for two texts
    table = FactsTable(limit=2)

    def of(image: str) -> ContainerFacts:
        return table(ContainerText(name="c", image=image))

    first = of("a")
    # then
    assert of("a") is first
    of("b")
    assert of("a") is first
    # but a third and a fourth text replace it
    of("c")
    of("d")
    assert of("a") is not first
    assert of("a") == first
