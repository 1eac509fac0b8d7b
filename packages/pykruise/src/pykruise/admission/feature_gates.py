"""Kinds that are refused while their feature gate is off.

AdmissionRequest ──▶ behind_gates(kind, …)(reviewer) ──▶ 403 naming the gate, or the reviewer's answer

Pure but for what the reviewer does. The objects of a kind whose controller does not run would do nothing and say
nothing; so they cannot be made. What exists can still be labelled, finished and deleted: a gate that is
switched off must not keep finalizers from being taken away. (OpenKruise refuses every update.)
"""

from pykruise.kinds.gates import Gates
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.documents import same
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.pod_rules.field_errors import bad_request
from pykruise.plans.kind import Kind


def behind_gates(kind: Kind, gates: Gates, reviewer: Reviewer) -> Reviewer:
    """The reviewer of a kind; while its gates are off, one that refuses what would be new. The first gate that is off
    is named with 403, or with 400 where one of several would do, as in OpenKruise."""
    closed = next((name for name in kind.gates if not gates[name]), None)
    if closed is not None:
        message = f"feature-gate {closed} is not enabled"
        return _refusing(
            ErrorStatus(status="Failure", message=message, reason="Forbidden", code=403), reviewer
        )
    if not kind.any_gate or any(gates[name] for name in kind.any_gate):
        return reviewer
    names = ", ".join(kind.any_gate)
    message = f"feature {kind.resource.kind} is invalid, please open via feature-gate({names})"
    return _refusing(bad_request(message), reviewer)


def _refusing(refusal: ErrorStatus, reviewer: Reviewer) -> Reviewer:
    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(refusal=refusal) if _asks_for_something(request) else await reviewer(request)

    return review


def _asks_for_something(request: AdmissionRequest) -> bool:
    """Whether the write would have a controller do something: a new object, or another spec."""
    if request.operation == "CREATE":
        return not request.subresource
    if request.operation != "UPDATE" or request.subresource:
        return False
    new, old = request.object, request.old_object
    return new is None or old is None or not same(new.get("spec"), old.get("spec"))
