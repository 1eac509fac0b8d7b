"""plan, explain and simulate on the command line: exit codes with `pykruise up`, and one line for each error."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pykruise.cli.main import app
from support.scenario import cloneset
from support.up import pykruise, running_up

pytestmark = pytest.mark.real_time

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def written(path: Path, document: Any) -> str:
    path.write_text(yaml.safe_dump(document), "utf-8")
    return str(path)


def invoke(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, list(arguments))


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output, errors included."""
    done = invoke(*arguments)
    return done.exit_code, done.output


@needs_kubectl
def test_exit_codes_distinguish_changes_from_none_and_errors(tmp_path: Path) -> None:
    # given
    manifest = written(tmp_path / "app.yaml", cloneset(replicas=2))
    wrong = cloneset(replicas=2)
    wrong["spec"]["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": "5"}}
    refused = written(tmp_path / "wrong.yaml", wrong)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": []}}
    mixed = tmp_path / "mixed.yaml"
    mixed.write_text(yaml.safe_dump_all([service, cloneset(replicas=2)]), "utf-8")
    with running_up(tmp_path, "--nodes", "2") as up:
        there = ("--kubeconfig", str(up.kubeconfig))
        # when the workload does not exist yet; once in this process, which must not exit
        first = pykruise("plan", "-f", manifest, *there)
        up.says("apply", "-f", manifest)
        watched = invoke("explain", "clonesets/web", "--watch", *there)
        # and when it exists
        second = invoke("plan", "-f", manifest, *there)
        third = invoke("plan", "-f", refused, *there)
        beside = invoke("plan", "-f", str(mixed), *there)
        explained = invoke("explain", "clone/web", "-o", "json", *there)
        missing = invoke("explain", "clonesets/other", *there)
        # and for a user whom the API server does not know
        config = yaml.safe_load(up.kubeconfig.read_text("utf-8"))
        config["users"][0]["user"] = {"token": "wrong"}
        unknown_user = written(tmp_path / "unknown.yaml", config)
        unauthorized = [
            invoke(*arguments, "--kubeconfig", unknown_user)
            for arguments in (("plan", "-f", manifest), ("explain", "clonesets/web"))
        ]
    # then
    assert (first.returncode, first.stderr) == (2, "")
    assert first.stdout.startswith("CloneSet default/web: would be created\n")
    assert (second.exit_code, second.stdout) == (0, "CloneSet default/web: nothing would change\n")
    assert third.exit_code == 1
    assert third.stdout.startswith("CloneSet default/web: would be rejected\n  spec.updateStrategy")
    # and an object that is not a workload is named, and the workload is planned nevertheless
    expected = "CloneSet default/web: nothing would change\n\nNot planned: Service web\n"
    assert (beside.exit_code, beside.stdout) == (0, expected)
    # and a watch ends when the rollout is done
    assert watched.exit_code == 0
    assert "CloneSet default/web: Healthy." in watched.stdout
    assert (explained.exit_code, json.loads(explained.stdout)["verdict"]) == (0, "done")
    # and each error is one line
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr.startswith("error: there is no CloneSet default/other")
    for result in (missing, *unauthorized):
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1), result.stderr
    assert all("nauthorized" in item.stderr for item in unauthorized), unauthorized


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "clonesets/web", "--set", "replicas=1", "-o", "wide"),
        ("explain", "clonesets/web", "-o", "wide"),
        ("simulate", "-f", "FILE", "-o", "wide"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_unknown_output_is_a_usage_error(arguments: tuple[str, ...], tmp_path: Path) -> None:
    file = written(tmp_path / "app.yaml", cloneset())
    assert run(*(file if argument == "FILE" else argument for argument in arguments)) == (
        1,
        f"error: -o wide: must be text, json or yaml\nSee 'app {arguments[0]} --help' for usage.\n",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1,\nb: 2", "not valid YAML"),
        ("just words", "is a string, not a Kubernetes object"),
        ("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}", "or CloneSet (apps.kruise.io)"),
        ("", "or CloneSet (apps.kruise.io)"),
    ],
    ids=["no YAML", "no object", "unknown kind", "nothing"],
)
def test_a_file_that_cannot_be_simulated_is_reported_in_one_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(text, "utf-8")
    code, output = run("simulate", "-f", str(file))
    assert (code, len(output.splitlines())) == (1, 1), output
    assert output.startswith(f"error: {file}")
    assert problem in output


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_a_missing_file_is_reported_in_one_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert run(command, "-f", str(path)) == (1, f"error: {path}: No such file or directory\n")
