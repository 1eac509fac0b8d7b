"""Programs without an optional distribution or extra: they work, or say in one line what to install."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from support.partial_installs import PartialInstall, normal_name
from support.sources import ROOT

pytestmark = pytest.mark.real_time

PROJECTS: Final = {
    project["name"]: project
    for file in sorted((ROOT / "packages").glob("*/pyproject.toml"))
    for project in [tomllib.loads(file.read_text("utf-8"))["project"]]
}
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    f"{name}[{extra}]": tuple(normal_name(requirement) for requirement in requirements)
    for name, project in PROJECTS.items()
    for extra, requirements in project.get("optional-dependencies", {}).items()
}
REQUIRED: Final = {normal_name(need) for project in PROJECTS.values() for need in project["dependencies"]}

PYKRUISE: Final = "from pykruise.cli.entry import main; main()"
KUBECTL_KRUISE: Final = "from pykruise.cli.kubectl.entry import main; main()"
AGENT: Final = "import sys; from pykruise.agent.main import main; sys.exit(main())"
TESTS: Final = "import sys; sys.argv[0] = 'pytest'; import pytest; sys.exit(pytest.main(sys.argv[1:]))"

A_TEST: Final = "def test_a_rollout({fixture}):\n    pass\n"


def test_the_tested_extras_are_all_extras() -> None:
    assert set(EXTRAS) == {
        "pykruise-agent[node]",
        "pykruise[mcp]",
        "pykruise[traces]",
        "pykruise[testing]",
        "pykruise[sandbox]",
    } | {"pykruise-sandbox[testing]"}
    # and no other distribution requires the packages of an extra, so that they may really be missing
    assert {name for needs in EXTRAS.values() for name in needs} & REQUIRED <= {"pykruise-sandbox"}


@pytest.fixture
def without(tmp_path: Path, request: pytest.FixtureRequest) -> PartialInstall:
    return PartialInstall(tmp_path / "site", without=request.param)


DASHBOARD: Final = ("pykruise-dashboard",)
SANDBOX: Final = ("pykruise-sandbox", *DASHBOARD)


@pytest.mark.parametrize("without", [SANDBOX], indirect=True, ids=["sandbox"])
@pytest.mark.parametrize(
    "command", ["plan clonesets/web --set replicas=1", "simulate -f x.yaml", "demo", "up", "kubelets", "mcp"]
)
@pytest.mark.parametrize("program", [PYKRUISE, KUBECTL_KRUISE], ids=["pykruise", "kubectl-kruise"])
def test_commands_that_play_a_cluster_name_the_sandbox(
    without: PartialInstall, command: str, program: str
) -> None:
    code, output = without.run(program, *command.split())
    if "unknown command" in output:
        return  # kubectl kruise does not have it
    assert (code, output.count("\n")) == (1, 1), output
    assert "pip install 'pykruise[sandbox]'" in output


@pytest.mark.parametrize("without", [SANDBOX], indirect=True, ids=["sandbox"])
def test_fixtures_without_their_cluster_name_the_missing_package(
    without: PartialInstall, tmp_path: Path
) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    for fixture in ("kruise", "kruise_server"):
        (folder / "test_it.py").write_text(A_TEST.format(fixture=fixture))
        code, output = without.run(TESTS, "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", str(folder))
        assert code == 1
        assert "pip install 'pykruise[testing]'" in output


@pytest.mark.parametrize("without", [DASHBOARD], indirect=True, ids=["dashboard"])
@pytest.mark.parametrize("program", [PYKRUISE, KUBECTL_KRUISE], ids=["pykruise", "kubectl-kruise"])
def test_the_dashboard_is_named_where_it_is_not_installed(without: PartialInstall, program: str) -> None:
    code, output = without.run(program, "dashboard")
    assert (code, output.count("\n")) == (1, 1), output
    assert "pip install pykruise-dashboard" in output


@pytest.mark.parametrize("without", [EXTRAS["pykruise-agent[node]"]], indirect=True, ids=["node"])
def test_an_agent_without_its_node_packages_names_the_extra(without: PartialInstall) -> None:
    code, output = without.run(AGENT, NODE_NAME="node-1")
    assert (code, output.count("\n")) == (1, 1), output
    assert "pip install 'pykruise-agent[node]'" in output
    # and the sandbox, which uses its rules alone, goes on
    code, output = without.run(PYKRUISE, "demo")
    assert code == 0, output


@pytest.mark.parametrize("without", [EXTRAS["pykruise[mcp]"]], indirect=True, ids=["mcp"])
def test_mcp_without_the_sdk_names_the_extra(without: PartialInstall) -> None:
    code, output = without.run(PYKRUISE, "mcp")
    assert code == 1
    assert "pip install 'pykruise[mcp,sandbox]'" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("without", [EXTRAS["pykruise[traces]"]], indirect=True, ids=["traces"])
def test_a_manager_without_opentelemetry_names_the_extra_when_traces_are_configured(
    without: PartialInstall, tmp_path: Path
) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(NOWHERE)
    code, output = without.run(
        PYKRUISE, "manager", "--kubeconfig", str(config), OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1"
    )
    assert code == 1
    assert "pip install 'pykruise[traces]'" in output
    assert "Traceback" not in output


NOWHERE: Final = """
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: x, user: {}}]
"""


@pytest.mark.parametrize("without", [("pytest",)], indirect=True, ids=["pytest"])
def test_everything_except_the_fixtures_works_without_pytest(without: PartialInstall) -> None:
    code, output = without.run("from pykruise.testing import sandbox")
    assert code == 1
    assert "pip install 'pykruise-sandbox[testing]'" in output
    code, output = without.run(PYKRUISE, "demo")
    assert code == 0, output
