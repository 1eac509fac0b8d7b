"""Situations that users of real clusters meet.

Rejections by admission plugins, children of children, lost nodes, wrong targets, limits that are too short.

MET: rows by the name of their kind ──▶ tables.py
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.clock import format_time
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, NODES, PODS
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.scenario import Object
from support.situations.documents import (
    broadcastjob,
    budget,
    cloneset,
    cronjob,
    daemonset,
    distribution,
    ephemeraljob,
    listjob,
    marker,
    podstate,
    pulljob,
    selector,
    sidecarset,
    spread,
    statefulset,
    template,
    united,
)
from support.situations.world import LIMIT_RANGES, Situation, World

_NOWHERE: Final = {"nodeSelector": {"disk": "ssd"}}
_SSD: Final = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


async def _limit_memory(world: World) -> None:
    """Limit the memory of containers in the namespace to 256Mi."""
    spec = {"limits": [{"type": "Container", "max": {"memory": "256Mi"}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": spec}
    await world.stage.client.create(LIMIT_RANGES, world.namespace, body)


async def _restrict_pods(world: World) -> None:
    """Allow only pods of the standard `restricted` in the namespace."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    patch = {"metadata": {"labels": labels}}
    await world.stage.client.patch(NAMESPACES, "", world.namespace, patch, patch_type=PatchType.MERGE)


async def its_namespace_refuses_its_pods(world: World) -> None:
    await _restrict_pods(world)
    await world.put(cloneset())


async def its_namespace_refuses_the_pods_of_a_job(world: World) -> None:
    await _restrict_pods(world)
    await world.put(broadcastjob())


def _large(image: str = "nginx:1") -> list[Object]:
    return [{"name": "main", "image": image, "resources": {"limits": {"memory": "1Gi"}}}]


async def _lose_the_node_of(world: World, app: str = "web") -> None:
    """Cut the power of the node of a pod, and wait until the control plane has noticed."""
    pod = next(pod for pod in await world.list("pod") if pod["metadata"]["labels"].get("app") == app)
    await _lose(world, pod["spec"]["nodeName"])


async def _lose(world: World, node: str) -> None:
    """Cut the power of a node. The control plane marks it and its pods after a while."""
    world.stage.kubelets.stop_node(node)
    await world.wait(40)
    unknown = {"type": "Ready", "status": "Unknown", "lastTransitionTime": format_time(world.stage.clock())}
    body = {"status": {"conditions": [unknown]}}
    await world.stage.client.patch(
        NODES, "", node, body, patch_type=PatchType.STRATEGIC, subresource="status"
    )
    not_ready = {**unknown, "status": "False"}
    for pod in await world.list("pod"):
        if pod["spec"].get("nodeName") == node:
            await world.stage.client.patch(
                PODS,
                world.namespace,
                pod["metadata"]["name"],
                {"status": {"conditions": [not_ready]}},
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
    await world.wait(90)


# ── workloads ────────────────────────────────────────────────────────────────


async def its_service_account_is_missing(world: World) -> None:
    await world.put(cloneset(pod={"serviceAccountName": "robot"}))


async def its_priority_class_is_missing(world: World) -> None:
    await world.put(cloneset(pod={"priorityClassName": "critical"}))


async def a_quota_demands_limits(world: World) -> None:
    await world.quota(**{"limits.cpu": "8"})
    await world.put(cloneset())


async def its_first_container_holds_the_others(world: World) -> None:
    world.fail(image="mesh:1", never_ready=True)
    document = cloneset(
        pod={"containers": [{"name": "mesh", "image": "mesh:1"}, {"name": "main", "image": "a:1"}]}
    )
    annotations = {"apps.kruise.io/container-launch-priority": "Ordered"}
    document["spec"]["template"]["metadata"]["annotations"] = annotations
    await world.put(document)


async def a_finalizer_keeps_a_pod_of_what_is_deleted(world: World) -> None:
    await world.put(cloneset())
    await world.wait(30)
    pod = (await world.list("pod"))[0]["metadata"]["name"]
    await world.change(f"pod/{pod}", {"metadata": {"finalizers": ["example.com/audit"]}})
    await world.delete("cloneset/web", propagation="Foreground")


async def a_pause_holds_a_bad_image(world: World) -> None:
    await world.put(cloneset())
    await world.wait(30)
    world.fail(image="nginx:2", image_pull_error=True)
    await world.set_image("cloneset/web", "nginx:2")
    await world.wait(10)
    await world.set("cloneset/web", updateStrategy={"rollingUpdate": {"paused": True}})


async def another_pod_has_its_name(world: World) -> None:
    spec = {"containers": [{"name": "main", "image": "debug:1"}]}
    await world.put(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": spec}, statefulset()
    )


async def a_built_in_statefulset_has_its_pods(world: World) -> None:
    document = statefulset()
    await world.put({**document, "apiVersion": "apps/v1", "spec": {**document["spec"], "serviceName": "web"}})
    await world.wait(30)
    await world.put(document)


async def another_statefulset_has_its_pods(world: World) -> None:
    document = statefulset()
    labels = {"app": "other"}
    spec = {**document["spec"], "selector": {"matchLabels": labels}, "serviceName": "web"}
    spec["template"] = {**spec["template"], "metadata": {"labels": labels}}
    await world.put({**document, "apiVersion": "apps/v1", "spec": spec})
    await world.wait(30)
    await world.put(document)


async def its_readiness_gate_stays_closed(world: World) -> None:
    gates = [{"conditionType": "example.com/balanced"}]
    await world.put(statefulset(podManagementPolicy="OrderedReady", pod={"readinessGates": gates}))


async def its_old_pod_waits_for_the_corrected_image(world: World) -> None:
    world.fail(image="nginx:1", image_pull_error=True)
    await world.put(statefulset(podManagementPolicy="OrderedReady"))
    await world.wait(30)
    await world.set_image("statefulset/web", "nginx:2")


async def its_old_pod_crashes_after_a_correction(world: World) -> None:
    await world.put(statefulset(podManagementPolicy="OrderedReady"))
    await world.wait(60)
    world.fail(image="nginx:2", exit_code=3)
    await world.set_image("statefulset/web", "nginx:2")
    await world.wait(60)
    await world.set_image("statefulset/web", "nginx:3")


async def its_partition_keeps_the_old_image(world: World) -> None:
    world.fail(image="nginx:1", image_pull_error=True)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
    await world.put(statefulset(podManagementPolicy="OrderedReady", updateStrategy=update))
    await world.wait(30)
    await world.set_image("statefulset/web", "nginx:2")


async def its_claims_stay_small_without_the_gate(world: World) -> None:
    def claims(size: str) -> list[Object]:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        return [{"metadata": {"name": "data"}, "spec": spec}]

    await world.put(
        statefulset(
            volumeClaimTemplates=claims("1Gi"), volumeClaimUpdateStrategy={"type": "OnPodRollingUpdate"}
        )
    )
    await world.wait(30)
    await world.set("statefulset/web", volumeClaimTemplates=claims("2Gi"))


async def a_limit_range_refuses_its_pods(world: World) -> None:
    await _limit_memory(world)
    await world.put(daemonset(pod={"containers": _large()}))


async def no_subset_finds_a_node(world: World) -> None:
    adaptive = {"rescheduleCriticalSeconds": 5, "unschedulableDuration": 3600}
    subsets = [{"name": name, "nodeSelectorTerm": _SSD} for name in ("a", "b")]
    await world.put(
        united(topology={"scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive}, "subsets": subsets})
    )
    await world.wait(60)


async def the_patch_of_a_subset_has_a_bad_image(world: World) -> None:
    world.fail(image="arm:1", image_pull_error=True)
    patch = {"spec": {"containers": [{"name": "main", "image": "arm:1"}]}}
    await world.put(united(topology={"subsets": [{"name": "a"}, {"name": "b", "patch": patch}]}))


async def the_priority_class_in_the_patch_of_a_subset_is_missing(world: World) -> None:
    patch = {"spec": {"priorityClassName": "spot"}}
    await world.put(united(topology={"subsets": [{"name": "a"}, {"name": "b", "patch": patch}]}))


# ── jobs ─────────────────────────────────────────────────────────────────────


async def a_limit_range_refuses_the_pods_of_a_job(world: World) -> None:
    await _limit_memory(world)
    await world.put(broadcastjob(pod={"containers": _large("job:1")}))


async def no_node_is_large_enough_for_it(world: World) -> None:
    main = {"name": "main", "image": "job:1", "resources": {"requests": {"cpu": "500"}}}
    await world.put(broadcastjob(pod={"containers": [main]}))


async def its_runs_are_paused(world: World) -> None:
    document = cronjob(concurrencyPolicy="Forbid")
    document["spec"]["template"]["broadcastJobTemplate"]["spec"]["paused"] = True
    await world.put(document)
    await world.wait(130)


async def a_limit_range_refuses_the_pods_of_its_job(world: World) -> None:
    await _limit_memory(world)
    document = cronjob(made_of="jobTemplate", concurrencyPolicy="Forbid")
    document["spec"]["template"]["jobTemplate"]["spec"]["template"]["spec"]["containers"] = _large("job:1")
    await world.put(document)
    await world.wait(130)


async def the_node_of_its_pod_does_not_answer(world: World) -> None:
    await world.put(cloneset(replicas=1))
    await world.wait(30)
    await _lose_the_node_of(world)
    await world.put(ephemeraljob())


# ── what acts on the objects of others ───────────────────────────────────────


async def a_hot_upgrade_is_taken_back(world: World) -> None:
    def containers(image: str) -> list[Object]:
        hot = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}
        return [{"name": "mesh", "image": image, "upgradeStrategy": hot}]

    await world.put(sidecarset(containers=containers("mesh:1")), cloneset())
    await world.wait(30)
    world.fail(image="mesh:2", image_pull_error=True)
    await world.set("sidecarset/web", containers=containers("mesh:2"))
    await world.wait(60)
    await world.set("sidecarset/web", containers=containers("mesh:1"))


async def its_new_sidecar_is_never_ready(world: World) -> None:
    await world.put(sidecarset(), cloneset())
    await world.wait(30)
    world.fail(image="log:2", never_ready=True)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])


async def every_subset_is_full(world: World) -> None:
    await world.put(spread(subsets=[{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 1}]))
    await world.wait(5)
    await world.put(cloneset())


async def its_workload_is_of_another_kind(world: World) -> None:
    document = spread(subsets=[{"name": "a", "maxReplicas": 1}, {"name": "b"}])
    document["spec"]["targetRef"] |= {"apiVersion": "apps/v1", "kind": "Deployment"}
    await world.put(document, cloneset())


async def a_quota_keeps_its_pods_away(world: World) -> None:
    await world.quota(pods="2")
    await world.put(spread(subsets=[{"name": "a", "maxReplicas": 1}, {"name": "b"}]), cloneset())


async def a_quota_keeps_pods_of_its_workload_away(world: World) -> None:
    await world.quota(pods="2")
    await world.put(cloneset(), budget(minAvailable=2))


async def the_node_of_a_pod_is_lost(world: World) -> None:
    await world.put(cloneset(replicas=1), budget())
    await world.wait(30)
    await _lose_the_node_of(world)


async def its_target_is_of_another_kind(world: World) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await world.put(cloneset(), budget(targetRef=target))


async def its_copies_cannot_be_changed(world: World) -> None:
    document = distribution(immutable=True)
    await world.put(document)
    await world.wait(10)
    await world.set("resourcedistribution/web", resource={"data": {"a": "2"}})


async def the_type_of_its_secret_changed(world: World) -> None:
    await world.put(distribution(kind="Secret", data={"a": "QQ=="}))
    await world.wait(10)
    await world.set("resourcedistribution/web", resource={"type": "example.com/other"})


async def another_distribution_has_the_name(world: World) -> None:
    await world.put(distribution("other"))
    await world.wait(10)
    await world.put(distribution(data={"a": "2"}))


async def its_statefulset_is_of_another_group(world: World) -> None:
    document = podstate()
    document["spec"]["targetRef"]["apiVersion"] = "apps/v1"
    await world.put(statefulset(), document)


# ── images and checks ────────────────────────────────────────────────────────


async def a_try_is_too_short(world: World) -> None:
    world.fail(image="*app:1", pull_s=1e4)
    await world.put(pulljob())
    await world.wait(60)


async def the_deadline_is_too_short(world: World) -> None:
    world.fail(image="*app:1", pull_s=1e4)
    policy = {"type": "Always", "activeDeadlineSeconds": 60}
    await world.put(pulljob(completionPolicy=policy, pullPolicy={"timeoutSeconds": 60, "backoffLimit": 3}))
    await world.wait(60)


async def a_try_of_one_image_is_too_short(world: World) -> None:
    world.fail(image="*db:1", pull_s=1e4)
    await world.put(listjob())
    await world.wait(60)


async def a_try_on_it_is_too_short(world: World) -> None:
    world.fail(image="*app:1", node="node-1", pull_s=1e4)
    await world.put(pulljob(completionPolicy={"type": "Never"}))
    await world.wait(60)


async def its_pods_find_no_node(world: World) -> None:
    await world.put(cloneset(pod=_NOWHERE), marker())


async def its_pods_do_not_run(world: World) -> None:
    world.fail(image="nginx:1", image_pull_error=True)
    await world.put(cloneset(), marker())


async def its_pod_crashes(world: World) -> None:
    world.fail(image="nginx:1", exit_code=3)
    pinned = template("web", nodeName="node-1")
    await world.put(cloneset(replicas=1, template=pinned, selector=selector("web")), marker())
    await world.wait(240)


async def its_node_is_lost(world: World) -> None:
    pinned = template("web", nodeName="node-1")
    await world.put(cloneset(replicas=1, template=pinned, selector=selector("web")), marker())
    await world.wait(30)
    await _lose(world, "node-1")


def _rows(*rows: Situation) -> tuple[Situation, ...]:
    return rows


_PLAN: Final[Any] = "plan"

MET: Final[Mapping[str, tuple[Situation, ...]]] = {
    "cloneset": _rows(
        Situation(
            stage=its_service_account_is_missing,
            ways=1,
            cause=Code.POLICY,
            says="create serviceaccount -n scenario robot",
        ),
        Situation(
            stage=its_priority_class_is_missing,
            ways=1,
            cause=Code.POLICY,
            says="create PriorityClass critical",
        ),
        Situation(
            stage=its_namespace_refuses_its_pods,
            ways=1,
            cause=Code.POLICY,
            says="pod-security.kubernetes.io/enforce",
        ),
        Situation(stage=a_quota_demands_limits, cause=Code.QUOTA, says="must specify limits.cpu"),
        Situation(
            stage=its_first_container_holds_the_others,
            cause=Code.NOT_READY,
            phase=Phase.PROGRESSING,
            says="container mesh runs, but is not ready",
            ways=1,
        ),
        Situation(
            stage=a_finalizer_keeps_a_pod_of_what_is_deleted,
            cause=Code.FINALIZER,
            says="example.com/audit",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(stage=a_pause_holds_a_bad_image, cause=Code.IMAGE_PULL, says="rollout resume", ways=4),
    ),
    "statefulset": _rows(
        Situation(stage=another_pod_has_its_name, cause=Code.NAME_TAKEN, says="pod web-1 exists already"),
        Situation(
            stage=a_built_in_statefulset_has_its_pods,
            cause=Code.NAME_TAKEN,
            says="it belongs to StatefulSet web of API group apps",
            ways=1,
        ),
        Situation(
            stage=another_statefulset_has_its_pods,
            cause=Code.NAME_TAKEN,
            says="when you delete only the pod, it creates the pod again",
        ),
        Situation(
            stage=its_readiness_gate_stays_closed,
            cause=Code.READINESS_GATE,
            says="example.com/balanced",
            ways=1,
        ),
        Situation(
            stage=its_old_pod_waits_for_the_corrected_image,
            cause=Code.IMAGE_PULL,
            says="it has an older revision, and OrderedReady updates only pods that are available",
            ways=2,
        ),
        Situation(
            stage=its_old_pod_crashes_after_a_correction,
            cause=Code.CONTAINER_FAILS,
            says="kubectl delete pod web-2",
            ways=2,
        ),
        Situation(
            stage=its_partition_keeps_the_old_image,
            cause=Code.IMAGE_PULL,
            says="which the partition keeps",
            ways=1,
        ),
        Situation(
            stage=its_claims_stay_small_without_the_gate,
            cause=Code.CLAIMS,
            phase=Phase.HEALTHY,
            says="StatefulSetAutoResizePVCGate",
        ),
    ),
    "daemonset": _rows(
        Situation(
            stage=a_limit_range_refuses_its_pods, ways=1, cause=Code.POLICY, says="change the LimitRange"
        ),
    ),
    "uniteddeployment": _rows(
        Situation(
            stage=no_subset_finds_a_node,
            cause=Code.UNSCHEDULABLE,
            says="4 pods fit into no subset",
            ways=1,
            useless=(0,),
        ),
        Situation(
            stage=the_patch_of_a_subset_has_a_bad_image,
            cause=Code.IMAGE_PULL,
            says="in the patch of subset b",
            ways=2,
        ),
        Situation(
            stage=the_priority_class_in_the_patch_of_a_subset_is_missing,
            cause=Code.POLICY,
            says="or correct priorityClassName in the patch of subset b in spec.topology.subsets",
            ways=2,
        ),
    ),
    "broadcastjob": _rows(
        Situation(
            stage=a_limit_range_refuses_the_pods_of_a_job,
            ways=1,
            cause=Code.POLICY,
            says="change the LimitRange",
        ),
        Situation(
            stage=its_namespace_refuses_the_pods_of_a_job,
            ways=1,
            cause=Code.POLICY,
            says="pod-security.kubernetes.io/enforce",
        ),
        Situation(
            stage=no_node_is_large_enough_for_it, cause=Code.NOTHING_SELECTED, says="too little cpu", ways=2
        ),
    ),
    "advancedcronjob": _rows(
        Situation(stage=its_runs_are_paused, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1, known_by=_PLAN),
        Situation(
            stage=a_limit_range_refuses_the_pods_of_its_job,
            ways=1,
            cause=Code.WRITE_FAILED,
            says="maximum memory usage per Container is 256Mi",
            known_by=_PLAN,
        ),
    ),
    "ephemeraljob": _rows(
        Situation(
            stage=the_node_of_its_pod_does_not_answer,
            cause=Code.NODE_LOST,
            says="does not answer",
            known_by=_PLAN,
        ),
    ),
    "sidecarset": _rows(
        Situation(stage=a_hot_upgrade_is_taken_back, cause="", phase=Phase.HEALTHY),
        Situation(
            stage=its_new_sidecar_is_never_ready,
            cause=Code.NOT_READY,
            phase=Phase.PROGRESSING,
            says="container log runs, but is not ready",
            ways=2,
        ),
    ),
    "workloadspread": _rows(
        Situation(stage=every_subset_is_full, cause=Code.SURPLUS, phase=Phase.HEALTHY, ways=1),
        Situation(
            stage=its_workload_is_of_another_kind,
            cause=Code.NO_TARGET,
            says="there is a CloneSet web",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=a_quota_keeps_its_pods_away,
            ways=1,
            cause=Code.QUOTA,
            says="exceeded quota: team",
            known_by=_PLAN,
        ),
    ),
    "podunavailablebudget": _rows(
        Situation(
            stage=a_quota_keeps_pods_of_its_workload_away,
            ways=1,
            cause=Code.QUOTA,
            says="exceeded quota: team",
            known_by=_PLAN,
        ),
        Situation(
            stage=the_node_of_a_pod_is_lost, cause=Code.NODE_LOST, says="does not answer", known_by=_PLAN
        ),
        Situation(
            stage=its_target_is_of_another_kind,
            cause=Code.NO_TARGET,
            says="there is a CloneSet web",
            ways=1,
            known_by=_PLAN,
        ),
    ),
    "resourcedistribution": _rows(
        Situation(
            stage=its_copies_cannot_be_changed,
            cause=Code.WRITE_FAILED,
            says="the manager then creates it again",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=the_type_of_its_secret_changed,
            cause=Code.WRITE_FAILED,
            says="delete the copy shared, which cannot be changed",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=another_distribution_has_the_name,
            cause=Code.NAME_TAKEN,
            says="belongs to ResourceDistribution other",
        ),
    ),
    "persistentpodstate": _rows(
        Situation(
            stage=its_statefulset_is_of_another_group,
            cause=Code.NO_TARGET,
            says="there is a StatefulSet web of apps.kruise.io/v1beta1",
            ways=1,
            known_by=_PLAN,
        ),
    ),
    "imagepulljob": _rows(
        Situation(
            stage=a_try_is_too_short,
            cause=Code.IMAGE_PULL,
            phase=Phase.FAILED,
            says="pullPolicy.timeoutSeconds",
        ),
        Situation(
            stage=the_deadline_is_too_short,
            cause=Code.IMAGE_PULL,
            phase=Phase.FAILED,
            says="completionPolicy.activeDeadlineSeconds",
        ),
    ),
    "imagelistpulljob": _rows(
        Situation(
            stage=a_try_of_one_image_is_too_short,
            cause=Code.IMAGE_PULL,
            phase=Phase.FAILED,
            says="pullPolicy.timeoutSeconds",
        ),
    ),
    "nodeimage": _rows(
        Situation(
            stage=a_try_on_it_is_too_short,
            cause=Code.IMAGE_PULL,
            says="timeoutSeconds",
            name="node-1",
            known_by=_PLAN,
        ),
    ),
    "podprobemarker": _rows(
        Situation(stage=its_pods_find_no_node, cause=Code.UNSCHEDULABLE, ways=2, known_by=_PLAN),
        Situation(stage=its_pods_do_not_run, cause=Code.IMAGE_PULL, ways=2, known_by=_PLAN),
    ),
    "nodepodprobe": _rows(
        Situation(stage=its_pod_crashes, cause=Code.CONTAINER_FAILS, name="node-1", ways=1, known_by=_PLAN),
        Situation(
            stage=its_node_is_lost,
            cause=Code.NODE_LOST,
            says="does not answer",
            name="node-1",
            known_by=_PLAN,
        ),
    ),
}
