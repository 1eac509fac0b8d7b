"""Models of all existing CRDs, and of random ones: lossless, and typed for users of mypy."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds import build_crds
from pykruise.kube.documents import Document
from pykruise.kube.models import Model, document, models_module, parse
from pykruise.kube.schemas.builtin_types import fields_of
from pykruise.kube.yaml_documents import read_yaml
from support.schema_documents import Growth, document_of
from support.sources import ROOT

FOREIGN: Final = [
    read_yaml(path.read_text())
    for path in sorted((ROOT / "packages/kube/tests/kube/data/definitions").glob("*.yaml"))
]
DEFINITIONS: Final = [
    pytest.param(definition, version, id=f"{definition['spec']['names']['kind']}-{version['name']}")
    for definition in [*build_crds(), *FOREIGN]
    for version in definition["spec"]["versions"]
]


def class_of(definition: Document, version: str) -> Any:
    module = ModuleType("generated")
    exec(models_module([definition], version=version), module.__dict__)
    return getattr(module, definition["spec"]["names"]["kind"])


def with_unknown_fields(value: Any) -> Any:
    """The model with a field that no type has in each of its objects, as a newer definition would add."""
    if isinstance(value, Model):
        fields = [info.name for info in msgspec.structs.fields(type(value)) if info.name != "rest"]
        changed = {name: with_unknown_fields(getattr(value, name)) for name in fields}
        return msgspec.structs.replace(value, **changed, rest={"addedLater": {"a": [None]}})
    if isinstance(value, dict):
        return {name: with_unknown_fields(item) for name, item in value.items()}
    return [with_unknown_fields(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("definition", "version"), DEFINITIONS)
def test_a_document_with_every_field_survives_parsing_and_writing(
    definition: Document, version: Document
) -> None:
    schema = version["schema"]["openAPIV3Schema"]
    model = class_of(definition, version["name"])
    names = {"apiVersion": f"{definition['spec']['group']}/{version['name']}", "kind": model.__name__}
    whole = document_of(schema, Growth(fields=fields_of)) | {"metadata": {"name": "a"}} | names
    for part in ("spec", "status"):
        if isinstance(whole.get(part), dict) and "properties" in schema["properties"][part]:
            assert getattr(parse(model, whole), part).rest == {}
    assert document(parse(model, whole)) == whole
    newer = with_unknown_fields(parse(model, whole))
    assert parse(model, document(newer)) == newer


@pytest.mark.real_time
def test_mypy_in_strict_mode_accepts_every_module(tmp_path: Path) -> None:
    for definition in [*build_crds(), *FOREIGN]:
        for version in definition["spec"]["versions"]:
            name = f"{definition['spec']['names']['plural']}_{version['name']}.py"
            (tmp_path / name).write_text(models_module([definition], version=version["name"]))
    (tmp_path / "user.py").write_text(USER)
    paths = sorted(str(path) for path in tmp_path.glob("*.py"))
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        f"--cache-dir={tmp_path}/cache",
        "--config-file=mypy.ini",
        *paths,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout


USER: Final = """
from certificates_v1 import Certificate, CertificateSpec, CertificateSpecIssuerRef
from pykruise.kube.models import ModelMetadata, document, parse

certificate = Certificate(
    metadata=ModelMetadata(name="web"),
    spec=CertificateSpec(issuer_ref=CertificateSpecIssuerRef(name="ca"), secret_name="web"),
)
read: Certificate = parse(Certificate, document(certificate))
secret: str = read.spec.secret_name if read.spec else ""
broken = CertificateSpec(secret_name=1)  # type: ignore[call-arg, arg-type]
"""


# ── random definitions ───────────────────────────────────────────────────────

_NAMES: Final = st.sampled_from(
    [
        "a",
        "from",
        "hostIP",
        "host_ip",
        "int",
        "rest",
        "$ref",
        "items",
        "ports",
        "status",
        "x-y",
        "class",
        "Any",
        "None",
    ]
)
_LEAVES: Final = st.sampled_from(
    [
        ({"type": "string"}, st.text(max_size=3)),
        ({"type": "integer"}, st.integers(-5, 2**40)),
        ({"type": "number"}, st.one_of(st.integers(0, 9), st.floats(0, 1))),
        ({"type": "boolean"}, st.booleans()),
        ({"x-kubernetes-int-or-string": True}, st.one_of(st.integers(0, 9), st.text(max_size=3))),
        ({"type": "string", "enum": ["", "None", 'a"b']}, st.sampled_from(["", "None", 'a"b'])),
        ({"type": "string", "nullable": True}, st.one_of(st.none(), st.text(max_size=3))),
        ({"x-kubernetes-preserve-unknown-fields": True}, st.one_of(st.none(), st.just({"a": [1]}))),
    ]
)
Pair = tuple[Document, "st.SearchStrategy[Any]"]
"""A schema, and the documents that it allows."""


def _lists(pair: Pair) -> Pair:
    return {"type": "array", "items": pair[0]}, st.lists(pair[1], max_size=2)


def _maps(pair: Pair) -> Pair:
    values = st.dictionaries(st.sampled_from(["k", "from"]), pair[1], max_size=2)
    return {"type": "object", "additionalProperties": pair[0]}, values


@st.composite
def _objects(draw: st.DrawFn, children: "st.SearchStrategy[Pair]") -> Pair:
    fields = draw(st.dictionaries(_NAMES, children, min_size=1, max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(fields)), unique=True))
    schema = {
        "type": "object",
        "properties": {name: field for name, (field, _) in fields.items()},
        "required": required,
    }
    optional = {
        name: st.one_of(values, st.none()) for name, (_, values) in fields.items() if name not in required
    }
    optional |= {"addedLater": st.just({"from": None}), "(rest)": st.just({"a": 1})}
    values = st.fixed_dictionaries({name: fields[name][1] for name in required}, optional=optional)
    return schema, values


PAIRS: Final = _objects(
    st.recursive(
        _LEAVES,
        lambda children: st.one_of(children.map(_lists), children.map(_maps), _objects(children)),
        max_leaves=6,
    )
)


@given(st.data())
def test_documents_of_random_definitions_survive_parsing_and_writing(data: st.DataObject) -> None:
    spec, values = data.draw(PAIRS)
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"group": "example.com", "names": {"kind": "Thing"}, "versions": [version]},
    }
    whole = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": data.draw(values),
    }
    assert document(parse(class_of(definition, "v1"), whole)) == whole
