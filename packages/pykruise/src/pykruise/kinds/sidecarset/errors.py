"""The one error that callers tell apart: a pod that cannot get its sidecars.

InjectionError   the pod is refused, never half-injected; `sidecarset` names who is to blame (empty: the pod)
"""


class InjectionError(Exception):
    """Why a pod cannot be injected."""

    def __init__(self, message: str, *, sidecarset: str = "") -> None:
        super().__init__(message)
        self.sidecarset = sidecarset
