"""Registration of the kind WorkloadSpread for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan, simulate (plans/kind.py)
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from pykruise.kinds.workloadspread.admission import build_validating_review
from pykruise.kinds.workloadspread.conversion import CONVERSION
from pykruise.kinds.workloadspread.insight import INSIGHT
from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.pod_steps import STEPS
from pykruise.kinds.workloadspread.readers import RIGHTS
from pykruise.kinds.workloadspread.shown import SHOWN
from pykruise.kinds.workloadspread.snapshot_reads import SpreadSettings, read_snapshot
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, WorkloadSpread
from pykruise.kinds.workloadspread.v1alpha1 import WorkloadSpreadV1Alpha1
from pykruise.kinds.workloadspread.validation import find_stored_errors
from pykruise.kinds.workloadspread.versions import version_of_pod
from pykruise.kinds.workloadspread.view import BY_TARGET, SPREAD_VIEWS, SpreadView
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import make_right
from pykruise.kube.resources import PODS
from pykruise.kube.schemas.crds import Column
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.kind import Kind, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.targets import (
    DEPLOYMENT,
    REPLICA_SET,
    TARGET_VIEWS,
    TargetView,
    deployment_name_of,
    deployment_of,
)
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION, MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import read_matched
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import EACH, Amount
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Wake, split_by_owner, wake_itself

_COLUMNS = (
    Column("WorkloadName", "string", ".spec.targetRef.name"),
    Column("WorkloadKind", "string", ".spec.targetRef.kind"),
    Column(
        "Adaptive",
        "boolean",
        '.spec.scheduleStrategy.type[?(@ == "Adaptive")]',
        description="Whether pods move to another subset when they find no node.",
    ),
    Column(
        "Spread",
        "string",
        ".status.spread",
        description="Pods in each subset, and the maximum of the subset.",
    ),
    Column("Age", "date", ".metadata.creationTimestamp"),
)


def _list_wakes(settings: SpreadSettings) -> Sequence[Wake]:
    return (
        wake_itself(SPREAD_VIEWS),
        Wake(on=POD_VIEWS, keys=partial(_enqueue_by_pod, versioned=settings.versioned)),
        *(Wake(on=views, keys=partial(_enqueue_by_target, kind)) for kind, views in TARGET_VIEWS.items()),
    )


def _enqueue_by_pod(
    change: Change[PodView], around: Around[SpreadSettings], *, versioned: frozenset[str]
) -> Iterator[Key]:
    """Enqueue the WorkloadSpread that the pod's annotation names. A pod without the annotation enqueues the
    WorkloadSpreads of its owner if it has a node, or if it was deleted: the status lists each version that has pods. A
    pod that gets another owner enqueues the WorkloadSpreads of both owners.
    """
    pod = change.latest
    if not around.list_by_index(SPREAD_VIEWS, BY_NAMESPACE, pod.namespace):
        return
    old, new = change.old, change.new
    noted = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    if noted is not None and noted.name:
        key = Key(pod.namespace, noted.name)
        spread = around.get(SPREAD_VIEWS, key)
        if spread is not None and (old is None or new is None or _is_relevant(spread, old, new, versioned)):
            yield key
    elif new is None or (new.node_name and (old is None or _is_moved(old, new, versioned))):
        for item in split_by_owner(change):
            yield from _enqueue_by_owner(item, around)


def _is_moved(old: PodView, new: PodView, versioned: frozenset[str]) -> bool:
    return old.node_name != new.node_name or old.labels != new.labels or _has_new_marks(old, new, versioned)


def _is_relevant(spread: SpreadView, old: PodView, new: PodView, versioned: frozenset[str]) -> bool:
    if (old.is_active and not new.is_active) or _has_new_marks(old, new, versioned):
        return True
    if old.labels != new.labels and _is_selected(spread, old) != _is_selected(spread, new):
        return True
    if not spread.reschedule_after_s:
        return False
    return old.node_name != new.node_name or old.find_condition("PodScheduled") != new.find_condition(
        "PodScheduled"
    )


def _is_selected(spread: SpreadView, pod: PodView) -> bool:
    return spread.selector is not None and spread.selector.matches(pod.labels)


def _has_new_marks(old: PodView, new: PodView, versioned: frozenset[str]) -> bool:
    """Whether the pod's owner, version, annotation or deletion cost changed, or a new obstacle keeps the pod from
    serving.
    """
    if old.controller != new.controller or version_of_pod(old, versioned) != version_of_pod(new, versioned):
        return True
    if has_new_obstacle(old, new):
        return True
    annotations = (MATCHED_SPREAD_ANNOTATION, DELETION_COST_ANNOTATION)
    return any(old.annotations.get(name) != new.annotations.get(name) for name in annotations)


def _enqueue_by_owner(pod: PodView, around: Around[SpreadSettings]) -> Iterator[Key]:
    owner = pod.controller
    if owner is None:
        return
    kind = GroupKind(owner.group, owner.kind)
    yield from _find_spread_keys(pod.namespace, kind, owner.name, around)
    if kind == REPLICA_SET and (name := deployment_of(pod.namespace, owner.name, around)):
        yield from _find_spread_keys(pod.namespace, DEPLOYMENT, name, around)


def _enqueue_by_target(
    kind: GroupKind, change: Change[TargetView], around: Around[SpreadSettings]
) -> Iterator[Key]:
    """Enqueue the WorkloadSpreads of the workload, and for a ReplicaSet those of its Deployment."""
    old, new = change.old, change.new
    if old is not None and new is not None and old.is_spread_as(new):
        return
    target = change.latest
    yield from _find_spread_keys(target.namespace, kind, target.name, around)
    if kind == REPLICA_SET and (name := deployment_name_of(target)):
        yield from _find_spread_keys(target.namespace, DEPLOYMENT, name, around)


def _find_spread_keys(
    namespace: str, kind: GroupKind, name: str, around: Around[SpreadSettings]
) -> Iterator[Key]:
    for spread in around.list_by_index(SPREAD_VIEWS, BY_TARGET, (namespace, kind, name)):
        yield spread.key


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        "spec.subsets[].maxReplicas": "the subset gets no new pods, and an event names it",
    },
)

KIND = Kind(
    resource=WORKLOAD_SPREADS,
    versions=make_two_versions(WorkloadSpread, WorkloadSpreadV1Alpha1, columns=_COLUMNS),
    short_names=("ws",),
    conversion=CONVERSION,
    gates=("WorkloadSpread",),
    amounts=(Amount(path=("spec", "subsets", EACH, "maxReplicas")),),
    settings=SpreadSettings,
    reviews=Reviews(
        validating=lambda _, lookups: build_validating_review(lookups.readers.get("workloadspread")),
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="workloadspread",
            component="workloadspread-controller",
            objects=SPREAD_VIEWS,
            reads=lambda _: (POD_VIEWS, NODE_VIEWS, *TARGET_VIEWS.values()),
            wakes=_list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.spread,
            plan=plan_spread,
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=(make_right(PODS, "create", "patch"),),
    rights=RIGHTS,
    insight=INSIGHT,
    shown=SHOWN,
    pods=STEPS,
)
