"""AdvancedCronJob, as explain and plan know it.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.insight import Insight

__all__ = ["INSIGHT"]


def headline_of(status: Mapping[str, Any]) -> str:
    """What runs, and when something was due last."""
    active = status.get("active") or []
    kind, last = status.get("type") or "job", status.get("lastScheduleTime")
    names = f": {', '.join(one.get('name', '') for one in active[:3])}" if active else ""
    return f"{len(active)} active {kind}s{names}; last due {last or 'never'}"


INSIGHT: Final = Insight(
    names=frozenset({"acj"}),
    fields={"schedule": ("spec", "schedule"), "paused": ("spec", "paused")},
    containers=(),
    headline=headline_of,
    has_observed_generation=False,
)
