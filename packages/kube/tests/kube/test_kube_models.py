"""Generated models: names, types, preserved fields, and the command that prints them."""

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import pytest

from pykruise.kube.documents import Document
from pykruise.kube.models import GenerationError, document, list_map_keys, models_module, parse
from pykruise.kube.models.command import main
from pykruise.kube.yaml_documents import read_yaml

DATA: Final = Path(__file__).parent / "data/definitions"


def definition(properties: Document, **schema: Any) -> Document:
    """A definition of the kind Thing whose spec has these properties."""
    spec = {"type": "object", "properties": properties, **schema}
    whole = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"group": "example.com", "names": {"kind": "Thing"}, "versions": [version]},
    }


def module_of(*definitions: Document, version: str = "") -> ModuleType:
    module = ModuleType("generated")
    exec(models_module(definitions, version=version), module.__dict__)
    return module


def thing(**spec: Any) -> Document:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}


def annotations_of(module: ModuleType, name: str = "ThingSpec") -> dict[str, Any]:
    return dict(getattr(module, name).__annotations__)


def test_types_follow_the_schema() -> None:
    module = module_of(
        definition(
            {
                "image": {"type": "string"},
                "replicas": {"type": "integer", "default": 1},
                "port": {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                },
                "policy": {"type": "string", "enum": ["Always", ""]},
                "level": {"type": "integer", "enum": [1, 2]},
                "ratio": {"type": "number"},
                "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "anything": {"x-kubernetes-preserve-unknown-fields": True},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"a": {"type": "string"}},
                },
                "gone": {"type": "string", "nullable": True},
                "names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            },
            required=["image", "replicas", "gone"],
        )
    )
    types = {name: str(given) for name, given in annotations_of(module).items()}
    assert types == {
        "image": "<class 'str'>",
        "gone": "str | None",
        "replicas": "int | None",
        "port": "int | str | None",
        "policy": "typing.Optional[typing.Literal['Always', '']]",
        "level": "typing.Optional[typing.Literal[1, 2]]",
        "ratio": "int | float | None",
        "limits": "dict[str, int | str] | None",
        "free": "dict[str, typing.Any] | None",
        "anything": "typing.Any",
        "pod": "dict[str, typing.Any] | None",
        "names": "list[typing.Literal['a', 'b']] | None",
    }
    required = {info.name for info in msgspec.structs.fields(module.ThingSpec) if info.required}
    assert required == {"image", "gone"}


def test_names_that_python_reserves_are_changed_and_documents_keep_theirs() -> None:
    fields = [
        "from",
        "class",
        "int",
        "rest",
        "$ref",
        "2nd",
        "hostIP",
        "host_ip",
        "clusterIPs",
        "URLPath",
        "-",
        "é",
    ]
    module = module_of(definition({name: {"type": "string"} for name in fields}))
    given = thing(**dict.fromkeys(fields, "x"))
    model = parse(module.Thing, given)
    names = [info.name for info in msgspec.structs.fields(module.ThingSpec)][1:]
    assert names == [
        *("from_", "class_", "int_", "rest_", "ref", "field_2nd", "host_ip", "host_ip_2", "cluster_ips"),
        *("url_path", "field", "field_2"),
    ]
    assert document(model) == given


def test_keyed_lists_name_the_fields_of_their_merge_key() -> None:
    item = {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}}}
    ports = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
    }
    module = module_of(definition({"ports": ports, "others": {"type": "array", "items": item}}))
    assert list_map_keys(module.ThingSpec, "ports") == ("port",)
    assert list_map_keys(module.ThingSpec, "others") == ()
    with pytest.raises(KeyError):
        list_map_keys(module.ThingSpec, "absent")


def test_equal_objects_share_a_class_and_each_has_its_name() -> None:
    probe = {"type": "object", "properties": {"path": {"type": "string"}}}
    module = module_of(definition({"liveness": probe, "readiness": probe}))
    assert module.ThingSpecLiveness is module.ThingSpecReadiness


def test_descriptions_with_any_characters_become_docstrings() -> None:
    texts = ['ends with "', 'has """ inside', "a \\ and \\n", "two\n\n  - lines", "null \0 byte", "x" * 300]
    module = module_of(
        definition(
            {f"f{number}": {"type": "string", "description": text} for number, text in enumerate(texts)}
        )
    )
    assert len(msgspec.structs.fields(module.ThingSpec)) == len(texts) + 1


def test_fields_unknown_to_the_type_are_kept_and_written_again() -> None:
    module = module_of(definition({"image": {"type": "string"}}))
    given = thing(image="a", added={"b": [1]})
    model = parse(module.Thing, given)
    assert model.spec.rest == {"added": {"b": [1]}}
    changed = msgspec.structs.replace(model, spec=msgspec.structs.replace(model.spec, image="b"))
    assert document(changed) == thing(image="b", added={"b": [1]})


def test_a_stored_null_is_kept_until_the_field_has_a_value() -> None:
    module = module_of(definition({"image": {"type": "string"}}))
    model = parse(module.ThingSpec, {"image": None})
    assert document(model) == {"image": None}
    assert document(msgspec.structs.replace(model, image="a")) == {"image": "a"}


def test_a_value_of_the_wrong_type_is_named_by_its_path() -> None:
    module = module_of(definition({"policy": {"type": "string", "enum": ["Always"]}}))
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.policy"):
        parse(module.Thing, thing(policy="Never"))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ([{"apiVersion": "v1", "kind": "Pod"}], "is not a CustomResourceDefinition"),
        ([], "the input contains no CustomResourceDefinition"),
        ([definition({}), definition({})], "generate two modules"),
    ],
)
def test_definitions_without_models_are_refused_with_the_reason(broken: list[Document], words: str) -> None:
    with pytest.raises(GenerationError, match=words):
        models_module(broken)


def test_a_version_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(GenerationError, match="Thing has no version v2: it has v1"):
        models_module([definition({})], version="v2")


# ── the command ──────────────────────────────────────────────────────────────


def test_the_command_prints_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models", str(DATA / "certificates.yaml")])
    assert capsys.readouterr().out == models_module([read_yaml((DATA / "certificates.yaml").read_text())])


def test_the_command_reads_standard_input_and_writes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO((DATA / "gatewayclasses.yaml").read_text()))
    main(["models", "-", "--version", "v1beta1", "-o", str(tmp_path / "models.py")])
    assert 'Literal["gateway.networking.k8s.io/v1beta1"]' in (tmp_path / "models.py").read_text()


@pytest.mark.parametrize("text", ["a: [", "kind: Pod", ""])
def test_the_command_ends_with_1_for_a_file_without_definitions(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["models", str(tmp_path / "file.yaml")])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: ")
