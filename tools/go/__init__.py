"""Go programs that check this repository: each is a module in this folder, built once.

go.mod ──`go build`──▶ cache ──▶ find_program(name)      python -m tools.go actionlint FILE…
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

from testbed.build import BuildError, cache_dir

__all__ = ["PACKAGES", "find_program"]

PACKAGES: Final = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
    "crane": "github.com/google/go-containerregistry/cmd/crane",
}
_HERE: Final = Path(__file__).parent


def find_program(name: str) -> Path:
    """Return the path of the program, and build it if it is missing. The first build takes a minute. Raises
    BuildError.
    """
    module = _HERE / name
    key = hashlib.sha256((module / "go.sum").read_bytes()).hexdigest()[:16]
    built = cache_dir() / f"{name}-{key}"
    built.parent.mkdir(parents=True, exist_ok=True)
    with built.with_name(f"{built.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            partial = built.with_name(f"{built.name}.partial")
            options = ("-mod=readonly", "-buildvcs=false", "-trimpath", "-o", str(partial))
            env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
            try:
                subprocess.run(
                    ["go", "build", *options, PACKAGES[name]],
                    cwd=module,
                    env=env,
                    capture_output=True,
                    text=True,
                    check=True,
                )
            except FileNotFoundError as error:
                raise BuildError(f"{name} is built with Go, which is not installed") from error
            except subprocess.CalledProcessError as error:
                raise BuildError(f"{name} cannot be built: {error.stderr.strip()}") from error
            partial.rename(built)
    return built
