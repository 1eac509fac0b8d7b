"""`explain` names an object that is not the explained one, but whose fields are the cause."""

import pytest

from pykruise.cli.explain import read_and_explain_pod
from pykruise.cli.insight.explanations import Explanation
from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, PODS
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from pykruise.sandbox.cluster import ClusterSettings
from support.scenario import Stage
from support.situations.documents import (
    cloneset,
    disruption_budget,
    made,
    marker,
    selector,
    sidecarset,
    template,
)
from support.situations.world import KINDS, World, with_agents
from support.stuck import Refusal

pytestmark = pytest.mark.sandbox_only


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


def deployment(name: str, **labels: str) -> dict[str, object]:
    pods = template(name)
    pods["metadata"]["labels"].update(labels)
    spec = {"replicas": 3, "selector": selector(name), "template": pods}
    return made("Deployment", name, spec, version="apps/v1")


async def explain_pod_of(world: World, app: str) -> Explanation:
    stage = world.stage
    pods = (await stage.client.list(PODS, stage.namespace, label_selector=f"app={app}")).items
    name = decode(pods[0])["metadata"]["name"]
    return await read_and_explain_pod(stage.client, Key(stage.namespace, name), now=stage.clock())


async def test_a_marker_that_changes_a_label_of_a_selector_is_the_cause(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    probe = {
        **marker()["spec"]["probes"][0],
        "markerPolicy": [{"state": "Succeeded", "labels": {"app": "web-closed"}}],
    }
    await world.put(cloneset(), marker("lobby", probes=[probe]))
    await world.wait(30)

    for kind, name in (("podprobemarker", "lobby"), ("cloneset", "web")):
        explanation = await world.explained(KINDS[kind], name)

        wait = explanation.waits[0]
        assert (wait.code, explanation.phase) == (Code.CONFLICT, Phase.DEGRADED)
        assert wait.words.startswith(
            "spec.probes[0].markerPolicy of PodProbeMarker lobby sets app=web-closed, but spec.selector of CloneSet web"
            " does not match pods with it"
        )
        assert f"kubectl delete pod -n {stage.namespace} -l app=web-closed" in wait.remedy


async def test_a_marker_with_other_labels_is_not_reported(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(cloneset(), marker())
    await world.wait(30)

    assert (await world.explained(KINDS["podprobemarker"], "web")).waits == ()


async def test_a_patch_of_a_workloadspread_is_the_cause_that_a_deployment_lacks_pods(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    subsets = [
        {"name": "own", "maxReplicas": 1},
        {"name": "spot", "patch": {"spec": {"priorityClassName": "spot-low"}}},
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await world.put(
        made("WorkloadSpread", "web", {"targetRef": target, "subsets": subsets}), deployment("web")
    )
    await world.wait(20)

    explanation = await world.explained(KINDS["workloadspread"], "web")

    assert (explanation.cause, explanation.phase) == (Code.POLICY, Phase.DEGRADED)
    assert "spec.subsets[1].patch of WorkloadSpread web sets the field" in explanation.waits[0].words
    assert "create PriorityClass spot-low" in explanation.waits[0].remedy


async def test_a_volume_of_a_sidecarset_that_violates_the_level_of_the_namespace_is_the_cause(
    stage: Stage,
) -> None:
    world = World(stage)
    await world.start()
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    await stage.client.patch(NAMESPACES, "", stage.namespace, label, patch_type=PatchType.MERGE)
    mount = {"name": "varlog", "mountPath": "/var/log"}
    sidecar = {"name": "log", "image": "log:1", "volumeMounts": [mount]}
    volume = {"name": "varlog", "hostPath": {"path": "/var/log"}}
    await world.put(sidecarset("logs", containers=[sidecar], volumes=[volume]), cloneset())
    await world.wait(20)

    of_workload = (await world.explained(KINDS["cloneset"], "web")).waits[0]
    of_sidecars = (await world.explained(KINDS["sidecarset"], "logs")).waits[0]

    assert "SidecarSet logs adds volume varlog" in of_workload.words
    assert of_workload.remedy.startswith("correct spec.volumes[0] of SidecarSet logs, or have the level")
    assert "SidecarSet logs adds volume varlog" in of_sidecars.words
    assert of_sidecars.remedy.startswith("correct spec.volumes of SidecarSet logs, or have the level")
    assert of_sidecars.remedy.endswith("exclude the namespace with spec.namespaceSelector of SidecarSet logs")


async def test_a_pod_that_uses_up_the_disruption_budget_of_another_is_the_cause(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    world.fail(image="flaky:1", exit_code=1, after_s=1)
    flaky = deployment("flaky", team="shop")
    flaky["spec"]["replicas"] = 1  # type: ignore[index]
    flaky["spec"]["template"]["spec"]["containers"][0]["image"] = "flaky:1"  # type: ignore[index]
    budget = disruption_budget("team")
    budget["spec"]["selector"] = {"matchLabels": {"team": "shop"}}
    await world.put(budget, deployment("web", team="shop"), flaky)
    await world.wait(60)

    explanation = await explain_pod_of(world, "web")

    assert (explanation.cause, explanation.phase) == (Code.CONTAINER_FAILS, Phase.DEGRADED)
    held = next(wait for wait in explanation.waits if wait.code == Code.EVICTION_BUDGET)
    assert "because pods that it covers are not ready (flaky-" in held.words
    assert "kubectl edit pdb" in held.remedy


async def test_a_webhook_that_does_not_respond_is_named_with_its_configuration(stage: Stage) -> None:
    world, refusal = World(stage), Refusal(stage)
    await world.start()
    await refusal.by_dead_webhook()
    await world.put(cloneset())
    await world.wait(30)

    wait = (await world.explained(KINDS["cloneset"], "web")).waits[0]

    name = f"refuse-{stage.namespace}"
    assert wait.code == Code.WEBHOOK
    assert wait.remedy == (
        "make the server of webhook pods.example.com respond, or correct or delete ValidatingWebhookConfiguration"
        f" {name} (kubectl edit validatingwebhookconfigurations {name})"
    )
    await refusal.end()


async def test_a_policy_that_rejects_the_upgrade_of_sidecars_names_the_containers_of_the_sidecarset(
    stage: Stage,
) -> None:
    world, refusal = World(stage), Refusal(stage)
    await world.start()
    await world.put(sidecarset(), cloneset())
    await world.wait(30)
    await refusal.by_policy("images must be signed", updates=True)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])
    await world.wait(30)

    waits = (await world.explained(KINDS["sidecarset"], "web")).waits

    assert waits[0].code == Code.POLICY
    assert waits[0].remedy.startswith("change spec.containers so that the policy allows its pods")
    assert not any("find out why the pods" in wait.remedy for wait in waits)
    await refusal.end()


async def test_a_revision_of_sidecars_that_is_not_stored_is_corrected_in_the_sidecarset(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(sidecarset(customVersion="v1"))
    await world.wait(5)
    strategy = {"revision": {"customVersion": "v1", "policy": "Always"}}
    newer = [{"name": "log", "image": "log:2"}]
    await world.set("sidecarset/web", customVersion="v2", containers=newer, injectionStrategy=strategy)
    await world.wait(5)
    await world.set("sidecarset/web", customVersion="v3", containers=[{"name": "log", "image": "log:1"}])
    await world.put(cloneset())
    await world.wait(30)

    wait = (await world.explained(KINDS["cloneset"], "web")).waits[0]

    assert wait.code == Code.WEBHOOK
    assert "custom version v1 of SidecarSet web is not stored" in wait.words
    assert wait.remedy == "correct what the message of the webhook names"
