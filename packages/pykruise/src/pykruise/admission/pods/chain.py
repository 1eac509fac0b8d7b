"""The steps of pod admission, in order: steps that change a new pod, and steps that allow or reject changes of a pod.

KIND.pods of all kinds ──▶ build_pod_chain() ──▶ PodChain
/mutate-pod:   AdmissionRequest ──▶ step ──▶ step ──▶ … ──▶ the changed pod, or unchanged
/validate-pod: AdmissionRequest ──▶ step ──▶ … ──▶ allowed, or the first rejection

Each kind declares its place in the order (`PodSteps.order`). The order is the same as in OpenKruise. API servers send
reviews only for pods that a step needs.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from pykruise.kinds import list_kinds
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, MatchCondition, Reviewer
from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.pod_rules.field_errors import build_bad_request
from pykruise.kube.schemas.zero_values import fill_zero_values
from pykruise.kube.values.cel import ALWAYS, Interests, any_of
from pykruise.plans.kind import Kind
from pykruise.plans.pod_steps import JudgingStep, PodStep, PodSteps, StepContext, StepError
from pykruise.pods.template.typed_parts import explain_unreadable

_log = logging.getLogger(__name__)

_TOO_MANY = 429
_INTERNAL = 500

CONDITION = "pykruise.io/asked-for"
"""Name of the match condition of the pod webhooks. configurations.py recognizes the condition by this name."""


_POD: Final = "io.k8s.api.core.v1.Pod"


class PodKind(NamedTuple):
    """A kind and its steps of pod admission."""

    kind: Kind
    steps: PodSteps

    def is_on(self, gates: Callable[[str], bool]) -> bool:
        """Whether these gates enable the steps of the kind."""
        needed = self.steps.gates
        return self.kind.is_enabled(gates) if needed is None else all(map(gates, needed))


def list_pod_kinds() -> Sequence[PodKind]:
    """Return all kinds with steps of pod admission, in order."""
    parts = (PodKind(kind, kind.pods) for kind in list_kinds() if kind.pods is not None)
    return sorted(parts, key=lambda part: part.steps.order)


def list_participants(gates: Callable[[str], bool]) -> Sequence[PodKind]:
    """Return the kinds whose steps of pod admission are enabled by these gates, in order."""
    return [part for part in list_pod_kinds() if part.is_on(gates)]


class NamedStep(NamedTuple):
    """A step and its name in logs."""

    name: str
    step: Any
    """PodStep or JudgingStep."""


class PodChain(msgspec.Struct, frozen=True, kw_only=True):
    """The enabled steps of all kinds."""

    changing: tuple[NamedStep, ...]
    judging: tuple[NamedStep, ...]
    shared: Mapping[str, Any]
    """Name of a kind → the value that all its steps use (`PodSteps.shares`)."""


def build_pod_chain(gates: Callable[[str], bool], context_of: Callable[[PodKind], StepContext]) -> PodChain:
    """Build the chain for these gates. `context_of` returns the context for the steps of one kind."""
    changing: list[NamedStep] = []
    judging: list[NamedStep] = []
    shared: dict[str, Any] = {}
    for part in list_participants(gates):
        steps = part.steps
        common = shared[part.kind.name] = steps.shares(context_of(part))
        if steps.mutate is not None:
            changing.append(NamedStep(steps.name, steps.mutate(common)))
        if steps.judge is not None:
            judging.append(NamedStep(steps.name, steps.judge(common)))
    return PodChain(changing=tuple(changing), judging=tuple(judging), shared=shared)


def condition_of(steps: Sequence[NamedStep], interests: Interests) -> tuple[MatchCondition, ...]:
    """Return the match condition: an API server sends a review if at least one step needs the pod. Empty if a step
    needs every pod.

    A step may add labels that make later steps need the pod. The condition of this step includes such pods, so the
    later steps get them too.
    """
    expression = any_of(step.build_match_condition(interests) for _, step in steps)
    return () if expression == ALWAYS else (MatchCondition(CONDITION, expression),)


def build_mutating_review(steps: Sequence[NamedStep]) -> Reviewer:
    """Return the reviewer of the webhook `/mutate-pod`."""
    changing: Sequence[tuple[str, PodStep]] = steps
    changes = [(name, step.change) for name, step in changing]

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.operation != "CREATE" or request.subresource or request.resource.plural != "pods":
            return ALLOWED
        if request.object is None:
            return AdmissionAnswer(refusal=build_bad_request("the request has no object"))
        pod = request.object
        for name, change in changes:
            try:
                changed = await change(pod, request)
            except StepError as error:
                return AdmissionAnswer(refusal=_build_error_status(name, error))
            pod = pod if changed is None else changed
        return ALLOWED if is_same(pod, request.object) else AdmissionAnswer(object=pod)

    return _make_reviewer_of_any_pod(review)


def build_judging_review(steps: Sequence[NamedStep]) -> Reviewer:
    """Return the reviewer of the webhook `/validate-pod`."""
    judges: Sequence[tuple[str, JudgingStep]] = steps
    judgements = [step.judge for _, step in judges]

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.resource.plural != "pods" or not _is_judged(request):
            return ALLOWED
        for judge in judgements:
            try:
                refusal = await judge(request)
            except StepError as error:
                is_full = error.code == _TOO_MANY
                return AdmissionAnswer(
                    refusal=_build_too_many_status(error) if is_full else build_bad_request(str(error))
                )
            if refusal is not None:
                return AdmissionAnswer(refusal=refusal)
        return ALLOWED

    return _make_reviewer_of_any_pod(review)


def _make_reviewer_of_any_pod(review: Reviewer) -> Reviewer:
    """Return a reviewer that also handles objects that are not valid pods. API servers do not send such objects, and a
    check of all types takes as long as the review. So types are checked only after the review has failed.
    """

    async def answer(request: AdmissionRequest) -> AdmissionAnswer:
        admission_answer, failure = ALLOWED, None
        try:
            admission_answer = await review(request)
        except Exception as error:
            failure = error
        if failure is None and (
            admission_answer.refusal is None or admission_answer.refusal.code != _INTERNAL
        ):
            return admission_answer
        try:
            given = read_pods(request)
        except ValueError as error:
            return AdmissionAnswer(refusal=build_bad_request(str(error)))
        if given != request:
            return await review(given)
        if failure is not None:
            raise failure
        return admission_answer

    return answer


def read_pods(request: AdmissionRequest) -> AdmissionRequest:
    """Return the request with its pods as Go would decode them. Raises ValueError with the field if an object is not a
    valid pod.
    """
    return msgspec.structs.replace(
        request, object=_read_pod(request.object), old_object=_read_pod(request.old_object)
    )


def _read_pod(doc: Document | None) -> Document | None:
    if problem := explain_unreadable(doc, _POD):
        raise ValueError(f"not a Pod{problem}")
    pod: Document | None = fill_zero_values(doc, _POD)
    return pod


def _is_judged(request: AdmissionRequest) -> bool:
    match request.operation, request.subresource:
        case "UPDATE", "" | "resize":
            return True
        case "DELETE", "":
            return request.old_object is not None
        case "CREATE", "eviction":
            return True
    return False


def _build_error_status(step: str, error: StepError) -> ErrorStatus:
    _log.warning("pod admission: step %s failed: %s", step, error)
    if error.code == _TOO_MANY:
        return _build_too_many_status(error)
    return ErrorStatus(status="Failure", message=str(error), reason="InternalError", code=error.code)


def _build_too_many_status(error: StepError) -> ErrorStatus:
    return ErrorStatus(status="Failure", message=str(error), reason="TooManyRequests", code=_TOO_MANY)
