"""Situations of kinds that act on nodes: images, probes.

PULL_JOBS, LIST_JOBS, NODE_IMAGES, NODE_PROBES, MARKERS ──▶ tables.py
"""

from typing import Final

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import cloneset, listjob, marker, pulljob, spread
from support.situations.world import Situation, World, pods_in_another_namespace

# ── ImagePullJob ─────────────────────────────────────────────────────────────


async def one_node_cannot_pull(world: World) -> None:
    world.fail(image="*app:1", node="node-2", image_pull_error=True)
    await world.put(pulljob())


async def no_pod_is_where_it_should_pull(world: World) -> None:
    await world.put(pulljob(podSelector={"matchLabels": {"app": "none"}}))


async def no_node_has_the_label(world: World) -> None:
    await world.put(pulljob(selector={"matchLabels": {"disk": "ssd"}}))


async def _a_node_that_is_not_ready(world: World) -> None:
    """A new node with the label disk=ssd, which has no NodeImage yet."""
    metadata = {"name": "node-9", "labels": {"disk": "ssd"}}
    await world.put({"apiVersion": "v1", "kind": "Node", "metadata": metadata})


async def its_only_node_is_not_ready(world: World) -> None:
    await _a_node_that_is_not_ready(world)
    await world.put(pulljob(selector={"matchLabels": {"disk": "ssd"}}))


async def it_waits_for_a_node_that_is_not_ready(world: World) -> None:
    await _a_node_that_is_not_ready(world)
    await world.put(pulljob(selector={"matchLabels": {"disk": "ssd"}}, completionPolicy={"type": "Never"}))


async def its_selector_matches_a_virtual_node(world: World) -> None:
    await _a_virtual_node(world)
    await world.node("node-3", metadata={"labels": {"disk": "ssd"}})
    await world.put(pulljob(selector={"matchLabels": {"disk": "ssd"}}))


async def a_node_gets_its_label_too_late(world: World) -> None:
    await no_node_has_the_label(world)
    await world.wait(20)
    await world.node("node-3", metadata={"labels": {"disk": "ssd"}})


async def a_workload_has_created_it(world: World) -> None:
    """An ImagePullJob as a CloneSet creates it before an update, for the image of its new template."""
    world.fail(image="app:1", image_pull_error=True)
    await world.put(cloneset("shop"))
    owner = (await world.get("cloneset/shop"))["metadata"]
    document = pulljob()
    reference = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "controller": True}
    document["metadata"]["ownerReferences"] = [{**reference, "name": "shop", "uid": owner["uid"]}]
    await world.put(document)


async def the_deadline_passes_before_all_nodes_had_their_turn(world: World) -> None:
    world.fail(image="app:1", pull_s=25.0)
    policy = {"type": "Always", "activeDeadlineSeconds": 60}
    await world.put(pulljob(parallelism=1, completionPolicy=policy))
    await world.wait(20)


async def its_nodes_try_again(world: World) -> None:
    world.fail(image="app:1", node="node-2", image_pull_error=True)
    await world.put(pulljob(pullPolicy={"backoffLimit": 100, "timeoutSeconds": 60}))


async def it_waits_for_a_node_with_the_label(world: World) -> None:
    await world.put(pulljob(selector={"matchLabels": {"disk": "ssd"}}, completionPolicy={"type": "Never"}))


async def none_of_its_named_nodes_exists(world: World) -> None:
    await world.put(pulljob(selector={"names": ["ghost"]}))


async def a_node_that_is_named_is_not_there(world: World) -> None:
    await world.put(pulljob(selector={"names": ["node-1", "ghost"]}))


async def a_node_does_not_answer(world: World) -> None:
    world.stage.kubelets.stop_node("node-1")
    await world.put(pulljob(parallelism=1, pullPolicy={"timeoutSeconds": 600}))
    await world.wait(30)


async def a_node_pulls_long(world: World) -> None:
    world.fail(image="*app:1", pull_s=1e5)
    await world.put(pulljob(parallelism=1, pullPolicy={"timeoutSeconds": 6000}))


async def all_nodes_have_pulled(world: World) -> None:
    await world.put(pulljob())


async def pulling_is_not_allowed(world: World) -> None:
    await world.put(pulljob(parallelism=0))


async def its_pull_secret_is_not_there(world: World) -> None:
    world.fail(image="app:1", image_pull_error=True)
    await world.put(pulljob(pullSecrets=["gone"]))
    await world.wait(120)


async def the_pods_that_it_selects_have_no_node(world: World) -> None:
    await world.put(cloneset(replicas=2, pod={"nodeSelector": {"disk": "ssd"}}))
    await world.wait(20)
    await world.put(pulljob(podSelector={"matchLabels": {"app": "web"}}))


async def _a_virtual_node(world: World) -> None:
    """A node that never gets a NodeImage."""
    await world.node("node-3", metadata={"labels": {"type": "virtual-kubelet"}})
    await world.delete("nodeimage/node-3")
    await world.wait(20)


async def its_only_node_is_virtual(world: World) -> None:
    await _a_virtual_node(world)
    await world.put(pulljob(selector={"names": ["node-3"]}))


async def one_of_its_nodes_is_virtual(world: World) -> None:
    await _a_virtual_node(world)
    await world.put(pulljob(selector={"names": ["node-2", "node-3"]}, completionPolicy={"type": "Never"}))


PULL_JOBS: Final = (
    Situation(
        stage=the_deadline_passes_before_all_nodes_had_their_turn,
        cause=Code.IMAGE_PULL,
        phase=Phase.FAILED,
        says="at most 1 node pulls at the same time (spec.parallelism)",
        ways=2,
    ),
    Situation(
        stage=a_workload_has_created_it,
        cause=Code.IMAGE_PULL,
        phase=Phase.FAILED,
        says="in spec.template of CloneSet shop, which creates the job (kubectl kruise explain clonesets.apps",
    ),
    Situation(
        stage=its_only_node_is_not_ready,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="node node-9 matches it, but is not ready",
        ways=1,
    ),
    Situation(
        stage=it_waits_for_a_node_that_is_not_ready,
        cause=Code.NOTHING_SELECTED,
        says="node node-9 matches it, but is not ready",
        known_by="plan",
    ),
    Situation(
        stage=its_selector_matches_a_virtual_node,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="node node-3 has the label type=virtual-kubelet: nodes with this label run no agent",
        ways=2,
    ),
    Situation(
        stage=a_node_gets_its_label_too_late,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="node node-3 matches it now",
        ways=1,
    ),
    Situation(
        stage=the_pods_that_it_selects_have_no_node,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="match spec.podSelector (app=web), but have no node",
        ways=1,
    ),
    Situation(
        stage=its_only_node_is_virtual,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="node node-3 has the label type=virtual-kubelet: nodes with this label run no agent",
        ways=2,
    ),
    Situation(
        stage=one_of_its_nodes_is_virtual,
        cause=Code.NO_NODE_IMAGE,
        says="or if node-3 has a real kubelet, remove the label (kubectl label node node-3 type-)",
        ways=2,
        known_by="plan",
    ),
    Situation(stage=one_node_cannot_pull, cause=Code.IMAGE_PULL, phase=Phase.FAILED, says="node-2", ways=2),
    Situation(
        stage=its_nodes_try_again,
        cause=Code.IMAGE_PULLING,
        phase=Phase.PROGRESSING,
        says="node-2: image app:1 is not pulled yet: try ",
    ),
    Situation(
        stage=no_pod_is_where_it_should_pull,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="no running pod of namespace scenario matches spec.podSelector (app=none)",
        ways=2,
    ),
    Situation(
        stage=no_node_has_the_label,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="no node with a NodeImage matches spec.selector (disk=ssd)",
        ways=2,
    ),
    Situation(
        stage=it_waits_for_a_node_with_the_label,
        cause=Code.NOTHING_SELECTED,
        says="or change spec.selector",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=none_of_its_named_nodes_exists,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="ghost",
        ways=1,
    ),
    Situation(
        stage=a_node_that_is_named_is_not_there,
        cause=Code.NO_NODE_IMAGE,
        phase=Phase.COMPLETED,
        says="Note\n  NoNodeImage: ghost: no node has the name ghost",
        ways=1,
    ),
    Situation(stage=a_node_does_not_answer, cause=Code.NO_AGENT, says="node-1", ways=2, known_by="plan"),
    Situation(stage=a_node_pulls_long, cause=Code.IMAGE_PULLING, phase=Phase.PROGRESSING),
    Situation(stage=all_nodes_have_pulled, cause="", phase=Phase.COMPLETED),
    Situation(stage=pulling_is_not_allowed, cause=Code.LIMIT_IS_ZERO, ways=1, known_by="plan"),
    Situation(
        stage=its_pull_secret_is_not_there,
        cause=Code.IMAGE_PULL,
        phase=Phase.FAILED,
        says="there is no secret gone in namespace",
    ),
)

# ── ImageListPullJob ─────────────────────────────────────────────────────────


async def one_image_is_not_there(world: World) -> None:
    world.fail(image="*db:1", image_pull_error=True)
    await world.put(listjob())


async def no_node_is_selected(world: World) -> None:
    await world.put(listjob(selector={"matchLabels": {"disk": "ssd"}}))


async def the_node_of_a_list_is_not_ready(world: World) -> None:
    await _a_node_that_is_not_ready(world)
    await world.put(listjob(selector={"matchLabels": {"disk": "ssd"}}))


async def no_pod_is_selected_for_a_list(world: World) -> None:
    await world.put(listjob(podSelector={"matchLabels": {"app": "none"}}))


async def a_list_waits_for_a_node(world: World) -> None:
    await world.put(listjob(selector={"matchLabels": {"disk": "ssd"}}, completionPolicy={"type": "Never"}))


async def nodes_try_an_image_again(world: World) -> None:
    world.fail(image="*db:1", node="node-2", image_pull_error=True)
    await world.put(listjob(pullPolicy={"backoffLimit": 100, "timeoutSeconds": 60}))


async def an_agent_does_not_answer(world: World) -> None:
    world.stage.kubelets.stop_node("node-1")
    await world.put(listjob(pullPolicy={"timeoutSeconds": 600}))
    await world.wait(30)


async def a_quota_lets_it_make_no_pull_job(world: World) -> None:
    await world.quota(count_imagepulljobs="0")
    await world.put(listjob())


async def all_images_are_everywhere(world: World) -> None:
    await world.put(listjob())


async def an_image_takes_long(world: World) -> None:
    world.fail(image="*db:1", pull_s=1e5)
    await world.put(listjob(pullPolicy={"timeoutSeconds": 6000}))


async def its_list_may_pull_nothing(world: World) -> None:
    await world.put(listjob(parallelism=0))


async def the_namespace_of_its_secrets_is_missing(world: World) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}, "data": {}}
    await world.delete("namespace/kruise-daemon-config")
    await world.wait(20)
    await world.put(secret, listjob(pullSecrets=["registry"]))


LIST_JOBS: Final = (
    Situation(
        stage=the_node_of_a_list_is_not_ready,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="node node-9 matches it, but is not ready",
        ways=1,
    ),
    Situation(
        stage=its_list_may_pull_nothing,
        cause=Code.LIMIT_IS_ZERO,
        says="""\
Waiting for
  LimitIsZero: no image is pulled: spec.parallelism is 0
    → raise spec.parallelism

Next""",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=the_namespace_of_its_secrets_is_missing,
        cause=Code.NO_NAMESPACE,
        says="and 1 more)",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=one_image_is_not_there,
        cause=Code.IMAGE_PULL,
        phase=Phase.FAILED,
        says="create ImageListPullJob web again",
        ways=2,
    ),
    Situation(
        stage=no_node_is_selected,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="0 of 2 images are on all selected nodes, 2 failed",
        ways=2,
    ),
    Situation(
        stage=no_pod_is_selected_for_a_list,
        cause=Code.NOTHING_SELECTED,
        phase=Phase.FAILED,
        says="create ImageListPullJob web again",
        ways=2,
    ),
    Situation(
        stage=a_list_waits_for_a_node,
        cause=Code.NOTHING_SELECTED,
        says="create ImageListPullJob web again",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=nodes_try_an_image_again,
        cause=Code.IMAGE_PULLING,
        phase=Phase.PROGRESSING,
        says="node-2: image db:1 is not pulled yet: try ",
    ),
    Situation(stage=an_agent_does_not_answer, cause=Code.NO_AGENT, says="node-1", ways=1, known_by="plan"),
    Situation(
        stage=a_quota_lets_it_make_no_pull_job,
        cause=Code.QUOTA,
        says="exceeded quota: team",
        ways=1,
        known_by="plan",
    ),
    Situation(stage=all_images_are_everywhere, cause="", phase=Phase.COMPLETED),
    Situation(stage=an_image_takes_long, cause=Code.IMAGE_PULLING, phase=Phase.PROGRESSING),
)

# ── NodeImage ────────────────────────────────────────────────────────────────


async def it_cannot_pull(world: World) -> None:
    world.fail(image="*app:1", node="node-1", image_pull_error=True)
    await world.put(pulljob(completionPolicy={"type": "Never"}))


async def its_node_does_not_answer(world: World) -> None:
    world.stage.kubelets.stop_node("node-1")
    await world.put(pulljob(pullPolicy={"timeoutSeconds": 600}, completionPolicy={"type": "Never"}))
    await world.wait(30)


async def it_pulls_long(world: World) -> None:
    world.fail(image="*app:1", node="node-1", pull_s=1e5)
    await world.put(pulljob(pullPolicy={"timeoutSeconds": 6000}, completionPolicy={"type": "Never"}))


async def it_has_all_images(world: World) -> None:
    await world.put(pulljob(completionPolicy={"type": "Never"}))


async def nothing_is_asked_of_it(_world: World) -> None:
    """A node without jobs."""


async def one_of_two_images_cannot_be_pulled(world: World) -> None:
    world.fail(image="*db:1", image_pull_error=True)
    await world.put(listjob(completionPolicy={"type": "Never"}))


async def it_cannot_pull_from_a_registry(world: World) -> None:
    world.fail(image="registry.example.com/shop/app:1", image_pull_error=True)
    await world.put(pulljob(image="registry.example.com/shop/app:1", completionPolicy={"type": "Never"}))


NODE_IMAGES: Final = (
    Situation(stage=it_cannot_pull, name="node-1", cause=Code.IMAGE_PULL, says="app:1", ways=2),
    Situation(
        stage=it_cannot_pull_from_a_registry,
        name="node-1",
        cause=Code.IMAGE_PULL,
        says="registry.example.com/shop/app:1",
        ways=2,
    ),
    Situation(
        stage=its_node_does_not_answer,
        name="node-1",
        cause=Code.NO_AGENT,
        says="node-1",
        ways=1,
        known_by="plan",
    ),
    Situation(stage=it_pulls_long, name="node-1", cause=Code.IMAGE_PULLING, phase=Phase.PROGRESSING),
    Situation(stage=it_has_all_images, name="node-1", cause="", phase=Phase.HEALTHY),
    Situation(stage=nothing_is_asked_of_it, name="node-1", cause="", phase=Phase.HEALTHY),
    Situation(
        stage=one_of_two_images_cannot_be_pulled, name="node-1", cause=Code.IMAGE_PULL, says="db:1", ways=2
    ),
)

# ── PodProbeMarker ───────────────────────────────────────────────────────────


async def its_probes_fail(world: World) -> None:
    world.fail(image="nginx:1", fails_probe="*#idle", output="no file /idle")
    await world.put(cloneset(), marker())


async def a_spread_sets_the_deletion_cost_too(world: World) -> None:
    world.fail(image="nginx:1", fails_probe="*#idle", output="no file /idle")
    costs = {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "10"}}
    probe = {**marker()["spec"]["probes"][0], "markerPolicy": [{"state": "Failed", **costs}]}
    subsets = [{"name": "a", "maxReplicas": 2}, {"name": "b"}]
    await world.put(spread(subsets=subsets), cloneset(), marker(probes=[probe]))


async def its_failing_probe_is_a_readiness_gate(world: World) -> None:
    world.fail(image="nginx:1", fails_probe="*#idle", output="no file /idle")
    gates = [{"conditionType": "example.com/idle"}]
    await world.put(cloneset(pod={"readinessGates": gates}), marker())


async def it_selects_pods_of_another_namespace(world: World) -> None:
    await pods_in_another_namespace(world)
    await world.put(marker())


async def it_selects_nothing(world: World) -> None:
    await world.put(marker())


async def the_node_of_a_pod_has_no_agent(world: World) -> None:
    await world.put(cloneset())
    await world.wait(20)
    for pod in await world.list("pod"):
        world.stage.kubelets.stop_node(pod["spec"]["nodeName"])
    await world.put(marker())


async def its_probes_succeed(world: World) -> None:
    await world.put(cloneset(), marker())


async def it_names_a_port_that_is_not_there(world: World) -> None:
    await world.put(cloneset(), marker(port="http"))


async def it_names_a_container_that_is_not_there(world: World) -> None:
    document = marker()
    document["spec"]["probes"][0]["containerName"] = "other"
    await world.put(cloneset(), document)


MARKERS: Final = (
    Situation(
        stage=a_spread_sets_the_deletion_cost_too,
        cause=Code.CONFLICT,
        says="WorkloadSpread web sets annotation controller.kubernetes.io/pod-deletion-cost too",
        known_by="explain",
    ),
    Situation(stage=its_probes_fail, cause=Code.PROBE_FAILS, phase=Phase.HEALTHY, says="no file /idle"),
    Situation(
        stage=its_failing_probe_is_a_readiness_gate,
        cause=Code.READINESS_GATE,
        says="no file /idle; it sets the condition example.com/idle, which is a readiness gate",
        known_by="plan",
    ),
    Situation(
        stage=it_selects_pods_of_another_namespace,
        cause=Code.NOTHING_SELECTED,
        says="2 pods of namespace shop would match",
        ways=1,
    ),
    Situation(stage=it_selects_nothing, cause=Code.NOTHING_SELECTED, ways=1),
    Situation(stage=the_node_of_a_pod_has_no_agent, cause=Code.NO_AGENT, ways=3, known_by="plan"),
    Situation(stage=its_probes_succeed, cause="", phase=Phase.HEALTHY),
    Situation(stage=it_names_a_port_that_is_not_there, cause=Code.PROBE_PORT, ways=1, known_by="plan"),
    Situation(stage=it_names_a_container_that_is_not_there, cause=Code.PROBE_PORT, ways=1, known_by="plan"),
)

# ── NodePodProbe ─────────────────────────────────────────────────────────────


async def _probed(world: World, name: str = "node-1") -> None:
    await world.put(cloneset(pod={"nodeName": name}), marker())


async def a_probe_of_it_fails(world: World) -> None:
    world.fail(image="nginx:1", fails_probe="*#idle", output="no file /idle")
    await _probed(world)


async def its_agent_is_gone(world: World) -> None:
    await world.put(cloneset(replicas=1, pod={"nodeName": "node-1"}))
    await world.wait(20)
    world.stage.kubelets.stop_node("node-1")
    await world.put(marker())


async def its_probes_all_succeed(world: World) -> None:
    await _probed(world)


async def no_pod_of_it_is_probed(world: World) -> None:
    await _probed(world)
    await world.wait(20)
    await world.delete("podprobemarker/web")


async def one_probe_of_two_fails(world: World) -> None:
    world.fail(image="nginx:1", fails_probe="other#idle", output="no file /idle")
    await _probed(world)
    second = marker("other")
    second["spec"]["probes"][0]["podConditionType"] = "example.com/other"
    await world.put(second)


async def its_pods_start(world: World) -> None:
    world.fail(image="nginx:1", start_s=1e5)
    await _probed(world)


NODE_PROBES: Final = (
    Situation(
        stage=a_probe_of_it_fails,
        name="node-1",
        cause=Code.PROBE_FAILS,
        phase=Phase.HEALTHY,
        says="no file /idle",
    ),
    Situation(stage=its_agent_is_gone, name="node-1", cause=Code.NO_AGENT, ways=1, known_by="plan"),
    Situation(
        stage=it_names_a_container_that_is_not_there,
        name="node-1",
        cause=Code.PROBE_PORT,
        says="the pod has no container other",
        ways=1,
        known_by="plan",
    ),
    Situation(stage=its_probes_all_succeed, name="node-1", cause="", phase=Phase.HEALTHY),
    Situation(stage=no_pod_of_it_is_probed, name="node-1", cause="", phase=Phase.HEALTHY),
    Situation(
        stage=one_probe_of_two_fails, name="node-1", cause=Code.PROBE_FAILS, phase=Phase.HEALTHY, says="other"
    ),
    Situation(stage=its_pods_start, name="node-1", cause="", phase=Phase.HEALTHY),
)
