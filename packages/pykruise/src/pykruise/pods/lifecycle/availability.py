"""Availability of a pod, and the next time at which it changes without an event.

PodView + minReadySeconds + now ──▶ is_available(), find_available_time()

Pure; serves every kind.
"""

from collections.abc import Iterable
from typing import Final

from pykruise.kube.clock import Instant
from pykruise.pods.mounts import CREATED_IN_S, ENDED_IN_S, SCHEDULED_IN_S
from pykruise.pods.view.pod_view import PodView

CLOCK_CHECK_S: Final = 60.0
"""Seconds until a time that depends on a wrong clock is computed again."""


def is_available(pod: PodView, *, min_ready_seconds: int, now: Instant) -> bool:
    """Whether a pod serves (ready, lifecycle state absent or Normal) and has been ready for at least
    `min_ready_seconds`.

    The pod counts as available exactly at the end of this time, so that a plan can name the instant.
    """
    return pod.is_serving and is_ready_long_enough(pod, min_ready_seconds=min_ready_seconds, now=now)


def is_ready_long_enough(pod: PodView, *, min_ready_seconds: int, now: Instant) -> bool:
    """Whether a ready pod has been ready for at least `min_ready_seconds`."""
    if min_ready_seconds <= 0:
        return True
    return pod.ready_since is not None and pod.ready_since + min_ready_seconds <= now


def find_available_time(pod: PodView, *, min_ready_seconds: int) -> Instant | None:
    """Time at which a serving pod has been ready for long enough; None if time alone does not make it available."""
    if not pod.is_serving or pod.ready_since is None:
        return None
    return pod.ready_since + max(min_ready_seconds, 0)


def find_next_late_time(pods: Iterable[PodView], *, now: Instant) -> Instant | None:
    """Earliest time at which the creation or the end of one of the pods becomes overdue; None if there is no such
    time.
    """
    times = (time for pod in pods if (time := _find_late_time(pod)) is not None)
    return min((item for item in times if item > now), default=None)


def find_next_available_time(
    pods: Iterable[PodView], *, min_ready_seconds: int, now: Instant
) -> Instant | None:
    """Earliest time at which one of the pods becomes available without an event; None if there is no such time.

    A pod that became ready in the future shows that this clock or the node's is wrong. The clock may be corrected at
    any time, so the result is then at most CLOCK_CHECK_S after `now`.
    """
    if min_ready_seconds <= 0:
        return None
    # Avoids a call per pod: every plan runs this over all pods.
    latest = now - min_ready_seconds
    since = [
        pod.ready_since
        for pod in pods
        if pod.is_serving and pod.ready_since is not None and pod.ready_since > latest
    ]
    if not since:
        return None
    at = min(since) + min_ready_seconds
    return min(at, now + CLOCK_CHECK_S) if max(since) > now else at


def _find_late_time(pod: PodView) -> Instant | None:
    if pod.ends_at is not None and pod.node_name:
        return pod.ends_at + ENDED_IN_S
    if not pod.node_name and pod.created_at is not None and pod.find_condition("PodScheduled") is None:
        return pod.created_at + SCHEDULED_IN_S
    return None if pod.creating is None else pod.creating.since + CREATED_IN_S
