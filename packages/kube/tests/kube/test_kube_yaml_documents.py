"""YAML is read as API servers read it, and only in one module."""

import ast
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.yaml_documents import format_yaml, read_yaml, read_yaml_documents
from support.sources import SOURCES

HOME = "yaml_documents.py"
OWN_FILES = {"credential_plugins.py", "faults_file.py"}
"""Files of programs, which are no Kubernetes objects."""

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(st.characters(codec="ascii"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abyn019.", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_dates_and_a_plain_equals_sign_are_texts() -> None:
    assert read_yaml("{a: 2026-01-02, b: 2026-01-02T03:04:05Z, c: =, d: 1, e: true}") == {
        "a": "2026-01-02",
        "b": "2026-01-02T03:04:05Z",
        "c": "=",
        "d": 1,
        "e": True,
    }


def test_an_empty_yaml_document_is_none() -> None:
    assert list(read_yaml_documents("a: 1\n---\n---\nb: 2\n")) == [{"a": 1}, None, {"b": 2}]


VALUES = {
    line.partition("\t")[0]: msgspec.json.decode(line.partition("\t")[2])
    for line in (Path(__file__).parent / "data" / "plain_texts.tsv").read_text().splitlines()
    if not line.startswith("#")
}


@pytest.mark.parametrize("text", VALUES)
def test_a_plain_text_has_the_value_that_kubernetes_reads(text: str) -> None:
    value = read_yaml(f"a: {text}\n")["a"]
    assert value == VALUES[text]
    assert isinstance(value, bool) is isinstance(VALUES[text], bool)
    assert isinstance(value, str) is isinstance(VALUES[text], str)


@given(
    st.one_of(st.sampled_from(sorted(VALUES)), st.from_regex(r"[-+.0-9_a-fxoeyn:~=<]{1,9}", fullmatch=True))
)
def test_a_written_text_is_a_text_for_every_reader(text: str) -> None:
    written = format_yaml({"a": text})
    assert read_yaml(written) == {"a": text}
    assert yaml.safe_load(written) == {"a": text}
    is_plain = written == f"a: {text}\n"
    assert not (is_plain and text in VALUES and VALUES[text] != text)


@given(JSON_VALUES)
def test_a_written_value_is_read_as_it_was(value: object) -> None:
    assert read_yaml(format_yaml(value)) == value


def test_keys_are_texts_as_kubernetes_reads_them() -> None:
    assert read_yaml(
        "{1: a, true: b, n: c, 1.5: d, 0x10: e, 22:30: f, 2026-01-02: g, -1.5e-7: h, '2': i}"
    ) == {
        "1": "a",
        "true": "b",
        "false": "c",
        "1.5": "d",
        "16": "e",
        "22:30": "f",
        "2026-01-02": "g",
        "-1.5e-07": "h",
        "2": "i",
    }


@pytest.mark.parametrize("text", ["{~: a}", "{[1]: a}", "{{a: b}: c}"])
def test_a_key_that_json_cannot_have_is_an_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="key"):
        read_yaml(text)


def calls_of_yaml(path: Path) -> list[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [ast.unparse(function) for function in calls]
    return [name for name in names if name.startswith("yaml.") and ("load" in name or "dump" in name)]


def test_no_other_module_loads_objects_from_yaml_or_writes_them() -> None:
    paths = [path for folder in SOURCES for path in folder.rglob("*.py")]
    others = [path for path in paths if path.name != HOME and path.name not in OWN_FILES]
    assert {str(path) for path in others if calls_of_yaml(path)} == set()
