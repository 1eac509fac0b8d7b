"""Situations of workloads whose pods run forever.

CLONE_SETS, STATEFUL_SETS, DAEMON_SETS, UNITED ──▶ tables.py
"""

from typing import Any, Final

from pykruise.kube.resources import STORAGE_CLASSES
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import budget, cloneset, daemonset, pod_spec, statefulset, united
from support.situations.world import Situation, World

# ── situations of all workloads ──────────────────────────────────────────────


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


async def _running(world: World, document: dict[str, Any]) -> None:
    await world.put(document)
    await world.wait(30)


async def _deleted_on_a_lost_node(world: World) -> None:
    pod = (await world.list("pod"))[0]
    world.stage.kubelets.stop_node(pod["spec"]["nodeName"])
    await world.delete(f"pod/{pod['metadata']['name']}")
    await world.wait(120)


async def a_cloneset_is_as_it_should_be(world: World) -> None:
    await world.put(cloneset())


async def its_next_image_is_not_there(world: World) -> None:
    await _running(world, cloneset())
    world.fail(image="nginx:2", image_pull_error=True)
    await world.set_image("cloneset/web", "nginx:2")


async def two_images_in_a_row_crash(world: World) -> None:
    await _running(world, cloneset(minReadySeconds=5))
    world.fail(image="nginx:[23]", exit_code=3)
    await world.set_image("cloneset/web", "nginx:2")
    await world.wait()
    await world.set_image("cloneset/web", "nginx:3")


async def a_quota_lets_no_more_pods_be(world: World) -> None:
    await world.quota(pods="1")
    await world.put(cloneset())


async def a_partition_holds_it(world: World) -> None:
    await _running(world, cloneset(**rolling(partition=2)))
    await world.set_image("cloneset/web", "nginx:2")


async def a_pause_holds_it(world: World) -> None:
    await _running(world, cloneset(**rolling(paused=True)))
    await world.set_image("cloneset/web", "nginx:2")


async def no_node_takes_its_pods(world: World) -> None:
    await world.put(cloneset(pod={"nodeSelector": {"disk": "ssd"}}))


async def nobody_schedules_its_pods(world: World) -> None:
    await world.put(cloneset(pod={"schedulerName": "other"}))
    await world.wait(120)


async def it_is_updated_by_hand(world: World) -> None:
    await _running(world, cloneset(updateStrategy={"type": "OnDelete"}))
    await world.set_image("cloneset/web", "nginx:2")


async def all_its_pods_are_of_the_template_that_its_partition_keeps_back(world: World) -> None:
    await world.put(cloneset(**rolling(partition=2)))


async def its_deleted_pod_does_not_end(world: World) -> None:
    await _running(world, cloneset())
    await _deleted_on_a_lost_node(world)


async def a_budget_lets_no_pod_be_updated(world: World) -> None:
    await _running(world, cloneset())
    await world.put(budget(maxUnavailable=0))
    await world.set_image("cloneset/web", "nginx:2")


async def a_hook_keeps_a_pod_that_is_to_go(world: World) -> None:
    blocked = {"app": "web", "example.com/block": "true"}
    pods = {"metadata": {"labels": blocked}, "spec": pod_spec()}
    hook = {"preDelete": {"labelsHandler": {"example.com/block": "true"}}}
    await _running(world, cloneset(lifecycle=hook, template=pods))
    await world.set("cloneset/web", replicas=2)


async def its_pods_wait_behind_a_gate(world: World) -> None:
    await world.put(cloneset(pod={"schedulingGates": [{"name": "example.com/wait"}]}))


async def its_init_container_fails(world: World) -> None:
    world.fail(container="init", exit_code=9)
    await world.put(cloneset(pod={"initContainers": [{"name": "init", "image": "busybox:1"}]}))
    await world.wait(200)


def _without_a_class(name: str | None) -> dict[str, Any]:
    """A claim template whose storage class does not exist; None: it names no class, and there is no default
    class."""
    wanted = {} if name is None else {"storageClassName": name}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **wanted}
    return {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}


async def claims_of_a_cloneset_have_no_volume(world: World) -> None:
    await world.put(cloneset(**_without_a_class("none")))


async def its_user_is_root_and_must_not_be(world: World) -> None:
    await world.put(cloneset(pod={"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}))


async def its_new_pods_need_a_node_of_their_own(world: World) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await _running(
        world, cloneset(replicas=4, pod={"affinity": apart}, **rolling(maxSurge=1, maxUnavailable=0))
    )
    await world.set("cloneset/web", template={"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}})


CLONE_SETS: Final = (
    Situation(
        stage=its_user_is_root_and_must_not_be,
        cause=Code.CONTAINER_FAILS,
        says="runAsUser breaks non-root policy",
        ways=1,
    ),
    Situation(
        stage=its_new_pods_need_a_node_of_their_own,
        cause=Code.UNSCHEDULABLE,
        says="required podAntiAffinity allows only one of the two pods per kubernetes.io/hostname",
        ways=2,
    ),
    Situation(  # the workload is complete without this pod
        stage=its_deleted_pod_does_not_end,
        cause=Code.NODE_LOST,
        phase=Phase.HEALTHY,
        says="does not stop it",
        ways=2,
    ),
    Situation(
        stage=all_its_pods_are_of_the_template_that_its_partition_keeps_back,
        cause="",
        phase=Phase.HEALTHY,
        says="(wanted: all 3)",
    ),
    Situation(stage=a_cloneset_is_as_it_should_be, cause="", phase=Phase.HEALTHY),
    Situation(stage=its_next_image_is_not_there, cause=Code.IMAGE_PULL, says="--to-revision=1", ways=3),
    Situation(stage=two_images_in_a_row_crash, cause=Code.CONTAINER_FAILS, says="--to-revision=1", ways=2),
    Situation(stage=a_quota_lets_no_more_pods_be, ways=1, cause=Code.QUOTA, says="exceeded quota: team"),
    Situation(stage=a_partition_holds_it, cause=Code.PARTITION, phase=Phase.PAUSED, ways=1),
    Situation(stage=a_pause_holds_it, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1),
    Situation(stage=no_node_takes_its_pods, cause=Code.UNSCHEDULABLE, ways=2),
    Situation(stage=nobody_schedules_its_pods, cause=Code.NO_SCHEDULER, says="other", ways=1),
    Situation(stage=it_is_updated_by_hand, cause=Code.ON_DELETE, phase=Phase.HEALTHY, ways=2),
    Situation(
        stage=a_budget_lets_no_pod_be_updated,
        cause=Code.DISRUPTION_BUDGET,
        phase=Phase.PROGRESSING,
        says="PodUnavailableBudget web, because the budget now rejects every disruption",
        ways=1,
    ),
    Situation(
        stage=a_hook_keeps_a_pod_that_is_to_go, cause=Code.PRE_DELETE_HOOK, ways=1, says="example.com/block"
    ),
    Situation(
        stage=its_pods_wait_behind_a_gate,
        cause=Code.SCHEDULING_GATED,
        says="scheduling gate example.com/wait holds it",
        ways=3,
    ),
    Situation(
        stage=claims_of_a_cloneset_have_no_volume,
        cause=Code.UNBOUND_CLAIMS,
        says="create storage class none",
        ways=4,
    ),
    Situation(stage=its_init_container_fails, cause=Code.CONTAINER_FAILS, ways=1, says="exit code 9"),
)


async def a_statefulset_is_as_it_should_be(world: World) -> None:
    await world.put(statefulset())


async def its_first_pod_is_not_ready(world: World) -> None:
    world.fail(image="nginx:1", never_ready=True)
    await world.put(statefulset(podManagementPolicy="OrderedReady"))


async def its_first_pod_is_probed_late(world: World) -> None:
    world.fail(image="nginx:1", ready_s=500.0)
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 500}
    container = {"name": "main", "image": "nginx:1", "readinessProbe": probe}
    await world.put(statefulset(podManagementPolicy="OrderedReady", pod={"containers": [container]}))


async def its_new_image_crashes(world: World) -> None:
    await _running(world, statefulset())
    world.fail(image="nginx:2", exit_code=3)
    await world.set_image("statefulset/web", "nginx:2")


async def a_quota_holds_a_statefulset(world: World) -> None:
    await world.quota(pods="1")
    await world.put(statefulset())


async def its_claims_have_no_volume(world: World) -> None:
    await world.put(statefulset(**_without_a_class("none")))


async def the_claim_of_its_first_pod_has_no_volume(world: World) -> None:
    await world.put(statefulset(podManagementPolicy="OrderedReady", **_without_a_class("none")))


async def the_cluster_has_no_default_class(world: World) -> None:
    await world.stage.client.delete(STORAGE_CLASSES, "", "standard")
    await world.put(statefulset(**_without_a_class(None)))


async def a_partition_holds_a_statefulset(world: World) -> None:
    await _running(world, statefulset(**rolling(partition=2)))
    await world.set_image("statefulset/web", "nginx:2")


async def a_pause_holds_a_statefulset(world: World) -> None:
    await _running(world, statefulset(**rolling(paused=True)))
    await world.set_image("statefulset/web", "nginx:2")


async def its_pod_does_not_end(world: World) -> None:
    await _running(world, statefulset())
    await _deleted_on_a_lost_node(world)


async def its_second_pod_crashes(world: World) -> None:
    world.fail(pod="web-1", exit_code=3)
    await world.put(statefulset(podManagementPolicy="OrderedReady"))
    await world.wait(300)


async def a_finalizer_keeps_a_pod_that_is_updated(world: World) -> None:
    held = {"labels": {"app": "web"}, "finalizers": ["example.com/hold"]}
    await _running(world, statefulset(template={"metadata": held, "spec": pod_spec()}))
    await world.set_image("statefulset/web", "nginx:2")
    await world.wait(120)


async def a_budget_refuses_the_deletion_of_a_pod(world: World) -> None:
    await _running(world, statefulset())
    await world.put(budget(maxUnavailable=0))
    await world.wait(5)
    await world.set_image("statefulset/web", "nginx:2")


STATEFUL_SETS: Final = (
    Situation(
        stage=a_budget_refuses_the_deletion_of_a_pod,
        ways=1,
        cause=Code.DISRUPTION_REFUSED,
        says="raise maxUnavailable of PodUnavailableBudget web, because the budget now rejects every disruption",
    ),
    Situation(stage=a_statefulset_is_as_it_should_be, cause="", phase=Phase.HEALTHY),
    Situation(stage=its_first_pod_is_not_ready, cause=Code.NOT_READY, phase=Phase.PROGRESSING, ways=1),
    Situation(
        stage=its_first_pod_is_probed_late,
        cause=Code.NOT_READY,
        phase=Phase.PROGRESSING,
        says="is not ready; its readiness is probed only from 2026-",
    ),
    Situation(stage=its_new_image_crashes, cause=Code.CONTAINER_FAILS, says="exit code 3", ways=2),
    Situation(stage=a_quota_holds_a_statefulset, ways=1, cause=Code.QUOTA, says="exceeded quota: team"),
    Situation(stage=its_pod_does_not_end, cause=Code.NODE_LOST, says="does not stop it", ways=2),
    Situation(
        stage=its_claims_have_no_volume, cause=Code.UNBOUND_CLAIMS, says="create storage class none", ways=4
    ),
    Situation(
        stage=the_claim_of_its_first_pod_has_no_volume,
        cause=Code.UNBOUND_CLAIMS,
        says="create storage class none",
        ways=2,
    ),
    Situation(
        stage=the_cluster_has_no_default_class,
        cause=Code.UNBOUND_CLAIMS,
        says="the cluster has no default storage class",
        ways=4,
    ),
    Situation(stage=a_partition_holds_a_statefulset, cause=Code.PARTITION, phase=Phase.PAUSED, ways=1),
    Situation(stage=a_pause_holds_a_statefulset, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1),
    Situation(stage=its_second_pod_crashes, cause=Code.CONTAINER_FAILS, ways=1, says="web-1"),
    Situation(
        stage=a_finalizer_keeps_a_pod_that_is_updated, cause=Code.FINALIZER, ways=1, says="example.com/hold"
    ),
)


async def a_daemonset_is_as_it_should_be(world: World) -> None:
    await world.put(daemonset())


async def it_fits_no_node(world: World) -> None:
    await world.put(daemonset(pod={"nodeSelector": {"disk": "ssd"}}))


async def its_image_cannot_be_pulled_on_a_node(world: World) -> None:
    world.fail(image="nginx:1", node="node-2", image_pull_error=True)
    await world.put(daemonset())


async def a_quota_holds_a_daemonset(world: World) -> None:
    await world.quota(pods="1")
    await world.put(daemonset())


async def a_pause_holds_a_daemonset(world: World) -> None:
    await _running(world, daemonset(**rolling(paused=True)))
    await world.set_image("daemonset/web", "nginx:2")


async def a_partition_holds_a_daemonset(world: World) -> None:
    await _running(world, daemonset(**rolling(partition=2)))
    await world.set_image("daemonset/web", "nginx:2")


async def a_daemonset_is_updated_by_hand(world: World) -> None:
    await _running(world, daemonset(updateStrategy={"type": "OnDelete"}))
    await world.set_image("daemonset/web", "nginx:2")


async def a_pod_of_a_node_does_not_end(world: World) -> None:
    await _running(world, daemonset())
    await _deleted_on_a_lost_node(world)


async def its_new_pod_needs_the_host_port_of_the_old_one(world: World) -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    spec = {"containers": [{"name": "main", "image": "nginx:1", "ports": ports}]}
    pods = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    await _running(world, daemonset(template=pods, **rolling(maxSurge=1, maxUnavailable=0)))
    newer = {"containers": [{"name": "main", "image": "nginx:2", "ports": ports}]}
    await world.set("daemonset/web", template={"spec": newer})


async def a_budget_refuses_the_deletion_of_a_daemon(world: World) -> None:
    await _running(world, daemonset())
    await world.put(budget(maxUnavailable=0, protectTotalReplicas=4))
    await world.wait(5)
    await world.set_image("daemonset/web", "nginx:2")


DAEMON_SETS: Final = (
    Situation(
        stage=a_budget_refuses_the_deletion_of_a_daemon,
        ways=1,
        cause=Code.DISRUPTION_REFUSED,
        says="raise maxUnavailable of PodUnavailableBudget web, because the budget now rejects every disruption",
    ),
    Situation(
        stage=its_new_pod_needs_the_host_port_of_the_old_one,
        cause=Code.UNSCHEDULABLE,
        says="both pods need host port 8080",
        ways=2,
    ),
    Situation(stage=a_pod_of_a_node_does_not_end, cause=Code.NODE_LOST, says="does not stop it", ways=2),
    Situation(stage=a_daemonset_is_as_it_should_be, cause="", phase=Phase.HEALTHY),
    Situation(
        stage=it_fits_no_node,
        cause=Code.NO_NODES,
        phase=Phase.HEALTHY,
        says="no node is eligible for a pod",
        ways=2,
    ),
    Situation(stage=its_image_cannot_be_pulled_on_a_node, cause=Code.IMAGE_PULL, ways=2),
    Situation(stage=a_quota_holds_a_daemonset, ways=1, cause=Code.QUOTA, says="exceeded quota: team"),
    Situation(stage=a_pause_holds_a_daemonset, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1),
    Situation(stage=a_partition_holds_a_daemonset, cause=Code.PARTITION, phase=Phase.PAUSED, ways=1),
    Situation(stage=a_daemonset_is_updated_by_hand, cause=Code.ON_DELETE, phase=Phase.HEALTHY, ways=2),
)


async def a_united_deployment_is_as_it_should_be(world: World) -> None:
    await world.put(united())


async def the_pods_of_a_subset_find_no_node(world: World) -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    subsets = [{"name": "a", "nodeSelectorTerm": term}, {"name": "b"}]
    await world.put(united(topology={"subsets": subsets}))


async def a_partition_holds_its_subsets(world: World) -> None:
    update = {"type": "Manual", "manualUpdate": {"partitions": {"a": 2, "b": 2}}}
    await _running(world, united(updateStrategy=update))
    await _united_image(world, "nginx:2")


async def the_updates_of_its_subsets_are_paused(world: World) -> None:
    document = united()
    strategy = {"rollingUpdate": {"paused": True, "maxUnavailable": 0, "maxSurge": 1}}
    document["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"] = strategy
    await _running(world, document)
    await _united_image(world, "nginx:2")


async def _united_image(world: World, image: str) -> None:
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    await world.set("uniteddeployment/web", template={"cloneSetTemplate": {"spec": spec}})


async def the_new_image_of_all_subsets_is_not_there(world: World) -> None:
    await _running(world, united())
    world.fail(image="nginx:2", image_pull_error=True)
    await _united_image(world, "nginx:2")


async def a_quota_holds_its_workloads(world: World) -> None:
    await world.quota(count_clonesets="1")
    await world.put(united())


async def a_quota_holds_the_pods_of_its_subsets(world: World) -> None:
    await world.quota(pods="1")
    await world.put(united())


async def the_pods_of_a_subset_are_too_large(world: World) -> None:
    large = {"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "100"}}}
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]}
    small = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    subsets = [{"name": "a", "nodeSelectorTerm": term}, {"name": "b", "patch": {"spec": small}}]
    kept = {"type": "Manual", "manualUpdate": {"partitions": {"b": 2}}}
    pods = {"containers": [large]}
    await world.put(united(pod=pods, topology={"subsets": subsets}, updateStrategy=kept))


UNITED: Final = (
    Situation(
        stage=the_pods_of_a_subset_are_too_large,
        cause=Code.UNSCHEDULABLE,
        says="change the requests, host ports or affinity of spec.template.cloneSetTemplate",
        ways=3,
    ),
    Situation(stage=a_united_deployment_is_as_it_should_be, cause="", phase=Phase.HEALTHY),
    Situation(
        stage=the_pods_of_a_subset_find_no_node,
        cause=Code.UNSCHEDULABLE,
        says="no node matches the subset's nodeSelectorTerm in spec.topology.subsets: disk=ssd",
        ways=2,
    ),
    Situation(stage=a_partition_holds_its_subsets, cause=Code.PARTITION, phase=Phase.PAUSED, ways=2),
    Situation(
        stage=the_updates_of_its_subsets_are_paused,
        cause=Code.PAUSED,
        phase=Phase.PAUSED,
        says="spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate.paused",
        ways=1,
    ),
    Situation(stage=the_new_image_of_all_subsets_is_not_there, cause=Code.IMAGE_PULL, ways=3),
    Situation(
        stage=a_quota_holds_its_workloads,
        cause=Code.QUOTA,
        says="exceeded quota: team",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=a_quota_holds_the_pods_of_its_subsets, ways=1, cause=Code.QUOTA, says="exceeded quota: team"
    ),
)
