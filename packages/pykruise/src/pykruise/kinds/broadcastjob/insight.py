"""BroadcastJob for the commands explain, plan and simulate.

status ──▶ headline_of()      spec ──▶ compute_wait_s()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import JobInsight


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line about the progress of the job."""
    phase = status.get("phase") or "not started"
    desired, active, succeeded, failed = (
        status.get(name, 0) for name in ("desired", "active", "succeeded", "failed")
    )
    nodes = format_count(desired, "node")
    return f"{phase} on {nodes}: {succeeded} succeeded, {failed} failed, {active} active"


def compute_wait_s(spec: Mapping[str, Any]) -> float:
    """Return the job's deadline or its time to live, whichever is longer, in seconds."""
    policy = spec.get("completionPolicy") or {}
    return float(max(policy.get(name) or 0 for name in ("activeDeadlineSeconds", "ttlSecondsAfterFinished")))


INSIGHT: Final = JobInsight(
    names=frozenset({"bcj"}),
    headline=headline_of,
    has_observed_generation=False,
    waits_s=compute_wait_s,
)
