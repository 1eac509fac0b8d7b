"""Presentation of PodUnavailableBudgets: fields, verbs, columns, and progress.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.plans.progress import Count, Less, Phase, PhaseRules, ProgressCounts, When
from pykruise.plans.shown import Cell, Metrics, Shown

_WANTED: Final = Count("status.desiredAvailable")
_AVAILABLE: Final = Count("status.currentAvailable")


def _make_counter(name: str) -> Callable[[Mapping[str, Any]], int]:
    """Return a function that counts the pods in this record of the status."""
    return lambda document: len(get_path(document, "status", name, default={}))


SHOWN: Final = Shown(
    kind="PodUnavailableBudget",
    group="policy.kruise.io",
    place=140,
    progress=PhaseRules(
        rules=(
            When(
                phase=Phase.PROGRESSING,
                all=(Less(_AVAILABLE, _WANTED),),
                details="pods available: {available} of {wanted}",
            ),
        ),
        counts=ProgressCounts(
            wanted=_WANTED, available=_AVAILABLE, active=Count("status.unavailableAllowed")
        ),
        details="pods available: {available} of {wanted}, {active} may become unavailable",
    ),
    columns=(
        Cell("MAXUNAVAILABLE", "spec.maxUnavailable", "-"),
        Cell("MINAVAILABLE", "spec.minAvailable", "-"),
        Cell("UNAVAILABLE", _make_counter("unavailablePods")),
        Cell("DISRUPTIONS", _make_counter("disruptedPods")),
        Cell("ALLOWED", "status.unavailableAllowed"),
        Cell("TARGETS", "status.totalReplicas"),
    ),
    metrics=Metrics(
        counts={
            "status_observed_generation": Count("status.observedGeneration"),
            "status_current_available": Count("status.currentAvailable"),
            "status_desired_available": Count("status.desiredAvailable"),
            "status_total_replicas": Count("status.totalReplicas"),
            "status_unavailable_allowed": Count("status.unavailableAllowed"),
        },
        has_conditions=False,
    ),
)
