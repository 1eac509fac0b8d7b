"""A simulated BroadcastJob with its nodes and pods: plans are computed and carried out.

world = BroadcastWorld(5, parallelism=2); world.sync(); world.end("n1"); world.sync()

The real views decode all objects from JSON. A pod has the name of its node.
"""

import copy
from typing import Any, Self

import orjson

from pykruise.kinds.broadcastjob.kind import KIND
from pykruise.kinds.broadcastjob.plan import plan_broadcastjob
from pykruise.kinds.broadcastjob.snapshot import (
    BROADCAST_JOB_VIEWS,
    BroadcastJobSettings,
    BroadcastJobSnapshot,
    read_snapshot,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.resources import PODS
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.nodes import project_node
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.views import Views
from support.snapshots import read_of, taken

NOW = parse_time("2026-01-31T12:00:00Z")
UID = "job-uid"
NAMESPACE, NAME = "shop", "prepull"


def template(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "prepull"}},
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1"}],
            "restartPolicy": "Never",
            **spec,
        },
    }


def node(name: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": {}},
        "spec": {},
        "status": {"allocatable": {"pods": "110", "cpu": "8", "memory": "16Gi"}, **status},
    }


class BroadcastWorld:
    """Nodes n1, n2, …; a BroadcastJob and its results. `events`: their reasons, in order."""

    def __init__(self, nodes: int = 5, **spec: Any) -> None:
        self.nodes = {f"n{number}": node(f"n{number}") for number in range(1, nodes + 1)}
        self.document: dict[str, Any] = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "BroadcastJob",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": UID,
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": format_time(NOW),
            },
            "spec": {"template": template(), **spec},
        }
        self.pods: dict[str, dict[str, Any]] = {}
        """Pods by name."""
        self.now = NOW
        self.seed = 0
        self.settings = BroadcastJobSettings()
        self.events: list[str] = []
        self.is_gone = False
        self.most_active = 0

    # state

    def snapshot(self) -> BroadcastJobSnapshot:
        self.seed += 1
        view = BROADCAST_JOB_VIEWS.project(orjson.dumps(self.document))
        objects: dict[Views[Any], list[Any]] = {
            POD_VIEWS: [project_pod(orjson.dumps(pod)) for pod in self.pods.values()],
            NODE_VIEWS: [project_node(orjson.dumps(node)) for node in self.nodes.values()],
            BROADCAST_JOB_VIEWS: [view],
        }
        read = read_of(KIND, view, objects, settings=self.settings, now=self.now, seed=self.seed)
        return taken(read_snapshot(view, read))

    def plan(self) -> Plan:
        return plan_broadcastjob(self.snapshot())

    @property
    def status(self) -> dict[str, Any]:
        return self.document.get("status") or {}

    @property
    def counts(self) -> dict[str, int]:
        return {name: self.status[name] for name in ("desired", "active", "succeeded", "failed")}

    @property
    def condition(self) -> str:
        return ",".join(condition["type"] for condition in self.status.get("conditions") or ())

    def pod_on(self, name: str) -> dict[str, Any]:
        """The newest pod of the node. Raises IndexError if the node has none."""
        return [pod for pod in self.pods.values() if self._view(pod).target_node == name][-1]

    @property
    def placed(self) -> list[str]:
        """Nodes with a pod, in order."""
        return sorted({self._view(pod).target_node for pod in self.pods.values()})

    def _view(self, pod: dict[str, Any]) -> PodView:
        return project_pod(orjson.dumps(pod))

    # events

    def sync(self, times: int = 3) -> Self:
        """Plan and carry out until nothing is left to do, `times` times at most."""
        for _ in range(times):
            plan = self.plan()
            self.carry_out(plan)
            if self.is_gone or plan.is_settled:
                break
        return self

    def carry_out(self, plan: Plan, *, writes: int | None = None) -> None:
        """All of the plan's writes, or the first few of them, as if the manager was killed then."""
        self.events += [note.reason for note in plan.notes]
        for number, step in enumerate(plan.steps):
            if writes is not None and number >= writes:
                return
            self._write(step.action)
            self.events += [note.reason for note in step.notes_when_done]
        if plan.status is not None:
            self.document["status"] = {k: v for k, v in plan.status.items() if v is not None}

    def _write(self, action: Create | Patch | Delete) -> None:
        if isinstance(action, Create):
            body = copy.deepcopy(action.body)
            body["metadata"] |= {
                "uid": f"uid-{action.key.name}",
                "resourceVersion": "1",
                "creationTimestamp": format_time(self.now),
            }
            body["status"] = {"phase": "Pending"}
            assert action.key.name not in self.pods
            self.pods[action.key.name] = body
            self.most_active = max(self.most_active, self._active())
        elif isinstance(action, Delete) and action.resource == PODS:
            self.pods[action.key.name]["metadata"]["deletionTimestamp"] = format_time(self.now)
        elif isinstance(action, Delete):
            assert action.uid == UID
            self.is_gone = True
        else:
            self.document = apply_merge_patch(self.document, action.body)
            if not action.subresource:
                self.document["metadata"]["generation"] += 1

    def _active(self) -> int:
        return sum(self._view(pod).is_active for pod in self.pods.values())

    def run(self, *nodes: str) -> Self:
        for name in nodes or self.placed:
            pod = self.pod_on(name)
            pod["spec"]["nodeName"] = name
            pod["status"]["phase"] = "Running"
        return self

    def end(self, *nodes: str, phase: str = "Succeeded") -> Self:
        """End the pods of these nodes (default: of all nodes)."""
        for name in nodes or self.placed:
            pod = self.pod_on(name)
            pod["spec"]["nodeName"] = name
            pod["status"] = {"phase": phase}
        return self

    def fail(self, *nodes: str) -> Self:
        return self.end(*nodes, phase="Failed")

    def restart(self, name: str, *counts: int) -> Self:
        statuses = [
            {"name": f"c{number}", "restartCount": count, "image": "", "imageID": "", "ready": True}
            for number, count in enumerate(counts)
        ]
        self.pod_on(name)["status"] = {"phase": "Running", "containerStatuses": statuses}
        return self

    def delete_pod(self, name: str, *, gone: bool = True) -> Self:
        """A person deletes the node's pod."""
        pod = self.pod_on(name)
        pod["metadata"]["deletionTimestamp"] = format_time(self.now)
        if gone:
            del self.pods[pod["metadata"]["name"]]
        return self

    def let_go(self) -> Self:
        """Delete terminating pods."""
        self.pods = {
            name: pod for name, pod in self.pods.items() if "deletionTimestamp" not in pod["metadata"]
        }
        return self

    def taint(self, name: str, key: str, effect: str = "NoSchedule") -> Self:
        self.nodes[name]["spec"].setdefault("taints", []).append({"key": key, "effect": effect})
        return self

    def untaint(self, name: str) -> Self:
        self.nodes[name]["spec"].pop("taints", None)
        return self

    def cordon(self, name: str, *, on: bool = True) -> Self:
        self.nodes[name]["spec"]["unschedulable"] = on
        return self

    def join(self, name: str) -> Self:
        self.nodes[name] = node(name)
        return self

    def leave(self, name: str) -> Self:
        del self.nodes[name]
        return self

    def spec(self, **fields: Any) -> Self:
        self.document["spec"] |= fields
        return self

    def pass_time(self, seconds: float) -> Self:
        self.now += seconds
        return self
