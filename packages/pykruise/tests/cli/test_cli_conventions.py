"""Options of every command: -h, --version, completion; and the end of a command with an error or with unread output."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from pykruise.agent.flags import format_help as agent_help
from pykruise.cli.commands.words import Word
from pykruise.cli.insight.charts import draw_svg_charts
from pykruise.cli.insight.simulating.values import Played, Sample
from pykruise.cli.kubectl.flags import parse
from pykruise.cli.kubectl.tree import flags_of, list_all_commands, lookup
from pykruise.cli.main import app, run_app
from pykruise.dashboard.command import dashboard
from pykruise.kube.version import __version__
from pykruise.manager.flags import format_flag_help as manager_help
from support.scenario import cloneset
from support.up import PYKRUISE, pykruise


@pytest.mark.parametrize("command", sorted(app.commands))
def test_every_command_explains_itself_with_h(command: str) -> None:
    if command == "manager":
        return  # its flags are OpenKruise's, which have no -h
    done = CliRunner().invoke(app, [command, "-h"])
    assert done.exit_code == 0
    assert "Usage:" in done.output


def leaves(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands that are not groups, each with its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, child in command.commands.items():
        yield from leaves(child, (*path, name))


COMMANDS = {
    **dict(leaves(app)),
    ("dashboard",): dashboard,  # the command of the same name loads it
}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_examples_that_it_can_parse(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert isinstance(command, Word)
    assert command.examples
    for example in command.examples:
        line = next(part for part in example.split("|") if " ".join(path) in part)
        words = shlex.split(line.removeprefix(" pykruise "), comments=True)
        words = words[: words.index(">")] if ">" in words else words
        assert words[: len(path)] == list(path), example
        command.make_context(" ".join(path), words[len(path) :]).close()


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, command in list_all_commands()
        if command.takes not in ("kubectl", "pykruise") and not command.is_hidden
    ],
    ids=" ".join,
)
def test_the_help_of_every_verb_has_examples_that_it_can_parse(path: tuple[str, ...]) -> None:
    command = next(command for known, command in list_all_commands() if known == path)
    if command.children:
        return
    assert command.examples
    for example in command.examples:
        words = shlex.split(example, comments=True)
        result, named, rest = lookup(words[: words.index(">")] if ">" in words else words)
        assert (result, named) == (command, path), example
        if command.takes != "words":
            parse(rest, flags_of(command))


WITHOUT_SANDBOX = """
import contextlib, importlib, io, json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[2].partition(".")[0] in ("sandbox", "testing") and name.startswith("pykruise."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from importlib import util
real = util.find_spec
from pykruise.cli.commands import words
words.find_spec = lambda name: None if name == "pykruise.sandbox" else real(name)
from pykruise.cli.kubectl.tree import list_all_commands
from pykruise.cli.main import run_app

outputs = {}
for name, line in json.load(sys.stdin).items():
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            run_app(line, program="pykruise")
        except ModuleNotFoundError as error:
            said.write(f"missing: {error}")
    outputs[name] = said.getvalue()[-400:]
for path, command in list_all_commands():
    if command.run and command.takes not in ("kubectl", "pykruise"):
        importlib.import_module("pykruise.cli.kubectl." + command.run.partition(":")[0])
importlib.import_module("pykruise.cli.manager")
importlib.import_module("pykruise.insight")
print(json.dumps(outputs))
"""


@pytest.mark.real_time
def test_commands_work_or_name_the_sandbox_package_when_it_is_not_installed(tmp_path: Path) -> None:
    """Neither `pip install pykruise` nor the image contains the sandbox package."""
    # given every command with a cluster that does not answer
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(NOWHERE))
    asking = {"explain": ["clonesets/web"], "plan": ["clonesets/web", "--set", "replicas=1"]}
    lines = {}
    for path, command in COMMANDS.items():
        if path in (("manager",), ("dashboard",)):
            continue
        takes = any(param.name == "kubeconfig" for param in command.params) and path != ("up",)
        more = ["--to", "v1beta1"] if path[-1] == "move" else asking.get(path[0], [])
        more = ["bash"] if path == ("completion",) else ["--check"] if path == ("uninstall",) else more
        lines[" ".join(path)] = [*path, *more, *(["--kubeconfig", str(config)] if takes else [])]
    # when
    done = subprocess.run(
        [PYKRUISE[0], "-c", WITHOUT_SANDBOX],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    # then
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)
    assert {name: said for name, said in outputs.items() if "missing: " in said} == {}
    needing = {
        " ".join(path)
        for path, command in COMMANDS.items()
        if isinstance(command, Word) and command.needs_sandbox
    }
    assert {name for name, said in outputs.items() if "pip install 'pykruise[sandbox]'" in said} == needing
    assert "explain" not in needing


NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "x", "user": {}}],
}


@pytest.mark.parametrize("text", [manager_help(), agent_help()], ids=["manager", "agent"])
def test_the_help_of_programs_on_the_cluster_has_examples(text: str) -> None:
    assert "\nExamples:\n  " in text


MEANINGLESS = (
    ("nope",),
    ("plan", "--v", "much"),
    ("plan",),
    ("plan", "clonesets/web"),
    ("plan", "clonesets/web", "-o", "table"),
    ("explain",),
    ("simulate",),
    ("simulate", "-f", "examples/cloneset.yaml", "--pods-ready-after", "soon"),
    ("simulate", "-f", "examples/cloneset.yaml", "--drain", "node-1"),
    ("storage", "move"),
    ("storage", "move", "--to", "v9"),
    ("completion",),
    ("completion", "tcsh"),
    ("install", "--api-server", "here"),
    ("install", "--feature-gates", "ImagePulJobGate=true"),
    ("up", "--feature-gates", "ImagePulJobGate=true"),
)
"""Command lines that say too little, or something that no file and no cluster gives a meaning."""


@pytest.mark.parametrize(
    "arguments",
    [
        *((*path, "--nope") for path in COMMANDS if path != ("manager",)),
        *MEANINGLESS,
    ],
    ids=" ".join,
)
def test_every_usage_error_is_two_lines_of_the_same_form(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(arguments, program="pykruise") == 1
    first, second = capsys.readouterr().err.splitlines()
    assert re.match(r"error: [a-z-].*[^.]$", first), first
    assert re.fullmatch(r"See 'pykruise[ \w-]* --help' for usage\.", second), second
    assert "pykruise pykruise" not in second


def test_the_version_is_a_flag_too() -> None:
    assert pykruise("--version").stdout.strip() == __version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion(shell: str) -> None:
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0
    assert "pykruise" in done.output


@pytest.mark.parametrize("arguments", [("plan", "--nope"), ("nope",), ("completion", "tcsh"), ("uninstall",)])
def test_usage_errors_exit_with_1(arguments: tuple[str, ...]) -> None:
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


def test_charts_are_side_by_side_with_axes_the_desired_number_and_marks() -> None:
    # given two plays, one of which an outside client disturbed
    calm = Played(
        samples=(Sample(at_s=0, revisions={"a": 3}, available=3),), target="a", wanted=3, duration_s=9.0
    )
    drained = Played(
        samples=(Sample(at_s=0, revisions={"a": 5}, available=1),),
        events=((4.0, "node-1 is drained"), (5.0, "web-x is ready")),
        wanted=5,
    )
    # when
    picture = draw_svg_charts([("one.yaml", calm), ("two.yaml", drained)])
    # then
    assert picture.count("<g transform=") == 2
    assert picture.count("time since the change") == 2
    assert "wanted 3" in picture
    assert "wanted 5" in picture
    assert "node-1 is drained</title>" in picture
    assert "web-x" not in picture


def test_a_verb_of_kubectl_kruise_loads_neither_whole_kinds_nor_what_only_others_need() -> None:
    """A verb starts in a fraction of a second, because it loads little."""
    # given the modules that `rollout` and `set` need
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


def test_the_dashboard_command_names_its_package_when_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    done = CliRunner().invoke(app, ["dashboard", "--port", "1"])
    assert done.exit_code == 1
    assert "pip install pykruise-dashboard" in done.output
    assert CliRunner().invoke(app, ["dashboard", "-h"]).exit_code == 0
