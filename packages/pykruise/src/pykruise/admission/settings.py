"""Settings of admission as one frozen value. The manager computes them from its gates and flags."""

from typing import Annotated, Any, Final

import msgspec

from pykruise.kinds.gates import Gates
from pykruise.pods.settings import OnGate, build_settings

MANAGER_NAMESPACE: Final = "kruise-system"


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that determine which webhooks exist, with OpenKruise's defaults, and settings for their
    registration. Settings for the reviews of a kind, and for its steps in the admission of pods (plans/pod_steps.py),
    are in the settings of the kind.
    """

    namespace: str = MANAGER_NAMESPACE
    """The manager's own namespace. Webhooks of pods and built-in kinds exclude this namespace and kube-system."""
    gates: Gates = Gates()
    """Feature gates. If the gate of a kind is off, its steps in the admission of pods do not run, and its objects are
    rejected (feature_gates.py).
    """
    pod_webhook: Annotated[bool, OnGate("PodWebhook")] = True
    deletion_protection: Annotated[bool, OnGate("ResourcesDeletionProtection")] = False
    crd_cascading: Annotated[bool, OnGate("DeletionProtectionForCRDCascadingGate")] = False
    timeout_s: int = 10
    """Seconds that an API server waits for a response. Responses take milliseconds. With OpenKruise's 30 s, a manager
    that hangs would delay every write for longer.
    """
    allow_privileged: bool = True
    """Whether pod templates may contain privileged containers (flag --allow-privileged)."""
    protection_failure_policy: str = "Fail"
    """Failure policy of the webhooks for objects with the protection label: Fail or Ignore."""


def make_admission_settings(gates: Gates, **others: Any) -> AdmissionSettings:
    """Return admission settings for these gates. `others`: values of further fields."""
    made = build_settings(AdmissionSettings, gates=gates.__getitem__)
    return msgspec.structs.replace(made, gates=gates, **others)
