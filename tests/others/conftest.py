"""Programs of other projects with pykruise, on a real control plane: started once, with recorded results.

    @pytest.mark.program("OpenKruise Rollouts", "0.6.2", "CloneSet: canary by partition")

Each test names the program, its version and what it runs. `make test-others` records them in results.json, from which
`make docs` generates the table of docs/compatibility.md. It builds missing programs; without `--build-others` their
tests are skipped.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from others.client_work import Place
from others.cluster import Cluster
from support.go_programs import has_go
from support.up import running_up
from testbed.build import CONTROL_PLANE, BuildError, Part, build, default_version, is_built
from testbed.control_plane import ControlPlane
from testbed.go_manager import GoManager
from tools.others_results import RESULTS, Result, format_results, read_results

M = TypeVar("M", bound=GoManager)

_RAN: Final = pytest.StashKey[dict[tuple[str, str], Result]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "program(name, version, ran): the program of others that the test runs"
    )
    config.stash[_RAN] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    mark = item.get_closest_marker("program")
    if mark is not None and (report.when == "call" or report.failed):
        program, version, ran = mark.args
        ran_before = item.config.stash[_RAN].get((program, ran))
        works = report.passed and (ran_before is None or ran_before.works)
        item.config.stash[_RAN][program, ran] = Result(program, version, ran, works=works)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    ran = session.config.stash[_RAN]
    if ran and session.config.getoption("--keep-results"):
        programs = {
            result.program for result in ran.values()
        }  # earlier results of these programs are replaced
        others = [result for result in read_results() if result.program not in programs]
        RESULTS.write_text(format_results([*others, *ran.values()]))


@contextmanager
def running(loop: "Loop", manager: M) -> Iterator[M]:
    """Install and start the manager of another project beside pykruise's manager, and stop it at the end."""
    try:
        loop.run(manager.install())
        loop.run(manager.start())
        yield manager
    finally:
        loop.run(manager.stop())


class Loop:
    """An event loop for fixtures that many tests share. Tests that use it are plain functions."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Any) -> Any:
        """Wait for a coroutine."""
        return self._runner.run(work)

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def needed(request: pytest.FixtureRequest) -> Callable[[Part, str], Path]:
    """The folder of a part of the testbed; skips the test if the part is not built and may not be built."""

    def folder(part: Part, minor: str) -> Path:
        if request.config.getoption("--cluster") != "real":
            pytest.skip("needs --cluster=real: make test-others")
        if not has_go():
            pytest.skip("programs of others are built with Go")
        if not request.config.getoption("--build-others") and not is_built(minor, part=part):
            pytest.skip(f"{part.product} {minor} is not built yet: make test-others")
        try:
            return build(minor, part=part)
        except BuildError as error:
            pytest.skip(str(error))

    return folder


@pytest.fixture(scope="session")
def cluster(
    needed: Callable[[Part, str], Path], loop: Loop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """An installed pykruise on a real control plane with simulated nodes."""
    needed(CONTROL_PLANE, default_version())
    plane: ControlPlane = loop.run(ControlPlane.start())
    cluster = Cluster(plane, tmp_path_factory.mktemp("cluster"))
    try:
        loop.run(cluster.start())
        yield cluster
    finally:
        cluster.stop()
        loop.run(plane.stop())
    assert "Traceback" not in cluster.log("manager")


@pytest.fixture(scope="module", params=["sandbox", "real"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cluster with the objects that clients need: the sandbox over HTTPS, and a real API server.

    In the sandbox clients use one version of each kind; with --exhaustive every version, as on the real API server.
    """
    if request.param == "real":
        cluster: Cluster = request.getfixturevalue("cluster")
        place = Place(cluster.plane.kubeconfig, str(cluster.plane.find_binary("kubectl")))
        place.prepare()
        yield place
        place.clear()
        return
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl")
    with running_up(tmp_path_factory.mktemp("up")) as up:
        place = Place(up.kubeconfig, kubectl, only_stored=not request.config.getoption("--exhaustive"))
        place.prepare()
        yield place
