"""What the README of pykruise-kube shows, and the operator under examples/, work as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pykruise.runtime.operator import Operator
from pykruise.testing.sandbox import Sandbox
from support.sources import ROOT

README = (ROOT / "packages" / "kube" / "README.md").read_text()
EXAMPLE = ROOT / "examples" / "operator"


def test_the_controller_of_the_readme_labels_namespaces_new_and_old() -> None:
    # given
    (text,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    module: dict[str, Any] = {"__name__": "teams"}
    exec(compile(text, "README.md", "exec"), module)
    with Sandbox(nodes=0) as sandbox:
        # when
        sandbox.start(Operator(sandbox.client, [module["TEAMS"]]).run())
        sandbox.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: red}}}")
        sandbox.apply("{apiVersion: v1, kind: Namespace, metadata: {name: lab}}")
        # then

        def teams() -> dict[str, str | None]:
            found = sandbox.list("namespaces")
            return {
                one["metadata"]["name"]: (one["metadata"].get("labels") or {}).get("team") for one in found
            }

        sandbox.until(lambda: teams()["lab"] == "none")
        assert teams()["shop"] == "red"
        assert teams()["default"] == "none"


@pytest.mark.real_time
def test_the_example_passes_its_own_tests_in_a_project_of_its_own(tmp_path: Path) -> None:
    project = tmp_path / "operator"
    project.mkdir()
    for file in EXAMPLE.iterdir():
        if file.suffix in (".py", ".yaml"):
            (project / file.name).write_text(file.read_text())
    (project / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
