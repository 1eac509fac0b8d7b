"""Rules about which requests are repeated, and when.

error ──▶ is_read_repeatable(), is_write_repeatable() ──▶ RetryPolicy.wait_s()

Pure. A read is repeated after any temporary error, a write only when the server certainly did not process it. Every
wait is bounded and jittered, so that many clients do not retry at the same moment.
"""

import random
from typing import Final

import msgspec

from pykruise.kube.errors import (
    AnswerTooLargeError,
    ApiError,
    InternalError,
    KubeError,
    ServerTimeoutError,
    ServerUnavailableError,
    TooManyRequestsError,
    TransportError,
    UnreachableError,
)

__all__ = ["RetryPolicy", "is_read_repeatable", "is_write_repeatable"]

_MAY_PASS: Final = (
    TransportError,
    TooManyRequestsError,
    InternalError,
    ServerUnavailableError,
    ServerTimeoutError,
)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Number and duration of repetitions, where repeating is safe."""

    reads: int = 5
    """Repetitions of a GET or of one page of a list."""
    writes: int = 3
    """Repetitions of a write that was certainly not processed."""
    base_s: float = 0.2
    """Maximum of the first wait. The maximum doubles with each further wait; the wait is random (full jitter)."""
    cap_s: float = 10.0
    total_s: float = 60.0
    """A request is repeated only within this number of seconds after its first attempt."""
    patience_s: float = 3.0
    """A request is not repeated when the response requests a longer wait: the caller gets the time and can do other
    work until then. Otherwise a webhook that delays the objects of one tenant
    would block a worker of a controller.
    """

    def wait_s(self, err: KubeError, failures: int, rng: random.Random) -> float:
        """Return the seconds before the next attempt: the time that the server requested, plus jitter."""
        asked = err.retry_after_s if isinstance(err, ApiError) else None
        return (asked or 0.0) + rng.uniform(0, min(self.cap_s, self.base_s * 2 ** (failures - 1)))

    def is_too_long(self, err: KubeError) -> bool:
        """Whether the server requests a wait of more than `patience_s`."""
        return isinstance(err, ApiError) and (err.retry_after_s or 0.0) > self.patience_s


def is_read_repeatable(err: KubeError) -> bool:
    """Whether a read may be tried again: after any temporary error."""
    # A response that is too large will be too large again, and each try transfers the maximum size.
    return isinstance(err, _MAY_PASS) and not isinstance(err, AnswerTooLargeError)


def is_write_repeatable(err: KubeError) -> bool:
    """Whether the write may be tried again: it was never sent, or it was rejected before processing and a retry can
    soon succeed.
    """
    match err:
        case UnreachableError():
            return True
        case TooManyRequestsError():
            # The 429 of a disruption budget concerns only this request, and lasts until pods are available again.
            return not any(cause.reason == "DisruptionBudget" for cause in err.causes)
        case ServerUnavailableError():
            # Without Retry-After, the response may come from a proxy after the server has processed the request.
            return err.code == 503 and err.retry_after_s is not None
        case _:
            return False
