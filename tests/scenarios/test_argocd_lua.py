"""The scripts for Argo CD run in its own Lua, and say there what they say in the Lua of our other tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykruise.fixtures.kruise import KruiseSandbox
from pykruise.kinds import kinds
from pykruise.manager.argocd import actions_of
from pykruise.manager.lua_health import health_script
from pykruise.plans.shown import TEMPLATE, Shown
from support.go_programs import has_go
from support.gopher_lua import build, results_of
from support.lua import run_lua

pytestmark = [pytest.mark.real, pytest.mark.skipif(not has_go(), reason="there is no Go to build with")]

ROOT = Path(__file__).parents[2]
SHOWN: dict[str, Shown] = {kind.resource.kind: kind.shown for kind in kinds() if kind.shown is not None}
KINDS = {
    "cloneset": "CloneSet",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
    "broadcastjob": "BroadcastJob",
}


def moments() -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of several kinds at moments of their rollouts."""
    with KruiseSandbox(seed=1) as kruise:
        kruise.fail({"ready_s": 5})
        for name in KINDS:
            kruise.apply(ROOT / "examples" / f"{name}.yaml")
        for _ in range(12):
            kruise.advance(2)
            for name, kind in KINDS.items():
                yield from ((kind, one) for one in kruise.list(f"{name}s.apps.kruise.io"))


def scripts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every script that is shipped, with what it is run on."""
    for shown in SHOWN.values():
        for found in ({"metadata": {}}, {"metadata": {"name": "web"}, "spec": {}, "status": {}}):
            yield health_script(shown), {"obj": found}
    for kind, found in moments():
        yield health_script(SHOWN[kind]), {"obj": found}
        actions = actions_of(SHOWN[kind])
        if actions is None:
            continue
        yield actions["discovery.lua"], {"obj": found}
        for action in actions["definitions"]:
            if action["name"] != "restart":  # it says the time
                yield action["action.lua"], {"obj": found, "actionParams": {"scale": "7"}}


def test_it_says_the_same_in_the_lua_of_argo_cd(tmp_path: Path) -> None:
    # given
    asked = list(scripts())
    assert len(asked) >= 100
    # when
    program = build(tmp_path)
    found = results_of(program, asked)
    # then
    ours = [
        run_lua(script, values["obj"], actionParams=values.get("actionParams", {}))
        for script, values in asked
    ]
    for (script, _), theirs, own in zip(asked, found, ours, strict=True):
        assert same(theirs, own), script
    health = {one["status"] for one in found if isinstance(one, dict) and isinstance(one.get("status"), str)}
    assert {"Healthy", "Progressing"} <= health


def test_a_restart_runs_there_too(tmp_path: Path) -> None:
    pod = {"spec": {"containers": [{"name": "a"}]}}
    for shown in SHOWN.values():
        if shown.verbs.restart != "env" or shown.templates != TEMPLATE:
            continue
        actions = actions_of(shown)
        assert actions is not None
        script = next(one["action.lua"] for one in actions["definitions"] if one["name"] == "restart")
        (found,) = results_of(build(tmp_path), [(script, {"obj": {"spec": {"template": pod}}})])
        (changed,) = found["spec"]["template"]["spec"]["containers"][0]["env"]
        assert changed["name"] == "RESTARTED_AT"
        assert changed["value"].endswith("Z")


def same(one: Any, other: Any) -> bool:
    """Lua knows no empty list beside an empty table."""
    if not one and not other and isinstance(one, (dict, list)) and isinstance(other, (dict, list)):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
