"""PodProbeMarker for the commands explain and plan.

status ──▶ headline_of()      object ──▶ list_conditions(), list_labels()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, encode
from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight, SetCondition, SetLabels
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


def list_labels(marker: Document) -> Iterator[SetLabels]:
    """Yield the labels that the marker sets in pods, for each result of each probe."""
    view = make_marker_projector()(encode(marker))
    for number, probe in enumerate(view.spec.probes if view.spec is not None else ()):
        for policy in probe.marker_policy or ():
            if policy.labels:
                where = f"spec.probes[{number}].markerPolicy"
                yield SetLabels(where=where, labels=policy.labels, selects=view.selects)


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    conditions=list_conditions,
    labels=list_labels,
    pod_selector=("spec", "selector"),
    objects_of_nodes={Code.NO_AGENT: "NodePodProbe"},
    marks_pods="NodePodProbe",
    marks_field="spec.probes[].markerPolicy",
)
