"""The common part of builders of snapshots: the document of a workload, and its pods as documents.

A kind's builder (`cloneset_builder`, `daemonset_builder`) inherits this class; it defines its pods and the input of a
snapshot. Pods have short names; every method changes the builder and returns it.
"""

from typing import Any, Self

import orjson

from pykruise.kube.clock import format_time, parse_time
from pykruise.pods.view.decoding import PodProjector
from pykruise.pods.view.pod_view import PodView

NOW = parse_time("2026-01-31T12:00:00Z")
NAMESPACE, NAME, UID = "shop", "web", "owner-uid"


class WorkloadBuilder:
    """A workload with pods."""

    def __init__(self, api_version: str, kind: str, spec: dict[str, Any]) -> None:
        self.document: dict[str, Any] = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": UID,
                "resourceVersion": "100",
                "generation": 3,
            },
            "spec": spec,
            "status": {},
        }
        self.pods: dict[str, dict[str, Any]] = {}
        self.now = NOW
        self.seed = 1

    # the workload itself

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.document["spec"]
        return spec

    @property
    def rolling(self) -> dict[str, Any]:
        strategy = self.spec.setdefault("updateStrategy", {"type": "RollingUpdate"})
        result: dict[str, Any] = strategy.setdefault("rollingUpdate", {})
        return result

    def with_spec(self, **fields: Any) -> Self:
        self.spec.update(fields)
        return self

    def with_rolling(self, **fields: Any) -> Self:
        self.rolling.update(fields)
        return self

    def with_status(self, **fields: Any) -> Self:
        self.document["status"].update(fields)
        return self

    def on_delete(self) -> Self:
        self.spec["updateStrategy"] = {"type": "OnDelete"}
        return self

    def terminating(self) -> Self:
        self.document["metadata"]["deletionTimestamp"] = format_time(NOW)
        return self

    # its pods

    def labelled(self, labels: dict[str, str], *short_names: str) -> Self:
        for short in short_names:
            self.pods[short]["metadata"]["labels"].update(labels)
        return self

    def with_finalizer(self, finalizer: str, *short_names: str) -> Self:
        for short in short_names:
            self.pods[short]["metadata"]["finalizers"].append(finalizer)
        return self

    def set_condition(self, short: str, kind: str, status: str | None, **fields: Any) -> Self:
        """Set a condition; `status=None` removes it."""
        conditions = self.pods[short]["status"]["conditions"]
        conditions[:] = [condition for condition in conditions if condition["type"] != kind]
        if status is not None:
            time = format_time(NOW - 3600)
            conditions.append({"type": kind, "status": status, "lastTransitionTime": time, **fields})
        return self

    def not_ready(self, *short_names: str) -> Self:
        for short in short_names:
            self.set_condition(short, "Ready", "False")
            for status in self.pods[short]["status"].get("containerStatuses") or ():
                status["ready"] = False
        return self

    def ready_for(self, seconds: float, *short_names: str) -> Self:
        for short in short_names:
            self.set_condition(short, "Ready", "True", lastTransitionTime=format_time(NOW - seconds))
        return self

    def born(self, seconds_ago: float, *short_names: str) -> Self:
        for short in short_names:
            self.pods[short]["metadata"]["creationTimestamp"] = format_time(NOW - seconds_ago)
        return self

    def unscheduled(self, *short_names: str) -> Self:
        for short in short_names:
            pod = self.pods[short]
            pod["spec"].pop("nodeName", None)
            pod["status"] = {"phase": "Pending", "conditions": []}
        return self

    def orphaned(self, *short_names: str) -> Self:
        """Remove the owner of these pods."""
        for short in short_names:
            del self.pods[short]["metadata"]["ownerReferences"]
        return self

    def deleted(self, *short_names: str) -> Self:
        """Make these pods terminating."""
        for short in short_names:
            self.pods[short]["metadata"]["deletionTimestamp"] = format_time(NOW)
        return self

    def pod_views(self) -> list[PodView]:
        project = PodProjector()
        return [project(orjson.dumps(pod)) for pod in self.pods.values()]
