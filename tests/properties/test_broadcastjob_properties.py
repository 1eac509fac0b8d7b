"""Invariants of every BroadcastJob, for any policies, nodes and order of events.

A small world carries out plans, some of them only partly, as if the manager was killed; pods end, nodes join, leave
and are cordoned, people delete pods.
"""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from pykruise.pods.view.decoding import project_pod
from support.broadcast_world import BroadcastWorld, template
from support.examples import examples

specs = st.fixed_dictionaries(
    {
        "parallelism": st.sampled_from([0, 1, 2, 10, "50%", "34"]),
        "failurePolicy": st.sampled_from(["FailFast", "Continue", "Pause"]).map(lambda kind: {"type": kind}),
        "completionPolicy": st.sampled_from(
            [
                {"type": "Always"},
                {"type": "Never"},
                {"type": "Always", "activeDeadlineSeconds": 20},
                {"type": "Always", "ttlSecondsAfterFinished": 5},
            ]
        ),
        "paused": st.sampled_from([False, False, True]),
    }
)
events = st.sampled_from(
    [
        "run",
        "end",
        "end",
        "fail",
        "join",
        "leave",
        "cordon",
        "uncordon",
        "delete",
        "gone",
        "pause",
        "resume",
        "",
    ]
)
steps = st.lists(st.tuples(events, st.integers(0, 5), st.none() | st.integers(0, 3)), max_size=25)


def happen(world: BroadcastWorld, event: str, number: int) -> None:
    """Apply the event to the node of that number, or to its pod, if it has one."""
    name = f"n{number}"
    here = name in world.placed
    match event:
        case "run" if here and world.pod_on(name)["status"]["phase"] == "Pending":
            world.run(name)
        case "end" if here and world.pod_on(name)["status"]["phase"] in ("Pending", "Running"):
            world.end(name)
        case "fail" if here and world.pod_on(name)["status"]["phase"] in ("Pending", "Running"):
            world.fail(name)
        case "delete" if here:
            world.delete_pod(name, gone=False)
        case "join":
            world.join(name)
        case "leave" if name in world.nodes:
            world.leave(name)
        case "cordon" | "uncordon" if name in world.nodes:
            world.cordon(name, on=event == "cordon")
        case "gone":
            world.let_go()
        case "pause" | "resume":
            world.spec(paused=event == "pause")
        case _:
            pass


def pods_by_node(world: BroadcastWorld) -> dict[str, list[dict[str, Any]]]:
    pods: dict[str, list[dict[str, Any]]] = {}
    for pod in world.pods.values():
        pods.setdefault(project_pod(orjson.dumps(pod)).target_node, []).append(pod)
    return pods


@given(st.integers(1, 5), specs, steps)
@examples(2)
def test_no_node_is_run_twice_and_nothing_is_exceeded(
    count: int, spec: dict[str, Any], story: list[tuple[str, int, int | None]]
) -> None:
    world = BroadcastWorld(count, template=template(restartPolicy="Never"), **spec)
    over: dict[str, Any] | None = None
    for event, number, writes in story:
        happen(world, event, number)
        plan = world.plan()
        assert plan == world_again(world), "the same world gives the same plan"
        world.carry_out(plan, writes=writes)
        if world.is_gone:
            return
        for name, pods in pods_by_node(world).items():
            assert len(pods) == 1, f"two pods for {name}"
        ends = spec["completionPolicy"]["type"] == "Always"
        if over is not None and ends:
            assert world.status == over, "what is over stays as it is"
        elif world.condition and ends:
            over = dict(world.status)
        world.pass_time(1)
    limit = spec["parallelism"]
    if isinstance(limit, int):
        assert world.most_active <= limit


def world_again(world: BroadcastWorld) -> Any:
    world.seed -= 1
    return world.plan()


@given(st.integers(1, 5), specs, steps)
@examples(2)
def test_every_job_that_is_not_held_ends(
    count: int, spec: dict[str, Any], story: list[tuple[str, int, int | None]]
) -> None:
    world = BroadcastWorld(count, **spec)
    for event, number, writes in story:
        happen(world, event, number)
        world.carry_out(world.plan(), writes=writes)
        world.pass_time(1)
        if world.is_gone:
            return
    world.join("n1").spec(paused=False, parallelism=3)
    for _ in range(20):
        world.sync().let_go().sync()
        if world.is_gone:
            return
        world.pass_time(1)
        for name in world.placed:
            if world.pod_on(name)["status"]["phase"] in ("Pending", "Running"):
                world.end(name)
    world.sync(5)

    plan = world.plan()
    assert plan.is_settled, "nothing goes on for ever"
    if world.is_gone or world.document["spec"]["paused"]:
        return
    phases = {pod["status"]["phase"] for pod in world.pods.values()}
    assert phases <= {"Succeeded", "Failed"}
    assert world.status["phase"] in ("completed", "failed") or spec["completionPolicy"]["type"] == "Never"
