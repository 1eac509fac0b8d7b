"""ImageListPullJob, as explain and plan know it.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.insight import Insight


def headline_of(status: Mapping[str, Any]) -> str:
    """How far it is."""
    desired, completed, succeeded = (status.get(name, 0) for name in ("desired", "completed", "succeeded"))
    images = "1 image" if desired == 1 else f"{desired} images"
    return f"of {images} {succeeded} are everywhere, {completed - succeeded} failed on nodes"


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    has_observed_generation=False,
)
