"""YAML is read as API servers read it, and only in one module."""

import ast
from pathlib import Path

from pykruise.kube.yaml_documents import read_yaml, read_yaml_documents
from support.sources import SOURCES

HOME = "yaml_documents.py"
OWN_FILES = {"credential_plugins.py", "faults_file.py", "kubeconfig_files.py"}
"""Files of programs, which are no Kubernetes objects."""


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


def calls_of_yaml(path: Path) -> list[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [ast.unparse(function) for function in calls]
    return [name for name in names if name.startswith("yaml.") and "load" in name]


def test_no_other_module_loads_objects_from_yaml() -> None:
    paths = [path for folder in SOURCES for path in folder.rglob("*.py")]
    others = [path for path in paths if path.name != HOME and path.name not in OWN_FILES]
    assert {str(path) for path in others if calls_of_yaml(path)} == set()
