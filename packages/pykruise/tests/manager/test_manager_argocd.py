"""Argo CD's configuration of the kinds, as Argo CD uses it: Lua scripts that judge statuses of every sort."""

from typing import Any

import pytest
import yaml

from pykruise.kinds import list_kinds
from pykruise.kube.documents import get_path
from pykruise.manager.argocd import actions_of, build_config_map, format_config_map
from pykruise.manager.lua_health import build_health_script
from pykruise.plans.shown import Shown
from support.lua import run_lua

SHOWN: dict[str, Shown] = {
    kind.resource.kind: kind.shown for kind in list_kinds() if kind.versions and kind.shown is not None
}
KINDS = sorted(SHOWN)
NEVER: dict[str, Any] = {"completionPolicy": {"type": "Never"}}
WORKLOADS = ("CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment", "SidecarSet")


def obj(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"metadata": {"name": "web", "generation": 2}, "spec": spec or {}}
    if status:
        obj["status"] = {"observedGeneration": 2, **status}
    return obj


def health(kind: str, value: dict[str, Any]) -> str:
    answer = run_lua(build_health_script(SHOWN[kind]), value)
    assert set(answer) == {"status", "message"}
    said: str = answer["status"]
    return said


def ready(status: str, reason: str = "Converged", *others: str) -> list[dict[str, str]]:
    return [
        {"type": "Ready", "status": status, "reason": reason, "message": "as it is said"},
        *({"type": other, "status": "True", "reason": reason, "message": ""} for other in others),
    ]


def test_every_served_kind_shows_the_progress_of_its_objects() -> None:
    assert {kind.resource.kind for kind in list_kinds() if kind.versions} == set(SHOWN)
    assert all(shown.progress is not None for shown in SHOWN.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [
        {"metadata": {}},
        {"metadata": {"name": "web"}, "spec": {}, "status": {}},
        obj(),
        obj(conditions=[]),
        obj({"updateStrategy": {"type": "OnDelete"}}, replicas=1),
        obj({"updateStrategy": {"rollingUpdate": {"partition": "50%"}}}, replicas=2),
        obj({"updateStrategy": {"rollingUpdate": {"partition": "nonsense"}}}, replicas=2),
        obj({"updateStrategy": "nonsense"}, replicas="nonsense"),
    ],
    ids=["nothing", "empty", "no status", "no conditions", "OnDelete", "percent", "partition", "nonsense"],
)
def test_no_object_makes_a_script_fail(kind: str, value: dict[str, Any]) -> None:
    assert health(kind, value) in {"Healthy", "Progressing", "Suspended", "Degraded"}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_conditions_decide_where_there_are_any(kind: str) -> None:
    assert health(kind, obj(conditions=ready("True"))) == "Healthy"
    assert health(kind, obj(conditions=ready("False", "Updating", "Reconciling"))) == "Progressing"
    assert health(kind, obj(conditions=ready("False", "InvalidSpec", "Stalled"))) == "Degraded"
    assert health(kind, obj(conditions=ready("True", "Partition"))) == "Suspended"
    assert health(kind, obj(conditions=ready("True", "Paused"))) == "Suspended"
    assert health(kind, obj(conditions=ready("True", "OnDelete"))) == "Healthy"
    stale = obj(conditions=ready("True"))
    stale["metadata"]["generation"] = 3
    assert health(kind, stale) == "Progressing"


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        ({"replicas": 10}, {"updated": 5, "available": 10}, "Progressing"),
        ({"replicas": 2}, {"updated": 1, "available": 1}, "Progressing"),
        ({"replicas": 0}, {}, "Healthy"),
        ({"replicas": 3}, {"updated": 3, "available": 3}, "Healthy"),
        ({"replicas": 3, "partition": "0%"}, {"updated": 3, "available": 3}, "Healthy"),
        ({"replicas": 3, "partition": "100%"}, {"updated": 1, "available": 3}, "Suspended"),
        ({"replicas": 10, "partition": 4}, {"updated": 6, "available": 10}, "Suspended"),
        ({"replicas": 10, "partition": 4}, {"updated": 6, "available": 9}, "Progressing"),
        ({"replicas": 10, "partition": "50%"}, {"updated": 5, "available": 10}, "Suspended"),
        ({"replicas": 3, "paused": True}, {"updated": 1, "available": 3}, "Suspended"),
        ({"replicas": 3, "paused": True}, {"updated": 3, "available": 3}, "Healthy"),
        ({"replicas": 3, "type": "OnDelete"}, {"updated": 1, "available": 3}, "Healthy"),
    ],
)
@pytest.mark.parametrize("kind", ["CloneSet", "StatefulSet", "DaemonSet"])
def test_counts_decide_for_a_status_by_openkruise(
    kind: str, spec: dict[str, Any], status: dict[str, Any], wanted: str
) -> None:
    # given: zeros are left out, as Go omits them
    rolling = {name: spec[name] for name in ("partition", "paused") if name in spec}
    strategy = {"type": spec.get("type", "RollingUpdate"), **({"rollingUpdate": rolling} if rolling else {})}
    names = {"updated": "updatedReplicas", "available": "availableReplicas"}
    if kind == "DaemonSet":
        names = {"updated": "updatedNumberScheduled", "available": "numberAvailable"}
        status = {**status, "desiredNumberScheduled": spec["replicas"]}
    result: dict[str, Any] = {names.get(name, name): value for name, value in status.items() if value}
    if kind == "CloneSet" and status.get("updated"):
        result["updatedReadyReplicas"] = status["updated"]
    result["labelSelector"] = "app=web"
    # then
    assert health(kind, obj({"replicas": spec["replicas"], "updateStrategy": strategy}, **result)) == wanted


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("BroadcastJob", obj(phase="running", desired=3, active=3), "Progressing"),
        ("BroadcastJob", obj(phase="completed", desired=3, succeeded=3), "Healthy"),
        ("BroadcastJob", obj(phase="completed", desired=3, succeeded=2, failed=1), "Degraded"),
        ("BroadcastJob", obj(phase="failed", desired=3, failed=3), "Degraded"),
        ("BroadcastJob", obj(phase="paused"), "Suspended"),
        ("AdvancedCronJob", obj(), "Healthy"),
        ("AdvancedCronJob", obj(lastScheduleTime="2026-01-01T00:00:00Z"), "Healthy"),
        ("AdvancedCronJob", obj({"paused": True}), "Suspended"),
        ("ImagePullJob", obj(startTime="x", desired=3, active=1), "Progressing"),
        ("ImagePullJob", obj(startTime="x", completionTime="y", desired=3, succeeded=3), "Healthy"),
        ("ImagePullJob", obj(startTime="x", completionTime="y", desired=3, failed=1), "Degraded"),
        ("ImagePullJob", obj(NEVER, startTime="x", desired=3), "Progressing"),
        ("ImagePullJob", obj(NEVER, startTime="x", desired=3, succeeded=2), "Progressing"),
        ("ImagePullJob", obj(NEVER, startTime="x", desired=3, succeeded=3), "Healthy"),
        ("ImageListPullJob", obj(NEVER, startTime="x", desired=2, completed=1), "Progressing"),
        ("ImageListPullJob", obj(NEVER, startTime="x", desired=2, completed=2), "Healthy"),
        ("ImageListPullJob", obj(startTime="x", completionTime="y", failedImageStatuses=[{}]), "Degraded"),
        ("EphemeralJob", obj(phase="Succeeded", match=2, succeeded=2), "Healthy"),
        ("EphemeralJob", obj(phase="Running", match=2), "Progressing"),
        ("EphemeralJob", obj(phase="Failed"), "Degraded"),
        ("ContainerRecreateRequest", obj(phase="Recreating"), "Progressing"),
        ("ContainerRecreateRequest", obj(phase="Failed"), "Degraded"),
        (
            "ContainerRecreateRequest",
            obj(phase="Completed", containerRecreateStates=[{"phase": "Failed"}]),
            "Degraded",
        ),
        ("ContainerRecreateRequest", obj(phase="Succeeded"), "Healthy"),
        ("NodeImage", obj(desired=2, pulling=1), "Progressing"),
        ("NodeImage", obj(desired=2, failed=1), "Degraded"),
        ("ResourceDistribution", obj(desired=3, succeeded=3), "Healthy"),
        ("ResourceDistribution", obj(desired=3, succeeded=2), "Progressing"),
        ("ResourceDistribution", obj(desired=3, succeeded=2, failed=1), "Degraded"),
        ("PodUnavailableBudget", obj(desiredAvailable=2, currentAvailable=1), "Progressing"),
        ("PodUnavailableBudget", obj(desiredAvailable=2, currentAvailable=2), "Healthy"),
    ],
)
def test_the_health_of_kinds_without_conditions_follows_their_status(
    kind: str, value: dict[str, Any], wanted: str
) -> None:
    assert health(kind, value) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_terminating_object_is_progressing(kind: str) -> None:
    result = obj(conditions=ready("True"))
    result["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert health(kind, result) == "Progressing"


# ── actions ──────────────────────────────────────────────────────────────────


def discovered(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    actions = actions_of(SHOWN[kind])
    assert actions is not None
    result: dict[str, Any] = run_lua(actions["discovery.lua"], {"metadata": {}, "spec": spec})
    assert set(result) == {definition["name"] for definition in actions["definitions"]}
    return result


def act(kind: str, name: str, spec: dict[str, Any], **params: str) -> dict[str, Any]:
    actions = actions_of(SHOWN[kind])
    assert actions is not None
    script = next(
        definition["action.lua"] for definition in actions["definitions"] if definition["name"] == name
    )
    answer = run_lua(script, {"metadata": {}, "spec": spec}, actionParams=params)
    act: dict[str, Any] = answer["spec"]
    return act


@pytest.mark.parametrize("kind", [kind for kind, shown in SHOWN.items() if "paused" in shown.fields])
def test_pause_and_resume_are_each_others_opposite(kind: str) -> None:
    paused = act(kind, "pause", {})
    assert discovered(kind, {})["resume"]["disabled"]
    assert not discovered(kind, {})["pause"]["disabled"]
    assert discovered(kind, paused)["pause"]["disabled"]
    assert not discovered(kind, paused)["resume"]["disabled"]
    resumed = act(kind, "resume", paused)
    assert discovered(kind, resumed)["resume"]["disabled"]


@pytest.mark.parametrize("kind", [kind for kind, shown in SHOWN.items() if shown.verbs.scales])
def test_scaling_takes_whole_numbers_and_begins_with_the_present_one(kind: str) -> None:
    assert discovered(kind, {"replicas": 3})["scale"]["params"][0]["default"] == "3"
    assert act(kind, "scale", {"replicas": 3}, scale="7") == {"replicas": 7}
    for wrong in ("", "-1", "1.5", "many"):
        with pytest.raises(Exception, match="not a number of pods"):
            act(kind, "scale", {"replicas": 3}, scale=wrong)


@pytest.mark.parametrize("kind", [kind for kind, shown in SHOWN.items() if shown.verbs.restart == "env"])
def test_a_restart_changes_the_environment_of_every_container_once(kind: str) -> None:
    for path in SHOWN[kind].templates:
        containers = [{"name": "a"}, {"name": "b", "env": [{"name": "X", "value": "1"}]}]
        spec: dict[str, Any] = {"spec": {"containers": containers}}
        for name in reversed(path.split(".")[1:]):
            spec = {name: spec}
        again = act(kind, "restart", act(kind, "restart", spec))
        result = get_path({"spec": again}, *path.split("."), "spec", "containers")
        for container in result:
            assert [variable["name"] for variable in container["env"]].count("RESTARTED_AT") == 1
        assert result[1]["env"][0] == {"name": "X", "value": "1"}


def test_the_config_map_has_health_of_every_kind_and_reads_back_from_its_text() -> None:
    result = build_config_map()
    assert yaml.safe_load(format_config_map()) == result
    for kind in (kind for kind in list_kinds() if kind.versions):
        about = f"{kind.resource.group}_{kind.resource.kind}"
        assert result["data"][f"resource.customizations.health.{about}"] == build_health_script(
            SHOWN[kind.resource.kind]
        )
    assert "resource.customizations.health.policy.kruise.io_PodUnavailableBudget" in result["data"]
