"""What can be set about admission, as one frozen value; the manager fills it in from its gates and flags."""

from typing import Annotated, Any, Final

import msgspec

from pykruise.kinds.gates import Gates
from pykruise.pods.settings import OnGate, settings_from

__all__ = ["MANAGER_NAMESPACE", "AdmissionSettings", "admission_settings"]

MANAGER_NAMESPACE: Final = "kruise-system"


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that change admission of pods and deletions, with OpenKruise's defaults; and how webhooks are
    registered. What a kind is to go by is in its own Settings."""

    namespace: str = MANAGER_NAMESPACE
    """The manager's own: webhooks of pods and built-in kinds leave it alone, as they leave kube-system."""
    gates: Gates = Gates()
    """Kinds whose gate is off are refused (feature_gates.py)."""
    pod_webhook: Annotated[bool, OnGate("PodWebhook")] = True
    readiness_gate_for_all: Annotated[bool, OnGate("KruisePodReadinessGate")] = False
    enhanced_liveness: Annotated[bool, OnGate("EnhancedLivenessProbe")] = False
    sort_sidecars: Annotated[bool, OnGate("EnableSortSidecarContainerByName")] = False
    workload_spread: Annotated[bool, OnGate("WorkloadSpread")] = True
    budgets_guard_deletion: Annotated[bool, OnGate("PodUnavailableBudgetDeleteGate")] = True
    """Deletions and evictions ask PodUnavailableBudgets."""
    budgets_guard_updates: Annotated[bool, OnGate("PodUnavailableBudgetUpdateGate")] = False
    """Updates and resizes of pods ask them."""
    probes_on_virtual_nodes: Annotated[
        bool, OnGate("EnablePodProbeMarkerOnServerless", "PodProbeMarkerGate")
    ] = False
    """New pods say what virtual nodes are to check."""
    deletion_protection: Annotated[bool, OnGate("ResourcesDeletionProtection")] = False
    crd_cascading: Annotated[bool, OnGate("DeletionProtectionForCRDCascadingGate")] = False
    timeout_s: int = 10
    """How long an API server waits for an answer. OpenKruise's 30 s would hold up every writer when a manager
    hangs; answers take milliseconds."""
    protection_failure_policy: str = "Fail"
    """For the webhooks that only see objects labelled for protection: Fail or Ignore."""

    @property
    def has_budgets(self) -> bool:
        """Whether PodUnavailableBudgets guard anything."""
        return self.budgets_guard_deletion or self.budgets_guard_updates


def admission_settings(gates: Gates, **others: Any) -> AdmissionSettings:
    """What these gates mean for admission; `others` are further fields."""
    made = settings_from(AdmissionSettings, gates=gates.__getitem__)
    return msgspec.structs.replace(made, gates=gates, **others)
