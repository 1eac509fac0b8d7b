"""Invariants of every StatefulSet, for any spec, pods and order of events.

A small model carries out plans and acts as kubelet, volume controller and garbage collector. Each step checks a plan
of the current state; then something in the model changes randomly.
"""

import copy
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.statefulset.plan import plan_statefulset
from pykruise.kinds.statefulset.snapshot import StatefulSetSnapshot
from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.patches.schemas import find_definition
from pykruise.kube.patches.strategic import apply_strategic_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.ordinals import split_name
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.examples import examples
from support.statefulset_builder import (
    StatefulSetBuilder,
    claim_template,
    created,
    deleted,
    revision,
    statefulset,
    template,
    updatable,
)

DEFINITIONS = {
    PODS: find_definition(PODS) or "",
    PERSISTENT_VOLUME_CLAIMS: find_definition(PERSISTENT_VOLUME_CLAIMS) or "",
}

pod_changes = st.sampled_from(
    ["", "", "", "down", "failed", "pending", "terminating", "leaving", "preparing", "marked", "none"]
)
reserved = st.lists(st.one_of(st.integers(0, 6), st.sampled_from(["0-1", "2-3", "5-9"])), max_size=2)


@st.composite
def builders(draw: st.DrawFn) -> StatefulSetBuilder:
    """Any StatefulSet that admission accepts, with pods in any condition and at any revision."""
    parallel = draw(st.booleans())
    count = draw(st.integers(0, 5))
    rolling: Document = {
        "partition": draw(st.integers(0, 4)),
        "maxUnavailable": draw(st.integers(1, 3)) if parallel else 1,
        "paused": draw(st.sampled_from([False, False, True])),
        "minReadySeconds": draw(st.sampled_from([0, 0, 30, 300])),
    }
    make: Callable[..., StatefulSetBuilder] = draw(st.sampled_from([statefulset, updatable]))
    builder = make(count, parallel=parallel, **rolling)
    if parallel and draw(st.booleans()):
        builder.unordered()
    if parallel and draw(st.booleans()):
        builder.with_spec(scaleStrategy={"maxUnavailable": draw(st.integers(1, 3))})
    builder.pod(*draw(st.lists(st.integers(0, 8), max_size=3)))
    builder.with_spec(reserveOrdinals=draw(reserved))
    if draw(st.booleans()):
        builder.with_hook("preDelete").with_hook("inPlaceUpdate")
    for name in list(builder.pods):
        number = split_name(name)[1]
        if draw(st.booleans()):
            builder.old(number)
        _change(builder, number, draw(pod_changes))
    if draw(st.integers(0, 5)) == 0:
        builder.on_delete()
    if draw(st.booleans()):
        builder.with_claims(claim_template())
        choice = st.sampled_from(["Retain", "Delete"])
        builder.retaining(scaled=draw(choice), deleted=draw(choice))
    builder.with_status(currentRevision=builder.old_name)
    return builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))


def _change(builder: StatefulSetBuilder, number: int, change: str) -> None:
    changes: dict[str, Callable[[int], object]] = {
        "down": builder.not_ready,
        "failed": lambda item: builder.phase("Failed", item),
        "pending": builder.pending,
        "terminating": builder.deleted,
        "leaving": lambda item: builder.state("PreparingDelete", item),
        "preparing": lambda item: builder.state("PreparingUpdate", item),
        "marked": builder.marked,
        "none": builder.without,
    }
    if change:
        changes[change](number)


def wanted_of(snapshot: StatefulSetSnapshot) -> list[int]:
    """Ordinals that the set wants, computed in a simple, slow way."""
    spec = snapshot.statefulset.spec
    assert spec is not None
    taken: set[int] = set()
    for entry in spec.reserve_ordinals or ():
        low, _, high = str(entry).partition("-")
        taken |= set(range(int(low), int(high or low) + 1))
    return [number for number in range(1000) if number not in taken][: spec.replicas]


def by_number(snapshot: StatefulSetSnapshot) -> dict[int, PodView]:
    return {split_name(pod.name)[1]: pod for pod in snapshot.pods}


def is_available(snapshot: StatefulSetSnapshot, pod: PodView | None) -> bool:
    spec = snapshot.statefulset.spec
    if pod is None or not pod.is_serving or pod.ready_since is None or spec is None:
        return False
    block = spec.rolling_update
    seconds = (block.min_ready_seconds if block else 0) or 0
    return pod.ready_since + seconds <= snapshot.now


@examples(0.5)
@given(builders())
def test_only_wanted_and_missing_ordinals_are_created(builder: StatefulSetBuilder) -> None:
    snapshot = builder.snapshot()
    made = created(plan_statefulset(snapshot))
    assert set(made) <= set(wanted_of(snapshot)) - set(by_number(snapshot))
    assert len(made) == len(set(made))


@examples(0.8)
@given(builders())
def test_order_is_never_broken(builder: StatefulSetBuilder) -> None:
    """OrderedReady: one pod is created or deleted at a time, in its turn."""
    builder.with_spec(podManagementPolicy="OrderedReady", scaleStrategy=None)
    builder.with_rolling(maxUnavailable=1, unorderedUpdate=None)
    snapshot = builder.snapshot()
    plan = plan_statefulset(snapshot)
    pods, wanted = by_number(snapshot), wanted_of(snapshot)
    made, gone = created(plan), deleted(plan)
    assert len(made) + len(gone) <= 1
    for number in made:
        assert all(is_available(snapshot, pods.get(lower)) for lower in wanted if lower < number)
    for number in set(gone) - set(wanted):
        assert all(is_available(snapshot, pods.get(item)) for item in wanted)
        assert all(pod <= number for pod in pods if pod not in wanted)
    for number in set(gone) & set(wanted):
        below = [pods.get(lower) for lower in wanted if lower < number]
        assert all(is_available(snapshot, pod) and pod is not None and not pod.is_deleting for pod in below)


@examples(0.8)
@given(builders())
def test_updates_take_no_more_out_of_service_than_they_may(builder: StatefulSetBuilder) -> None:
    # given the wanted pods that a plan takes out of service, in any way
    snapshot = builder.snapshot()
    spec = snapshot.statefulset.spec
    assert spec is not None
    plan = plan_statefulset(snapshot)
    pods, wanted = by_number(snapshot), wanted_of(snapshot)
    down = {item for item in wanted if not _serves(snapshot, pods.get(item))}
    hit = {split_name(name)[1] for name in taken_out(plan)} & set(wanted)
    block = spec.rolling_update
    most = (block.max_unavailable if block else None) or 1
    # then pods that were already down cost nothing, and the others fit into the rest of the budget
    assert not hit - down or len(hit | down) <= int(most)


def _serves(snapshot: StatefulSetSnapshot, pod: PodView | None) -> bool:
    return pod is not None and not pod.is_deleting and is_available(snapshot, pod)


def taken_out(plan: Plan) -> set[str]:
    """Pods that are deleted, or taken out of service."""
    out = set[str]()
    for step in plan.steps:
        if step.action.resource != PODS:
            continue
        if isinstance(step.action, Delete):
            out.add(step.action.key.name)
        elif isinstance(step.action, Patch):
            labels = (step.action.body.get("metadata") or {}).get("labels") or {}
            if labels.get(keys.STATE_LABEL) in ("PreparingUpdate", "Updating", "PreparingDelete"):
                out.add(step.action.key.name)
    return out


@examples(0.8)
@given(builders())
def test_no_pod_is_written_to_twice_and_no_skipped_pod_is_deleted(builder: StatefulSetBuilder) -> None:
    plan = builder.plan()
    subjects = [
        chain.subject
        for stage in plan.stages
        if stage.purpose not in ("store revision", "tidy up", "create claims")
        for chain in stage.chains
    ]
    assert len(subjects) == len(set(subjects))
    assert not {f"web-{number}" for number in deleted(plan)} & set(plan.skipped)


@examples(0.5)
@given(builders(), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_pods(builder: StatefulSetBuilder, rng: Any) -> None:
    plan = builder.plan()
    pods = list(builder.pods.items())
    rng.shuffle(pods)
    builder.pods = dict(pods)
    assert orjson.dumps(_values(plan)) == orjson.dumps(_values(builder.plan()))


def _values(plan: Plan) -> Any:
    steps = [(type(step.action).__name__, step.action.key.name, step.because) for step in plan.steps]
    return [
        steps,
        plan.status,
        plan.requeue_after_s,
        sorted((name, why.code, why.message) for name, why in plan.skipped.items()),
    ]


@examples(0.5)
@given(builders())
def test_an_unconverged_set_has_a_waiting_reason(builder: StatefulSetBuilder) -> None:
    """The set never waits without a reason."""
    snapshot = builder.snapshot()
    plan = plan_statefulset(snapshot)
    pods, wanted = by_number(snapshot), wanted_of(snapshot)
    converged = set(pods) == set(wanted) and all(
        _serves(snapshot, pod)
        and pod.revision == builder.update_name.rpartition("-")[2]
        and not pod.is_specified_delete
        for pod in pods.values()
    )
    conditions = {condition["type"]: condition for condition in ((plan.status or {}).get("conditions") or [])}
    assert ("Waiting" in conditions) is not converged


# ── a world ──────────────────────────────────────────────────────────────────


class World:
    """Documents, and the actions of the rest of a cluster on them."""

    def __init__(self, builder: StatefulSetBuilder) -> None:
        self.builder = builder
        self.pods = builder.pods = copy.deepcopy(builder.pods)
        self.claims = builder.claims = copy.deepcopy(builder.claims)
        self.revisions = {
            revision["metadata"]["name"]: copy.deepcopy(revision) for revision in builder.stored_revisions()
        }
        self.made = 0
        self.deleted_claims: list[str] = []

    def snapshot(self) -> StatefulSetSnapshot:
        self.builder.revisions = list(self.revisions.values())
        return self.builder.snapshot()

    def turn(self, *, writes: int | None = None) -> Plan:
        """Plan, and carry the plan out. `writes`: number of writes after which the manager is killed."""
        plan = plan_statefulset(self.snapshot())
        for step in list(plan.steps)[:writes]:
            self._carry_out(step.action)
        if plan.status is not None and writes is None:
            self.builder.document["status"] = plan.status
        return plan

    def _carry_out(self, action: Create | Patch | Delete) -> None:
        stores = {
            PODS: self.pods,
            PERSISTENT_VOLUME_CLAIMS: self.claims,
            CONTROLLER_REVISIONS: self.revisions,
        }
        if action.resource not in stores:
            return  # a check of the set itself
        store, name = stores[action.resource], action.key.name
        match action:
            case Create():
                assert name not in store
                self.made += 1
                body = orjson.loads(orjson.dumps(action.body))
                body["metadata"] |= {
                    "uid": f"uid-{name}-{self.made}",
                    "resourceVersion": "1",
                    "creationTimestamp": format_time(self.builder.now),
                }
                if action.resource == PODS:
                    body["status"] = {"phase": "Pending"}
                store[name] = body
            case Delete():
                assert action.resource != PERSISTENT_VOLUME_CLAIMS
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
                    definition = DEFINITIONS[action.resource]
                    new = apply_strategic_merge(old, action.body, definition=definition)
                else:
                    new = apply_merge_patch(old, action.body)
                metadata = {**new["metadata"], "resourceVersion": f"{int(version) + 1}"}
                store[name] = {**new, "metadata": metadata}

    def collect(self) -> bool:
        """Delete one terminating pod, or one claim whose owners are all deleted; return whether there was one."""
        for name, pod in self.pods.items():
            if pod["metadata"].get("deletionTimestamp") and not pod["metadata"].get("finalizers"):
                del self.pods[name]
                return True
        uids = {pod["metadata"]["uid"] for pod in self.pods.values()}
        uids.add(self.builder.document["metadata"]["uid"])
        for name, claim in self.claims.items():
            owners = claim["metadata"].get("ownerReferences") or []
            if owners and not any(owner["uid"] in uids for owner in owners):
                del self.claims[name]
                self.deleted_claims.append(name)
                return True
        return False

    def hooks(self) -> bool:
        """Remove a hook from a pod that waits for it, or add it again; return whether there was such a pod."""
        if not self.builder.spec.get("lifecycle"):
            return False
        for pod in self.pods.values():
            labels = pod["metadata"]["labels"]
            state = labels.get(keys.STATE_LABEL)
            if state in ("PreparingUpdate", "PreparingDelete") and "example.com/hook" in labels:
                del labels["example.com/hook"]
                return True
            if state == "Updated" and "example.com/hook" not in labels:
                labels["example.com/hook"] = "1"
                return True
        return False

    def kubelets(self) -> bool:
        """Schedule, start or heal one pod; return whether there was one."""
        time = format_time(self.builder.now)
        for pod in sorted(self.pods.values(), key=lambda pod: str(pod["metadata"]["name"])):
            if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") == "Failed":
                continue
            if not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = "node-1"
                return True
            if self._restart(pod):
                return True
            conditions = {condition["type"]: condition for condition in pod["status"].get("conditions") or []}
            gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
            open_gates = [gate for gate in gates if conditions.get(gate, {}).get("status") != "True"]
            if not open_gates and conditions.get("Ready", {}).get("status") != "True":
                for kind in ("Ready", "ContainersReady"):
                    conditions[kind] = {"type": kind, "status": "True", "lastTransitionTime": time}
                pod["status"] = {**pod["status"], "phase": "Running", "conditions": [*conditions.values()]}
                return True
        return False

    @staticmethod
    def _restart(pod: Document) -> bool:
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


def settle(world: World, rng: Any, *, turns: int = 400, look: Callable[[], None] = lambda: None) -> Plan:
    """Carry plans out, and let the cluster change randomly, until nothing changes any more."""
    for _ in range(turns):
        killed_at = rng.randrange(3) if rng.random() > 0.85 else None
        plan = world.turn(writes=killed_at)
        look()
        moves = [world.kubelets, world.collect, world.hooks]
        done = [move() for move in moves if rng.random() < 0.7]
        moved = any(done)
        look()
        if killed_at is None and plan.is_settled and not moved and not any(move() for move in moves):
            if plan.requeue_after_s is None:
                return plan
            world.builder.now += plan.requeue_after_s
    raise AssertionError(f"still not settled: {plan}")


@examples(0.4)
@given(builders(), st.randoms(use_true_random=False))
def test_everything_settles_where_the_spec_wants_it(builder: StatefulSetBuilder, rng: Any) -> None:
    # given a world that changes randomly while plans are carried out, and managers that are killed
    world = World(builder)
    names = {f"data-web-{number}" for number in wanted_of(world.snapshot())}
    numbers = set(wanted_of(world.snapshot()))
    before = set(by_number(world.snapshot()))

    def look() -> None:
        snapshot = world.snapshot()
        assert set(by_number(snapshot)) <= numbers | before, "only wanted pods, and those that were there"
        assert not set(world.deleted_claims) & names, "no claim of a wanted pod is collected"

    plan = settle(world, rng, look=look)
    # then only the wanted pods exist, and all serve
    snapshot = world.snapshot()
    pods = by_number(snapshot)
    assert sorted(pods) == sorted(numbers)
    assert all(pod.is_serving for pod in pods.values())
    # and the plan gives a reason for each old pod
    hashed = builder.update_name.rpartition("-")[2]
    assert {pod.name for pod in pods.values() if pod.revision != hashed} <= set(plan.skipped)
    # and every claim that the policy retains exists
    policy = builder.spec.get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenScaled") == "Retain":
        assert world.deleted_claims == []
    assert plan_statefulset(snapshot).is_settled


@examples(0.15)
@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 6),
    st.booleans(),
    st.sampled_from([statefulset, updatable]),
    st.sampled_from([0, 20]),
    st.lists(st.integers(2, 5), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_a_rollout_keeps_max_unavailable_despite_disturbances(
    replicas: int,
    unavailable: int,
    partition: int,
    parallel: bool,
    make: Callable[..., StatefulSetBuilder],
    min_ready: int,
    images: list[int],
    rng: Any,
) -> None:
    # given a settled set whose template changes, and changes again at any moment
    most = unavailable if parallel else 1
    rolling = {"maxUnavailable": most, "partition": partition, "minReadySeconds": min_ready}
    builder = make(replicas, parallel=parallel, **rolling)
    builder.with_revisions(revision(builder.spec["template"], 1))
    world = World(builder)
    wanted = [_with_image(builder.spec["template"], f"nginx:{image}") for image in images]

    def look() -> None:
        pods = by_number(world.snapshot())
        assert sum(pod.is_serving and not pod.is_deleting for pod in pods.values()) >= replicas - most
        if wanted and rng.random() < 0.1:
            builder.with_spec(template=wanted.pop(0))

    while wanted:
        settle(world, rng, look=look)
        if wanted:
            builder.with_spec(template=wanted.pop(0))
    settle(world, rng, look=look)
    # then the pods with the highest ordinals have the last template, as many as the partition allows
    pods = by_number(world.snapshot())
    new = {number for number, pod in pods.items() if pod.containers[0].image == f"nginx:{images[-1]}"}
    assert set(range(partition, replicas)) <= new


@examples(0.4)
@given(builders(), st.lists(st.integers(0, 6), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_no_claim_of_a_pod_that_is_desired_again_is_collected(
    builder: StatefulSetBuilder, replicas: list[int], rng: Any
) -> None:
    # given a set that is scaled in and out while its pods terminate
    builder.with_claims(claim_template()).retaining(scaled="Delete")
    world = World(builder)
    for count in replicas:
        builder.with_spec(replicas=count)
        world.turn()
        # when a plan of the new size was carried out
        snapshot = world.snapshot()
        pods = by_number(snapshot)
        kept = {f"data-web-{number}" for number in wanted_of(snapshot) if number in pods}
        before = len(world.deleted_claims)
        for _ in range(rng.randrange(6)):
            rng.choice([world.kubelets, world.collect, world.collect, world.hooks])()
        # then the claims of its pods outlive the pods
        assert not kept & {*world.deleted_claims[before:]}


def _with_image(pod_template: Document, image: str) -> Document:
    result = copy.deepcopy(pod_template)
    result["spec"]["containers"][0]["image"] = image
    return result


def test_pods_of_the_world_have_the_readiness_gate_for_in_place_updates() -> None:
    """Without this gate, the tests above would check no in-place update."""
    assert keys.IN_PLACE_READY in updatable(1).pod_views()[0].readiness_gates
    assert template() == statefulset(1).spec["template"]
