"""Command lines of `kubectl kruise` that are refused, each with one line and exit code 1."""

import pytest

from pykruise.kube.resources import STATEFUL_SETS
from support.kruise import Kruise
from support.scenario import Stage, cloneset

pytestmark = pytest.mark.virtual_time("the command line alone is looked at")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(("frobnicate",), 'unknown command "frobnicate"', id="cli case 2"),
        pytest.param(("rolout",), "Did you mean this?\n\trollout", id="cli case 2, a hint"),
        pytest.param(("rollout", "pause"), "required resource not specified", id="cli case 3"),
        pytest.param(
            ("rollout", "undo", "clone/web", "--to-revision=-1"), "revision", id="cli case 14, undo"
        ),
        pytest.param(("rollout", "history", "clone/web", "--revision=-1"), "revision", id="cli case 14"),
        pytest.param(("rollout", "history", "clone/web", "--revision=9"), "unable to find", id="cli case 16"),
        pytest.param(("set", "image", "clone/web", "*=a", "b=c"), "*", id="cli case 30"),
        pytest.param(("set", "image", "clone/web", "main=a", "--local"), "local", id="cli case 31"),
        pytest.param(("set", "env", "clone/web", "--keys=a"), "--from", id="cli case 37"),
        pytest.param(("set", "resources", "clone/web"), "--requests/--limits", id="cli case 39"),
        pytest.param(("scale", "clone", "--replicas=0"), "no name was specified", id="scale a type"),
        pytest.param(("expose", "clone", "--port=80"), "no name was specified", id="expose a type"),
        pytest.param(
            ("expose", "clone", "--port=80", "--selector=app=web"), "no name was", id="expose with a selector"
        ),
        pytest.param(("autoscale", "clone", "--max=3"), "no name was specified", id="autoscale a type"),
        pytest.param(
            ("scale", "asts", "--all", "--replicas=0"),
            "no objects passed to scale",
            id="scale none of a type",
        ),
        pytest.param(
            ("scale", "clone", "-l=app=no", "--replicas=0"), "no objects passed to scale", id="scale no match"
        ),
        pytest.param(
            ("autoscale", "clone", "-l=app=no", "--max=3"),
            "no objects passed to autoscale",
            id="autoscale none",
        ),
        pytest.param(
            ("scale", "clone/web", "clone/web", "--replicas=0", "--resource-version=1"),
            "cannot use --resource-version with multiple resources",
            id="scale several of one version",
        ),
        pytest.param(
            ("scale", "clone/web", "--replicas=0", "--current-replicas=-2"),
            "-1 or greater",
            id="scale from -2",
        ),
    ],
)
async def test_a_command_line_that_cannot_be_executed_is_refused(
    stage: Stage, words: tuple[str, ...], expected: str
) -> None:
    # given
    await stage.create(cloneset(replicas=1))
    # when
    said = await Kruise(stage).run(*words)
    # then
    assert said.code == 1
    assert said.err.startswith("error: ")
    assert expected in said.err
    assert said.out == ""


async def test_two_targets_for_the_cpu_are_refused(stage: Stage) -> None:
    await stage.create(cloneset(replicas=1))
    said = await Kruise(stage).refuses("autoscale", "clone/web", "--max=3", "--cpu=5", "--cpu-percent=5")
    assert said.splitlines()[-1] == "error: --cpu-percent and --cpu are mutually exclusive"


async def test_the_groups_of_commands_are_printed_without_a_command(stage: Stage) -> None:
    """cli case 1"""
    out = await Kruise(stage).says()
    assert all(name in out for name in ("rollout", "set", "explain", "plan"))
    assert "Understand Commands:" in out


async def test_a_finished_rollout_is_reported_in_one_line(stage: Stage) -> None:
    """cli case 4"""
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    out = await Kruise(stage).says("rollout", "status", "clone/web")
    assert len(out.splitlines()) == 1


async def test_sts_is_the_builtin_statefulset(stage: Stage) -> None:
    """cli case 13"""
    labels = {"app": "data"}
    spec = {
        "replicas": 0,
        "serviceName": "data",
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        },
    }
    document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "data"}, "spec": spec}
    await stage.create(document, resource=STATEFUL_SETS)
    out = await Kruise(stage).says("get", "sts/data", "-o", "name")
    assert out == "statefulset.apps/data\n"


async def test_output_without_colours_has_no_escape_sequences(stage: Stage) -> None:
    """cli case 59"""
    await stage.start_manager()
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    kruise = Kruise(stage)
    coloured = await kruise.run("describe", "clone/web", is_terminal=True)
    plain = await kruise.run("describe", "clone/web", "--no-color", is_terminal=True)
    assert (coloured.code, plain.code) == (0, 0)
    assert "\x1b[" not in plain.out
    assert "web" in plain.out
