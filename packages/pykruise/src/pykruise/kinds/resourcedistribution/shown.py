"""ResourceDistribution shows itself: its fields, verbs and columns, and how far one is.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, Counts, Less, Phase, Positive, Rules, When
from pykruise.plans.shown import Cell, Shown

_WANTED: Final = Count("status.desired")
_SUCCEEDED: Final = Count("status.succeeded")
_FAILED: Final = Count("status.failed")

SHOWN: Final = Shown(
    kind="ResourceDistribution",
    place=80,
    progress=Rules(
        rules=(
            When(phase=Phase.DEGRADED, all=(Positive(_FAILED),)),
            When(phase=Phase.PROGRESSING, all=(Less(_SUCCEEDED, _WANTED),)),
        ),
        counts=Counts(wanted=_WANTED, succeeded=_SUCCEEDED, failed=_FAILED),
        details="{succeeded} of {wanted} namespaces",
    ),
    columns=(
        Cell("TARGETS", "status.desired"),
        Cell("SUCCEEDED", "status.succeeded"),
        Cell("FAILED", "status.failed"),
    ),
)
