"""The fields that `plan` names: those that a user changes."""

from typing import Any

import pytest

from pykruise.cli.insight.admission_check import list_changed_paths


def spec_of(**container: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "main", **container}]}}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (spec_of(image="a"), spec_of(image="a", resources={})),
        (spec_of(image="a", env=[]), spec_of(image="a")),
        ({"template": {"metadata": {"labels": None}}}, {}),
    ],
)
def test_an_empty_field_that_defaults_add_is_no_change(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert list(list_changed_paths(old, new, "spec")) == []


def test_a_field_that_is_set_is_named_with_its_path() -> None:
    changes = list_changed_paths(spec_of(image="a"), spec_of(image="b", resources={}), "spec")
    assert [str(change) for change in changes] == ["spec.template.spec.containers[main].image: a → b"]


def test_all_fields_of_an_empty_spec_are_named() -> None:
    changes = list_changed_paths({}, {"paused": True, "replicas": 3}, "spec")
    assert [change.path for change in changes] == ["spec.paused", "spec.replicas"]


def test_an_empty_volume_source_is_a_change() -> None:
    volume = {"name": "data", "emptyDir": {}}
    changes = list_changed_paths({"volumes": [{"name": "data"}]}, {"volumes": [volume]}, "spec")
    assert [change.path for change in changes] == ["spec.volumes[data].emptyDir"]
