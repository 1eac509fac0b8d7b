"""What every command takes: -h, --version, completion; and how one ends that is wrong, or whose output is not read."""

import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pykruise.cli.insight.charts import svg_charts
from pykruise.cli.insight.simulating.values import Played, Sample
from pykruise.cli.main import app
from pykruise.kube.version import __version__
from support.scenario import cloneset
from support.up import PYKRUISE, pykruise


@pytest.mark.parametrize("command", sorted(app.commands))
def test_every_command_explains_itself_with_h(command: str) -> None:
    if command == "manager":
        return  # its flags are OpenKruise's, which have --help alone
    done = CliRunner().invoke(app, [command, "-h"])
    assert done.exit_code == 0
    assert "Usage:" in done.output


def test_the_version_is_a_flag_too() -> None:
    assert pykruise("--version").stdout.strip() == __version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion(shell: str) -> None:
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0
    assert "pykruise" in done.output


@pytest.mark.parametrize("arguments", [("plan", "--nope"), ("nope",), ("completion", "tcsh"), ("uninstall",)])
def test_usage_errors_end_with_1_for_2_says_something_else(arguments: tuple[str, ...]) -> None:
    assert pykruise(*arguments).returncode == 1


def test_a_command_whose_pipe_is_closed_ends_quietly() -> None:
    # given a reader that has seen enough after a line, and far more output than a pipe holds
    with subprocess.Popen([*PYKRUISE, "crds"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        # then
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_a_folder_of_manifests_is_read_by_name(tmp_path: Path) -> None:
    from pykruise.cli.manifests import read_documents

    (tmp_path / "b.yaml").write_text(yaml.safe_dump(cloneset("two")))
    (tmp_path / "a.yml").write_text(yaml.safe_dump(cloneset("one")))
    (tmp_path / "notes.txt").write_text("no manifest")
    assert [document["metadata"]["name"] for document in read_documents(tmp_path)] == ["one", "two"]


def test_pictures_stand_side_by_side_with_axes_the_wanted_number_and_marks() -> None:
    # given two plays, one of which was disturbed from outside
    calm = Played(
        samples=(Sample(at_s=0, revisions={"a": 3}, available=3),), target="a", wanted=3, duration_s=9.0
    )
    drained = Played(
        samples=(Sample(at_s=0, revisions={"a": 5}, available=1),),
        events=((4.0, "node-1 is drained"), (5.0, "web-x is ready")),
        wanted=5,
    )
    # when
    picture = svg_charts([("one.yaml", calm), ("two.yaml", drained)])
    # then
    assert picture.count("<g transform=") == 2
    assert picture.count("time since the change") == 2
    assert "wanted 3" in picture
    assert "wanted 5" in picture
    assert "node-1 is drained</title>" in picture
    assert "web-x" not in picture


def test_a_verb_of_kubectl_kruise_loads_neither_whole_kinds_nor_what_only_others_need() -> None:
    """It starts in a fraction of a second because of what it does not load."""
    # given everything that `rollout` and `set` need
    modules = (
        "entry",
        "rollout",
        "rollout_status",
        "setting",
        "scaling",
        "changing",
        "printing",
        "revisions",
    )
    names = ", ".join(modules)
    unwanted = (
        "pykruise.plans.kind",
        "pykruise.kinds.cloneset.kind",
        "click",
        "aiohttp",
        "kubernetes",
        "cryptography",
        "rich",
        "pykruise.sandbox",
    )
    program = (
        f"import sys; from pykruise.cli.kubectl import {names}; import pykruise.kube.config.kubeconfig\n"
        "import pykruise.kube.http.transport;"
        f" print([one for one in {unwanted!r} if one in sys.modules])"
    )
    # then
    done = subprocess.run(
        [PYKRUISE[0], "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_plugin_is_installed_with_its_names() -> None:
    from importlib.metadata import entry_points

    scripts = {
        point.name: point.value
        for point in entry_points(group="console_scripts")
        if "pykruise" in point.value
    }
    assert scripts["kubectl-kruise"] == "pykruise.cli.kubectl.entry:main"
    assert scripts["kubectl_complete-kruise"] == "pykruise.cli.kubectl.entry:complete_main"
    assert scripts["resourcedistributiongenerator"] == "pykruise.cli.kubectl.generating:main"


def test_without_the_dashboard_its_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    done = CliRunner().invoke(app, ["dashboard", "--port", "1"])
    assert done.exit_code == 1
    assert "pip install pykruise-dashboard" in done.output
    assert CliRunner().invoke(app, ["dashboard", "-h"]).exit_code == 0
