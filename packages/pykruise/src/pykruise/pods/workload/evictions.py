"""Requests for evictions that wait for a successor: their record on the pod.

eviction of a pod whose workload has the option eviction-surge ──▶ pod webhook: the record, and 429
record ──▶ the workload creates a successor, and deletes the pod when the successor is available

Pure. The record has the time of the last request. A client that still wants the eviction repeats its request, so an old
record is from a client that gave up.
"""

from collections.abc import Mapping
from typing import Final

from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.pods.view import keys
from pykruise.pods.workload.options import EVICTION_SURGE, find_option_errors

WANTED_S: Final = 600.0
"""Seconds from the last request for an eviction until the eviction is no longer wanted. Clients repeat a request within
seconds (kubectl drain, Karpenter, the cluster autoscaler) or minutes (the descheduler: five by default).
"""

RENEWED_S: Final = 60.0
"""Age in seconds at which a repeated request renews the record, so that requests every second cost few writes."""


def is_surging_first(cloneset: Document | None, *, owner_uid: str) -> bool:
    """Whether the CloneSet creates a successor before a pod with the controller `owner_uid` is evicted. False if the
    CloneSet has another uid. An invalid value of the option stops the CloneSet, so pods are evicted as without the
    option.
    """
    metadata = (cloneset or {}).get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if EVICTION_SURGE.annotation not in annotations or metadata["uid"] != owner_uid:
        return False
    return not (metadata.get("deletionTimestamp") or any(find_option_errors(annotations, (EVICTION_SURGE,))))


def read_requested_at(annotations: Mapping[str, str]) -> Instant | None:
    """Time of the last recorded request; None if there is no record. An unreadable time is treated as a time long
    ago.
    """
    text = annotations.get(keys.EVICTION_REQUESTED_ANNOTATION)
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError:
        return 0.0


def is_record_due(annotations: Mapping[str, str], *, now: Instant) -> bool:
    """Whether a request at this time must be recorded."""
    requested_at = read_requested_at(annotations)
    return requested_at is None or now - requested_at >= RENEWED_S


def build_record(now: Instant) -> Document:
    """Merge patch of a pod that records a request."""
    return {"metadata": {"annotations": {keys.EVICTION_REQUESTED_ANNOTATION: format_time(now)}}}
