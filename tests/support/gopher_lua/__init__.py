"""The Lua of Argo CD (gopher-lua) as a program. Most tests use another one (support/lua.py).

scripts with their globals ──▶ results_of() ──main.go──▶ the result of each
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.go_programs import build_program

__all__ = ["build", "results_of"]

HERE = Path(__file__).parent


def build(folder: Path) -> Path:
    """The program, built."""
    return build_program(HERE, folder)


def results_of(program: Path, scripts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
    """The result of each script. Raises AssertionError if one fails."""
    question = [{"script": script, "values": values} for script, values in scripts]
    done = subprocess.run([program], input=json.dumps(question), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    errors = sorted({answer["error"] for answer in answers if answer["error"]})
    assert not errors, errors[0]
    return [answer["result"] for answer in answers]
