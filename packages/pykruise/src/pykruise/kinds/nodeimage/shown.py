"""Presentation of the kind NodeImage: its fields, verbs and columns, and the progress of an object.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, Items, Less, Phase, PhaseRules, Positive, ProgressCounts, When
from pykruise.plans.shown import Cell, Shown

_PULLING: Final = Count("status.pulling")
_FAILED: Final = Count("status.failed")

SHOWN: Final = Shown(
    kind="NodeImage",
    board="jobs",
    place=150,
    is_observed=False,
    is_made_for_nodes=True,
    unreported=Less(Items("status.imageStatuses"), Items("spec.images")),
    progress=PhaseRules(
        rules=(
            When(
                phase=Phase.DEGRADED,
                all=(Positive(_FAILED),),
                details="images that could not be pulled: {failed}",
            ),
            When(
                phase=Phase.PROGRESSING,
                all=(Positive(_PULLING),),
                details="images that are being pulled: {active}",
            ),
            When(
                phase=Phase.PROGRESSING,
                all=(Positive(Count("status.waiting")),),
                details="images wait to be pulled",
            ),
        ),
        counts=ProgressCounts(
            wanted=Count("status.desired"),
            active=_PULLING,
            succeeded=Count("status.succeeded"),
            failed=_FAILED,
        ),
    ),
    columns=(
        Cell("DESIRED", "status.desired"),
        Cell("PULLING", "status.pulling"),
        Cell("SUCCEED", "status.succeeded"),
        Cell("FAILED", "status.failed"),
    ),
    keeps_images=True,
)
