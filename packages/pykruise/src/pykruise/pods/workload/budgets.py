"""PodUnavailableBudgets: rules for every client that takes a pod out of service and spends a budget.

stored budget ──▶ BudgetView (what a cache keeps)
budget + pod + operation ──▶ ask() ──▶ free, to be spent, or rejected ──▶ spend_patch(): one write for all pods

Pure. Only this module contains these rules; the pod webhook, the controller of budgets, and (before an update) the
controllers of workloads use it. A client writes its spending to the budget's status with the resourceVersion as
precondition, so two clients that spend at the same time cannot both succeed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.group_kinds import GroupKind, group_kind
from pykruise.kube.values.selectors import NOTHING, Selector, SelectorError, parse_selector
from pykruise.pods.in_place import InPlaceSettings, judge_pod
from pykruise.pods.in_place.images import parse_image_name
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.sidecars import read_replaced_image_ids
from pykruise.runtime.actions import Patch, patch_object

POD_UNAVAILABLE_BUDGETS: Final = Resource(
    "policy.kruise.io", "v1beta1", "podunavailablebudgets", "PodUnavailableBudget"
)

MOST_UNCONFIRMED: Final = 2000
"""Maximum number of pods on a budget's lists that its controller has not confirmed yet."""

DISRUPTED_S: Final = 20.0
"""Seconds within which an admitted deletion must start; otherwise the pod counts as available again."""

UPDATED_S: Final = 10.0
"""Seconds within which an admitted update must appear on the pod; otherwise the pod counts as available again."""

UNAVAILABLE_LABEL: Final = "unavailable-pod.kruise.io/"
"""Prefix of labels that make a pod count as not ready."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class Operation(StrEnum):
    """Operation on a pod."""

    DELETE = "DELETE"
    UPDATE = "UPDATE"
    EVICT = "EVICT"
    RESIZE = "RESIZE"


_PROTECTED_BY_DEFAULT: Final = (Operation.DELETE, Operation.UPDATE, Operation.EVICT)


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """A PodUnavailableBudget."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    created_at: Instant | None = None
    is_deleting: bool = False
    selector: Selector = NOTHING
    """Selects the budget's pods; matches no pod if the budget uses `target`, or if spec.selector cannot be read
    (`problem`).
    """
    target: tuple[GroupKind, str] | None = None
    """The workload whose pods the budget covers: kind and name."""
    target_version: str = ""
    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    total: int | None = None
    """`spec.protectTotalReplicas`."""
    operations: frozenset[str] = frozenset()
    """Protected operations; empty selects the default operations."""
    ignored: Selector | None = None
    """Selects pods that the budget does not protect."""
    ignored_problem: str = ""
    """Why `spec.ignoredPodSelector` cannot be read."""
    problem: str = ""
    """Error of a stored field that admission would have rejected."""
    stored_spec: Document = {}
    stored_status: Document = {}
    desired_available: int = 0
    current_available: int = 0
    unavailable_allowed: int = 0
    disrupted: Mapping[str, str] = {}
    """Pods whose deletion or eviction was admitted, by name, with the time."""
    unavailable: Mapping[str, str] = {}
    """Pods whose update was admitted, by name, with the time."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def unconfirmed(self) -> int:
        """Number of pods on the budget's lists."""
        return len(self.disrupted) + len(self.unavailable)


class RefusalCode(StrEnum):
    """Reason why a pod must not be taken out of service."""

    EXHAUSTED = "Exhausted"
    UNCONFIRMED = "Unconfirmed"
    INVALID = "Invalid"


class BudgetAnswer(msgspec.Struct, frozen=True):
    """`refusal`: reason for rejecting; empty if the operation is allowed. `spends`: whether the operation costs one
    unit of the budget.
    """

    spends: bool = False
    refusal: str = ""
    code: RefusalCode | None = None
    remedy: str = ""
    """Action for a case in which waiting may never help; empty if only more serving pods are needed."""


FREE: Final = BudgetAnswer()


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Target(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    selector: dict[str, Any] | None = None
    target_ref: _Target | None = None
    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    protect_total_replicas: int | None = None
    protect_operations: list[str] | None = None
    ignored_pod_selector: dict[str, Any] | None = None


class _Status(msgspec.Struct, rename="camel"):
    desired_available: int = 0
    current_available: int = 0
    unavailable_allowed: int = 0
    disrupted_pods: dict[str, str | None] | None = None
    unavailable_pods: dict[str, str | None] | None = None


class _Budget(msgspec.Struct):
    metadata: _Meta
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Budget).decode


def project_budget(raw: bytes | msgspec.Raw) -> BudgetView:
    """Decode a budget's JSON text (v1beta1) into its view. Raises msgspec.DecodeError when the text is not a budget.

    In v1alpha1, annotations contain some settings. OpenKruise's CRD does not convert them to fields of the spec, so if
    such a field is empty, the annotation is read.
    """
    budget = _decode(raw)
    meta, annotations = budget.metadata, budget.metadata.annotations or {}
    result, unread = read(budget.spec or {}, _Spec, path="spec")
    spec = result or _Spec()
    counted, _ = read(budget.status or {}, _Status, path="status", raw={"disruptedPods", "unavailablePods"})
    status = counted or _Status()
    selector, problem = _read_selector(spec.selector)
    ignored, ignored_problem = _read_ignored_selector(spec.ignored_pod_selector)
    target = spec.target_ref or _Target()
    kind = group_kind(target.api_version, target.kind)
    return BudgetView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        generation=meta.generation,
        created_at=parse_time(meta.creation_timestamp) if meta.creation_timestamp else None,
        is_deleting=meta.deletion_timestamp is not None,
        selector=selector,
        target=(kind, target.name) if kind is not None and target.name else None,
        target_version=target.api_version.rpartition("/")[2],
        max_unavailable=spec.max_unavailable,
        min_available=spec.min_available,
        total=spec.protect_total_replicas
        or _parse_number(annotations.get(keys.PROTECT_TOTAL_REPLICAS_ANNOTATION)),
        operations=frozenset(spec.protect_operations or _read_operations(annotations)),
        ignored=ignored,
        ignored_problem=ignored_problem,
        problem=unread or problem,
        stored_spec=budget.spec or {},
        stored_status=budget.status or {},
        desired_available=status.desired_available,
        current_available=status.current_available,
        unavailable_allowed=status.unavailable_allowed,
        disrupted=_read_records(status.disrupted_pods),
        unavailable=_read_records(status.unavailable_pods),
    )


def _read_records(stored: Mapping[str, str | None] | None) -> Mapping[str, str]:
    return {name: since or "" for name, since in (stored or {}).items()}


def _read_selector(document: Mapping[str, Any] | None) -> tuple[Selector, str]:
    """Parse the selector. A selector without requirements matches no pod, like an absent one."""
    try:
        selector = parse_selector(document)
    except SelectorError as error:
        return NOTHING, f"spec.selector: {error}"
    return (NOTHING, "") if selector.is_empty else (selector, "")


def _read_ignored_selector(given: Mapping[str, Any] | None) -> tuple[Selector | None, str]:
    """Return the selector, or the reason why it cannot be read. An empty selector counts as absent."""
    if given is None:
        return None, ""
    try:
        selector = parse_selector(given)
    except SelectorError as error:
        return None, str(error)
    return (None if selector.is_empty else selector), ""


def _read_operations(annotations: Mapping[str, str]) -> list[str]:
    """Operations in the annotation. Empty if an operation is unknown: the budget then protects against the default
    operations.
    """
    listed = annotations.get(keys.PROTECT_OPERATIONS_ANNOTATION, "")
    items = [part.strip() for part in listed.split(",") if part.strip()]
    return items if all(part in Operation.__members__ for part in items) else []


def _parse_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


# ── the budget of a pod, and its verdict ─────────────────────────────────────


def budget_name_of(pod: PodView) -> str:
    """Name of the budget that protects the pod; empty if no budget does."""
    return read_related_budget(pod.annotations)


def read_related_budget(annotations: Mapping[str, str]) -> str:
    """Name of the budget in a pod's annotations; empty if the annotations name no budget."""
    text = annotations.get(keys.RELATED_PUB_ANNOTATION)
    return text or annotations.get(keys.LEGACY_RELATED_PUB_ANNOTATION, "")


def build_related_annotations(name: str) -> dict[str, str]:
    """Annotations that assign a pod to the budget of this name."""
    return dict.fromkeys((keys.RELATED_PUB_ANNOTATION, keys.LEGACY_RELATED_PUB_ANNOTATION), name)


def list_protected_operations(budget: BudgetView, *, is_resize_apart: bool = False) -> frozenset[str]:
    """Operations that the budget protects against. If `is_resize_apart` is true (gate InPlacePodVerticalScaling
    is on), RESIZE is protected only if it is listed. If it is false, RESIZE is also protected if UPDATE is protected.
    """
    listed = budget.operations or frozenset(_PROTECTED_BY_DEFAULT)
    if not is_resize_apart and Operation.UPDATE in listed:
        return listed | {Operation.RESIZE}
    return listed


def is_exempt(annotations: Mapping[str, str]) -> bool:
    """Whether the pod's annotation exempts it from every budget."""
    return annotations.get(keys.NO_PROTECT_ANNOTATION) in _TRUE


def is_recorded(budget: BudgetView, pod: PodView) -> bool:
    """Whether the budget has already admitted the deletion or update of the pod. A record older than the pod belongs to
    an earlier pod of the same name. A record without a readable time is valid until the controller drops it.
    """
    since = budget.disrupted.get(pod.name, budget.unavailable.get(pod.name))
    if since is None:
        return False
    try:
        return pod.created_at is None or parse_time(since) >= int(pod.created_at)
    except ValueError:
        return True


def is_admitted_again(budget: BudgetView, pod: PodView, *, now: Instant) -> bool:
    """Whether a record admits its pod once more without cost: during the first half of the record's lifetime.

    Later the pod needs a new admission. This view of the budget may be stale, so the record may already be dropped
    and its unit given to another pod; or the record may expire before the effect of this request is visible.
    """
    if not is_recorded(budget, pod):
        return False
    lists = ((budget.disrupted, DISRUPTED_S), (budget.unavailable, UPDATED_S))
    return any(
        pod.name in records and now - record_time(records[pod.name]) < lasting_s / 2
        for records, lasting_s in lists
    )


def record_time(text: str) -> Instant:
    """Time at which a pod was recorded. An unreadable time counts as expired."""
    try:
        return parse_time(text)
    except ValueError:
        return 0.0


def ask(
    budget: BudgetView | None,
    pod: PodView,
    operation: Operation,
    *,
    spent: int,
    now: Instant,
    settings: InPlaceSettings,
    is_resize_apart: bool = False,
) -> BudgetAnswer:
    """Decide whether the pod may be taken out of service. `spent`: units already taken from the budget that its
    status does not show yet.

    A pod costs nothing if it does not serve, if its update is unfinished, or if the budget has already admitted it. If
    spec.ignoredPodSelector cannot be read, the operation is rejected. OpenKruise applies the same rules in the same
    order.
    """
    if budget is None or is_exempt(pod.annotations):
        return FREE
    if not is_counted_as_available(pod, now=now, settings=settings):
        return FREE
    if budget.ignored_problem:
        text = f"PodUnavailableBudget {budget.name}: spec.ignoredPodSelector: {budget.ignored_problem}"
        return BudgetAnswer(refusal=text, code=RefusalCode.INVALID)
    if budget.ignored is not None and budget.ignored.matches(pod.labels):
        return FREE
    if budget.desired_available == 0:
        return FREE
    if operation not in list_protected_operations(budget, is_resize_apart=is_resize_apart):
        return FREE
    if is_admitted_again(budget, pod, now=now):
        return FREE
    if budget.unavailable_allowed - spent <= 0:
        text = f"PodUnavailableBudget {budget.name} allows no more unavailable pods"
        return BudgetAnswer(refusal=text, code=RefusalCode.EXHAUSTED, remedy=_describe_closed_remedy(budget))
    if budget.unconfirmed + spent > MOST_UNCONFIRMED:
        text = f"PodUnavailableBudget {budget.name} has too many disruptions that the manager has not confirmed yet"
        return BudgetAnswer(refusal=text, code=RefusalCode.UNCONFIRMED)
    return BudgetAnswer(spends=True)


def _describe_closed_remedy(budget: BudgetView) -> str:
    """Return the required change if the budget may never allow a disruption; empty if it allows a disruption when its
    pods serve.
    """
    total = budget.stored_status.get("totalReplicas")
    if not isinstance(total, int) or budget.desired_available < total:
        return "" if budget.total is None else wait_for_pods(budget)
    return f"{describe_opening(budget)} of PodUnavailableBudget {budget.name}{_REJECTS_ALL}"


_MORE_PODS: Final = "run more than one pod, or replace minAvailable by maxUnavailable"
"""Change for a budget whose minAvailable is a percentage of one pod: every percentage above 0 is rounded up to 1."""

_REJECTS_ALL: Final = ", because the budget now rejects every disruption"
_REMEDY: Final = re.compile(
    rf"; (?P<remedy>(?:(?:raise maxUnavailable|lower minAvailable|{_MORE_PODS})"
    rf" of PodUnavailableBudget \S+{_REJECTS_ALL})"
    r"|(?:wait until more pods of PodUnavailableBudget \S+ serve(?:; or lower spec\.protectTotalReplicas of .*)?))$"
)


def wait_for_pods(budget: BudgetView) -> str:
    """Return the remedy for a budget that allows a disruption when more of its pods serve. If the budget sets the total
    number of pods, its workload perhaps wants fewer pods, and then no more pods will serve.
    """
    name, total = budget.name, budget.total
    wait = f"wait until more pods of PodUnavailableBudget {name} serve"
    if total is None:
        return wait
    lower = f"lower spec.protectTotalReplicas of PodUnavailableBudget {name}"
    return f"{wait}; or {lower} if its workload wants fewer pods than {total}"


def split_budget_remedy(message: str) -> tuple[str, str]:
    """Split the message of a rejected write into the cause and the remedy of a budget. The remedy is empty if the
    message does not end with such a remedy.
    """
    match = _REMEDY.search(message)
    return (message, "") if match is None else (message[: match.start()], match["remedy"])


def describe_opening(budget: BudgetView) -> str:
    """Return the change of the spec after which the budget allows disruptions. Now it requires all of its pods."""
    if budget.min_available is None:
        return "raise maxUnavailable"
    is_rounded_up = isinstance(budget.min_available, str) and budget.desired_available == 1
    return _MORE_PODS if is_rounded_up else "lower minAvailable"


def spend_patch(budget: BudgetView, spent: Mapping[str, Operation], *, now: Instant) -> Document:
    """Merge patch of the budget's status that spends the budget for these pods. The write needs the budget's
    resourceVersion.

    Until this write, the pods count as available. The write also decreases currentAvailable, so the controller has
    nothing to correct. RESIZE is recorded like UPDATE: its pod is not expected to be deleted.
    """
    since = format_time(now)
    staying = {name: since for name, operation in spent.items() if operation in _STAYING}
    going = {name: since for name in spent if name not in staying}
    status: Document = {
        "unavailableAllowed": budget.unavailable_allowed - len(spent),
        "currentAvailable": max(budget.current_available - len(spent), 0),
    }
    if staying:
        status["unavailablePods"] = staying
    if going:
        status["disruptedPods"] = going
    return {"status": status}


def spend_for_updates(budget: BudgetView, pods: Iterable[str], *, now: Instant) -> Patch:
    """Return the write that spends the budget for the updates of these pods. It fails when another writer has spent
    from the budget in between.
    """
    spent = dict.fromkeys(pods, Operation.UPDATE)
    return patch_object(
        POD_UNAVAILABLE_BUDGETS,
        budget,
        spend_patch(budget, spent, now=now),
        subresource="status",
        unchanged=True,
    )


_STAYING: Final = frozenset({Operation.UPDATE, Operation.RESIZE})


# ── pods that count ──────────────────────────────────────────────────────────


def is_counted_as_available(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> bool:
    """Whether the pod serves and runs with its spec, so that taking it out of service costs one unit of its budget."""
    return _is_ready(pod) and (not _needs_check(pod) or _is_consistent(pod, now=now, settings=settings))


def find_counting_time(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> Instant | None:
    """Time at which a pod may begin to count as available without an event; None if time alone does not change that."""
    if not _is_ready(pod) or not _needs_check(pod):
        return None
    return judge_pod(pod, now=now, settings=settings).look_at


def _is_ready(pod: PodView) -> bool:
    return (
        pod.phase == "Running"
        and pod.has_ready_condition
        and not pod.is_deleting
        and not any(label.startswith(UNAVAILABLE_LABEL) for label in pod.labels)
    )


def _needs_check(pod: PodView) -> bool:
    """Whether the pod's images must be compared. Most pods were never updated in place and have images by tag."""
    if any("@" in container.image for container in pod.containers):
        return True
    result = pod.annotations
    return bool(result) and any(name in result for name in _OF_UPDATES)


_OF_UPDATES: Final = (
    keys.IN_PLACE_STATE_ANNOTATION,
    keys.IN_PLACE_GRACE_ANNOTATION,
    keys.LEGACY_IN_PLACE_STATE_ANNOTATION,
    keys.LEGACY_IN_PLACE_GRACE_ANNOTATION,
    keys.SIDECARSET_STATE_ANNOTATION,
)


def _is_consistent(pod: PodView, *, now: Instant, settings: InPlaceSettings) -> bool:
    """Whether the pod runs with its spec. Images with a digest are compared by the digest. If an image has no digest,
    the last in-place update of the pod must be complete.
    """
    digests = {container.name: parse_image_name(container.image).digest for container in pod.containers}
    ids = {status.name: status.image_id for status in pod.container_statuses}
    named: Sequence[tuple[str, str]] = [(name, digest) for name, digest in digests.items() if digest]
    if any(not ids.get(name, "").endswith(digest) for name, digest in named):
        return False
    if len(named) == len(digests):
        return True
    return _has_new_sidecars(pod) and judge_pod(pod, now=now, settings=settings).is_complete


def _has_new_sidecars(pod: PodView) -> bool:
    """Whether each sidecar that a SidecarSet updated in place runs its new image."""
    if not pod.annotations.get(keys.SIDECARSET_LIST_ANNOTATION):
        return True
    before = read_replaced_image_ids(pod.annotations)
    if before is None:
        return False
    images = {container.name: container.image for container in pod.containers}
    return not any(
        before.get(status.name) == status.image_id and images.get(status.name) != status.image
        for status in pod.container_statuses
    )
