"""The pytest plugin: as its page says, and what goes wrong tells why."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pykruise.kube.errors import NotFoundError
from pykruise.testing.sandbox import Sandbox

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "testing.md"
MANIFEST = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

SOURCES = os.pathsep.join(str(ROOT / "packages" / name / "src") for name in ("kube", "sandbox"))
"""All that the plugin needs."""

PLUGIN = ("-p", "pykruise.testing")

pytestmark = pytest.mark.sandbox(manifests="crd.yaml", nodes=0)

def test_it(sandbox):
    sandbox.apply("{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}}")
    assert [doc["metadata"]["name"] for doc in sandbox.list("things.example.com")] == ["a"]
    sandbox.delete("Thing", "a")
    assert sandbox.list("things") == []
"""
    # then
    assert "1 passed" in run_pytest(tmp_path, text, *PLUGIN).stdout


@pytest.mark.parametrize("options", [(), PLUGIN])
def test_installed_it_is_there_without_being_asked_for(tmp_path: Path, options: tuple[str, ...]) -> None:
    # given what an installation leaves beside the package
    project = tomllib.loads((ROOT / "packages" / "sandbox" / "pyproject.toml").read_text())["project"]
    entries = project["entry-points"]["pytest11"]
    installed = tmp_path / "site" / "pykruise-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pykruise\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in entries.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    text = "def test_it(sandbox): assert sandbox.list('nodes')\n"
    # then
    path = os.pathsep.join((SOURCES, str(installed.parent)))
    done = run_pytest(tmp_path, text, *options, path=path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_an_operator_that_dies_fails_the_test() -> None:
    async def operator() -> None:
        raise RuntimeError("my bug")

    with Sandbox(nodes=0) as sandbox:
        sandbox.start(operator())
        with pytest.raises(RuntimeError, match="my bug"):
            sandbox.advance(1)


def test_what_never_comes_true_fails_after_its_time() -> None:
    with Sandbox(nodes=0) as sandbox:
        with pytest.raises(AssertionError, match="not true within 100 s"):
            sandbox.until(lambda: sandbox.get("pods", "none"), within_s=100)
        assert sandbox.now >= 100
        with pytest.raises(LookupError, match="'nonsense'"):
            sandbox.get("nonsense", "a")
        with pytest.raises(NotFoundError):
            sandbox.get("pods", "none")


def test_equal_seeds_give_equal_runs() -> None:
    def names(seed: int) -> list[str]:
        with Sandbox(seed=seed) as sandbox:
            template = {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
            sandbox.apply(
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x"}, "spec": spec}
            )
            sandbox.advance(10)
            return [doc["metadata"]["name"] for doc in sandbox.list("pods")]

    assert names(1) == names(1)
    assert names(1) != names(2)
