"""Pods for the sandbox's tests: documents, their views, and one pod that is simulated without any I/O.

pod = PaperPod(pod_document(containers={"main": "nginx:1"}), settings=KubeletSettings(start_s=1.0))
pod.run_until(5.0)      # seconds since it was bound to its node
pod.doc["status"], pod.patches
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import decode, deep_copy, encode
from pykruise.kube.patches.strategic import apply_strategic_merge
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.images import ImageTable
from pykruise.sandbox.nodes.pod_life import advance
from pykruise.sandbox.nodes.pod_state import KubeletSettings, NodeWorld, SimulatedPodState, begin, recover
from pykruise.sandbox.nodes.pod_status import is_worth_reporting, patch_for, status_of
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from pykruise.sandbox.pod_view import SandboxPodView

Object = dict[str, Any]

START = parse_time("2026-01-31T12:00:00Z")

_project = SandboxPodProjector()


def pod_document(
    name: str = "web",
    *,
    containers: Mapping[str, str] | None = None,
    node: str = "node-1",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    owner: str = "",
    **spec: Any,
) -> Object:
    """A pod bound to `node`. `containers` are images by name; further fields of the spec as keywords."""
    metadata: Object = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    if labels:
        metadata["labels"] = dict(labels)
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Owner", "name": owner, "uid": owner, "controller": True}
        ]
    listed = [
        {"name": key, "image": image} | ({"resources": {"requests": dict(requests)}} if requests else {})
        for key, image in (containers or {"main": "nginx:1"}).items()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": listed, **({"nodeName": node} if node else {}), **spec},
        "status": {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}
            ],
        },
    }


def view(doc: Object) -> SandboxPodView:
    """The sandbox's view of the pod."""
    return _project(encode(doc))


class PaperPod:
    """One pod on its node: applies the patches of the kubelet's pure functions to a document."""

    def __init__(
        self,
        doc: Object,
        *,
        settings: KubeletSettings | None = None,
        rules: Iterable[Rule] = (),
        images: ImageTable | None = None,
    ) -> None:
        self.doc = deep_copy(doc)
        self.world = NodeWorld(
            settings=settings or KubeletSettings(start_s=0.0),
            rules=tuple(rules),
            images=images or ImageTable(),
            seed=7,
        )
        self.patches: list[tuple[float, Object]] = []
        self.now = 0.0
        self.state: SimulatedPodState = begin(view(doc), ip="10.0.0.9", now=START)

    def set_rules(self, *rules: Rule) -> None:
        """Change the scripted failures from now on."""
        self.world = msgspec.structs.replace(self.world, rules=rules)

    def set_image(self, container: str, image: str) -> None:
        """Change the image, as an in-place update does."""
        for item in (*self.doc["spec"]["containers"], *self.doc["spec"].get("initContainers", ())):
            if item["name"] == container:
                item["image"] = image

    def set_condition(self, kind: str, status: str) -> None:
        """A condition that another client writes."""
        others = [condition for condition in self.doc["status"]["conditions"] if condition["type"] != kind]
        self.doc["status"]["conditions"] = [*others, {"type": kind, "status": status}]

    def restart_kubelet(self) -> None:
        """The kubelet forgets everything and reads the status."""
        self.state = recover(view(self.doc), ip="10.0.0.9", now=START + self.now)

    def run_until(self, seconds: float) -> None:
        """Run the kubelet's steps that are due until this time, in seconds since the beginning."""
        for _ in range(1000):
            due = self._sync()
            if due > seconds or self.state.stopping_since is not None:
                self.now = seconds
                self._sync()
                return
            assert due > self.now, "nothing may be due again at the same moment"
            self.now = due
        raise AssertionError("the pod never comes to rest")

    def _sync(self) -> float:
        pod = view(self.doc)
        now = START + self.now
        self.state, look_at = advance(self.state, pod, self.world, now)
        if not pod.is_over and is_worth_reporting(pod, self.state, self.world, now, look_at=look_at):
            patch = patch_for(pod, status_of(pod, self.state, self.world, now, host_ip="172.18.0.2"))
            if patch is not None:
                self.patches.append((self.now, patch))
                merged = apply_strategic_merge(self.doc, patch, definition="io.k8s.api.core.v1.Pod")
                self.doc = decode(encode(merged))
        return look_at if look_at == math.inf else look_at - START

    # ── sight ────────────────────────────────────────────────────────────────

    @property
    def status(self) -> Object:
        """`status` as stored."""
        status: Object = self.doc["status"]
        return status

    def condition(self, kind: str) -> Object:
        """The condition of that type."""
        condition: Object = next(item for item in self.status["conditions"] if item["type"] == kind)
        return condition

    def container(self, name: str = "main") -> Object:
        """The status of a container, init or not."""
        statuses = [*self.status.get("containerStatuses", ()), *self.status.get("initContainerStatuses", ())]
        container: Object = next(status for status in statuses if status["name"] == name)
        return container

    @property
    def is_ready(self) -> bool:
        """Condition Ready."""
        return bool(self.condition("Ready")["status"] == "True")
