"""The public harnesses of harness/ with the programs that they are for, if those are in PATH. They are not built here.

tests/scenarios/test_harness.py plays the configurations without the programs.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from others.cluster import Cluster
from others.conftest import Loop
from support.harness import HARNESS
from testbed.build import CONTROL_PLANE, Part, default_version
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(900)]

WORKLOADS, PODS = 2, 3
"""Workloads of each kind, and pods of each workload."""


@pytest.fixture(scope="module")
def nodes_with_events(
    needed: Callable[[Part, str], Path], loop: Loop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster whose nodes write the events for which kube-burner waits."""
    needed(CONTROL_PLANE, default_version())
    plane: ControlPlane = loop.run(ControlPlane.start())
    cluster = Cluster(plane, tmp_path_factory.mktemp("cluster"), nodes=["--events"])
    try:
        loop.run(cluster.start())
        yield cluster
    finally:
        cluster.stop()
        loop.run(plane.stop())


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """A function that runs a program in a copy of the folder, and returns the folder of its results."""

    def run(program: str, *words: str, **environment: str) -> Path:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not in PATH (docs/harness.md says how to build it)")
        cluster: Cluster = request.getfixturevalue("nodes_with_events")
        folder = shutil.copytree(HARNESS, tmp_path / "harness")
        tools = Path(cluster.plane.find_binary("kubectl")).parent
        done = subprocess.run(
            [program, *words],
            cwd=folder,
            env={
                **os.environ,
                "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
                "KUBECONFIG": str(cluster.plane.kubeconfig),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return folder / "results"

    return run


def check_in_place(folder: Path) -> None:
    """Check that each pod of the kinds that update in place was updated in place."""
    for kind in ("cloneset", "statefulset"):
        figures = json.loads((folder / f"update-{kind}.json").read_text())
        assert (figures["pods"], figures["notInPlace"], figures["notReady"]) == (WORKLOADS * PODS, 0, 0)


def test_kube_burner_measures_three_kinds(run: Callable[..., Path]) -> None:
    # when
    settings = {"HARNESS_WORKLOADS": str(WORKLOADS), "HARNESS_PODS": str(PODS), "HARNESS_SETTLE": "5s"}
    results = run("kube-burner", "init", "-c", "kube-burner/workloads.yml", **settings) / "kube-burner"
    # then each pod was measured, when it was created and when it replaced another one
    check_in_place(results)
    for kind in ("cloneset", "statefulset", "deployment"):
        created = json.loads((results / f"podLatencyMeasurement-create-{kind}.json").read_text())
        assert len(created) == WORKLOADS * PODS, kind
        assert json.loads((results / f"churn-{kind}.json").read_text())["notReady"] == 0


def test_clusterloader_measures_three_kinds(run: Callable[..., Path]) -> None:
    # when
    words = [
        "--testconfig=clusterloader2/config.yaml",
        "--provider=local",
        "--enable-exec-service=false",
        "--report-dir=results/clusterloader2",
    ]
    results = (
        run("clusterloader2", *words, CL2_WORKLOADS=str(WORKLOADS), CL2_PODS=str(PODS)) / "clusterloader2"
    )
    # then
    check_in_place(results)
    assert list(results.glob("Timer_*"))
