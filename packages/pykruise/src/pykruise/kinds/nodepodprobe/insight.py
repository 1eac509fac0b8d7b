"""NodePodProbe for the commands explain and plan.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.insight import Insight
from pykruise.pods.probes.views import FAILED, SUCCEEDED, UNKNOWN


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line about the results of the node's probes."""
    states = Counter(
        state.get("state")
        for pod in status.get("podProbeStatuses") or ()
        for state in pod.get("probeStates") or ()
    )
    return f"probes: {states[SUCCEEDED]} succeeded, {states[FAILED]} failed, {states[UNKNOWN]} unknown"


INSIGHT: Final = Insight(containers=(), headline=headline_of, has_observed_generation=False)
