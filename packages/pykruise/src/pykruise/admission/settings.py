"""Settings of admission as one frozen value; the manager fills it in from its gates and flags."""

from typing import Annotated, Any, Final

import msgspec

from pykruise.kinds.gates import Gates
from pykruise.pods.settings import OnGate, settings_from

MANAGER_NAMESPACE: Final = "kruise-system"


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that change which webhooks there are, with OpenKruise's defaults; and how webhooks are registered.
    What the reviews and pod steps of a kind go by is in the kind's own Settings."""

    namespace: str = MANAGER_NAMESPACE
    """The manager's own: webhooks of pods and built-in kinds leave it alone, as they leave kube-system."""
    gates: Gates = Gates()
    """Kinds whose gate is off are refused (feature_gates.py), and take no part in admission of pods."""
    pod_webhook: Annotated[bool, OnGate("PodWebhook")] = True
    deletion_protection: Annotated[bool, OnGate("ResourcesDeletionProtection")] = False
    crd_cascading: Annotated[bool, OnGate("DeletionProtectionForCRDCascadingGate")] = False
    timeout_s: int = 10
    """How long an API server waits for an answer. OpenKruise's 30 s would hold up every writer when a manager
    hangs; answers take milliseconds."""
    protection_failure_policy: str = "Fail"
    """For the webhooks that only see objects labelled for protection: Fail or Ignore."""


def admission_settings(gates: Gates, **others: Any) -> AdmissionSettings:
    """Admission settings under these gates; `others` are further fields."""
    made = settings_from(AdmissionSettings, gates=gates.__getitem__)
    return msgspec.structs.replace(made, gates=gates, **others)
