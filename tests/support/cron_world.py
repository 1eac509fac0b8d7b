"""A simulated AdvancedCronJob with its children: plans are computed and carried out while time passes.

world = CronWorld("*/5 * * * *"); world.run(minutes=20); world.made

The real views decode all objects from JSON.
"""

import copy
from typing import Any, Self

import orjson

from pykruise.kinds.advancedcronjob.children import CHILD_VIEWS
from pykruise.kinds.advancedcronjob.kind import KIND
from pykruise.kinds.advancedcronjob.plan import plan_cronjob
from pykruise.kinds.advancedcronjob.snapshot import CRON_JOB_VIEWS, AdvancedCronJobSettings, read_snapshot
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories
from support.snapshots import read_of, taken

START = parse_time("2026-01-31T10:00:00Z")
NAME, NAMESPACE, UID = "nightly", "shop", "cron-uid"

POD = {"spec": {"containers": [{"name": "main", "image": "busybox:1"}], "restartPolicy": "Never"}}
TEMPLATES: dict[str, dict[str, Any]] = {
    "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": POD}},
    "broadcastJobTemplate": {"spec": {"template": POD}},
    "imageListPullJobTemplate": {"spec": {"images": ["busybox:1"], "completionPolicy": {"type": "Always"}}},
}


class CronWorld:
    """`created`: the time of the object's creation, at which the world begins. `made`: names of all children."""

    def __init__(
        self,
        schedule: str = "*/1 * * * *",
        *,
        template: str = "broadcastJobTemplate",
        created: str = "2026-01-31T10:00:30Z",
        **spec: Any,
    ) -> None:
        self.now = parse_time(created)
        self.document: dict[str, Any] = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "AdvancedCronJob",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": UID,
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": created,
            },
            "spec": {
                "schedule": schedule,
                "concurrencyPolicy": "Allow",
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
                "template": {template: copy.deepcopy(TEMPLATES[template])},
                **spec,
            },
        }
        self.children: dict[str, dict[str, Any]] = {}
        self.pods: list[dict[str, Any]] = []
        self.made: list[str] = []
        self.events: list[str] = []
        self.settings = AdvancedCronJobSettings()
        self.memories = Memories()
        self._recorded: set[tuple[str, str]] = set()

    @property
    def status(self) -> dict[str, Any]:
        return self.document.get("status") or {}

    @property
    def ticks(self) -> list[str]:
        """Scheduled times for which something was created."""
        return [format_time(int(name.rpartition("-")[2])) for name in self.made]

    @property
    def active(self) -> list[str]:
        return [item["name"] for item in self.status.get("active") or ()]

    def plan(self) -> Plan:
        view = CRON_JOB_VIEWS.project(orjson.dumps(self.document))
        pods = [project_pod(orjson.dumps(pod)) for pod in self.pods]
        objects: dict[Any, list[Any]] = {CRON_JOB_VIEWS: [view], POD_VIEWS: pods}
        for views in CHILD_VIEWS.values():
            project = views.projector()
            objects[views] = [
                project(orjson.dumps(child))
                for child in self.children.values()
                if child["kind"] == views.resource.kind
            ]
        read = read_of(KIND, view, objects, settings=self.settings, now=self.now, memories=self.memories)
        return plan_cronjob(taken(read_snapshot(view, read)))

    def sync(self, times: int = 3) -> Self:
        for _ in range(times):
            plan = self.plan()
            self.carry_out(plan)
            if plan.is_settled:
                break
        return self

    def carry_out(self, plan: Plan, *, writes: int | None = None) -> None:
        for note in plan.notes:
            if (note.reason, note.same_as) not in self._recorded:
                self.events.append(note.reason)
            self._recorded.add((note.reason, note.same_as))
        for number, step in enumerate(plan.steps):
            if writes is not None and number >= writes:
                return
            self._write(step.action)
            self.events += [note.reason for note in step.notes_when_done]
        if plan.status is not None:
            self.document["status"] = plan.status

    def _write(self, action: Create | Patch | Delete) -> None:
        if isinstance(action, Create):
            assert action.key.name not in self.children, "made a second time"
            body = copy.deepcopy(action.body)
            body["metadata"] |= {"uid": f"uid-{action.key.name}", "resourceVersion": "1"}
            self.children[action.key.name] = body
            self.made.append(action.key.name)
        elif isinstance(action, Delete):
            assert action.propagation == "Background"
            del self.children[action.key.name]
        else:
            self.document = apply_merge_patch(self.document, action.body)

    def at(self, time: str) -> Self:
        """Advance the time without a reconcile until then, and reconcile once."""
        self.now = parse_time(time)
        return self.sync()

    def run(self, seconds: float, *, step_s: float = 10) -> Self:
        """Reconcile every `step_s` seconds, for this time."""
        end = self.now + seconds
        while self.now < end:
            self.now += step_s
            self.sync()
        return self

    def end(self, *names: str, kind: str = "Complete") -> Self:
        """End these children (default: all that run)."""
        for name in names or [n for n, child in self.children.items() if "status" not in child]:
            condition = {"type": kind, "status": "True"}
            self.children[name]["status"] = {
                "conditions": [condition],
                "startTime": self.children[name]["metadata"]["annotations"]["apps.kruise.io/scheduled-at"],
            }
        return self

    def spec(self, **fields: Any) -> Self:
        self.document["spec"] |= fields
        return self
