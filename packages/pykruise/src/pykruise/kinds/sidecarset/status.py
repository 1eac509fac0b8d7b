"""Status of a SidecarSet.

SidecarSetSnapshot + the revision of its spec ──▶ status_of() ──▶ the whole status to store

Pure: the status is computed from the snapshot, so it shows the writes of a plan only after the next reconcile.
"""

from pykruise.kinds.sidecarset.history import StoredRevision
from pykruise.kinds.sidecarset.snapshot import SidecarSetSnapshot
from pykruise.kinds.sidecarset.types import SidecarSetStatus
from pykruise.kube.documents import Document


def status_of(snapshot: SidecarSetSnapshot, revision: StoredRevision) -> Document:
    """Compute the status. The collision count is always included, even when it is 0."""
    sidecar_set, pods = snapshot.sidecarset, snapshot.pods
    ready = [pod for pod in pods if pod.is_consistent and pod.is_ready]
    status = SidecarSetStatus(
        observed_generation=max(sidecar_set.generation, sidecar_set.status.observed_generation),
        matched_pods=len(pods),
        updated_pods=sum(pod.is_updated for pod in pods),
        ready_pods=len(ready),
        updated_ready_pods=sum(pod.is_updated for pod in ready),
        latest_revision=revision.name,
    )
    return {**status.to_document(), "collisionCount": revision.collision_count}
