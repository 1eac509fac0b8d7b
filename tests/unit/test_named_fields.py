"""Fields that sentences name are fields of the kind: a remedy that names another one cannot be followed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pykruise.kinds
from pykruise.kinds import list_kinds
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import CODES, Code
from support.named_fields import fields_in, has_field

KINDS = {kind.name: kind for kind in list_kinds() if kind.versions}
FOLDER = Path(next(iter(pykruise.kinds.__path__)))
_BUILT_IN = {
    "advancedcronjob": {"spec.template.jobTemplate"},
    "uniteddeployment": {"spec.template.spec", "spec.selector"},
}
"""Fields of Kubernetes' objects that a kind creates."""


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Sentences in the code, except docstrings; of f-strings, the literal parts."""
    for file in sorted(folder.glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        notes = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }  # docstrings, of modules, classes, functions and fields
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in notes:
                continue
            if " " in node.value:
                yield f"{file.name}:{node.lineno}", node.value


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_field_in_a_sentence_of_a_kind_is_a_field_of_it(kind: Kind) -> None:
    unknown = {
        f"{place}: {field}"
        for place, text in texts_of(FOLDER / kind.name)
        for field in fields_in(text)
        if not has_field(kind, field) and not _is_of_another(kind, field)
    }
    assert not unknown


def _is_of_another(kind: Kind, field: str) -> bool:
    return any(field.startswith(text) for text in _BUILT_IN.get(kind.name, ()))


@pytest.mark.parametrize("code", list(Code))
def test_every_field_that_helps_in_general_is_a_field_of_some_kind(code: Code) -> None:
    for field in fields_in(CODES[code].helps):
        assert any(has_field(kind, field) for kind in KINDS.values()), field


def test_a_field_that_no_kind_has_is_detected() -> None:
    assert has_field(KINDS["cloneset"], "spec.updateStrategy.rollingUpdate.partition")
    assert has_field(KINDS["sidecarset"], "spec.updateStrategy.partition")
    assert not has_field(KINDS["uniteddeployment"], "spec.updateStrategy.rollingUpdate.partition")
    assert list(fields_in("set spec.paused to false, or spec.a.b")) == ["spec.paused", "spec.a.b"]
