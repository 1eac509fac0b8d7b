"""The views of objects that several kinds read (runtime/views.py), with the indexes for lookups.

JSON of an object ──▶ Views.projector() ──▶ view ──▶ caches (sources.py), single lists (listed_objects.py)

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.ids import Key
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
)
from pykruise.pods.images.node_images import NODE_IMAGES, NodeImageView, list_owner_uids, project_node_image
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView, project_pull_job
from pykruise.pods.probes.views import (
    NODE_POD_PROBES,
    POD_PROBE_MARKERS,
    MarkerView,
    NodeProbesView,
    list_marker_keys,
    make_marker_projector,
    project_node_probes,
)
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import LABELS_OF_ONE_POD, PodProjector
from pykruise.pods.view.nodes import NodeView, project_node
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.secrets import CopyView, project_copy
from pykruise.pods.view.sidecars import list_injected_sets
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, BudgetView, project_budget
from pykruise.pods.workload.claims import ClaimView, project_claim
from pykruise.pods.workload.revisions import RevisionView, project_revision
from pykruise.runtime.views import BY_CONTROLLER, BY_NAME, BY_NAMESPACE, ORPHANS, Views

__all__ = [
    "ACTIVE_JOBS",
    "BUDGET_VIEWS",
    "BY_IMAGE",
    "BY_LABEL",
    "BY_MARKER",
    "BY_NAME_PREFIX",
    "BY_PODS_OF",
    "BY_PULL_JOB",
    "BY_SECRET",
    "BY_SIDECARSET",
    "CLAIM_VIEWS",
    "CONFIG_MAP_VIEWS",
    "MARKER_VIEWS",
    "NAMESPACE_VIEWS",
    "NODE_IMAGE_VIEWS",
    "NODE_PROBES_VIEWS",
    "NODE_VIEWS",
    "POD_VIEWS",
    "PULL_JOB_VIEWS",
    "REVISION_VIEWS",
    "SECRET_VIEWS",
    "SHARED",
    "UNINDEXED_LABELS",
    "NamespaceView",
    "NodeView",
    "project_namespace",
    "project_node",
    "read_owner_name",
]

BY_NAME_PREFIX = "name-prefix"
"""Index of revisions by namespace and name of the owner. The owner's name is the revision's name without the hash."""

BY_LABEL = "label"
"""Index of pods by (namespace, key, value) of their labels, except UNINDEXED_LABELS. See plans/selected_pods.py."""

UNINDEXED_LABELS: Final = LABELS_OF_ONE_POD | {keys.REVISION_LABEL, keys.STATE_LABEL, "pod-template-hash"}
"""Labels that are not in the index: they describe one pod, its state or its revision, and not its workload."""

BY_SIDECARSET = "sidecarset"
"""Index of pods by the names of the SidecarSets that were injected into them."""

ACTIVE_JOBS = "active"
"""Index of ImagePullJobs that have not ended and are not terminating. The only value is ""."""

BY_IMAGE = "image"
"""Index of active ImagePullJobs by their image, without its tag."""

BY_PODS_OF = "pods-of"
"""Index of active ImagePullJobs with a podSelector, by their namespace."""

BY_SECRET = "secret"
"""Index of ImagePullJobs by namespace and name of their pull secrets."""

BY_PULL_JOB = "pull-job"
"""Index of NodeImages by the uids of ImagePullJobs that pull an image on the node."""

BY_MARKER = "marker"
"""Index of NodePodProbes by namespace and name of the PodProbeMarkers whose probes they contain."""


class NamespaceView(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace with its labels."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    labels: Mapping[str, str] = {}
    is_deleting: bool = False


class _NamespaceMeta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Namespace(msgspec.Struct):
    metadata: _NamespaceMeta


_decode_namespace = msgspec.json.Decoder(_Namespace).decode


def project_namespace(raw: bytes | msgspec.Raw) -> NamespaceView:
    """Return the view of a namespace. Raises msgspec.DecodeError if the bytes are not a Kubernetes object."""
    meta = _decode_namespace(raw).metadata
    return NamespaceView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        labels=meta.labels or {},
        is_deleting=meta.deletion_timestamp is not None,
    )


def read_owner_name(revision: RevisionView) -> str:
    """Return the name of the owner, cut to 223 characters. The name of a revision begins with it."""
    return revision.name.rpartition("-")[0]


def list_label_lookups(pod: PodView) -> list[tuple[str, str, str]]:
    """Return the entries of a pod in the index BY_LABEL."""
    namespace = pod.namespace
    return [(namespace, key, value) for key, value in pod.labels.items() if key not in UNINDEXED_LABELS]


POD_VIEWS: Final = Views[PodView](
    resource=PODS,
    projector=PodProjector,
    indexes={
        BY_CONTROLLER: lambda pod: (pod.controller.uid,) if pod.controller else (),
        ORPHANS: lambda pod: () if pod.controller else (pod.namespace,),
        BY_NAMESPACE: lambda pod: (pod.namespace,),
        BY_LABEL: list_label_lookups,
        BY_SIDECARSET: lambda pod: list_injected_sets(pod.annotations) if pod.annotations else (),
    },
)

REVISION_VIEWS: Final = Views[RevisionView](
    resource=CONTROLLER_REVISIONS,
    projector=lambda: project_revision,
    indexes={
        BY_CONTROLLER: lambda revision: (revision.controller_uid,),
        BY_NAME_PREFIX: lambda revision: ((revision.namespace, read_owner_name(revision)),),
        ORPHANS: lambda revision: () if revision.controller_uid else (revision.namespace,),
    },
)

CLAIM_VIEWS: Final = Views[ClaimView](
    resource=PERSISTENT_VOLUME_CLAIMS,
    projector=lambda: project_claim,
    indexes={BY_CONTROLLER: lambda claim: (claim.controller_uid,) if claim.controller_uid else ()},
)
"""Views of all claims. A label selector is not possible, because the claims of a StatefulSet have no common label."""

NAMESPACE_VIEWS: Final = Views[NamespaceView](resource=NAMESPACES, projector=lambda: project_namespace)

NODE_VIEWS: Final = Views[NodeView](resource=NODES, projector=lambda: project_node)

PULL_JOB_VIEWS: Final = Views[PullJobView](
    resource=IMAGE_PULL_JOBS,
    projector=lambda: project_pull_job,
    indexes={
        BY_CONTROLLER: lambda job: (job.controller_uid,) if job.controller_uid else (),
        ACTIVE_JOBS: lambda job: ("",) if job.is_active else (),
        BY_IMAGE: lambda job: (job.image.name,) if job.image is not None and job.is_active else (),
        BY_PODS_OF: lambda job: (job.namespace,) if job.pod_selector is not None and job.is_active else (),
        BY_SECRET: lambda job: [Key(job.namespace, name) for name in job.secrets],
    },
)

NODE_IMAGE_VIEWS: Final = Views[NodeImageView](
    resource=NODE_IMAGES, projector=lambda: project_node_image, indexes={BY_PULL_JOB: list_owner_uids}
)

MARKER_VIEWS: Final = Views[MarkerView](
    resource=POD_PROBE_MARKERS,
    projector=make_marker_projector,
    indexes={BY_NAMESPACE: lambda marker: (marker.namespace,)},
)

NODE_PROBES_VIEWS: Final = Views[NodeProbesView](
    resource=NODE_POD_PROBES, projector=lambda: project_node_probes, indexes={BY_MARKER: list_marker_keys}
)

SECRET_VIEWS, CONFIG_MAP_VIEWS = (
    Views[CopyView](
        resource=resource,
        projector=lambda: project_copy,
        indexes={BY_NAME: lambda copy: (copy.name,), BY_NAMESPACE: lambda copy: (copy.namespace,)},
        is_metadata_only=True,
    )
    for resource in (SECRETS, CONFIG_MAPS)
)

BUDGET_VIEWS: Final = Views[BudgetView](
    resource=POD_UNAVAILABLE_BUDGETS,
    projector=lambda: project_budget,
    indexes={BY_NAMESPACE: lambda budget: (budget.namespace,)},
)

SHARED: Final[Sequence[Views[Any]]] = (POD_VIEWS, REVISION_VIEWS, CLAIM_VIEWS, NODE_VIEWS)
"""Views that nearly every kind reads."""
