"""Labels, annotations, condition types and readiness gates that OpenKruise uses on pods.

Imports nothing from this project. Every other module takes these keys from here, so each key is written only once.
"""

from typing import Final

STATE_LABEL: Final = "lifecycle.apps.kruise.io/state"
STATE_TIME_ANNOTATION: Final = "lifecycle.apps.kruise.io/timestamp"

SPECIFIED_DELETE_LABEL: Final = "apps.kruise.io/specified-delete"
"""Pod label. With any value, it requests that the owner deletes the pod as soon as its budgets allow this."""

INSTANCE_ID_LABEL: Final = "apps.kruise.io/cloneset-instance-id"
"""Label of a pod and its claims: five characters that they share."""

REVISION_LABEL: Final = "controller-revision-hash"
"""Pod label: the name of the pod's revision, or only the hash part of this name."""

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
"""Label of a CloneSet's pod: always only the hash part."""

REVISION_HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""Label of a ControllerRevision: the hash part of its name."""

LEAVES_WITH_ANNOTATION: Final = "pykruise.io/leaves-with"
"""Annotation of a claim that must not be reused: uid of its pod. The workload deletes the claim after this pod."""

EVICTION_REQUESTED_ANNOTATION: Final = "pykruise.io/eviction-requested-at"
"""Annotation of a pod whose eviction waits for its successor: time of the last request."""

SUCCESSOR_OF_ANNOTATION: Final = "pykruise.io/successor-of"
"""Annotation of a pod that was created before another pod is evicted: uid of the other pod."""

REPLACES_ANNOTATION: Final = "pykruise.io/replaces"
"""Annotation of a pod that was placed near the pod that it replaces: uid of that pod."""

OWNED_BY_STATEFULSET_ANNOTATION: Final = "apps.kruise.io/owned-by-asts"
"""Annotation of an expanded claim: name of the Advanced StatefulSet that expanded it and watches it."""

CLAIM_TEMPLATES_HASH_ANNOTATION: Final = "kruise.io/cloneset-volumeclaimtemplate-hash"

MANAGED_SELECTOR_ANNOTATION: Final = "pykruise.io/managed-selector"
"""Annotation of a ControllerRevision: the selector with which its owner manages pods
(pods/workload/selector_guard.py).
"""

PRE_DOWNLOAD_CREATED_LABEL: Final = "apps.kruise.io/pre-predownload-created"
"""Label of a ControllerRevision: jobs that pull its images in advance were created. The spelling is OpenKruise's."""

PRE_DOWNLOAD_IGNORED_LABEL: Final = "apps.kruise.io/image-predownload-ignored"
"""Label of a ControllerRevision: its images need not be pulled in advance."""

PRE_DOWNLOAD_PARALLELISM_ANNOTATION: Final = "apps.kruise.io/image-predownload-parallelism"
PRE_DOWNLOAD_TIMEOUT_ANNOTATION: Final = "apps.kruise.io/image-predownload-timeout-seconds"
PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION: Final = "apps.kruise.io/image-predownload-min-updated-ready-pods"
"""Workload annotation: number of updated and ready pods after which a new revision's images are pulled in advance.
The two annotations above are settings of these pulls.
"""

RELATED_PUB_ANNOTATION: Final = "pub.kruise.io/related-pub"
"""Pod annotation: name of the PodUnavailableBudget that protects the pod."""

LEGACY_RELATED_PUB_ANNOTATION: Final = "kruise.io/related-pub"
NO_PROTECT_ANNOTATION: Final = "pub.kruise.io/no-protect"
"""Pod annotation: true exempts the pod from its budget."""

PROTECT_OPERATIONS_ANNOTATION: Final = "kruise.io/pub-protect-operations"
"""Annotation of a v1alpha1 PodUnavailableBudget: comma-separated operations."""

PROTECT_TOTAL_REPLICAS_ANNOTATION: Final = "pub.kruise.io/protect-total-replicas"
"""Annotation of a v1alpha1 PodUnavailableBudget: the number of pods that percentages refer to."""

MATCHED_SPREAD_ANNOTATION: Final = "apps.kruise.io/matched-workloadspread"
"""Pod annotation: the WorkloadSpread of the pod and its subset, as JSON."""

DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"

IN_PLACE_STATE_ANNOTATION: Final = "apps.kruise.io/inplace-update-state"
IN_PLACE_GRACE_ANNOTATION: Final = "apps.kruise.io/inplace-update-grace"
LEGACY_IN_PLACE_STATE_ANNOTATION: Final = "inplace-update-state"
LEGACY_IN_PLACE_GRACE_ANNOTATION: Final = "inplace-update-grace"

RUNTIME_META_ANNOTATION: Final = "apps.kruise.io/runtime-containers-meta"
"""Pod annotation: report of the node's agent about the running containers."""

IN_PLACE_READY: Final = "InPlaceUpdateReady"
"""Readiness gate and condition: False during an in-place update."""

KRUISE_POD_READY: Final = "KruisePodReady"
"""Readiness gate and condition with several writers. The message lists the keys of each writer."""

SIDECARSET_HASH_ANNOTATION: Final = "kruise.io/sidecarset-hash"
"""SidecarSet annotation: the hash of its sidecars. Pod annotation: JSON, SidecarSet → the hash that was injected."""

SIDECARSET_IMAGELESS_ANNOTATION: Final = "kruise.io/sidecarset-hash-without-image"
"""The same annotation for sidecars without their images: the parts that cannot change in a running pod."""

SIDECARSET_LIST_ANNOTATION: Final = "kruise.io/sidecarset-injected-list"
"""Pod annotation: comma-joined names of the SidecarSets that injected sidecars."""

SIDECARSET_STATE_ANNOTATION: Final = "kruise.io/sidecarset-inplace-update-state"
"""Pod annotation: JSON, SidecarSet → images of its sidecars before the last upgrade."""

INJECTED_STATE_ANNOTATION: Final = "kruise.io/injected-persistent-pod-state"
"""Annotation of a pod that was returned to its previous place: name of the PersistentPodState."""

SIDECARSET_WORKING_ANNOTATION: Final = "kruise.io/sidecarset-working-hotupgrade-container"
"""Pod annotation: JSON, hot-upgraded sidecar → the one of its two containers that is working."""

METADATA_RESTARTS_ANNOTATION: Final = "pykruise.io/metadata-restarts"
"""Pod annotation: JSON, SidecarSet → containers that restart because their variables read a changed annotation."""

SINGLE_POD_LABELS: Final = frozenset({SPECIFIED_DELETE_LABEL, STATE_LABEL, INSTANCE_ID_LABEL, REVISION_LABEL})
SINGLE_POD_ANNOTATIONS: Final = frozenset(
    {
        STATE_TIME_ANNOTATION,
        IN_PLACE_STATE_ANNOTATION,
        IN_PLACE_GRACE_ANNOTATION,
        LEGACY_IN_PLACE_STATE_ANNOTATION,
        LEGACY_IN_PLACE_GRACE_ANNOTATION,
        RUNTIME_META_ANNOTATION,
        MATCHED_SPREAD_ANNOTATION,
        INJECTED_STATE_ANNOTATION,
        EVICTION_REQUESTED_ANNOTATION,
        SUCCESSOR_OF_ANNOTATION,
        REPLACES_ANNOTATION,
        METADATA_RESTARTS_ANNOTATION,
    }
)
"""Annotations about a single pod, which a template must not give to all pods (pods/template/metadata.py)."""

SIDECARSET_VERSION_PREFIX: Final = "version.sidecarset.kruise.io/"
SIDECARSET_VERSION_ALT_PREFIX: Final = "versionalt.sidecarset.kruise.io/"
SIDECARSET_UPGRADABLE: Final = "SidecarSetUpgradable"
"""Pod condition: whether the sidecars of the pod can be upgraded in place."""
