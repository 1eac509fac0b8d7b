"""Small Go programs of the testbed that call the packages of another project: JSON in, JSON out."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Program", "program_of"]

Program = Callable[..., Any]


def program_of(path: Path) -> Program:
    """Return a function that calls the program with these words as arguments. `environment`: further variables."""

    def ask(question: Any, *words: str, **environment: str) -> Any:
        done = subprocess.run(
            [str(path), *words],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask
