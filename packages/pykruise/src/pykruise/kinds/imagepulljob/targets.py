"""Nodes of an ImagePullJob, as targets for the rules that all jobs have in common (pods/jobs/fan_out.py).

ImagePullJobSnapshot ──▶ targets_of() ──▶ one target for every node, in the order in which they start

Pure. A node is pending until its NodeImage has an entry of the job. The status is read only if it belongs to the
current version of this entry; a status of an older version is ignored.
"""

from collections.abc import Sequence

from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSnapshot
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.node_images import FAILED, SUCCEEDED, NodeImageView
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.jobs.fan_out import FanOutTarget, TargetState


def targets_of(snapshot: ImagePullJobSnapshot, image: ImageName) -> Sequence[FanOutTarget]:
    """Return a target for every node of the job."""
    return tuple(
        FanOutTarget(name=node.name, state=state_of(node, snapshot.job, image)) for node in snapshot.nodes
    )


def state_of(node: NodeImageView, job: PullJobView, image: ImageName) -> TargetState:
    """Return the state of the job on a node."""
    entry = node.find_entry(image)
    if entry is None or not any(ref.uid == job.uid for ref in entry.owner_references or ()):
        return TargetState.PENDING
    status = node.statuses.get(image)
    if status is None or status.version != entry.version:
        return TargetState.ACTIVE
    if status.phase == SUCCEEDED:
        return TargetState.SUCCEEDED
    return TargetState.FAILED if status.phase == FAILED else TargetState.ACTIVE
