"""An EphemeralJob and pods, as documents: `sync()` computes a plan and carries it out."""

from typing import Any

import orjson

from pykruise.kinds.ephemeraljob.kind import KIND
from pykruise.kinds.ephemeraljob.plan import plan_ephemeraljob
from pykruise.kinds.ephemeraljob.snapshot import EPHEMERAL_JOB_VIEWS, EphemeralJobSnapshot, read_snapshot
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.patches import apply_merge_patch, apply_strategic_merge, find_definition
from pykruise.kube.resources import PODS
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Plan
from support.snapshots import read_of, taken

__all__ = ["NAME", "NOW", "UID", "EphemeralWorld", "container"]

NAME, UID = "look", "job-1"
NOW = parse_time("2026-05-01T12:00:00Z")


def container(name: str = "debug", **fields: Any) -> dict[str, Any]:
    """A container that a job adds to pods."""
    policies = {"terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"}
    return {"name": name, "image": "busybox:1", **policies, **fields}


class EphemeralWorld:
    """`count` running pods with `app: web`; pod-1 is the oldest."""

    def __init__(self, count: int, *, containers: list[dict[str, Any]] | None = None, **spec: Any) -> None:
        template = {"ephemeralContainers": [container()] if containers is None else containers}
        self.job: dict[str, Any] = {
            "metadata": {"namespace": "default", "name": NAME, "uid": UID, "resourceVersion": "7"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
        }
        self.pods: dict[str, dict[str, Any]] = {}
        self.now = NOW
        self.injected: list[str] = []
        self.is_there = True
        for number in range(1, count + 1):
            self.add_pod(f"pod-{number}")

    def add_pod(self, name: str, **labels: str) -> None:
        self.pods[name] = {
            "metadata": {
                "namespace": "default",
                "name": name,
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "labels": {"app": "web", **labels},
                "creationTimestamp": format_time(NOW - 1000 + len(self.pods)),
            },
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            "status": {"phase": "Running"},
        }

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.job.get("status") or {})

    @property
    def conditions(self) -> dict[str, str]:
        """The reason of each condition, by its type."""
        return {condition["type"]: condition["reason"] for condition in self.status.get("conditions", ())}

    def counts(self, *names: str) -> tuple[int, ...]:
        return tuple(self.status[name] for name in names)

    async def _snapshot(self) -> EphemeralJobSnapshot | None:
        view = EPHEMERAL_JOB_VIEWS.project(orjson.dumps(self.job))
        pods = [project_pod(orjson.dumps(pod)) for pod in self.pods.values()]
        return await read_snapshot(view, read_of(KIND, view, {POD_VIEWS: pods}, settings=None, now=self.now))

    def plan(self) -> Plan:
        result: EphemeralJobSnapshot = taken(self._snapshot())
        return plan_ephemeraljob(result)

    def sync(self) -> Plan:
        """Compute a plan, and carry it out."""
        plan = self.plan()
        for step in plan.steps:
            if isinstance(step.action, Delete):
                self.is_there = False
            elif isinstance(step.action, Patch) and step.action.resource is PODS:
                name = step.action.key.name
                self.pods[name] = apply_strategic_merge(
                    self.pods[name], step.action.body, definition=find_definition(PODS)
                )
                self.injected.append(name)
            elif isinstance(step.action, Patch):
                self.job = apply_merge_patch(self.job, step.action.body)
        if plan.status is not None:
            self.job = {**self.job, "status": plan.status}
        return plan

    def report(self, pod: str, *, name: str = "debug", **state: Any) -> None:
        """Report a container's state as the kubelet does: `running={}`, `terminated={"exitCode": 1}`."""
        status = self.pods[pod]["status"]
        others = [item for item in status.get("ephemeralContainerStatuses", ()) if item["name"] != name]
        status["ephemeralContainerStatuses"] = [*others, {"name": name, "state": state}]

    def end(self, pod: str, *, code: int = 0, name: str = "debug") -> None:
        """End a container."""
        self.report(pod, name=name, terminated={"exitCode": code, "finishedAt": format_time(self.now)})
