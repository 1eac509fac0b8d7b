"""Types of the errors between the agent and a container runtime.

CriError
├── RuntimeGoneError     no connection, or a broken one: the runtime is down or is restarting
├── CallTimeoutError     no response in time
├── CriNotFoundError     the container, sandbox or image does not exist
├── UnsupportedCallError this runtime does not have the call
└── CallRefusedError     the runtime responded with another error status and its reason
"""

from pykruise.kube.errors import KubeError
from pykruise.kube.excerpts import excerpt


class CriError(KubeError):
    """A failed call to a container runtime. The runtime's message is shortened, because the agent stores it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(excerpt(message))


class RuntimeGoneError(CriError):
    """The runtime cannot be reached; the call may have taken effect."""


class CallTimeoutError(CriError):
    """No response in time; the call may have taken effect."""


class CriNotFoundError(CriError):
    """The container, sandbox or image does not exist."""


class UnsupportedCallError(CriError):
    """The runtime does not know this call."""


class CallRefusedError(CriError):
    """The runtime rejected the call."""
