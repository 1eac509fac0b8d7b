"""BroadcastJob, as explain and plan know it.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.insight import Insight

__all__ = ["INSIGHT"]


def headline_of(status: Mapping[str, Any]) -> str:
    """How far it is."""
    phase = status.get("phase") or "not started"
    desired, active, succeeded, failed = (
        status.get(name, 0) for name in ("desired", "active", "succeeded", "failed")
    )
    nodes = "1 node" if desired == 1 else f"{desired} nodes"
    return f"{phase}: of {nodes} {succeeded} succeeded, {failed} failed, {active} active"


INSIGHT: Final = Insight(
    names=frozenset({"bcj"}),
    fields={"parallelism": ("spec", "parallelism"), "paused": ("spec", "paused")},
    headline=headline_of,
    has_observed_generation=False,
)
