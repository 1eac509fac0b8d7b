"""Error for a pod that cannot get its sidecars.

InjectionError   the pod is rejected and gets no sidecar; `sidecarset` names the cause (empty: the pod itself)
"""


class InjectionError(Exception):
    """The pod cannot be injected; the message gives the reason."""

    def __init__(self, message: str, *, sidecarset: str = "") -> None:
        super().__init__(message)
        self.sidecarset = sidecarset
