"""Structural schemas from types."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import (
    Column,
    ScalePaths,
    Version,
    blank_of,
    build_definition,
    build_structural_schema,
    int_or_string,
    integer,
    schema,
)


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Part(msgspec.Struct, rename="camel"):
    part_name: str
    weight: Annotated[int, integer("int64", minimum=0)] = 1


class Spec(msgspec.Struct, rename="camel", kw_only=True):
    amount: Annotated[int | str, int_or_string()] | None = None
    any_thing: dict[str, Any] | None = None
    colour: Colour = Colour.RED
    count: Annotated[int, integer("int32", required=True)] = 0
    enabled: Annotated[bool, schema(default=False)] = False
    labels: dict[str, str] | None = None
    parts: Annotated[list[Part], schema(list_type="map", list_map_keys=["partName"])] | None = None
    ratio: float = 1.0
    template: Annotated[dict[str, Any], schema(any_object=True)]
    times: tuple[Annotated[str, schema(format="date-time")], ...] = ()


class Whole(msgspec.Struct, kw_only=True):
    metadata: Annotated[dict[str, Any], schema(any_metadata=True)]
    spec: Spec


def test_every_type_has_its_schema() -> None:
    result = build_structural_schema(Spec)
    assert result["required"] == ["count", "template"]
    assert result["properties"] == {
        "amount": {"x-kubernetes-int-or-string": True},
        "anyThing": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "colour": {"type": "string", "enum": ["Red", "Blue"]},
        "count": {"type": "integer", "format": "int32"},
        "enabled": {"type": "boolean", "default": False},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "partName": {"type": "string"},
                    "weight": {"type": "integer", "format": "int64", "minimum": 0},
                },
                "required": ["partName"],
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["partName"],
        },
        "ratio": {"type": "number"},
        "template": {"x-kubernetes-preserve-unknown-fields": True},
        "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    }


def test_a_union_without_a_structural_schema_is_refused_when_the_schema_is_built() -> None:
    class Mixed(msgspec.Struct):
        value: int | list[str]

    with pytest.raises(TypeError, match="int_or_string"):
        build_structural_schema(Mixed)


def test_no_helper_key_gets_into_the_output() -> None:
    assert "x-required" not in str(build_structural_schema(Whole))
    assert "x-replace" not in str(build_structural_schema(Whole))


def test_a_definition_has_names_versions_columns_and_subresources() -> None:
    kind = Resource("example.com", "v1", "wholes", "Whole")
    version = Version(
        name="v1",
        root=Whole,
        storage=True,
        columns=(Column("NAME", "string", ".spec.colour"), Column("WIDE", "integer", ".spec.count", 1)),
        scale=ScalePaths(),
    )
    subresources = build_definition(
        kind, versions=[version, Version(name="v0", root=Whole, served=False)], short_names=["wh"]
    )
    assert subresources["metadata"] == {"name": "wholes.example.com"}
    assert subresources["spec"]["names"] == {
        "kind": "Whole",
        "listKind": "WholeList",
        "plural": "wholes",
        "singular": "whole",
        "shortNames": ["wh"],
    }
    assert subresources["spec"]["conversion"] == {"strategy": "None"}
    first, second = subresources["spec"]["versions"]
    assert first["subresources"]["scale"]["labelSelectorPath"] == ".status.labelSelector"
    assert [column.get("priority") for column in first["additionalPrinterColumns"]] == [None, 1]
    assert (second["served"], second["storage"], second["subresources"]) == (False, False, {"status": {}})
    root = first["schema"]["openAPIV3Schema"]
    assert root["properties"]["metadata"] == {"type": "object"}
    assert "required" not in root


def test_a_conversion_webhook_can_be_given() -> None:
    kind = Resource("example.com", "v1", "wholes", "Whole", namespaced=False)
    conversion = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    result = build_definition(kind, versions=[Version(name="v1", root=Whole)], conversion=conversion)
    assert (result["spec"]["conversion"], result["spec"]["scope"]) == (conversion, "Cluster")


def test_blank_objects_share_no_lists() -> None:
    # given
    required = {"type": "object", "required": ["items"], "properties": {"items": {"type": "array"}}}
    # when
    first, second = blank_of(required), blank_of(required)
    first["items"].append("changed")
    # then
    assert second == {"items": []}
