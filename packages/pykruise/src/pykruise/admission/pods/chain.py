"""Pod admission in its order: who changes a new pod, and who judges what happens to one.

/mutate-pod:   AdmissionRequest ──▶ shape ──▶ step ──▶ step ──▶ … ──▶ the changed pod, or unchanged
/validate-pod: AdmissionRequest ──▶ step ──▶ … ──▶ allowed, or the first refusal

The order is OpenKruise's contract; a kind that takes part gets its place in `changing_steps` or
`judging_steps`:

    changing   readiness gate · WorkloadSpread · SidecarSet · launch priority · PodUnavailableBudget
               · PersistentPodState · enhanced liveness · PodProbeMarker
    judging    WorkloadSpread · PodUnavailableBudget

While no step is due, no API server asks.
"""

import logging
import random
from collections.abc import Sequence

from pykruise.admission.pods.budget import BudgetGuard, BudgetTie, OnPrevented
from pykruise.admission.pods.launch_priority import LaunchPriority
from pykruise.admission.pods.liveness import EnhancedLiveness
from pykruise.admission.pods.persistent_state import StateInjection
from pykruise.admission.pods.probes import MarkerReader, ProbeInjection
from pykruise.admission.pods.readiness_gate import ReadinessGate
from pykruise.admission.pods.sidecars import Refused, SidecarInjection
from pykruise.admission.pods.spread import SpreadInjection, SpreadRelease
from pykruise.admission.pods.steps import JudgingStep, PodStep, StepError, read_pods
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds.persistentpodstate.readers import StateReader
from pykruise.kinds.podunavailablebudget.spending import Budgeting
from pykruise.kinds.sidecarset.facts import SidecarReader
from pykruise.kinds.workloadspread.assignment import Spreading
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, MatchCondition, Reviewer
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.documents import same
from pykruise.kube.errors import Status
from pykruise.kube.pod_rules.field_errors import bad_request
from pykruise.kube.values.cel import ALWAYS, Interests, any_of

__all__ = ["changing_steps", "condition_of", "judging", "judging_steps", "mutating"]

_log = logging.getLogger(__name__)

_TOO_MANY = 429
_INTERNAL = 500

CONDITION = "pykruise.io/asked-for"
"""The match condition of the pod webhooks, by which its keeper knows it (see configurations.py)."""


def changing_steps(
    settings: AdmissionSettings,
    *,
    rng: random.Random,
    clock: Clock = system_clock,
    spreading: Spreading | None = None,
    sidecars: SidecarReader | None = None,
    budgeting: Budgeting | None = None,
    states: StateReader | None = None,
    markers: MarkerReader | None = None,
    on_refused: Refused = lambda refusal: None,
) -> tuple[PodStep, ...]:
    """The steps of `/mutate-pod`, in their order.

    Without `spreading` no pod gets a subset, without `sidecars` (a reader of SidecarSets) none gets sidecars,
    without `budgeting` none gets a budget, without `states` (a reader of PersistentPodStates) none comes back to
    where it was, without `markers` (a reader of PodProbeMarkers) none says what virtual nodes are to check.
    """
    steps: list[PodStep] = [ReadinessGate(for_all=settings.readiness_gate_for_all)]
    if settings.workload_spread:
        steps.append(SpreadInjection(spreading))
    steps.append(
        SidecarInjection(
            sidecars, clock=clock, rng=rng, sort_by_name=settings.sort_sidecars, on_refused=on_refused
        )
    )
    steps.append(LaunchPriority(rng))
    if settings.has_budgets:
        steps.append(BudgetTie(budgeting))
    steps.append(StateInjection(states))
    if settings.enhanced_liveness:
        steps.append(EnhancedLiveness())
    if settings.probes_on_virtual_nodes:
        steps.append(ProbeInjection(markers))
    return tuple(steps)


def judging_steps(
    settings: AdmissionSettings,
    *,
    spreading: Spreading | None = None,
    budgeting: Budgeting | None = None,
    on_prevented: OnPrevented = lambda prevented: None,
) -> tuple[JudgingStep, ...]:
    """The steps of `/validate-pod`, in their order. Without `spreading` no subset hears that a pod goes, without
    `budgeting` no budget is asked; `on_prevented` hears of pods that a budget kept."""
    steps: list[JudgingStep] = []
    if settings.workload_spread:
        steps.append(SpreadRelease(spreading))
    if settings.has_budgets:
        steps.append(BudgetGuard(budgeting, settings=settings, on_prevented=on_prevented))
    return tuple(steps)


def condition_of(steps: Sequence[PodStep | JudgingStep], interests: Interests) -> tuple[MatchCondition, ...]:
    """What must hold for an API server to ask: that some step wants the pod. None when one wants all.

    A step that changes what another one goes by (labels) wants the pod itself, so later steps see it too.
    """
    expression = any_of(step.wanted(interests) for step in steps)
    return () if expression == ALWAYS else (MatchCondition(CONDITION, expression),)


def mutating(steps: Sequence[PodStep]) -> Reviewer:
    """The review of `/mutate-pod`."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.operation != "CREATE" or request.subresource or request.resource.plural != "pods":
            return ALLOWED
        if request.object is None:
            return AdmissionAnswer(refusal=bad_request("the request has no object"))
        pod = request.object
        for step in steps:
            try:
                changed = await step.change(pod, request)
            except StepError as error:
                return AdmissionAnswer(refusal=_failed(step.name, error))
            pod = pod if changed is None else changed
        return ALLOWED if same(pod, request.object) else AdmissionAnswer(object=pod)

    return _of_any_pod(review)


def judging(steps: Sequence[JudgingStep]) -> Reviewer:
    """The review of `/validate-pod`."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.resource.plural != "pods" or not _is_judged(request):
            return ALLOWED
        for step in steps:
            try:
                refusal = await step.judge(request)
            except StepError as error:
                is_full = error.code == _TOO_MANY
                return AdmissionAnswer(refusal=_too_many(error) if is_full else bad_request(str(error)))
            if refusal is not None:
                return AdmissionAnswer(refusal=refusal)
        return ALLOWED

    return _of_any_pod(review)


def _of_any_pod(review: Reviewer) -> Reviewer:
    """The review, also of what is no pod. API servers send none, so its types are looked at only when the review has
    failed: each time that would cost as much as the rest of the review."""

    async def answer(request: AdmissionRequest) -> AdmissionAnswer:
        found, failure = ALLOWED, None
        try:
            found = await review(request)
        except Exception as error:
            failure = error
        if failure is None and (found.refusal is None or found.refusal.code != _INTERNAL):
            return found
        try:
            given = read_pods(request)
        except ValueError as error:
            return AdmissionAnswer(refusal=bad_request(str(error)))
        if given != request:
            return await review(given)
        if failure is not None:
            raise failure
        return found

    return answer


def _is_judged(request: AdmissionRequest) -> bool:
    match request.operation, request.subresource:
        case "UPDATE", "" | "resize":
            return True
        case "DELETE", "":
            return request.old_object is not None
        case "CREATE", "eviction":
            return True
    return False


def _failed(step: str, error: StepError) -> Status:
    _log.warning("pod admission: %s: %s", step, error)
    if error.code == _TOO_MANY:
        return _too_many(error)
    return Status(status="Failure", message=str(error), reason="InternalError", code=error.code)


def _too_many(error: StepError) -> Status:
    return Status(status="Failure", message=str(error), reason="TooManyRequests", code=_TOO_MANY)
