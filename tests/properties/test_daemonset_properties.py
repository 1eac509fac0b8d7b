"""Invariants of every DaemonSet, for any spec, nodes, pods and order of events.

A small model carries out plans (creations, deletions, patches) and acts as kubelet and scheduler. Each step checks
a plan of the current state; then something in the model changes randomly.
"""

import copy
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.plan import plan_daemonset
from pykruise.kinds.daemonset.snapshot import DaemonSetSnapshot
from pykruise.kube.clock import format_time
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.patches.schemas import find_definition
from pykruise.kube.patches.strategic import apply_strategic_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.daemonset_builder import DaemonSetBuilder, daemonset, node_of, revision, template
from support.examples import examples
from support.plan_views import created, deleted, left

POD = find_definition(PODS) or ""

amounts = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda number: f"{number}%"))
pod_changes = st.sampled_from(
    ["", "", "down", "failed", "unscheduled", "terminating", "leaving", "none", "twice"]
)
node_changes = st.sampled_from(["", "", "", "x:NoSchedule", "x:NoExecute"])


@st.composite
def builders(draw: st.DrawFn) -> DaemonSetBuilder:
    """Any DaemonSet that admission accepts, with nodes and pods in any condition."""
    count = draw(st.integers(0, 6))
    kind = draw(st.sampled_from(["standard", "surge", "in place", "OnDelete"]))
    rolling: dict[str, Any] = {"partition": draw(amounts), "paused": draw(st.booleans())}
    if kind == "surge":
        rolling |= {"maxSurge": draw(st.integers(1, 3)), "maxUnavailable": 0}
    else:
        rolling |= {"maxUnavailable": draw(st.integers(1, 3))}
    if kind == "in place":
        rolling["rollingUpdateType"] = "InPlaceIfPossible"
    builder = daemonset(count, **rolling)
    builder.with_spec(burstReplicas=draw(st.sampled_from([1, 2, 250])))
    if draw(st.booleans()):
        builder.with_spec(minReadySeconds=draw(st.sampled_from([0, 30, 5000])))
    for name in list(builder.pods):
        if draw(st.booleans()):
            builder.old(name)
        change = draw(pod_changes)
        if change == "down":
            builder.not_ready(name)
        elif change == "failed":
            builder.phase("Failed", name)
        elif change == "unscheduled":
            builder.unscheduled(name)
        elif change == "terminating":
            builder.deleted(name)
        elif change == "leaving":
            builder.leaving(name)
        elif change == "none":
            builder.without_pod(name)
        elif change == "twice":
            builder.on(name, called=f"{name}b", old=draw(st.booleans()))
    for name in builder.nodes:
        if taint := draw(node_changes):
            builder.taint(name, taint)
    if kind == "OnDelete":
        builder.on_delete()
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    return builder


def live(snapshot: DaemonSetSnapshot) -> list[PodView]:
    """Pods that do not terminate and are not finished."""
    return [pod for pod in snapshot.pods if pod.is_active]


def by_node(pods: list[PodView]) -> dict[str, list[PodView]]:
    node: dict[str, list[PodView]] = {}
    for pod in pods:
        node.setdefault(pod.target_node, []).append(pod)
    return node


def most_a_node(builder: DaemonSetBuilder) -> int:
    block = (builder.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return 2 if block.get("maxSurge") else 1


@given(builders())
def test_a_node_gets_at_most_one_pod_and_under_surge_one_more(builder: DaemonSetBuilder) -> None:
    snapshot = builder.snapshot()
    plan = plan_daemonset(snapshot)
    here = by_node(live(snapshot))
    for pod in created(plan):
        node = node_of(pod)
        assert snapshot.overview.states[node].place is Place.RUN
        staying = [pod for pod in here.get(node, []) if pod.name not in names(deleted(plan))]
        staying = [pod for pod in staying if pod.state != "PreparingDelete"]
        assert len(staying) + 1 <= most_a_node(builder)
    assert len({node_of(pod) for pod in created(plan)}) == len(created(plan))


def names(short: set[str]) -> set[str]:
    return {f"web-{text}" for text in short}


@given(builders())
def test_no_pod_is_written_to_twice_and_no_skipped_pod_is_written_to(builder: DaemonSetBuilder) -> None:
    plan = builder.plan()
    subjects = [
        chain.subject
        for stage in plan.stages
        if stage.purpose not in ("store revision", "tidy up")
        for chain in stage.chains
    ]
    assert len(subjects) == len(set(subjects))
    assert not names(deleted(plan)) & set(plan.skipped)


@examples(0.5)
@given(builders())
def test_status_sums_agree(builder: DaemonSetBuilder) -> None:
    status = builder.plan().status
    assert status is not None
    assert status.get("numberAvailable", 0) <= status["numberReady"] <= status["currentNumberScheduled"]
    assert status["updatedNumberScheduled"] <= status["currentNumberScheduled"]
    assert status["currentNumberScheduled"] <= status["desiredNumberScheduled"]
    unavailable = status["desiredNumberScheduled"] - status.get("numberAvailable", 0)
    assert status.get("numberUnavailable", 0) == unavailable


@given(builders())
def test_a_daemonset_has_converged_or_has_a_waiting_reason(builder: DaemonSetBuilder) -> None:
    plan = builder.plan()
    assert plan.status is not None
    waiting = [condition for condition in plan.status.get("conditions", []) if condition["type"] == "Waiting"]
    if waiting:
        words, _, remedy = waiting[0]["message"].partition("; ")
        assert waiting[0]["reason"].isalpha()
        assert words
        assert remedy
        return
    assert not created(plan)
    assert not deleted(plan)
    desired = plan.status["desiredNumberScheduled"]
    for field in ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"):
        assert plan.status.get(field, 0) == desired


@given(builders())
def test_every_pod_that_is_not_as_wanted_is_written_to_or_left_with_a_reason(
    builder: DaemonSetBuilder,
) -> None:
    plan = builder.plan()
    written = {chain.subject for stage in plan.stages for chain in stage.chains}
    for short, pod in builder.pods.items():
        name = pod["metadata"]["name"]
        is_old = pod["metadata"]["labels"][keys.REVISION_LABEL] == builder.old_hash
        if is_old and "deletionTimestamp" not in pod["metadata"]:
            assert name in written or plan.skipped.get(name), short


@given(builders(), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_pods_and_nodes(builder: DaemonSetBuilder, rng: Any) -> None:
    plan = builder.plan()
    pods, nodes = list(builder.pods.items()), list(builder.nodes.items())
    rng.shuffle(pods)
    rng.shuffle(nodes)
    builder.pods, builder.nodes = dict(pods), dict(nodes)
    other = builder.plan()
    assert (deleted(plan), left(plan), plan.skipped_nodes, plan.status, plan.requeue_after_s) == (
        deleted(other),
        left(other),
        other.skipped_nodes,
        other.status,
        other.requeue_after_s,
    )
    assert [node_of(pod) for pod in created(plan)] == [node_of(pod) for pod in created(other)]


@examples(0.5)
@given(builders(), st.booleans())
def test_a_selector_that_was_changed_stops_everything(builder: DaemonSetBuilder, with_labels: bool) -> None:
    builder.with_spec(selector={"matchLabels": {"app": "other"}})
    if with_labels:
        builder.spec["template"]["metadata"]["labels"] = {"app": "other"}
    plan = builder.plan()
    assert not plan.stages
    assert {note.reason for note in plan.notes} == {"SelectorMismatch"}


class World:
    """Documents, and the actions of the rest of a cluster on them."""

    def __init__(self, builder: DaemonSetBuilder) -> None:
        self.builder = builder
        self.pods = {pod["metadata"]["name"]: copy.deepcopy(pod) for pod in builder.pods.values()}
        self.revisions = {
            revision["metadata"]["name"]: copy.deepcopy(revision) for revision in builder.stored_revisions()
        }
        self.turns = 0

    def snapshot(self) -> DaemonSetSnapshot:
        self.builder.pods = self.pods
        self.builder.revisions = list(self.revisions.values())
        self.builder.seed = self.turns
        return self.builder.snapshot()

    def turn(self) -> Plan:
        """Plan, and carry it out completely."""
        self.turns += 1
        plan = plan_daemonset(self.snapshot())
        for step in plan.steps:
            self._carry_out(step.action)
        if plan.status is not None:
            self.builder.document["status"] = plan.status
        return plan

    def _carry_out(self, action: Create | Patch | Delete) -> None:
        store = {PODS: self.pods, CONTROLLER_REVISIONS: self.revisions}.get(action.resource)
        if store is None:
            return  # a check of the set itself
        name = action.key.name
        match action:
            case Create():
                assert name not in store
                body = orjson.loads(orjson.dumps(action.body))
                now = format_time(self.builder.now)
                body["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": now}
                if action.resource == PODS:
                    body["status"] = {"phase": "Pending"}
                store[name] = body
            case Delete():
                assert store[name]["metadata"]["uid"] == action.uid
                if action.resource == PODS:
                    store[name]["metadata"]["deletionTimestamp"] = format_time(self.builder.now)
                else:
                    del store[name]
            case Patch():
                old = store[name]
                version = old["metadata"]["resourceVersion"]
                assert action.resource_version in ("", version), "only the plan itself wrote in between"
                if action.patch_type is PatchType.STRATEGIC:
                    new = apply_strategic_merge(old, action.body, definition=POD)
                else:
                    new = apply_merge_patch(old, action.body)
                store[name] = {
                    **new,
                    "metadata": {**new["metadata"], "resourceVersion": f"{int(version) + 1}"},
                }

    def collect(self) -> bool:
        """Delete one terminating pod; return whether there was one."""
        for name, pod in self.pods.items():
            if pod["metadata"].get("deletionTimestamp"):
                del self.pods[name]
                return True
        return False

    def kubelets(self) -> bool:
        """Schedule or start one pod; return whether there was one."""
        time = format_time(self.builder.now)
        for pod in sorted(self.pods.values(), key=lambda pod: pod["metadata"]["name"]):
            if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") == "Failed":
                continue
            conditions = {condition["type"]: condition for condition in pod["status"].get("conditions") or []}
            if not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = node_of(pod)
                return True
            if self._restart(pod):
                return True
            gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
            open_gates = [gate for gate in gates if conditions.get(gate, {}).get("status") != "True"]
            if not open_gates and conditions.get("Ready", {}).get("status") != "True":
                for kind in ("Ready", "ContainersReady"):
                    conditions[kind] = {"type": kind, "status": "True", "lastTransitionTime": time}
                pod["status"] = {**pod["status"], "phase": "Running", "conditions": [*conditions.values()]}
                return True
        return False

    @staticmethod
    def _restart(pod: dict[str, Any]) -> bool:
        ran = {status["name"]: status for status in pod["status"].get("containerStatuses") or []}
        moved = False
        for container in pod["spec"]["containers"]:
            old = ran.get(container["name"])
            if old is not None and old["image"] == container["image"]:
                continue
            count = old["restartCount"] + 1 if old else 0
            ran[container["name"]] = {
                "name": container["name"],
                "image": container["image"],
                "imageID": f"sha256:{container['image']}",
                "containerID": f"containerd://{pod['metadata']['name']}-{count}",
                "restartCount": count,
                "ready": True,
            }
            moved = True
        if moved:
            pod["status"] = {**pod["status"], "containerStatuses": [*ran.values()]}
        return moved


def settle(world: World, rng: Any, *, turns: int = 500, look: Any = None) -> Plan:
    """Carry plans out, and let the cluster change randomly, until nothing changes any more."""
    for _ in range(turns):
        plan = world.turn()
        if look is not None:
            look(plan)
        moved = (rng.random() < 0.7 and world.kubelets()) or (rng.random() < 0.7 and world.collect())
        if look is not None:
            look(plan)
        if plan.is_settled and not moved and not world.kubelets() and not world.collect():
            if plan.requeue_after_s is None:
                return plan
            world.builder.now += plan.requeue_after_s
    raise AssertionError(f"still not settled: {plan}")


@given(builders(), st.randoms(use_true_random=False))
def test_everything_settles_where_the_spec_wants_it(builder: DaemonSetBuilder, rng: Any) -> None:
    # given a world that changes randomly while plans are carried out
    world = World(builder)
    plan = settle(world, rng)
    # then each node that must run a pod has one that serves, and each node that must not has none
    snapshot = world.snapshot()
    here = by_node(live(snapshot))
    for name, state in snapshot.overview.states.items():
        pods = here.get(name, [])
        if state.place is Place.RUN:
            assert [pod.is_ready for pod in pods] == [True]
        elif state.place is Place.LEAVE:
            assert pods == []
    # and the plan gives a reason for each old pod
    hashed = builder.update_hash
    old = [pod for pod in live(snapshot) if pod.revision != hashed]
    assert {pod.name for pod in old} <= set(plan.skipped)
    assert plan_daemonset(snapshot).is_settled


@examples(0.5)
@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 6),
    st.sampled_from(["Standard", "InPlaceIfPossible"]),
    st.sampled_from([0, 20]),
    st.lists(st.integers(2, 5), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_a_rollout_keeps_max_unavailable_despite_disturbances(
    nodes: int, unavailable: int, partition: int, kind: str, min_ready: int, images: list[int], rng: Any
) -> None:
    # given a settled set whose template changes, and changes again at any moment
    builder = daemonset(
        nodes, maxUnavailable=unavailable, partition=partition, rollingUpdateType=kind, image="nginx:1"
    ).with_spec(minReadySeconds=min_ready)
    builder.with_revisions(revision(template("nginx:1"), 1))
    world = World(builder)
    wanted = [template(f"nginx:{image}") for image in images]

    def look(_plan: Plan) -> None:
        snapshot = world.snapshot()
        here = by_node(live(snapshot))
        assert all(len(pods) == 1 for pods in here.values())
        serving = sum(any(pod.is_ready for pod in pods) for pods in here.values())
        assert serving >= nodes - unavailable
        if wanted and rng.random() < 0.1:
            builder.with_spec(template=wanted.pop(0))

    while wanted:
        settle(world, rng, turns=800, look=look)
        if wanted:
            builder.with_spec(template=wanted.pop(0))
    settle(world, rng, turns=800, look=look)
    # then as many nodes are new as the partition allows, each with the containers of its revision
    pods = live(world.snapshot())
    target = f"nginx:{images[-1]}"
    new = sum(pod.containers[0].image == target for pod in pods)
    assert new >= max(nodes - partition, 0)
    assert all(pod.is_ready for pod in pods)


@examples(0.5)
@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.lists(st.integers(2, 5), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_a_surging_rollout_takes_no_node_down_and_adds_no_more_pods_than_it_may(
    nodes: int, surge: int, images: list[int], rng: Any
) -> None:
    builder = daemonset(nodes, image="nginx:1").surging(surge)
    builder.with_revisions(revision(template("nginx:1"), 1))
    world = World(builder)
    for image in images:
        builder.with_spec(template=template(f"nginx:{image}"))

        def look(_plan: Plan) -> None:
            here = by_node(live(world.snapshot()))
            assert all(len(pods) <= 2 for pods in here.values())
            assert sum(len(pods) for pods in here.values()) <= nodes + surge
            assert sum(any(pod.is_ready for pod in pods) for pods in here.values()) == nodes

        settle(world, rng, look=look)
        pods = live(world.snapshot())
        assert {pod.containers[0].image for pod in pods} == {f"nginx:{image}"}
        assert len(pods) == nodes


@examples(0.5)
@given(st.integers(0, 4), st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 5))
def test_repeated_rollbacks_keep_one_revision_per_template(nodes: int, images: list[int], limit: int) -> None:
    builder = daemonset(nodes, maxUnavailable="100%").with_spec(revisionHistoryLimit=limit)
    world = World(builder)
    for image in images:
        builder.with_spec(template=template(f"nginx:{image}"))
        for _ in range(100):
            plan = world.turn()
            if not world.collect() and not world.kubelets() and plan.is_settled:
                break
        # then all pods have its revision, and the history keeps its limit
        snapshot = world.snapshot()
        assert plan_daemonset(snapshot).is_settled
        assert {pod.revision for pod in live(snapshot)} == ({builder.update_hash} if nodes else set())
        assert len(world.revisions) <= limit + 1
        assert len({orjson.dumps(revision["data"]) for revision in world.revisions.values()}) == len(
            world.revisions
        )


def test_pods_of_the_world_have_the_readiness_gate_for_in_place_updates() -> None:
    """Without this gate, the tests above would check no in-place update."""
    pods = daemonset(1, rollingUpdateType="InPlaceIfPossible").pod_views()
    assert keys.IN_PLACE_READY in pods[0].readiness_gates
