"""Situations of kinds that act on the objects of other kinds.

SIDECAR_SETS, SPREADS, BUDGETS, DISTRIBUTIONS, POD_STATES ──▶ tables.py
"""

from typing import Any, Final

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import (
    budget,
    cloneset,
    daemonset,
    disruption_budget,
    distribution,
    podstate,
    sidecarset,
    spread,
    statefulset,
)
from support.situations.world import Situation, World

# ── SidecarSet ───────────────────────────────────────────────────────────────


async def a_sidecarset_is_as_it_should_be(world: World) -> None:
    await world.put(sidecarset(), cloneset())


async def its_pods_are_older(world: World) -> None:
    await world.put(cloneset())
    await world.wait(30)
    await world.put(sidecarset())


async def it_selects_no_pod(world: World) -> None:
    await world.put(sidecarset())


async def its_sidecar_cannot_be_pulled(world: World) -> None:
    await world.put(sidecarset(), cloneset())
    await world.wait(30)
    world.fail(image="log:2", image_pull_error=True)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])


async def it_is_never_upgraded(world: World) -> None:
    await world.put(sidecarset(updateStrategy={"type": "NotUpdate"}), cloneset())
    await world.wait(30)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])


async def its_upgrade_is_paused(world: World) -> None:
    await world.put(sidecarset(updateStrategy={"paused": True}), cloneset())
    await world.wait(30)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])


async def a_partition_holds_its_upgrade(world: World) -> None:
    await world.put(sidecarset(updateStrategy={"partition": 2}), cloneset())
    await world.wait(30)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])


async def a_budget_refuses_its_upgrade(world: World) -> None:
    await world.put(sidecarset())
    await world.wait(5)
    await world.put(cloneset())
    await world.wait(20)
    await world.put(budget("guard", maxUnavailable=0))
    await world.wait(10)
    await world.set("sidecarset/web", containers=[{"name": "log", "image": "log:2"}])


async def a_quota_rejects_the_pods_because_of_its_container(world: World) -> None:
    await world.quota(**{"limits.cpu": "8"})
    await world.put(sidecarset(), cloneset(pod={"containers": [_LIMITED]}))


_LIMITED: Final = {"name": "main", "image": "nginx:1", "resources": {"limits": {"cpu": "100m"}}}


SIDECAR_SETS: Final = (
    Situation(
        stage=a_quota_rejects_the_pods_because_of_its_container,
        cause=Code.QUOTA,
        says="set in spec.containers of SidecarSet web what the ResourceQuota requires",
        known_by="explain",
    ),
    Situation(
        stage=a_budget_refuses_its_upgrade,
        ways=1,
        cause=Code.DISRUPTION_REFUSED,
        says="raise maxUnavailable of PodUnavailableBudget guard",
        known_by="explain",
    ),
    Situation(stage=a_sidecarset_is_as_it_should_be, cause="", phase=Phase.HEALTHY),
    Situation(
        stage=its_pods_are_older,
        cause=Code.NOT_INJECTED,
        says="it is older than this SidecarSet",
        ways=1,
        known_by="plan",
    ),
    Situation(stage=it_selects_no_pod, cause=Code.NO_PODS, phase=Phase.HEALTHY, ways=1),
    Situation(stage=its_sidecar_cannot_be_pulled, cause=Code.IMAGE_PULL, says="--to-revision=1", ways=3),
    Situation(stage=it_is_never_upgraded, cause=Code.NOT_UPDATE, phase=Phase.HEALTHY, ways=2),
    Situation(stage=its_upgrade_is_paused, cause=Code.PAUSED, phase=Phase.PAUSED, ways=1),
    Situation(stage=a_partition_holds_its_upgrade, cause=Code.PARTITION, phase=Phase.PAUSED, ways=1),
)

# ── WorkloadSpread ───────────────────────────────────────────────────────────

_TWO = [{"name": "a", "maxReplicas": 2}, {"name": "b"}]


async def a_spread_is_as_it_should_be(world: World) -> None:
    await world.put(spread(subsets=_TWO), cloneset())


async def its_workload_is_not_there(world: World) -> None:
    await world.put(spread(subsets=_TWO))


async def its_patch_makes_invalid_pods(world: World) -> None:
    await _spread_with_bad_patch(world)


async def _spread_with_bad_patch(world: World) -> None:
    patch = {"spec": {"tolerations": [{"key": "x", "operator": "Exists", "value": "no"}]}}
    await world.put(spread(subsets=[{"name": "a", "patch": patch}]), cloneset())


async def its_patch_was_corrected(world: World) -> None:
    patch = {"spec": {"tolerations": [{"key": "x", "operator": "Exists", "value": "no"}]}}
    subsets = [{"name": "a", "maxReplicas": 2, "patch": patch}, {"name": "b"}]
    await world.put(spread(subsets=subsets), cloneset())
    await world.wait(60)
    await world.set("workloadspread/web", subsets=_TWO)


async def its_first_subset_has_no_room(world: World) -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    await world.put(
        spread(subsets=[{"name": "a", "maxReplicas": 2, "requiredNodeSelector": term}, {"name": "b"}]),
        cloneset(),
    )


async def its_pods_were_there_before(world: World) -> None:
    await world.put(cloneset())
    await world.wait(30)
    await world.put(spread(subsets=_TWO))


async def its_patch_was_corrected_before_a_pod_was_tried_again(world: World) -> None:
    patch = {"spec": {"tolerations": [{"key": "x", "operator": "Exists", "value": "no"}]}}
    subsets = [{"name": "a", "maxReplicas": 2, "patch": patch}, {"name": "b"}]
    await world.put(spread(subsets=subsets), cloneset())
    await world.wait(5)
    await world.set("workloadspread/web", subsets=_TWO)


async def the_template_requires_the_nodes_of_another_subset(world: World) -> None:
    subsets = [
        {"name": name, "requiredNodeSelector": {"matchExpressions": [_in_pool(name)]}, **limit}
        for name, limit in (("a", {"maxReplicas": 2}), ("b", {}))
    ]
    await world.node("node-1", metadata={"labels": {"pool": "a"}})
    await world.node("node-2", metadata={"labels": {"pool": "b"}})
    await world.put(spread(subsets=subsets), cloneset(pod={"nodeSelector": {"pool": "a"}}))


def _in_pool(name: str) -> dict[str, Any]:
    return {"key": "pool", "operator": "In", "values": [name]}


async def its_filter_selects_no_pod(world: World) -> None:
    wrong = {"selector": {"matchLabels": {"app": "wbe"}}}
    await world.put(spread(subsets=_TWO, targetFilter=wrong), cloneset())


SPREADS: Final = (
    Situation(
        stage=its_filter_selects_no_pod,
        cause=Code.NOTHING_SELECTED,
        says="does not match the pods of CloneSet web",
        ways=1,
        known_by="explain",
    ),
    Situation(
        stage=the_template_requires_the_nodes_of_another_subset,
        cause=Code.UNSCHEDULABLE,
        says="node-2 does not match the pod, which requires pool=a; b is the last subset, whose pods always wait",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=its_patch_was_corrected_before_a_pod_was_tried_again,
        cause="",
        phase=Phase.HEALTHY,
    ),
    Situation(stage=a_spread_is_as_it_should_be, cause="", phase=Phase.HEALTHY),
    Situation(stage=its_workload_is_not_there, cause=Code.NO_TARGET, ways=2, known_by="plan"),
    Situation(stage=its_patch_makes_invalid_pods, cause=Code.PATCH, ways=2, known_by="plan"),
    Situation(stage=its_patch_was_corrected, cause="", phase=Phase.HEALTHY),
    Situation(stage=its_first_subset_has_no_room, cause=Code.UNSCHEDULABLE, ways=3, known_by="plan"),
    Situation(stage=its_pods_were_there_before, cause="", phase=Phase.HEALTHY),
)

# ── PodUnavailableBudget ─────────────────────────────────────────────────────


async def a_budget_is_met(world: World) -> None:
    await world.put(cloneset(), budget())


async def it_is_about_no_pod(world: World) -> None:
    await world.put(budget())


async def its_target_is_not_there(world: World) -> None:
    ref = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "ghost"}
    await world.put(budget(targetRef=ref))


async def its_pods_cannot_pull(world: World) -> None:
    world.fail(image="nginx:1", image_pull_error=True)
    await world.put(cloneset(), budget())


async def it_lets_nothing_go(world: World) -> None:
    await world.put(cloneset(), budget(maxUnavailable=0))


async def its_pods_crash(world: World) -> None:
    world.fail(image="nginx:1", exit_code=3)
    await world.put(cloneset(), budget())


async def all_its_pods_must_serve(world: World) -> None:
    await world.put(cloneset(), budget(maxUnavailable=None, minAvailable=3))


async def no_number_of_pods_is_known(world: World) -> None:
    await world.put(daemonset(), budget(maxUnavailable=1))


async def it_counts_more_pods_than_its_workload_wants(world: World) -> None:
    await world.put(cloneset(), budget(protectTotalReplicas=10))


async def the_template_exempts_all_its_pods(world: World) -> None:
    document = cloneset()
    document["spec"]["template"]["metadata"]["annotations"] = {"pub.kruise.io/no-protect": "true"}
    await world.put(document, budget())


async def all_its_pods_are_exempt_by_hand(world: World) -> None:
    await world.put(statefulset(), budget())
    await world.wait(30)
    for pod in await world.list("pod"):
        exempt = {"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}}
        await world.change(f"pod/{pod['metadata']['name']}", exempt)


async def an_older_budget_covers_all_its_pods(world: World) -> None:
    await world.put(cloneset(), budget("loose", maxUnavailable="100%"))
    await world.wait(5)
    ref = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}
    await world.put(budget(targetRef=ref))


async def one_of_its_pods_is_exempt(world: World) -> None:
    await world.put(statefulset(), budget())
    await world.wait(30)
    await world.change("pod/web-0", {"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}})


async def two_disruption_budgets_cover_its_pods(world: World) -> None:
    await world.put(cloneset(), budget(), disruption_budget("chart"), disruption_budget("web"))


BUDGETS: Final = (
    Situation(
        stage=it_counts_more_pods_than_its_workload_wants,
        cause=Code.DISRUPTION_REFUSED,
        says="spec.protectTotalReplicas is 10, but CloneSet web should have only 3 pods",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=two_disruption_budgets_cover_its_pods,
        cause=Code.EVICTION_BUDGET,
        says="is covered by PodDisruptionBudgets chart and web",
        known_by="explain",
    ),
    Situation(
        stage=the_template_exempts_all_its_pods,
        cause=Code.PROTECTS_NOTHING,
        says="annotation pub.kruise.io/no-protect exempts all its 3 pods, so the budget protects nothing; spec.template"
        " of CloneSet web sets it",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=all_its_pods_are_exempt_by_hand,
        cause=Code.PROTECTS_NOTHING,
        says="the budget protects none of its pods",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=an_older_budget_covers_all_its_pods,
        cause=Code.PROTECTS_NOTHING,
        says="PodUnavailableBudget loose covers all its 3 pods and applies to them, so this budget protects none",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=one_of_its_pods_is_exempt,
        cause="",
        phase=Phase.HEALTHY,
        says="1 pod is exempt (annotation pub.kruise.io/no-protect)",
    ),
    Situation(stage=a_budget_is_met, cause="", phase=Phase.HEALTHY),
    Situation(stage=it_is_about_no_pod, cause=Code.NO_PODS, phase=Phase.HEALTHY, ways=2),
    Situation(stage=its_target_is_not_there, cause=Code.NO_TARGET, ways=2, known_by="plan"),
    Situation(stage=its_pods_cannot_pull, cause=Code.IMAGE_PULL, ways=2, known_by="plan"),
    Situation(
        stage=no_number_of_pods_is_known,
        cause=Code.NO_TARGET,
        says="the desired number of pods of DaemonSet web is unknown, so the budget does not protect these",
        ways=1,
        known_by="explain",
    ),
    Situation(stage=it_lets_nothing_go, cause="", phase=Phase.HEALTHY, says="no pod may be disrupted"),
    Situation(stage=all_its_pods_must_serve, cause="", phase=Phase.HEALTHY, says="lower minAvailable"),
    Situation(stage=its_pods_crash, cause=Code.CONTAINER_FAILS, says="exit code 3", ways=1, known_by="plan"),
)

# ── ResourceDistribution ─────────────────────────────────────────────────────


async def a_distribution_is_everywhere(world: World) -> None:
    await world.put(distribution(targets=_here(world)))


def _here(world: World) -> dict[str, Any]:
    return {"includedNamespaces": {"list": [{"name": world.namespace}]}}


async def a_namespace_is_not_there(world: World) -> None:
    await world.put(distribution(targets={"includedNamespaces": {"list": [{"name": "ghost"}]}}))


async def the_name_is_taken(world: World) -> None:
    await world.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}})
    await world.put(distribution(targets=_here(world)))


async def a_quota_lets_it_copy_nothing(world: World) -> None:
    labels = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    await world.put(distribution(targets=labels))
    await world.quota(configmaps="0")
    await world.change(f"namespace/{world.namespace}", {"metadata": {"labels": {"team": "a"}}})


async def it_means_no_namespace(world: World) -> None:
    labels = {"namespaceSelector": {"matchLabels": {"team": "none"}}}
    await world.put(distribution(targets=labels))


async def one_of_two_namespaces_is_not_there(world: World) -> None:
    names = [{"name": world.namespace}, {"name": "ghost"}]
    await world.put(distribution(targets={"includedNamespaces": {"list": names}}))


async def a_finalizer_holds_a_deleted_copy(world: World) -> None:
    await world.put(distribution(targets=_here(world)))
    await world.wait(10)
    await world.change("configmap/shared", {"metadata": {"finalizers": ["example.com/hold"]}})
    await world.delete("configmap/shared")


async def it_names_a_namespace_that_never_receives_a_copy(world: World) -> None:
    names = [{"name": world.namespace}, {"name": "kube-system"}]
    await world.put(distribution(targets={"includedNamespaces": {"list": names}}))


DISTRIBUTIONS: Final = (
    Situation(
        stage=it_names_a_namespace_that_never_receives_a_copy,
        cause=Code.NO_EFFECT,
        phase=Phase.HEALTHY,
        says="kube-system: spec.targets names this namespace, but it never receives a copy",
    ),
    Situation(stage=a_finalizer_holds_a_deleted_copy, cause=Code.FINALIZER, says="example.com/hold", ways=1),
    Situation(stage=a_distribution_is_everywhere, cause="", phase=Phase.HEALTHY),
    Situation(stage=a_namespace_is_not_there, cause=Code.NO_NAMESPACE, says="ghost", ways=1),
    Situation(stage=the_name_is_taken, cause=Code.NAME_TAKEN),
    Situation(stage=a_quota_lets_it_copy_nothing, cause=Code.QUOTA, says="exceeded quota: team", ways=1),
    Situation(
        stage=it_means_no_namespace,
        cause=Code.NO_TARGETS,
        phase=Phase.HEALTHY,
        says="(namespaceSelector: team=none)",
        ways=1,
    ),
    Situation(stage=one_of_two_namespaces_is_not_there, cause=Code.NO_NAMESPACE, says="ghost", ways=1),
)

# ── PersistentPodState ───────────────────────────────────────────────────────


async def _bound(world: World) -> str:
    """The node of a pod that is bound to it."""
    await world.put(statefulset(), podstate())
    await world.wait(60)
    return str((await world.get("pod/web-1"))["spec"]["nodeName"])


async def a_state_is_recorded(world: World) -> None:
    await _bound(world)


async def its_node_is_cordoned(world: World) -> None:
    node = await _bound(world)
    await world.node(node, spec={"unschedulable": True})
    await world.delete("pod/web-1")


async def the_name_of_its_statefulset_is_misspelt(world: World) -> None:
    await world.put(statefulset())
    await world.put(podstate(target="wbe"))


async def only_a_cloneset_has_the_misspelt_name(world: World) -> None:
    await world.put(statefulset(), cloneset("wbe"))
    await world.put(podstate(target="wbe"))


async def its_statefulset_is_not_there(world: World) -> None:
    await world.put(podstate())


async def a_bound_node_has_no_room(world: World) -> None:
    node = await _bound(world)
    await world.node(node, spec={"taints": [{"key": "gone", "effect": "NoSchedule"}]})
    await world.delete("pod/web-1")


async def a_generated_state_binds_a_pod_to_a_cordoned_node(world: World) -> None:
    topology = {
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
    }
    document = statefulset(replicas=1)
    document["metadata"]["annotations"] = topology
    await world.put(document)
    await world.wait(30)
    (pod,) = await world.list("pod")
    await world.node(pod["spec"]["nodeName"], spec={"unschedulable": True})
    await world.delete("pod/web-0")


async def its_pods_cannot_start(world: World) -> None:
    world.fail(image="nginx:1", image_pull_error=True)
    await world.put(statefulset(), podstate())


async def a_node_lacks_the_label_to_record(world: World) -> None:
    topology = {"requiredPersistentTopology": {"keys": ["example.com/rack"]}}
    await world.put(statefulset(), podstate(**topology))


async def a_bound_node_is_gone(world: World) -> None:
    await world.put(statefulset(), podstate())
    await world.wait(30)
    pod = await world.get("pod/web-0")
    await world.delete(f"node/{pod['spec']['nodeName']}")
    await world.delete("pod/web-0")
    await world.wait(120)


POD_STATES: Final = (
    Situation(stage=a_state_is_recorded, cause="", phase=Phase.HEALTHY),
    Situation(
        stage=its_node_is_cordoned,
        cause=Code.UNSCHEDULABLE,
        says="because PersistentPodState web recorded that the pod ran on node",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=a_generated_state_binds_a_pod_to_a_cordoned_node,
        cause=Code.UNSCHEDULABLE,
        says="kubectl annotate -n scenario statefulsets.apps.kruise.io web --overwrite",
        ways=2,
        known_by="plan",
    ),
    Situation(stage=its_statefulset_is_not_there, cause=Code.NO_TARGET, ways=2, known_by="plan"),
    Situation(
        stage=the_name_of_its_statefulset_is_misspelt,
        cause=Code.NO_TARGET,
        says="did you mean web?",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=only_a_cloneset_has_the_misspelt_name,
        cause=Code.NO_TARGET,
        says="did you mean web?",
        ways=2,
        known_by="plan",
    ),
    Situation(
        stage=a_bound_node_has_no_room,
        cause=Code.UNSCHEDULABLE,
        says="has the taint gone:NoSchedule, which the pod does not tolerate",
        ways=3,
        known_by="plan",
    ),
    Situation(stage=its_pods_cannot_start, cause=Code.IMAGE_PULL, ways=2, known_by="plan"),
    Situation(
        stage=a_node_lacks_the_label_to_record,
        cause=Code.NO_TOPOLOGY,
        says="example.com/rack",
        ways=1,
        known_by="plan",
    ),
    Situation(
        stage=a_bound_node_is_gone,
        cause=Code.UNSCHEDULABLE,
        ways=1,
        says="add a node with",
        known_by="plan",
    ),
)
