"""Simulated kubelets report of pods what real ones report.

pytest tests/scenarios/test_pod_lives.py                                  the sandbox against the recording
... --cluster=real --real-nodes                                           real nodes against the recording
... --cluster=real --real-nodes --record                                  what real nodes report is recorded
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.pod_lives import Life, Record, differences, life
from support.scenario import Stage
from support.up import Kubectl

pytestmark = pytest.mark.node

RECORDED = Path(__file__).parent / "recorded"
NODE = "node-3"
GATE = "example.com/connected"

KNOWN: Mapping[str, str] = {
    "*: settled/*/fields/resources": "Resources of the whole pod are not reported.",
    "*: settled/*/fields/allocatedResources": "Resources of the whole pod are not reported.",
    "*: settled/*/containers/*/resources": "Resources of ended containers are not reported.",
    "*: settled/*/containers/*/fields/resources": "Resources of ended containers are not reported.",
    "*: settled/*/conditions/PodReadyToStartContainers/*": "Older kubelets give no reason.",
    "*: values/conditions.PodReadyToStartContainers": "Older kubelets give no reason.",
    "one_that_crashes: settled/*/restartCount": "A waiting container is reported at once, not in the next round.",
    "one_that_crashes: settled/*/message": "A waiting container is reported at once, not in the next round.",
    "one_that_crashes: values/main.restartCount": "A waiting container is reported at once.",
    "one_that_lacks_a_config_map: values/main.state": "The start of the container takes a moment, and is reported.",
    "one_that_lacks_a_config_map: values/conditions.*": "The first reported status is that the container waits.",
}
"""Intended differences: pattern of `<life>: <path>` → the reason."""

KNOWN_OF: Mapping[str, Mapping[str, str]] = {
    "1.32": {
        "*: settled/*/isObserved": "Pods have a generation since 1.33.",
        "*: settled/*/fields/observedGeneration": "Pods have a generation since 1.33.",
        "one_that_is_resized: settled/*/containers/main/allocatedResources": "Reported since 1.33.",
        "one_that_is_resized: values/conditions.PodResizeInProgress": "A condition since 1.33.",
    },
    "1.37": {},
}
"""Further intended differences of a minor of Kubernetes."""


@pytest.fixture
def cluster_settings() -> ClusterSettings:
    kubelet = KubeletSettings(
        lease_s=None,
        init_s=1.0,
        resize_s=1.0,
        observed_generation=True,
        report_pending_after_s=0.0,
        report_stopped=True,
    )
    return ClusterSettings(nodes=4, kubelet=kubelet, start_s=1.0, ready_s=0.0, stop_s=1.0)


def pod(name: str, spec: Document | None = None, /, **main: Any) -> Document:
    """A pod with the container `main` on one of the nodes."""
    own = {"nodeName": NODE, "automountServiceAccountToken": False}
    containers = [{"name": "main", "image": "web:1", **main}]
    return {"metadata": {"name": name}, "spec": {**own, "containers": containers, **(spec or {})}}


def is_ready(record: Record) -> bool:
    return bool(record["conditions"].get("Ready", {}).get("status") == "True")


def main_of(record: Record) -> Record:
    result: Record = record["containers"].get(
        "main", {"state": {}, "lastState": {}, "restartCount": 0, "image": ""}
    )
    return result


def waits_for(record: Record, container: str = "main") -> str:
    result: str = (
        record["containers"].get(container, {"state": {}})["state"].get("waiting", {}).get("reason", "")
    )
    return result


async def an_ordinary_one(stage: Stage) -> Life:
    async with life(stage, pod("ordinary")) as it:
        await it.step("ready", is_ready)
        await stage.delete("ordinary", resource=PODS)
        await it.gone()
    return it


async def one_with_init_containers_and_sidecars(stage: Stage) -> Life:
    init = {"name": "init", "image": "init:1", "command": ["true"]}
    sidecar = {"name": "sidecar", "image": "sidecar:1", "restartPolicy": "Always"}
    doc = pod("sidecars", {"initContainers": [init, sidecar]})
    async with life(stage, doc) as it:
        await it.step("ready", is_ready)
        await change(
            stage, "sidecars", {"spec": {"initContainers": [{"name": "sidecar", "image": "sidecar:2"}]}}
        )
        await it.step(
            "sidecar updated",
            lambda record: record["containers"]["sidecar"]["restartCount"] == 1 and is_ready(record),
        )
        await stage.delete("sidecars", resource=PODS)
        await it.gone()
    return it


async def one_whose_image_changes(stage: Stage) -> Life:
    doc = pod("images")
    doc["spec"]["containers"].append({"name": "other", "image": "other:1"})
    async with life(stage, doc) as it:
        await it.step("ready", is_ready)
        await change(stage, "images", {"spec": {"containers": [{"name": "main", "image": "web:2"}]}})
        await it.step("updated", lambda record: main_of(record)["restartCount"] == 1 and is_ready(record))
        await stage.delete("images", resource=PODS)
        await it.gone()
    return it


async def one_whose_image_cannot_be_pulled(stage: Stage) -> Life:
    async with life(stage, pod("broken", image="team/broken:1")) as it:
        await it.step("backs off", lambda record: waits_for(record) == "ImagePullBackOff")
        await change(stage, "broken", {"spec": {"containers": [{"name": "main", "image": "web:1"}]}})
        await it.step("ready", is_ready)
        await stage.delete("broken", resource=PODS)
        await it.gone()
    return it


async def one_that_crashes(stage: Stage) -> Life:
    follow(stage, Rule(pod="crash", exit_code=3, after_s=2.0))
    async with life(stage, pod("crash", command=["sh", "-c", "sleep 2; exit 3"])) as it:
        await it.step("backs off", lambda record: waits_for(record) == "CrashLoopBackOff")
        await stage.delete("crash", resource=PODS)
        await it.gone()
    return it


async def one_that_completes(stage: Stage) -> Life:
    follow(stage, Rule(pod="complete", exit_code=0, after_s=2.0))
    doc = pod("complete", {"restartPolicy": "Never"}, command=["sleep", "2"])
    async with life(stage, doc) as it:
        await it.step("over", lambda record: record["phase"] == "Succeeded")
        await stage.delete("complete", resource=PODS)
        await it.gone()
    return it


async def one_that_fails(stage: Stage) -> Life:
    follow(stage, Rule(pod="fail", exit_code=3, after_s=2.0))
    doc = pod("fail", {"restartPolicy": "Never"}, command=["sh", "-c", "sleep 2; exit 3"])
    async with life(stage, doc) as it:
        await it.step("over", lambda record: record["phase"] == "Failed")
        await stage.delete("fail", resource=PODS)
        await it.gone()
    return it


async def one_with_a_readiness_gate(stage: Stage) -> Life:
    doc = pod("gate", {"readinessGates": [{"conditionType": GATE}]})
    async with life(stage, doc) as it:
        await it.step("running", lambda record: record["phase"] == "Running")
        for status in ("True", "False"):
            await change(
                stage,
                "gate",
                {"status": {"conditions": [{"type": GATE, "status": status}]}},
                subresource="status",
            )
            await it.step(
                f"gate is {status}", lambda record, status=status: is_ready(record) == (status == "True")
            )
        await stage.delete("gate", resource=PODS)
        await it.gone()
    return it


async def one_that_lacks_a_config_map(stage: Stage) -> Life:
    variable = {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "colours", "key": "first"}}}
    async with life(stage, pod("lacking", env=[variable])) as it:
        await it.step("waits", lambda record: waits_for(record) == "CreateContainerConfigError")
        await stage.create({"metadata": {"name": "colours"}, "data": {"first": "red"}}, resource=CONFIG_MAPS)
        await it.step("ready", is_ready)
        await stage.delete("lacking", resource=PODS)
        await it.gone()
    return it


async def one_that_is_resized(stage: Stage) -> Life:
    before, after = ({"requests": {"cpu": cpu}, "limits": {"cpu": "400m"}} for cpu in ("100m", "200m"))
    async with life(stage, pod("resized", resources=before)) as it:
        await it.step("ready", is_ready)
        patch = {"spec": {"containers": [{"name": "main", "resources": after}]}}
        await change(stage, "resized", patch, subresource="resize")
        wanted = after["requests"]
        await it.step(
            "resized", lambda record: (main_of(record)["resources"] or {}).get("requests") == wanted
        )
        await stage.delete("resized", resource=PODS)
        await it.gone()
    return it


async def one_that_ends_slowly(stage: Stage) -> Life:
    hook = {"preStop": {"sleep": {"seconds": 3}}}
    async with life(stage, pod("slow", lifecycle=hook)) as it:
        await it.step("ready", is_ready)
        await stage.delete("slow", resource=PODS)
        await it.gone()
    return it


async def one_whose_probe_fails(stage: Stage) -> Life:
    def succeed(does: bool) -> None:
        follow(stage, *([] if does else [Rule(pod="probed", never_ready=True)]))
        if stage.has_nodes:
            exec_in(stage, "probed", "touch" if does else "rm", "/tmp/ready")

    follow(stage, Rule(pod="probed", never_ready=True))
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    async with life(stage, pod("probed", readinessProbe=probe)) as it:
        await it.step("unready", lambda record: record["phase"] == "Running")
        succeed(True)
        await it.step("ready", is_ready)
        succeed(False)
        await it.step("unready again", lambda record: not is_ready(record))
        await stage.delete("probed", resource=PODS)
        await it.gone()
    return it


async def one_that_is_evicted(stage: Stage) -> Life:
    async with life(stage, pod("evicted")) as it:
        await it.step("ready", is_ready)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
        await stage.client.create(PODS, stage.namespace, eviction, name="evicted", subresource="eviction")
        await it.gone()
    return it


async def one_whose_node_restarts(stage: Stage) -> Life:
    async with life(stage, pod("rebooted")) as it:
        await it.step("ready", is_ready)
        if stage.has_nodes:
            await stage.nodes[NODE].power_off()
            await stage.nodes[NODE].boot()
        else:
            stage.kubelets.stop_node(NODE)
            await asyncio.sleep(5.0)
            stage.kubelets.start_node(NODE)
        await it.step("ready again", lambda record: main_of(record)["restartCount"] == 1 and is_ready(record))
        await stage.delete("rebooted", resource=PODS)
        await it.gone()
    return it


LIVES: tuple[Callable[[Stage], Awaitable[Life]], ...] = (
    an_ordinary_one,
    one_with_init_containers_and_sidecars,
    one_whose_image_changes,
    one_whose_image_cannot_be_pulled,
    one_that_crashes,
    one_that_completes,
    one_that_fails,
    one_with_a_readiness_gate,
    one_that_lacks_a_config_map,
    one_that_is_resized,
    one_that_ends_slowly,
    one_whose_probe_fails,
    one_that_is_evicted,
    one_whose_node_restarts,
)


async def change(stage: Stage, name: str, patch: Document, *, subresource: str = "") -> None:
    await stage.client.patch(
        PODS, stage.namespace, name, patch, patch_type=PatchType.STRATEGIC, subresource=subresource
    )


def follow(stage: Stage, *rules: Rule) -> None:
    """Give simulated kubelets these rules; real kubelets need none."""
    if not stage.has_nodes:
        stage.kubelets.set_rules(rules)


def exec_in(stage: Stage, pod: str, *command: str) -> None:
    plane = stage.nodes.plane
    kubectl = Kubectl(plane.kubeconfig, program=str(plane.find_binary("kubectl")))
    kubectl.says("-n", stage.namespace, "exec", pod, "--", *command)


@pytest.mark.parametrize("lived", LIVES, ids=lambda item: item.__name__)
async def test_simulated_kubelets_report_the_same_as_real_ones(
    stage: Stage, pytestconfig: pytest.Config, lived: Callable[[Stage], Awaitable[Life]]
) -> None:
    name = lived.__name__
    record = json.loads(json.dumps((await lived(stage)).record))
    minors = [os.environ.get("KUBERNETES") or "1.37"] if stage.has_nodes else list(KNOWN_OF)
    for minor in minors:
        file = RECORDED / f"pod_lives_{minor}" / f"{name}.json"
        if pytestconfig.getoption("--record"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        result = [
            f"{name}: {path}\n  real {minor}: {real}\n  here: {here}"
            for path, real, here in differences(json.loads(file.read_text()), record)
            if not any(fnmatch(f"{name}: {path}", known) for known in {**KNOWN, **KNOWN_OF[minor]})
        ]
        assert not result, "\n".join(result)
