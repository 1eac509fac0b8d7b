"""Annotations of running pods with the option roll-on-pod-metadata: the chosen pods, and the restarted containers."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.metadata_rollout import (
    AGAIN_S,
    REQUESTS,
    find_outdated,
    find_pending,
    find_request_time,
    find_restarts,
    record_restarts,
    rolls_on_metadata,
)
from pykruise.kinds.sidecarset.types import PatchPodMetadata
from pykruise.kube.documents import Document, encode
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import ROLL_ON_POD_METADATA
from pykruise.runtime.actions import Create
from pykruise.runtime.plan import Plan
from support.sidecar_world import SidecarWorld, upgraded
from support.sidecarsets import NOW, container, pod, problems, sidecarset

READS = [{"name": "LEVEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['level']"}}}]


def overwriting(level: str, policy: str = "Overwrite") -> list[Document]:
    return [{"annotations": {"level": level}, "patchPolicy": policy}]


def entries(**policies: str) -> list[PatchPodMetadata]:
    """One entry per annotation and policy. The value is `new`."""
    return [
        PatchPodMetadata(annotations={key: "new"}, patch_policy=policy) for key, policy in policies.items()
    ]


def started(pods: int = 3, *, option: str = "true", reads: bool = True, **strategy: Any) -> SidecarWorld:
    """A settled SidecarSet `log` that gave all pods the annotation level=1; its sidecar reads the annotation."""
    log = container("log", env=READS if reads else [])
    annotations = {ROLL_ON_POD_METADATA.annotation: option} if option else {}
    doc = sidecarset("log", log, metadata={"annotations": annotations}, patchPodMetadata=overwriting("1"))
    doc["spec"]["updateStrategy"] = strategy
    world = SidecarWorld(doc)
    world.add(pods)
    run_containers(world)
    world.round()
    return world


def run_containers(world: SidecarWorld, *, number: int = 1) -> None:
    """Let every container of every pod run for the `number`th time."""
    world.run_all()
    for name in world.pods:

        def give_ids(document: Document, name: str = name) -> None:
            for status in document["status"]["containerStatuses"]:
                status["containerID"] = f"containerd://{name}-{status['name']}-{number}"

        world.edit(name, give_ids)


def levels(world: SidecarWorld) -> dict[str, str]:
    return {name: doc["metadata"]["annotations"].get("level", "") for name, doc in world.pods.items()}


def requests(plan: Plan) -> list[Document]:
    """Specs of the created ContainerRecreateRequests."""
    return [
        step.action.body["spec"]
        for step in plan.steps
        if isinstance(step.action, Create) and step.action.resource == REQUESTS
    ]


def changed(world: SidecarWorld, level: str = "2") -> Plan:
    """The plan for another value. Recreate requests are not carried out."""
    world.change(patchPodMetadata=overwriting(level))
    return world.plan()


# ── which pods ───────────────────────────────────────────────────────────────

STRATEGIES = """
option | strategy            | pods | get the annotation
       | maxUnavailable 5    | 5    | 0
false  | maxUnavailable 5    | 5    | 0
true   | maxUnavailable 5    | 5    | 5
true   | maxUnavailable 2    | 5    | 2
true   | maxUnavailable 40%  | 5    | 2
true   | partition 3, maxUnavailable 5 | 5 | 2
true   | paused, maxUnavailable 5      | 5 | 0
true   | NotUpdate           | 5    | 0
"""


@pytest.mark.parametrize("row", STRATEGIES.strip().splitlines()[1:])
def test_the_strategy_limits_how_many_pods_get_new_metadata(row: str) -> None:
    """sidecarset case 96"""
    option, words, pods, expected = (cell.strip() for cell in row.split("|"))
    # given
    strategy: dict[str, Any] = {}
    for word in words.split(", "):
        name, _, value = word.partition(" ")
        match name:
            case "paused":
                strategy["paused"] = True
            case "NotUpdate":
                strategy["type"] = "NotUpdate"
            case _:
                strategy[name] = value if value.endswith("%") else int(value)
    world = started(int(pods), option=option, **strategy)
    # when
    plan = changed(world)
    # then
    assert len(upgraded(plan)) == len(requests(plan)) == int(expected)


def test_only_pods_that_the_update_selector_matches_get_new_metadata() -> None:
    """sidecarset case 96"""
    world = started(2, maxUnavailable=5, selector={"matchLabels": {"canary": "yes"}})
    world.edit("web-1", lambda doc: doc["metadata"]["labels"].update(canary="yes"))
    assert upgraded(changed(world)) == ["web-1"]


@pytest.mark.parametrize(
    ("policies", "annotations", "expected"),
    [
        ({"a": "Overwrite"}, {"a": "old"}, {"a"}),
        ({"a": "Overwrite"}, {}, {"a"}),
        ({"a": "Overwrite"}, {"a": "new"}, set()),
        ({"a": "Retain", "b": "MergePatchJson"}, {"a": "old"}, set()),
        ({"a": "Retain", "b": "Overwrite"}, {"a": "old", "b": "old"}, {"b"}),
    ],
)
def test_only_the_policy_overwrite_makes_a_pod_outdated(
    policies: dict[str, str], annotations: dict[str, str], expected: set[str]
) -> None:
    """sidecarset case 97"""
    assert set(find_outdated(annotations, entries(**policies))) == expected


# ── which containers restart ─────────────────────────────────────────────────


def view_of(*containers: Document, ids: dict[str, str], **annotations: str) -> PodView:
    doc = pod(*containers, metadata={"uid": "0123456789", "resourceVersion": "7", "annotations": annotations})
    doc["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": name, "containerID": id_} for name, id_ in ids.items()],
    }
    return project_pod(encode(doc))


def patch_of(*keys_: str, images: tuple[str, ...] = ()) -> Document:
    containers = [{"name": name, "image": "x:2"} for name in images]
    return {"metadata": {"annotations": dict.fromkeys(keys_, "new")}, "spec": {"containers": containers}}


READERS = """
changed annotations | new images | containers that run | restart
level               |            | log main            | log
other               |            | log main            |
level               | log        | log main            |
level               |            | main                |
level other         | main       | log main            | log
"""


@pytest.mark.parametrize("row", READERS.strip().splitlines()[1:])
def test_containers_that_read_a_changed_annotation_restart(row: str) -> None:
    """sidecarset case 98"""
    written, images, running, expected = (cell.split() for cell in row.split("|"))
    seen = view_of(
        container("log", env=READS), container("main"), ids={name: f"containerd://{name}" for name in running}
    )
    patches = entries(level="Overwrite", other="Overwrite")
    result = find_restarts(seen, patch_of(*written, images=tuple(images)), patches)
    assert result == {name: f"containerd://{name}" for name in expected}


def test_a_restart_is_pending_until_the_container_has_another_id() -> None:
    """sidecarset case 98"""
    body = record_restarts(
        view_of(ids={}), patch_of("level"), {"log": "containerd://1"}, sidecarset="log", now=NOW
    )
    text = body["metadata"]["annotations"][keys.METADATA_RESTARTS_ANNOTATION]

    def seen(id_: str) -> PodView:
        return view_of(
            container("log"),
            ids={"log": id_},
            **{keys.SIDECARSET_LIST_ANNOTATION: "log"} | {keys.METADATA_RESTARTS_ANNOTATION: text},
        )

    assert find_pending(seen("containerd://1"), "log") == {"log": "containerd://1"}
    assert find_pending(seen("containerd://2"), "log") == {}
    assert find_pending(seen("containerd://1"), "other") == {}
    assert find_request_time(seen("containerd://1"), "log") == NOW + AGAIN_S
    assert find_request_time(seen("containerd://1"), "other") == 0.0


def test_an_unreadable_record_counts_as_absent() -> None:
    annotations = {keys.SIDECARSET_LIST_ANNOTATION: "log", keys.METADATA_RESTARTS_ANNOTATION: "no JSON"}
    seen = view_of(container("log"), ids={"log": "containerd://1"}, **annotations)
    assert find_pending(seen, "log") == {}


# ── the rollout ──────────────────────────────────────────────────────────────


def test_a_restart_uses_up_the_budget_until_the_container_runs_again() -> None:
    """sidecarset case 99"""
    # given
    world = started(3, maxUnavailable=1)
    # when
    plan = changed(world)
    carry_out_on_pods(world, plan)
    # then one pod has the value, and the other pods wait until its container has restarted
    assert sorted(levels(world).values()) == ["1", "1", "2"]
    assert [spec["containers"] for spec in requests(plan)] == [[{"name": "log"}]]
    plan = world.plan()
    assert upgraded(plan) == []
    assert not requests(plan)
    assert {reason.code for reason in plan.skipped.values()} == {Code.BUDGET, Code.UPDATING_IN_PLACE}
    # when it has restarted
    run_containers(world, number=2)
    # then the next pod gets it
    assert len(upgraded(world.plan())) == 1


def test_a_restart_that_has_not_happened_is_requested_again() -> None:
    """sidecarset case 99"""
    world = started(1)
    carry_out_on_pods(world, changed(world))
    assert world.plan().requeue_after_s == AGAIN_S
    world.now += AGAIN_S
    carry_out_on_pods(world, world.plan())  # other writes come first
    plan = world.plan()
    assert [spec["containers"] for spec in requests(plan)] == [[{"name": "log"}]]
    carry_out_on_pods(world, plan)
    assert not requests(world.plan())


def test_metadata_that_no_container_reads_changes_without_a_restart() -> None:
    """sidecarset case 98"""
    world = started(3, reads=False, maxUnavailable=1)
    world.change(patchPodMetadata=overwriting("2"))
    world.settle()
    assert set(levels(world).values()) == {"2"}
    assert world.status["updatedPods"] == world.status["updatedReadyPods"] == 3
    assert all(
        keys.METADATA_RESTARTS_ANNOTATION not in doc["metadata"]["annotations"] for doc in world.pods.values()
    )


def test_the_option_takes_effect_on_pods_that_already_lack_the_annotation() -> None:
    """sidecarset case 96"""
    world = started(1, option="")
    assert upgraded(changed(world)) == []
    world.doc["metadata"].setdefault("annotations", {})[ROLL_ON_POD_METADATA.annotation] = "true"
    assert upgraded(world.plan()) == ["web-0"]


def carry_out_on_pods(world: SidecarWorld, plan: Plan) -> None:
    """Carry out everything except requests, which agents carry out."""
    for stage in plan.stages:
        for chain in stage.chains:
            for step in chain.steps:
                if not (isinstance(step.action, Create) and step.action.resource == REQUESTS):
                    world.carry_out_step(step)


# ── admission ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", ["", "yes", "True", "1"])
def test_another_value_is_refused_with_the_path_of_the_annotation(value: str) -> None:
    """sidecarset case 100"""
    doc = sidecarset(
        "log", container("log"), metadata={"annotations": {ROLL_ON_POD_METADATA.annotation: value}}
    )
    assert not rolls_on_metadata(doc["metadata"]["annotations"])
    (cause,) = (cause for cause in problems(doc) if cause.field == ROLL_ON_POD_METADATA.field)
    assert "must be true or false" in cause.message
