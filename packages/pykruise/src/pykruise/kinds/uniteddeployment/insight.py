"""UnitedDeployment for the commands explain and plan.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight


def headline_of(status: Mapping[str, Any]) -> str:
    """Return a line about the progress of the update and the number of pods of each subset."""
    counts = [
        f"{status.get('readyReplicas') or 0} of {format_count(status.get('replicas') or 0, 'pod is', 'pods are')} ready"
    ]
    counts.append(f"{format_count(status.get('updatedReplicas') or 0, 'is', 'are')} updated")
    if reserved := status.get("reservedPods"):
        counts.append(f"{format_count(reserved, 'more is', 'more are')} in reserve")
    entries = ", ".join(
        f"{item.get('name')} {item.get('replicas') or 0}" for item in status.get("subsetStatuses") or ()
    )
    return ", ".join(counts) + (f" ({entries})" if entries else "")


INSIGHT: Final = Insight(
    names=frozenset({"ud"}),
    containers=(),
    headline=headline_of,
)
