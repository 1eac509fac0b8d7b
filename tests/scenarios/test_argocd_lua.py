"""The scripts for Argo CD run in its own Lua, and give the same results as in the Lua of our other tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykruise.fixtures.kruise import KruiseSandbox
from pykruise.kinds import list_kinds
from pykruise.manager.argocd import actions_of
from pykruise.manager.karmada import build_interpreters
from pykruise.manager.lua_health import build_health_script
from pykruise.plans.shown import TEMPLATE, Shown
from support.go_programs import has_go
from support.gopher_lua import build, results_of
from support.lua import run_lua

pytestmark = [pytest.mark.real, pytest.mark.skipif(not has_go(), reason="there is no Go to build with")]

ROOT = Path(__file__).parents[2]
SHOWN: dict[str, Shown] = {kind.resource.kind: kind.shown for kind in list_kinds() if kind.shown is not None}
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
                yield from ((kind, entry) for entry in kruise.list(f"{name}s.apps.kruise.io"))


def scripts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every shipped script, with its input."""
    for shown in SHOWN.values():
        for scripts in ({"metadata": {}}, {"metadata": {"name": "web"}, "spec": {}, "status": {}}):
            yield build_health_script(shown), {"obj": scripts}
    for kind, scripts in moments():
        yield build_health_script(SHOWN[kind]), {"obj": scripts}
        actions = actions_of(SHOWN[kind])
        if actions is None:
            continue
        yield actions["discovery.lua"], {"obj": scripts}
        for action in actions["definitions"]:
            if action["name"] != "restart":  # its result contains the time
                yield action["action.lua"], {"obj": scripts, "actionParams": {"scale": "7"}}


def test_argo_cds_lua_and_our_lua_give_the_same_results(tmp_path: Path) -> None:
    # given
    asked = list(scripts())
    assert len(asked) >= 100
    # when
    program = build(tmp_path)
    result = results_of(program, asked)
    # then
    ours = [
        run_lua(script, values["obj"], actionParams=values.get("actionParams", {}))
        for script, values in asked
    ]
    for (script, _), theirs, own in zip(asked, result, ours, strict=True):
        assert same(theirs, own), script
    health = {
        entry["status"]
        for entry in result
        if isinstance(entry, dict) and isinstance(entry.get("status"), str)
    }
    assert {"Healthy", "Progressing"} <= health


CALLS = {
    "healthInterpretation": "InterpretHealth(obj)",
    "statusReflection": "ReflectStatus(obj)",
    "statusAggregation": "AggregateStatus(obj, items)",
    "replicaRevision": "ReviseReplica(obj, 7)",
}
"""Functions of Karmada's interpreters, except those that call a library of Karmada."""


def test_karmadas_lua_and_our_lua_give_the_same_results(tmp_path: Path) -> None:
    # given every script with objects at moments of their rollouts
    bare: dict[str, Any] = {"metadata": {"name": "web", "generation": 1}, "spec": {"replicas": 1}}
    seen = [*moments(), *((kind, bare) for kind in KINDS.values())]
    asked = [
        (
            f"{customizations[name]['luaScript']}\nreturn {CALLS[name]}",
            {"obj": entry, "items": [{"status": entry.get("status")}]},
        )
        for interpreter in build_interpreters()
        for customizations in [interpreter["spec"]["customizations"]]
        for kind, entry in seen
        if kind == interpreter["spec"]["target"]["kind"]
        for name in CALLS
        if name in customizations
    ]
    assert len(asked) >= 100
    # when
    result = results_of(build(tmp_path), asked)
    # then
    ours = [run_lua(script, values["obj"], items=values["items"]) for script, values in asked]
    for (script, _), theirs, own in zip(asked, result, ours, strict=True):
        assert same(theirs, own), script


def test_a_restart_runs_there_too(tmp_path: Path) -> None:
    pod = {"spec": {"containers": [{"name": "a"}]}}
    for shown in SHOWN.values():
        if shown.verbs.restart != "env" or shown.templates != TEMPLATE:
            continue
        actions = actions_of(shown)
        assert actions is not None
        script = next(
            definition["action.lua"]
            for definition in actions["definitions"]
            if definition["name"] == "restart"
        )
        (result,) = results_of(build(tmp_path), [(script, {"obj": {"spec": {"template": pod}}})])
        (changed,) = result["spec"]["template"]["spec"]["containers"][0]["env"]
        assert changed["name"] == "RESTARTED_AT"
        assert changed["value"].endswith("Z")


def same(entry: Any, other: Any) -> bool:
    """Whether two values are equal, where Lua cannot distinguish an empty list from an empty table."""
    if not entry and not other and isinstance(entry, (dict, list)) and isinstance(other, (dict, list)):
        return True
    if isinstance(entry, dict) and isinstance(other, dict):
        return entry.keys() == other.keys() and all(same(entry[name], other[name]) for name in entry)
    if isinstance(entry, list) and isinstance(other, list):
        return len(entry) == len(other) and all(map(same, entry, other))
    return bool(entry == other)
