"""`kubectl kruise` against a cluster with the manager: every verb that writes, of every kind, in both versions."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.kubectl.revisions import CHANGE_CAUSE
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.statefulset.kind import KIND as STATEFUL_SET
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import CLONE_SET as CLONE_SET_TEMPLATE
from pykruise.kinds.uniteddeployment.workloads import DEPLOYMENT as DEPLOYMENT_TEMPLATE
from pykruise.kube.documents import LAST_APPLIED, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SERVICES,
    Resource,
)
from pykruise.kube.version import __version__
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import daemonset
from support.faults import (
    Answer,
    CutAfter,
    FaultyTransport,
    GoneAfter,
    Refuse,
    conflict,
    patches,
    reads,
    watches,
)
from support.kruise import Kruise
from support.scenario import Object, Stage, cloneset, rolling
from support.statefulsets import statefulset
from support.uniteddeployments import united_document

ROLLOUTS = Resource("rollouts.kruise.io", "v1beta1", "rollouts", "Rollout")


async def started(stage: Stage, *documents: Object) -> Kruise:
    """The manager, and CloneSets that have settled."""
    await stage.start_manager()
    for document in documents or (cloneset(),):
        await stage.create(document)
        await stage.settled(document["metadata"]["name"], replicas=document["spec"]["replicas"])
    return Kruise(stage)


async def template_of(stage: Stage, name: str = "web") -> Object:
    template: Object = (await stage.get(name))["spec"]["template"]
    return template


# ── conflicts ────────────────────────────────────────────────────────────────


async def test_a_change_is_tried_again_after_seven_conflicts_and_not_after_eight(stage: Stage) -> None:
    """A manager that writes the status of a rollout causes many conflicts in a short time."""
    await started(stage)
    faulty = FaultyTransport(stage.client.transport)
    kruise = Kruise(stage, faulty)
    # given seven conflicts
    faulty.on(patches("/clonesets/web"), *[conflict()] * 7)
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    assert (await template_of(stage))["spec"]["containers"][0]["image"] == "nginx:2"
    # given eight
    faulty.on(patches("/clonesets/web"), *[conflict()] * 8)
    assert "(Conflict)" in await kruise.refuses("set", "image", "clone/web", "main=nginx:3")
    assert (await template_of(stage))["spec"]["containers"][0]["image"] == "nginx:2"


# ── rollout ──────────────────────────────────────────────────────────────────


async def test_a_rollout_is_undone_completely_and_its_history_shown(stage: Stage) -> None:
    """cli cases 15, 18, 19, 20"""
    kruise = await started(stage)
    before = await template_of(stage)
    # given a new template with one label more
    await stage.merge(
        "web",
        {"spec": {"template": {"metadata": {"labels": {"extra": "x"}}}}},
    )
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    await stage.settled(replicas=3, updated=3)
    assert "REVISION" in await kruise.says("rollout", "history", "clone/web")
    # when it is looked at, and then done
    version = (await stage.get("web"))["metadata"]["resourceVersion"]
    shown = await kruise.says("rollout", "undo", "clone/web", "--to-revision=1", "--dry-run=client")
    assert "nginx:1" in shown
    assert (await stage.get("web"))["metadata"]["resourceVersion"] == version
    assert "rolled back" in await kruise.says("rollout", "undo", "clone/web", "--to-revision=1")
    # then the label is gone too
    after = await template_of(stage)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert "extra" not in after["metadata"]["labels"]
    assert after["spec"]["containers"][0]["image"] == before["spec"]["containers"][0]["image"]
    await stage.settled(replicas=3, updated=3)
    rows = (await kruise.says("rollout", "history", "clone/web")).splitlines()
    newest = [row.split()[0] for row in rows if row[:1].isdecimal()][-1]
    said = await kruise.says("rollout", "undo", "clone/web", f"--to-revision={newest}")
    assert "skipped rollback (current template already matches revision" in said


async def test_two_clonesets_are_restarted_together_and_waited_for(stage: Stage) -> None:
    """cli cases 11, 25, 26"""
    kruise = await started(stage, cloneset("a"), cloneset("b"))
    said = await kruise.says("rollout", "restart", "clone/a", "clone/b")
    assert said.count("restarted") == 2
    for name in ("a", "b"):
        (variable,) = (await template_of(stage, name))["spec"]["containers"][0]["env"]
        assert variable["name"] == "RESTARTED_AT"
    lines = (await kruise.says("rollout", "status", "clone/a", "clone/b", "--timeout=120s")).splitlines()
    assert sum("rolling update complete" in line for line in lines) == 2


async def test_an_object_of_v1alpha1_is_worked_on_as_well(stage: Stage) -> None:
    """cli case 61"""
    kruise = await started(stage)
    manifest = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"}}
    for verb, expected in (("pause", True), ("resume", False)):
        await kruise.says("rollout", verb, "-f", "-", stdin=json.dumps(manifest))
        strategy = (await stage.get("web"))["spec"]["updateStrategy"]
        assert bool(strategy["rollingUpdate"].get("paused")) is expected
    await kruise.says("set", "partition", "-f", "-", "30%", stdin=json.dumps(manifest))
    assert (await stage.get("web"))["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == "30%"


async def test_detail_names_the_updated_pods_if_the_status_names_the_update_revision(stage: Stage) -> None:
    # given a CloneSet, and a Deployment, whose status names no revision
    kruise = await started(stage, cloneset(replicas=1))
    (pod,) = await stage.pods()
    flat = {**cloneset("flat", replicas=0), "apiVersion": "apps/v1", "kind": "Deployment"}
    await stage.create(flat, resource=DEPLOYMENTS)
    # when
    detailed = await kruise.says("rollout", "status", "clone/web", "--detail")
    plain = (await kruise.run("rollout", "status", "deploy/flat", "-w=false", "--detail")).out
    # then
    assert f"Updated ready pods: [{pod.name}], Updated not ready pods: []" in detailed
    assert plain
    assert "Updated ready pods" not in plain


async def test_rollout_status_ends_with_the_reason_and_the_way_back(stage: Stage) -> None:
    """cli cases 8, 9: an image that there is not"""
    kruise = await started(stage, cloneset(replicas=5, updateStrategy=rolling(maxUnavailable=1)))
    stage.kubelets.set_rules([Rule(image="nginx:2", image_pull_error=True)])
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    await stage.until(lambda: _waits_for_image(kruise))
    # when the command does not wait
    said = await kruise.run("rollout", "status", "clone/web", "-w=false")
    assert (said.code, len(said.out.splitlines())) == (1, 1)
    assert 'error: CloneSet "web" is degraded: ImagePull: ' in said.err
    # when it does
    said = await kruise.run("rollout", "status", "clone/web", "--timeout=1s")
    assert said.code == 1
    assert "ImagePull" in said.err
    assert "timed out waiting for the condition" in said.err
    assert (
        f"kubectl kruise rollout undo clonesets.apps.kruise.io/web --to-revision=1 -n {stage.namespace}"
        in said.err
    )
    as_json = json.loads(
        (await kruise.run("rollout", "status", "clone/web", "--timeout=1s", "-o", "json")).out
    )
    assert as_json[0]["waits"][0]["code"] == "ImagePull"


async def _waits_for_image(kruise: Kruise) -> bool:
    return "ImagePull" in (await kruise.run("rollout", "status", "clone/web", "-w=false")).err


@pytest.mark.parametrize(
    "fault", [{"image_pull_error": True}, {"exit_code": 3, "after_s": 0.0}, {"never_ready": True}]
)
async def test_each_remedy_followed_to_the_letter_never_takes_pods_away(stage: Stage, fault: Any) -> None:
    # given a rollout that is stuck within its budget
    kruise = await started(stage, cloneset(replicas=5, updateStrategy=rolling(maxUnavailable=1)))
    stage.kubelets.set_rules([Rule(image="nginx:2", **fault)])
    await kruise.says("set", "image", "clone/web", "main=nginx:2")

    async def is_stuck() -> bool:
        return (await stage.status()).get("availableReplicas") == 4

    await stage.until(is_stuck)
    await asyncio.sleep(stage.long_s / 5)
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, "web"), now=stage.clock(), kind=CLONE_SET
    )
    said = format_explanation(explanation, now=stage.clock())
    # then no remedy says to raise a limit
    assert not any("raise" in wait.remedy for wait in explanation.waits), said
    # and the command that is written out brings all pods back
    (command,) = {
        wait.remedy.partition("roll back: kubectl kruise ")[2]
        for wait in explanation.waits
        if "roll back: " in wait.remedy
    }
    least = 5

    async def is_whole() -> bool:
        nonlocal least
        available = (await stage.status()).get("availableReplicas", 0)
        least = min(least, available)
        return bool(available == 5)

    await kruise.says(*command.split())
    await stage.until(is_whole)
    assert least >= 4


# ── set, scale, expose ───────────────────────────────────────────────────────


async def test_variables_are_listed_and_tried_without_a_write(stage: Stage) -> None:
    """cli cases 32, 33, 34, 35"""
    kruise = await started(stage)
    await kruise.says("set", "env", "clone/web", "A=1")
    version = (await stage.get("web"))["metadata"]["generation"]
    assert "A=1" in await kruise.says("set", "env", "clone/web", "--list")
    await kruise.says("set", "env", "clone/web", "A=2", "--dry-run=client")
    await kruise.says("set", "env", "clone/web", "A=2", "--dry-run=server")
    assert "already has a value (1)" in await kruise.refuses(
        "set", "env", "clone/web", "A=2", "--overwrite=false"
    )
    assert await kruise.says("set", "env", "clone/web", "A=1", "--overwrite=false") == ""
    assert await kruise.says("set", "env", "clone/web", "A=1") == ""
    assert (await stage.get("web"))["metadata"]["generation"] == version


async def test_given_and_imported_variables_begin_with_the_prefix(stage: Stage) -> None:
    # given
    kruise = await started(stage)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "1"}}
    await stage.create(settings, resource=CONFIG_MAPS)
    # when
    await kruise.says("set", "env", "clone/web", "A=1", "--from=configmap/c", "--prefix=P_")
    # then
    (container,) = (await stage.get("web"))["spec"]["template"]["spec"]["containers"]
    assert [variable["name"] for variable in container["env"]] == ["P_A", "P_K"]


async def test_variables_are_read_from_lines(stage: Stage) -> None:
    # given
    await stage.create(cloneset())
    lines = "A=1 # one\n\nnothing\nexport\nB= x=y \r\n#C=3\n"
    # when
    await Kruise(stage).says("set", "env", "clone/web", "-", stdin=lines)
    # then
    (container,) = (await stage.get("web"))["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "A", "value": "1 "}, {"name": "B", "value": " x=y "}]


async def test_chosen_pods_are_deleted_by_one_update(stage: Stage) -> None:
    """cli cases 44, 45, 46"""
    kruise = await started(stage)
    names = [pod.name for pod in await stage.pods()]
    said = await kruise.says("scaledown", "clone/web", "--pods", f"{names[0]}, {names[1]}")
    assert said.startswith(f"# web delete pods [{names[0]} {names[1]}] successfully\n")
    await stage.settled(replicas=1)
    assert [pod.name for pod in await stage.pods()] == [names[2]]
    assert "has no pod foreign" in await kruise.refuses("scaledown", "clone/web", "--pods", "foreign")


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
async def test_chosen_pods_of_a_stateful_set_are_deleted_and_not_created_again(
    stage: Stage, version: str
) -> None:
    await stage.start_manager()
    await stage.create(statefulset(replicas=3), resource=ADVANCED_STATEFUL_SETS)
    kruise = Kruise(stage)
    await kruise.says("rollout", "status", "asts/web", "--timeout=120s")
    # when
    await kruise.says("scaledown", f"statefulsets.{version}.apps.kruise.io/web", "--pods", "web-0")
    # then
    spec = (await stage.get("web", resource=ADVANCED_STATEFUL_SETS))["spec"]
    assert (spec["replicas"], spec["reserveOrdinals"]) == (2, [0])
    await kruise.says("rollout", "status", "asts/web", "--timeout=120s")
    await stage.until(lambda: _has_pods(stage, "web-1", "web-2"))


async def _has_pods(stage: Stage, *names: str) -> bool:
    return [pod.name for pod in await stage.pods()] == list(names)


async def test_a_cloneset_is_exposed_by_its_own_ports(stage: Stage) -> None:
    """cli cases 40, 41"""
    document = cloneset()
    document["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    kruise = await started(stage, document)
    assert await kruise.says("expose", "clone/web") == "service/web exposed\n"
    service = await stage.get("web", resource=SERVICES)
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(8080, 8080)]


async def test_a_given_selector_is_the_selector_of_the_service(stage: Stage) -> None:
    # given
    await stage.create(cloneset())
    # when
    await Kruise(stage).says("expose", "clone/web", "--port=80", "--selector=tier=front")
    # then
    service = await stage.get("web", resource=SERVICES)
    assert service["spec"]["selector"] == {"tier": "front"}


async def test_all_clonesets_are_scaled_with_all(stage: Stage) -> None:
    # given
    await stage.create(cloneset())
    # when
    await Kruise(stage).says("scale", "clone", "--all", "--replicas=4")
    # then
    assert (await stage.get("web"))["spec"]["replicas"] == 4


async def test_subjects_are_whole_values_and_accounts_belong_to_the_namespace_of_the_command(
    stage: Stage, tmp_path: Path
) -> None:
    # given
    kruise, words = Kruise(stage), ("--user=CN=b,O=x", "--user=a", "--serviceaccount=:robot", "-o", "json")
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "viewers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        }
        (tmp_path / f"{kind}.json").write_text(json.dumps(binding))
    # when
    shown = await kruise.says("set", "subject", "--local", "-f", str(tmp_path / "RoleBinding.json"), *words)
    refused = await kruise.refuses(
        "set", "subject", "--local", "-f", str(tmp_path / "ClusterRoleBinding.json"), *words
    )
    # then
    subjects = json.loads(shown)["subjects"]
    assert [subject["name"] for subject in subjects] == ["CN=b,O=x", "a", "robot"]
    assert subjects[-1] == {"kind": "ServiceAccount", "namespace": stage.namespace, "name": "robot"}
    assert "namespace must be specified" in refused


async def test_objects_of_files_are_shown(stage: Stage, tmp_path: Path) -> None:
    # given
    kruise = Kruise(stage)
    for name in ("web", "api"):
        await stage.create(cloneset(name))
        (tmp_path / f"{name}.json").write_text(json.dumps(cloneset(name)))
    # when, then
    file = str(tmp_path / "web.json")
    table = (await kruise.says("get", "-f", file)).splitlines()
    assert (table[0].split()[0], table[1].split()[0]) == ("NAME", "web")
    assert await kruise.says("get", "-f", file, "-o", "name") == "cloneset.apps.kruise.io/web\n"
    names = (await kruise.says("get", "-f", str(tmp_path), "-o", "name")).splitlines()
    assert names == ["cloneset.apps.kruise.io/api", "cloneset.apps.kruise.io/web"]
    assert "you may not specify resource arguments" in await kruise.refuses("get", "clone", "-f", file)


async def test_the_versions_are_printed_as_json_and_yaml(stage: Stage) -> None:
    kruise = Kruise(stage)
    versions = json.loads(await kruise.says("version", "-o", "json"))
    assert versions["clientVersion"]["gitVersion"] == __version__
    assert versions["serverVersion"]["gitVersion"].startswith("v1.")
    assert (await kruise.says("version", "--client", "-o", "yaml")).startswith("clientVersion:\n")
    assert "--output must be 'yaml' or 'json'" in await kruise.refuses("version", "-o", "name")


async def test_commands_are_recorded_and_configurations_saved(stage: Stage) -> None:
    # given
    kruise = Kruise(stage)
    await stage.create(cloneset())
    flags = ("--record", "--save-config", "-o", "json")
    # when
    await kruise.says("scale", "clone/web", "--replicas=4", "--record")
    scaler = json.loads(await kruise.says("autoscale", "clone/web", "--max=3", *flags))
    service = json.loads(await kruise.says("expose", "clone/web", "--port=80", *flags))
    shown = json.loads(await kruise.says("autoscale", "clone/web", "--max=3", "--dry-run=client", *flags))
    # then
    assert "scale" in (await stage.get("web"))["metadata"]["annotations"][CHANGE_CAUSE]
    for document in (scaler, service):
        annotations = document["metadata"]["annotations"]
        saved = json.loads(annotations[LAST_APPLIED])["metadata"]["annotations"]
        assert saved == {CHANGE_CAUSE: annotations[CHANGE_CAUSE]}
    assert set(shown["metadata"]["annotations"]) == {CHANGE_CAUSE}


@pytest.mark.parametrize("output", ["jsonpath={.spec.nope}", "go-template={{.spec.nope}}"])
async def test_missing_keys_of_a_template_are_refused_on_request(stage: Stage, output: str) -> None:
    # given
    kruise = Kruise(stage)
    await stage.create(cloneset())
    strict = "--allow-missing-template-keys=false"
    # when, then
    await kruise.says("get", "clone/web", "-o", output)
    assert "nope" in await kruise.refuses("get", "clone/web", "-o", output, strict)
    assert "nope" in await kruise.refuses("scale", "clone/web", "--replicas=3", "-o", output, strict)


# ── other kinds ──────────────────────────────────────────────────────────────


async def test_a_sidecarset_is_set_paused_and_rolled_back(stage: Stage) -> None:
    await stage.start_manager()
    name = f"log-{stage.namespace}"
    body = {
        "apiVersion": SIDECAR_SETS.api_version,
        "kind": SIDECAR_SETS.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "none"}},
            "containers": [{"name": "log", "image": "log:1"}],
        },
    }
    await stage.create(body, resource=SIDECAR_SETS)
    kruise = Kruise(stage)
    await stage.until(lambda: _has_revisions(kruise, name, 1))
    await kruise.says("set", "image", f"sidecarset/{name}", "*=log:2")
    await stage.until(lambda: _has_revisions(kruise, name, 2))
    await kruise.says("rollout", "undo", f"sidecarset/{name}")
    spec = decode(await stage.client.get(SIDECAR_SETS, "", name))["spec"]
    assert spec["containers"][0]["image"] == "log:1"
    await kruise.says("rollout", "pause", f"sidecarset/{name}")
    assert decode(await stage.client.get(SIDECAR_SETS, "", name))["spec"]["updateStrategy"]["paused"] is True
    await stage.client.delete(SIDECAR_SETS, "", name)


async def _has_revisions(kruise: Kruise, name: str, count: int) -> bool:
    said = await kruise.says("rollout", "history", f"sidecarset/{name}")
    return sum(line[:1].isdecimal() for line in said.splitlines()) == count


async def test_a_broadcast_job_is_created_and_waited_for(stage: Stage) -> None:
    """cli cases 52, 53"""
    await stage.start_manager()
    kruise = Kruise(stage)
    stage.kubelets.set_rules([Rule(image="once:1", exit_code=0, after_s=1.0)])
    assert "broadcastjob.apps.kruise.io/now created" in await kruise.says(
        "create", "broadcastJob", "now", "--image=once:1", "--wait", "--timeout=120s"
    )
    assert (await stage.get("now", resource=BROADCAST_JOBS))["status"]["succeeded"] >= 1
    assert "either --image or --from" in await kruise.refuses("create", "broadcastJob", "x")


async def test_get_all_lists_the_workloads_and_the_tree_lists_their_pods(stage: Stage) -> None:
    """cli case 57"""
    kruise = await started(stage)
    shown = await kruise.says("get", "all")
    assert "clonesets.apps.kruise.io:" in shown
    tree = await kruise.says("get", "rollout", "web")
    assert tree.count("□ web-") == 3
    assert "✔ Healthy" in tree
    described = await kruise.says("describe", "clone/web")
    assert "Revisions:" in described
    assert "SuccessfulCreate" in described
    rows = await kruise.says("get", "all", "-l", "app=none")
    assert "clonesets" not in rows


async def test_a_table_that_is_watched_has_a_row_for_each_change(stage: Stage) -> None:
    kruise = await started(stage)
    watching = asyncio.create_task(kruise.run("get", "clone", "web", "-w", "--timeout", "20s"))
    await asyncio.sleep(1.0)
    await kruise.says("scale", "clone/web", "--replicas=5", "--timeout=60s")
    # then scale has waited for the pods, and each step is a row
    assert (await stage.status())["replicas"] == 5
    rows = (await watching).out.splitlines()
    assert [row.split()[:2] for row in rows[:2]] == [["NAME", "DESIRED"], ["web", "3"]]
    assert ["web", "5"] in [row.split()[:2] for row in rows[2:]]
    # and one table at a time
    assert "single resource type" in await kruise.refuses("get", "clone,pods", "-w")


@pytest.mark.virtual_time("the API server is away for a minute")
async def test_a_watched_table_has_a_row_for_changes_that_its_watch_has_missed(stage: Stage) -> None:
    # given a watch that fails and is then too old
    await started(stage)
    await stage.stop_manager()
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(watches("/clonesets"), Answer(503), GoneAfter(0))
    watching = asyncio.create_task(Kruise(stage, faulty).run("get", "clone", "web", "-w", "--timeout", "20s"))
    await asyncio.sleep(0.5)
    # when
    await stage.scale("web", 5)
    # then
    said = await watching
    assert said.code == 0
    assert [row.split()[:2] for row in said.out.splitlines()] == [
        ["NAME", "DESIRED"],
        ["web", "3"],
        ["web", "5"],
    ]


@pytest.mark.virtual_time("the API server is away for a minute")
async def test_a_watched_tree_continues_after_reads_that_fail(stage: Stage) -> None:
    # given
    await started(stage)
    is_away = False
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(reads(), lambda _request: Answer(503) if is_away else None)
    stage.kubelets.set_rules([Rule(image="nginx:2", never_ready=True)])
    await stage.set_image("web", "nginx:2")
    watching = asyncio.create_task(Kruise(stage, faulty).run("get", "rollout", "web", "-w", "--timeout=10m"))
    await asyncio.sleep(5)
    # when
    is_away = True
    stage.kubelets.set_rules([])
    await stage.settled(replicas=3, updated=3)
    await asyncio.sleep(60)
    assert not watching.done()
    is_away = False
    # then
    assert (await watching).code == 0


@pytest.mark.virtual_time("the API server is away for a minute")
async def test_watched_tables_of_all_kinds_continue_after_reads_that_fail(stage: Stage) -> None:
    # given
    await started(stage)
    is_away = False
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(reads(), lambda _request: Answer(503) if is_away else None)
    watching = asyncio.create_task(Kruise(stage, faulty).run("get", "all", "-w", "--timeout=5m"))
    await asyncio.sleep(5)
    # when
    is_away = True
    await stage.scale("web", 5)
    await asyncio.sleep(60)
    assert not watching.done()
    is_away = False
    # then
    said = await watching
    assert (said.code, said.err) == (0, "")
    rows = [line.split()[:2] for line in said.out.splitlines() if line.startswith("web ")]
    assert (rows[0], rows[-1]) == (["web", "3"], ["web", "5"])


async def test_named_objects_are_one_table_and_a_missing_one_does_not_hide_the_others(stage: Stage) -> None:
    # given
    kruise = Kruise(stage)
    for name in ("a", "b"):
        await stage.create(cloneset(name))
    # when one of three objects is missing
    said = await kruise.run("get", "clone", "a", "missing", "b")
    # then the others are one table
    assert [line.split()[0] for line in said.out.splitlines()] == ["NAME", "a", "b"]
    assert said.err == 'Error from server (NotFound): clonesets.apps.kruise.io "missing" not found\n'
    assert said.code == 1
    # and are printed in other formats, too
    said = await kruise.run("get", "clone", "a", "missing", "b", "-o", "name")
    assert said.out == "cloneset.apps.kruise.io/a\ncloneset.apps.kruise.io/b\n"
    assert said.code == 1
    # with several types, each type has its table, whose names begin with the type
    rows = (await kruise.says("get", "clone/a", f"namespace/{stage.namespace}")).split("\n\n")
    names = [table.splitlines()[1].split()[0] for table in rows]
    assert names == ["cloneset.apps.kruise.io/a", f"namespace/{stage.namespace}"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-A",), "a resource cannot be retrieved by name across all namespaces"),
        (("-l", "app=web"), "name cannot be provided when a selector is specified"),
        (("-w", "-o", "json"), "--watch prints tables"),
    ],
)
async def test_flags_that_do_not_fit_a_named_object_are_refused(
    stage: Stage, flags: tuple[str, ...], message: str
) -> None:
    await stage.create(cloneset())
    assert message in await Kruise(stage).refuses("get", "clone", "web", *flags)


async def test_text_of_the_cluster_does_not_act_on_the_terminal(stage: Stage) -> None:
    # given a user who writes control characters wherever a text is allowed
    kruise = await started(stage)
    clear = "\x1b[2J\x1b]0;title\x07"
    await stage.merge("web", {"metadata": {"annotations": {CHANGE_CAUSE: clear, "note": clear}}})
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    await stage.settled(replicas=3, updated=3)
    # when an administrator looks at the objects
    for command in ("describe clone/web", "rollout history clone/web", "get clone", "get rollout web"):
        shown = await kruise.says(*command.split())
        # then
        assert "\x1b" not in shown
        assert "\x07" not in shown
    assert "note=^[[2J^[]0;title\\x07" in await kruise.says("describe", "clone/web")


async def test_scale_exits_with_1_when_pods_are_not_created_in_time(stage: Stage) -> None:
    kruise = await started(stage)
    await stage.stop_manager()
    said = await kruise.refuses("scale", "clone/web", "--replicas=5", "--timeout=2s")
    assert said == 'error: timed out waiting for "web" to be synced\n'


@pytest.mark.long_on_real
@pytest.mark.not_in_brief("it waits for nothing to happen, which virtual time shows as well")
async def test_a_tree_is_read_again_only_after_a_change(stage: Stage) -> None:
    # given a rollout that stands still
    kruise = await started(stage, cloneset(updateStrategy=rolling(maxUnavailable=1)))
    stage.kubelets.set_rules([Rule(image="nginx:2", image_pull_error=True)])
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    await asyncio.sleep(stage.long_s)
    # when
    said = await kruise.run("get", "rollout", "web", "-w", "--timeout=30s", "-v=6")
    # then there are lists of what it begins with, and none for each second
    assert said.code == 1
    assert len([line for line in said.err.splitlines() if "/pods 200" in line]) < 15


# ── migrate ──────────────────────────────────────────────────────────────────


@pytest.mark.virtual_time("it polls every second")
async def test_a_move_whose_pods_are_stuck_fails_in_time_and_keeps_what_it_has_done(stage: Stage) -> None:
    """cli case 51"""
    # given a Deployment whose pods can be moved, and an image that no further pod gets
    await stage.start_manager()
    kruise = Kruise(stage)
    document = cloneset("old", replicas=4) | {"apiVersion": "apps/v1", "kind": "Deployment"}
    document["spec"].pop("updateStrategy", None)
    await stage.create(document, resource=DEPLOYMENTS)
    common = ("migrate", "CloneSet", "--from", "Deployment", "-n", stage.namespace)
    names = ("--src-name", "old", "--dst-name", "new")
    await kruise.says(*common, *names, "--create")
    stage.kubelets.set_rules([Rule(image="nginx:1", image_pull_error=True)])
    # when
    said = await kruise.refuses(*common, *names, "--replicas", "2", "--timeout-seconds", "5")
    # then
    assert "migration failed: timed out" in said
    assert "to undo this: kubectl kruise scale deployment/old --replicas=4" in said
    assert (await stage.get("old", resource=DEPLOYMENTS))["spec"]["replicas"] == 4
    assert (await stage.get("new"))["spec"]["replicas"] == 1


@pytest.mark.virtual_time("it polls every second")
async def test_a_deployment_moves_to_a_cloneset_within_its_surge(stage: Stage) -> None:
    """cli cases 47, 48, 49"""
    await stage.start_manager()
    kruise = Kruise(stage)
    document = cloneset("old", replicas=4)
    document |= {"apiVersion": "apps/v1", "kind": "Deployment"}
    document["spec"].pop("updateStrategy", None)
    await stage.create(document, resource=DEPLOYMENTS)
    common = (
        "migrate",
        "CloneSet",
        "--from",
        "Deployment",
        "-n",
        stage.namespace,
        "--src-name",
        "old",
        "--dst-name",
        "new",
    )
    assert '"namespace" not set' in await kruise.refuses(*common[:4], *common[6:])
    # when it is made, and looked at
    assert (
        await kruise.says(*common, "--create") == "Successfully created from Deployment/old to CloneSet/new\n"
    )
    assert (await stage.get("new"))["spec"]["replicas"] == 0
    assert "already exists" in await kruise.refuses(*common, "--create")
    plan = await kruise.says(*common, "--max-surge", "2", "--plan")
    assert "never fewer than 4 pods, never more than 6" in plan
    assert (await stage.get("new"))["spec"]["replicas"] == 0
    # and then moved
    said = await kruise.says(*common, "--max-surge", "2")
    assert said.endswith("Successfully migrated 4 replicas from Deployment/old to CloneSet/new\n")
    assert (await stage.get("new"))["spec"]["replicas"] == 4
    assert (await stage.get("old", resource=DEPLOYMENTS))["spec"]["replicas"] == 0


# ── Rollouts, a kind that is not ours ────────────────────────────────────────


async def rollouts_defined(stage: Stage) -> None:
    """The definition of Rollouts, as far as the commands look at it."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}
        },
    }
    names = {"plural": "rollouts", "singular": "rollout", "kind": "Rollout", "listKind": "RolloutList"}
    body = {
        "metadata": {"name": "rollouts.rollouts.kruise.io"},
        "spec": {"group": "rollouts.kruise.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await stage.client.create(
        CUSTOM_RESOURCE_DEFINITIONS,
        "",
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **body},
    )

    async def is_served() -> bool:
        try:
            await stage.client.list(ROLLOUTS, stage.namespace)
        except Exception:
            return False
        return True

    await stage.until(is_served)


def rollout_of(cloneset_name: str) -> Object:
    steps = [{"replicas": "10%"}, {"replicas": "50%"}, {"replicas": "100%"}]
    ref = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": cloneset_name}
    return {
        "apiVersion": ROLLOUTS.api_version,
        "kind": ROLLOUTS.kind,
        "metadata": {"name": "r"},
        "spec": {"workloadRef": ref, "strategy": {"canary": {"steps": steps}}},
    }


AT_STEP_2 = {
    "phase": "Progressing",
    "canaryStatus": {"currentStepIndex": 2, "currentStepState": "StepPaused"},
}


@pytest.mark.virtual_time("the API server is away for a minute")
async def test_a_watched_rollout_continues_after_reads_that_fail(stage: Stage) -> None:
    # given
    await started(stage)
    await rollouts_defined(stage)
    await stage.create(rollout_of("web"), resource=ROLLOUTS)
    is_away = False
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(reads(), lambda _request: Answer(503) if is_away else None)
    watching = asyncio.create_task(
        Kruise(stage, faulty).run("describe", "rollout", "r", "-w", "--timeout=5m")
    )
    await asyncio.sleep(5)
    # when
    is_away = True
    await stage.merge("r", {"status": AT_STEP_2}, resource=ROLLOUTS, subresource="status")
    await asyncio.sleep(60)
    assert not watching.done()
    is_away = False
    # then the change is printed, and the command ends at its time limit
    said = await watching
    assert (said.code, said.err) == (1, "error: timed out waiting for the condition\n")
    printed = said.out.split("Name: ")[1:]
    assert "Step:         0/3" in printed[0]
    assert "Step:         2/3" in printed[-1]
    assert all(text.count("Running") == 3 for text in printed)


@pytest.mark.virtual_time("a definition is the whole cluster's")
async def test_rollouts_are_approved_paused_shown_and_undone_through_their_workload(stage: Stage) -> None:
    """cli cases 21, 28, 58"""
    kruise = await started(stage)
    await rollouts_defined(stage)
    await stage.create(rollout_of("web"), resource=ROLLOUTS)
    # before it has a status
    assert "Step:         0/3" in await kruise.says("describe", "rollout", "r")
    assert "it is in no step" in await kruise.refuses("rollout", "approve", "rollout/r")
    # at a step
    status = AT_STEP_2
    await stage.merge("r", {"status": status}, resource=ROLLOUTS, subresource="status")
    assert "2: replicas 50%, traffic -  (StepPaused)" in await kruise.says("describe", "rollout", "r")
    assert await kruise.says("rollout", "approve", "rollouts/r") == "rollout.rollouts.kruise.io/r approved\n"
    state = (await stage.get("r", resource=ROLLOUTS))["status"]["canaryStatus"]
    assert state == {"currentStepIndex": 2, "currentStepState": "StepReady"}
    # after a conflict in the same step
    await stage.merge("r", {"status": status}, resource=ROLLOUTS, subresource="status")
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(patches("/rollouts/r"), conflict())
    await Kruise(stage, faulty).says("rollout", "approve", "rollouts/r")
    assert "'StepReady'" in await kruise.refuses("rollout", "approve", "rollouts/r")
    await kruise.says("rollout", "undo", "rollouts/r", "--fast")
    assert (await stage.get("r", resource=ROLLOUTS))["status"]["canaryStatus"]["nextStepIndex"] == 1
    await kruise.says("rollout", "pause", "rollouts/r")
    assert (await stage.get("r", resource=ROLLOUTS))["spec"]["strategy"]["paused"] is True
    # its workload is rolled back once, however often it is named
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    await stage.settled(replicas=3, updated=3)
    assert (await kruise.says("rollout", "undo", "rollouts/r", "clone/web")).count("rolled back") == 1
    assert "⟳ web" in await kruise.says("get", "rollout", "r")


# ── completion, and questions to no cluster ──────────────────────────────────


async def test_words_are_completed_from_the_cluster(stage: Stage) -> None:
    kruise = await started(stage)
    assert await kruise.says("__complete", "rollout", "pause", "clone/w") == "clone/web\n:4\n"
    assert "clonesets.apps.kruise.io\n" in await kruise.says("__complete", "rollout", "pause", "clones")
    assert "--to-revision" in await kruise.says("__complete", "rollout", "undo", "--to")


async def test_the_namespace_of_a_manifest_must_not_contradict(stage: Stage) -> None:
    kruise = await started(stage)
    manifest = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": stage.namespace},
    }
    said = await kruise.refuses(
        "rollout", "pause", "-f", "-", "-n", "kube-system", stdin=json.dumps(manifest)
    )
    assert 'does not match the namespace "kube-system"' in said
    assert NAMESPACES.plural not in said


async def test_a_rollout_that_is_deleted_while_it_is_waited_for_is_an_error(stage: Stage) -> None:
    """cli case 10"""
    kruise = await started(stage)
    stage.kubelets.set_rules([Rule(image="nginx:2", never_ready=True)])
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    waiting = asyncio.create_task(kruise.run("rollout", "status", "clone/web", "--timeout=120s"))
    await asyncio.sleep(1.0)
    await stage.delete("web")
    assert "object has been deleted" in (await waiting).err


async def test_a_rollout_is_waited_for_while_the_api_server_is_away(stage: Stage) -> None:
    # given an unfinished rollout
    kruise = await started(stage)
    stage.kubelets.set_rules([Rule(image="nginx:2", ready_s=1.0)])
    await kruise.says("set", "image", "clone/web", "main=nginx:2")
    faulty = FaultyTransport(stage.client.transport)
    away = [Refuse(), Answer(503), Answer(500), Refuse()]
    # given a watch that breaks and is not opened again for some time, and reads that fail after the first one
    faulty.on(watches("/clonesets"), CutAfter(1), *away)
    faulty.on(reads("/clonesets/web"), None, *away)
    # when
    said = await Kruise(stage, faulty).run("rollout", "status", "clone/web", "--timeout=600s")
    # then
    assert (said.code, said.err) == (0, "")
    assert faulty.faults_done > len(away)


@pytest.mark.parametrize("kind", [CLONE_SET_TEMPLATE, DEPLOYMENT_TEMPLATE])
async def test_a_uniteddeployment_is_set_restarted_and_rolled_back(stage: Stage, kind: str) -> None:
    await stage.start_manager()
    kruise = Kruise(stage)
    document = united_document(kind, [{"name": "a"}], replicas=2)
    name = f"ud/{document['metadata']['name']}"
    await stage.create(document, resource=UNITED_DEPLOYMENTS)
    await stage.until(lambda: _revisions(kruise, name, 1))
    before = (await _united(stage, document))["spec"]["template"]
    await kruise.says("set", "image", name, "*=other:2")
    await stage.until(lambda: _revisions(kruise, name, 2))
    assert (await _united(stage, document))["spec"]["template"] != before
    # when
    assert "rolled back" in await kruise.says("rollout", "undo", name)
    # then
    assert "other:2" not in str((await _united(stage, document))["spec"]["template"])
    await kruise.says("rollout", "restart", name)
    assert "RESTARTED_AT" in str((await _united(stage, document))["spec"]["template"])
    assert "pausing is not supported" in await kruise.refuses("rollout", "pause", name)


async def _united(stage: Stage, document: Object) -> Object:
    return await stage.get(document["metadata"]["name"], resource=UNITED_DEPLOYMENTS)


async def _revisions(kruise: Kruise, name: str, count: int) -> bool:
    said = await kruise.says("rollout", "history", name)
    return sum(line[:1].isdecimal() for line in said.splitlines()) == count


async def test_daemon_sets_and_schedules_take_their_verbs_too(stage: Stage) -> None:
    await stage.start_manager()
    kruise = Kruise(stage)
    labels = {"app": "ag"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "ag:1"}]}}
    agents = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "DaemonSet",
        "metadata": {"name": "ag"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    await stage.create(agents, resource=DAEMON_SETS)
    await kruise.says("rollout", "status", "ads/ag", "--timeout=120s")
    await kruise.says("rollout", "restart", "ads/ag")
    await kruise.says("set", "maxunavailable", "ads/ag", "50%")
    await kruise.says("rollout", "status", "ads/ag", "--timeout=120s")
    job = {
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "image": "x:1"}], "restartPolicy": "Never"}}
        }
    }
    nightly = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "AdvancedCronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 1 1 *", "template": {"broadcastJobTemplate": job}},
    }
    await stage.create(nightly, resource=ADVANCED_CRON_JOBS)
    await kruise.says("rollout", "pause", "acj/nightly")
    assert (await stage.get("nightly", resource=ADVANCED_CRON_JOBS))["spec"]["paused"] is True
    assert "nightly image updated (dry run)" in await kruise.says(
        "set", "image", "acj/nightly", "main=x:2", "--dry-run=client"
    )
    # and a job of it is made by hand
    await kruise.says("create", "broadcastJob", "now", "--from", "acj/nightly")
    made = await stage.get("now", resource=BROADCAST_JOBS)
    assert made["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert "creates BroadcastJobs or ImageListPullJobs, not Jobs" in await kruise.refuses(
        "create", "job", "j", "--from", "acj/nightly"
    )


@pytest.mark.parametrize(
    ("resource", "kind", "available", "document"),
    [
        pytest.param(
            ADVANCED_STATEFUL_SETS,
            STATEFUL_SET,
            "availableReplicas",
            statefulset(replicas=4, updateStrategy=rolling(maxUnavailable=1)),
            id="StatefulSet",
        ),
        pytest.param(
            DAEMON_SETS,
            DAEMON_SET,
            "numberAvailable",
            daemonset("web", updateStrategy=rolling(maxUnavailable=1)),
            id="DaemonSet",
        ),
    ],
)
@pytest.mark.virtual_time("all four nodes get a pod")
async def test_the_remedy_restores_all_pods_for_other_kinds_too(
    stage: Stage, resource: Resource, kind: Any, available: str, document: Object
) -> None:
    # given a rollout that an image stops
    await stage.start_manager()
    kruise = Kruise(stage)
    await stage.create(document, resource=resource)

    async def count() -> int:
        status = (await stage.get("web", resource=resource)).get("status") or {}
        return int(status.get(available, 0))

    async def has(number: int) -> bool:
        return await count() == number

    await stage.until(lambda: has(4))
    stage.kubelets.set_rules([Rule(image="nginx:2", image_pull_error=True)])
    await kruise.says("set", "image", f"{resource}/web", "*=nginx:2")
    await stage.until(lambda: has(3))
    await asyncio.sleep(stage.long_s / 5)
    # when
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, "web"), now=stage.clock(), kind=kind
    )
    said = format_explanation(explanation, now=stage.clock())
    assert not any("raise" in wait.remedy for wait in explanation.waits), said
    (command,) = {
        wait.remedy.partition("roll back: kubectl kruise ")[2]
        for wait in explanation.waits
        if "roll back: " in wait.remedy
    }
    undo, _, deletion = command.partition("; then kubectl delete pod ")
    await kruise.says(*undo.split())
    for name in deletion.partition(" -n ")[0].split():
        await stage.delete(name, resource=PODS)
    # then
    least = 4

    async def is_whole() -> bool:
        nonlocal least
        least = min(least, now := await count())
        return now == 4

    await stage.until(is_whole)
    assert least == 3
