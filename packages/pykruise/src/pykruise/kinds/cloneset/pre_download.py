"""Selection of the images of a CloneSet's new revision that nodes pull in advance.

CloneSetWorkingSet ──▶ plan_pre_download() ──▶ stages (built by plans/pre_download.py)

Pure. No image is pulled in advance if this would not make the rollout faster: with three pods or fewer, or if all pods
are updated at the same time. For recreated pods, only images of image volumes are pulled in advance; images of
containers are pulled too if the option successor-placement asks for the same nodes.
"""

from pykruise.kinds.cloneset.types import DEFAULT_MAX_UNAVAILABLE
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.plans.pre_download import PreDownload, explain_too_soon, plan_image_pulls, why_not_needed
from pykruise.pods.images.pull_jobs import DEFAULT_TIMEOUT_S, PullSettings
from pykruise.pods.images.pull_rules import parallelism_of
from pykruise.pods.workload.options import SUCCESSOR_PLACEMENT
from pykruise.runtime.plan import Stage


def plan_pre_download(ws: CloneSetWorkingSet) -> tuple[Stage, ...]:
    """Plan the writes that pull images in advance; none if the feature gate is off or the API server does not serve
    ImagePullJobs.
    """
    if ws.snapshot.pull_jobs is None:
        return ()
    strategy = ws.spec.in_place
    parallelism = strategy.image_pre_download_parallelism
    timeout_s = strategy.image_pre_download_timeout_seconds
    need = strategy.image_pre_download_min_updated_ready_pods
    status = ws.snapshot.cloneset.status
    have = status.updated_ready_replicas if status.update_revision == ws.update.name else 0
    too_soon = _explain_short_rollout(ws)
    wanted = PreDownload(
        revision=ws.update,
        is_rolling=ws.update.hash != ws.current.hash,
        is_due=need is None or need <= have,
        not_needed=lambda: _explain_no_pull(ws, too_soon),
        over_too_soon=too_soon,
        replaced=lambda: [ws.current.template],
        selector=ws.spec.selector,
        owner=ws.snapshot.cloneset.owner_reference,
        settings=PullSettings(
            parallelism=1 if parallelism is None or not _is_accepted(parallelism) else parallelism,
            timeout_s=DEFAULT_TIMEOUT_S if timeout_s is None or timeout_s < 0 else timeout_s,
        ),
    )
    return plan_image_pulls(wanted, owned=ws.snapshot.pull_jobs)


def _is_accepted(parallelism: IntOrPercent) -> bool:
    """Whether an ImagePullJob accepts the parallelism. An annotation of v1alpha1 may contain any text."""
    try:
        parallelism_of(parallelism)
    except ValueError:
        return False
    return True


def _explain_no_pull(ws: CloneSetWorkingSet, too_soon: str) -> str:
    """Return why the nodes of old pods do not need the images; empty if they need them."""
    placement = SUCCESSOR_PLACEMENT.read(ws.snapshot.cloneset.annotations)
    if placement is not None and placement.is_same_node:
        return too_soon
    return why_not_needed(too_soon, ws.differences, ws.current, is_in_place=ws.spec.is_in_place)


def _explain_short_rollout(ws: CloneSetWorkingSet) -> str:
    block, replicas = ws.spec.rolling_update, ws.limits.replicas
    given = block.max_unavailable if block is not None else None
    given = DEFAULT_MAX_UNAVAILABLE if given is None else given
    at_once = resolve(given, of=replicas, rounding=Rounding.DOWN)
    return explain_too_soon(replicas=replicas, partition=ws.limits.partition, max_unavailable=at_once)
