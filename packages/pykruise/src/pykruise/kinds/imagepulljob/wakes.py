"""Events that enqueue an ImagePullJob.

job: any change · NodeImage: created, deleted, now selected or no longer selected by the job, or a change of the entries
for the job's image · pod that its podSelector matches: assigned to a node, deleted, or the reason why it has no node
changed · pull secret: created, changed

Pure, except for what `around` reads. A change of one image on one node enqueues only the jobs that pull this image to
this node.
"""

from collections.abc import Iterable, Iterator, Sequence

from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSettings
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import (
    ACTIVE_JOBS,
    BY_IMAGE,
    BY_PODS_OF,
    BY_SECRET,
    NODE_IMAGE_VIEWS,
    POD_VIEWS,
    PULL_JOB_VIEWS,
    SECRET_VIEWS,
)
from pykruise.pods.images.node_images import EVERY_TAG, NodeImageView, list_changed_tags
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.secrets import CopyView
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, wake_itself


def list_wakes(_: ImagePullJobSettings) -> Sequence[Wake]:
    """Return the wakes. They are the same for all settings."""
    return (
        wake_itself(PULL_JOB_VIEWS),
        Wake(on=NODE_IMAGE_VIEWS, keys=_enqueue_by_node_image),
        Wake(on=POD_VIEWS, keys=_enqueue_by_pod),
        Wake(on=SECRET_VIEWS, keys=_enqueue_by_secret),
    )


# ── NodeImages ───────────────────────────────────────────────────────────────


def _enqueue_by_node_image(
    change: Change[NodeImageView], around: Around[ImagePullJobSettings]
) -> Iterable[Key]:
    old, new = change.old, change.new
    if old is None or new is None or old.uid != new.uid or old.is_deleting != new.is_deleting:
        return _list_jobs_on(new or old, around)
    image = {
        job.key
        for name, tag in list_changed_tags(old, new)
        for job in around.list_by_index(PULL_JOB_VIEWS, BY_IMAGE, name)
        if _is_for(job, tag) and _may_be_on(job, new)
    }
    if old.labels != new.labels:
        image |= {
            job.key
            for job in around.list_by_index(PULL_JOB_VIEWS, ACTIVE_JOBS, "")
            if job.pod_selector is None
            and job.selects(new.name, old.labels) != job.selects(new.name, new.labels)
        }
    return image


def _list_jobs_on(node: NodeImageView | None, around: Around[ImagePullJobSettings]) -> Iterator[Key]:
    if node is not None:
        for job in around.list_by_index(PULL_JOB_VIEWS, ACTIVE_JOBS, ""):
            if _may_be_on(job, node):
                yield job.key


def _is_for(job: PullJobView, tag: str) -> bool:
    return tag == EVERY_TAG or (job.image is not None and job.image.tag == tag)


def _may_be_on(job: PullJobView, node: NodeImageView) -> bool:
    """Whether the job possibly pulls to the node. With a podSelector, only the reconcile can find this out."""
    return job.pod_selector is not None or job.selects(node.name, node.labels)


# ── pods and secrets ─────────────────────────────────────────────────────────


def _enqueue_by_pod(change: Change[PodView], around: Around[ImagePullJobSettings]) -> Iterator[Key]:
    """Enqueue the jobs for which the pod adds or removes a node. If the pod has no node, and the reason for this has
    changed, enqueue the jobs that select the pod.
    """
    old, new = change.old, change.new
    pod = new or old
    is_stuck = old is not None and new is not None and not new.node_name and has_new_obstacle(old, new)
    if pod is None or not (pod.node_name or is_stuck):
        return
    for job in around.list_by_index(PULL_JOB_VIEWS, BY_PODS_OF, pod.namespace):
        has_obstacle = is_stuck and job.pod_selector is not None and job.pod_selector.matches(pod.labels)
        if has_obstacle or _find_node_of_pod(job, old) != _find_node_of_pod(job, new):
            yield job.key


def _find_node_of_pod(job: PullJobView, pod: PodView | None) -> str:
    """Return the node to which the job pulls because of this pod; empty if the job does not select the pod."""
    selector = job.pod_selector
    if pod is None or selector is None or not pod.is_active or not selector.matches(pod.labels):
        return ""
    return pod.node_name


def _enqueue_by_secret(change: Change[CopyView], around: Around[ImagePullJobSettings]) -> Iterator[Key]:
    secret = change.new
    if secret is None or secret.is_deleting or change.old is secret:
        return
    for job in around.list_by_index(PULL_JOB_VIEWS, BY_SECRET, Key(secret.namespace, secret.name)):
        if job.is_active:
            yield job.key
