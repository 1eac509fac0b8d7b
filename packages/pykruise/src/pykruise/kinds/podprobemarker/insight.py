"""PodProbeMarker for the commands explain and plan.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight


def headline_of(status: Mapping[str, Any]) -> str:
    """Return a line about the number of the marker's pods."""
    pods = status.get("matchedPods", 0)
    return format_count(pods, "pod is checked", "pods are checked")


INSIGHT: Final = Insight(containers=(), headline=headline_of)
