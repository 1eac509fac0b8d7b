"""Events of nodes that enqueue BroadcastJobs."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.broadcastjob.kind import KIND
from pykruise.kinds.broadcastjob.snapshot import BROADCAST_JOB_VIEWS, BroadcastJobSettings, BroadcastJobView
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.nodes import NodeView, project_node
from pykruise.pods.view.pod_view import PodView
from support.broadcast_world import BroadcastWorld, template
from support.snapshots import OnPaper
from support.wakes import Woken


def job(name: str, *, status: dict[str, Any] | None = None, **spec: Any) -> BroadcastJobView:
    document = BroadcastWorld(0, **spec).document
    document["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return BROADCAST_JOB_VIEWS.project(orjson.dumps({**document, "status": status or {}}))


def node(
    *, cpu: str = "8", cordoned: bool = False, taint: str = "", version: int = 1, **labels: str
) -> NodeView:
    metadata = {"name": "n1", "uid": "u", "resourceVersion": str(version), "labels": labels}
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return project_node(
        orjson.dumps(
            {
                "metadata": metadata,
                "spec": {"unschedulable": cordoned, "taints": taints},
                "status": {"allocatable": {"pods": "110", "cpu": cpu}},
            }
        )
    )


def pods_of(owner: BroadcastJobView, *nodes: str) -> list[PodView]:
    return [
        project_pod(
            orjson.dumps(
                {
                    "metadata": {
                        "name": f"{owner.name}-{name}",
                        "namespace": owner.namespace,
                        "uid": name,
                        "resourceVersion": "1",
                        "ownerReferences": [owner.build_reference(BROADCAST_JOBS)],
                    },
                    "spec": {"nodeName": name},
                }
            )
        )
        for name in nodes
    ]


FOUR_CPUS = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "4"}}}]
OVER = {"phase": "completed", "conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"phase": "failed", "conditions": [{"type": "Failed", "status": "True"}]}

HERE = job("here", template=template(nodeSelector={"disk": "tape"}))
"""A job with a pod on the node, which would not create one there."""

ELSEWHERE = job("elsewhere", template=template(nodeSelector={"disk": "tape"}))
"""A job with a pod on another node."""

JOBS = (
    HERE,
    ELSEWHERE,
    job("everywhere"),
    job("hungry", template=template(containers=FOUR_CPUS)),
    job("on-ssd", template=template(nodeSelector={"disk": "ssd"})),
    job("over", status=OVER),
    job("over-for-good", status=FAILED, completionPolicy={"type": "Never"}),
)
ALL = ["everywhere", "hungry", "over-for-good"]


def woken(old: NodeView | None, new: NodeView | None) -> list[str]:
    objects: OnPaper = {
        BROADCAST_JOB_VIEWS: JOBS,
        POD_VIEWS: [*pods_of(HERE, "n1", "n2"), *pods_of(ELSEWHERE, "n2")],
    }
    return Woken(KIND, objects, settings=BroadcastJobSettings()).by(NODE_VIEWS, old, new)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node(), [*ALL, "here"]),
        (None, node(disk="ssd"), [*ALL, "here", "on-ssd"]),
        (None, node(cpu="2"), ["everywhere", "here", "over-for-good"]),
        (None, node(cordoned=True), ["here"]),
        (node(), None, [*ALL, "here"]),
        (node(cordoned=True), None, ["here"]),
        (node(), node(cordoned=True), [*ALL, "here"]),
        (node(taint="x"), node(), [*ALL, "here"]),
        (node(cpu="2"), node(cpu="6"), ["here", "hungry"]),
        (node(), node(disk="ssd"), ["here", "on-ssd"]),
        (node(), node(other="1"), ["here"]),
        (node(), node(version=2), []),
    ],
    ids=[
        "joins",
        "joins with a label",
        "joins and is small",
        "joins and is cordoned",
        "leaves",
        "leaves and was cordoned",
        "is cordoned",
        "a taint goes",
        "gets more room",
        "gets a label",
        "gets another label",
        "heartbeat",
    ],
)
def test_a_node_enqueues_jobs_that_fit_otherwise_now_and_those_with_a_pod_there(
    old: NodeView | None, new: NodeView | None, expected: list[str]
) -> None:
    """jobs A6.1; an ended job ignores nodes, unless its completionPolicy is Never"""
    assert woken(old, new) == sorted(expected)


def test_an_unreadable_job_does_not_stop_others_from_being_enqueued() -> None:
    jobs = (job("odd", parallelism={"a": 1}), job("everywhere"))
    assert jobs[0].spec is None
    result = Woken(KIND, {BROADCAST_JOB_VIEWS: jobs}, settings=BroadcastJobSettings()).by(
        NODE_VIEWS, None, node()
    )
    assert "everywhere" in result


@pytest.mark.parametrize(
    ("type_", "phase", "conditions", "is_finished"),
    [
        ("Always", "running", None, False),
        ("Always", "completed", [("Complete", "True")], True),
        ("Always", "completed", [("Other", "True"), ("Complete", "True")], True),
        ("Always", "running", [("Other", "True"), ("Complete", "False")], False),
        ("Always", "failed", [("Failed", "True")], True),
        ("Always", "failed", None, False),
        ("Never", "running", [("Complete", "True")], False),
        ("Never", "failed", None, True),
    ],
)
def test_a_job_is_finished_by_its_conditions_or_as_a_failed_endless_job(
    type_: str, phase: str, conditions: list[tuple[str, str]] | None, is_finished: bool
) -> None:
    """jobs A6.2, step 3"""
    result = [{"type": kind, "status": value} for kind, value in conditions or ()]
    status = {"phase": phase, "conditions": result if conditions is not None else None}
    assert job("one", status=status, completionPolicy={"type": type_}).is_finished == is_finished
