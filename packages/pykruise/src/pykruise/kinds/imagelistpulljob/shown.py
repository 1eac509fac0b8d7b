"""Presentation of the kind ImageListPullJob: its fields, verbs and columns, and the progress of a job.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import format_count
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import Count, Items, Phase, Progress
from pykruise.plans.pulling import pull_phase, pull_rules
from pykruise.plans.shown import Cell, Field, Shown

_SUCCEEDED: Final = Count("status.completed")
_FAILED: Final = Items("status.failedImageStatuses")


def _format_line(document: Mapping[str, Any], progress: Progress) -> str:
    name = f"imagelistpulljob {quote_text(document['metadata']['name'])}"
    if progress.phase is Phase.FAILED:
        return f"{name} failed for {progress.failed} of {format_count(progress.wanted, 'image')}"
    if progress.is_done:
        return f"{name} complete: {progress.succeeded} of {format_count(progress.wanted, 'image')}"
    images = format_count(progress.wanted, "image is", "images are")
    return f"Waiting for {name} to complete: {progress.succeeded} of {images} done..."


SHOWN: Final = Shown(
    kind="ImageListPullJob",
    board="jobs",
    place=130,
    is_observed=False,
    progress=pull_rules(succeeded=_SUCCEEDED, failed=_FAILED, unit="images"),
    line=_format_line,
    columns=(
        Cell("PHASE", pull_phase),
        Cell("COMPLETED", _SUCCEEDED),
        Cell("FAILED", _FAILED),
        Cell("TOTAL", "status.desired"),
    ),
    fields={"parallelism": Field("spec.parallelism")},
)
