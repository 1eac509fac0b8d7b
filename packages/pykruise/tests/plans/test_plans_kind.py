"""Properties of a kind that other parts of the program use."""

from typing import Annotated, Any, get_type_hints

import msgspec
import pytest

from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kube.documents import Document
from pykruise.kube.rbac import READ
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.schemas.crds import Version
from pykruise.plans.kind import Kind, SpecSchema, list_workload_rights, make_two_versions

CREWS = Resource("example.com", "v1beta1", "crews", "Crew")


class Spec(msgspec.Struct):
    """The spec of the stored version."""

    size: int = 0


class OldSpec(msgspec.Struct):
    """The spec of the old version."""

    count: int = 0


class Crew(msgspec.Struct):
    """The kind in the stored version."""

    spec: Annotated[Spec | None, msgspec.Meta(description="What is wanted.")] = None


class OldCrew(msgspec.Struct):
    """The kind in the old version."""

    spec: OldSpec | None = None


def no_schema(kind: str) -> Document:
    raise AssertionError(f"nothing embeds {kind}")


def fields_of(crd: Document | None) -> dict[str, list[str]]:
    """Fields of the spec, by version."""
    assert crd is not None
    return {
        version["name"]: list(
            version["schema"]["openAPIV3Schema"]["properties"]["spec"].get("properties") or {}
        )
        for version in crd["spec"]["versions"]
    }


def test_a_kind_is_named_after_its_objects_and_a_controller_of_others_after_itself() -> None:
    # given a part for pods, which are no kind of OpenKruise
    control = CLONE_SET.control
    assert control is not None
    readiness = msgspec.structs.replace(control, name="pod-readiness")
    # then
    assert Kind(resource=CREWS, versions=make_two_versions(Crew), control=readiness).name == "crew"
    assert Kind(resource=CREWS).name == "crew"
    assert Kind(resource=PODS, control=readiness).name == "pod-readiness"


@pytest.mark.parametrize(
    ("gates", "any_gate", "on", "is_enabled"),
    [
        ((), (), "", True),
        (("A", "B"), (), "A", False),
        (("A", "B"), (), "AB", True),
        ((), ("C", "D"), "", False),
        ((), ("C", "D"), "D", True),
        (("A",), ("C",), "A", False),
        (("A",), ("C",), "C", False),
        (("A",), ("C",), "AC", True),
    ],
)
def test_a_kind_needs_all_its_gates_and_one_of_those_of_which_any_will_do(
    gates: tuple[str, ...], any_gate: tuple[str, ...], on: str, is_enabled: bool
) -> None:
    kind = Kind(resource=CREWS, gates=gates, any_gate=any_gate)
    assert kind.is_enabled(lambda name: name in on) is is_enabled


def embedding(schema_of: SpecSchema) -> tuple[Version, ...]:
    assert schema_of("Rower") == {"type": "object", "of": "Rower"}
    return make_two_versions(Crew)


@pytest.mark.parametrize(
    ("spoke", "old_fields"), [(OldCrew, ["count"]), (None, ["size"])], ids=["other fields", "the same fields"]
)
def test_a_definition_has_the_fields_of_each_version_and_the_later_one_is_stored(
    spoke: Any, old_fields: list[str]
) -> None:
    crd = Kind(resource=CREWS, versions=make_two_versions(Crew, spoke)).build_crd(no_schema)
    assert fields_of(crd) == {"v1alpha1": old_fields, "v1beta1": ["size"]}
    assert crd is not None
    assert [version["name"] for version in crd["spec"]["versions"] if version["storage"]] == ["v1beta1"]


def test_a_kind_that_embeds_others_gets_their_schemas() -> None:
    schemas = Kind(resource=CREWS, versions=embedding).build_crd(lambda kind: {"type": "object", "of": kind})
    assert fields_of(schemas) == {"v1alpha1": ["size"], "v1beta1": ["size"]}


def test_a_built_in_resource_has_no_definition() -> None:
    assert Kind(resource=PODS).build_crd(no_schema) is None


def test_the_spec_that_others_embed_is_that_of_the_stored_version_with_its_description() -> None:
    result = Kind(resource=CREWS, versions=make_two_versions(Crew, OldCrew)).spec_type
    assert result == get_type_hints(Crew, include_extras=True)["spec"]
    assert result.__metadata__[0].description == "What is wanted."


def test_a_workload_is_read_reported_and_named_as_owner() -> None:
    rights = {(right.group, right.resource): right.verbs for right in list_workload_rights(CREWS)}
    assert rights == {
        ("example.com", "crews"): READ,
        ("example.com", "crews/status"): ("patch",),
        ("example.com", "crews/finalizers"): ("update",),
    }
