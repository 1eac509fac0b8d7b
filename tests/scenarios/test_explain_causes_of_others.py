"""`explain` names an object that is not the explained one, but whose fields are the cause."""

import pytest

from pykruise.admission.configurations import MUTATING
from pykruise.cli.explain import read_and_explain_pod
from pykruise.cli.insight.explanations import Explanation
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, PODS
from pykruise.plans.progress import Phase
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from pykruise.pods.reasons import Code
from pykruise.sandbox.cluster import ClusterSettings
from support.scenario import Stage
from support.situations.documents import (
    budget,
    cloneset,
    disruption_budget,
    distribution,
    made,
    marker,
    selector,
    sidecarset,
    spread,
    template,
)
from support.situations.world import KINDS, LIMIT_RANGES, World, with_agents
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


def marker_probe(*, labels: dict[str, str]) -> dict[str, object]:
    return {**marker()["spec"]["probes"][0], "markerPolicy": [{"state": "Succeeded", "labels": labels}]}


async def explain_pod_of(world: World, app: str) -> Explanation:
    stage = world.stage
    pods = (await stage.client.list(PODS, stage.namespace, label_selector=f"app={app}")).items
    name = decode(pods[0])["metadata"]["name"]
    return await read_and_explain_pod(stage.client, Key(stage.namespace, name), now=stage.clock())


async def test_a_marker_that_changes_a_label_of_a_selector_is_the_cause(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(cloneset(), marker("lobby", probes=[marker_probe(labels={"app": "web-closed"})]))
    await world.wait(30)

    for kind, name in (("podprobemarker", "lobby"), ("cloneset", "web")):
        explanation = await world.explained(KINDS[kind], name)

        wait = explanation.waits[0]
        assert (wait.code, explanation.phase) == (Code.CONFLICT, Phase.DEGRADED)
        assert wait.words.startswith(
            "spec.probes[0].markerPolicy of PodProbeMarker lobby sets app=web-closed, and removes app in other states"
            " of the probe, but spec.selector of CloneSet web does not match these pods"
        )
        assert f"kubectl delete pod -n {stage.namespace} -l '!app'" in wait.remedy


async def test_no_pod_that_the_workload_still_selects_is_recommended_for_deletion(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    # given a marker that sets the label that the template has, and a pod of a person with the same label
    await world.put(cloneset(), marker("lobby", probes=[marker_probe(labels={"app": "web"})]))
    person = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-debug", "labels": {"app": "web"}}}
    await world.put({**person, "spec": template("web")["spec"]})
    await world.wait(30)
    for wait in (await world.explained(KINDS["cloneset"], "web")).waits:
        assert "-l 'app=web'" not in wait.remedy


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


async def test_a_marker_of_another_namespace_is_the_cause_that_a_readiness_gate_stays_closed(
    stage: Stage,
) -> None:
    world = World(stage)
    await world.start()
    await world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}})
    await stage.client.create(POD_PROBE_MARKERS, "ops", marker("warm"))
    workload = cloneset()
    workload["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": "example.com/idle"}]
    await world.put(workload)
    await world.wait(30)

    for explanation in (await world.explained(KINDS["cloneset"], "web"), await explain_pod_of(world, "web")):
        wait = explanation.waits[0]

        assert (wait.code, explanation.phase) == (Code.READINESS_GATE, Phase.DEGRADED)
        assert f"no PodProbeMarker of namespace {stage.namespace} sets this condition" in wait.words
        assert "PodProbeMarker ops/warm sets it in its own namespace only" in wait.words
        assert wait.remedy == f"create PodProbeMarker warm in namespace {stage.namespace} instead"


async def test_a_marker_of_another_namespace_with_another_selector_is_not_the_cause(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}})
    await stage.client.create(POD_PROBE_MARKERS, "ops", marker("warm", app="other"))
    workload = cloneset()
    workload["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": "example.com/idle"}]
    await world.put(workload)
    await world.wait(30)

    assert (
        "no PodProbeMarker sets this condition"
        in (await world.explained(KINDS["cloneset"], "web")).waits[0].words
    )


SHARED = {"name": "main", "image": "nginx:1", "envFrom": [{"configMapRef": {"name": "shared"}}]}
NOT_THIS_ONE = "ResourceDistribution web distributes ConfigMap shared, but not to namespace scenario"


@pytest.mark.parametrize(
    ("targets", "words", "remedy"),
    [
        (
            {"namespaceSelector": {"matchLabels": {"dist": "yes"}}},
            f"{NOT_THIS_ONE}: spec.targets.namespaceSelector requires dist=yes, and the namespace has dist=true",
            "label the namespace (kubectl label namespace scenario --overwrite dist=yes), or change spec.targets of"
            " ResourceDistribution web; or correct the reference or securityContext in spec.template",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
            f"{NOT_THIS_ONE}: spec.targets.namespaceSelector requires team, and the namespace has no label team",
            "label namespace scenario so that the selector (team) matches it, or change spec.targets",
        ),
        (
            {"allNamespaces": True, "excludedNamespaces": {"list": [{"name": "scenario"}]}},
            f"{NOT_THIS_ONE}, which spec.targets.excludedNamespaces contains",
            "remove scenario from spec.targets.excludedNamespaces of ResourceDistribution web",
        ),
        (
            {"includedNamespaces": {"list": [{"name": "default"}]}},
            f"{NOT_THIS_ONE}, which spec.targets does not contain",
            "add scenario to spec.targets.includedNamespaces of ResourceDistribution web",
        ),
    ],
)
async def test_a_distribution_that_leaves_the_namespace_out_is_the_cause_of_a_missing_configmap(
    stage: Stage, targets: dict[str, object], words: str, remedy: str
) -> None:
    world = World(stage)
    await world.start()
    labels: dict[str, object] = {"metadata": {"labels": {"dist": "true"}}}
    await world.change(f"namespace/{stage.namespace}", labels)
    workload = cloneset()
    workload["spec"]["template"]["spec"]["containers"] = [SHARED]
    await world.put(distribution(targets=targets), workload)
    await world.wait(30)

    wait = (await world.explained(KINDS["cloneset"], "web")).waits[0]

    assert (wait.code, wait.words.endswith(words)) == (Code.CONTAINER_FAILS, True), wait
    assert wait.remedy.startswith(remedy)
    assert "kubectl create" not in wait.remedy
    assert "create what is missing" not in wait.remedy
    # and the remedy helps
    await world.change(f"namespace/{stage.namespace}", {"metadata": {"labels": {"dist": "yes"}}})
    if "dist=yes" in remedy:
        await world.wait(60)
        assert (await world.explained(KINDS["cloneset"], "web")).phase is Phase.HEALTHY


async def test_a_distribution_that_a_quota_stops_is_the_cause_of_a_missing_volume(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(distribution(targets={"namespaceSelector": {"matchLabels": {"dist": "yes"}}}))
    await world.quota(configmaps="0")
    await world.change(f"namespace/{stage.namespace}", {"metadata": {"labels": {"dist": "yes"}}})
    workload = cloneset()
    pods = workload["spec"]["template"]["spec"]
    pods["volumes"] = [{"name": "shared", "configMap": {"name": "shared"}}]
    await world.put(workload)
    await world.wait(30)

    wait = (await world.explained(KINDS["cloneset"], "web")).waits[0]

    assert wait.code == Code.MOUNT_FAILS
    assert (
        "ResourceDistribution web distributes ConfigMap shared also to this namespace, but has failed"
        in wait.words
    )
    assert wait.remedy.startswith(
        "correct the cause, which the explanation of ResourceDistribution web names (kubectl"
    )


LARGE = {"name": "main", "resources": {"limits": {"memory": "2Gi"}, "requests": {"memory": "2Gi"}}}


async def test_a_patch_that_a_limit_range_rejects_is_the_cause_that_a_subset_has_no_pods(
    stage: Stage,
) -> None:
    world = World(stage)
    await world.start()
    spec = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": spec}
    await stage.client.create(LIMIT_RANGES, stage.namespace, limits)
    workload = cloneset()
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "500Mi"}}
    subsets = [
        {"name": "large", "maxReplicas": 2, "patch": {"spec": {"containers": [LARGE]}}},
        {"name": "rest"},
    ]
    await world.put(spread(subsets=subsets), workload)

    for seconds in (10, 90):  # while slots are reserved for the rejected pods, and after that
        await world.wait(seconds)
        explanation = await world.explained(KINDS["workloadspread"], "web")
        wait = explanation.waits[0]

        assert (explanation.cause, explanation.phase) == (Code.POLICY, Phase.DEGRADED), explanation
        assert wait.words.startswith("pods of subset large are rejected because of its patch, and ")
        assert "maximum memory usage per Container is 1Gi, but limit is 2Gi" in wait.words
        assert wait.remedy.startswith("correct spec.subsets[0].patch of WorkloadSpread web; or request what")
        assert Code.CREATING not in {wait.code for wait in explanation.waits}
    # and after a correction, the cause is gone
    await world.set("workloadspread/web", subsets=[{"name": "large", "maxReplicas": 2}, {"name": "rest"}])
    await world.wait(10)
    assert (await world.explained(KINDS["workloadspread"], "web")).phase is Phase.HEALTHY


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


async def test_webhooks_of_the_same_name_are_named_with_all_their_configurations(stage: Stage) -> None:
    world, refusal = World(stage), Refusal(stage)
    await world.start()
    await refusal.by_dead_webhook()
    await refusal.by_dead_webhook(MUTATING)
    await world.put(cloneset())
    await world.wait(30)

    wait = (await world.explained(KINDS["cloneset"], "web")).waits[0]

    assert "ValidatingWebhookConfiguration refuse-" in wait.remedy
    assert " or MutatingWebhookConfiguration refuse-" in wait.remedy
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


async def test_a_probe_that_sets_another_condition_than_the_readiness_gate_is_named(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    pod = {"readinessGates": [{"conditionType": "game.io/ready"}]}
    probe = {**marker()["spec"]["probes"][0], "podConditionType": "game.io/redy"}
    await world.put(cloneset(pod=pod), marker("game", probes=[probe]))
    await world.wait(30)

    wait = (await world.explained(KINDS["cloneset"], "web")).waits[0]

    assert wait.code == Code.READINESS_GATE
    assert "of PodProbeMarker game sets condition game.io/redy of the pod" in wait.words
    assert wait.remedy.startswith("if game.io/redy is a mistake, correct probe ")
    assert "so that it sets game.io/ready" in wait.remedy


async def test_a_percentage_of_one_pod_is_not_lowered(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(cloneset(replicas=1), budget(minAvailable="50%", maxUnavailable=None))
    await world.wait(30)
    pod = (await world.list("pod"))[0]["metadata"]["name"]
    with pytest.raises(ApiError):
        await world.delete(f"pod/{pod}")

    waits = (await world.explained(KINDS["podunavailablebudget"], "web")).waits

    assert waits[0].remedy.startswith("run more than one pod, or replace minAvailable by maxUnavailable of")


async def test_the_host_port_of_a_sidecar_is_corrected_in_its_sidecarset(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    container = {"name": "log", "image": "log:1", "ports": [{"containerPort": 9100, "hostPort": 9100}]}
    await world.put(sidecarset("exporter", containers=[container]))
    await world.put(cloneset(replicas=9))
    await world.wait(30)

    wait = (await world.explained(KINDS["cloneset"], "web")).waits[0]

    assert wait.code == Code.UNSCHEDULABLE
    assert "holds host port 9100" in wait.words
    assert wait.remedy.startswith("add nodes, or change the host ports of SidecarSet exporter")
