"""Settings of admission as one frozen value, which the manager derives from its gates and flags."""

from typing import Annotated, Any, Final

import msgspec

from pykruise.kinds.gates import Gates
from pykruise.pods.settings import OnGate, build_settings

MANAGER_NAMESPACE: Final = "kruise-system"


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that decide which webhooks exist, with OpenKruise's defaults, and settings for their
    registration. The settings of a kind's reviews and pod steps are in the kind's own Settings.
    """

    namespace: str = MANAGER_NAMESPACE
    """The manager's own namespace. Webhooks of pods and built-in kinds exclude it, like kube-system."""
    gates: Gates = Gates()
    """Feature gates. Kinds whose gate is off have no pod steps; their objects are rejected (feature_gates.py)."""
    pod_webhook: Annotated[bool, OnGate("PodWebhook")] = True
    deletion_protection: Annotated[bool, OnGate("ResourcesDeletionProtection")] = False
    crd_cascading: Annotated[bool, OnGate("DeletionProtectionForCRDCascadingGate")] = False
    timeout_s: int = 10
    """Seconds that an API server waits for a response. OpenKruise's 30 s would delay every writer while a manager
    hangs; responses take milliseconds.
    """
    protection_failure_policy: str = "Fail"
    """Failure policy of the webhooks that get only objects with the protection label: Fail or Ignore."""


def make_admission_settings(gates: Gates, **others: Any) -> AdmissionSettings:
    """Return admission settings for these gates; `others` are further fields."""
    made = build_settings(AdmissionSettings, gates=gates.__getitem__)
    return msgspec.structs.replace(made, gates=gates, **others)
