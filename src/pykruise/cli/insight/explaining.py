"""The state of a rollout in words: what is done, what is waited for, what comes next, what a person can do.

Sight + Plan ──▶ explain() ──▶ Explanation ──▶ text() for people, JSON for programs

Pure. Reasons come from two places: the plan says why it leaves each pod alone, the pods say why they do not
serve. The first wait is the cause; waits that only follow from it (a budget used up, a turn) come after it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.causes import Cause, cause_of
from pykruise.cli.insight.look import Sight
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.plans.plan import Plan, Step
from pykruise.pods.availability import next_available_at
from pykruise.pods.views import PodView

__all__ = ["Explanation", "Wait", "explain", "text"]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """One reason, for all pods that share it. No pods: it is about the whole workload."""

    code: str
    words: str
    pods: tuple[str, ...] = ()
    since: str = ""
    remedy: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `pykruise explain` says."""

    kind: str
    namespace: str
    name: str
    verdict: str
    """done, moving, waiting, paused, refused or terminating."""
    headline: str
    done: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    """The cause first."""
    next: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """Code of the first wait; empty: nothing is waited for."""
        return self.waits[0].code if self.waits else ""


_RANKS: Final = (
    ("Refused", "Terminating set", "NoManager", "Quota", "Webhook", "Forbidden", "WriteFailed"),
    ("NodeLost", "Finalizer", "ImagePull", "Crash", "ContainerConfig", "Unschedulable", "SchedulingGated"),
    ("ReadinessGate", "Readiness", "BrokenUpdate", "NotInPlace", "Hook"),
    ("InPlaceUpdate", "Starting", "Scheduling", "MinReady", "ClaimsInUse", "Terminating", "ScaleLimit"),
    (
        "Paused",
        "OnDelete",
        "Budget",
        "Turn",
        "Specified",
        "Partition",
        "Other",
        "Claims",
        "Orphan",
        "Deadline",
    ),
)
_ORDER: Final = {code: number for number, code in enumerate(code for rank in _RANKS for code in rank)}

_NOT_WRITTEN: Final = frozenset({"NoManager", "Quota", "Webhook", "Forbidden", "WriteFailed"})

_LEFT: Final = (
    ("updates are paused", "Paused", "resume: set spec.updateStrategy.rollingUpdate.paused to false"),
    (
        "OnDelete",
        "OnDelete",
        "delete the pods to have them replaced, or set updateStrategy.type to RollingUpdate",
    ),
    ("the partition keeps", "Partition", "lower spec.updateStrategy.rollingUpdate.partition to go on"),
    ("waits for its turn: maxUnavailable", "Budget", "wait, or raise maxUnavailable or maxSurge"),
    ("waits for its turn", "Turn", ""),
    ("marked to be recreated", "Turn", ""),
    ("waits until the preDelete hook", "Hook", "the hook's owner takes its label or finalizer off the pod"),
    (
        "waits until the inPlaceUpdate hook",
        "Hook",
        "the hook's owner takes its label or finalizer off the pod",
    ),
    ("waits for the inPlaceUpdate hook", "Hook", "the hook's owner puts it on the pod again"),
    ("waits for the preNormal hook", "Hook", "the hook's owner puts it on the pod"),
    ("waits for a node", "Scheduling", ""),
    (
        "cannot be updated in place",
        "NotInPlace",
        "set podUpdatePolicy to InPlaceIfPossible, or undo the change",
    ),
    ("its lifecycle state", "BrokenUpdate", "correct the pod's label lifecycle.apps.kruise.io/state"),
    ("its update in place cannot go on", "BrokenUpdate", "correct the annotation, or delete the pod"),
    ("its update in place is under way", "InPlaceUpdate", ""),
    ("its last update in place", "InPlaceUpdate", ""),
    ("specified for deletion; its successor", "Specified", ""),
    ("terminates; a pod of the same name", "ClaimsInUse", ""),
    (
        "keeps its claims",
        "Claims",
        "recreate the pods (label apps.kruise.io/specified-delete) to have new ones",
    ),
    ("matches spec.selector, but has no owner", "Orphan", "delete it, or give it other labels"),
)
"""How the plan's reasons begin → code and what a person can do."""


def explain(sight: Sight, plan: Plan) -> Explanation:
    """What is going on with the workload that `plan` was made for, from the same snapshot."""
    snapshot = sight.snapshot
    now = snapshot.now
    meta = sight.document["metadata"]
    status: Mapping[str, Any] = plan.status if plan.status is not None else sight.document.get("status") or {}
    waits = sorted(_merged(_waits(sight, plan, status, now)), key=lambda wait: _ORDER.get(wait.code, 99))
    return Explanation(
        kind=str(sight.document["kind"]),
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        verdict=_verdict(waits, plan, sight.document),
        headline=_headline(sight.document, status),
        done=tuple(_done(sight, status)),
        waits=tuple(waits),
        next=tuple(_next(plan, waits)),
    )


def _headline(document: Document, status: Mapping[str, Any]) -> str:
    wanted = document["spec"].get("replicas", 1)
    revision = status.get("updateRevision") or "its first revision"
    expected = status.get("expectedUpdatedReplicas", 0)
    goal = f"{expected} of {wanted}" if expected != wanted else f"all {wanted}"
    return (
        f"{status.get('updatedReplicas', 0)} pods are of {revision} (wanted: {goal}), "
        f"{status.get('availableReplicas', 0)} of {wanted} available"
    )


def _verdict(waits: Sequence[Wait], plan: Plan, document: Document) -> str:
    codes = {wait.code for wait in waits}
    if "deletionTimestamp" in document["metadata"]:
        return "terminating"
    if "Refused" in codes:
        return "refused"
    if codes & _NOT_WRITTEN:
        return "waiting"  # what comes next is tried, or would be, but does not come about
    if any(stage.name != "tidy up" for stage in plan.stages):
        return "moving"
    if codes - {"Partition", "Claims", "Orphan", "OnDelete", "Paused", "Deadline"}:
        return "waiting"
    if codes & {"Paused"}:
        return "paused"
    return "done"


def _done(sight: Sight, status: Mapping[str, Any]) -> Iterator[str]:
    target = str(status.get("updateRevision") or "").rpartition("-")[2]
    new = [pod for pod in sight.snapshot.pods if pod.is_active and pod.revision == target and target]
    serving = [pod for pod in new if pod.is_serving]
    if new:
        yield f"{len(new)} pods are of {status.get('updateRevision')}, {len(serving)} of them serve"


# Waits


def _waits(sight: Sight, plan: Plan, status: Mapping[str, Any], now: Instant) -> Iterator[Wait]:
    yield from _of_the_set(sight, plan, status)
    written = {chain.subject for stage in plan.stages for chain in stage.chains}
    down: list[str] = []
    for pod in sight.snapshot.pods:
        cause = cause_of(sight.pods[pod.name], lost_nodes=sight.lost_nodes)
        if cause is None:
            cause = _not_yet_available(pod, sight, now)
        if cause is not None and (pod.is_active or pod.is_deleting):
            if pod.is_active:
                down.append(pod.name)
            if not (pod.name in written and cause.code in ("Starting", "Scheduling")):
                yield _wait(cause, pod.name)
        elif pod.is_active and not pod.is_serving:
            down.append(pod.name)
    for name, reason in plan.left.items():
        if _is_said_better(sight, name, reason):
            continue
        yield _left(name, reason, down)


def _of_the_set(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> Iterator[Wait]:
    meta = sight.document["metadata"]
    if "deletionTimestamp" in meta:
        held = [name for name in meta.get("finalizers") or () if name != "foregroundDeletion"]
        words = f"it is being deleted; {len(sight.pods)} pods are left"
        words += f"; finalizer {', '.join(held)} holds it" if held else ""
        yield Wait(code="Terminating set", words=words, since=meta["deletionTimestamp"])
        return
    stored = sight.document.get("status") or {}
    if stored.get("observedGeneration", 0) != meta.get("generation", 0):
        yield Wait(
            code="NoManager",
            words=f"no manager has taken up its latest change yet (generation {meta.get('generation')}, "
            f"observed {stored.get('observedGeneration', 0)})",
            remedy="if this lasts: is the manager running, and is it the leader? (pykruise doctor)",
        )
    yield from _conditions(status)
    for note in plan.notes:
        if note.reason == "ScaleUpLimited":
            yield Wait(
                code="ScaleLimit",
                words=note.message,
                remedy="wait for pods to become available, or raise scaleStrategy.maxUnavailable",
            )


def _conditions(status: Mapping[str, Any]) -> Iterator[Wait]:
    for one in status.get("conditions") or ():
        message, since = str(one.get("message") or ""), one.get("lastTransitionTime") or ""
        if one.get("type") in ("FailedScale", "FailedUpdate") and one.get("status") == "True":
            code, remedy = _failure(one.get("reason") or "", message)
            if code not in ("NotInPlace", "BrokenUpdate"):  # its pods say it themselves
                yield Wait(code=code, words=message, since=since, remedy=remedy)
        elif one.get("reason") == "ProgressDeadlineExceeded":
            words = f"no progress within progressDeadlineSeconds: {message}"
            yield Wait(code="Deadline", words=words, since=one.get("lastUpdateTime") or since)


def _failure(reason: str, message: str) -> tuple[str, str]:
    if reason in ("CannotUpdate", "BrokenUpdateState"):
        return ("NotInPlace" if reason == "CannotUpdate" else "BrokenUpdate"), ""
    if reason == "WriteFailed":  # the message ends with the remedy
        codes = (("exceeded quota", "Quota"), ("webhook", "Webhook"), ("forbidden", "Forbidden"))
        return next((code for words, code in codes if words in message), "WriteFailed"), ""
    return "Refused", "correct the field that the message names; nothing is touched until then"


def _not_yet_available(pod: PodView, sight: Sight, now: Instant) -> Cause | None:
    spec = sight.snapshot.cloneset.spec
    if spec is None or not pod.is_serving or spec.min_ready_seconds <= 0:
        return None
    at = next_available_at([pod], min_ready_seconds=spec.min_ready_seconds, now=now)
    if at is None:
        return None
    words = (
        f"ready, and counts as available from {format_time(at)} on (minReadySeconds {spec.min_ready_seconds})"
    )
    return Cause(code="MinReady", words=words, since=pod.ready_since)


def _is_said_better(sight: Sight, name: str, reason: str) -> bool:
    """Whether the pod itself says why it waits: that it has no node, for one."""
    if name not in sight.pods:
        return False
    cause = cause_of(sight.pods[name], lost_nodes=sight.lost_nodes)
    vague = ("waits for a node", "its update in place is under way")
    return cause is not None and cause.code != "Starting" and reason.startswith(vague)


def _left(name: str, reason: str, down: Sequence[str]) -> Wait:
    code, remedy = next(((code, tip) for start, code, tip in _LEFT if reason.startswith(start)), ("", ""))
    if not code:
        code = "Budget" if "maxUnavailable is used up" in reason else "Other"
        remedy = "wait, or raise maxUnavailable or maxSurge" if code == "Budget" else ""
    others = [one for one in down if one != name]
    if code == "Budget" and others:
        reason += f" by {', '.join(others[:5])}{' …' if len(others) > 5 else ''}"
    return Wait(code=code, words=reason, pods=(name,), remedy=remedy)


def _wait(cause: Cause, pod: str) -> Wait:
    since = format_time(cause.since) if cause.since is not None else ""
    return Wait(code=cause.code, words=cause.words, pods=(pod,), since=since, remedy=cause.remedy)


def _merged(waits: Iterable[Wait]) -> list[Wait]:
    """Pods with the same reason together; since when the first of them waits."""
    groups: dict[tuple[str, str], list[Wait]] = {}
    for wait in waits:
        groups.setdefault((wait.code, wait.words), []).append(wait)
    return [
        msgspec.structs.replace(
            group[0],
            pods=tuple(pod for wait in group for pod in wait.pods),
            since=min((wait.since for wait in group if wait.since), default=""),
        )
        for group in groups.values()
    ]


# What comes next


def _next(plan: Plan, waits: Sequence[Wait]) -> Iterator[str]:
    for stage in plan.stages:
        reasons: dict[str, list[str]] = {}
        for chain in stage.chains:
            reasons.setdefault(_because(chain.steps), []).append(chain.subject)
        for because, subjects in reasons.items():
            yield f"{stage.name}: {_listed([one for one in subjects if one])}{because}"
    if plan.stages:
        return
    if plan.after is not None:
        yield f"it looks again in {_duration(plan.after)}"
    elif any(wait.code not in ("Partition", "Claims", "Orphan") for wait in waits):
        yield "nothing, until one of these changes"


def _because(steps: Sequence[Step]) -> str:
    return steps[-1].because


def _listed(names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:8])
    return f"{shown}, and {len(names) - 8} more: " if len(names) > 8 else f"{shown}: "


# Text


def text(explanation: Explanation, *, now: Instant) -> str:
    """As a person reads it."""
    one = explanation
    lines = [f"{one.kind} {one.namespace}/{one.name}: {one.verdict}. {_capital(one.headline)}."]
    if one.done:
        lines += ["", "Done", *(f"  {line}" for line in one.done)]
    if one.waits:
        lines += ["", "Waiting for" if one.verdict != "done" else "Left as it is"]
        for wait in one.waits:
            lines += _wait_lines(wait, now)
    if one.next:
        lines += ["", "Next", *(f"  {line}" for line in one.next)]
    return "\n".join(lines) + "\n"


def _wait_lines(wait: Wait, now: Instant) -> list[str]:
    who = ""
    if wait.pods:
        shown = ", ".join(wait.pods[:6]) + (f", and {len(wait.pods) - 6} more" if len(wait.pods) > 6 else "")
        who = f"{shown}: "
    age = f" (for {_duration(max(now - parse_time(wait.since), 0))})" if wait.since else ""
    lines = [f"  {wait.code}: {who}{wait.words}{age}"]
    if wait.remedy:
        lines.append(f"    → {wait.remedy}")
    return lines


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _duration(seconds: float) -> str:
    """`45s`, `3m20s`, `2h5m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60}m"
