"""A PodUnavailableBudget in words: pods that have used it up, what remains of the budget, pods that wait, and when the
budget allows more disruptions.

Client ──▶ look_at() ──▶ BudgetSight ──▶ explain_budget() ──▶ Explanation
                                     ──▶ forecast_budget() ──▶ Outlook: what applying a manifest would do

This module only reads. The numbers come from the functions with which the manager writes the status.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.admission_check import ask_admission
from pykruise.cli.insight.budgets import (
    describe_disruption_budget,
    find_doubles,
    make_selection,
    read_disruption_budgets,
)
from pykruise.cli.insight.causes import cause_of
from pykruise.cli.insight.cluster_reading import look_at as look_at_document
from pykruise.cli.insight.effect_forecast import Outlook, OutlookBatch, PodFate, group_by_reason
from pykruise.cli.insight.explaining import find_unobserved_changes, next_of, phase_of, verdict_of
from pykruise.cli.insight.explanation_text import format_age
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits, wait_of
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.cli.insight.webhooks import is_fresh
from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.plan import (
    REMEDY_OF_UNKNOWN,
    count_pods_of_others,
    describe_budgets,
    describe_unknown,
    find_exemption,
    find_stale_total,
    find_takeover,
    list_exempt,
    plan_budget,
)
from pykruise.kinds.podunavailablebudget.snapshot import BudgetSettings, BudgetSnapshot
from pykruise.kinds.podunavailablebudget.status import BudgetAmountError, ComputedBudget, compute
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode, get_path, labels_of
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.ids import Key
from pykruise.kube.resources import EVENTS, NAMESPACES
from pykruise.kube.values.counts import format_command, format_count
from pykruise.kube.values.owners import controller_of
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.progress import OPEN, Phase
from pykruise.plans.targets import TARGET_RESOURCES
from pykruise.plans.unreviewed_namespaces import EXCLUDED_LABEL, Unreviewed, find_unreviewed
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.reasons import Code, remedy_of
from pykruise.pods.view.keys import NO_PROTECT_ANNOTATION
from pykruise.pods.workload.budgets import (
    DISRUPTED_S,
    POD_UNAVAILABLE_BUDGETS,
    UPDATED_S,
    describe_opening,
    is_counted_as_available,
    is_exempt,
)
from pykruise.runtime.plan import Plan
from pykruise.runtime.reasons import Reason

KEPT_S: Final = 120.0
"""Maximum age of a denied request, in seconds, for which its pod still counts as waiting."""


class BudgetSight(msgspec.Struct, frozen=True, kw_only=True):
    """One budget as it is now, or as it would be after a change."""

    document: Document
    snapshot: BudgetSnapshot
    pods: Mapping[str, Document] = {}
    """Pods that the budget covers, by name."""
    kept: Mapping[str, int] = {}
    """Number of requests that the budget denied recently, by the name of the pod."""
    disruption: Sequence[Document] = ()
    """PodDisruptionBudgets that select some of its pods."""
    doubles: Mapping[str, Wait] = {}
    """Waits of the pods that several of these PodDisruptionBudgets cover, by the name of the pod."""
    unreviewed: Unreviewed | None = None
    """Set if API servers send no reviews of pods in the budget's namespace, so that the budget protects nothing."""
    exempting: Sequence[str] = ()
    """Templates that set the annotation which exempts pods: `spec.template of CloneSet web`."""


async def look_at(
    client: Client, key: Key, *, now: Instant, settings: ManagerSettings | None = None
) -> BudgetSight:
    """Read one budget. Raises NotFoundError when it does not exist, and the error of a read that is denied."""
    document = decode(await client.get(POD_UNAVAILABLE_BUDGETS, key.namespace, key.name))
    return await _build_sight(client, document, now=now, settings=settings)


async def _build_sight(
    client: Client, document: Document, *, now: Instant, settings: ManagerSettings | None
) -> BudgetSight:
    sight = await look_at_document(client, KIND, document, now=now, settings=settings)
    meta = document["metadata"]
    snapshot = sight.snapshot
    wanted = {pod.name for pod in snapshot.pods}
    documents = sight.listed[POD_VIEWS].list_documents()
    listed = await read_disruption_budgets(client, meta["namespace"])
    own: BudgetSettings = (settings or ManagerSettings()).read_kind_settings(KIND)
    namespace = await read_optional(client, NAMESPACES, Key("", meta["namespace"]))
    disruption = [entry for entry in listed if any(map(make_selection(entry), snapshot.pods))]
    return BudgetSight(
        document=document,
        snapshot=snapshot,
        pods={
            document["metadata"]["name"]: document
            for document in documents
            if document["metadata"]["name"] in wanted
        },
        kept=await _count_refusals(client, meta["namespace"], wanted, now=now),
        disruption=disruption,
        doubles=find_doubles(disruption, snapshot.pods),
        unreviewed=find_unreviewed(
            meta["namespace"], labels_of(namespace or {}), own_namespace=own.namespace
        ),
        exempting=await _find_exempting(client, snapshot) if list_exempt(snapshot) else (),
    )


async def _find_exempting(client: Client, snapshot: BudgetSnapshot) -> Sequence[str]:
    """Return the templates that exempt pods of the budget, of a bounded number of workloads."""
    templates: list[str] = []
    for kind, name in snapshot.workloads[:_MOST_WORKLOADS]:
        resource = TARGET_RESOURCES.get(kind)
        key = Key(snapshot.budget.namespace, name)
        document = None if resource is None else await read_optional(client, resource, key)
        annotations = get_path(document, "spec", "template", "metadata", "annotations", default=None)
        if document is None or not isinstance(annotations, Mapping) or not is_exempt(annotations):
            continue
        creator = controller_of(document)
        templates.append(
            f"spec.template of {kind.kind} {name}"
            if creator is None
            else f"the template of {creator.kind} {creator.name}"
        )
    return tuple(dict.fromkeys(templates))


_MOST_WORKLOADS: Final = 10
"""Maximum number of workloads whose templates are read."""


async def _count_refusals(
    client: Client, namespace: str, pods: set[str], *, now: Instant
) -> Mapping[str, int]:
    try:
        events = [decode(raw) for raw in (await client.list(EVENTS, namespace)).items]
    except ForbiddenError:
        return {}
    kept: Counter[str] = Counter()
    for event in events:
        name = (event.get("involvedObject") or {}).get("name")
        if (
            event.get("reason") == "PubPreventPodDeletion"
            and name in pods
            and is_fresh(event, now=now, within_s=KEPT_S)
        ):
            kept[name] += event.get("count") or 1
    return kept


# ── explain ──────────────────────────────────────────────────────────────────


def explain_budget(sight: BudgetSight) -> Explanation:
    """Explanation of the budget."""
    plan = plan_budget(sight.snapshot)
    try:
        computed: ComputedBudget | None = compute(sight.snapshot)
    except BudgetAmountError:
        computed = None
    waits = rank_waits(_find_waits(sight, plan, computed))
    meta = sight.document["metadata"]
    return Explanation(
        kind=str(sight.document["kind"]),
        namespace=meta["namespace"],
        name=meta["name"],
        verdict=verdict_of(waits, plan, sight.document),
        phase=_choose_phase(sight, waits),
        headline=_describe_sight(sight, computed),
        done=tuple(_record_lines(sight.snapshot, computed)),
        waits=waits,
        next=(
            *_describe_next_disruption(sight.snapshot, computed),
            *(() if sight.doubles else map(describe_disruption_budget, sight.disruption)),
            *next_of(plan, waits),
        ),
    )


def _choose_phase(sight: BudgetSight, waits: Sequence[Wait]) -> Phase:
    """Return the phase. Pods with two PodDisruptionBudgets are never evicted, whatever this budget allows."""
    phase = phase_of(sight.document, waits)
    return Phase.DEGRADED if sight.doubles and phase in OPEN else phase


def headline_of(sight: BudgetSight) -> str:
    """Return how many of the budget's pods are available, how many must be available, and how many may become
    unavailable.
    """
    try:
        return _describe_sight(sight, compute(sight.snapshot))
    except BudgetAmountError:
        return _describe_sight(sight, None)


def _describe_sight(sight: BudgetSight, computed: ComputedBudget | None) -> str:
    if sight.unreviewed is None:
        return _describe_budget(sight.snapshot, computed)
    return f"all disruptions are allowed: {describe_unreviewed(sight.unreviewed)}, so the budget protects nothing"


def describe_unreviewed(unreviewed: Unreviewed) -> str:
    """Return why no budget is checked for the pods of a namespace."""
    return f"API servers send no admission reviews of pods in namespace {unreviewed.namespace}"


def _make_unreviewed_wait(sight: BudgetSight, unreviewed: Unreviewed) -> Wait:
    budget, (label, value) = sight.snapshot.budget, EXCLUDED_LABEL
    remedy = (
        f"replace the budget (kubectl delete pub -n {budget.namespace} {budget.name}) by a PodDisruptionBudget, which"
        " limits evictions in every namespace; or run the pods in another namespace"
    )
    if not unreviewed.is_by_name:
        remedy = f"remove the label {label}={value} (kubectl label namespace {budget.namespace} {label}-)"
    words = f"{describe_unreviewed(unreviewed)}, so the budget protects nothing"
    return Wait(code=Code.PROTECTS_NOTHING, words=words, remedy=remedy)


def _describe_budget(snapshot: BudgetSnapshot, computed: ComputedBudget | None) -> str:
    if computed is None:
        return "the number of pods that must serve cannot be computed"
    status = computed.status
    desired, current = status["desiredAvailable"], status["currentAvailable"]
    whole = max(_count_whole(snapshot), current)
    serving = f"{current} of {format_count(whole, 'pod serves', 'pods serve')}"
    if desired == 0:
        return f"{serving}, and the budget requires none: all disruptions are allowed"
    required = format_count(desired, "is required", "are required")
    exempt = len(list_exempt(snapshot))
    if exempt and exempt == len(snapshot.pods):
        return f"{serving}, {required}, but all disruptions are allowed: the budget protects none of its pods"
    others = count_pods_of_others(snapshot)
    applying = f"{describe_budgets(others)} {'applies' if len(others) == 1 else 'apply'}" if others else ""
    if others and others.total() == len(snapshot.pods):
        return f"{serving}, {required}, but {applying} to all of them: this budget protects none of its pods"
    allowed = _may_go(status["unavailableAllowed"])
    if exempt:
        free = format_count(exempt, "pod is exempt", "pods are exempt")
        allowed = f"{allowed}; {free} (annotation {NO_PROTECT_ANNOTATION})"
    if others:
        allowed = f"{allowed}; {applying} to {others.total()} of its pods"
    return f"{serving}, {required}: {allowed}"


def _count_whole(snapshot: BudgetSnapshot) -> int:
    """Return how many pods the workloads want, or have while they have more. `spec.protectTotalReplicas` is used only
    if this number is unknown, because it says nothing about the workloads.
    """
    if snapshot.budget.total is None or snapshot.wanted is None:
        return snapshot.total
    return max(snapshot.wanted, len(snapshot.pods))


def _may_go(count: int) -> str:
    return "no pod may be disrupted" if count == 0 else f"{count} may be disrupted"


def _record_lines(snapshot: BudgetSnapshot, computed: ComputedBudget | None) -> Iterator[str]:
    """Yield pods that still use up the budget: the manager records their eviction or update."""
    for field, lasting_s, what in _LISTS:
        records: Mapping[str, str] = (computed.status.get(field) or {}) if computed is not None else {}
        for name, since in sorted(records.items()):
            age = snapshot.now - parse_time(since)
            left = format_age(max(lasting_s - age, 0))
            yield (
                f"pod {name} {what} {format_age(max(age, 0))} ago; if the pod stays unchanged, it counts as "
                f"available again in {left}"
            )


_LISTS: Final = (
    ("disruptedPods", DISRUPTED_S, "was allowed to be disrupted"),
    ("unavailablePods", UPDATED_S, "was allowed to be updated"),
)


def _find_waits(sight: BudgetSight, plan: Plan, computed: ComputedBudget | None) -> Iterator[Wait]:
    meta, snapshot = sight.document["metadata"], sight.snapshot
    if "deletionTimestamp" in meta:
        yield Wait(code=Code.TERMINATING_OBJECT, words="it is being deleted", since=meta["deletionTimestamp"])
        return
    yield from find_unobserved_changes(sight.document)
    if sight.unreviewed is not None and snapshot.pods:
        yield _make_unreviewed_wait(sight, sight.unreviewed)
    for note in plan.notes:
        if note.reason in ("InvalidSpec", "CalculateExpectedPodCountFailed"):
            yield Wait(
                code=Code.REFUSED, words=note.message, remedy="correct the field that the message names"
            )
        elif note.reason == "UnknownReplicas":
            yield Wait(code=Code.NO_TARGET, words=describe_unknown(snapshot), remedy=REMEDY_OF_UNKNOWN)
    takeover = find_takeover(snapshot)
    if plan.waiting is not None and plan.waiting.code in (Code.NO_TARGET, Code.DISRUPTION_REFUSED):
        yield Wait(code=plan.waiting.code, words=plan.waiting.message, remedy=plan.waiting.remedy)
    elif (exemption := find_exemption(snapshot)) is not None:
        yield _make_exemption_wait(sight, exemption)
    elif takeover is not None:
        yield Wait(code=takeover.code, words=takeover.message, remedy=takeover.remedy)
    elif not snapshot.pods:
        label = "label the pods so that spec.selector matches them"
        yield Wait(
            code=Code.NO_PODS,
            words="it matches no pod",
            remedy=f"{label}; or replace the budget by another, because spec.selector cannot be changed",
        )
    for name, reason in plan.skipped.items() if takeover is None else ():
        yield Wait(code=reason.code, words=reason.message, pods=(name,), remedy=remedy_of(reason))
    yield from _list_unavailable_pods(sight)
    yield from sight.doubles.values()
    if computed is not None:
        yield from _list_waiting_pods(sight, computed)


def _make_exemption_wait(sight: BudgetSight, reason: Reason) -> Wait:
    """Return the wait of a budget whose pods are all exempt, with the places of the annotation that exempts them."""
    pods = [pod.name for pod in list_exempt(sight.snapshot)]
    annotate = f"kubectl annotate pod -n {sight.snapshot.budget.namespace}"
    command = format_command(annotate, pods, _MOST_IN_COMMAND, end=f" {NO_PROTECT_ANNOTATION}-")
    if not sight.exempting:
        remedy = f"remove the annotation from the pods ({command})"
        return Wait(code=reason.code, words=reason.message, remedy=remedy)
    where = " and ".join(sight.exempting)
    verb = "sets" if len(sight.exempting) == 1 else "set"
    return Wait(
        code=reason.code,
        words=f"{reason.message}; {where} {verb} it",
        remedy=f"remove the annotation from {where}, and from the pods ({command})",
    )


_MOST_IN_COMMAND: Final = 10
"""Maximum number of pods that a command names."""


def _list_unavailable_pods(sight: BudgetSight) -> Iterator[Wait]:
    """Yield unavailable pods, which use up the budget, with the cause."""
    snapshot = sight.snapshot
    for pod in snapshot.pods:
        if is_counted_as_available(pod, now=snapshot.now, settings=snapshot.in_place):
            continue
        cause = cause_of(sight.pods[pod.name], pod, now=snapshot.now, correction=OF_THE_WORKLOAD)
        if cause is not None:
            yield wait_of(cause, pod.name)
        else:
            yield Wait(code=Code.UPDATING_IN_PLACE, words="its update is still under way", pods=(pod.name,))


def _list_waiting_pods(sight: BudgetSight, computed: ComputedBudget) -> Iterator[Wait]:
    """Yield pods that wait for the budget."""
    total, desired = computed.status["totalReplicas"], computed.status["desiredAvailable"]
    opening = describe_opening(sight.snapshot.budget)
    code, remedy = Code.DISRUPTION_BUDGET, ""
    if (stale := find_stale_total(sight.snapshot)) is not None:
        code, remedy = Code.DISRUPTION_REFUSED, stale.remedy
    elif desired >= total:
        code = Code.DISRUPTION_REFUSED  # only a change of the budget helps
        name = sight.snapshot.budget.name
        remedy = f"{opening} of PodUnavailableBudget {name}, because the budget now rejects every disruption"
    elif computed.status["unavailableAllowed"]:
        remedy = "no action is needed: the budget allows disruptions again"
    for name, count in sorted(sight.kept.items()):
        words = f"this budget rejected {count} disruption{'s' if count > 1 else ''}"
        yield Wait(code=code, words=words, pods=(name,), remedy=remedy)


def _describe_next_disruption(snapshot: BudgetSnapshot, computed: ComputedBudget | None) -> Iterator[str]:
    """Yield the condition under which the budget allows further operations."""
    if computed is None or computed.status["unavailableAllowed"] or not computed.status["desiredAvailable"]:
        return
    if find_stale_total(snapshot) is not None:
        return  # its wait has the remedy
    desired, whole = computed.status["desiredAvailable"], max(_count_whole(snapshot), len(snapshot.pods))
    lacking = desired - computed.status["currentAvailable"] + 1
    if desired >= whole:
        required = (
            f"{desired} of {format_count(whole, 'pod')} must serve"
            if desired == whole
            else f"{format_count(desired, 'pod')} must serve, but only {format_count(whole, 'is', 'are')} wanted"
        )
        yield (
            f"no pod may be disrupted as long as {required}: to allow disruptions, "
            f"{describe_opening(snapshot.budget)}"
        )
    else:
        pods = format_count(lacking, "more pod serves", "more pods serve")
        yield f"the next pod may be disrupted when {pods}"


# ── plan ─────────────────────────────────────────────────────────────────────


async def forecast_budget(
    client: Client, document: Document, key: Key, now: Instant, settings: ManagerSettings | None = None
) -> Outlook:
    """Read the objects and ask admission in a dry run. Writes nothing. Raises KubeError for reads that fail."""
    verdict = await ask_admission(client, POD_UNAVAILABLE_BUDGETS, key, document)
    if verdict.wanted is None:
        return Outlook(**verdict.about)
    sight = await _build_sight(client, verdict.wanted, now=now, settings=settings)
    plan = plan_budget(sight.snapshot)
    fates = tuple(
        PodFate(pod=chain.subject, do=f"assign to the budget: {step.because}")
        for stage in plan.stages
        for chain in stage.chains
        for step in chain.steps
    )
    return Outlook(
        **verdict.about,
        batches=(OutlookBatch(number=1, fates=fates),) if fates else (),
        stays=group_by_reason((reason.message, name) for name, reason in plan.skipped.items()),
        notes=tuple(_find_notes(sight, plan)),
    )


def _find_notes(sight: BudgetSight, plan: Plan) -> Sequence[str]:
    warnings = [note.message for note in plan.notes if note.warning]
    try:
        return [_describe_sight(sight, compute(sight.snapshot)), *warnings]
    except BudgetAmountError:
        return warnings
