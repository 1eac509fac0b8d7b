"""Labels, annotations, condition types and readiness gates that pods carry for OpenKruise's sake.

A leaf: every other module spells these through here, so a key is written down once.
"""

from typing import Final

STATE_LABEL: Final = "lifecycle.apps.kruise.io/state"
STATE_TIME_ANNOTATION: Final = "lifecycle.apps.kruise.io/timestamp"

SPECIFIED_DELETE_LABEL: Final = "apps.kruise.io/specified-delete"
"""Its presence, whatever the value, asks the owner to delete the pod under protection."""

INSTANCE_ID_LABEL: Final = "apps.kruise.io/cloneset-instance-id"
"""On a pod and its claims: five characters that they share."""

REVISION_LABEL: Final = "controller-revision-hash"
"""On a pod: the name of the revision it was built from, or only the hash part of it."""

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
"""On a pod of a CloneSet: always only the hash part."""

REVISION_HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""On a ControllerRevision: the hash part of its name."""

LEAVES_WITH_ANNOTATION: Final = "pykruise.io/leaves-with"
"""On a claim that would be reused: uid of the pod that its owner is deleting together with it."""

OWNED_BY_STATEFULSET_ANNOTATION: Final = "apps.kruise.io/owned-by-asts"
"""On a claim that was let grow: name of the Advanced StatefulSet that did, and that looks at it when it changes."""

CLAIM_TEMPLATES_HASH_ANNOTATION: Final = "kruise.io/cloneset-volumeclaimtemplate-hash"

MANAGED_SELECTOR_ANNOTATION: Final = "pykruise.io/managed-selector"
"""On a ControllerRevision: the selector under which pods of its owner are managed (pods/workload/selector_guard.py)."""

PRE_DOWNLOAD_CREATED_LABEL: Final = "apps.kruise.io/pre-predownload-created"
"""On a ControllerRevision: jobs that pull its images ahead were created. The spelling is OpenKruise's."""

PRE_DOWNLOAD_IGNORED_LABEL: Final = "apps.kruise.io/image-predownload-ignored"
"""On a ControllerRevision: its images need not be pulled ahead."""

PRE_DOWNLOAD_PARALLELISM_ANNOTATION: Final = "apps.kruise.io/image-predownload-parallelism"
PRE_DOWNLOAD_TIMEOUT_ANNOTATION: Final = "apps.kruise.io/image-predownload-timeout-seconds"
PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION: Final = "apps.kruise.io/image-predownload-min-updated-ready-pods"
"""On a workload: how images of a new revision are pulled ahead, and after how many updated ready pods."""

RELATED_PUB_ANNOTATION: Final = "pub.kruise.io/related-pub"
"""On a pod: name of the PodUnavailableBudget that protects it."""

LEGACY_RELATED_PUB_ANNOTATION: Final = "kruise.io/related-pub"
NO_PROTECT_ANNOTATION: Final = "pub.kruise.io/no-protect"
"""On a pod: true exempts it from its budget."""

PROTECT_OPERATIONS_ANNOTATION: Final = "kruise.io/pub-protect-operations"
"""On a PodUnavailableBudget of v1alpha1: comma-separated operations."""

PROTECT_TOTAL_REPLICAS_ANNOTATION: Final = "pub.kruise.io/protect-total-replicas"
"""On a PodUnavailableBudget of v1alpha1: the number of pods that shares are of."""

MATCHED_SPREAD_ANNOTATION: Final = "apps.kruise.io/matched-workloadspread"
"""On a pod: of which WorkloadSpread and which of its subsets it is, as JSON."""

DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"

IN_PLACE_STATE_ANNOTATION: Final = "apps.kruise.io/inplace-update-state"
IN_PLACE_GRACE_ANNOTATION: Final = "apps.kruise.io/inplace-update-grace"
LEGACY_IN_PLACE_STATE_ANNOTATION: Final = "inplace-update-state"
LEGACY_IN_PLACE_GRACE_ANNOTATION: Final = "inplace-update-grace"

RUNTIME_META_ANNOTATION: Final = "apps.kruise.io/runtime-containers-meta"
"""Running containers of the pod, reported by the agent on its node."""

IN_PLACE_READY: Final = "InPlaceUpdateReady"
"""Readiness gate and condition: False while an in-place update runs."""

KRUISE_POD_READY: Final = "KruisePodReady"
"""Readiness gate and condition with several writers, each with its keys in the message."""

SIDECARSET_HASH_ANNOTATION: Final = "kruise.io/sidecarset-hash"
"""On a SidecarSet: the hash of its sidecars. On a pod: JSON, by SidecarSet, which hash was put into it."""

SIDECARSET_IMAGELESS_ANNOTATION: Final = "kruise.io/sidecarset-hash-without-image"
"""The same, of sidecars without their images: what cannot be changed in a running pod."""

SIDECARSET_LIST_ANNOTATION: Final = "kruise.io/sidecarset-injected-list"
"""On a pod: comma-joined names of the SidecarSets that put sidecars into it."""

SIDECARSET_STATE_ANNOTATION: Final = "kruise.io/sidecarset-inplace-update-state"
"""On a pod: JSON, by SidecarSet, which images its sidecars had before the last upgrade."""

INJECTED_STATE_ANNOTATION: Final = "kruise.io/injected-persistent-pod-state"
"""On a pod that was brought back where it was: the PersistentPodState."""

SIDECARSET_WORKING_ANNOTATION: Final = "kruise.io/sidecarset-working-hotupgrade-container"
"""On a pod: JSON, by sidecar that is upgraded hot, which of its two containers does the work."""

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
    }
)
"""Annotations about a single pod: no template may give them to all pods (pods/template/metadata.py)."""

SIDECARSET_VERSION_PREFIX: Final = "version.sidecarset.kruise.io/"
SIDECARSET_VERSION_ALT_PREFIX: Final = "versionalt.sidecarset.kruise.io/"
SIDECARSET_UPGRADABLE: Final = "SidecarSetUpgradable"
"""Condition of a pod: whether its SidecarSets can be upgraded in place."""
