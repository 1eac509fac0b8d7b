"""Which requests are repeated, and when.

error ──▶ is_read_repeatable(), is_write_repeatable() ──▶ RetryPolicy.wait_s()

Pure. A read is repeated after anything that may pass, a write only when the server surely did not process it. Every
wait is bounded and jittered, so that many clients do not come back at the same moment.
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
    """How often and how long a request is repeated, where repeating is safe."""

    reads: int = 5
    """Repetitions of a GET or of one page of a list."""
    writes: int = 3
    """Repetitions of a write that was surely not processed."""
    base_s: float = 0.2
    """The first wait is up to this long; each further one up to twice the one before (full jitter)."""
    cap_s: float = 10.0
    total_s: float = 60.0
    """No repetition starts later than this after the first attempt."""
    patience_s: float = 3.0
    """A request whose answer asks for a longer wait is not repeated: the caller gets the time, and can do something
    else until then. A worker of a controller would stand still for one tenant's objects."""

    def wait_s(self, err: KubeError, failures: int, rng: random.Random) -> float:
        """Seconds before the next attempt: what the server asked for, and jitter on top."""
        asked = err.retry_after_s if isinstance(err, ApiError) else None
        return (asked or 0.0) + rng.uniform(0, min(self.cap_s, self.base_s * 2 ** (failures - 1)))

    def is_too_long(self, err: KubeError) -> bool:
        """Whether the server asks for more than `patience_s`."""
        return isinstance(err, ApiError) and (err.retry_after_s or 0.0) > self.patience_s


def is_read_repeatable(err: KubeError) -> bool:
    """Whether a read may be tried again: after anything that may pass."""
    # What is too large is so the next time too, and each time costs what it is bounded by.
    return isinstance(err, _MAY_PASS) and not isinstance(err, AnswerTooLargeError)


def is_write_repeatable(err: KubeError) -> bool:
    """True when the server surely did not process the write: it was refused at the door, or never sent."""
    match err:
        case UnreachableError():
            return True
        case TooManyRequestsError():
            # A disruption budget's 429 is an answer to this very request, and lasts until pods come back.
            return not any(cause.reason == "DisruptionBudget" for cause in err.causes)
        case ServerUnavailableError():
            # Without Retry-After it may come from something between here and there, after the fact.
            return err.code == 503 and err.retry_after_s is not None
        case _:
            return False
