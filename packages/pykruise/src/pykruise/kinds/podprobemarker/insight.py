"""PodProbeMarker, as explain and plan know it.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import counted
from pykruise.plans.insight import Insight


def headline_of(status: Mapping[str, Any]) -> str:
    """How many pods it is about."""
    pods = status.get("matchedPods", 0)
    return counted(pods, "pod is checked", "pods are checked")


INSIGHT: Final = Insight(containers=(), headline=headline_of)
