"""Golden files for `explain`, `plan` and `simulate`, and one clear line for bad input.

support/golden.py describes how golden files are written again.
"""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from pykruise.cli.errors import CommandError
from pykruise.cli.insight import known_kinds as known
from pykruise.cli.insight.admission_check import patch_to_apply
from pykruise.cli.insight.causes import WaitCause, cause_of
from pykruise.cli.insight.charts import _format_tick, draw_svg_chart, draw_terminal_chart
from pykruise.cli.insight.effect_forecast import OutlookBatch, PodFate
from pykruise.cli.insight.explaining import next_of
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.forecasting import Forecast
from pykruise.cli.insight.known_kinds import (
    find_kind_of_document,
    list_api_versions,
    list_known_kinds,
    parse_target,
)
from pykruise.cli.insight.simulating import Drain, Play, PlayAction, Played, Sample, play
from pykruise.cli.insight.simulating.schedules import ClockPlayed
from pykruise.cli.insight.simulating.schedules import TickFate as ClockFate
from pykruise.cli.main import app
from pykruise.cli.plan import apply_sets, compute_exit_code, describe_forecast
from pykruise.cli.simulate import drain_of, parse_seconds, parse_span, share
from pykruise.cli.simulate_report import format_comparison, report
from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.clock import parse_time
from pykruise.kube.values.durations import format_short_duration
from pykruise.plans.kind import Kind
from pykruise.pods.view.decoding import PodProjector
from support.cloneset_builder import cloneset
from support.golden import same_as

NOW = parse_time("2026-01-31T12:10:00Z")
START = parse_time("2026-01-01T00:00:00Z")


def app_yaml(*, image: str = "nginx:1", policy: str = "ReCreate", replicas: int = 5) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "podUpdatePolicy": policy}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }


def is_one_error(output: str) -> bool:
    """Whether the output is one error; an error in the command line also names the help."""
    error, *rest = output.splitlines()
    return (
        error.startswith("error: ") and all(line.startswith("See 'app ") for line in rest) and len(rest) <= 1
    )


def written(path: Path, document: Any) -> Path:
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


def run(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    """Exit code and output, errors included."""
    done = CliRunner().invoke(app, list(arguments), input=stdin)
    return done.exit_code, done.output


# ── explain ──────────────────────────────────────────────────────────────────


def test_an_explanation_reads_well() -> None:
    explanation = Explanation(
        kind="CloneSet",
        namespace="shop",
        name="web",
        verdict="waiting",
        headline="2 pods have revision web-7c9d (wanted: all 5), 4 of 5 available",
        done=("2 pods have revision web-7c9d, and 1 of them serves",),
        waits=(
            Wait(
                code="ImagePull",
                words="container main cannot pull shop:2: not found",
                pods=("web-b",),
                since="2026-01-31T12:04:30Z",
                remedy="correct the image, or its pull secret",
            ),
            Wait(code="Budget", words="waits for its turn", pods=tuple(f"web-{n}" for n in "cdefghij")),
        ),
        next=("the manager continues when a cause of the wait ends",),
    )
    same_as("explain.txt", format_explanation(explanation, now=NOW))
    assert explanation.cause == "ImagePull"


def test_a_next_step_shows_that_it_is_only_an_alternative() -> None:
    """The plan of a CloneSet whose surge pod was rejected before"""
    builder = cloneset(2, old=2, max_unavailable=1, max_surge=1)
    builder.with_rolling(podUpdatePolicy="InPlaceIfPossible")
    failed = {"type": "FailedScale", "status": "True", "reason": "Quota", "message": "exceeded"}
    builder.with_status(conditions=[failed])
    create, update = next_of(plan_cloneset(builder.snapshot()), (), are_names_known=False)
    assert create.startswith("create pods: ")
    assert update.startswith(
        "update pods (if the API server rejects all writes of these steps: create pods): web-a: "
    )


@pytest.mark.parametrize("target", ["web", "clonesets/", "/web", "a/b/c"])
def test_a_malformed_target_is_refused(target: str) -> None:
    with pytest.raises(CommandError):
        parse_target(target)


@pytest.mark.parametrize("said", ["clonesets", "CloneSet", "cloneset.apps.kruise.io"])
def test_a_name_loads_no_other_kind(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # given no list of kinds from the API server
    monkeypatch.delattr(known, "list_kinds")
    # then
    assert parse_target(f"{said}/web")[0].resource.kind == "CloneSet"
    document = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"}
    assert find_kind_of_document(document).resource.kind == "CloneSet"


def test_a_short_name_resolves_to_its_kind() -> None:
    assert parse_target("asts/web")[0].resource.kind == "StatefulSet"


def test_an_unknown_kind_is_reported_in_one_line_with_exit_code_1() -> None:
    code, output = run("explain", "deployments/web")
    assert code == 1
    names = ", ".join(kind.resource.plural for kind in list_known_kinds())
    assert output == f"error: 'deployments' is not a known kind; known kinds: {names}\n"


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web-a", "uid": "u"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "app:1"}]},
        "status": status,
    }


def _cause(document: dict[str, Any]) -> WaitCause | None:
    return cause_of(document, PodProjector()(msgspec.json.encode(document)), now=NOW)


def test_causes_that_the_sandbox_cannot_stage_are_known_too() -> None:
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "key" not found'}}
    cause = _cause(pod(containerStatuses=[{"name": "main", "state": waiting}]))
    assert cause is not None
    assert (cause.code, cause.words) == (
        "ContainerFails",
        'container main cannot be created: CreateContainerConfigError: secret "key" not found',
    )
    # a scheduling gate
    gated = pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}])
    gated["spec"]["nodeName"] = ""
    cause = _cause(gated)
    assert cause is not None
    assert cause.code == "SchedulingGated"


# ── plan ─────────────────────────────────────────────────────────────────────


def forecast_of(**changes: Any) -> Forecast:
    given: dict[str, Any] = {"kind": "CloneSet", "namespace": "shop", "name": "web", "change": "changed"}
    return Forecast(**(given | changes))


def test_a_plan_reads_well() -> None:
    fates = (PodFate(pod="web-a", do="update in place"), PodFate(pod="web-b", do="update in place"))
    forecast = forecast_of(
        fields=("spec.template.spec.containers[main].image: shop:1 → shop:2",),
        ways={"7c9d": "in place", "55aa": "recreated: spec.containers[main].env changed"},
        batches=(
            OutlookBatch(number=1, fates=fates),
            OutlookBatch(
                number=2, fates=(PodFate(pod="web-c", do="delete"), PodFate(pod="web-x", do="create"))
            ),
        ),
        stays={"the partition keeps it, or nothing remained to be done": ("web-d",)},
        claims_created=("data-web-x",),
        claims_deleted=("data-web-c",),
        holds=("the preDelete hook must be released on web-c",),
        notes=("PodDisruptionBudget web wants 4 available, and 3 are left at times",),
        lowest_available=3,
        pods_before=4,
        pods_after=4,
    )
    same_as("plan.txt", "\n".join(describe_forecast(forecast)) + "\n")


def test_exit_codes_differ_for_nothing_changes_and_refusals() -> None:
    nothing = forecast_of(change="unchanged")
    refused = forecast_of(change="refused", errors=("spec.replicas: must not be negative",))
    assert compute_exit_code([nothing]) == 0
    assert compute_exit_code([nothing, forecast_of()]) == 2
    assert compute_exit_code([forecast_of(), refused]) == 1


def test_set_changes_the_fields_that_it_names() -> None:
    changed = apply_sets(app_yaml(), ["image=main=nginx:1.27", "replicas=7", "partition=50%", "paused=true"])
    assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.27"
    assert changed["spec"]["replicas"] == 7
    rolling = changed["spec"]["updateStrategy"]["rollingUpdate"]
    assert (rolling["partition"], rolling["paused"]) == ("50%", True)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("image=other=nginx:2", "no container is named 'other'; the containers are main"),
        ("image=nginx:2", "expected image=CONTAINER=IMAGE"),
        ("replicas=many", "whole number"),
        ("paused=maybe", "true or false"),
        ("color=red", "cannot be set here"),
        ("replicas", "expected field=value"),
    ],
)
def test_a_wrong_set_is_refused(said: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        apply_sets(app_yaml(), [said])


def test_apply_removes_fields_that_the_last_manifest_had_and_this_one_has_not() -> None:
    # given a live object with a field that kubectl applied, and one that another client set
    live = app_yaml()
    live["spec"]["minReadySeconds"] = 5
    live["spec"]["revisionHistoryLimit"] = 3
    last = app_yaml()
    last["spec"]["minReadySeconds"] = 5
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": yaml.safe_dump(last)}
    live["metadata"]["annotations"] = {
        name: __import__("json").dumps(yaml.safe_load(value)) for name, value in annotation.items()
    }
    # when
    patch = patch_to_apply(live, app_yaml(replicas=6))
    # then
    assert patch == {"spec": {"replicas": 6, "minReadySeconds": None}}


def test_plan_wants_a_file_or_an_object_and_not_both() -> None:
    for arguments in ((), ("clonesets/web", "-f", "x.yaml")):
        code, output = run("plan", *arguments)
        assert code == 1
        assert output.startswith("error: give either -f FILE")
        assert is_one_error(output)


def test_a_manifest_of_another_namespace_is_refused_as_by_kubectl(tmp_path: Path) -> None:
    # given
    manifest = app_yaml()
    manifest["metadata"]["namespace"] = "prod"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "prod"}}
    for name, document in (("web.yaml", manifest), ("config.yaml", config)):
        # when
        code, output = run("plan", "-f", str(written(tmp_path / name, document)), "-n", "staging")
        # then
        assert code == 1
        assert output == (
            'error: the namespace from the provided object "prod" does not match the namespace "staging".'
            " You must pass '--namespace=prod' to perform this operation.\n"
        )


@pytest.mark.parametrize("command", ["plan", "simulate"])
@pytest.mark.parametrize("kind", list_known_kinds(), ids=lambda kind: kind.name)
def test_an_api_version_that_is_not_served_is_named_with_the_file_and_the_nearest(
    kind: Kind, command: str, tmp_path: Path
) -> None:
    resource = kind.resource
    *_, served = sorted(list_api_versions(kind))
    file = tmp_path / "web.yaml"
    for wrong, answer in (
        (f"{served[:-1]}7", f"did you mean {served}?"),
        (served.replace(".io", ".oi"), f"did you mean {served}?"),
        ("apps/v2", f"available: {', '.join(list_api_versions(kind))}"),
    ):
        written(file, {"apiVersion": wrong, "kind": resource.kind, "metadata": {"name": "web"}})
        code, output = run(command, "-f", str(file))
        assert (code, output) == (
            1,
            f"error: {file}, document 1: {resource.kind} web: there is no apiVersion {wrong}; {answer}\n",
        )


def test_invalid_yaml_or_no_workload_is_reported_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1,\nb: 2", "utf-8")
    code, output = run("plan", "-f", str(broken))
    assert (code, len(output.splitlines())) == (1, 1)
    assert "not valid YAML" in output
    # and a kind without a planner
    other = written(tmp_path / "other.yaml", {**app_yaml(), "apiVersion": "apps/v1", "kind": "Deployment"})
    code, output = run("plan", "-f", str(other))
    names = ", ".join(f"{kind.resource.kind} ({kind.resource.group})" for kind in list_known_kinds())
    assert (code, output) == (
        1,
        f"error: apps/v1 Deployment web: not a known kind; known kinds: {names}\n",
    )
    # nor is an object of another group, beside a workload
    other.write_text(yaml.safe_dump_all([app_yaml(), {**app_yaml(), "kind": "Clonset"}]), "utf-8")
    code, output = run("plan", "-f", str(other))
    assert (code, len(output.splitlines())) == (1, 1)
    assert output.startswith("error: apps.kruise.io/v1beta1 Clonset web: not a known kind; ")
    # and an empty standard input
    code, output = run("plan", "-f", "-", stdin="")
    assert (code, output) == (1, "error: stdin: the input contains no objects\n")


@pytest.mark.parametrize(
    "command", [("explain", "clonesets/web"), ("plan", "clonesets/web", "--set", "replicas=2")]
)
def test_an_unreachable_cluster_is_reported_in_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    # given a kubeconfig of a server that is not there
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = written(tmp_path / "config", config)
    # when
    code, output = run(*command, "--kubeconfig", str(path))
    # then
    assert (code, len(output.splitlines())) == (1, 1)
    assert output.startswith("error: ")
    assert "127.0.0.1" in output


# ── simulate ─────────────────────────────────────────────────────────────────


def played(change: dict[str, Any], **given: Any) -> Any:
    return play(Play(first=app_yaml(), change=change, start=START, **given))


def test_a_rollout_is_reported_with_timeline_chart_and_extremes() -> None:
    result = played(app_yaml(image="nginx:2"), ready_after_s=(5.0, 5.0))
    same_as("simulate.txt", "\n".join(report("new.yaml", result)) + "\n")
    assert (result.lowest_available, result.restarts, result.is_over) == (4, 0, True)


def daemon_yaml(image: str) -> dict[str, Any]:
    document = app_yaml(image=image)
    del document["spec"]["replicas"]
    rolling = {"rollingUpdateType": "Standard", "maxUnavailable": 1, "partition": 1}
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {**document, "kind": "DaemonSet"}


def set_yaml(image: str) -> dict[str, Any]:
    document = app_yaml(image=image, replicas=3, policy="ReCreate")
    return {**document, "kind": "StatefulSet"}


@pytest.mark.parametrize(("kind", "document"), [("daemonset", daemon_yaml), ("statefulset", set_yaml)])
def test_rollouts_of_the_other_kinds_are_reported_too(
    kind: str, document: Callable[[str], dict[str, Any]]
) -> None:
    given = Play(first=document("nginx:1"), change=document("nginx:2"), start=START, ready_after_s=(5.0, 5.0))
    same_as(f"simulate-{kind}.txt", "\n".join(report("new.yaml", play(given))) + "\n")


def test_the_json_of_a_simulation_has_all_shown_values(tmp_path: Path) -> None:
    # given
    first = written(tmp_path / "app.yaml", app_yaml(replicas=2))
    new = written(tmp_path / "new.yaml", app_yaml(replicas=2, image="nginx:2"))
    # when
    code, output = run("simulate", "-f", str(first), "--change", str(new), "-o", "json")
    # then
    (result,) = json.loads(output)
    assert (code, result["change"], result["lowest_available"]) == (0, "new.yaml", 1)
    assert [action["do"] for action in result["actions"]] == ["delete", "create"] * 2
    assert result["samples"][-1]["available"] == 2


@pytest.mark.parametrize(("gates", "deleted"), [("RollOnConfig=true", 2), ("RollOnConfig=false", 0)])
def test_a_changed_configmap_is_simulated(tmp_path: Path, gates: str, deleted: int) -> None:
    # given
    def config(level: str) -> str:
        return f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: shop}}, data: {{LEVEL: {level}}}}}"

    workload = """
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, annotations: {pykruise.io/roll-on-config: all}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  updateStrategy: {rollingUpdate: {maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "shop:1", envFrom: [{configMapRef: {name: shop}}]}]}
"""
    first, new = tmp_path / "web.yaml", tmp_path / "new.yaml"
    first.write_text(f"{config('info')}\n---{workload}")
    new.write_text(config("debug"))
    # when
    code, output = run(
        *("simulate", "-f", str(first), "--change", str(new), "--feature-gates", gates, "-o", "json")
    )
    # then
    (result,) = json.loads(output)
    assert code == 0
    assert [action["do"] for action in result["actions"]].count("delete") == deleted


@pytest.mark.parametrize(
    "struct",
    [Forecast, OutlookBatch, PodFate, Explanation, Wait, Played, PlayAction, Sample, ClockPlayed, ClockFate],
)
def test_every_field_of_the_json_is_documented(struct: type[msgspec.Struct]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "plan-and-explain.md").read_text("utf-8")
    section = page[page.index("## JSON") :]
    assert [field for field in struct.__struct_fields__ if f"`{field}`" not in section] == []


@pytest.mark.parametrize("gates", ["NoSuchGate=true", "CloneSetShortHash=perhaps"])
def test_wrong_gates_are_one_line(gates: str) -> None:
    for arguments in (("explain", "clonesets/web"), ("plan", "clonesets/web", "--set", "replicas=2")):
        code, output = run(*arguments, "--feature-gates", gates)
        assert (code, is_one_error(output)) == (1, True), output
        assert output.startswith("error: --feature-gates: ")


def test_two_strategies_are_shown_side_by_side() -> None:
    # when one play recreates the pods and the other updates them in place, under the same conditions
    changes = [app_yaml(image="nginx:2"), app_yaml(image="nginx:2", policy="InPlaceIfPossible")]
    result = [played(change, ready_after_s=(5.0, 5.0)) for change in changes]
    same_as(
        "simulate-two.txt", "\n".join(format_comparison(["recreate.yaml", "in-place.yaml"], result)) + "\n"
    )
    assert [item.restarts for item in result] == [0, 5]


def test_the_same_seed_plays_the_same_rollout() -> None:
    given = {"ready_after_s": (5.0, 30.0), "fail_share": 0.2, "seed": 5}
    first, second = (played(app_yaml(image="nginx:2"), **given) for _ in range(2))
    assert first == second


def test_a_simulation_that_ends_while_containers_start_reports_that() -> None:
    # when the time is enough for one pod after the other, but not for all
    result = played(app_yaml(image="nginx:2"), ready_after_s=(1000.0, 1000.0), limit_s=1500.0)
    # then the reason is the same as in a cluster
    assert not result.is_over
    assert "its containers start (ContainerCreating)" in str(result.status)


def test_pods_that_fail_stop_a_rollout_at_its_budget() -> None:
    result = played(app_yaml(image="nginx:2"), fail_share=1.0)
    assert result.lowest_available == 4
    assert result.status["updatedReplicas"] == 1
    lines = report("new.yaml", result)
    assert lines[0].startswith("new.yaml: stuck after 2s: 1 pod has revision web-")
    assert lines[lines.index("Waiting for") + 1].endswith("container main runs, but is not ready")


@pytest.mark.parametrize("document", [daemon_yaml, set_yaml])
def test_a_rollout_of_another_kind_that_stops_is_not_called_complete(
    document: Callable[[str], dict[str, Any]],
) -> None:
    # when no pod of the new template becomes ready
    given = Play(first=document("nginx:1"), change=document("nginx:2"), start=START, fail_share=1.0)
    lines = report("new.yaml", play(given))
    # then
    assert lines[0].startswith("new.yaml: stuck after "), lines[0]
    assert any("NotReady: web-" in line for line in lines[lines.index("Waiting for") :])


def test_a_partition_that_is_reached_is_complete_and_names_the_pods_that_stay() -> None:
    # given
    change = app_yaml(image="nginx:2")
    change["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 3
    # when
    lines = report("new.yaml", played(change))
    # then
    assert lines[0].startswith("new.yaml: complete after ")
    (left,) = [line for line in lines[lines.index("On hold, as configured") :] if "Partition" in line]
    assert left.count("web-") == 3


def test_pods_of_a_drained_node_are_recreated_on_another() -> None:
    result = played(app_yaml(image="nginx:2"), drains=(Drain("node-1", 3.0),))
    assert "node-1 is drained" in [what for _, what in result.events]
    assert result.status["availableReplicas"] == 5


def test_a_change_that_admission_refuses_is_not_played() -> None:
    wrong = app_yaml()
    wrong["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = "5"
    assert any("maxUnavailable" in error for error in played(wrong).refused)


def test_axis_labels_show_their_times() -> None:
    assert [_format_tick(part) for part in (0, 1.5, 3, 4.5, 6)] == ["0s", "1.5s", "3s", "4.5s", "6s"]
    assert _format_tick(90) == "1m30s"


def test_the_svg_is_well_formed_and_names_its_parts() -> None:
    result = played(app_yaml(image="nginx:2"))
    svg = draw_svg_chart("new <yaml>", result)
    ElementTree.fromstring(svg)
    for part in ("new revision", "older revisions", "available", "new &lt;yaml&gt;"):
        assert part in svg
    assert len(draw_terminal_chart(result)) == 4


def test_the_command_plays_files(tmp_path: Path) -> None:
    # given
    first = written(tmp_path / "app.yaml", app_yaml(replicas=2))
    new = written(tmp_path / "new.yaml", app_yaml(replicas=2, image="nginx:2"))
    svg = tmp_path / "chart.svg"
    # when
    code, output = run("simulate", "-f", str(first), "--change", str(new), "--svg", str(svg))
    # then
    assert code == 0, output
    assert "complete after" in output
    assert svg.exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--pods-ready-after", "5"), "expected a time"),
        (("--pods-ready-after", "30s..5s"), "must not be less"),
        (("--fail-pod", "3"), "percentage"),
        (("--fail-pod", "120%"), "percentage"),
        (("--drain", "node-1"), "node-1@60s"),
        (("--drain", "node-9@60s"), "no node is named 'node-9'"),
        (("-o", "wide"), "text, json or yaml"),
    ],
)
def test_wrong_flags_are_one_line(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    first = written(tmp_path / "app.yaml", app_yaml())
    code, output = run("simulate", "-f", str(first), *arguments)
    assert (code, is_one_error(output)) == (1, True), output
    assert problem in output


def test_values_of_flags_are_parsed() -> None:
    assert parse_seconds("1.5m", "-") == 90.0
    assert parse_span("5s..30s", "-") == (5.0, 30.0)
    assert parse_span("500ms", "-") == (0.5, 0.5)
    assert share("3%") == 0.03
    assert drain_of("node-2@1m", ["node-1", "node-2"]) == Drain("node-2", 60.0)
    assert [format_short_duration(item) for item in (4.4, 60, 125, 3600, 7500)] == [
        "4s",
        "1m",
        "2m5s",
        "1h",
        "2h5m",
    ]
