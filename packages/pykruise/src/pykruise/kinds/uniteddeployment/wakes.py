"""Events that enqueue UnitedDeployments.

change of a workload  ──▶ its controller before and after the change; of an orphan: UnitedDeployments that may adopt it
change of a pod       ──▶ the controller of its workload (of a Deployment: of its ReplicaSet's Deployment)
change of a revision  ──▶ the UnitedDeployment after which it is named

Pure, except for what `around` reads.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.uniteddeployment.snapshot import REPLICA_SET_VIEWS, UNITED_VIEWS, UnitedSettings
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    DEPLOYMENT,
    TEMPLATE_OF,
    WORKLOAD_VIEWS,
    SubsetWorkload,
)
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import REPLICA_SET, deployment_name_of
from pykruise.plans.views import POD_VIEWS, REVISION_VIEWS
from pykruise.plans.wakes import wake_namesake
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import selector_of
from pykruise.runtime.read import Around
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Wake, is_controller, wake_itself


def list_wakes(_: UnitedSettings) -> Sequence[Wake]:
    """All events that enqueue a UnitedDeployment."""
    return (
        wake_itself(UNITED_VIEWS),
        *(Wake(on=views, keys=_enqueue_by_workload) for views in WORKLOAD_VIEWS.values()),
        Wake(on=POD_VIEWS, keys=_enqueue_by_pod),
        wake_namesake(REVISION_VIEWS, UNITED_VIEWS),
    )


def _enqueue_by_workload(change: Change[SubsetWorkload], around: Around[UnitedSettings]) -> Iterator[Key]:
    owners = [_find_owner_key(workload) for workload in (change.old, change.new) if workload is not None]
    yield from (key for key in dict.fromkeys(owners) if key is not None)
    new = change.new
    if new is not None and new.controller is None and new.subset and not new.is_deleting:
        for united in around.list_by_index(UNITED_VIEWS, BY_NAMESPACE, new.namespace):
            selector = selector_of(united.spec.selector) if united.spec is not None else None
            if selector is not None and selector.matches(new.labels):
                yield united.key


def _find_owner_key(workload: SubsetWorkload) -> Key | None:
    owner = workload.controller
    if owner is None or not is_controller(owner, UNITED_DEPLOYMENTS):
        return None
    return Key(workload.namespace, owner.name)


def _enqueue_by_pod(change: Change[PodView], around: Around[UnitedSettings]) -> Iterator[Key]:
    """Enqueue the UnitedDeployment when a change affects its counts of pods or their scheduling."""
    old, new = change.old, change.new
    if old is not None and new is not None and _is_counted_equally(old, new):
        return
    pod = change.latest
    if pod.controller is None:
        return
    kind, name = GroupKind(pod.controller.group, pod.controller.kind), pod.controller.name
    if kind == REPLICA_SET:
        target = around.get(REPLICA_SET_VIEWS, Key(pod.namespace, name))
        if target is None:
            return
        workload = around.get(WORKLOAD_VIEWS[DEPLOYMENT], Key(pod.namespace, deployment_name_of(target)))
        if workload is None or workload.uid != target.controller_uid:
            return
    elif kind in TEMPLATE_OF:
        workload = around.get(WORKLOAD_VIEWS[TEMPLATE_OF[kind]], Key(pod.namespace, name))
    else:
        return
    key = _find_owner_key(workload) if workload is not None else None
    if key is not None:
        yield key


def _is_counted_equally(old: PodView, new: PodView) -> bool:
    return (
        old.labels == new.labels
        and old.is_active == new.is_active
        and old.phase == new.phase
        and old.node_name == new.node_name
        and old.has_ready_condition == new.has_ready_condition
        and old.ready_since == new.ready_since
        and old.find_condition("PodScheduled") == new.find_condition("PodScheduled")
    )
