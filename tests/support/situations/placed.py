"""Situations of pods and the nodes on which they run or cannot run, in all kinds.

PLACED ──▶ tables.py
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import (
    budget,
    cloneset,
    daemonset,
    marker,
    podstate,
    spread,
    statefulset,
    united,
)
from support.situations.world import Situation, World

ZONE: Final = "topology.kubernetes.io/zone"

# ── recorded nodes ───────────────────────────────────────────────────────────


async def its_request_names_no_topology(world: World) -> None:
    document = statefulset()
    document["metadata"]["annotations"] = {"kruise.io/auto-generate-persistent-pod-state": "true"}
    await world.put(document)


async def _ask_for_the_state_that_a_person_made(world: World) -> None:
    await world.put(podstate(requiredPersistentTopology={"keys": ["kubernetes.io/arch"]}))
    document = statefulset()
    document["metadata"]["annotations"] = {
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
    }
    await world.put(document)


async def its_annotations_ask_for_a_state_that_a_person_made(world: World) -> None:
    await _ask_for_the_state_that_a_person_made(world)


async def a_statefulset_asks_for_it_in_vain(world: World) -> None:
    await _ask_for_the_state_that_a_person_made(world)


async def a_patch_of_its_spread_names_a_missing_class(world: World) -> None:
    patch = {"spec": {"priorityClassName": "spot"}}
    await world.put(spread(subsets=[{"name": "own", "maxReplicas": 1}, {"name": "rented", "patch": patch}]))
    await world.wait(5)
    await world.put(cloneset())


async def _zones(world: World, **zones: str) -> None:
    for name, zone in zones.items():
        await world.node(name.replace("_", "-"), metadata={"labels": {ZONE: zone}})


async def _record_one_zone(world: World) -> None:
    """The pods of a StatefulSet have run in zone z1."""
    await _zones(world, node_1="z1", node_2="z1", node_3="z2")
    state = podstate(requiredPersistentTopology={"keys": [ZONE]})
    await world.put(statefulset(replicas=1, pod={"nodeSelector": {ZONE: "z1"}}), state)
    await world.wait(40)


async def _request_another_zone(world: World) -> None:
    await _record_one_zone(world)
    await world.set("statefulset/web", template={"spec": {"nodeSelector": {ZONE: "z2"}}})


async def a_recorded_zone_overrides_its_template(world: World) -> None:
    await _request_another_zone(world)


async def it_overrides_the_zone_of_a_template(world: World) -> None:
    await _request_another_zone(world)


async def _require_what_no_recorded_node_has(world: World) -> None:
    await _record_one_zone(world)
    await world.set("statefulset/web", template={"spec": {"nodeSelector": {ZONE: None, "disk": "ssd"}}})


async def its_template_and_its_record_fit_no_node(world: World) -> None:
    await _require_what_no_recorded_node_has(world)


async def a_template_and_its_record_fit_no_node(world: World) -> None:
    await _require_what_no_recorded_node_has(world)


# ── pods of a node ───────────────────────────────────────────────────────────


async def one_of_its_nodes_is_full(world: World) -> None:
    full = {"requests": {"memory": "1Gi"}}
    room = {"cpu": "4", "memory": "512Mi", "pods": "110"}
    await world.change(
        "node/node-2", {"status": {"capacity": room, "allocatable": room}}, subresource="status"
    )
    await world.put(daemonset(pod={"containers": [{"name": "main", "image": "nginx:1", "resources": full}]}))


# ── subsets ──────────────────────────────────────────────────────────────────


async def _taint_the_nodes_of_a_subset(world: World) -> None:
    taints = [{"key": "rented", "value": "true", "effect": "NoSchedule"}]
    await world.node("node-4", metadata={"labels": {"pool": "rented"}}, spec={"taints": taints})
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["rented"]}]}
    subsets = [{"name": "own", "maxReplicas": 1}, {"name": "rented", "requiredNodeSelector": term}]
    await world.put(spread(subsets=subsets), cloneset())


async def the_nodes_of_its_subset_have_a_taint(world: World) -> None:
    await _taint_the_nodes_of_a_subset(world)


async def the_nodes_of_a_subset_of_its_spread_have_a_taint(world: World) -> None:
    await _taint_the_nodes_of_a_subset(world)


async def the_nodes_of_one_of_its_subsets_have_a_taint(world: World) -> None:
    taints = [{"key": "rented", "value": "true", "effect": "NoSchedule"}]
    await world.node("node-4", metadata={"labels": {"pool": "rented"}}, spec={"taints": taints})
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["rented"]}]}
    subsets = [{"name": "a", "nodeSelectorTerm": term}, {"name": "b"}]
    kept = {"type": "Manual", "manualUpdate": {"partitions": {"b": 2}}}
    await world.put(united(topology={"subsets": subsets}, updateStrategy=kept))


# ── nodes that stopped, and budgets ──────────────────────────────────────────


async def its_node_never_started_its_pod(world: World) -> None:
    world.stage.kubelets.stop_node("node-2")
    await world.put(cloneset(replicas=1, pod={"nodeSelector": {"kubernetes.io/hostname": "node-2"}}))
    await world.wait(40)


async def it_refuses_every_disruption(world: World) -> None:
    await world.put(statefulset())
    await world.wait(40)
    await world.put(budget(maxUnavailable=None, minAvailable=3))
    await world.wait(5)
    await world.set_image("statefulset/web", "nginx:2")


# ── probes ───────────────────────────────────────────────────────────────────


async def a_pod_of_it_is_on_a_virtual_node(world: World) -> None:
    await world.node("node-2", metadata={"labels": {"type": "virtual-kubelet"}})
    await world.put(cloneset(pod={"nodeName": "node-2"}), marker())


async def its_probe_begins_late(world: World) -> None:
    document = marker()
    document["spec"]["probes"][0]["probe"]["initialDelaySeconds"] = 900
    await world.put(cloneset(), document)
    await world.wait(120)


# ── images that a person requests in a NodeImage ─────────────────────────────


async def _request_by_hand(world: World, **policy: Any) -> None:
    tag = {"tag": "1", "version": 1, "createdAt": "2026-01-01T00:00:00Z", "pullPolicy": policy}
    await world.set("nodeimage/node-1", images={"app": {"tags": [tag]}})
    await world.wait(60)


async def its_limit_ends_a_pull_that_no_job_requests(world: World) -> None:
    world.fail(image="*app:1", pull_s=20)
    await _request_by_hand(world, ttlSecondsAfterFinished=9000, timeoutSeconds=2, backoffLimit=0)


async def an_image_that_no_job_requests_is_not_there(world: World) -> None:
    world.fail(image="*app:1", image_pull_error=True)
    await _request_by_hand(world, ttlSecondsAfterFinished=9000, timeoutSeconds=600, backoffLimit=0)


async def the_secret_that_a_person_listed_does_not_exist(world: World) -> None:
    world.fail(image="*app:1", image_pull_error=True)
    policy = {"ttlSecondsAfterFinished": 9000, "timeoutSeconds": 600, "backoffLimit": 0}
    tag = {"tag": "1", "version": 1, "createdAt": "2026-01-01T00:00:00Z", "pullPolicy": policy}
    secrets = [{"namespace": "kruise-daemon-config", "name": "gone"}]
    await world.set("nodeimage/node-1", images={"app": {"pullSecrets": secrets, "tags": [tag]}})
    await world.wait(60)


_PLAN: Final[Any] = "plan"
_EXPLAIN: Final[Any] = "explain"

# ── ordered pods ─────────────────────────────────────────────────────────────


async def its_first_pod_finds_no_node(world: World) -> None:
    await world.put(statefulset(podManagementPolicy="OrderedReady", pod={"nodeSelector": {"disk": "ssd"}}))


async def its_older_pod_finds_no_node(world: World) -> None:
    await world.put(statefulset(podManagementPolicy="OrderedReady"))
    await world.wait(30)
    for number in range(1, 5):
        await world.node(f"node-{number}", spec={"unschedulable": True})
    await world.delete("pod/web-1")
    await world.wait(10)
    await world.set_image("statefulset/web", "nginx:2")


# ── host ports ───────────────────────────────────────────────────────────────


def _with_host_port() -> dict[str, Any]:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    return {"containers": [{"name": "main", "image": "nginx:1", "ports": ports}]}


async def its_pods_need_more_nodes_for_their_host_port(world: World) -> None:
    await world.put(cloneset(replicas=6, pod=_with_host_port()))


async def another_workload_holds_its_host_port(world: World) -> None:
    await world.put(cloneset("other", replicas=4, pod=_with_host_port()))
    await world.wait(30)
    await world.put(statefulset(pod=_with_host_port()))


PLACED: Final[Mapping[str, tuple[Situation, ...]]] = {
    "nodeimage": (
        Situation(
            stage=its_limit_ends_a_pull_that_no_job_requests,
            cause=Code.IMAGE_PULL,
            says="raise pullPolicy.timeoutSeconds of tag 1 of app in NodeImage node-1, and raise version of this tag",
            name="node-1",
            ways=1,
        ),
        Situation(
            stage=the_secret_that_a_person_listed_does_not_exist,
            cause=Code.IMAGE_PULL,
            says="the manager removes references to secrets that do not exist",
            name="node-1",
            ways=1,
        ),
        Situation(
            stage=an_image_that_no_job_requests_is_not_there,
            cause=Code.IMAGE_PULL,
            says="then raise version of this tag by 1",
            name="node-1",
            ways=1,
        ),
    ),
    "statefulset": (
        Situation(
            stage=its_older_pod_finds_no_node,
            cause=Code.UNSCHEDULABLE,
            says="uncordon nodes, or add nodes; or delete the pod (kubectl delete pod web-1",
            ways=3,
            useless=(1, 2),
        ),
        Situation(
            stage=its_first_pod_finds_no_node,
            cause=Code.UNSCHEDULABLE,
            says="web-1: waits until pod web-0 is available, because podManagementPolicy is OrderedReady; 1 later",
            ways=2,
        ),
        Situation(
            stage=another_workload_holds_its_host_port,
            cause=Code.UNSCHEDULABLE,
            says="of CloneSet other holds host port 8080 on node-1",
            ways=2,
        ),
        Situation(
            stage=its_annotations_ask_for_a_state_that_a_person_made,
            cause=Code.NO_EFFECT,
            phase=Phase.HEALTHY,
            says="PersistentPodState web exists, and was not generated from it",
            ways=2,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=its_template_and_its_record_fit_no_node,
            cause=Code.UNSCHEDULABLE,
            says="not match the pod, which requires disk=ssd",
            ways=3,
        ),
        Situation(
            stage=its_request_names_no_topology,
            cause=Code.NO_EFFECT,
            phase=Phase.HEALTHY,
            says="annotation kruise.io/auto-generate-persistent-pod-state has no effect",
            ways=1,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=a_recorded_zone_overrides_its_template,
            cause=Code.NO_EFFECT,
            phase=Phase.HEALTHY,
            says=f"the node labels in spec.template ({ZONE}=z2) have no effect, because PersistentPodState web keeps"
            f" the pod on nodes with {ZONE}=z1",
            ways=1,
            known_by=_EXPLAIN,
        ),
    ),
    "workloadspread": (
        Situation(
            stage=the_nodes_of_its_subset_have_a_taint,
            cause=Code.UNSCHEDULABLE,
            says="node-4 has the taint rented=true:NoSchedule, which the pod does not tolerate",
            ways=3,
            known_by=_PLAN,
        ),
    ),
    "uniteddeployment": (
        Situation(
            stage=the_nodes_of_one_of_its_subsets_have_a_taint,
            cause=Code.UNSCHEDULABLE,
            says="of the nodes of the subset, node-4 has the taint rented=true:NoSchedule",
            ways=3,
        ),
    ),
    "podunavailablebudget": (
        Situation(
            stage=it_refuses_every_disruption,
            cause=Code.DISRUPTION_REFUSED,
            says="lower minAvailable",
            ways=1,
            known_by=_EXPLAIN,
        ),
    ),
    "cloneset": (
        Situation(
            stage=its_pods_need_more_nodes_for_their_host_port,
            cause=Code.UNSCHEDULABLE,
            says="holds host port 8080 on node-3 and on 1 more: a node can run only one of these pods",
            ways=2,
        ),
        Situation(
            stage=its_node_never_started_its_pod,
            cause=Code.NODE_LOST,
            says="its node node-2 has not answered since it got the pod",
        ),
        Situation(
            stage=a_patch_of_its_spread_names_a_missing_class,
            cause=Code.POLICY,
            says="or correct priorityClassName in spec.subsets",
            ways=1,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=the_nodes_of_a_subset_of_its_spread_have_a_taint,
            cause=Code.UNSCHEDULABLE,
            says="node-4 has the taint rented=true:NoSchedule, which the pod does not tolerate",
            ways=3,
        ),
    ),
    "daemonset": (
        Situation(
            stage=one_of_its_nodes_is_full,
            cause=Code.UNSCHEDULABLE,
            says="must run on node node-2, which cannot take it: Insufficient memory",
            ways=2,
        ),
    ),
    "persistentpodstate": (
        Situation(
            stage=a_template_and_its_record_fit_no_node,
            cause=Code.UNSCHEDULABLE,
            says="not match the pod, which requires disk=ssd",
            ways=3,
            known_by=_PLAN,
        ),
        Situation(
            stage=it_overrides_the_zone_of_a_template,
            cause=Code.NO_EFFECT,
            phase=Phase.HEALTHY,
            says=f"{ZONE}=z2",
            ways=1,
            known_by=_EXPLAIN,
        ),
        Situation(
            stage=a_statefulset_asks_for_it_in_vain,
            cause=Code.NO_EFFECT,
            phase=Phase.HEALTHY,
            says="of StatefulSet web has no effect",
            ways=2,
            known_by=_EXPLAIN,
        ),
    ),
    "podprobemarker": (
        Situation(
            stage=a_pod_of_it_is_on_a_virtual_node,
            cause=Code.NO_AGENT,
            says="its node node-2 is a virtual node (label type=virtual-kubelet)",
            ways=1,
            known_by=_PLAN,
        ),
        Situation(
            stage=its_probe_begins_late,
            cause=Code.STARTING,
            phase=Phase.HEALTHY,
            says="initialDelaySeconds 900",
            known_by=_PLAN,
        ),
    ),
}
