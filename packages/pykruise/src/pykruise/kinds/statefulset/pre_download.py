"""Which images of a StatefulSet's new revision are pulled ahead.

WorkingSet ──▶ plan_pre_download() ──▶ stages (plans/pre_download.py says which)

Pure. How is said by annotations of the set. What would be over before it helps is left out: recreation, three
pods or fewer, everything at once, nothing that can be updated in place.
"""

from typing import Final

import msgspec

from pykruise.kinds.statefulset.in_place import Differences
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.statefulset.working_set import WorkingSet
from pykruise.plans.pre_download import PreDownload, pre_download_stages
from pykruise.pods.image_pull_jobs import (
    annotated_settings,
    annotated_threshold,
    changed_images,
    pull_jobs,
)
from pykruise.pods.in_place import NotInPlace
from pykruise.runtime.plan import Stage

__all__ = ["plan_pre_download"]

FEWEST_REPLICAS: Final = 4
"""With fewer, a rollout is over before a job has begun."""


def plan_pre_download(ws: WorkingSet, differences: Differences) -> list[Stage]:
    """The writes that pull images ahead; none while the gates are off or ImagePullJobs are not served."""
    if ws.snapshot.pull_jobs is None:
        return []
    statefulset = ws.snapshot.statefulset
    is_rolling = ws.update.hash != ws.current.hash
    status = statefulset.status
    have = status.updated_ready_replicas if status.update_revision == ws.update.name else 0
    wanted = PreDownload(
        revision=ws.update,
        is_rolling=is_rolling,
        warns=True,
        is_due=annotated_threshold(statefulset.annotations, of=ws.limits.replicas) <= have,
        not_needed=_not_needed(ws, differences) if is_rolling else "",
        jobs=lambda: pull_jobs(
            ws.update,
            changed_images(ws.update.template, [ws.current.template]),
            selector=msgspec.to_builtins(ws.spec.selector),
            owner=statefulset.reference_as(ADVANCED_STATEFUL_SETS),
            settings=annotated_settings(statefulset.annotations),
        ),
    )
    return pre_download_stages(wanted, owned=ws.snapshot.pull_jobs)


def _not_needed(ws: WorkingSet, differences: Differences) -> str:
    if ws.spec.is_on_delete or not ws.spec.is_in_place:
        return "pods are not updated in place"
    replicas = ws.limits.replicas
    if replicas < FEWEST_REPLICAS:
        return f"{replicas} pods are updated before an image is pulled"
    if ws.limits.partition == 0 and ws.limits.max_unavailable >= replicas:
        return "all pods are updated at once"
    found = differences.between(ws.current)
    return f"pods are recreated: {found.reason}" if isinstance(found, NotInPlace) else ""
