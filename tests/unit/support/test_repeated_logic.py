"""The search for repeated logic finds steps, whatever their names are, and no data."""

from pathlib import Path

from support.repeated_logic import Repeat, repeated

STEPS = '''
def {name}({one}):
    """Docstrings do not count."""
    {two} = {one}.split("{name}")
    for part in {two}:
        if len(part) > {number}:
            return part
    return ""
'''


def test_steps_of_one_shape_are_found_under_other_names(tmp_path: Path) -> None:
    # given
    (tmp_path / "a.py").write_text(STEPS.format(name="first", one="text", two="parts", number=1))
    (tmp_path / "b.py").write_text("X = 1\n" + STEPS.format(name="last", one="line", two="words", number=99))
    # when, then
    assert repeated(tmp_path, least=5) == [Repeat("a.py", 4, "b.py", 5, 5)]
    assert repeated(tmp_path, least=6) == []


def test_a_function_that_repeats_itself_is_found_once(tmp_path: Path) -> None:
    steps = "".join(f"    a{n} = read({n})\n    if not a{n}:\n        raise ValueError\n" for n in range(2))
    (tmp_path / "a.py").write_text(f"def read_all():\n{steps}")
    assert repeated(tmp_path, least=3) == [Repeat("a.py", 2, "a.py", 5, 3)]


def test_declarations_and_forwarded_values_are_not_logic(tmp_path: Path) -> None:
    fields = "".join(f"        f{n}=source.f{n},\n" for n in range(9))
    kept = "".join(f"        self.f{n} = f{n}\n" for n in range(9))
    rows = "".join(f'    f{n}: int = {n}\n    """Field {n}."""\n' for n in range(9))
    for name in ("a", "b"):
        code = f"class A:\n{rows}\n    def keep(self):\n{kept}\n\ndef make():\n    return A(\n{fields}    )\n"
        (tmp_path / f"{name}.py").write_text(code)
    assert repeated(tmp_path, least=3) == []
