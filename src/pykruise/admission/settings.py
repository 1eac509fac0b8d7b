"""What can be set about admission, as one frozen value; the manager fills it in from its gates and flags."""

from typing import Final

import msgspec

from pykruise.kinds.cloneset.defaults import DefaultingSettings
from pykruise.kinds.gates import Gates

__all__ = ["MANAGER_NAMESPACE", "AdmissionSettings"]

MANAGER_NAMESPACE: Final = "kruise-system"


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that change admission, with OpenKruise's defaults; and how webhooks are registered."""

    namespace: str = MANAGER_NAMESPACE
    """The manager's own: webhooks of pods and built-in kinds leave it alone, as they leave kube-system."""
    gates: Gates = Gates()
    """Kinds whose gate is off are refused (feature_gates.py)."""
    pod_webhook: bool = True
    """Gate PodWebhook."""
    readiness_gate_for_all: bool = False
    """Gate KruisePodReadinessGate."""
    enhanced_liveness: bool = False
    """Gate EnhancedLivenessProbe."""
    sort_sidecars: bool = False
    """Gate EnableSortSidecarContainerByName."""
    any_pod_annotation: bool = False
    """Gate SidecarSetPatchPodMetadataDefaultsAllowed."""
    workload_spread: bool = True
    """Gate WorkloadSpread."""
    deletion_protection: bool = False
    """Gate ResourcesDeletionProtection."""
    crd_cascading: bool = False
    """Gate DeletionProtectionForCRDCascadingGate."""
    defaulting: DefaultingSettings = DefaultingSettings()
    """Gates TemplateNoDefaults and DefaultHostNetworkHostPortsInPodTemplates."""
    resources_in_place: bool = False
    """Gate InPlaceWorkloadVerticalScaling: InPlaceOnly lets cpu and memory change too."""
    auto_delete_claims: bool = True
    """Gate StatefulSetAutoDeletePVC."""
    auto_resize_claims: bool = False
    """Gate StatefulSetAutoResizePVCGate."""
    timeout_s: int = 10
    """How long an API server waits for an answer. OpenKruise's 30 s would hold up every writer when a manager
    hangs; answers take milliseconds."""
    protection_failure_policy: str = "Fail"
    """For the webhooks that only see objects labelled for protection: Fail or Ignore."""
