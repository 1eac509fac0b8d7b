"""Events that enqueue a NodeImage.

NodeImage: any change · node: created, deleted, ready, labels changed · ImagePullJob: deleted, ended, image changed,
type changed to Never

Pure, except for what `around` reads. A heartbeat enqueues nothing.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.nodeimage.snapshot import NodeImageSettings
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import BY_PULL_JOB, NODE_IMAGE_VIEWS, NODE_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view.nodes import NodeView
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, wake_itself


def list_wakes(_: NodeImageSettings) -> Sequence[Wake]:
    """Return the wakes. They are the same for all settings."""
    return (
        wake_itself(NODE_IMAGE_VIEWS),
        Wake(on=NODE_VIEWS, keys=_enqueue_by_node),
        Wake(on=PULL_JOB_VIEWS, keys=_enqueue_by_job),
    )


def _enqueue_by_node(change: Change[NodeView], around: Around[NodeImageSettings]) -> Iterator[Key]:
    old, node = change.old, change.new
    key = Key("", change.key.name)
    node_image = around.get(NODE_IMAGE_VIEWS, key)
    if node is None or node.is_deleting:
        if node_image is not None:
            yield key
    elif node_image is None:
        if old is None or old is node or _list_creation_facts(old) != _list_creation_facts(node):
            yield key
    elif node_image.labels != node.labels:
        yield key


def _list_creation_facts(node: NodeView) -> tuple[bool, float | None]:
    """Return the values that determine whether and when the node gets a NodeImage."""
    return node.is_virtual, node.ready_since


def _enqueue_by_job(change: Change[PullJobView], around: Around[NodeImageSettings]) -> Iterator[Key]:
    """Enqueue the NodeImages with entries of the job, if these entries can perhaps be removed now."""
    old, new = change.old, change.new
    if old is None:
        return
    if new is None or _list_job_facts(new) != _list_job_facts(old):
        for view in around.list_by_index(NODE_IMAGE_VIEWS, BY_PULL_JOB, old.uid):
            yield Key("", view.name)


def _list_job_facts(job: PullJobView) -> tuple[object, ...]:
    """Return the values that determine whether an entry of the job is kept, and whether its time to live applies."""
    return job.uid, job.image, job.is_active, job.ends
