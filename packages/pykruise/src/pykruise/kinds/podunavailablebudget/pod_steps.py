"""The admission steps of PodUnavailableBudgets: one assigns a new pod to its budget, the other one spends the budget.

new pod ──▶ the budget that covers it ──▶ the pod with annotations that name the budget
UPDATE, resize, DELETE, eviction of an assigned pod ──▶ BudgetSpender (spending.py) ──▶ allowed, or rejected
eviction, if the pod's CloneSet creates a successor first ──▶ a record on the pod (pods/workload/evictions.py), rejected

The response to a rejected eviction has the code 429, so that a client that drains a node tries again. The response to
other rejected requests has the code 403.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import orjson

from pykruise.kinds.podunavailablebudget.matching import budget_of
from pykruise.kinds.podunavailablebudget.operations import operation_of_update
from pykruise.kinds.podunavailablebudget.readers import (
    BudgetReader,
    CachedBudgets,
    LiveBudgets,
    find_surging_owner,
)
from pykruise.kinds.podunavailablebudget.snapshot import BudgetSettings
from pykruise.kinds.podunavailablebudget.spending import BudgetConflictsError, Budgeting
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.cache.batched_updates import UnsettledError
from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.kube.errors import DISRUPTION_BUDGET, REMEDY, Cause, ErrorStatus, KubeError, StatusDetails
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import PODS
from pykruise.kube.values.cel import ALWAYS, Interests, LabelSelection, any_of, build_selection, join_terms
from pykruise.kube.values.group_kinds import GroupKind, group_kind
from pykruise.kube.values.owners import controller_of
from pykruise.kube.values.selectors import EVERYTHING
from pykruise.plans.pod_steps import (
    PodReaders,
    PodSelection,
    PodSteps,
    PreventedDisruption,
    PreventionMetric,
    StepContext,
    StepError,
    StepEvent,
    StepReport,
    build_retry_error,
    is_dry,
)
from pykruise.plans.targets import (
    CLONE_SETS,
    DEPLOYMENT,
    REPLICA_SET,
    TARGET_RESOURCES,
    OwnerMissingError,
)
from pykruise.plans.views import BUDGET_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import LEGACY_RELATED_PUB_ANNOTATION, RELATED_PUB_ANNOTATION
from pykruise.pods.workload.budgets import (
    POD_UNAVAILABLE_BUDGETS,
    UNAVAILABLE_LABEL,
    BudgetView,
    Operation,
    RefusalCode,
    build_related_annotations,
    is_exempt,
    read_related_budget,
    wait_for_pods,
)
from pykruise.pods.workload.evictions import build_record, is_record_due
from pykruise.pods.workload.options import EVICTION_SURGE

_log = logging.getLogger(__name__)

COMPONENT: Final = "pub-controller"
"""Component that records events about protected pods. OpenKruise uses the same name."""


ANSWER_S: Final = 8.0
"""Maximum seconds until the response to a request. API servers wait 10 s, and then reject the request with the code
500, which ends a drain.
"""


def _make_tie_expression(variable: str) -> str:
    """CEL expression: the pod names a budget."""
    annotations = f"{variable}.metadata.annotations"
    names = (RELATED_PUB_ANNOTATION, LEGACY_RELATED_PUB_ANNOTATION)
    is_named = " || ".join(f'"{name}" in {annotations}' for name in names)
    return f"has({annotations}) && ({is_named})"


_IS_DELETED: Final = (
    f'request.operation == "DELETE" && oldObject != null && {_make_tie_expression("oldObject")}'
)
_IS_EVICTED: Final = 'request.operation == "CREATE"'
"""CEL expression: the request is an eviction, for which the API server does not send the pod."""

_IS_CHANGED: Final = (
    f'request.operation == "UPDATE" && {_make_tie_expression("object")} && (object.spec != oldObject.spec || '
    f'(has(object.metadata.labels) && object.metadata.labels.exists(l, l.startsWith("{UNAVAILABLE_LABEL}"))))'
)
"""CEL expression: the update or resize may take the pod out of service."""


class Guarding(NamedTuple):
    """Context and budgets that both steps share."""

    context: StepContext
    budgeting: Budgeting | None
    """None: budgets cannot be read."""


def make_guarding(context: StepContext) -> Guarding:
    """Create the shared spender for the budgets of this process."""
    if context.reader is None:
        return Guarding(context, None)
    settings: BudgetSettings = context.settings
    budgeting = Budgeting(
        context.reader,
        clock=context.clock,
        rng=context.rng,
        in_place=settings.in_place,
        is_resize_apart=settings.is_resize_apart,
    )
    return Guarding(context, budgeting)


class BudgetTie:
    """The step of `/mutate-pod`. If a budget cannot be read, the pod is admitted, and the controller assigns the pod
    later.
    """

    def __init__(self, guarding: "Guarding") -> None:
        budgeting = guarding.budgeting
        self._reader: BudgetReader | None = budgeting.reader if budgeting is not None else None

    def build_match_condition(self, interests: Interests) -> str:
        """CEL expression that matches pods that a budget selects."""
        return build_selection(interests, POD_UNAVAILABLE_BUDGETS.kind)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if self._reader is None:
            return None
        namespace = (pod.get("metadata") or {}).get("namespace") or request.namespace
        try:
            budgets = await self._reader.list_in_namespace(namespace)
            if not budgets:
                return None
            owners = await _find_owners(pod, namespace, budgets, self._reader)
        except KubeError as error:
            _log.warning("the PodUnavailableBudget of a pod of %s cannot be looked up: %s", namespace, error)
            return None
        budget = budget_of(labels_of(pod), budgets, owners=owners)
        if budget is None:
            return None
        metadata = pod.get("metadata") or {}
        annotations = {**annotations_of(pod), **build_related_annotations(budget.name)}
        return {**pod, "metadata": {**metadata, "annotations": annotations}}


class BudgetGuard:
    """The step of `/validate-pod`. It reports each pod that a budget protected."""

    def __init__(self, guarding: "Guarding") -> None:
        settings: BudgetSettings = guarding.context.settings
        self._budgeting = guarding.budgeting
        self._guards_deletion = settings.guards_deletion
        self._guards_updates = settings.guards_updates
        self._report = guarding.context.report
        self._clock = guarding.context.clock

    def build_match_condition(self, interests: Interests) -> str:
        """CEL expression that matches deletions and updates of assigned pods, and all evictions in namespaces with
        budgets.
        """
        evicted = join_terms(_make_places_expression(interests), _IS_EVICTED)
        deletions = [_IS_DELETED, evicted] if self._guards_deletion else []
        return any_of([*deletions, *([_IS_CHANGED] if self._guards_updates else [])])

    async def judge(self, request: AdmissionRequest) -> ErrorStatus | None:
        if self._budgeting is None:
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                result = await self._find_disrupted_pod(request, self._budgeting.reader)
                if result is None:
                    return None
                return await self._decide_refusal(request, *result, self._budgeting)
        except (KubeError, UnsettledError, TimeoutError) as error:
            text = str(error) or f"the PodUnavailableBudget could not be checked within {ANSWER_S:g} s"
            raise build_retry_error(text, request) from error

    async def _find_disrupted_pod(
        self, request: AdmissionRequest, reader: BudgetReader
    ) -> tuple[Document, Operation] | None:
        """The pod that the request takes out of service, and the operation; None: the request affects no pod that a
        budget may protect.
        """
        match request.operation, request.subresource:
            case "UPDATE", "" | "resize" if self._guards_updates:
                old, new = request.old_object, request.object
                if old is None or new is None or not read_related_budget(annotations_of(new)):
                    return None
                operation = operation_of_update(old, new)
                return (old, operation) if operation is not None else None
            case "DELETE", "" if self._guards_deletion:
                return (request.old_object, Operation.DELETE) if request.old_object is not None else None
            case "CREATE", "eviction" if self._guards_deletion:
                if not await reader.list_in_namespace(request.namespace):
                    return None
                pod = await reader.read_pod(request.namespace, request.name)
                # If the pod does not exist, the API server itself responds with 404.
                return (pod, Operation.EVICT) if pod is not None else None
        return None

    async def _decide_refusal(
        self, request: AdmissionRequest, pod: Document, operation: Operation, budgeting: Budgeting
    ) -> ErrorStatus | None:
        annotations = annotations_of(pod)
        named = read_related_budget(annotations)
        if not named or is_exempt(annotations):
            return None
        budget = await _find_budget(pod, Key(request.namespace, named), budgeting.reader)
        if budget is None:
            return None
        view = project_pod(orjson.dumps(pod))
        if operation == Operation.EVICT and budgeting.spender.is_costly(budget, view, operation):
            owner = await find_surging_owner(view, budgeting.reader)
            if owner:
                if is_record_due(annotations, now=self._clock()) and not is_dry(request):
                    await budgeting.reader.record_eviction(pod, build_record(self._clock()))
                return _make_status(operation, _make_surge_message(owner))
        try:
            answer = await budgeting.spender.ask(budget, view, operation, dry_run=is_dry(request))
        except BudgetConflictsError as error:
            return _make_status(operation, str(error))
        if not answer.refusal:
            return None
        if answer.code == RefusalCode.INVALID:
            raise StepError(answer.refusal)
        self._report(make_prevention_report(pod, budget, username=request.username))
        remedy = answer.remedy or wait_for_pods(budget)
        causes = (
            Cause(reason=DISRUPTION_BUDGET, message=answer.refusal),
            Cause(reason=REMEDY, message=remedy),
        )
        return _make_status(operation, _make_message(budget, answer.code), *causes)


async def _find_budget(pod: Document, named: Key, reader: BudgetReader) -> BudgetView | None:
    """The budget that decides about the pod: the budget that the pod names. If this budget was deleted, and the
    controller has not assigned the pod to another budget yet: the next budget that covers the pod. None: no budget
    covers the pod.
    """
    # The budget is read if the cache lacks it. Otherwise the operation would be allowed only because the cache is late.
    budget = await reader.find_newest(named) or await reader.read_fresh(named)
    if budget is not None:
        return budget
    budgets = await reader.list_in_namespace(named.namespace)
    owners = await _find_owners(pod, named.namespace, budgets, reader) if budgets else []
    return budget_of(labels_of(pod), budgets, owners=owners)


async def _find_owners(
    pod: Document, namespace: str, budgets: Sequence[BudgetView], reader: BudgetReader
) -> list[tuple[GroupKind, str]]:
    """The pod's controller and, if a budget targets a Deployment, the Deployment that controls this controller."""
    owner = controller_of(pod)
    kind = group_kind(owner.api_version, owner.kind) if owner is not None else None
    if owner is None or kind is None:
        return []
    owners = [(kind, owner.name)]
    if kind == REPLICA_SET and any(budget.target and budget.target[0] == DEPLOYMENT for budget in budgets):
        try:
            above = await reader.read_controller(owner, namespace)
        except (KubeError, OwnerMissingError) as error:
            _log.info("the Deployment of ReplicaSet %s/%s is not known: %s", namespace, owner.name, error)
            return owners
        if above is not None and group_kind(above.api_version, above.kind) == DEPLOYMENT:
            owners.append((DEPLOYMENT, above.name))
    return owners


def make_prevention_report(pod: Document, budget: BudgetView, *, username: str) -> StepReport:
    """Build the report about a pod that a budget protected from this user's request: the event on the pod, and the
    metric.
    """
    metadata = pod["metadata"]
    namespace, name, uid = budget.namespace, metadata["name"], metadata["uid"]
    event = StepEvent(
        resource=PODS,
        namespace=namespace,
        name=name,
        uid=uid,
        reason="PubPreventPodDeletion",
        message="openkruise pub prevents pod deletion",
    )
    prevented = PreventedDisruption(
        namespace=namespace,
        pod=name,
        kind=POD_UNAVAILABLE_BUDGETS.kind,
        name=budget.name,
        uid=uid,
        owner=controller_of(pod),
        username=username,
    )
    return StepReport(events=(event,), prevented=prevented)


def _make_places_expression(interests: Interests) -> str:
    """CEL expression: the namespace has budgets. Their selectors do not matter, because an eviction request has no
    labels.
    """
    kind = POD_UNAVAILABLE_BUDGETS.kind
    if kind not in interests:
        return ALWAYS
    places = [
        LabelSelection(selector=EVERYTHING, namespaces=interest.namespaces) for interest in interests[kind]
    ]
    return build_selection({kind: places}, kind)


def _make_message(budget: BudgetView, code: RefusalCode | None) -> str:
    """Build the message. OpenKruise's messages are the same."""
    start = f'podunavailablebudget.policy.kruise.io "{budget.name}" is forbidden: '
    if code == RefusalCode.UNCONFIRMED:
        return (
            start
            + "DisruptedPods and UnavailablePods map too big - too many unavailable not confirmed by PUB "
            "controller"
        )
    return start + "pub unavailable allowed is negative"


def _make_surge_message(cloneset: str) -> str:
    return (
        f"CloneSet {cloneset} creates a successor first ({EVICTION_SURGE.annotation}), and deletes the pod when the "
        "successor is available"
    )


def _make_status(operation: Operation, message: str, *causes: Cause) -> ErrorStatus:
    """Build the rejection. `causes`: machine-readable reasons, which OpenKruise's response does not have."""
    details = StatusDetails(causes=causes) if causes else None
    is_eviction = operation == Operation.EVICT
    reason, code = ("TooManyRequests", 429) if is_eviction else ("Forbidden", 403)
    return ErrorStatus(status="Failure", message=message, reason=reason, code=code, details=details)


def _select_covered_pods(budgets: Iterable[BudgetView]) -> list[LabelSelection]:
    """Pods that budgets cover. For a budget with a targetRef these are all pods of the namespace, because the labels of
    the target's pods are unknown.
    """
    return [
        LabelSelection(
            selector=budget.selector if budget.target is None else EVERYTHING, namespaces=(budget.namespace,)
        )
        for budget in budgets
    ]


STEPS: Final = PodSteps(
    name="podunavailablebudget",
    order=50,
    shares=make_guarding,
    mutate=BudgetTie,
    judge=BudgetGuard,
    reads=PodReaders(
        live=lambda place: LiveBudgets(place.client, clock=place.clock),
        cached=lambda place: CachedBudgets(place.client(), clock=place.clock, rng=place.rng),
    ),
    selects=PodSelection(
        views=BUDGET_VIEWS, pods=_select_covered_pods, announces=("selector", "targetRef"), opens="validating"
    ),
    rights=(
        make_right(POD_UNAVAILABLE_BUDGETS, *READ, why="PodUnavailableBudget: to watch budgets"),
        make_right(
            POD_UNAVAILABLE_BUDGETS,
            "patch",
            subresource="status",
            why="PodUnavailableBudget: to record disruptions in budgets",
        ),
        make_right(PODS, "get", why="PodUnavailableBudget: to read the pod that is evicted"),
        make_right(
            PODS, "patch", why="PodUnavailableBudget: to record an eviction that waits for a successor"
        ),
        make_right(
            CLONE_SETS,
            "get",
            why="PodUnavailableBudget: to read whether a CloneSet creates an evicted pod's successor first",
        ),
        *(
            make_right(
                TARGET_RESOURCES[kind], "get", why="PodUnavailableBudget: to find the Deployment of a pod"
            )
            for kind in (REPLICA_SET, DEPLOYMENT)
        ),
    ),
    component=COMPONENT,
    prevention=PreventionMetric(
        metric="pod_unavailable_budget",
        description="Deletions, evictions and updates of pods that a PodUnavailableBudget rejected.",
        log_field="Budget",
    ),
    carries="validating",
)
