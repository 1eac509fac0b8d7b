"""Invariants of ImagePullJobs and NodeImages, for any actions of agents: turns, classes, versions, and the end.

random operations ──▶ World: carries out plans on documents ──▶ invariants after each
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.imagepulljob.plan import plan_imagepulljob
from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSnapshot as JobSnapshot
from pykruise.kinds.imagepulljob.targets import targets_of
from pykruise.kinds.nodeimage.plan import plan_node_image
from pykruise.kinds.nodeimage.snapshot import NodeImageSnapshot as NodeSnapshot
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.values.image_references import parse_image
from pykruise.pods.images.node_images import NodeImageView, project_node_image
from pykruise.pods.images.pull_jobs import PullJobView, project_pull_job
from pykruise.pods.jobs.fan_out import TargetState
from pykruise.runtime.actions import Delete, Patch
from support.image_objects import NOW, job_document, node, node_image

IMAGE = parse_image("nginx:1.9")


class World:
    """Nodes and jobs as documents; controllers and agents are called by the test."""

    def __init__(self, nodes: int, jobs: list[Document]) -> None:
        self.now: Instant = NOW
        names = [f"n{number}" for number in range(nodes)]
        self.nodes: dict[str, Document] = {
            name: {"metadata": {"name": name, "uid": f"image-{name}", "resourceVersion": "1"}, "spec": {}}
            for name in names
        }
        self.jobs = {job["metadata"]["name"]: job for job in jobs}

    def view(self, name: str) -> NodeImageView:
        return project_node_image(encode(self.nodes[name]))

    def job(self, name: str) -> PullJobView:
        return project_pull_job(encode(self.jobs[name]))

    def job_snapshot(self, name: str) -> JobSnapshot:
        gone: dict[str, PullJobView | None] = {
            f"uid-{literal}": None for literal in ("a", "b") if literal != name
        }
        others = {
            **gone,
            **{pull_job.uid: pull_job for other in self.jobs if (pull_job := self.job(other)).name != name},
        }
        return JobSnapshot(
            job=self.job(name), nodes=[self.view(node) for node in self.nodes], others=others, now=self.now
        )

    def reconcile_job(self, name: str) -> None:
        if name not in self.jobs:
            return
        snapshot = self.job_snapshot(name)
        plan = plan_imagepulljob(snapshot)
        assert plan == plan_imagepulljob(snapshot)
        self._carry_out(plan.stages)
        if plan.status is not None and name in self.jobs:
            self.jobs[name] = {**self.jobs[name], "status": plan.status}

    def reconcile_node(self, name: str) -> None:
        view = self.view(name)
        jobs = {Key("shop", job): self.job(job) for job in self.jobs}
        known: dict[Key, Any] = {Key("shop", literal): None for literal in ("a", "b")}
        snapshot = NodeSnapshot(
            node_image=view, node=node(name), jobs={**known, **jobs}, now=self.now, creation_delay_s=0.0
        )
        self._carry_out(plan_node_image(snapshot).stages)

    def _carry_out(self, stages: Any) -> None:
        for stage in stages:
            for chain in stage.chains:
                for step in chain.steps:
                    self._write(step.action)

    def _write(self, action: Any) -> None:
        where = self.nodes if action.resource.plural == "nodeimages" else self.jobs
        if isinstance(action, Delete):
            del where[action.key.name]
        elif isinstance(action, Patch):
            before = where[action.key.name]
            where[action.key.name] = apply_merge_patch(before, action.body)

    def agent(self, name: str, phase: str) -> None:
        """Report this phase for all requests of the node, as its agent does."""
        view = self.view(name)
        images: dict[str, Any] = {}
        for image, entry in view.entries:
            said: Document = {"tag": image.tag, "phase": phase, "version": entry.version}
            if phase in ("Succeeded", "Failed"):
                said["completionTime"] = format_time(self.now)
            images.setdefault(image.name, {"tags": []})["tags"].append(said)
        self.nodes[name]["status"] = {"desired": len(images), "imageStatuses": images}


NODES = st.integers(min_value=0, max_value=6)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.sampled_from("ab")),
        st.tuples(st.just("node"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["Pulling", "Succeeded", "Failed"]), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.sampled_from("ab")),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 100.0, 700.0, 5000.0])),
    ),
    max_size=40,
)


def world_of(nodes: int, parallelism: int, ends: bool) -> World:
    policy = {"type": "Always" if ends else "Never"}
    jobs = [
        job_document(name, parallelism=parallelism, completionPolicy=policy, pullPolicy={"timeoutSeconds": 9})
        for name in ("a", "b")
    ]
    return World(nodes, jobs)


def play(world: World, operation: tuple[str, Any]) -> None:
    what, about = operation
    names = list(world.nodes)
    if what == "job":
        world.reconcile_job(about)
    elif what == "delete":
        world.jobs.pop(about, None)
    elif what == "wait":
        world.now += about
    elif names:
        name = names[about % len(names)]
        if what == "node":
            world.reconcile_node(name)
        else:
            world.agent(name, what)


@given(nodes=NODES, parallelism=st.integers(0, 4), ends=st.booleans(), operations=OPERATIONS)
def test_parallelism_is_kept_every_node_counts_once_and_versions_never_decrease(
    nodes: int, parallelism: int, ends: bool, operations: list[tuple[str, Any]]
) -> None:
    world = world_of(nodes, parallelism, ends)
    for operation in operations:
        versions = {name: world.view(name).find_entry(IMAGE) for name in world.nodes}
        # Another job that pulls the image again may have made more nodes active than this job allows.
        before = _active(world, operation[1]) if operation[0] == "job" else 0
        play(world, operation)
        if operation[0] == "job":
            assert _active(world, operation[1]) <= max(parallelism, before)
            _check_status(world, operation[1], nodes)
        for name, old in versions.items():
            new = world.view(name).find_entry(IMAGE)
            assert old is None or new is None or new.version >= old.version


def _active(world: World, name: str) -> int:
    if name not in world.jobs:
        return 0
    targets = targets_of(world.job_snapshot(name), IMAGE)
    return sum(target.state is TargetState.ACTIVE for target in targets)


def _check_status(world: World, name: str, nodes: int) -> None:
    status = world.jobs.get(name, {}).get("status")
    if status:
        counted = status.get("active", 0) + status.get("succeeded", 0) + status.get("failed", 0)
        assert counted <= status["desired"] == nodes
        assert status.get("failed", 0) == len(status.get("failedNodes", ()))


@given(nodes=NODES, parallelism=st.integers(1, 4), operations=OPERATIONS)
def test_a_job_completes_when_agents_answer_after_any_disturbance(
    nodes: int, parallelism: int, operations: list[tuple[str, Any]]
) -> None:
    world = world_of(nodes, parallelism, ends=True)
    for operation in operations:
        play(world, operation)
    for _ in range(4 * nodes + 4):
        for name in list(world.jobs):
            world.reconcile_job(name)
        for name in world.nodes:
            world.agent(name, "Succeeded")
            world.reconcile_node(name)
    for job in world.jobs.values():
        assert job["status"]["completionTime"]
    # and when the jobs are deleted, their entries are removed
    world.jobs.clear()
    for name in world.nodes:
        for _ in range(3):
            world.reconcile_node(name)
        assert not list(world.view(name).entries)
        assert not world.view(name).statuses


@given(operations=OPERATIONS)
def test_a_settled_nodeimage_stays_settled(operations: list[tuple[str, Any]]) -> None:
    """A second reconcile of the same world writes nothing."""
    world = world_of(3, 2, ends=True)
    for operation in operations:
        play(world, operation)
    for name in world.nodes:
        for _ in range(3):
            world.reconcile_node(name)
        before = dict(world.nodes[name])
        world.reconcile_node(name)
        assert world.nodes[name] == before


def test_a_simulated_nodeimage_is_a_valid_one() -> None:
    assert node_image("x").name == "x"
