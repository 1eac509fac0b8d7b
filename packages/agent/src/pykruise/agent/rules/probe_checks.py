"""State of the probes that a NodePodProbe requests on its node, and the status that reports this state.

probe + state of its container + now ──▶ advance_check() ──▶ Check, time of the next one
checks + stored status               ──▶ status_of()     ──▶ status to store

Pure. The rules are those of OpenKruise's node agent. The code that runs (or simulates) probes passes their results as a
SeenProbe.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time, parse_optional_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.resources import Resource

NODE_POD_PROBES: Final = Resource(
    "apps.kruise.io", "v1alpha1", "nodepodprobes", "NodePodProbe", namespaced=False
)

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
UNKNOWN: Final = "Unknown"

REPEAT_S: Final = 600.0
"""Seconds after which an unchanged outcome is written again."""
MOST_TEXT: Final = 1024
"""Maximum number of characters of a message."""

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "containerName")
"""Fields that define the probe's action and container. When one of them changes, earlier results are invalid."""

CheckKey = tuple[str, str]
"""The uid of the pod, and the name of the probe."""


class NodeProbes(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a NodePodProbe that its node's agent uses."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    spec: Document
    status: Document


def project_node_probes(raw: bytes | msgspec.Raw) -> NodeProbes:
    """Return the NodePodProbe of a JSON text. Raises msgspec.DecodeError and KeyError for an invalid one."""
    document = decode(raw)
    metadata = document["metadata"]
    return NodeProbes(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        spec=document.get("spec") or {},
        status=document.get("status") or {},
    )


class SeenProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of the pod's containers with the name that the probe gives, and the current result of the probe."""

    id: str
    is_running: bool
    started_at: Instant
    outcome: str = ""
    """SUCCEEDED or FAILED; empty if the probe was not run or could not run."""
    message: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The data that the agent remembers about one probe."""

    handler: Document = {}
    container_id: str = ""
    started_at: Instant = 0.0
    """The time at which the container started."""
    outcome: str = ""
    """The latest outcome; `count` is the number of consecutive checks with this outcome."""
    count: int = 0
    made_at: Instant | None = None
    state: str = ""
    """The reported state; empty if no state was reported yet."""
    message: str = ""
    said_at: Instant = 0.0


def rules_of(probe: Mapping[str, Any]) -> Document:
    """Return the settings of a check: the fields of the core Probe of a NodePodProbe's probe, and its container."""
    return {**(probe.get("probe") or {}), "containerName": probe["containerName"]}


def compute_due_time(probe: Mapping[str, Any], check: Check | None, now: Instant) -> Instant:
    """Return the time of the next check; 0 if it is the first, or if the clock was set back after the last check."""
    if check is None or check.made_at is None or check.made_at > now:
        return 0.0
    return check.made_at + _read_seconds(probe, "periodSeconds")


def advance_check(
    probe: Mapping[str, Any], before: Check | None, seen: SeenProbe | None, now: Instant
) -> Check:
    """Return the check after the step that is due at `now`. If no step is due, only a change of the handler changes the
    check. `probe`: see `rules_of`.
    """
    check = replace_handler(probe, before)
    if compute_due_time(probe, check, now) > now:
        return check
    check = msgspec.structs.replace(check, made_at=now)
    if seen is None:
        return check
    if seen.id != check.container_id:
        if check.container_id:
            check = _set_state(check, UNKNOWN, "", now)
        check = msgspec.structs.replace(
            check, container_id=seen.id, started_at=seen.started_at, outcome="", count=0
        )
    if not seen.is_running:
        return _set_state(check, FAILED, seen.message, now)
    if _is_early(probe, seen, now) or not seen.outcome:
        return check
    count = check.count + 1 if check.outcome == seen.outcome else 1
    check = msgspec.structs.replace(check, outcome=seen.outcome, count=count)
    limit = "successThreshold" if seen.outcome == SUCCEEDED else "failureThreshold"
    return (
        _set_state(check, seen.outcome, seen.message, now) if count >= _read_seconds(probe, limit) else check
    )


def needs_probe(probe: Mapping[str, Any], before: Check | None, seen: SeenProbe | None, now: Instant) -> bool:
    """Whether the probe must run now, in a container that runs and has passed its initial delay."""
    if seen is None or not seen.is_running:
        return False
    if compute_due_time(probe, replace_handler(probe, before), now) > now:
        return False
    return not _is_early(probe, seen, now)


def read_timeout_s(probe: Mapping[str, Any]) -> float:
    """Return the time limit of one probe."""
    return float(_read_seconds(probe, "timeoutSeconds"))


def read_period_s(probe: Mapping[str, Any]) -> float:
    """Return the seconds between two probes."""
    return float(_read_seconds(probe, "periodSeconds"))


def _is_early(probe: Mapping[str, Any], seen: SeenProbe, now: Instant) -> bool:
    return now - seen.started_at < _read_seconds(probe, "initialDelaySeconds")


def _read_seconds(probe: Mapping[str, Any], field: str) -> int:
    return max(int(probe.get(field) or 0), 1)


def replace_handler(probe: Mapping[str, Any], before: Check | None) -> Check:
    """Return the check with the current handler. If the handler has changed, earlier results are dropped."""
    handler = {name: probe[name] for name in _HANDLERS if probe.get(name) is not None}
    if before is None:
        return Check(handler=handler)
    if before.handler == handler:
        return before
    return Check(
        handler=handler,
        container_id=before.container_id,
        started_at=before.started_at,
        state=UNKNOWN if before.state else "",
        said_at=before.said_at,
    )


def _set_state(check: Check, state: str, message: str, now: Instant) -> Check:
    text = message[:MOST_TEXT]
    if (check.state, check.message) == (state, text) and 0 <= now - check.said_at < REPEAT_S:
        return check
    return msgspec.structs.replace(check, state=state, message=text, said_at=now)


# ── the status ───────────────────────────────────────────────────────────────


def iterate_checks(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield every pod with each of its probes."""
    for pod in spec.get("podProbes") or ():
        for probe in pod.get("probes") or ():
            yield pod, probe


def status_of(
    spec: Mapping[str, Any], stored: Mapping[str, Any], checks: Mapping[CheckKey, Check], now: Instant
) -> Document:
    """Return the status: states of the requested probes, in the order in which they were first reported."""
    before = {status.get("uid"): status for status in stored.get("podProbeStatuses") or ()}
    pods = []
    for pod in spec.get("podProbes") or ():
        known = {state["name"]: state for state in (before.get(pod["uid"]) or {}).get("probeStates") or ()}
        names = [probe["name"] for probe in pod.get("probes") or ()]
        order = [*(name for name in known if name in names), *(name for name in names if name not in known)]
        states = list(_build_states(pod["uid"], order, known, checks, now))
        if states:
            identity = {field: pod[field] for field in ("name", "namespace", "uid")}
            pods.append({**identity, "probeStates": states})
    return {"podProbeStatuses": pods} if pods else {}


def _build_states(
    uid: str,
    names: Sequence[str],
    known: Mapping[str, Document],
    checks: Mapping[CheckKey, Check],
    now: Instant,
) -> Iterator[Document]:
    for name in names:
        check, before = checks.get((uid, name)), known.get(name)
        if check is not None and not check.state and _is_outdated(before, check):
            check = msgspec.structs.replace(check, state=UNKNOWN, said_at=now)
        if check is None or not check.state:
            if before is not None:
                yield before
            continue
        is_same = before is not None and before.get("state") == check.state
        since = before.get("lastTransitionTime") if before is not None and is_same else None
        yield {
            "name": name,
            "state": check.state,
            "lastProbeTime": format_time(check.said_at),
            "lastTransitionTime": since or format_time(now),
            **({"message": check.message} if check.message else {}),
        }


def _is_outdated(stored: Document | None, check: Check) -> bool:
    """Whether the check has a container, and the stored state is missing or of an earlier container."""
    if not check.container_id or stored is None:
        return bool(check.container_id)
    probed_at = parse_optional_time(stored.get("lastProbeTime"))
    return probed_at is not None and probed_at < int(check.started_at)


# ── messages for people ──────────────────────────────────────────────────────


class ProbeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An Event for a pod."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str


def events_of(
    spec: Mapping[str, Any], before: Mapping[CheckKey, Check], after: Mapping[CheckKey, Check]
) -> Iterator[ProbeEvent]:
    """Yield an event for each probe whose state has changed."""
    for pod, probe in iterate_checks(spec):
        name = pod["uid"], probe["name"]
        old, new = before.get(name), after.get(name)
        if new is None or not new.state or (old is not None and old.state == new.state):
            continue
        yield ProbeEvent(
            namespace=pod["namespace"],
            name=pod["name"],
            uid=pod["uid"],
            reason="KruiseProbeSucceeded" if new.state == SUCCEEDED else "KruiseProbeFailed",
            message=new.message or f"probe {probe['name']}: {new.state}",
        )
