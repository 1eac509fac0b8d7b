"""Selection of the images of a DaemonSet's new revision that nodes pull in advance.

DaemonSetWorkingSet ──▶ plan_pre_download() ──▶ stages (built by plans/pre_download.py)

Pure. Images are not pulled in advance if this would not make the rollout faster: in a first rollout, under OnDelete,
and if all nodes are updated at the same time. For recreated pods it does help: the node has the image before the old
pod is deleted. The settings are annotations of the DaemonSet.
"""

from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.revisions import hash_of
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.plans.pre_download import PreDownload, plan_image_pulls
from pykruise.pods.images.pull_jobs import read_annotated_settings, read_annotated_threshold
from pykruise.runtime.plan import Stage


def plan_pre_download(ws: DaemonSetWorkingSet) -> tuple[Stage, ...]:
    """Plan the writes that pull images in advance; none if the feature gate is off or the API server does not serve
    ImagePullJobs.
    """
    if ws.snapshot.pull_jobs is None:
        return ()
    daemonset = ws.snapshot.daemonset
    running = (state.pods for state in ws.nodes if state.place is Place.RUN)
    is_rolling = bool(ws.outdated) or any(not pods or not ws.is_updated(pods[0]) for pods in running)
    need = read_annotated_threshold(daemonset.annotations, of=ws.limits.desired)
    not_needed = _describe_why_unneeded(ws)
    wanted = PreDownload(
        revision=ws.revisions.current,
        is_rolling=is_rolling,
        is_due=need <= _count_updated_ready(ws),
        not_needed=lambda: not_needed,
        over_too_soon=not_needed,
        replaced=lambda: _find_templates_in_use(ws),
        selector=ws.spec.selector,
        owner=daemonset.owner_reference,
        settings=read_annotated_settings(daemonset.annotations),
    )
    return plan_image_pulls(wanted, owned=ws.snapshot.pull_jobs)


def _count_updated_ready(ws: DaemonSetWorkingSet) -> int:
    others = sum(1 for pod in ws.open_pods if pod.is_ready and pod.is_active and ws.is_updated(pod))
    return ws.settled + others


def _find_templates_in_use(ws: DaemonSetWorkingSet) -> list[Document]:
    """Return the templates of the old revisions that pods have. If the revision of a pod is unknown, return the
    templates of all old revisions.
    """
    used = {pod.revision for pod in ws.open_pods if not ws.is_updated(pod)}
    used |= {pod.revision for state in ws.outdated for pod in state.pods}
    known = [revision for revision in ws.revisions.old if hash_of(revision) in used]
    return [revision.template for revision in (known if len(known) == len(used) else ws.revisions.old)]


def _describe_why_unneeded(ws: DaemonSetWorkingSet) -> str:
    if ws.spec.is_on_delete:
        return "pods are updated only when they are deleted by hand"
    if not ws.revisions.old:
        return "there is no older revision"
    block, desired = ws.spec.rolling_update, ws.limits.desired
    given = 1 if block is None or block.max_unavailable is None else block.max_unavailable
    if ws.limits.partition > 0:
        return ""
    at_once = resolve(given, of=desired, rounding=Rounding.UP)
    return "all pods are updated at the same time" if at_once >= desired else ""
