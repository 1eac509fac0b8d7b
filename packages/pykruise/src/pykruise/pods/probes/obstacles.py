"""Why a probe of a pod has not succeeded: the same for its marker and for its node.

PodView + the states of its probes ──▶ obstacle_of() ──▶ Reason; None: all have succeeded, or the pod starts

Pure. A probe that fails is an answer: what it means is for the person who wrote the marker to say.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kube.clock import Instant
from pykruise.pods.probes.api import NamedProbe, ProbeState
from pykruise.pods.probes.views import FAILED
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

ANSWERS_IN_S: Final = 60.0
"""Within which an agent that works has probed a pod that runs."""


def obstacle_of(
    pod: PodView, probes: Sequence[NamedProbe], states: Sequence[ProbeState], *, now: Instant
) -> Reason | None:
    """`probes`: those that are asked for; `states`: what the agent has found in the pod."""
    known = {one.name: one for one in states if one.state}
    failed = [known[one.name] for one in probes if one.name in known and known[one.name].state == FAILED]
    if failed:
        said = "; ".join(f"probe {one.name} fails: {one.message or 'it says nothing'}" for one in failed)
        return Reason(Code.PROBE_FAILS, said)
    missing = [one.name for one in probes if one.name not in known]
    if missing and pod.is_ready and pod.ready_since is not None and now >= pod.ready_since + ANSWERS_IN_S:
        words = f"the agent of node {pod.node_name} has not made probe {', '.join(missing)}"
        remedy = f"start the agent on node {pod.node_name}, or bring the node back"
        return Reason(Code.NO_AGENT, words, remedy)
    return None
