"""Selection of the images of a StatefulSet's new revision that nodes pull in advance.

StatefulSetWorkingSet ──▶ plan_pre_download() ──▶ stages (plans/pre_download.py decides which)

Pure. Annotations of the set configure the pulls. No image of a container is pulled when the pull would not help: the
policy is ReCreate, the set has three pods or fewer, all pods are updated at the same time, or no pod can be updated in
place.
"""

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.plans.in_place import Differences
from pykruise.plans.pre_download import PreDownload, explain_too_soon, plan_image_pulls, why_not_needed
from pykruise.pods.images.pull_jobs import read_annotated_settings, read_annotated_threshold
from pykruise.runtime.plan import Stage


def plan_pre_download(ws: StatefulSetWorkingSet, differences: Differences) -> tuple[Stage, ...]:
    """Plan the writes that pull images in advance; none while the gates are off or the API server does not serve
    ImagePullJobs.
    """
    if ws.snapshot.pull_jobs is None:
        return ()
    statefulset, limits = ws.snapshot.statefulset, ws.limits
    status = statefulset.status
    have = status.updated_ready_replicas if status.update_revision == ws.update.name else 0
    too_soon = explain_too_soon(
        replicas=limits.replicas, partition=limits.partition, max_unavailable=limits.max_unavailable
    )
    wanted = PreDownload(
        revision=ws.update,
        is_rolling=ws.update.hash != ws.current.hash,
        warns=True,
        is_due=read_annotated_threshold(statefulset.annotations, of=limits.replicas) <= have,
        not_needed=lambda: why_not_needed(too_soon, differences, ws.current, is_in_place=ws.spec.is_in_place),
        over_too_soon=too_soon,
        replaced=lambda: [ws.current.template],
        selector=ws.spec.selector,
        owner=statefulset.build_reference(ADVANCED_STATEFUL_SETS),
        settings=read_annotated_settings(statefulset.annotations),
    )
    return plan_image_pulls(wanted, owned=ws.snapshot.pull_jobs)
