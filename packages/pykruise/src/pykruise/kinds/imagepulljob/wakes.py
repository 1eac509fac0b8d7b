"""Which events an ImagePullJob hears.

job: any · NodeImage: comes, goes, is selected or not any more, or something about the job's own image · pod of its
podSelector: comes to a node, goes · secret that it pulls with: comes, changes

Pure, but for what `around` shows. One node's news about one image wakes the jobs for that image and node only.
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
from pykruise.pods.images.node_images import EVERY_TAG, NodeImageView, changed_tags
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.secrets import CopyView
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, itself


def wakes(_: ImagePullJobSettings) -> Sequence[Wake]:
    """Under any settings."""
    return (
        itself(PULL_JOB_VIEWS),
        Wake(on=NODE_IMAGE_VIEWS, keys=_of_node_image),
        Wake(on=POD_VIEWS, keys=_of_pod),
        Wake(on=SECRET_VIEWS, keys=_of_secret),
    )


# ── NodeImages ───────────────────────────────────────────────────────────────


def _of_node_image(change: Change[NodeImageView], around: Around[ImagePullJobSettings]) -> Iterable[Key]:
    old, new = change.old, change.new
    if old is None or new is None or old.uid != new.uid or old.is_deleting != new.is_deleting:
        return _all_on(new or old, around)
    image = {
        job.key
        for name, tag in changed_tags(old, new)
        for job in around.by_index(PULL_JOB_VIEWS, BY_IMAGE, name)
        if _is_for(job, tag) and _may_be_on(job, new)
    }
    if old.labels != new.labels:
        image |= {
            job.key
            for job in around.by_index(PULL_JOB_VIEWS, ACTIVE_JOBS, "")
            if job.pod_selector is None
            and job.selects(new.name, old.labels) != job.selects(new.name, new.labels)
        }
    return image


def _all_on(node: NodeImageView | None, around: Around[ImagePullJobSettings]) -> Iterator[Key]:
    if node is not None:
        for job in around.by_index(PULL_JOB_VIEWS, ACTIVE_JOBS, ""):
            if _may_be_on(job, node):
                yield job.key


def _is_for(job: PullJobView, tag: str) -> bool:
    return tag == EVERY_TAG or (job.image is not None and job.image.tag == tag)


def _may_be_on(job: PullJobView, node: NodeImageView) -> bool:
    """Whether the job is for the node. Which nodes have its pods is found out when it is looked at."""
    return job.pod_selector is not None or job.selects(node.name, node.labels)


# ── pods and secrets ─────────────────────────────────────────────────────────


def _of_pod(change: Change[PodView], around: Around[ImagePullJobSettings]) -> Iterator[Key]:
    """Jobs that select the pod on its node, where they did not before; and the other way round."""
    old, new = change.old, change.new
    pod = new or old
    if pod is None or not pod.node_name:
        return
    for job in around.by_index(PULL_JOB_VIEWS, BY_PODS_OF, pod.namespace):
        if _counts(job, old) != _counts(job, new):
            yield job.key


def _counts(job: PullJobView, pod: PodView | None) -> str:
    """The node that the pod makes one of the job's; empty: none."""
    selector = job.pod_selector
    if pod is None or selector is None or not pod.is_active or not selector.matches(pod.labels):
        return ""
    return pod.node_name


def _of_secret(change: Change[CopyView], around: Around[ImagePullJobSettings]) -> Iterator[Key]:
    secret = change.new
    if secret is None or secret.is_deleting or change.old is secret:
        return
    for job in around.by_index(PULL_JOB_VIEWS, BY_SECRET, Key(secret.namespace, secret.name)):
        if job.is_active:
            yield job.key
