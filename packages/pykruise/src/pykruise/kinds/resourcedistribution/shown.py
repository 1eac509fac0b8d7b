"""Presentation of ResourceDistributions: fields, verbs, columns, and progress.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, Less, Phase, PhaseRules, Positive, ProgressCounts, When
from pykruise.plans.shown import Cell, Shown

_WANTED: Final = Count("status.desired")
_SUCCEEDED: Final = Count("status.succeeded")
_FAILED: Final = Count("status.failed")

SHOWN: Final = Shown(
    kind="ResourceDistribution",
    place=80,
    progress=PhaseRules(
        rules=(
            When(phase=Phase.DEGRADED, all=(Positive(_FAILED),)),
            When(phase=Phase.PROGRESSING, all=(Less(_SUCCEEDED, _WANTED),)),
        ),
        counts=ProgressCounts(wanted=_WANTED, succeeded=_SUCCEEDED, failed=_FAILED),
        details="namespaces: {succeeded} of {wanted}",
    ),
    columns=(
        Cell("TARGETS", "status.desired"),
        Cell("SUCCEEDED", "status.succeeded"),
        Cell("FAILED", "status.failed"),
    ),
)
