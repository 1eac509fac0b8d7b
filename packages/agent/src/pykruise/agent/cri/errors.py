"""Types of the errors between the agent and a container runtime.

CriError
├── RuntimeGoneError     no connection, or it broke: the runtime is down or starts anew
├── CallTimeoutError     no answer in time
├── CriNotFoundError        there is no such container, sandbox or image
├── UnsupportedCallError this runtime does not have the call
└── CallRefusedError     it answered with another status, and says why
"""

from pykruise.kube.errors import KubeError
from pykruise.kube.excerpts import excerpt


class CriError(KubeError):
    """A call to a container runtime that did not succeed. The message is an excerpt of the runtime's: it is stored."""

    def __init__(self, message: str = "") -> None:
        super().__init__(excerpt(message))


class RuntimeGoneError(CriError):
    """The runtime cannot be reached; the call may have taken effect."""


class CallTimeoutError(CriError):
    """No answer in time; the call may have taken effect."""


class CriNotFoundError(CriError):
    """There is no such thing."""


class UnsupportedCallError(CriError):
    """The runtime does not know this call."""


class CallRefusedError(CriError):
    """The runtime answered, and refused."""
