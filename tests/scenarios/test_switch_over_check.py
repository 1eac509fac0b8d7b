"""The report of `pykruise switch-over check` on a cluster whose manager has ended; the check writes nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from pykruise.cli.errors import CommandError
from pykruise.cli.switch_over import report_lines, run_move, run_show
from pykruise.kinds import use_stored_versions
from pykruise.kinds.gates import Gates
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, NAMESPACES, NODES
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
        (
            "/var/run/",
            "docker://28.0.1",
            "1 node (n-1) uses neither containerd nor CRI-O; pykruise install does not mount the sockets of other"
            " container runtimes",
            "/var/run",
        ),
        (
            "/run/k3s",
            "containerd://2.1.4-k3s1",
            "the agents find the container runtime's socket in /run/k3s, which pykruise install does not mount",
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
