"""Presentation of the kind EphemeralJob: its fields, verbs and columns, and the progress of a job.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, Is, Phase, PhaseRules, ProgressCounts, When
from pykruise.plans.shown import Cell, Field, Shown

SHOWN: Final = Shown(
    kind="EphemeralJob",
    board="jobs",
    place=160,
    is_observed=False,
    progress=PhaseRules(
        rules=(
            When(phase=Phase.COMPLETED, all=(Is("status.phase", ("Succeeded",)),)),
            When(phase=Phase.FAILED, all=(Is("status.phase", ("Failed", "Error")),)),
            When(phase=Phase.PAUSED, all=(Is("status.phase", ("Paused",)),)),
        ),
        otherwise=Phase.PROGRESSING,
        counts=ProgressCounts(
            wanted=Count("status.match"),
            active=Count("status.running"),
            succeeded=Count("status.succeeded"),
            failed=Count("status.failed"),
        ),
        details="pods: {succeeded} of {wanted}",
    ),
    columns=(
        Cell("PHASE", "status.phase", "-"),
        Cell("MATCHED", "status.match"),
        Cell("RUNNING", "status.running"),
        Cell("SUCCEEDED", "status.succeeded"),
        Cell("FAILED", "status.failed"),
    ),
    fields={"parallelism": Field("spec.parallelism"), "paused": Field("spec.paused")},
)
