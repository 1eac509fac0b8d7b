"""PodProbeMarker for the commands explain and plan.

status ──▶ headline_of()      object ──▶ list_conditions()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, encode
from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight, SetCondition
from pykruise.pods.probes.views import make_marker_projector
from pykruise.pods.reasons import Code


def headline_of(status: Mapping[str, Any]) -> str:
    """Return a line about the number of the marker's pods."""
    pods = status.get("matchedPods", 0)
    return format_count(pods, "pod is selected", "pods are selected")


def list_conditions(marker: Document) -> Iterator[SetCondition]:
    """Yield the conditions of pods that the probes of the marker set."""
    view = make_marker_projector()(encode(marker))
    for probe in view.spec.probes if view.spec is not None else ():
        if probe.pod_condition_type:
            yield SetCondition(type=probe.pod_condition_type, probe=probe.name, selects=view.selects)


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    conditions=list_conditions,
    pod_selector=("spec", "selector"),
    objects_of_nodes={Code.NO_AGENT: "NodePodProbe"},
)
