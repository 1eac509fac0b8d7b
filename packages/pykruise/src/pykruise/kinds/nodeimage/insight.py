"""NodeImage for the commands explain and plan.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line about the progress of the node."""
    desired, succeeded, failed, pulling, waiting = (
        status.get(name, 0) for name in ("desired", "succeeded", "failed", "pulling", "waiting")
    )
    if not desired:  # the agent counts only the images that it has seen, and the spec may have more
        return "the agent of the node has reported no image"
    images = format_count(desired, "image")
    return f"{succeeded} of {images} pulled, {failed} failed, {pulling + waiting} under way"


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    node_of=lambda snapshot, _: snapshot.node_image.name,
    has_observed_generation=False,
)
