"""Presentation of the kind PodProbeMarker: its fields, verbs and columns, and the progress of an object.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, Items, Phase, PhaseRules, ProgressCounts, When, Zero
from pykruise.plans.shown import Cell, Shown

SHOWN: Final = Shown(
    kind="PodProbeMarker",
    place=110,
    progress=PhaseRules(
        rules=(
            When(phase=Phase.DEGRADED, all=(Zero(Count("status.matchedPods")),), details="it selects no pod"),
        ),
        counts=ProgressCounts(wanted=Count("status.matchedPods")),
        details="pods that are checked: {wanted}",
    ),
    columns=(Cell("TARGETS", "status.matchedPods"), Cell("PROBES", Items("spec.probes"))),
)
