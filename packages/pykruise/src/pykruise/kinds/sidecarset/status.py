"""Status of a SidecarSet.

Snapshot + the revision of its spec ──▶ status_of() ──▶ the whole status, as it is to be stored

Pure: a function of the snapshot, so it lags the writes of the same plan by one look.
"""

from pykruise.kinds.sidecarset.history import StoredRevision
from pykruise.kinds.sidecarset.snapshot import SidecarSetSnapshot
from pykruise.kinds.sidecarset.types import SidecarSetStatus
from pykruise.kube.documents import Document


def status_of(snapshot: SidecarSetSnapshot, revision: StoredRevision) -> Document:
    """The status; how often a name was taken is part of it even when it never was."""
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
    return {**status.document(), "collisionCount": revision.collision_count}
