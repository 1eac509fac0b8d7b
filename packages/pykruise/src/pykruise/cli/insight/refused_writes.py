"""The cause and the remedy of a rejected write, from the message of a condition or an event that contains both.

event   ──▶ refusal_of() ──▶ RefusedWrite: the code, the message and the times of its attempts
message ──▶ make_refusal_wait() ──▶ Wait: its words name the cause, and its remedy the action of a person

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.insight.explanations import Wait
from pykruise.kube.client.recorder import CODE
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.control.queue import BASE_DELAY_S, MAX_DELAY_S
from pykruise.kube.documents import Document, annotations_of
from pykruise.plans.pod_steps import PodOrigin
from pykruise.pods.reasons import CODES, NOT_WRITTEN, Code
from pykruise.pods.workload.budgets import split_budget_remedy
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.refusals import explain_refusal, list_refused_parts, split_remedy

REFUSED_WRITES: Final = NOT_WRITTEN - {Code.NO_MANAGER}
"""Codes of planned writes that failed, were rejected, or are delayed by the manager (Churning)."""

_LATE_S: Final = 30.0
"""Until this number of seconds after the estimated next attempt, an event of a failed write counts as current."""


class RefusedWrite(msgspec.Struct, frozen=True):
    """A failed write, read from its event."""

    code: str
    message: str
    first: Instant
    last: Instant

    @property
    def again(self) -> Instant:
        """Estimated time of the next attempt."""
        return self.last + min(max(self.last - self.first, BASE_DELAY_S), MAX_DELAY_S)

    def is_current(self, now: Instant) -> bool:
        """Whether the write may still be rejected: the estimated next attempt is due later, or was due recently."""
        return now <= self.again + _LATE_S


def refusal_of(event: Document) -> RefusedWrite | None:
    """Return the failed write of an event; None if the event does not report a failed write."""
    code = annotations_of(event).get(CODE, "")
    first, last = event.get("firstTimestamp"), event.get("lastTimestamp")
    if code not in REFUSED_WRITES or not first or not last:
        return None
    return RefusedWrite(code, str(event.get("message") or ""), parse_time(first), parse_time(last))


def make_refusal_wait(code: Code, message: str, *, namespace: str, since: str = "") -> Wait:
    """Return the wait of a rejected write. `namespace`: of the write."""
    words, remedy = split_remedy(message, namespace=namespace)
    if words == message:
        words, remedy = split_budget_remedy(message)
    if words == message:
        remedy = find_refusal_remedy(code, message, namespace=namespace)
    return Wait(code=code, words=words, since=since, remedy=remedy)


def find_refusal_remedy(code: Code, message: str, *, namespace: str) -> str:
    """Return the remedy of a rejected write whose message contains no remedy: the remedy of the cause that the message
    names, or the general remedy of the code.
    """
    known = explain_refusal(message, namespace=namespace)
    return known[1] if known is not None and known[0].value == code.value else CODES[code].helps


def code_of_refusal(condition: Mapping[str, Any], namespace: str) -> Code | None:
    """Return the code of a rejected write that the condition of a workload reports; None if it reports none."""
    reason, message = condition.get("reason"), str(condition.get("message") or "")
    if condition.get("type") == WAITING and reason in NOT_WRITTEN - {Code.NO_MANAGER}:
        return Code(reason)
    if condition.get("type") == _REPLICA_FAILURE:
        known = explain_refusal(message, namespace=namespace)
        return Code(known[0].value) if known is not None else Code.WRITE_FAILED
    return None


_REPLICA_FAILURE: Final = "ReplicaFailure"
"""Type of the condition of a Deployment or ReplicaSet whose pods are rejected."""


def find_template_remedy(wait: Wait, template: str, *, namespace: str) -> str:
    """Return the remedy of a rejected creation of pods, with the name of the field that defines the pods."""
    known = explain_refusal(wait.words, namespace=namespace, template=template)
    return wait.remedy if known is None else known[1]


def name_template(wait: Wait, template: str, *, namespace: str) -> Wait:
    """Return the wait of a rejected write with this name for the template that must be corrected. A wait whose remedy
    names another object stays unchanged.
    """
    if wait.code != Code.POLICY:
        return wait
    if wait.remedy != find_refusal_remedy(Code.POLICY, wait.words, namespace=namespace):
        return wait
    return msgspec.structs.replace(wait, remedy=find_template_remedy(wait, template, namespace=namespace))


def name_fixed_template(wait: Wait, owner: str) -> Wait:
    """Return the wait of a rejected creation of an object from an immutable template. `owner`: the object with this
    template, which must be created again.
    """
    if wait.code != Code.POLICY:
        return wait
    remedy = f"create {owner} again with a template that the policy allows, or change the policy"
    return msgspec.structs.replace(wait, remedy=remedy)


def make_part_wait(wait: Wait, origins: Mapping[tuple[str, str], PodOrigin], *, namespace: str) -> Wait:
    """Return the wait of pods that the API server rejects, because other objects add rejected containers or volumes to
    them. `origins`: these objects, by the kind and the name of the part.
    """
    others = [part for part in list_refused_parts(wait.words) if part not in origins]
    where = [*(["the pod template"] if others else []), *dict.fromkeys(map(str, origins.values()))]
    known = explain_refusal(wait.words, namespace=namespace, template=" and in ".join(where))
    if known is None:
        return wait
    added = ", ".join(
        f"{origin.kind} {origin.name} adds {what} {name}" for (what, name), origin in origins.items()
    )
    return msgspec.structs.replace(wait, words=f"{wait.words}; {added}", remedy=known[1])


def make_origin_wait(wait: Wait, origin: str, *, namespace: str) -> Wait:
    """Return the wait of a rejected creation of pods, if this origin adds what is rejected to the pods."""
    known = (
        explain_refusal(wait.words, namespace=namespace, template=origin)
        if wait.code == Code.POLICY
        else None
    )
    remedy = known[1] if known is not None else f"correct {origin}"
    return msgspec.structs.replace(wait, words=f"{wait.words}; {origin} sets the field", remedy=remedy)
