"""Snapshot of one PodUnavailableBudget: its pods, and their desired number.

BudgetView + Read ──▶ read_snapshot() ──▶ BudgetSnapshot ──▶ plan.py

Workloads of known kinds are cached. Workloads of other kinds are read for each snapshot. The budget's status records
the pods whose deletion or update was admitted; a recorded pod does not count as available. When a pod's records have
expired, the pod is read from the API server before it counts as available again, because a watch that hangs possibly
has not delivered the deletion or update.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from pykruise.kinds.podunavailablebudget.matching import may_cover
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.selectors import NOTHING, Selector, SelectorError, parse_label_selector
from pykruise.plans.selected_pods import select_pods
from pykruise.plans.stored_values import Judged
from pykruise.plans.targets import (
    DEPLOYMENT,
    REPLICA_SET,
    TARGET_VIEWS,
    TargetView,
    WhiteListReader,
    WorkloadReader,
    deployment_of,
)
from pykruise.plans.views import BUDGET_VIEWS, POD_VIEWS
from pykruise.pods.in_place import GateSettings
from pykruise.pods.in_place import InPlaceSettings as InPlaceSettings
from pykruise.pods.settings import FromManager, OnGate
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.allowed_workloads import STATEFUL_KINDS, WhiteListError
from pykruise.pods.workload.budgets import (
    DISRUPTED_S,
    UPDATED_S,
    BudgetView,
    budget_name_of,
    record_time,
)
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE

_log = logging.getLogger(__name__)


POLL_S: Final = 10.0
"""Seconds between two reads of a workload that is not cached."""

JOB: Final = GroupKind("batch", "Job")

COUNTED_VIEWS: Final = {kind: views for kind, views in TARGET_VIEWS.items() if kind != JOB}
"""Cached workloads that have a desired number of pods."""

_WITHOUT_SCALE: Final = frozenset(
    {
        JOB,
        GroupKind("", "Node"),
        GroupKind("apps", "DaemonSet"),
        GroupKind("apps.kruise.io", "DaemonSet"),
        GroupKind("apps.kruise.io", "BroadcastJob"),
    }
)
"""Kinds of owners without a desired number of pods. These owners are not read from the API server."""


class BudgetSettings(GateSettings, frozen=True, kw_only=True):
    """Feature gates that change decisions about budgets."""

    guards_deletion: Annotated[bool, OnGate("PodUnavailableBudgetDeleteGate")] = True
    guards_updates: Annotated[bool, OnGate("PodUnavailableBudgetUpdateGate")] = False
    is_resize_apart: Annotated[bool, OnGate("InPlacePodVerticalScaling")] = False
    """Whether a resize is a separate operation; otherwise it counts as an update."""
    namespace: Annotated[str, FromManager("own_namespace")] = "kruise-system"
    """The manager's namespace, which contains the white list."""


class BudgetSnapshot(Judged, frozen=True, kw_only=True):
    """State of one budget and its surroundings at one time."""

    budget: BudgetView
    pods: Sequence[PodView] = ()
    """Active pods that the budget covers."""
    workloads: Sequence[tuple[GroupKind, str]] = ()
    """Kind and name of each workload that controls these pods."""
    total: int = 0
    """The total that the budget sets; otherwise the desired number of pods of all workloads together, where an unknown
    number counts as 0.
    """
    wanted: int | None = None
    """Desired number of pods of all workloads together, even if the budget sets a total. None: the number of one
    workload is unknown.
    """
    unknown: Sequence[str] = ()
    """Workloads whose desired number of pods is unknown, as `Kind name`."""
    is_target_missing: bool = False
    """Whether the target workload does not exist or is terminating."""
    others: frozenset[str] = frozenset()
    """Names of the other budgets of the namespace."""
    released: frozenset[str] = frozenset()
    """Names of the pods that are assigned to another budget which no longer covers them."""
    polls_after_s: float | None = None
    """Seconds until workloads that are not cached are read again."""
    in_place: InPlaceSettings = InPlaceSettings()
    now: Instant


class _Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one workload."""

    uid: str = ""
    replicas: int | None = 0
    """Desired number of pods; None: the workload has no such number, or the manager may not read it. A missing or
    terminating workload has 0.
    """
    owners: tuple[str, ...] = ()
    """uids of the objects that control the workload's pods."""
    selector: Selector = NOTHING
    """Selects the workload's pods, if none of these owners controls any pod."""
    is_mirrored: bool = True
    is_readable: bool = True
    """False if the manager may not read the workload: whether it exists is unknown."""


_MISSING: Final = _Workload()


async def read_snapshot(view: BudgetView, read: Read[BudgetSettings]) -> BudgetSnapshot | None:
    """Collect the facts about one budget; None: it was deleted. Raises KubeError if a workload cannot be read. If the
    manager may not read an object without scale, the number of its pods is unknown.
    """
    if view.is_deleting:
        return BudgetSnapshot(budget=view, now=read.now())
    if view.target is not None:
        kind, name = view.target
        workload = await _find_workload(kind, Key(view.namespace, name), read, version=view.target_version)
        # The caches may have changed in the meantime: the plan must use their current contents.
        pods = _list_pods_of_workload(view.namespace, workload, read)
        workloads: Mapping[str, _Workload] = {f"{kind.kind} {name}": workload}
    else:
        workloads = await _find_owners(_select_pods(view, read), view.namespace, read)
        pods = _select_pods(view, read)
    budget = read.get(BUDGET_VIEWS, view.key)
    if budget is None:
        return None
    await _look_at_late(pods, budget, read)
    pods = read.find_memory(_Looked).newest(pods)
    is_polled = any(not item.is_mirrored for item in workloads.values())
    others = {
        other.name: other
        for other in read.list_by_index(BUDGET_VIEWS, BY_NAMESPACE, view.namespace)
        if other.name != view.name and not other.is_deleting
    }
    return BudgetSnapshot(
        budget=budget,
        pods=tuple(sorted(pods, key=lambda pod: pod.name)),
        workloads=[view.target] if view.target is not None else _list_controllers(pods),
        total=_count_total(workloads.values()) if budget.total is None else budget.total,
        wanted=None
        if any(item.replicas is None for item in workloads.values())
        else _count_total(workloads.values()),
        unknown=tuple(sorted(name for name, value in workloads.items() if value.replicas is None)),
        is_target_missing=view.target is not None
        and not any(item.uid or not item.is_readable for item in workloads.values()),
        others=frozenset(others),
        released=frozenset(
            pod.name
            for pod in pods
            if (other := others.get(budget_name_of(pod))) is not None
            and not may_cover(other, pod, _find_replica_set(pod, read))
        ),
        polls_after_s=POLL_S if is_polled else None,
        in_place=read.settings.in_place,
        now=read.now(),
    )


def _find_replica_set(pod: PodView, read: Read[BudgetSettings]) -> TargetView | None:
    owner = pod.controller
    if owner is None or GroupKind(owner.group, owner.kind) != REPLICA_SET:
        return None
    target = read.get(COUNTED_VIEWS[REPLICA_SET], Key(pod.namespace, owner.name))
    return target if target is not None and target.uid == owner.uid else None


def _list_controllers(pods: Iterable[PodView]) -> list[tuple[GroupKind, str]]:
    controllers = (pod.controller for pod in pods)
    return sorted({(GroupKind(item.group, item.kind), item.name) for item in controllers if item is not None})


class _Looked:
    """Pods that were read from the API server. Each is kept until the cache contains the same or a newer version."""

    def __init__(self) -> None:
        self._found: dict[str, PodView | None] = {}
        """Pods by uid; None: the pod no longer exists."""

    def note(self, uid: str, pod: PodView | None) -> None:
        """Record the API server's response."""
        self._found[uid] = pod

    def newest(self, pods: Iterable[PodView]) -> list[PodView]:
        """Return the active pods among these cached pods, each in its newest known version."""
        known = {pod.uid: pod for pod in pods}
        self._found = {
            uid: pod
            for uid, pod in self._found.items()
            if uid in known and (pod is None or pod.resource_version > known[uid].resource_version)
        }
        best = (self._found.get(uid, pod) for uid, pod in known.items())
        return [pod for pod in best if pod is not None and pod.is_active]


async def _look_at_late(pods: Iterable[PodView], budget: BudgetView, read: Read[BudgetSettings]) -> None:
    """Read some pods from the API server: those whose records have expired. The caches may lack their deletion or
    update.
    """
    looked = read.find_memory(_Looked)
    for pod in pods:
        if not _is_late(pod, budget, now=read.now()):
            continue
        try:
            result = project_pod(await read.live.get(PODS, pod.namespace, pod.name))
        except NotFoundError:
            result = None
        looked.note(pod.uid, result if result is not None and result.uid == pod.uid else None)


def _is_late(pod: PodView, budget: BudgetView, *, now: Instant) -> bool:
    lists = ((budget.disrupted, DISRUPTED_S), (budget.unavailable, UPDATED_S))
    times = [
        record_time(records[pod.name]) + lasting_s for records, lasting_s in lists if pod.name in records
    ]
    return bool(times) and max(times) <= now


def _count_total(workloads: Iterable[_Workload]) -> int:
    by_uid = {workload.uid: workload.replicas or 0 for workload in workloads}
    return sum(by_uid.values())


def _select_pods(view: BudgetView, read: Read[BudgetSettings]) -> list[PodView]:
    return [pod for pod in select_pods(view.selector, view.namespace, read) if pod.is_active]


def _list_pods_of_workload(namespace: str, workload: _Workload, read: Read[BudgetSettings]) -> list[PodView]:
    if workload.replicas == 0:
        return []
    owned = [pod for uid in workload.owners for pod in read.list_owned(POD_VIEWS, uid)]
    if not owned:
        owned = list(select_pods(workload.selector, namespace, read))
    return [pod for pod in owned if pod.is_active]


# ── workloads ────────────────────────────────────────────────────────────────


async def _find_owners(
    pods: Iterable[PodView], namespace: str, read: Read[BudgetSettings]
) -> Mapping[str, _Workload]:
    """The workloads that control these pods."""
    controllers = {pod.controller.uid: pod.controller for pod in pods if pod.controller is not None}
    return {
        f"{controller.kind} {controller.name}": await _find_workload(
            GroupKind(controller.group, controller.kind),
            Key(namespace, controller.name),
            read,
            uid=controller.uid,
        )
        for controller in controllers.values()
    }


async def _find_workload(
    kind: GroupKind, key: Key, read: Read[BudgetSettings], *, uid: str = "", version: str = ""
) -> _Workload:
    """Facts about a workload. `uid`: a workload with another uid counts as missing. Raises KubeError."""
    if kind in COUNTED_VIEWS:
        return await _find_cached(kind, key, read, uid=uid)
    if kind in _WITHOUT_SCALE and uid:
        return _Workload(uid=uid, replicas=None)
    return await _read_uncached(kind, key, read, uid=uid, version=version)


async def _find_cached(kind: GroupKind, key: Key, read: Read[BudgetSettings], *, uid: str) -> _Workload:
    views = COUNTED_VIEWS[kind]
    target = read.get(views, key) if await read.wait_served(views) else None
    if target is None or target.is_deleting or (uid and target.uid != uid):
        return _MISSING
    counted = target
    if kind == REPLICA_SET and (name := deployment_of(key.namespace, key.name, read)):
        counted = read.get(COUNTED_VIEWS[DEPLOYMENT], Key(key.namespace, name)) or target
        if counted.is_deleting:
            return _MISSING
    return _Workload(
        uid=counted.uid,
        replicas=counted.replicas,
        owners=_list_replica_sets(target, read) if kind == DEPLOYMENT else (target.uid,),
    )


def _list_replica_sets(deployment: TargetView, read: Read[BudgetSettings]) -> tuple[str, ...]:
    sets = read.list_owned(COUNTED_VIEWS[REPLICA_SET], deployment.uid)
    owners = [
        target.uid for target in sets if not target.is_deleting and deployment.selector.matches(target.labels)
    ]
    return tuple(owners or [deployment.uid])


async def _read_uncached(
    kind: GroupKind, key: Key, read: Read[BudgetSettings], *, uid: str, version: str
) -> _Workload:
    reader = read.memory_of_kind(WorkloadReader, lambda: WorkloadReader(lambda: read.live))
    where = (kind, key.namespace, key.name)
    if await _is_listed(kind, read):
        try:
            return _read_listed(await reader.read(*where, version=version), uid)
        except ForbiddenError:
            _log.info(
                "%s %s of the white list cannot be read; grant the manager permission to read its "
                "scale, which can contain the number of its pods",
                kind,
                key,
            )
    # The scale is read first: generated roles allow this for every kind, and the scale contains the desired number.
    scale = await reader.read_scale(*where, version=version)
    try:
        document = scale or await reader.read(*where, version=version)
    except ForbiddenError:
        return _Workload(uid=uid, replicas=None, owners=(uid,), is_mirrored=False, is_readable=False)
    result = get_path(document, "metadata", "uid", default="")
    if document is None or get_path(document, "metadata", "deletionTimestamp") or (uid and result != uid):
        return _Workload(is_mirrored=False)
    replicas = get_path(scale, "spec", "replicas", default=0 if scale is not None else None)
    return _Workload(
        uid=result,
        replicas=replicas if isinstance(replicas, int) else None,
        owners=(result,),
        selector=_parse_selector(get_path(scale, "status", "selector")),
        is_mirrored=False,
    )


async def _is_listed(kind: GroupKind, read: Read[BudgetSettings]) -> bool:
    """Whether the kind is on the white list; False when the list cannot be read."""

    def make() -> WhiteListReader:
        namespace = read.settings.namespace
        return WhiteListReader(lambda: read.live, namespace=namespace, key=STATEFUL_KINDS, clock=read.now)

    try:
        return (await read.memory_of_kind(WhiteListReader, make).read()).find(kind) is not None
    except (WhiteListError, ForbiddenError) as error:
        _log.info("the white list of kinds like StatefulSets cannot be read: %s", error)
        return False


def _read_listed(document: Document | None, uid: str) -> _Workload:
    """Facts about a workload of the white list. The number of pods is its spec.replicas, or 0 when the field or the
    workload is missing.
    """
    result = get_path(document, "metadata", "uid", default="")
    if get_path(document, "metadata", "deletionTimestamp") or (uid and result != uid):
        return _Workload(is_mirrored=False)
    replicas = get_path(document, "spec", "replicas", default=0)
    wanted = replicas if isinstance(replicas, int) else 0
    return _Workload(uid=result, replicas=wanted, owners=(result,), is_mirrored=False)


def _parse_selector(text: object) -> Selector:
    try:
        return parse_label_selector(text) if isinstance(text, str) and text else NOTHING
    except SelectorError:
        return NOTHING
