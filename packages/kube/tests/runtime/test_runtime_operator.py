"""The operators in the README of pykruise-kube and under examples/ work without a change."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS
from pykruise.runtime.actions import Create
from pykruise.runtime.objects import Seen, control_of, make_absent_document, make_object_views
from pykruise.runtime.operator import Operator, Work
from pykruise.runtime.plan import Chain, Plan, Stage, Step
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
            teams = sandbox.list("namespaces")
            return {
                entry["metadata"]["name"]: (entry["metadata"].get("labels") or {}).get("team")
                for entry in teams
            }

        sandbox.until(lambda: teams()["lab"] == "none")
        assert teams()["shop"] == "red"
        assert teams()["default"] == "none"


def test_an_object_of_a_key_enqueued_at_the_start_is_created() -> None:
    # given
    views = make_object_views(CONFIG_MAPS)

    def plan(seen: Seen) -> Plan:
        if seen.object.uid:
            return Plan()
        body = {"metadata": {"name": seen.object.name}}
        action = Create(resource=CONFIG_MAPS, key=seen.object.key, body=body)
        stage = Chain(subject="", steps=(Step(action=action, because="it is to be there"),))
        return Plan(stages=(Stage(purpose="create", chains=(stage,)),))

    control = msgspec.structs.replace(
        control_of(CONFIG_MAPS, plan),
        objects=views,
        wakes=lambda _: (),
        at_start=(Key("default", "settings"),),
        absent=make_absent_document,
    )
    with Sandbox(nodes=0) as sandbox:
        # when
        sandbox.start(Operator(sandbox.client, [Work(resource=CONFIG_MAPS, control=control)]).run())
        # then
        sandbox.until(
            lambda: [entry["metadata"]["name"] for entry in sandbox.list("configmaps")] == ["settings"]
        )


@pytest.mark.real_time
def test_the_example_operator_passes_its_own_tests_in_a_separate_project(tmp_path: Path) -> None:
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
