"""Progress of a ContainerRecreateRequest on its node, and its next step.

request + containers of the pod on the node + now ──▶ advance() ──▶ RecreateTurn: states, a container to stop, the end

Pure. The rules are those of OpenKruise's node agent. A turn stops at most one container, and the state is written after
the stop. If an agent is killed between the two steps, the next agent checks the container. If the container still runs,
the agent stops it again, so its preStop hook runs twice. If it has ended or has another id, the agent stops it again
only with forceRecreate.

Clients may rely on exactly the states that OpenKruise's agent writes. Therefore a state has a message only if the
container is not found or could not be stopped.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode, get_path, labels_of
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource

_PHASES: Final = ("Completed", "Recreating", "Pending")
NOT_FOUND: Final = "not found container on Node"
DEFAULT_GRACE_S: Final = 30

REQUESTS: Final = Resource(
    "apps.kruise.io", "v1beta1", "containerrecreaterequests", "ContainerRecreateRequest"
)
POD_UID_LABEL: Final = "crr.apps.kruise.io/pod-uid"
_READ_METADATA: Final = (
    "namespace",
    "name",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
)


class RecreateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `document` contains its spec, its status, and only the metadata that the rules read, because users can
    make labels and annotations large.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int
    document: Document

    @property
    def pod(self) -> Key:
        return Key(self.namespace, get_path(self.document, "spec", "podName", default=""))

    @property
    def pod_uid(self) -> str:
        return labels_of(self.document).get(POD_UID_LABEL, "")


def project_request(raw: bytes | msgspec.Raw) -> RecreateRequest:
    """Return the request of a JSON text. Raises msgspec.DecodeError and KeyError for an invalid one."""
    document = decode(raw)
    metadata = document["metadata"]
    document["metadata"] = {
        **{name: metadata[name] for name in _READ_METADATA if name in metadata},
        "labels": {POD_UID_LABEL: labels_of(document).get(POD_UID_LABEL, "")},
    }
    return RecreateRequest(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        document=document,
    )


class OnNode(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of the pod's containers with the same name, as the runtime reports it."""

    id: str
    restart_count: int
    is_running: bool
    started_at: Instant


class RecreateTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Steps to take now. If a container must be stopped, `states` are the states after it was stopped."""

    states: Sequence[Document] = ()
    stop: str = ""
    """Name of the container to stop; empty if no container must be stopped."""
    is_over: bool = False
    again_s: float | None = None
    """Seconds after which the result may change although no object or container has changed."""


def order_of(request: Mapping[str, Any]) -> tuple[int, str, str]:
    """Return the sort key of a request: requests for one pod are executed in this order, one at a time."""
    phase = get_path(request, "status", "phase", default="")
    place = _PHASES.index(phase) if phase in _PHASES else len(_PHASES)
    metadata = request["metadata"]
    return place, metadata.get("creationTimestamp") or "", metadata["name"]


def is_over(request: Mapping[str, Any]) -> bool:
    """Whether the request needs no more steps."""
    ended = get_path(request, "status", "completionTime")
    return bool(ended or get_path(request, "metadata", "deletionTimestamp"))


def compute_grace_left_s(request: Mapping[str, Any], now: Instant) -> float | None:
    """Return the seconds until containers may be stopped; None if the pod must first be taken out of service."""
    grace = get_path(request, "spec", "strategy", "unreadyGracePeriodSeconds")
    if grace is None:
        return 0.0
    for condition in get_path(request, "status", "conditions", default=()):
        if condition.get("type") == "PreRecreateGrace" and condition.get("status") == "True":
            return float(grace) - (now - parse_time(condition["lastTransitionTime"]))
    return None


def advance(request: Mapping[str, Any], containers: Mapping[str, OnNode], now: Instant) -> RecreateTurn:
    """Return the next turn for a request in phase Recreating."""
    strategy = get_path(request, "spec", "strategy", default={})
    stored = get_path(request, "status", "containerRecreateStates", default=[])
    known = {item["name"]: item for item in stored}
    states = [
        _build_state(container, known, containers, request, now)
        for container in request["spec"]["containers"]
    ]
    if states != stored:
        return RecreateTurn(states=states)
    ended = 0
    for index, state in enumerate(states):
        match state["phase"]:
            case "Succeeded":
                ended += 1
            case "Failed":
                ended += 1
                if strategy.get("failurePolicy") != "Ignore":
                    return RecreateTurn(states=states, is_over=True)
            case "Recreating" if strategy.get("orderedRecreate"):
                break
            case "Recreating":
                continue
            case _:
                if state["name"] not in containers:
                    break
                states[index] = {"name": state["name"], "phase": "Recreating", "isKilled": True}
                return RecreateTurn(states=states, stop=state["name"])
    least_s = strategy.get("minStartedSeconds") or 0
    return RecreateTurn(
        states=states, is_over=ended == len(states), again_s=float(least_s) if least_s else None
    )


def record_failed_stop(turn: RecreateTurn, message: str) -> RecreateTurn:
    """Return the turn with the state Failed for its container, which could not be stopped."""
    states = [
        {"name": state["name"], "phase": "Failed", "message": message}
        if state["name"] == turn.stop
        else state
        for state in turn.states
    ]
    return msgspec.structs.replace(turn, states=states, stop="")


def stop_grace_s(request: Mapping[str, Any]) -> int:
    """Return the seconds that a container has to terminate before it is killed."""
    result = get_path(request, "spec", "strategy", "terminationGracePeriodSeconds")
    return DEFAULT_GRACE_S if result is None else int(result)


def _build_state(
    target: Mapping[str, Any],
    known: Mapping[str, Document],
    containers: Mapping[str, OnNode],
    request: Mapping[str, Any],
    now: Instant,
) -> Document:
    name = target["name"]
    before = known.get(name) or {"name": name, "phase": "Pending"}
    if before["phase"] in ("Succeeded", "Failed"):
        return before
    killed = {"isKilled": True} if before.get("isKilled") else {}
    on_node = containers.get(name)
    if on_node is None:
        return {"name": name, "phase": "Pending", "message": NOT_FOUND, **killed}
    if not on_node.is_running:
        return {"name": name, "phase": "Recreating", **killed}
    strategy = get_path(request, "spec", "strategy", default={})
    if strategy.get("forceRecreate") and not killed:
        return {"name": name, "phase": "Pending"}
    context = target.get("statusContext") or {}
    is_new = on_node.id != context.get("containerID") or on_node.restart_count > context.get(
        "restartCount", 0
    )
    if not is_new:
        return {"name": name, "phase": "Pending", **killed}
    least_s = float(strategy.get("minStartedSeconds") or 0)
    # If minStartedSeconds is 0, the start itself is enough, because nothing would requeue the request later.
    has_run = not least_s or now - on_node.started_at > least_s
    if not (has_run and _is_ready(request, name, on_node.id)):
        return {"name": name, "phase": "Recreating", **killed}
    return {"name": name, "phase": "Succeeded", **killed}


def _is_ready(request: Mapping[str, Any], name: str, container_id: str) -> bool:
    """Whether the controller has recorded that the container with exactly this id is ready."""
    snapshot = get_path(request, "status", "containerStatusSnapshot", default=())
    return any(
        item.get("name") == name and item.get("containerID") == container_id and item.get("ready")
        for item in snapshot
    )
