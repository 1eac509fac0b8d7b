"""A simulated pod for in-place updates: a document that accepts patches, and on which the kubelet acts.

pod = PaperPod(pod_document("c1", "c2")); pod.write(*start(pod.view(), ...)); pod.restarts("c1")

The real strategic merge applies patches, and each subresource accepts only the fields that an API server
accepts.
"""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.patches import apply_strategic_merge, find_definition
from pykruise.kube.resources import PODS
from pykruise.pods.in_place import PodPatch
from pykruise.pods.view import keys
from pykruise.pods.view.containers import (
    ContainerFacts,
    ContainerStatusFacts,
    RawContainer,
    RawResources,
    RawStatus,
    Resources,
    read_container_facts,
    read_status_facts,
    resources_of,
)
from pykruise.pods.view.pod_view import ConditionView

NOW = parse_time("2026-01-31T12:00:00Z")
POD = find_definition(PODS) or ""


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a pod that the engine needs."""

    resource_version: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    readiness_gates: tuple[str, ...]
    conditions: tuple[ConditionView, ...]
    containers: tuple[ContainerFacts, ...]
    container_statuses: tuple[ContainerStatusFacts, ...]
    sidecars: tuple[ContainerFacts, ...]
    init_statuses: tuple[ContainerStatusFacts, ...]
    resources: Resources | None = None
    resources_in_force: Resources | None = None


def facts_of(document: Document) -> PodFacts:
    """The facts of a pod's document, by way of its JSON text."""
    pod = orjson.loads(encode(document))
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    containers = msgspec.convert(spec["containers"], tuple[RawContainer, ...])
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    statuses = msgspec.convert(status.get("containerStatuses") or [], tuple[RawStatus, ...])
    init_statuses = msgspec.convert(status.get("initContainerStatuses") or [], tuple[RawStatus, ...])
    return PodFacts(
        resource_version=int(meta["resourceVersion"]),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        readiness_gates=tuple(gate["conditionType"] for gate in spec.get("readinessGates") or ()),
        conditions=tuple(
            ConditionView(
                condition["type"],
                condition["status"],
                condition.get("reason", ""),
                condition.get("message", ""),
            )
            for condition in status.get("conditions") or ()
        ),
        containers=tuple(map(read_container_facts, containers)),
        container_statuses=tuple(map(read_status_facts, statuses)),
        sidecars=tuple(map(read_container_facts, msgspec.convert(sidecars, tuple[RawContainer, ...]))),
        init_statuses=tuple(map(read_status_facts, init_statuses)),
        resources=_resources(spec),
        resources_in_force=_resources(status),
    )


def _resources(holder: Document) -> Resources | None:
    raw = msgspec.convert(holder.get("resources"), RawResources | None)
    return None if raw is None else resources_of(raw)


def container(name: str, *, image: str = "", priority: int | None = None, **fields: Any) -> Document:
    """A container of a pod; `priority` as admission writes it."""
    container: Document = {"name": name, "image": image or f"{name}:v1", **fields}
    if priority is not None:
        source = {"configMapKeyRef": {"name": "web-a-barrier", "key": f"p_{priority}"}}
        barrier = {"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": source}
        container["env"] = [*(container.get("env") or []), barrier]
    return container


def fed_from(field: str, key: str, *, variable: str = "FED") -> Document:
    """An entry of `env` that is fed from a label or annotation."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}['{key}']"}}}


def pod_document(*containers: str | Document, gated: bool = True, **metadata: Any) -> Document:
    """A pod of revision web-old that runs and is ready; containers by name run `<name>:v1`."""
    specs = [container(item) if isinstance(item, str) else item for item in containers]
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-31T11:00:00Z"}
        for kind in (*((keys.IN_PLACE_READY,) if gated else ()), "Ready", "ContainersReady")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-a",
            "namespace": "shop",
            "uid": "uid-a",
            "resourceVersion": "5",
            **metadata,
            "labels": {"app": "web", keys.REVISION_LABEL: "web-old", **metadata.get("labels", {})},
        },
        "spec": {
            "containers": specs,
            "readinessGates": [{"conditionType": keys.IN_PLACE_READY}] if gated else [],
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": [_status(spec) for spec in specs],
        },
    }


def with_sidecars(document: Document, *names: str) -> Document:
    """The pod with these init containers that keep running; they run `<name>:v1`."""
    specs = [container(name, restartPolicy="Always") for name in names]
    sidecars = copy.deepcopy(document)
    sidecars["spec"]["initContainers"] = [container("setup"), *specs]
    sidecars["status"]["initContainerStatuses"] = [_status(spec) for spec in specs]
    return sidecars


def _status(spec: Document) -> Document:
    status = {
        "name": spec["name"],
        "image": f"docker.io/library/{spec['image']}",
        "imageID": f"docker.io/library/{spec['name']}@sha256:{spec['image']}",
        "containerID": f"containerd://{spec['name']}-1",
        "restartCount": 0,
        "ready": True,
    }
    if spec.get("resources"):
        status["resources"] = copy.deepcopy(spec["resources"])
    return status


class PaperPod:
    """One stored pod."""

    def __init__(self, document: Document) -> None:
        self.document = copy.deepcopy(document)
        self.subresources: list[str] = []
        """Subresources of the writes, in order."""

    def view(self) -> PodFacts:
        return facts_of(self.document)

    def write(self, *patches: PodPatch) -> None:
        """Take patches as the API server does: a subresource lets only its own part through."""
        for patch in patches:
            if patch.is_dry_run:
                self.subresources.append(f"{patch.subresource}?dryRun")
                continue
            merged = apply_strategic_merge(self.document, patch.body, definition=POD)
            match patch.subresource:
                case "status":
                    merged["spec"] = self.document["spec"]
                case "resize":
                    assert patch.body.keys() == {"spec"}, "a resize says nothing but resources"
                    merged["metadata"], merged["status"] = self.document["metadata"], self.document["status"]
                case _:
                    merged["status"] = self.document["status"]
            merged["metadata"]["resourceVersion"] = str(int(self.document["metadata"]["resourceVersion"]) + 1)
            self.document = merged
            self.subresources.append(patch.subresource)

    # Actions of others

    def restarts(
        self, name: str, *, image: str = "", image_id: str = "", ready: bool = True, as_named: bool = False
    ) -> None:
        """Let the kubelet replace a container; it runs the image of the spec unless `image` is given."""
        wanted = self.spec_of(name)["image"]
        status = self.status_of(name)
        number = int(status["containerID"].rpartition("-")[2]) + 1
        full = wanted if as_named else f"docker.io/library/{wanted}"
        status |= {
            "image": image or full,
            "imageID": image_id or f"docker.io/library/{name}@sha256:{wanted}",
            "containerID": f"containerd://{name}-{number}",
            "restartCount": status["restartCount"] + 1,
            "ready": ready,
        }

    def becomes_ready(self) -> None:
        """The kubelet follows the readiness gates."""
        gate = next(
            (condition for condition in self.conditions() if condition["type"] == keys.IN_PLACE_READY), None
        )
        ready = next(condition for condition in self.conditions() if condition["type"] == "Ready")
        ready["status"] = "True" if gate is None or gate["status"] == "True" else "False"

    def annotate(self, **annotations: str) -> None:
        self.document["metadata"].setdefault("annotations", {}).update(
            {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
        )

    # Queries

    def spec_of(self, name: str) -> Document:
        spec: Document = next(
            container for container in self.document["spec"]["containers"] if container["name"] == name
        )
        return spec

    def status_of(self, name: str) -> Document:
        statuses = self.document["status"]["containerStatuses"]
        status: Document = next(item for item in statuses if item["name"] == name)
        return status

    def images(self) -> dict[str, str]:
        return {container["name"]: container["image"] for container in self.document["spec"]["containers"]}

    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.document["metadata"].get("labels") or {}
        return labels

    def annotations(self) -> dict[str, str]:
        annotations: dict[str, str] = self.document["metadata"].get("annotations") or {}
        return annotations

    def state(self) -> Document:
        state: Document = orjson.loads(self.annotations()[keys.IN_PLACE_STATE_ANNOTATION])
        return state

    def conditions(self) -> list[Document]:
        conditions: list[Document] = self.document["status"]["conditions"]
        return conditions

    def condition(self, kind: str) -> Document:
        return next(condition for condition in self.conditions() if condition["type"] == kind)
