"""Pods and ContainerRecreateRequests for their rules, decoded without the product's views.

Commit ──▶ read_pod() ──▶ Pod          Commit ──▶ read_request() ──▶ Request
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.testing.simulation.history import Commit

__all__ = [
    "ACTIVE",
    "FINALIZER",
    "NODE_NAME",
    "OWN",
    "POD_UID",
    "Pod",
    "Request",
    "Run",
    "read_pod",
    "read_request",
]

PREFIX = "crr.apps.kruise.io/"
FINALIZER, ACTIVE = f"{PREFIX}unready-acquired", f"{PREFIX}active"
POD_UID, NODE_NAME = f"{PREFIX}pod-uid", f"{PREFIX}node-name"
GATE = "KruisePodReady"
OWN = "ContainerRecreateRequest"
"""Name under which requests keep pods out of service."""
STOPPED = 137
"""The exit code of a container that an agent has stopped."""


class Run(msgspec.Struct, frozen=True):
    """The current run of one container, as the kubelet reports it."""

    id: str
    restarts: int
    is_ready: bool
    started_at: float | None
    """None: it is not running."""
    stopped: Mapping[str, float]
    """Id of a run → the time at which it ended, for those of the last two runs that an agent has stopped."""


class Pod(msgspec.Struct, frozen=True):
    """One pod as it was from `revision` on."""

    revision: int
    at: float
    uid: str
    name: str
    is_stored: bool
    is_there: bool
    """Neither deleted nor terminating."""
    is_gated: bool
    runs: Mapping[str, Run]
    holders: Sequence[tuple[str, str]]
    """The requests that keep it out of service."""
    gate: str
    """Status of the condition that all these requests share; empty: there is none."""
    document: Document

    @property
    def rest(self) -> Document:
        """All fields that holding the pod does not change."""
        status = {**self.document.get("status", {})}
        status["conditions"] = [
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] not in (GATE, "Ready")
        ]
        metadata = {
            name: value for name, value in self.document["metadata"].items() if name != "resourceVersion"
        }
        return {**self.document, "metadata": metadata, "status": status}


class Request(msgspec.Struct, frozen=True):
    """One version of a request. `revision` is the API server's."""

    revision: int
    at: float
    uid: str
    key: str
    """Namespace and name."""
    is_stored: bool
    is_there: bool
    created: float
    labels: Mapping[str, str]
    finalizers: Sequence[str]
    spec: Document
    status: Document

    @property
    def pod_uid(self) -> str:
        """Uid of the pod whose containers it recreates."""
        return self.labels.get(POD_UID, "")

    @property
    def phase(self) -> str:
        """Phase in the status; empty: no agent has begun."""
        return str(self.status.get("phase") or "")

    @property
    def is_over(self) -> bool:
        """Whether nothing more is done."""
        return bool(self.status.get("completionTime"))

    @property
    def is_open(self) -> bool:
        """Whether something is still to be done."""
        return self.is_there and not self.is_over

    @property
    def is_carried_out(self) -> bool:
        """Whether its agent is at work on it."""
        return self.is_open and self.phase == "Recreating"

    @property
    def end(self) -> tuple[Any, ...]:
        """Reported end of the request."""
        return tuple(self.status.get(name) for name in ("phase", "completionTime", "message"))

    @property
    def names(self) -> list[str]:
        """Names of its containers."""
        return [container["name"] for container in self.spec["containers"]]

    @property
    def contexts(self) -> Mapping[str, tuple[str, int]]:
        """Id and restarts of each container at the time of the request."""
        contexts = {
            container["name"]: container["statusContext"]
            for container in self.spec["containers"]
            if "statusContext" in container
        }
        return {name: (value["containerID"], value["restartCount"]) for name, value in contexts.items()}

    @property
    def states(self) -> Mapping[str, str]:
        """Container → phase of its recreation."""
        return {state["name"]: state["phase"] for state in self.status.get("containerRecreateStates") or ()}

    @property
    def killed(self) -> set[str]:
        """Containers that an agent reports as stopped; one may have ended just before."""
        return {
            state["name"]
            for state in self.status.get("containerRecreateStates") or ()
            if state.get("isKilled")
        }

    @property
    def mirror(self) -> Sequence[Document]:
        """Containers that the manager has reported to the agent."""
        return self.status.get("containerStatusSnapshot") or ()

    @property
    def strategy(self) -> Document:
        """Strategy of the recreation."""
        return self.spec.get("strategy") or {}

    @property
    def grace(self) -> float | None:
        """Time for which the pod is out of service before a container is stopped; None: it serves until then."""
        return self.strategy.get("unreadyGracePeriodSeconds")

    @property
    def held_since(self) -> float | None:
        """Time at which the grace period begins; None: it has not begun."""
        for condition in self.status.get("conditions") or ():
            if condition["type"] == "PreRecreateGrace" and condition["status"] == "True":
                return parse_time(condition["lastTransitionTime"])
        return None

    @property
    def deadline(self) -> float:
        """Time at which it fails; infinite: there is none."""
        seconds = self.spec.get("activeDeadlineSeconds")
        return float("inf") if seconds is None else self.created + seconds

    @property
    def gone_after(self) -> float:
        """Time at which it must be deleted; infinite: never, or it has not ended."""
        seconds = self.spec.get("ttlSecondsAfterFinished")
        if seconds is None or not self.is_over:
            return float("inf")
        return parse_time(self.status["completionTime"]) + seconds

    def is_new(self, name: str, run: Run) -> bool:
        """Whether a container runs, in another run than at the time of the request."""
        id_, restarts = self.contexts[name]
        return run.started_at is not None and (run.id != id_ or run.restarts > restarts)


def read_request(commit: Commit) -> Request:
    """The request after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta = doc["metadata"]
    return Request(
        revision=commit.revision,
        at=commit.at,
        uid=meta["uid"],
        key=f"{commit.key.namespace}/{commit.key.name}",
        is_stored=commit.new is not None,
        is_there=commit.new is not None and "deletionTimestamp" not in meta,
        created=parse_time(meta["creationTimestamp"]),
        labels=meta.get("labels") or {},
        finalizers=meta.get("finalizers") or (),
        spec=doc["spec"],
        status=doc.get("status") or {},
    )


def read_pod(commit: Commit) -> Pod:
    """The pod after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta, spec, status = doc["metadata"], doc["spec"], doc.get("status") or {}
    gate = next((condition for condition in status.get("conditions") or () if condition["type"] == GATE), {})
    holders = json.loads(gate.get("message") or "[]")
    return Pod(
        revision=commit.revision,
        at=commit.at,
        uid=meta["uid"],
        name=meta["name"],
        is_stored=commit.new is not None,
        is_there=commit.new is not None and "deletionTimestamp" not in meta,
        is_gated=any(gate["conditionType"] == GATE for gate in spec.get("readinessGates") or ()),
        runs={item["name"]: _read_run(item) for item in status.get("containerStatuses") or ()},
        holders=[(holder["userAgent"], holder["key"]) for holder in holders],
        gate=gate.get("status", ""),
        document=doc,
    )


def _read_run(status: Document) -> Run:
    state = status.get("state") or {}
    ends = [state.get("terminated"), (status.get("lastState") or {}).get("terminated")]
    return Run(
        id=status.get("containerID") or "",
        restarts=status.get("restartCount", 0),
        is_ready=bool(status.get("ready")),
        started_at=parse_time(state["running"]["startedAt"]) if "running" in state else None,
        stopped={
            end["containerID"]: parse_time(end["finishedAt"])
            for end in ends
            if end and end["exitCode"] == STOPPED
        },
    )
