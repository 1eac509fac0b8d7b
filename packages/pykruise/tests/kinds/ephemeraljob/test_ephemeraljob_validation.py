"""EphemeralJobs that are refused, with the field."""

from typing import Any

import pytest

from pykruise.kinds.ephemeraljob.validation import errors_of
from support.ephemeral_world import EphemeralWorld, container

PATH = "spec.template.ephemeralContainers"


def fields(*containers: dict[str, Any], **spec: Any) -> list[str]:
    return [error.field for error in errors_of(EphemeralWorld(0, containers=list(containers), **spec).job)]


def test_complete_containers_and_an_empty_list_are_allowed() -> None:
    assert (
        fields(container(), container("other", volumeMounts=[{"name": "data", "mountPath": "/data"}])) == []
    )
    assert fields() == []


@pytest.mark.parametrize("missing", ["image", "name"])
def test_fields_without_a_default_are_required(missing: str) -> None:
    for value in ("", None):
        assert fields(container() | {missing: value}) == [f"{PATH}[0].{missing}"]


@pytest.mark.parametrize("missing", ["terminationMessagePolicy", "imagePullPolicy"])
def test_policies_that_the_api_server_sets_in_pods_can_be_omitted_case_34(missing: str) -> None:
    for value in ("", None):
        assert fields(container() | {missing: value}) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ports", [{"containerPort": 80, "protocol": "TCP"}]),
        ("resources", {"limits": {"cpu": "1"}}),
        ("livenessProbe", {"exec": {"command": ["true"]}}),
        ("lifecycle", {"preStop": {"sleep": {"seconds": 1}}}),
        ("restartPolicy", "Always"),
        ("somethingNew", True),
    ],
)
def test_a_field_that_ephemeral_containers_cannot_have_is_forbidden_case_34(field: str, value: Any) -> None:
    assert f"{PATH}[0].{field}" in fields(container(**{field: value}))


def test_unknown_fields_are_reported_in_order() -> None:
    result = fields(container(**dict.fromkeys("gbfdace", True)))
    assert result == [f"{PATH}[0].{field}" for field in "abcdefg"]


@pytest.mark.parametrize("field", ["subPath", "subPathExpr"])
def test_parts_of_volumes_are_forbidden_case_34(field: str) -> None:
    mount = {"name": "data", "mountPath": "/data", field: "a"}
    assert fields(container(volumeMounts=[mount])) == [f"{PATH}[0].volumeMounts[0].{field}"]


def test_a_setting_that_only_some_pods_permit_is_left_to_the_api_server() -> None:
    """A pod with its own user namespace permits it."""
    assert fields(container(securityContext={"procMount": "Unmasked"})) == []
    assert fields(container(securityContext={"procMount": "Masked"})) == [
        f"{PATH}[0].securityContext.procMount"
    ]


def test_policies_images_and_names_are_validated() -> None:
    wrong = container(imagePullPolicy="Sometimes", terminationMessagePolicy="Never", image=" busybox")
    assert fields(wrong, container(), container()) == [
        f"{PATH}[0].terminationMessagePolicy",
        f"{PATH}[0].imagePullPolicy",
        f"{PATH}[0].image",
        f"{PATH}[1].name",
        f"{PATH}[2].name",
    ]


def test_numbers_below_zero_are_refused() -> None:
    assert fields(container(), parallelism=-1, replicas=-1) == ["spec.replicas", "spec.parallelism"]
    assert fields(ttlSecondsAfterFinished=-1) == ["spec.ttlSecondsAfterFinished"]


def test_numbers_are_validated_when_they_change() -> None:
    # given a job that was stored before validation refused it
    job = EphemeralWorld(0, containers=[], replicas=-1).job
    # then
    assert errors_of({**job, "spec": {**job["spec"], "paused": True}}, old=job) == []
    changed = {**job, "spec": {**job["spec"], "activeDeadlineSeconds": -1}}
    assert [error.field for error in errors_of(changed, old=job)] == ["spec.activeDeadlineSeconds"]


def test_stored_containers_are_not_validated_again() -> None:
    job = EphemeralWorld(0, containers=[{"name": "x"}]).job
    assert errors_of({**job, "spec": {**job["spec"], "paused": True}}, old=job) == []
    # when they change
    changed = EphemeralWorld(0, containers=[container(somethingNew=True)]).job
    # then
    assert [error.field for error in errors_of(changed, old=job)] == [f"{PATH}[0].somethingNew"]
