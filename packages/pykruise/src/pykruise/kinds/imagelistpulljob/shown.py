"""ImageListPullJob shows itself: its fields, verbs and columns, and how far one is.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.go_text import quoted
from pykruise.plans.progress import Count, Counts, Has, Is, Items, Phase, Positive, Progress, Rules, When
from pykruise.plans.shown import Cell, Field, Shown
from pykruise.plans.shown_lines import pull_phase

__all__ = ["SHOWN"]

_ACTIVE: Final = Count("status.active")
_FAILED: Final = Items("status.failedImageStatuses")


def _line(document: Mapping[str, Any], progress: Progress) -> str:
    name = f"imagelistpulljob {quoted(document['metadata']['name'])}"
    if progress.phase is Phase.FAILED:
        return f"{name} failed for {progress.failed} of {progress.wanted} images"
    if progress.is_done:
        return f"{name} complete: {progress.succeeded} of {progress.wanted} images"
    return f"Waiting for {name} to complete: {progress.succeeded} of {progress.wanted} images are done..."


SHOWN: Final = Shown(
    kind="ImageListPullJob",
    board="jobs",
    place=130,
    is_observed=False,
    progress=Rules(
        rules=(
            When(
                phase=Phase.FAILED,
                all=(Has("status.completionTime"), Positive(_FAILED)),
                details="{succeeded} of {wanted} images, {failed} failed",
            ),
            When(phase=Phase.COMPLETED, all=(Has("status.completionTime"),)),
            When(
                phase=Phase.DEGRADED,
                all=(Positive(_FAILED),),
                details="{succeeded} of {wanted} images, {failed} failed",
            ),
            When(
                phase=Phase.PROGRESSING,
                all=(Has("status.startTime", is_there=False),),
                details="it has not begun",
            ),
            When(phase=Phase.PROGRESSING, all=(Positive(_ACTIVE),)),
            When(phase=Phase.HEALTHY, all=(Is("spec.completionPolicy.type", ("Never",)),)),
        ),
        otherwise=Phase.PROGRESSING,
        counts=Counts(
            wanted=Count("status.desired"),
            active=_ACTIVE,
            succeeded=Count("status.completed"),
            failed=_FAILED,
        ),
        details="{succeeded} of {wanted} images",
    ),
    line=_line,
    columns=(
        Cell("PHASE", pull_phase),
        Cell("COMPLETED", "status.completed"),
        Cell("FAILED", _FAILED),
        Cell("TOTAL", "status.desired"),
    ),
    fields={"parallelism": Field("spec.parallelism")},
)
