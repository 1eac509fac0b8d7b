"""Presentation of the kind ImagePullJob: its fields, verbs and columns, and the progress of a job.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.values.counts import format_count
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import Count, Phase, Progress
from pykruise.plans.pulling import pull_phase, pull_rules
from pykruise.plans.shown import Cell, Field, Shown

_SUCCEEDED: Final = Count("status.succeeded")
_FAILED: Final = Count("status.failed")


def _format_line(document: Mapping[str, Any], progress: Progress) -> str:
    name = f"imagepulljob {quote_text(document['metadata']['name'])}"
    if progress.phase is Phase.FAILED:
        return f"{name} failed on {progress.failed} of {format_count(progress.wanted, 'node')}"
    pulled = f"{progress.succeeded} of {format_count(progress.wanted, 'node has', 'nodes have')} pulled"
    if progress.is_done:
        return f"{name} complete: {pulled}"
    return (
        f"Waiting for {name} to complete: {pulled},"
        f" {format_count(progress.active, 'is', 'are')} pulling, {progress.failed} failed..."
    )


SHOWN: Final = Shown(
    kind="ImagePullJob",
    board="jobs",
    place=120,
    is_observed=False,
    progress=pull_rules(succeeded=_SUCCEEDED, failed=_FAILED, unit="nodes"),
    line=_format_line,
    columns=(
        Cell("PHASE", pull_phase),
        Cell("COMPLETED", _SUCCEEDED),
        Cell("FAILED", _FAILED),
        Cell("TOTAL", "status.desired"),
    ),
    fields={"parallelism": Field("spec.parallelism"), "image": Field("spec.image")},
    pulls_image=True,
)
