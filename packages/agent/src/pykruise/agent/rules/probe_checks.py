"""How the probes of a NodePodProbe stand on their node, and what is written into its status.

probe + what its container does + now ──▶ advance_check() ──▶ Check, when the next one is due
checks + stored status                ──▶ status_of()     ──▶ status to store

Pure. Rule: the node agent of OpenKruise. Who executes probes (or plays that) says in a SeenProbe what they found.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.resources import Resource

NODE_POD_PROBES: Final = Resource(
    "apps.kruise.io", "v1alpha1", "nodepodprobes", "NodePodProbe", namespaced=False
)

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
UNKNOWN: Final = "Unknown"

REPEAT_S: Final = 600.0
"""How old an outcome is at most before it is written again."""
MOST_TEXT: Final = 1024
"""Characters of a message."""

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "containerName")
"""The fields that say what the probe does, and in which container; a result of other fields does not count."""

CheckKey = tuple[str, str]
"""Uid of the pod, name of the probe."""


class NodeProbes(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePodProbe, whole."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    spec: Document
    status: Document


def project_node_probes(raw: bytes | msgspec.Raw) -> NodeProbes:
    """A NodePodProbe of its JSON text. Raises msgspec.DecodeError and KeyError for what is none."""
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
    """The newest container of a name, and what a probe of it finds now."""

    id: str
    is_running: bool
    started_at: Instant
    outcome: str = ""
    """SUCCEEDED or FAILED; empty: the probe was not made, or could not be."""
    message: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the agent about one probe."""

    handler: Document = {}
    container_id: str = ""
    outcome: str = ""
    """The latest, and how often in a row."""
    count: int = 0
    made_at: Instant | None = None
    state: str = ""
    """As it is said; empty: nothing yet."""
    message: str = ""
    said_at: Instant = 0.0


def rules_of(probe: Mapping[str, Any]) -> Document:
    """Settings of a check: the fields of the core Probe of a NodePodProbe's probe, and its container."""
    return {**(probe.get("probe") or {}), "containerName": probe["containerName"]}


def due_at(probe: Mapping[str, Any], check: Check | None) -> Instant:
    """When the next check is to be made; 0: at once."""
    if check is None or check.made_at is None:
        return 0.0
    return check.made_at + _seconds(probe, "periodSeconds")


def advance_check(
    probe: Mapping[str, Any], before: Check | None, seen: SeenProbe | None, now: Instant
) -> Check:
    """The check after this instant. `probe`: see `rules_of`. Before it is due nothing changes."""
    check = with_handler(probe, before)
    if due_at(probe, check) > now:
        return check
    check = msgspec.structs.replace(check, made_at=now)
    if seen is None:
        return check
    if seen.id != check.container_id:
        is_other = bool(check.container_id)
        check = msgspec.structs.replace(check, container_id=seen.id, outcome="", count=0)
        if is_other:
            return _said(check, UNKNOWN, "", now)
    if not seen.is_running:
        return _said(check, FAILED, seen.message, now)
    if _is_early(probe, seen, now) or not seen.outcome:
        return check
    count = check.count + 1 if check.outcome == seen.outcome else 1
    check = msgspec.structs.replace(check, outcome=seen.outcome, count=count)
    limit = "successThreshold" if seen.outcome == SUCCEEDED else "failureThreshold"
    return _said(check, seen.outcome, seen.message, now) if count >= _seconds(probe, limit) else check


def needs_probe(probe: Mapping[str, Any], before: Check | None, seen: SeenProbe | None, now: Instant) -> bool:
    """Whether the probe has to be made now, in a container that runs and has had its time to start."""
    if seen is None or not seen.is_running or due_at(probe, with_handler(probe, before)) > now:
        return False
    is_other = before is not None and before.container_id not in ("", seen.id)
    return not is_other and not _is_early(probe, seen, now)


def timeout_s(probe: Mapping[str, Any]) -> float:
    """How long one probe may take."""
    return float(_seconds(probe, "timeoutSeconds"))


def period_s(probe: Mapping[str, Any]) -> float:
    """How long from probe to probe."""
    return float(_seconds(probe, "periodSeconds"))


def _is_early(probe: Mapping[str, Any], seen: SeenProbe, now: Instant) -> bool:
    return now - seen.started_at < _seconds(probe, "initialDelaySeconds")


def _seconds(probe: Mapping[str, Any], field: str) -> int:
    return max(int(probe.get(field) or 0), 1)


def with_handler(probe: Mapping[str, Any], before: Check | None) -> Check:
    """The check with another handler; results of the old handler no longer count."""
    handler = {name: probe[name] for name in _HANDLERS if probe.get(name) is not None}
    if before is None:
        return Check(handler=handler)
    if before.handler == handler:
        return before
    return Check(
        handler=handler,
        container_id=before.container_id,
        state=UNKNOWN if before.state else "",
        said_at=before.said_at,
    )


def _said(check: Check, state: str, message: str, now: Instant) -> Check:
    text = message[:MOST_TEXT]
    if (check.state, check.message) == (state, text) and now - check.said_at < REPEAT_S:
        return check
    return msgspec.structs.replace(check, state=state, message=text, said_at=now)


# ── the status ───────────────────────────────────────────────────────────────


def checks_in(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Every pod with every probe of it."""
    for pod in spec.get("podProbes") or ():
        for probe in pod.get("probes") or ():
            yield pod, probe


def status_of(
    spec: Mapping[str, Any], stored: Mapping[str, Any], checks: Mapping[CheckKey, Check], now: Instant
) -> Document:
    """The status: states of what is still asked for, in the order in which they came."""
    before = {status.get("uid"): status for status in stored.get("podProbeStatuses") or ()}
    pods = []
    for pod in spec.get("podProbes") or ():
        known = {state["name"]: state for state in (before.get(pod["uid"]) or {}).get("probeStates") or ()}
        names = [probe["name"] for probe in pod.get("probes") or ()]
        order = [*(name for name in known if name in names), *(name for name in names if name not in known)]
        states = list(_states(pod["uid"], order, known, checks, now))
        if states:
            identity = {field: pod[field] for field in ("name", "namespace", "uid")}
            pods.append({**identity, "probeStates": states})
    return {"podProbeStatuses": pods} if pods else {}


def _states(
    uid: str,
    names: Sequence[str],
    known: Mapping[str, Document],
    checks: Mapping[CheckKey, Check],
    now: Instant,
) -> Iterator[Document]:
    for name in names:
        check, before = checks.get((uid, name)), known.get(name)
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


# ── messages for people ──────────────────────────────────────────────────────


class ProbeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An Event at a pod."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str


def events_of(
    spec: Mapping[str, Any], before: Mapping[CheckKey, Check], after: Mapping[CheckKey, Check]
) -> Iterator[ProbeEvent]:
    """One for each probe that says something else than before."""
    for pod, probe in checks_in(spec):
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
