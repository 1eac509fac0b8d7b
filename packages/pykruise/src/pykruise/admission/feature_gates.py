"""Rejection of objects of kinds whose feature gate is off.

AdmissionRequest ──▶ guard_by_gates(kind, …)(reviewer) ──▶ 403 with the gate's name, or the reviewer's response

Pure, except for the reviewer. While a gate is off, the controller of the kind does not run. New objects would have no
effect, and no status would report this, so they are rejected. Labels, finalizers and the status of existing objects can
be changed, and the objects can be deleted. (OpenKruise rejects every update.)
"""

from pykruise.kinds.gates import Gates
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.documents import is_same
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.pod_rules.field_errors import build_bad_request
from pykruise.plans.kind import Kind


def guard_by_gates(kind: Kind, gates: Gates, reviewer: Reviewer) -> Reviewer:
    """Return a reviewer that rejects new objects and changed specs if the kind's gates are off. As in OpenKruise, the
    response is a 403 with the name of the first gate that is off, or a 400 if any one of several gates would be enough.
    """
    closed = next((name for name in kind.gates if not gates[name]), None)
    if closed is not None:
        message = f"feature-gate {closed} is not enabled"
        return _refuse_requests(
            ErrorStatus(status="Failure", message=message, reason="Forbidden", code=403), reviewer
        )
    if not kind.any_gate or any(gates[name] for name in kind.any_gate):
        return reviewer
    names = ", ".join(kind.any_gate)
    message = f"feature {kind.resource.kind} is invalid, please open via feature-gate({names})"
    return _refuse_requests(build_bad_request(message), reviewer)


def _refuse_requests(refusal: ErrorStatus, reviewer: Reviewer) -> Reviewer:
    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(refusal=refusal) if _asks_for_something(request) else await reviewer(request)

    return review


def _asks_for_something(request: AdmissionRequest) -> bool:
    """Whether a controller would have to act on the write: a new object, or a changed spec."""
    if request.operation == "CREATE":
        return not request.subresource
    if request.operation != "UPDATE" or request.subresource:
        return False
    new, old = request.object, request.old_object
    return new is None or old is None or not is_same(new.get("spec"), old.get("spec"))
