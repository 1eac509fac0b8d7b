"""Selection of the images of a StatefulSet's new revision that nodes pull in advance.

StatefulSetWorkingSet ──▶ plan_pre_download() ──▶ stages (plans/pre_download.py decides which)

Pure. Annotations of the set configure the pulls. No image is pulled when the rollout would end before the pull helps:
under recreation, with three pods or fewer, when all pods are updated at the same time, or when no pod can be updated
in place.
"""

from pykruise.kinds.statefulset.in_place import StatefulSetDifferences
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.plans.pre_download import PreDownload, over_too_soon, pre_download_stages
from pykruise.pods.images.pull_jobs import annotated_settings, annotated_threshold
from pykruise.pods.in_place import NotInPlace
from pykruise.runtime.plan import Stage


def plan_pre_download(ws: StatefulSetWorkingSet, differences: StatefulSetDifferences) -> tuple[Stage, ...]:
    """Plan the writes that pull images in advance; none while the gates are off or the API server does not serve
    ImagePullJobs.
    """
    if ws.snapshot.pull_jobs is None:
        return ()
    statefulset = ws.snapshot.statefulset
    status = statefulset.status
    have = status.updated_ready_replicas if status.update_revision == ws.update.name else 0
    wanted = PreDownload(
        revision=ws.update,
        is_rolling=ws.update.hash != ws.current.hash,
        warns=True,
        is_due=annotated_threshold(statefulset.annotations, of=ws.limits.replicas) <= have,
        not_needed=lambda: _why_not_needed(ws, differences),
        is_over_at_once=lambda: bool(_why_over_too_soon(ws)),
        replaced=lambda: [ws.current.template],
        selector=ws.spec.selector,
        owner=statefulset.reference_as(ADVANCED_STATEFUL_SETS),
        settings=annotated_settings(statefulset.annotations),
    )
    return pre_download_stages(wanted, owned=ws.snapshot.pull_jobs)


def _why_not_needed(ws: StatefulSetWorkingSet, differences: StatefulSetDifferences) -> str:
    if not ws.spec.is_in_place:
        return "pods are not updated in place"
    if why := _why_over_too_soon(ws):
        return why
    result = differences.between(ws.current)
    return f"pods are recreated: {result.reason}" if isinstance(result, NotInPlace) else ""


def _why_over_too_soon(ws: StatefulSetWorkingSet) -> str:
    limits = ws.limits
    return over_too_soon(
        replicas=limits.replicas, partition=limits.partition, max_unavailable=limits.max_unavailable
    )
