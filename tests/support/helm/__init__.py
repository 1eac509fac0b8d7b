"""Helm itself, built from its Go module, to test the chart.

go.mod ──`go build`, once──▶ cache of the testbed ──▶ Helm.template(), Helm.run()
"""

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from support.charts import IMAGE_VALUES
from support.yaml_documents import yaml_documents
from testbed.build import cache_dir

__all__ = ["Helm", "build"]

HERE = Path(__file__).parent
PACKAGE = "helm.sh/helm/v3/cmd/helm"


def build() -> Path:
    """The program, built with the flags of testbed/build.py; the first time takes minutes."""
    key = hashlib.sha256((HERE / "go.sum").read_bytes()).hexdigest()[:16]
    program = cache_dir() / f"helm-{key}"
    program.parent.mkdir(parents=True, exist_ok=True)
    with program.with_name(f"{program.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            partial = program.with_name(f"{program.name}.partial")
            command = [
                "go",
                "build",
                "-mod=readonly",
                "-buildvcs=false",
                "-trimpath",
                "-o",
                str(partial),
                PACKAGE,
            ]
            env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
            done = subprocess.run(command, cwd=HERE, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            partial.rename(program)
    return program


class Helm:
    """Helm on one cluster; without a kubeconfig it can only render. `home`: the folder for its files.

    Commands that render the chart get IMAGE_VALUES, unless a test sets other values.
    """

    def __init__(self, program: Path, *, home: Path, kubeconfig: Path | None = None) -> None:
        self._program = program
        self._env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubeconfig or home / "none"),
        }

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """The output of the command. Fails if the command fails."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({**IMAGE_VALUES, **(values or {})}, file)
            file.flush()
            takes_values = arguments[0] in ("template", "install", "upgrade", "lint")
            complete = [*arguments, "--values", file.name] if takes_values else arguments
            done = subprocess.run(
                [str(self._program), *complete], env=self._env, capture_output=True, text=True, check=False
            )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_to_run(self, *words: str, cwd: Path | None = None) -> tuple[int, str]:
        """The exit code of a command with exactly these words, and its whole output."""
        done = subprocess.run(
            [str(self._program), *words], env=self._env, cwd=cwd, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def template(self, chart: Path, values: Mapping[str, Any], *, kubernetes: str = "1.37") -> list[Any]:
        """All objects of a chart, without a cluster."""
        text = self.run("template", "kruise", str(chart), "--kube-version", kubernetes, values=values)
        return yaml_documents(text)
