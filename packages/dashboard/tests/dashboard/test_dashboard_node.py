"""The page of a node: its agent, its images, its probes and its pods."""

from typing import Any

import orjson
import pytest

from pykruise.dashboard.node import (
    build_agent_part,
    build_images_part,
    build_node_part,
    build_pods_parts,
    build_probes_part,
)
from pykruise.dashboard.objects import DashboardObject, views_of_all
from pykruise.dashboard.workload import build_pods_part as all_pods_part
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.clock import format_time
from pykruise.kube.resources import PODS, Resource
from pykruise.pods.images.node_image_api import NODE_IMAGES
from support.scenario import cloneset

NOW = 1_800_000_000.0


def stored(resource: Resource, document: dict[str, Any]) -> DashboardObject:
    """An object as the dashboard keeps it."""
    view: DashboardObject = views_of_all()[resource].projector()(orjson.dumps(document))
    return view


def node_image(*, asked_s_ago: float, **status: Any) -> DashboardObject:
    """A NodeImage whose tag nginx:1 was created `asked_s_ago` seconds ago; `status`: fields of the tag's status."""
    tag = {"tag": "1", "version": 1, "createdAt": format_time(NOW - asked_s_ago)}
    said = {"imageStatuses": {"nginx": {"tags": [{"tag": "1", "version": 1, **status}]}}} if status else {}
    return stored(
        NODE_IMAGES,
        {
            "metadata": {"name": "node-1", "uid": "u", "resourceVersion": "1"},
            "spec": {"images": {"nginx": {"tags": [tag]}}},
            "status": said,
        },
    )


BEGUN = format_time(NOW - 50)
ENDED = {"completionTime": format_time(NOW - 40)}


@pytest.mark.parametrize(
    ("given", "agent", "code"),
    [
        (node_image(asked_s_ago=10), "asked", "ImagePulling"),
        (node_image(asked_s_ago=120), "silent", "NoAgent"),
        (node_image(asked_s_ago=120, phase="Failed", **ENDED), "silent", "ImagePull"),
        (node_image(asked_s_ago=120, phase="Failed", startTime=BEGUN, **ENDED), "answers", "ImagePull"),
        (
            node_image(asked_s_ago=60, phase="Pulling", startTime=BEGUN, progress=40),
            "answers",
            "ImagePulling",
        ),
        (node_image(asked_s_ago=60, phase="Succeeded", startTime=BEGUN, **ENDED), "answers", None),
    ],
)
def test_an_agent_answers_after_its_start_and_is_silent_when_it_is_late(
    given: DashboardObject, agent: str, code: str | None
) -> None:
    part = build_images_part(given, now=NOW)
    assert (part.resource, part.namespace) == ("nodeimages.apps.kruise.io", "")
    assert part.body["agent"] == agent
    (line,) = part.body["images"]
    assert (line["image"], line.get("code")) == ("nginx:1", code)


def test_an_agent_without_work_is_idle() -> None:
    empty = stored(NODE_IMAGES, {"metadata": {"name": "node-1", "resourceVersion": "1"}, "spec": {}})
    assert build_images_part(empty, now=NOW).body["agent"] == "idle"


def test_the_node_part_shows_readiness_cordon_and_pressure() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "message": "kubelet stopped"},
        {"type": "DiskPressure", "status": "True"},
        {"type": "MemoryPressure", "status": "False"},
    ]
    part = build_node_part({"spec": {"unschedulable": True}, "status": {"conditions": conditions}})
    assert (part.body["is_ready"], part.body["is_cordoned"]) == (False, True)
    assert (part.body["message"], part.body["pressures"]) == ("kubelet stopped", ["DiskPressure"])
    assert (part.resource, part.namespace) == ("nodes", "")


def test_probes_have_the_state_that_the_agent_reports_with_failing_ones_first() -> None:
    probes = [{"name": f"marker#{name}", "containerName": "main"} for name in ("fine", "bad", "new")]
    states = [{"name": "marker#fine", "state": "Succeeded"}, {"name": "marker#bad", "state": "Failed"}]
    part = build_probes_part(
        {
            "spec": {"podProbes": [{"name": "web-1", "namespace": "shop", "uid": "p", "probes": probes}]},
            "status": {"podProbeStatuses": [{"uid": "p", "probeStates": states}]},
        }
    )
    assert [(line["probe"], line.get("state")) for line in part.body["probes"]] == [
        ("marker#bad", "Failed"),
        ("marker#new", None),
        ("marker#fine", "Succeeded"),
    ]
    assert part.resource == "nodepodprobes.apps.kruise.io"


def pod(namespace: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1", **more},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "nginx:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_pods_of_a_node_are_shown_to_users_who_may_list_them_in_their_namespace() -> None:
    owner = (CLONE_SETS, cloneset("web"))
    pods = [
        (stored(PODS, pod("a", "web-1")), owner),
        (stored(PODS, pod("b", "web-2")), owner),
        (stored(PODS, pod("b", "alone")), None),
    ]
    parts = build_pods_parts(pods, now=NOW)
    assert [(part.id, part.resource, part.namespace) for part in parts] == [
        ("pods/a", "pods", "a"),
        ("pods/b", "pods", "b"),
    ]
    assert [line["name"] for part in parts for line in part.body["pods"]] == ["web-1", "web-2"]
    assert parts[0].body["pods"][0]["owner"] == "web"


def test_the_agents_pod_is_the_one_with_its_label() -> None:
    agent = pod("kruise-system", "kruise-daemon-x", labels={"control-plane": "daemon"})
    manager = pod("kruise-system", "manager-x", labels={"control-plane": "controller-manager"})
    part = build_agent_part([agent, manager], "kruise-system")
    assert [line["name"] for line in part.body["pods"]] == ["kruise-daemon-x"]
    assert (part.resource, part.namespace) == ("pods", "kruise-system")


def test_a_pod_that_has_done_its_work_waits_for_nothing() -> None:
    done = pod("a", "tune-1")
    terminated = {"exitCode": 0, "finishedAt": BEGUN}
    done["status"] = {
        "phase": "Succeeded",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "main", "ready": False, "state": {"terminated": terminated}}],
    }
    (part,) = build_pods_parts([(stored(PODS, done), (CLONE_SETS, cloneset("web")))], now=NOW)
    (line,) = part.body["pods"]
    assert (line["look"], line.get("code"), line.get("why")) == ("ended", None, None)
    (group,) = all_pods_part([done], [], cloneset("web"), namespace="a", now=NOW).body["groups"]
    assert (group["pods"][0].get("code"), group["pods"][0].get("why")) == (None, None)
