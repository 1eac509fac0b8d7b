"""Registration of the kind Advanced DaemonSet for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan, simulate (plans/kind.py)

A node's heartbeat enqueues nothing. When a node is added, deleted or changed, only the DaemonSets for which this makes
a difference are enqueued.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pykruise.kinds.daemonset.admission import build_validating_review, mutate_daemonset
from pykruise.kinds.daemonset.conversion import CONVERSION
from pykruise.kinds.daemonset.insight import INSIGHT
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.plan import compute_status_after, plan_daemonset
from pykruise.kinds.daemonset.shown import SHOWN
from pykruise.kinds.daemonset.snapshot import (
    DAEMON_SET_VIEWS,
    DaemonSetSettings,
    DaemonSetSnapshot,
    DaemonSetView,
    NodeMemory,
    read_snapshot,
    terms_of,
)
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSet
from pykruise.kinds.daemonset.v1alpha1 import DaemonSetV1Alpha1
from pykruise.kinds.daemonset.validation import OPTIONS, find_stored_errors
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.schemas.crds import Column
from pykruise.plans.config_content import GATES, list_config_reads, list_config_wakes, list_follow_rights
from pykruise.plans.kind import (
    AGE,
    POD_OWNER_LENDS,
    POD_TEMPLATE,
    Kind,
    list_workload_rights,
    make_two_versions,
)
from pykruise.plans.purposes import Purpose
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import TEMPLATE_IS_JUDGED_LATER, StoredSpec, add_judgement
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS, PULL_JOB_VIEWS, REVISION_VIEWS, NodeView
from pykruise.plans.wakes import wake_namesake
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.view.pod_view import FINISHED
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.kstatus import standing_of
from pykruise.pods.workload.options import IGNORE_UNAVAILABLE_NODES
from pykruise.pods.workload.views import selects
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.actions import Delete
from pykruise.runtime.control import Control
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Around, Read
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake, wake_adopters, wake_itself, wake_owner

_COLUMNS = (
    Column("DESIRED", "integer", ".status.desiredNumberScheduled"),
    Column("CURRENT", "integer", ".status.currentNumberScheduled"),
    Column("READY", "integer", ".status.numberReady"),
    Column("UP-TO-DATE", "integer", ".status.updatedNumberScheduled"),
    Column("AVAILABLE", "integer", ".status.numberAvailable"),
    AGE,
    *POD_TEMPLATE,
)


def _list_reads(settings: DaemonSetSettings) -> Sequence[Views[Any]]:
    return (
        *(POD_VIEWS, REVISION_VIEWS, NODE_VIEWS),
        *((PULL_JOB_VIEWS,) if settings.pre_download else ()),
        *list_config_reads(settings),
    )


def _list_wakes(settings: DaemonSetSettings) -> Sequence[Wake]:
    return (
        wake_itself(DAEMON_SET_VIEWS),
        wake_owner(POD_VIEWS, DAEMON_SETS),
        wake_adopters(
            POD_VIEWS, DAEMON_SET_VIEWS, may_own=lambda daemonset, pod: selects(daemonset.selector, pod)
        ),
        Wake(on=NODE_VIEWS, keys=_find_affected),
        wake_namesake(REVISION_VIEWS, DAEMON_SET_VIEWS),
        *list_config_wakes(DAEMON_SET_VIEWS, settings),
    )


def _find_affected(change: Change[NodeView], around: Around[DaemonSetSettings]) -> Iterator[Key]:
    """Yield the keys of the DaemonSets that must be reconciled after the change of the node."""
    old, new = change.old, change.new
    if old is not None and new is not None and old.is_placed_as(new):
        return
    for daemonset in around.list_all(DAEMON_SET_VIEWS):
        if _is_concerned(daemonset, old, new, around):
            yield daemonset.key


def _is_concerned(
    daemonset: DaemonSetView, old: NodeView | None, new: NodeView | None, around: Around[DaemonSetSettings]
) -> bool:
    fit = daemonset.placement.fit
    before = fit(old).place if old is not None else None
    after = fit(new).place if new is not None else None
    if old is None or new is None:
        # The memory contains the pods of the last refresh. The creation of later pods enqueues the DaemonSet anyway.
        known = around.memories.find_memory(daemonset.key, daemonset.uid, NodeMemory).find_states(
            terms_of(daemonset)
        )
        return Place.RUN in (before, after) or any(
            known.has_pods_on(node.name) for node in (old, new) if node is not None
        )
    if IGNORE_UNAVAILABLE_NODES.annotation in daemonset.annotations:
        return True  # any change of taints or labels can decide whether the node is out of service
    return before != after or _is_selected(daemonset, old) != _is_selected(daemonset, new)


def _is_selected(daemonset: DaemonSetView, node: NodeView) -> bool:
    selector = daemonset.node_selector
    return selector is not None and selector.matches(node.labels)


def _note_replaced(read: Read[DaemonSetSettings], snapshot: DaemonSetSnapshot, plan: Plan) -> None:
    """Remember the nodes whose finished pod is replaced, so that the next replacement on this node is delayed."""
    generation = snapshot.daemonset.generation
    nodes = _find_replacing_nodes(snapshot, plan)
    read.find_memory(NodeMemory).find_backoffs(generation).note(nodes, now=snapshot.now)


def _find_replacing_nodes(snapshot: DaemonSetSnapshot, plan: Plan) -> Iterator[str]:
    """Yield the nodes on which the plan deletes a finished pod."""
    finished = {
        pod.name: state.name
        for state in snapshot.overview.open
        for pod in state.pods
        if pod.phase in FINISHED
    }
    if finished:
        for step in plan.steps:
            if isinstance(step.action, Delete) and (node := finished.get(step.action.key.name)):
                yield node


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        "spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.burstReplicas": "one pod at a time",
    },
    options=OPTIONS,
)

KIND = Kind(
    resource=DAEMON_SETS,
    versions=make_two_versions(DaemonSet, DaemonSetV1Alpha1, columns=_COLUMNS),
    short_names=("daemon", "ads"),
    conversion=CONVERSION,
    amounts=(
        Amount(path=("spec", "burstReplicas"), least=1),
        Amount(path=("spec", "updateStrategy", "rollingUpdate", "partition")),
        Amount(path=("spec", "updateStrategy", "rollingUpdate", "maxSurge")),
        Amount(path=("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")),
    ),
    own_gates=GATES,
    settings=DaemonSetSettings,
    reviews=Reviews(
        mutating=lambda *_: mutate_daemonset,
        validating=lambda _, lookups: build_validating_review(lookups.revisions),
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="daemonset",
            component="daemonset-controller",
            objects=DAEMON_SET_VIEWS,
            reads=_list_reads,
            wakes=_list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.daemonset,
            plan=plan_daemonset,
            failed=compute_status_after,
            unreported=frozenset({Purpose.TIDY_UP}),
            standing=standing_of,
            own_conditions=frozenset({WAITING}),
            urgent_conditions=frozenset({WAITING}),
            remember=_note_replaced,
        ),
        _STORED,
    ),
    lends=POD_OWNER_LENDS,
    rights=(
        *list_workload_rights(DAEMON_SETS),
        make_right(
            IMAGE_PULL_JOBS, *READ, "create", "delete", why="DaemonSet: to pull images ahead of updates"
        ),
    ),
    rights_by_gate=list_follow_rights("DaemonSet"),
    insight=INSIGHT,
    shown=SHOWN,
)
