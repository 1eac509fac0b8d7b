"""Invariants of every PersistentPodState, for any pods, nodes, workload and spec.

A small world carries out plans, some of them only partly, as if the manager was killed.
"""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.persistentpodstate.injection import inject
from support.examples import examples
from support.state_world import AUTO, NAME, PREFERRED, RECORDED, REQUIRED, UID, StateWorld

NODES = 3
POLICIES = (None, "WhenScaled", "WhenDeleted")
TOPOLOGIES = (
    {"requiredPersistentTopology": {"keys": ["zone"]}, "preferredPersistentTopology": None},
    {
        "requiredPersistentTopology": {"keys": ["zone"]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"keys": ["host", "rack"]}}],
    },
    {
        "requiredPersistentTopology": None,
        "preferredPersistentTopology": [{"weight": 5, "preference": {"keys": ["host"]}}],
    },
)
events = st.sampled_from(
    [
        *("pod", "pod", "pod", "away", "terminating", "moved", "foreign", "annotation", "node", "lost"),
        *("scale", "scale", "reserve", "start", "policy", "topology", "ask", "ask", "workload goes"),
    ]
)
steps = st.lists(st.tuples(events, st.integers(0, 7), st.none() | st.integers(0, 1)), min_size=1, max_size=15)
owners = st.sampled_from(["", UID])


def world_of(owner: str = "") -> StateWorld:
    world = StateWorld(owner=owner, persistentPodAnnotations=[{"key": "ip"}])
    for number in range(NODES):
        world.put_node(f"n{number}", zone=f"z{number}", host=f"h{number}")
    return world


def happen(world: StateWorld, event: str, number: int) -> None:
    """Apply the event; `number`: the index of a pod, node or value."""
    ordinal, node = number % 4, f"n{number % NODES}"
    spec = world.workload["spec"] if world.workload is not None else {}
    state = world.state["spec"] if world.state is not None else {}
    match event:
        case "pod":
            world.put_pod(ordinal, node=node, annotations={"ip": f"1.1.1.{number}"})
        case "moved":
            before = world.pods.get(f"{NAME}-{ordinal}", {"metadata": {}})["metadata"].get("annotations")
            world.put_pod(ordinal, node=node, ready=number != 7, annotations=before)
        case "terminating":
            world.put_pod(ordinal, node=node, deleting=True)
        case "foreign":
            world.put_pod(ordinal, node=node, owner="other")
        case "away":
            world.pods.pop(f"{NAME}-{ordinal}", None)
        case "annotation" if f"{NAME}-{ordinal}" in world.pods:
            world.pods[f"{NAME}-{ordinal}"]["metadata"]["annotations"] = {"ip": str(number)}
        case "node":
            world.put_node(node, zone=f"z{number}", **({"rack": "r"} if number % 2 else {}))
        case "lost":
            world.nodes.pop(node, None)
        case "scale":
            spec["replicas"] = number % 5
        case "reserve":
            spec["reserveOrdinals"] = [number % 4, f"{number % 3}-{number % 3 + 1}"]
        case "start":
            spec["ordinals"] = {"start": number % 3}
        case "policy":
            state["persistentPodStateRetentionPolicy"] = POLICIES[number % 3]
        case "topology":
            state.update(copy.deepcopy(TOPOLOGIES[number % 3]))
            for name in [name for name, value in state.items() if value is None]:
                del state[name]
        case "ask" if world.workload is not None:
            annotations = {AUTO: "true"} if number % 4 else {}
            annotations |= {REQUIRED: "zone"} if number % 3 else {PREFERRED: "host,rack"}
            world.workload["metadata"]["annotations"] = annotations | ({RECORDED: "ip"} if number > 4 else {})
        case "workload goes" if number == 0:
            world.workload = None
        case _:
            pass


def wanted(world: StateWorld) -> set[int]:
    """The ordinals of the workload, counted from its start, without reserved ones."""
    spec: dict[str, Any] = world.workload["spec"] if world.workload is not None else {"replicas": 0}
    reserved = set()
    for ordinal in spec.get("reserveOrdinals", ()):
        first, _, last = str(ordinal).partition("-")
        reserved |= set(range(int(first), int(last or first) + 1))
    start = spec.get("ordinals", {}).get("start", 0)
    free = [number for number in range(start, start + 20) if number not in reserved]
    return set(free[: spec["replicas"]])


def own(world: StateWorld) -> dict[str, dict[str, Any]]:
    """Active pods of the workload, by name; none where it wants none."""
    if world.workload is None or not world.workload["spec"]["replicas"]:
        return {}
    return {
        name: pod
        for name, pod in world.pods.items()
        if pod["metadata"]["ownerReferences"][0]["uid"] == UID and "deletionTimestamp" not in pod["metadata"]
    }


def is_recorded(world: StateWorld, name: str) -> bool:
    """Whether the pod can be recorded: it is ready and on an existing node."""
    pod = own(world).get(name)
    if pod is None or pod["spec"]["nodeName"] not in world.nodes:
        return False
    return bool(pod["status"]["conditions"][0]["status"] == "True")


@given(owners, steps)
@examples(2)
def test_a_record_changes_only_with_its_pod_and_is_removed_only_with_its_ordinal(
    owner: str, story: list[tuple[str, int, int | None]]
) -> None:
    world = world_of(owner).sync()
    for event, number, writes in story:
        happen(world, event, number)
        before, uid = copy.deepcopy(world.records), world.view.uid
        plan = world.plan()
        world.carry_out(plan, writes=writes)
        if world.view.uid != uid:
            continue
        for name, record in world.records.items():
            if before.get(name) != record:
                assert is_recorded(world, name)
                assert record["nodeName"] == world.pods[name]["spec"]["nodeName"]
        gone = before.keys() - world.records.keys()
        if world.workload is not None and gone:
            assert world.state is not None
            policy = world.state["spec"].get("persistentPodStateRetentionPolicy")
            assert policy != "WhenDeleted"
            assert not {int(name.rpartition("-")[2]) for name in gone} & wanted(world)
            assert not gone & own(world).keys()


@given(owners, steps)
@examples(1)
def test_an_executed_plan_settles_with_every_ready_pod_recorded(
    owner: str, story: list[tuple[str, int, int | None]]
) -> None:
    world = world_of(owner)
    for event, number, writes in story:
        happen(world, event, number)
        world.carry_out(world.plan(), writes=writes)

    world.sync()
    for pod in world.pods.values():  # all pods returned on other nodes
        pod["spec"]["nodeName"] = f"n{(int(pod['spec']['nodeName'][1:]) + 1) % NODES}"

    world.sync()

    plan = world.plan()
    assert not list(plan.steps)
    if world.state is None:
        return
    assert plan.status == world.state["status"]
    if world.workload is None:
        assert world.records == {}
        return
    for name in own(world):
        if is_recorded(world, name):
            node = world.pods[name]["spec"]["nodeName"]
            assert world.records[name]["nodeName"] == node
            labels = world.records[name].get("nodeTopologyLabels", {})
            assert labels.keys() == world.view.node_keys & world.nodes[node]["metadata"]["labels"].keys()


@given(owners, steps, st.lists(st.integers(0, 1), max_size=4))
@examples(1)
def test_plans_that_were_interrupted_end_like_one_that_was_not(
    owner: str, story: list[tuple[str, int, int | None]], killed_after: list[int]
) -> None:
    world = world_of(owner).sync()
    for event, number, _ in story:
        happen(world, event, number)
    whole = copy.deepcopy(world).sync()

    for writes in killed_after:
        world.carry_out(world.plan(), writes=writes)
    world.sync()

    assert (world.state is None) == (whole.state is None)
    if world.state is not None and whole.state is not None:
        assert world.state["spec"] == whole.state["spec"]
        assert world.state["status"] == whole.state["status"]


@given(owners, steps, st.integers(1, 1000))
@examples(1)
def test_the_order_of_what_is_read_does_not_matter(
    owner: str, story: list[tuple[str, int, int | None]], order: int
) -> None:
    world = world_of(owner)
    for event, number, _ in story:
        happen(world, event, number)
    assert world.plan(order=order) == world.plan()


@given(owners, steps)
@examples(1)
def test_a_state_written_by_a_user_is_neither_changed_nor_deleted(
    owner: str, story: list[tuple[str, int, int | None]]
) -> None:
    world = world_of(owner)
    for event, number, writes in story:
        happen(world, event, number)
        is_generated = bool(world.view.controller_uid)
        before = copy.deepcopy(world.state)
        world.carry_out(world.plan(), writes=writes)
        if before is None:
            continue
        if not is_generated:
            assert world.state is not None
            assert {**world.state, "status": None} == {**before, "status": None}
        elif world.state is not None:
            for field in ("targetRef", "persistentPodStateRetentionPolicy"):
                assert world.state["spec"].get(field) == before["spec"].get(field)


@given(owners, steps)
@examples(1)
def test_a_recreated_pod_gets_exactly_what_was_recorded(
    owner: str, story: list[tuple[str, int, int | None]]
) -> None:
    world = world_of(owner)
    for event, number, writes in story:
        happen(world, event, number)
        world.carry_out(world.plan(), writes=writes)
    for ordinal in range(5):
        name = f"{NAME}-{ordinal}"
        labels = world.records.get(name, {}).get("nodeTopologyLabels", {})
        new = {"metadata": {"name": name}, "spec": {"nodeSelector": {"disk": "ssd"}}}

        result = inject(copy.deepcopy(new), world.view)

        if result is None:
            assert not labels.keys() & world.view.node_keys
            continue
        required = {key: labels[key] for key in world.view.required_keys if key in labels}
        assert result["spec"]["nodeSelector"] == {"disk": "ssd", **required}
        affinity = result["spec"].get("affinity", {}).get("nodeAffinity", {})
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            assert term["preference"]["matchExpressions"]
            for expression in term["preference"]["matchExpressions"]:
                assert expression["values"] == [labels[expression["key"]]]
