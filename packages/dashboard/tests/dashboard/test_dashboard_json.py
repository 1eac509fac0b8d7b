"""The JSON interface: docs/dashboard.md lists every field that a row can have, and no others."""

from typing import Any, Final

import msgspec
import pytest

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.dashboard.actions import ActionField, DashboardAction
from pykruise.dashboard.asking import Question
from pykruise.dashboard.health import build_finding_rows, build_manager_rows
from pykruise.dashboard.jobs import ImageState, JobRow
from pykruise.dashboard.node import (
    NodeImageLine,
    NodePodLine,
    NodeProbeLine,
    build_agent_part,
    build_images_part,
    build_node_part,
    build_probes_part,
)
from pykruise.dashboard.objects import views_of_all
from pykruise.dashboard.others import OtherRow
from pykruise.dashboard.rollouts import RolloutRow
from pykruise.dashboard.steps import RolloutStep, build_steps_part
from pykruise.dashboard.verdicts import Verdict
from pykruise.dashboard.waiting import PodRow
from pykruise.dashboard.what_if import WhatIfAnswer
from pykruise.dashboard.workload import (
    EventLine,
    Head,
    PagePart,
    Past,
    PodLine,
    PodsOfRevision,
    ShownCondition,
    build_events_part,
    build_explained_part,
    build_history_part,
    build_nodes_part,
    build_pods_part,
)
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.documents import encode
from pykruise.manager.doctor.findings import make_fine
from pykruise.pods.images.node_image_api import NODE_IMAGES
from support.dashboard_json import OF_LISTS, OF_NODES, OF_OBJECTS, read_documented_fields
from support.sources import ROOT

OBJECT: Final[dict[str, Any]] = {"metadata": {"name": "a", "namespace": "b"}, "spec": {}, "status": {}}
ROW: Final = (
    "id",
    "resource",
    "kind",
    "namespace",
    "name",
    "phase",
    "needs_action",
    "line",
    "owner_kind",
    "owner",
)


def fields_of(kind: type[msgspec.Struct], *more: str) -> frozenset[str]:
    return frozenset((*kind.__struct_fields__, *more))


def of_part(part: PagePart) -> frozenset[str]:
    return frozenset({"id", *part.body})


def explained() -> PagePart:
    wait = Wait(code="A", words="b")
    given = Explanation(kind="", namespace="", name="", verdict="", headline="", waits=(wait,))
    return build_explained_part(given, namespace="b")


def node_images() -> PagePart:
    stored = views_of_all()[NODE_IMAGES].projector()(
        encode({"metadata": {"name": "a", "resourceVersion": "1"}})
    )
    return build_images_part(stored, now=0.0)


SERVED: Final = {
    OF_LISTS: {
        "each object of Rollouts, Jobs and images, and Other objects": frozenset(ROW),
        "… of Rollouts, also": fields_of(RolloutRow) - {*ROW},
        "… of Jobs and images, also": fields_of(JobRow) - {*ROW},
        "… of Other objects, also": fields_of(OtherRow) - {*ROW},
        "an image of a node, in images": fields_of(ImageState),
        "why/ID, in the same stream, if you may list pods": fields_of(Verdict, "id", "of"),
        "a pod that waits": fields_of(PodRow),
        "a manager, of Health": frozenset(build_manager_rows([OBJECT], {})[0]),
        "a finding, of Health": frozenset(build_finding_rows([make_fine("a", "b")])[0]),
        "note, of Health": frozenset({"id", "note"}),
    },
    OF_OBJECTS: {
        "head": fields_of(Head, "id"),
        "a condition in conditions": fields_of(ShownCondition),
        "an action in actions": fields_of(DashboardAction),
        "a field in fields": fields_of(ActionField),
        "explained, as explain -o json": of_part(explained()),
        "a wait in waits": frozenset(explained().body["waits"][0]),
        "pods": of_part(build_pods_part([], [], OBJECT, namespace="b", now=0.0)),
        "a group in groups": fields_of(PodsOfRevision),
        "a pod in pods": fields_of(PodLine),
        "history": of_part(build_history_part([], namespace="b", resource="c")),
        "a revision in revisions": fields_of(Past),
        "events": of_part(build_events_part([], namespace="b")),
        "an event in events": fields_of(EventLine),
        "steps, of a Rollout": of_part(build_steps_part(OBJECT)),
        "the Rollout in rollout": frozenset(build_steps_part(OBJECT).body["rollout"]),
        "the workload in workload": frozenset(build_steps_part(OBJECT).body["workload"]),
        "a step in steps": fields_of(RolloutStep),
        "nodes, of a job that pulls images": of_part(build_nodes_part(OBJECT, IMAGE_PULL_JOBS, [])),
        "a node in nodes": frozenset({"node", "phase", "progress", "message"}),
        "remark, if there is no such object": frozenset({"id", "text"}),
    },
    OF_NODES: {
        "node": of_part(build_node_part(OBJECT)),
        "images": of_part(node_images()),
        "an image in images": fields_of(NodeImageLine),
        "agent": of_part(build_agent_part([], "b")),
        "a pod of the agent, in pods": frozenset({"name", "namespace", "state", "ready", "restarts", "look"}),
        "probes": of_part(build_probes_part(OBJECT)),
        "a probe in probes": fields_of(NodeProbeLine),
        "pods/NAMESPACE": frozenset({"id", "pods"}),
        "a pod of a workload, in pods": fields_of(NodePodLine),
        "remark, if there is no such node": frozenset({"id", "text"}),
    },
}


@pytest.mark.parametrize("heading", SERVED)
def test_each_field_of_a_row_is_documented_and_no_other(heading: str) -> None:
    assert read_documented_fields()[heading] == SERVED[heading]


def test_each_table_of_fields_is_compared() -> None:
    assert read_documented_fields().keys() == SERVED.keys()


@pytest.mark.parametrize(
    ("request_path", "fields"),
    [
        ("POST api/plan", fields_of(WhatIfAnswer)),
        ("POST api/rights", frozenset({"may"})),
        ("POST api/question", fields_of(Question)),
        ("POST api/act", frozenset({"code", "said"})),
    ],
)
def test_each_field_of_an_answer_is_documented(request_path: str, fields: frozenset[str]) -> None:
    text = (ROOT / "docs" / "dashboard.md").read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| `{request_path}`"))
    answer = line.strip("| ").split(" | ")[-1]
    assert {word.split("`")[1] for word in answer.split(", ")} == fields
