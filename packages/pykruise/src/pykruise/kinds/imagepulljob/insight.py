"""ImagePullJob for the commands explain and plan.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight
from pykruise.plans.views import SECRET_VIEWS


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line about the progress of the job."""
    desired, active, succeeded, failed = (
        status.get(name, 0) for name in ("desired", "active", "succeeded", "failed")
    )
    nodes = format_count(desired, "node")
    said = status.get("message") or "not started"
    counts = (
        f"{format_count(succeeded, 'has', 'have')} the image, {failed} failed, "
        f"{format_count(active, 'pulls', 'pull')} it"
    )
    return f"{said}: of {nodes} {counts}"


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    everywhere=(SECRET_VIEWS,),
    has_observed_generation=False,
)
