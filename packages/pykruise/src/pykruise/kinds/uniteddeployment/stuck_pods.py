"""Pods that block a built-in StatefulSet: they have an older template and are not ready.

UnitedSnapshot + workloads ──▶ delete_stuck_pods() ──▶ deletions

Pure. A built-in StatefulSet updates no pod while another pod is not ready, even if the pod that is not ready has the
faulty template that the update should replace. This is the rule of OpenKruise, for the StatefulSet template only.
"""

from collections.abc import Iterator, Mapping

from pykruise.kinds.uniteddeployment.snapshot import ReadableUnitedDeployment
from pykruise.kinds.uniteddeployment.workload_documents import is_on_delete
from pykruise.kinds.uniteddeployment.workloads import REVISION_LABEL, STATEFUL_SET, SubsetWorkload
from pykruise.kube.resources import PODS
from pykruise.plans.pod_writes import make_pod_chain
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import delete_object
from pykruise.runtime.plan import Chain, Step


def delete_stuck_pods(
    snapshot: ReadableUnitedDeployment, workloads: Mapping[str, SubsetWorkload], target: str
) -> list[Chain]:
    """Delete each stuck pod. The workload must already be at the target, because otherwise the pod is created again
    unchanged.
    """
    if snapshot.united.template != STATEFUL_SET:
        return []
    return [
        chain
        for name, workload in workloads.items()
        if workload.revision == target and not workload.is_deleting and not is_on_delete(workload)
        for chain in _delete_stuck_pods(
            workload, snapshot, partition=snapshot.united.spec.partition_of(name), target=target
        )
    ]


def _delete_stuck_pods(
    workload: SubsetWorkload, snapshot: ReadableUnitedDeployment, *, partition: int, target: str
) -> Iterator[Chain]:
    for pod in snapshot.subset_pods.get(workload.uid, ()):
        ordinal = _parse_ordinal(pod, workload)
        is_old = pod.labels.get(REVISION_LABEL) != target
        if ordinal is None or ordinal < min(partition, workload.replicas) or not is_old:
            continue
        if pod.is_deleting or pod.has_ready_condition:
            continue
        action = delete_object(PODS, pod, unchanged=True, propagation="Background")
        because = "it is of an older template and not ready: its StatefulSet would wait for it"
        yield make_pod_chain(pod, Step(action=action, because=because))


def _parse_ordinal(pod: PodView, workload: SubsetWorkload) -> int | None:
    number = pod.name.removeprefix(f"{workload.name}-")
    return int(number) if number.isdigit() else None
