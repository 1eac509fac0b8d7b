"""Presentation of the kind BroadcastJob: its fields, verbs and columns, and the progress of a job.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import (
    Count,
    Difference,
    Is,
    Phase,
    PhaseRules,
    Positive,
    Progress,
    ProgressCounts,
    When,
    Zero,
)
from pykruise.plans.shown import TEMPLATE, Cell, Field, Metrics, Shown


def _format_line(document: Mapping[str, Any], progress: Progress) -> str:
    name = f"broadcastjob {quote_text(document['metadata']['name'])}"
    if progress.phase is Phase.FAILED:
        return f"{name} failed: {progress.failed} of {format_count(progress.wanted, 'pod')} failed"
    is_paused = get_path(document, "status", "phase", default="") == "paused"
    if progress.phase is Phase.DEGRADED and is_paused:
        return f"{name} is paused: {progress.failed} of {format_count(progress.wanted, 'pod')} failed"
    if progress.phase is Phase.COMPLETED:
        return f"{name} complete: {progress.succeeded} succeeded, {progress.failed} failed"
    if progress.phase is Phase.HEALTHY:
        return (
            f"{name} has run on all nodes: {progress.succeeded} succeeded; nodes that join later run it too"
        )
    counts = (
        f"{progress.succeeded} of {format_count(progress.wanted, 'pod has', 'pods have')} succeeded, "
        f"{progress.active} active, {progress.failed} failed..."
    )
    return f"Waiting for {name} to complete: {counts}"


SHOWN: Final = Shown(
    kind="BroadcastJob",
    board="jobs",
    place=50,
    is_observed=False,
    is_per_node=True,
    progress=PhaseRules(
        rules=(
            When(
                phase=Phase.FAILED,
                all=(Is("status.phase", ("completed",)), Positive(Count("status.failed"))),
            ),
            When(phase=Phase.COMPLETED, all=(Is("status.phase", ("completed",)),)),
            When(phase=Phase.FAILED, all=(Is("status.phase", ("failed",)),)),
            When(
                phase=Phase.DEGRADED,
                all=(
                    Is("status.phase", ("paused",)),
                    Is("spec.failurePolicy.type", ("Pause",)),
                    Positive(Count("status.failed")),
                ),
                details="{succeeded} of {wanted} succeeded; {failed} failed and paused the job",
            ),
            When(phase=Phase.PAUSED, all=(Is("status.phase", ("paused",)),)),
            # A job of type Never does not end. When all nodes have run it, it is in the state that its spec requests.
            When(
                phase=Phase.HEALTHY,
                all=(
                    Is("spec.completionPolicy.type", ("Never",)),
                    Positive(Count("status.desired")),
                    Zero(Difference(Count("status.desired"), Count("status.succeeded"))),
                ),
                details="{succeeded} of {wanted} succeeded; nodes that join later run the job too",
            ),
        ),
        otherwise=Phase.PROGRESSING,
        counts=ProgressCounts(
            wanted=Count("status.desired"),
            active=Count("status.active"),
            succeeded=Count("status.succeeded"),
            failed=Count("status.failed"),
        ),
        details="{succeeded} of {wanted} succeeded, {failed} failed",
    ),
    line=_format_line,
    columns=(
        Cell("DESIRED", "status.desired"),
        Cell("ACTIVE", "status.active"),
        Cell("SUCCEEDED", "status.succeeded"),
        Cell("FAILED", "status.failed"),
    ),
    fields={"parallelism": Field("spec.parallelism"), "paused": Field("spec.paused")},
    templates=TEMPLATE,
    metrics=Metrics(
        counts={
            "status_active": Count("status.active"),
            "status_desired": Count("status.desired"),
            "status_failed": Count("status.failed"),
            "status_succeeded": Count("status.succeeded"),
        },
    ),
)
