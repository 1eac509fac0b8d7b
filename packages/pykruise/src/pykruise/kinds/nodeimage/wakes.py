"""Which events a NodeImage hears.

NodeImage: any · node: comes, goes, is ready, has other labels · ImagePullJob: is gone, has ended, is for another image,
goes on for ever now

Pure, but for what `around` shows. A heartbeat enqueues nothing.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.nodeimage.snapshot import NodeImageSettings
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import BY_PULL_JOB, NODE_IMAGE_VIEWS, NODE_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view.nodes import NodeView
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, itself


def wakes(_: NodeImageSettings) -> Sequence[Wake]:
    """Under any settings."""
    return (
        itself(NODE_IMAGE_VIEWS),
        Wake(on=NODE_VIEWS, keys=_of_node),
        Wake(on=PULL_JOB_VIEWS, keys=_of_job),
    )


def _of_node(change: Change[NodeView], around: Around[NodeImageSettings]) -> Iterator[Key]:
    old, node = change.old, change.new
    key = Key("", change.key.name)
    node_image = around.get(NODE_IMAGE_VIEWS, key)
    if node is None or node.is_deleting:
        if node_image is not None:
            yield key
    elif node_image is None:
        if old is None or old is node or _may_get_one(old) != _may_get_one(node):
            yield key
    elif node_image.labels != node.labels:
        yield key


def _may_get_one(node: NodeView) -> tuple[bool, float | None]:
    """Facts that decide whether and when a NodeImage is created."""
    return node.is_virtual, node.ready_since


def _of_job(change: Change[PullJobView], around: Around[NodeImageSettings]) -> Iterator[Key]:
    """Jobs with entries in it, when the entries may be removed."""
    old, new = change.old, change.new
    if old is None:
        return
    if new is None or _wants(new) != _wants(old):
        for view in around.by_index(NODE_IMAGE_VIEWS, BY_PULL_JOB, old.uid):
            yield Key("", view.name)


def _wants(job: PullJobView) -> tuple[object, ...]:
    """Facts that decide whether an entry of the job stays, and its time to live."""
    return job.uid, job.image, job.is_active, job.ends
