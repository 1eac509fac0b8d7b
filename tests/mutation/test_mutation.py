"""The generator of mutants: its mutants, their execution, and explanations of existing mutants."""

import textwrap
from pathlib import Path

import pytest

from mutation import mutants as the_module
from mutation.children import LimitError, in_child
from mutation.explained import explained
from mutation.mutants import mutants_of
from mutation.patching import Functions

SOURCE = Path(__file__).parents[2] / "packages/pykruise/src/pykruise"


def _names(body: str) -> set[str]:
    source = "def f(a, b) -> int:\n" + textwrap.indent(body, "    ")
    return {mutant.name.removeprefix("f: ") for mutant in mutants_of(source)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if a < b:\n    g()", {"a < b → True", "a < b → False", "a < b → a <= b", "g() → pass"}),
        (
            "if a > 1:\n    g()",
            {"a > 1 → True", "a > 1 → False", "a > 1 → a >= 1", "a > 1 → a > 2", "g() → pass"},
        ),
        ("if a and b:\n    g()", {"a and b → False", "a and b → a", "a and b → b", "g() → pass"}),
        ("return min(a, b)", {"min(a, b) → 0", "min(a, b) → max(a, b)"}),
        ("return a + b", {"a + b → 0", "a + b → a - b"}),
        ("for x in a[:b]:\n    continue", {"a[:b] → a[:]", "continue → pass"}),
    ],
)
def test_each_mutation_is_generated_once(body: str, expected: set[str]) -> None:
    assert _names(body) == expected


@pytest.mark.parametrize("body", ["message = a + 1", "raise ValueError(f'{a + 1} is too many')", "'a text'"])
def test_texts_for_people_are_not_mutated(body: str) -> None:
    assert _names(body) == set()


def test_only_the_patched_process_runs_the_mutant() -> None:
    # given one in a function that this process has imported
    path = Path(the_module.__file__)
    mutant = next(mutant for mutant in mutants_of(path.read_text()) if mutant.name == "_like_boundary: 1 → 2")

    def patched() -> int:
        Functions().patch(path, mutant)
        return the_module._like_boundary(the_module.ast.Lt())

    # then
    assert in_child(patched, cpu_s=20.0) == 2
    assert the_module._like_boundary(the_module.ast.Lt()) == 1


def test_a_mutant_that_does_not_end_is_cut_off() -> None:
    def for_ever() -> None:
        while True:
            pass

    with pytest.raises(LimitError):
        in_child(for_ever, cpu_s=0.5)


@pytest.mark.parametrize("file", sorted(explained()))
def test_every_explanation_is_of_a_mutant_that_exists(file: str) -> None:
    names = {mutant.name for mutant in mutants_of((SOURCE / file).read_text())}
    assert explained()[file].keys() <= names
    assert all(explained()[file].values())
