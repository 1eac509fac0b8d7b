"""Helm 3 and Helm 4, unchanged, install a chart with every kind, and wait for it."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest
import yaml

from others.client_work import NAMESPACE, Document, Place
from others.gitops_objects import is_observed, samples, states
from others.modules import version_in_module
from support.helm import HERE
from support.helm import build as build_helm_3
from testbed.build import HELM, Part

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

HELM_3: Final = version_in_module("helm.sh/helm/v3", str(HERE))
HELM_4: Final = version_in_module(HELM.module, f"{HELM.name}-{HELM.minors[-1]}")
real: Final = pytest.mark.parametrize("place", ["real"], indirect=True)


class Helm:
    """One release of Helm with a home of its own. `run()` returns its exit code and all that it prints."""

    def __init__(self, program: Path, place: Place, home: Path) -> None:
        self._program = program
        self._home = home
        self._environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(place.kubeconfig),
        }

    def run(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(self._program), *words, "-n", NAMESPACE],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def upgrade(self, name: str, documents: Iterable[Document], *words: str) -> tuple[int, str]:
        """Install or upgrade a chart with these objects."""
        chart = self._home / name
        (chart / "templates").mkdir(parents=True, exist_ok=True)
        (chart / "Chart.yaml").write_text(
            yaml.safe_dump({"apiVersion": "v2", "name": name, "version": "1.0.0"})
        )
        (chart / "templates" / "all.yaml").write_text(yaml.safe_dump_all(documents))
        return self.run("upgrade", "--install", name, str(chart), "--wait", *words)


@pytest.fixture
def helms(needed: Callable[[Part, str], Path], place: Place, tmp_path: Path) -> dict[str, Helm]:
    """Both releases."""
    programs = {"3": build_helm_3(), "4": needed(HELM, HELM.minors[-1]) / "helm"}
    made = {}
    for name, program in programs.items():
        (tmp_path / name).mkdir()
        made[name] = Helm(program, place, tmp_path / name)
    return made


@real
@pytest.mark.parametrize(
    "release",
    [
        pytest.param(
            release, marks=pytest.mark.program("Helm", number, "every kind: install, wait, upgrade, delete")
        )
        for release, number in (("3", HELM_3), ("4", HELM_4))
    ],
)
def test_helm_installs_waits_and_upgrades_every_kind(
    helms: dict[str, Helm], place: Place, release: str
) -> None:
    helm, documents = helms[release], samples(place, f"helm{release}")
    # when
    code, said = helm.upgrade("every", documents, "--timeout=90s")
    # then
    assert code == 0, said
    before = generations(place, documents)
    # when nothing has changed
    code, said = helm.upgrade("every", documents, "--timeout=90s")
    # then nothing is written that a controller has to follow
    assert code == 0, said
    assert generations(place, documents) == before
    code, said = helm.run("uninstall", "every")
    assert code == 0, said


def generations(place: Place, documents: Iterable[Document]) -> dict[str, int]:
    items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    text = place.kubectl("get", "-f", "-", "-o", "json", text=json.dumps(items))
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["generation"]
        for item in json.loads(text)["items"]
    }


@real
@pytest.mark.program(
    "Helm", HELM_4, "workloads that are healthy, progressing, failed, paused: --wait ends as it should"
)
def test_the_wait_of_helm_4_ends_as_the_state_says(helms: dict[str, Helm], place: Place) -> None:
    helm, every = helms["4"], list(states(place))
    for number, state in enumerate(every):
        name = f"state-{number}"
        helm.upgrade(name, [state.document], "--timeout=2s")
        is_observed(place, state.document)
        # when
        timeout = "8s" if state.ends == "InProgress" else "60s"
        code, said = helm.upgrade(name, [state.document], f"--timeout={timeout}")
        # then
        assert (code == 0) == (state.ends == ""), (state, said)
        helm.run("uninstall", name)
