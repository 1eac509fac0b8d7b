"""Programs in Go for tests: built once per run with the flags of testbed/build.py, to share its packages."""

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["build_program", "has_go"]


def has_go() -> bool:
    """Whether Go is installed."""
    return shutil.which("go") is not None


def build_program(source: Path, folder: Path) -> Path:
    """The module in `source`, built into `folder`."""
    program = folder / source.name
    command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o", str(program), "."]
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program
