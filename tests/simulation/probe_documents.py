"""PodProbeMarkers, NodePodProbes and pods for rules of probes, decoded without the product's views.

Commit ──▶ read_marker() ──▶ Marker     Commit ──▶ read_node_probes() ──▶ NodeProbes     Commit ──▶ read_pod() ──▶ Pod
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.testing.simulation.history import Commit

__all__ = ["Entry", "Marker", "NodeProbes", "Pod", "marker_of", "read_marker", "read_node_probes", "read_pod"]


class Pod(msgspec.Struct, frozen=True):
    """One pod as it was from `revision` on."""

    revision: int
    uid: str
    name: str
    namespace: str
    node: str
    ip: str
    is_active: bool
    is_initialized: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    conditions: Mapping[str, tuple[str, str]]
    """Status and message by type."""
    started: Mapping[str, float]
    """Running container → time of its start."""
    document: Document

    @property
    def is_probed(self) -> bool:
        """Whether its containers can be probed."""
        return self.is_active and self.is_initialized and bool(self.node)

    @property
    def rest(self) -> Document:
        """All fields that probes do not change."""
        ours = ("labels", "annotations", "resourceVersion")
        metadata = {name: value for name, value in self.document["metadata"].items() if name not in ours}
        status = {**self.document.get("status", {}), "conditions": None}
        return {**self.document, "metadata": metadata, "status": status}

    def number_of(self, port: int | str, container: str) -> int | None:
        """The number of a port of this container; None: it has no port of that name."""
        if isinstance(port, int):
            return port
        for item in self.document["spec"]["containers"]:
            for known in item.get("ports") or () if item["name"] == container else ():
                if known.get("name") == port:
                    return int(known["containerPort"])
        return int(port) if port.isdecimal() else None


class Marker(msgspec.Struct, frozen=True):
    """One version of a marker."""

    revision: int
    name: str
    is_stored: bool
    is_there: bool
    generation: int
    finalizers: Sequence[str]
    spec: Document
    status: Document

    def selects(self, pod: Pod) -> bool:
        """Whether it selects such a pod."""
        selector = self.spec["selector"]
        return (
            self.is_there
            and pod.is_probed
            and all(
                pod.labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()
            )
            and all(_holds(expression, pod.labels) for expression in selector.get("matchExpressions") or ())
        )

    def asked(self, pod: Pod) -> dict[str, tuple[str, Document]]:
        """Name of a probe on nodes → container and check. Probes whose port the pod does not have are left out."""
        result: dict[str, tuple[str, Document]] = {}
        for probe in self.spec["probes"] if self.selects(pod) else ():
            check = dict(probe["probe"])
            for handler in ("httpGet", "tcpSocket"):
                if handler in check:
                    number = pod.number_of(check[handler]["port"], probe["containerName"])
                    check[handler] = {**check[handler], "port": number}
            if not any(check.get(literal, {}).get("port", 0) is None for literal in ("httpGet", "tcpSocket")):
                result[f"{self.name}#{probe['name']}"] = probe["containerName"], check
        return result

    def probe(self, name: str) -> Document | None:
        """The probe of this name on nodes."""
        if not self.is_there:
            return None
        return next((probe for probe in self.spec["probes"] if f"{self.name}#{probe['name']}" == name), None)


def _holds(expression: Document, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case _:
            return value is None


class Entry(msgspec.Struct, frozen=True):
    """The probes of one pod."""

    namespace: str
    name: str
    ip: str
    probes: Mapping[str, tuple[str, Document]]
    """Name of a probe → container and check."""


class NodeProbes(msgspec.Struct, frozen=True):
    """One version of a NodePodProbe."""

    revision: int
    at: float
    name: str
    is_stored: bool
    is_there: bool
    entries: Mapping[str, Entry]
    """Uid of the pod → its probes."""
    states: Mapping[str, Sequence[Document]]
    """Results of its agent, by uid of the pod."""

    def probes(self) -> Iterator[tuple[str, str, tuple[str, Document]]]:
        """Every check: uid of the pod, name, container and check."""
        for uid, entry in self.entries.items():
            for name, probe in entry.probes.items():
                yield uid, name, probe

    def markers(self, namespace: str) -> set[str]:
        """Names of the markers that have a probe here."""
        return {
            marker_of(name)
            for entry in self.entries.values()
            for name in entry.probes
            if entry.namespace == namespace
        }


def marker_of(name: str) -> str:
    """The marker of a probe on a node."""
    return name.partition("#")[0]


def read_pod(commit: Commit) -> Pod:
    """The pod after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta, status = doc["metadata"], doc.get("status") or {}
    conditions = {
        condition["type"]: (condition["status"], condition.get("message") or "")
        for condition in status.get("conditions") or ()
    }
    has_ended = status.get("phase") in ("Succeeded", "Failed")
    return Pod(
        revision=commit.revision,
        uid=meta["uid"],
        name=meta["name"],
        namespace=meta["namespace"],
        node=doc["spec"].get("nodeName") or "",
        ip=status.get("podIP") or "",
        is_active=commit.new is not None and "deletionTimestamp" not in meta and not has_ended,
        is_initialized=conditions.get("Initialized", ("",))[0] == "True",
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        conditions=conditions,
        started={
            item["name"]: parse_time(item["state"]["running"]["startedAt"])
            for item in status.get("containerStatuses") or ()
            if "running" in (item.get("state") or {})
        },
        document=doc,
    )


def read_marker(commit: Commit) -> Marker:
    """The marker after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    return Marker(
        revision=commit.revision,
        name=commit.key.name,
        is_stored=commit.new is not None,
        is_there=commit.new is not None and "deletionTimestamp" not in doc["metadata"],
        generation=doc["metadata"]["generation"],
        finalizers=doc["metadata"].get("finalizers") or (),
        spec=doc["spec"],
        status=doc.get("status") or {},
    )


def read_node_probes(commit: Commit) -> NodeProbes:
    """The NodePodProbe after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    spec, status = doc.get("spec") or {}, doc.get("status") or {}
    return NodeProbes(
        revision=commit.revision,
        at=commit.at,
        name=commit.key.name,
        is_stored=commit.new is not None,
        is_there=commit.new is not None and "deletionTimestamp" not in doc["metadata"],
        entries={
            item["uid"]: Entry(
                namespace=item["namespace"],
                name=item["name"],
                ip=item["IP"],
                probes={
                    probe["name"]: (probe["containerName"], probe["probe"])
                    for probe in item.get("probes") or ()
                },
            )
            for item in spec.get("podProbes") or ()
        },
        states={item["uid"]: item.get("probeStates") or () for item in status.get("podProbeStatuses") or ()},
    )
