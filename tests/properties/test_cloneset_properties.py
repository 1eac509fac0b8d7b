"""Invariants of every CloneSet, for any spec, pods and order of events.

A small model carries out plans (creations, deletions, patches) and acts as kubelet and scheduler. Each step
checks a plan of the current state; then something in the model changes randomly.
"""

import copy
from typing import Any

import msgspec
import orjson
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.cloneset.limits import limits_of
from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.snapshot import CloneSetSnapshot
from pykruise.kube.clock import format_time
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.patches.schemas import find_definition
from pykruise.kube.patches.strategic import apply_strategic_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.plans.in_place import SeenInPlace
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import project_revision
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories
from support.cloneset_builder import NAME, NOW, UID, CloneSetBuilder, cloneset, revision, template
from support.examples import examples
from support.plan_views import (
    created,
    created_claims,
    deleted,
    deleted_claims,
    handed_over,
    left,
    replaced,
    states,
)

DEFINITIONS = {resource: find_definition(resource) or "" for resource in (PODS, PERSISTENT_VOLUME_CLAIMS)}

amounts = st.one_of(st.integers(0, 8), st.integers(0, 120).map(lambda number: f"{number}%"))
policies = st.sampled_from(["ReCreate", "InPlaceIfPossible", "InPlaceOnly"])
pod_changes = st.sampled_from(["ready", "down", "failed", "unscheduled", "marked", "prepares", "new"])


@st.composite
def builders(draw: st.DrawFn) -> CloneSetBuilder:
    """Any CloneSet that admission accepts, with pods in any condition."""
    replicas = draw(st.integers(0, 8))
    max_surge = draw(amounts)
    max_unavailable = draw(amounts)
    pods = draw(st.integers(0, 12))
    builder = cloneset(
        replicas,
        pods=pods,
        old=draw(st.integers(0, pods)),
        partition=draw(amounts),
        max_unavailable=max_unavailable,
        max_surge=max_surge,
    )
    limits, _ = limits_of(builder.snapshot().cloneset.spec)  # type: ignore[arg-type]
    if limits.max_unavailable == 0 and limits.max_surge == 0:
        builder.with_rolling(maxUnavailable=1)
    policy = (
        draw(policies) if limits.max_surge == 0 else draw(policies.filter(lambda text: text != "InPlaceOnly"))
    )
    builder.with_rolling(paused=draw(st.booleans()), podUpdatePolicy=policy)
    if draw(st.booleans()):
        builder.with_spec(minReadySeconds=draw(st.sampled_from([0, 30, 5000])))
    if draw(st.booleans()):
        builder.with_spec(scaleStrategy={"maxUnavailable": draw(st.integers(1, 4))})
    for name in list(builder.pods):
        change = draw(pod_changes)
        if change == "down":
            builder.not_ready(name)
        elif change == "failed":
            builder.phase("Failed", name)
        elif change == "unscheduled":
            builder.fresh(name).unscheduled(name)
        elif change == "marked":
            builder.marked(name)
        elif change == "prepares":
            builder.in_state("PreparingDelete", name)
        elif change == "new":
            builder.fresh(name)
    builder.with_settings(
        partition_rollback=draw(st.booleans()), exclude_preparing_delete=draw(st.booleans())
    )
    builder.with_current(builder.old_revision)
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    return builder


@st.composite
def builders_with_claims(draw: st.DrawFn) -> CloneSetBuilder:
    """A CloneSet whose pods have all, some or no claims, and whose claims have all, some or no pods."""
    builder = draw(builders())
    templates = draw(st.sampled_from([["data"], ["data", "logs"], []]))
    builder.with_templates(*templates, reuse=draw(st.booleans()))
    for name in [*builder.pods, *LEFTOVER]:
        for of in ("data", "logs"):
            if draw(st.integers(0, 3)):
                builder.claim(name, of=of, deleting=draw(st.integers(0, 5)) == 0)
    for name in list(builder.pods):
        change = draw(st.sampled_from(["", "", "", "deleted", "relabelled"]))
        if change == "deleted":
            builder.deleted(name)
        elif change == "relabelled":
            builder.labelled({"app": "other"}, name)
    if draw(st.booleans()):
        builder.occupied_by_others(LEFTOVER[0])
    return builder


@st.composite
def builders_under_way(draw: st.DrawFn) -> CloneSetBuilder:
    """A CloneSet whose pods are in any lifecycle state, with or without hooks that hold them."""
    builder = draw(builders())
    hooks = draw(st.sets(st.sampled_from(["preDelete", "inPlaceUpdate", "preNormal"])))
    for hook in sorted(hooks):
        builder.with_hook(hook, finalizer=f"example.com/{hook}", markPodNotReady=draw(st.booleans()))
    for name in list(builder.pods):
        if state := draw(st.sampled_from(STATES)):
            builder.in_state(state, name)
        for hook in sorted(hooks):
            if draw(st.booleans()):
                builder.with_finalizer(f"example.com/{hook}", name)
        change = draw(st.sampled_from(["", "", "", "deleted", "relabelled", "held back", "no images"]))
        if change == "deleted":
            builder.deleted(name)
        elif change == "relabelled":
            builder.labelled({"app": "other"}, name)
        elif change == "held back":
            builder.set_condition(name, keys.IN_PLACE_READY, "False")
        elif change == "no images":
            builder.not_ready(name)
            for status in builder.pods[name]["status"].get("containerStatuses") or ():
                status |= {"ready": False, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    if draw(st.integers(0, 3)) == 0:
        builder.on_delete()
    return builder


STATES = (
    "",
    "",
    "PreparingNormal",
    "Normal",
    "PreparingUpdate",
    "Updating",
    "Updated",
    "PreparingDelete",
    "Odd",
)

LEFTOVER = ("zx", "zy", "zz")
"""Ids of claims that no pod has."""


def active(snapshot: CloneSetSnapshot) -> list[PodView]:
    return [pod for pod in snapshot.pods if pod.is_active]


def available(snapshot: CloneSetSnapshot) -> set[str]:
    """Short names of pods that count as available."""
    spec = snapshot.cloneset.spec
    assert spec is not None
    return {
        pod.name.removeprefix(f"{NAME}-")
        for pod in active(snapshot)
        if pod.is_serving
        and (
            spec.min_ready_seconds <= 0
            or (pod.ready_since is not None and pod.ready_since + spec.min_ready_seconds <= snapshot.now)
        )
    }


def in_place(plan: Plan) -> set[str]:
    """Short names of pods whose update in place begins."""
    return {name for name, state in states(plan).items() if state in ("Updating", "PreparingUpdate")}


@given(builders())
def test_never_more_pods_than_replicas_and_surge(builder: CloneSetBuilder) -> None:
    snapshot = builder.snapshot()
    plan = plan_cloneset(snapshot)
    assert snapshot.cloneset.spec is not None
    limits, _ = limits_of(snapshot.cloneset.spec)
    if created(plan):
        counted = [
            pod
            for pod in active(snapshot)
            if not (pod.state == "PreparingDelete" and snapshot.settings.exclude_preparing_delete)
        ]
        assert len(counted) + len(created(plan)) <= limits.replicas + limits.max_surge


@given(st.one_of(builders(), builders_under_way()))
def test_a_plan_never_takes_more_pods_out_of_service_than_allowed(builder: CloneSetBuilder) -> None:
    snapshot = builder.snapshot()
    plan = plan_cloneset(snapshot)
    assert snapshot.cloneset.spec is not None
    limits, _ = limits_of(snapshot.cloneset.spec)
    in_service = available(snapshot)
    lost = (deleted(plan) | in_place(plan)) & in_service
    if lost:
        assert len(in_service) - len(lost) >= limits.replicas - limits.max_unavailable


@given(builders())
def test_the_partition_keeps_old_pods(builder: CloneSetBuilder) -> None:
    snapshot = builder.snapshot()
    plan = plan_cloneset(snapshot)
    assert snapshot.cloneset.spec is not None
    limits, _ = limits_of(snapshot.cloneset.spec)
    short_of = {pod.name.removeprefix(f"{NAME}-"): pod for pod in active(snapshot)}
    update = builder.update_revision.rpartition("-")[2]
    old = {name for name, pod in short_of.items() if pod.revision != update}
    going_for_update = {name for name in replaced(plan) if name in old}
    if going_for_update:
        assert len(old) - len(going_for_update) >= limits.partition


@given(builders())
def test_a_paused_cloneset_updates_no_pod(builder: CloneSetBuilder) -> None:
    assert replaced(plan_cloneset(builder.paused().snapshot())) == set()


@given(st.one_of(builders(), builders_under_way()))
def test_no_pod_is_both_kept_and_deleted_or_written_to_twice(builder: CloneSetBuilder) -> None:
    plan = plan_cloneset(builder.snapshot())
    subjects = [
        chain.subject
        for stage in plan.stages
        if stage.purpose not in ("store revision", "tidy up")
        for chain in stage.chains
    ]
    assert len(subjects) == len(set(subjects))
    assert not (deleted(plan) | replaced(plan)) & {*left(plan)}


@given(builders())
def test_status_sums_agree(builder: CloneSetBuilder) -> None:
    status = plan_cloneset(builder.snapshot()).status
    assert status is not None
    assert status["availableReplicas"] <= status["readyReplicas"] <= status["replicas"]
    assert status["updatedReadyReplicas"] <= status["updatedReplicas"] <= status["replicas"]
    assert status["updatedReadyReplicas"] <= status["readyReplicas"]
    assert status.get("updatedAvailableReplicas", 0) <= status["updatedReadyReplicas"]
    assert 0 <= status.get("expectedUpdatedReplicas", 0) <= builder.spec["replicas"]


SAYS_WHY = ("Waiting", "FailedScale", "FailedUpdate", "SelectorMismatch")


def says_why(status: dict[str, Any]) -> bool:
    """Whether the status has a true condition with a reason, a time and a message."""
    return any(
        condition["type"] in SAYS_WHY
        and condition["status"] == "True"
        and condition.get("reason")
        and condition.get("lastTransitionTime")
        and condition.get("message")
        for condition in status.get("conditions") or ()
    )


def has_converged(snapshot: CloneSetSnapshot, update: str) -> bool:
    """Whether all wanted pods exist, new and available, and no pod is to be deleted."""
    spec, pods = snapshot.cloneset.spec, active(snapshot)
    assert spec is not None
    return (
        len(pods) == spec.replicas == len(available(snapshot))
        and all(pod.revision == update.rpartition("-")[2] for pod in pods)
        and not any(pod.is_specified_delete or pod.state == "PreparingDelete" for pod in pods)
        and not {pod.name for pod in pods}
        & {*((spec.scale_strategy.pods_to_delete if spec.scale_strategy else None) or ())}
    )


@given(st.one_of(builders(), builders_under_way()))
def test_an_unconverged_cloneset_has_a_waiting_reason_and_a_converged_one_has_none(
    builder: CloneSetBuilder,
) -> None:
    """A plan finishes or reports a reason."""
    snapshot = builder.snapshot()
    plan = plan_cloneset(snapshot)
    status = plan.status if plan.status is not None else snapshot.cloneset.stored_status
    waits = [condition for condition in status.get("conditions") or () if condition["type"] == "Waiting"]
    if has_converged(snapshot, builder.update_revision):
        assert not waits
    else:
        assert says_why(status)
        assert all("; " in wait["message"] for wait in waits)  # the cause; the remedy


@given(builders(), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_pods(builder: CloneSetBuilder, rng: Any) -> None:
    views, revisions = builder.pod_views(), builder.revision_views()

    def plan(pods: list[PodView]) -> Plan:
        return plan_cloneset(builder.snapshot_of(pods, revisions))

    shuffled = list(views)
    rng.shuffle(shuffled)
    item, other = plan(views), plan(shuffled)
    assert (deleted(item), replaced(item), created(item), left(item), item.status) == (
        deleted(other),
        replaced(other),
        created(other),
        left(other),
        other.status,
    )


def without_memory(plan: Plan) -> Plan:
    """The plan without its memory."""
    return msgspec.structs.replace(plan, memory=None)


class World:
    """Documents, and the actions of the rest of a cluster on them."""

    def __init__(self, builder: CloneSetBuilder) -> None:
        self.cloneset: dict[str, Any] = copy.deepcopy(builder.document)
        self.settings = builder.settings
        self.pods = {pod["metadata"]["name"]: copy.deepcopy(pod) for pod in builder.pods.values()}
        self.claims = copy.deepcopy(builder.claims)
        self.revisions = {
            revision["metadata"]["name"]: copy.deepcopy(revision) for revision in builder.stored_revisions()
        }
        self.now = NOW
        self.turns = 0
        self.most_pods = 0
        self.memories = Memories()
        self.views: dict[bytes, PodView] = {}
        """Views by the text of the pod. As in a cache, an unchanged pod keeps its view."""

    def snapshot(self) -> CloneSetSnapshot:
        builder = cloneset(0)
        builder.document, builder.claims, builder.settings = self.cloneset, self.claims, self.settings
        builder.now, builder.seed = self.now, self.turns
        return builder.snapshot_of(
            [self.view(pod) for pod in self.pods.values()],
            [project_revision(orjson.dumps(revision)) for revision in self.revisions.values()],
            memories=self.memories,
        )

    def view(self, pod: dict[str, Any]) -> PodView:
        text = orjson.dumps(pod)
        return self.views.setdefault(text, project_pod(text))

    def turn(self) -> Plan:
        """Plan, and carry the plan out completely. The memory of the last plan affects only the speed."""
        self.turns += 1
        snapshot = self.snapshot()
        plan = plan_cloneset(snapshot)
        afresh = plan_cloneset(msgspec.structs.replace(snapshot, seen=SeenInPlace()))
        assert without_memory(plan) == without_memory(afresh)
        self.memories.keep(snapshot.cloneset.key, snapshot.cloneset.uid, plan.memory)
        for step in plan.steps:
            self.carry_out(step.action)
        if plan.status is not None:
            self.cloneset["status"] = plan.status
        return plan

    def carry_out(self, action: Create | Patch | Delete) -> None:
        stores = {
            PODS: self.pods,
            CONTROLLER_REVISIONS: self.revisions,
            PERSISTENT_VOLUME_CLAIMS: self.claims,
        }
        store = stores.get(action.resource)
        name = action.key.name
        match action:
            case Create() if store is not None:
                assert name not in store
                body = orjson.loads(orjson.dumps(action.body))
                body["metadata"] |= {
                    "uid": f"uid-{name}",
                    "resourceVersion": "1",
                    "creationTimestamp": format_time(self.now),
                }
                body.setdefault("status", {"phase": "Pending"} if action.resource == PODS else None)
                store[name] = body
            case Delete() if store is not None:
                assert store[name]["metadata"]["uid"] == action.uid
                del store[name]
            case Patch() if store is not None:
                old = store[name]
                assert action.uid in ("", old["metadata"]["uid"])
                version = old["metadata"]["resourceVersion"]
                assert action.resource_version in ("", version), "only the plan itself wrote in between"
                if action.patch_type is PatchType.STRATEGIC:
                    new = apply_strategic_merge(old, action.body, definition=DEFINITIONS[action.resource])
                else:
                    new = apply_merge_patch(old, action.body)
                store[name] = {
                    **new,
                    "metadata": {**new["metadata"], "resourceVersion": f"{int(version) + 1}"},
                }
            case Patch():
                self.cloneset = apply_merge_patch(self.cloneset, action.body)

    def collect(self) -> bool:
        """Delete terminating objects, and objects whose owner is deleted; return whether there were any."""
        uids = {pod["metadata"]["uid"] for pod in self.pods.values()} | {UID}
        gone = 0
        for store in (self.pods, self.claims):
            for name, metadata in [(name, doc["metadata"]) for name, doc in store.items()]:
                owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
                if metadata.get("deletionTimestamp") or (owners and not owners & uids):
                    del store[name]
                    gone += 1
        return gone > 0

    def kubelets(self) -> bool:
        """Schedule or start one pod; return whether there was one."""
        for pod in sorted(self.pods.values(), key=lambda pod: pod["metadata"]["name"]):
            conditions = {condition["type"]: condition for condition in pod["status"].get("conditions") or []}
            if pod["status"].get("phase") == "Failed":
                continue
            if not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = "node-1"
                return True
            if self._restart(pod):
                return True
            gate = conditions.get(keys.IN_PLACE_READY, {}).get("status") == "True"
            if gate and conditions.get("Ready", {}).get("status") != "True":
                time = format_time(self.now)
                for kind in ("Ready", "ContainersReady"):
                    conditions[kind] = {"type": kind, "status": "True", "lastTransitionTime": time}
                pod["status"] = {**pod["status"], "phase": "Running", "conditions": [*conditions.values()]}
                return True
        return False

    @staticmethod
    def _restart(pod: dict[str, Any]) -> bool:
        """Run the containers of the spec, with a new id for each container with another image."""
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
                "containerID": f"containerd://{pod['metadata']['name']}-{container['name']}-{count}",
                "restartCount": count,
                "ready": True,
            }
            moved = True
        if moved:
            pod["status"] = {**pod["status"], "containerStatuses": [*ran.values()]}
        return moved


@given(builders(), st.randoms(use_true_random=False))
def test_everything_settles_where_the_spec_wants_it(builder: CloneSetBuilder, rng: Any) -> None:
    # given a world that changes randomly while plans are carried out
    world = World(builder)
    spec = world.cloneset["spec"]
    limits, _ = limits_of(builder.view().spec)  # type: ignore[arg-type]
    for _ in range(400):
        before = sum(pod["status"].get("phase") != "Failed" for pod in world.pods.values())
        seen = world.snapshot()
        plan = world.turn()
        if not has_converged(seen, builder.update_revision):
            assert says_why(world.cloneset["status"])
        after = sum(pod["status"].get("phase") != "Failed" for pod in world.pods.values())
        excluded = sum(
            pod["metadata"]["labels"].get(keys.STATE_LABEL) == "PreparingDelete"
            for pod in world.pods.values()
        )
        assert after <= max(before, limits.replicas + limits.max_surge + excluded)
        moved = False
        if rng.random() < 0.7:
            moved = world.kubelets()
        if plan.is_settled and not moved and not world.kubelets():
            if plan.requeue_after_s is None:
                break
            world.now += plan.requeue_after_s
    else:
        raise AssertionError(f"still not settled: {plan}")
    # then there are as many pods as wanted, and the partition decides which
    views = active(world.snapshot())
    assert len(views) == spec["replicas"]
    new = builder.update_revision.rpartition("-")[2]
    old = sum(pod.revision != new for pod in views)
    if not spec["updateStrategy"]["rollingUpdate"].get("paused"):
        assert old <= limits.partition
    # and every pod serves, nothing more is planned, and the plan gives a reason for each old pod
    assert all(pod.is_serving for pod in views)
    plan = plan_cloneset(world.snapshot())
    assert plan.is_settled
    assert len(plan.skipped) >= old


@given(builders())
def test_an_executed_plan_leaves_nothing_to_plan(builder: CloneSetBuilder) -> None:
    """Phases follow each other. Without reports of nodes they end, and no write is planned twice."""
    world = World(builder)
    seen: set[str] = set()
    for _ in range(12):
        plan = world.turn()
        if plan.is_settled:
            return
        for step in plan.steps:
            action = step.action
            text = f"{type(action).__name__} {action.resource} {action.key} {getattr(action, 'body', '')}"
            assert text not in seen
            seen.add(text)
    raise AssertionError(f"still not settled: {plan}")


@given(builders())
def test_surplus_pods_are_deleted_in_the_order_of_the_specification(builder: CloneSetBuilder) -> None:
    """cloneset 6.6: pods without a node, in an earlier phase or less available are deleted first"""
    snapshot = builder.snapshot()
    plan = plan_cloneset(snapshot)
    chosen = {
        chain.subject.removeprefix(f"{NAME}-")
        for stage in plan.stages
        if stage.purpose == "delete pods"
        for chain in stage.chains
        if chain.steps[0].because.startswith("surplus")
    } | {name for name, reason in left(plan).items() if reason.startswith("surplus")}
    in_service = available(snapshot)
    update = builder.update_revision.rpartition("-")[2]

    def rank(pod: PodView) -> tuple[bool, int, bool]:
        phases = {"Unknown": 1, "Running": 2}
        return bool(pod.node_name), phases.get(pod.phase, 0), pod.name.removeprefix(f"{NAME}-") in in_service

    for is_new in (True, False):
        group = {
            pod.name.removeprefix(f"{NAME}-"): rank(pod)
            for pod in active(snapshot)
            if (pod.revision == update) is is_new
        }
        gone = [result for name, result in group.items() if name in chosen]
        stayed = [result for name, result in group.items() if name not in chosen]
        if gone and stayed:
            assert max(gone) <= min(stayed)


@examples(0.6)
@given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 2), st.integers(1, 3))
def test_a_rollout_never_has_fewer_available_pods_than_it_may(
    replicas: int, partition: int, max_surge: int, max_unavailable: int
) -> None:
    # given a settled set and a new template
    builder = cloneset(
        replicas, old=replicas, partition=partition, max_surge=max_surge, max_unavailable=max_unavailable
    )
    world = World(builder)
    least = replicas - max_unavailable
    for _ in range(300):
        plan = world.turn()
        snapshot = world.snapshot()
        assert len(available(snapshot)) >= least
        assert len(active(snapshot)) <= replicas + max_surge
        if plan.is_settled and not world.kubelets():
            break
    new = builder.update_revision.rpartition("-")[2]
    pods = active(world.snapshot())
    assert sum(pod.revision == new for pod in pods) == max(replicas - partition, 0)
    assert len(pods) == replicas


@examples(0.8)
@given(
    st.integers(1, 8),
    st.integers(0, 8),
    st.integers(1, 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from(["InPlaceIfPossible", "InPlaceOnly"]),
    st.sampled_from([0, 20]),
    st.randoms(use_true_random=False),
)
def test_an_in_place_rollout_keeps_every_pod_and_the_budget_despite_disturbances(
    replicas: int, partition: int, unavailable: int, images: list[int], policy: str, grace: int, rng: Any
) -> None:
    # given a settled set whose template changes, and changes again at any moment
    builder = cloneset(replicas, partition=partition, max_unavailable=unavailable)
    builder.with_rolling(podUpdatePolicy=policy, inPlaceUpdateStrategy={"gracePeriodSeconds": grace})
    world = World(builder)
    uids = {pod["metadata"]["uid"] for pod in world.pods.values()}
    wanted = [template(f"nginx:{image}") for image in images]
    for _ in range(600):
        if wanted and rng.random() < 0.1:
            world.cloneset["spec"]["template"] = wanted.pop(0)
        plan = world.turn()
        # then no pod is recreated, and never are more pods out of service than allowed
        assert {pod["metadata"]["uid"] for pod in world.pods.values()} == uids
        assert len(available(world.snapshot())) >= replicas - unavailable
        moved = rng.random() < 0.7 and world.kubelets()
        if plan.is_settled and not moved and not wanted and not world.kubelets():
            if plan.requeue_after_s is None:
                break
            world.now += plan.requeue_after_s
    else:
        raise AssertionError(f"still not settled: {plan}")
    # and finally as many pods are new as the partition allows, each with the containers of its revision
    assert len(available(world.snapshot())) == replicas
    assert plan.status is None
    target = f"nginx:{images[-1]}"
    ran = [pod["status"]["containerStatuses"][0]["image"] for pod in world.pods.values()]
    assert sum(image == target for image in ran) >= max(replicas - partition, 0)


@examples(0.4)
@given(st.integers(0, 6), st.lists(st.integers(0, 6), min_size=1, max_size=6), st.integers(0, 6))
def test_repeated_rollbacks_keep_one_revision_per_template(
    replicas: int, images: list[int], limit: int
) -> None:
    # given a CloneSet whose template changes from image to image
    world = World(cloneset(replicas, max_unavailable="100%"))
    world.cloneset["spec"]["revisionHistoryLimit"] = limit
    for image in images:
        world.cloneset["spec"]["template"] = template(f"nginx:{image}")
        for _ in range(100):
            if world.turn().is_settled and not world.kubelets():
                break
        # then all pods have its revision, and the history keeps its limit
        wanted = plan_cloneset(world.snapshot())
        assert wanted.is_settled
        hashes = {pod.revision for pod in active(world.snapshot())}
        assert len(hashes) == (1 if replicas else 0)
        assert len(world.revisions) <= limit + 1
        assert len({orjson.dumps(revision["data"]) for revision in world.revisions.values()}) == len(
            world.revisions
        )


# Claims


@given(builders_with_claims())
def test_a_new_pod_has_all_its_claims_and_no_claim_is_created_without_its_pod(
    builder: CloneSetBuilder,
) -> None:
    plan = plan_cloneset(builder.snapshot())
    usable = {name for name, claim in builder.claims.items() if "deletionTimestamp" not in claim["metadata"]}
    for chain in (chain for stage in plan.stages for chain in stage.chains):
        made = [step.action for step in chain.steps if isinstance(step.action, Create)]
        if not made or made[-1].resource != PODS:
            assert all(action.resource != PERSISTENT_VOLUME_CLAIMS for action in made)
            continue
        *claims, pod = made
        wanted = {
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod.body["spec"].get("volumes", [])
            if "persistentVolumeClaim" in volume
        }
        new = {claim.key.name for claim in claims}
        templates = builder.spec["volumeClaimTemplates"]
        assert wanted == {f"{template['metadata']['name']}-{pod.key.name}" for template in templates}
        assert new <= wanted <= new | usable
        assert not new & {*builder.claims}


@given(builders_with_claims())
def test_new_pods_have_names_that_are_free(builder: CloneSetBuilder) -> None:
    plan = plan_cloneset(builder.snapshot())
    names = [pod["metadata"]["name"] for pod in created(plan)]
    assert len(names) == len(set(names))
    assert not {*names} & {f"{NAME}-{short}" for short in (*builder.pods, *builder.occupied)}


@given(builders_with_claims())
def test_a_claim_is_deleted_with_or_after_its_pod_and_not_reused(
    builder: CloneSetBuilder,
) -> None:
    plan = plan_cloneset(builder.snapshot())
    reuse = builder.spec["scaleStrategy"]["enablePVCReuse"]
    pods = {pod["metadata"]["name"] for pod in builder.pods.values()}
    for chain in (chain for stage in plan.stages for chain in stage.chains):
        gone: set[str] = set()
        for action in (step.action for step in chain.steps):
            if isinstance(action, Delete) and action.resource == PODS:
                gone.add(action.key.name)
            elif isinstance(action, Delete) and action.resource == PERSISTENT_VOLUME_CLAIMS:
                pod = action.key.name.partition("-")[2]
                assert pod in gone or (not reuse and pod not in pods)
    if reuse:
        relabelled = {
            short for short, pod in builder.pods.items() if pod["metadata"]["labels"]["app"] != NAME
        }
        assert {*handed_over(plan).values()} <= relabelled


@given(builders_with_claims(), st.randoms(use_true_random=False))
def test_new_pods_finally_have_their_claims_and_only_reuse_keeps_others(
    builder: CloneSetBuilder, rng: Any
) -> None:
    # given a world in which all work is completed
    builder.occupied.clear()
    world = World(builder)
    waiting = {
        name
        for name, claim in builder.claims.items()
        if name.endswith(LEFTOVER) and "deletionTimestamp" not in claim["metadata"]
    }
    deleted_ever: set[str] = set()
    for _ in range(500):
        plan = world.turn()
        deleted_ever |= deleted_claims(plan)
        assert not {*created_claims(plan)} & waiting - deleted_ever
        moved = rng.random() < 0.5 and (world.kubelets() or world.collect())
        if plan.is_settled and not moved and not world.kubelets() and not world.collect():
            if plan.requeue_after_s is None:
                break
            world.now += plan.requeue_after_s
    else:
        raise AssertionError(f"still not settled: {plan}")
    # then
    snapshot = world.snapshot()
    here = {claim.name for claim in snapshot.claims}
    templates = [template["metadata"]["name"] for template in builder.spec["volumeClaimTemplates"]]
    former = {f"{NAME}-{short}" for short in builder.pods}
    for pod in active(snapshot):
        assert pod.name in former or {f"{template}-{pod.name}" for template in templates} <= here
    if builder.spec["scaleStrategy"]["enablePVCReuse"]:
        assert waiting <= here | deleted_ever
    else:
        names = {pod.name for pod in snapshot.pods}
        assert {name.partition("-")[2] for name in here} <= names
