"""Kinds that are refused while their feature gate is off.

AdmissionRequest ──▶ behind(gates, …)(reviewer) ──▶ 403 naming the gate, or the reviewer's answer

Pure but for what the reviewer does. The objects of a kind whose controller does not run would do nothing and say
nothing; so they cannot be made. What exists can still be labelled, finished and deleted: a gate that is
switched off must not keep finalizers from being taken away. (OpenKruise refuses every update.)
"""

from pykruise.kinds.gates import Gates
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.documents import same
from pykruise.kube.errors import Status
from pykruise.kube.field_errors import bad_request

__all__ = ["behind", "behind_one_of"]


def behind(gates: Gates, *names: str, reviewer: Reviewer) -> Reviewer:
    """The reviewer of a kind that needs all of these gates; the first that is off is named."""
    closed = next((name for name in names if not gates[name]), None)
    if closed is None:
        return reviewer
    message = f"feature-gate {closed} is not enabled"
    return _refusing(Status(status="Failure", message=message, reason="Forbidden", code=403), reviewer)


def behind_one_of(gates: Gates, *names: str, feature: str, reviewer: Reviewer) -> Reviewer:
    """The reviewer of a kind that needs one of these gates. The answer without is a 400, as in OpenKruise."""
    if any(gates[name] for name in names):
        return reviewer
    message = f"feature {feature} is invalid, please open via feature-gate({', '.join(names)})"
    return _refusing(bad_request(message), reviewer)


def _refusing(refusal: Status, reviewer: Reviewer) -> Reviewer:
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
