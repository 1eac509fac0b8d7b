"""The report of `pykruise switch-over check` on a cluster whose manager has ended; the check writes nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pykruise.cli.errors import CommandError
from pykruise.cli.switch_over import report_lines, run_check, run_move, run_show
from pykruise.kinds import use_stored_versions
from pykruise.kinds.gates import Gates
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    Resource,
)
from pykruise.kube.yaml_documents import format_yaml_stream
from pykruise.manager.install import MANAGER, POD_LABELS, Installation, build_manifests
from pykruise.manager.replacement import (
    Replacement,
    find_replacement,
    list_agent_findings,
    list_manager_findings,
)
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.switch_over import SwitchReport, check_switch
from support.daemonsets import Pool
from support.scenario import Stage, cloneset
from support.uniteddeployments import CLONE_SET, NAME, United


@pytest.fixture
async def united(stage: Stage, pool: Pool) -> United:
    united = United(stage, pool, CLONE_SET)
    await united.label_nodes()
    return united


async def checked(stage: Stage) -> tuple[SwitchReport, list[str]]:
    """The report, and all requests of the check that were not reads."""
    metered = MeteredTransport(stage.client.transport)
    client = stage.client.replace_transport(use_stored_versions(metered))
    report = await check_switch(client, now=stage.clock(), settings=ManagerSettings(gates=Gates()))
    writes = [what for what in metered.requests if not what.startswith(("GET", "WATCH"))]
    return report, writes


async def test_at_rest_the_check_reports_no_pod_to_change(stage: Stage, united: United) -> None:
    # given workloads at rest, and no manager
    await stage.start_manager()
    await united.create(replicas=4)
    await stage.create(cloneset("shop", replicas=4))
    await united.settled(a=2, b=2)
    await stage.settled("shop", replicas=4)
    await stage.stop_manager()
    # when
    report, writes = await checked(stage)
    # then
    assert (report.pods, list(report.writes), writes) == (frozenset(), [], [])
    assert report.is_safe
    assert next(iter(report_lines(report))) == "0 pods would be affected."


async def test_a_revision_that_would_be_another_is_named_with_its_united_deployment(
    stage: Stage, united: United
) -> None:
    # given a template that no stored revision has
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    await stage.stop_manager()
    change: Any = {"spec": {"template": {CLONE_SET: {"spec": {"minReadySeconds": 7}}}}}
    await stage.merge(NAME, change, resource=UNITED_DEPLOYMENTS)
    # when
    report, writes = await checked(stage)
    # then
    assert writes == []
    assert not report.is_safe
    assert {write.owner for write in report.writes} == {f"{stage.namespace}/{NAME}"}
    assert len(report.pods) == 4
    text = "\n".join(report_lines(report))
    assert f"UnitedDeployment {stage.namespace}/{NAME}: patch CloneSet" in text


async def test_pods_of_a_running_rollout_are_counted(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    await stage.stop_manager()
    await stage.set_image("web", "nginx:2")
    report, _ = await checked(stage)
    assert report.pods
    assert {write.verb for write in report.writes} >= {"create", "delete"}


async def test_the_fields_that_the_newest_revision_lacks_are_named(stage: Stage) -> None:
    # given a template with fields that the newest revision lacks
    await stage.start_manager()
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    await stage.stop_manager()
    change = {"template": {"spec": {"hostnameOverride": "web", "priorityClassName": "system-node-critical"}}}
    await stage.merge("web", {"spec": change})
    # when
    report, _ = await checked(stage)
    # then
    why = next(write.why for write in report.writes if write.target.startswith("ControllerRevision"))
    (revision,) = await stage.stored(CONTROLLER_REVISIONS)
    name = revision["metadata"]["name"]
    assert why.endswith(
        f": the template differs from revision {name} in spec.hostnameOverride, spec.priorityClassName"
    )
    assert any(why in line for line in report_lines(report))


async def test_an_object_that_pykruise_rejects_is_reported(stage: Stage) -> None:
    # given a stored value that admission rejects
    await stage.create(cloneset(replicas=0))
    change = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": "half"}}}}
    with stage.past_admission():
        await stage.merge("web", change)
    # when
    report, _ = await checked(stage)
    # then
    assert not report.is_safe
    (problem,) = next(kind for kind in report.kinds if kind.kind == "CloneSet").problems
    assert problem.startswith(f"{stage.namespace}/web: spec.updateStrategy.rollingUpdate.partition: ")
    assert f"  CloneSet {problem}" in report_lines(report)


def daemon_set(folder: str) -> dict[str, Any]:
    """The agents as OpenKruise's chart installs them."""
    container = {
        "name": "daemon",
        "image": "openkruise/kruise-manager:v1.9.0",
        "volumeMounts": [{"name": "runtime-socket-dir", "mountPath": "/hostvarrun", "readOnly": True}],
    }
    volume = {"name": "runtime-socket-dir", "hostPath": {"path": folder, "type": ""}}
    labels = {"control-plane": "daemon"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "kruise-daemon", "namespace": "kruise-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "volumes": [volume]},
            },
        },
    }


@pytest.mark.parametrize(
    ("folder", "runtime", "message", "flag"),
    [
        ("/var/run", "containerd://2.1.4", "", ""),
        ("/var/run", "cri-o://1.32.1", "", ""),
        ("/var/run/containerd", "containerd://2.1.4", "", ""),
        ("/run/containerd", "containerd://2.1.4", "", ""),
        (
            "/var/run/",
            "docker://28.0.1",
            "1 node (n-1) uses neither containerd nor CRI-O; the new agents would not mount the sockets of other"
            " container runtimes",
            "/var/run",
        ),
        (
            "/run/k3s",
            "containerd://2.1.4-k3s1",
            "the agents find the container runtime's socket in /run/k3s, which the new agents would not mount",
            "/run/k3s",
        ),
    ],
)
async def test_a_folder_that_the_agents_need_is_named(
    stage: Stage, folder: str, runtime: str, message: str, flag: str
) -> None:
    # given
    with suppress(AlreadyExistsError):
        await stage.client.create(NAMESPACES, "", {"metadata": {"name": "kruise-system"}})
    await stage.client.create(DAEMON_SETS, "kruise-system", daemon_set(folder))
    for listed in (await stage.client.list(NODES)).items:
        await stage.client.delete(NODES, "", decode(listed)["metadata"]["name"])
    node = {"metadata": {"name": "n-1"}, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}
    await stage.client.create(NODES, "", node)
    # when
    report, writes = await checked(stage)
    # then
    findings = [(item.what, item.fix) for item in report.findings if item.check == "agents"]
    fix = f"give --socket-location={flag} to pykruise install (chart: daemon.socketLocation)"
    assert findings == ([(message, fix)] if message else [])
    assert writes == []


def build_agents(folder: str, file: str) -> dict[str, Any]:
    """OpenKruise's agents that use one socket."""
    agents = daemon_set(folder)
    agents["spec"]["template"]["spec"]["containers"][0]["args"] = ["--v=4", f"--socket-file={file}"]
    return agents


def install(**options: Any) -> Replacement:
    """The output of `pykruise install` with these options."""
    replacement = find_replacement(build_manifests(Installation(has_crds=False, **options)))
    assert replacement is not None
    return replacement


@pytest.mark.parametrize(
    ("folder", "file", "options", "is_found"),
    [
        ("/var/run", "", {}, True),
        ("/var/run", "containerd/containerd.sock", {}, True),
        ("/run", "crio/crio.sock", {}, True),
        ("/var/run", "cri-dockerd.sock", {}, False),
        ("/var/run", "cri-dockerd.sock", {"socket_location": "/var/run"}, True),
        ("/var/run", "k3s/containerd/containerd.sock", {}, False),
        ("/var/run", "k3s/containerd/containerd.sock", {"socket_location": "/var/run"}, False),
        (
            "/var/run",
            "k3s/containerd/containerd.sock",
            {"socket_file": "k3s/containerd/containerd.sock"},
            True,
        ),
        ("/var/run", "k3s/containerd/containerd.sock", {"socket_location": "/run/k3s"}, True),
    ],
)
def test_a_socket_that_the_new_agents_would_not_find_is_named(
    folder: str, file: str, options: dict[str, str], is_found: bool
) -> None:
    running, new = build_agents(folder, file), install(**options).daemon_set
    findings = [finding.format_line() for finding in list_agent_findings(running, new, [])]
    warning = (
        f"warning  agents: the running agents use the socket {folder}/{file}, which the new agents would not find"
        f" — fix: give --socket-location={folder} --socket-file={file} to pykruise install"
        " (chart: daemon.socketLocation, daemon.socketFile)"
    )
    assert findings == ([] if is_found else [warning])


def build_manager(*flags: str, replicas: int = 2, **limits: str) -> dict[str, Any]:
    """OpenKruise's Deployment with these flags, after a container of another program."""
    has_gates = any(flag.startswith("--feature-gates=") for flag in flags)
    gates = () if has_gates else ("--feature-gates=ImagePullJobGate=true",)  # as OpenKruise's chart
    manager = {
        "name": "manager",
        "image": "openkruise/kruise-manager:v1.9.0",
        "command": ["/manager"],
        "args": ["--logtostderr=true", "--v=4", *gates, *flags],
        "resources": {"limits": {"cpu": "200m", "memory": "512Mi", **limits}},
    }
    proxy = {"name": "proxy", "image": "proxy:1", "args": ["--secure-listen-address=0.0.0.0:8443"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER, "namespace": "kruise-system"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(POD_LABELS)},
            "template": {
                "metadata": {"labels": dict(POD_LABELS)},
                "spec": {"containers": [proxy, manager]},
            },
        },
    }


LEASE = "kruise-system/kruise-manager"


@pytest.mark.parametrize(
    ("running", "options", "messages"),
    [
        (build_manager(), {}, []),
        (build_manager("--cloneset-workers=3", "--rest-config-qps=50"), {}, []),
        (
            build_manager("--cloneset-workers=10"),
            {},
            ["warning  flags: the running manager has --cloneset-workers=10; the new one has the default, 3"],
        ),
        (
            build_manager("--namespace=team-a", "--metrics-addr=:9090"),
            {},
            [
                "warning  flags: the running manager has --namespace=team-a; the new one has the default, empty",
                "warning  flags: the running manager has --metrics-addr=:9090; the new one has --metrics-addr=:8080",
            ],
        ),
        (
            build_manager("--feature-gates=CloneSetShortHash=true,ImagePullJobGate=true"),
            {},
            ["warning  gates: the switch changes gates of the running manager: CloneSetShortHash=true"],
        ),
        (
            build_manager(replicas=3, memory="2Gi"),
            {},
            [
                "warning  replicas: 3 managers run; the switch reduces the number to 2",
                "warning  resources: the memory limit of the running manager is 2Gi; the limit of the new one is 512Mi",
            ],
        ),
        (build_manager(replicas=3), {"replicas": 3}, []),
        (
            build_manager("--leader-election-id=kruise"),
            {},
            [
                "fault    lease: the running manager uses the Lease kruise-system/kruise, the new one"
                f" {LEASE}: during the switch, both managers would work at the same time"
            ],
        ),
        (
            build_manager("--enable-leader-election=false"),
            {},
            [
                "fault    lease: the running manager uses no Lease: during the switch, both managers would work at the"
                " same time"
            ],
        ),
        (build_manager("--enable-leader-election=false", replicas=0), {}, []),
    ],
)
def test_settings_that_the_new_manager_lacks_are_named(
    running: dict[str, Any], options: dict[str, Any], messages: list[str]
) -> None:
    findings = [finding.format_line() for finding in list_manager_findings(running, install(**options))]
    assert [line.partition(" — fix: ")[0] for line in findings] == messages


async def create_kruise_system(stage: Stage, *objects: tuple[Resource, dict[str, Any]]) -> None:
    """Create the namespace, and objects in it."""
    with suppress(AlreadyExistsError):
        await stage.client.create(NAMESPACES, "", {"metadata": {"name": "kruise-system"}})
    for resource, document in objects:
        await stage.client.create(resource, "kruise-system", document)


async def check_manifests(
    stage: Stage, folder: Path, *, flags: Sequence[str] = (), feature_gates: str = "", **options: Any
) -> tuple[int, str]:
    """The exit code and the output of `switch-over check -f switch.yaml`, whose manager has additional flags."""
    file = folder / "switch.yaml"
    documents = build_manifests(Installation(has_crds=False, **options))
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["template"]["spec"]["containers"][0]["args"] += flags
    file.write_text(format_yaml_stream(documents))
    shown: list[str] = []

    @asynccontextmanager
    async def reach(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield stage.client, stage.namespace

    code = await run_check(
        kubeconfig=None,
        context=None,
        namespace="",
        feature_gates=feature_gates,
        file=file,
        output="text",
        say=shown.append,
        reach=reach,
    )
    return code, "\n".join(shown)


async def test_the_check_judges_the_manager_of_the_manifests(stage: Stage, tmp_path: Path) -> None:
    # given a running manager with a flag and a gate that switch.yaml lacks, and an own budget of its pods
    flags = ("--cloneset-workers=10", "--feature-gates=CloneSetShortHash=true")
    selector = {"matchLabels": dict(POD_LABELS)}
    budget = {"metadata": {"name": "mine"}, "spec": {"minAvailable": 1, "selector": selector}}
    await create_kruise_system(stage, (DEPLOYMENTS, build_manager(*flags)), (POD_DISRUPTION_BUDGETS, budget))
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    await stage.stop_manager()
    # when
    code, text = await check_manifests(stage, tmp_path)
    # then the writes are those of the new manager, and what it lacks is listed
    assert text.startswith("0 pods would be affected.")
    assert code == 0
    assert "flags: the running manager has --cloneset-workers=10" in text
    assert "gates of the running manager: CloneSetShortHash=true" in text
    assert "the PodDisruptionBudget mine also covers the manager's pods" in text
    # when the manifests are for another namespace
    code, text = await check_manifests(stage, tmp_path, namespace="elsewhere")
    # then they would not replace the running manager
    assert code == 1
    assert (
        "fault    namespace: the running manager is in the namespace kruise-system; the switch would start a second"
        " manager in elsewhere"
    ) in text


async def test_the_flags_of_the_manifests_decide_which_objects_are_planned(
    stage: Stage, tmp_path: Path
) -> None:
    # given a CloneSet without pods yet
    await create_kruise_system(stage)
    await stage.create(cloneset(replicas=2))
    # then a manager of all namespaces would create them, and one of another namespace would not
    everywhere, _ = await check_manifests(stage, tmp_path)
    elsewhere, text = await check_manifests(stage, tmp_path, flags=["--namespace=elsewhere"])
    assert (everywhere, elsewhere) == (1, 0), text
    # and a manager that would not start is a fault
    code, text = await check_manifests(stage, tmp_path, flags=["--no-such-flag"])
    assert code == 1
    assert "fault    flags: the new manager rejects its flags: --no-such-flag is not known" in text


async def test_gates_are_given_once(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--feature-gates: the manifests of --file contain the gates"):
        await check_manifests(stage, tmp_path, feature_gates="CloneSetShortHash=true")


async def test_manifests_without_a_manager_are_rejected(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="contains no Deployment kruise-controller-manager"):
        await check_manifests(stage, tmp_path, webhook_host="192.0.2.10")


async def test_the_stored_version_is_shown_and_migrated(stage: Stage) -> None:
    if any(len(definition["spec"]["versions"]) == 1 for definition in await _definitions(stage)):
        pytest.skip("nothing to move to: --stored=v1alpha1 serves no other version")
    # given
    await stage.create(cloneset(replicas=0))
    before = await stage.get("web")

    @asynccontextmanager
    async def reach(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield stage.client, stage.namespace

    shown: list[str] = []
    asked: dict[str, Any] = {"kubeconfig": None, "context": None, "say": shown.append, "reach": reach}
    # when
    await run_move(**asked, layout="v1alpha1", kinds=("clonesets",))
    await run_show(**asked, output="text")
    # then
    assert "clonesets.apps.kruise.io: stored in v1alpha1, 1 object rewritten" in shown
    line = next(line for line in shown if line.startswith("clonesets.apps.kruise.io  "))
    assert line.split() == ["clonesets.apps.kruise.io", "v1alpha1", "v1alpha1,", "v1beta1", "v1alpha1"]
    after = await stage.get("web")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert before["spec"].items() <= after["spec"].items()
    with pytest.raises(CommandError, match="--kind wheels: no kind with two versions has this name"):
        await run_move(**asked, layout="v1beta1", kinds=("wheels",))


async def _definitions(stage: Stage) -> list[Any]:
    listed = await stage.client.list(CUSTOM_RESOURCE_DEFINITIONS)
    return [item for item in map(decode, listed.items) if item["spec"]["names"]["kind"] == "CloneSet"]
