"""Presentation of the kind ContainerRecreateRequest: its fields, verbs and columns, and the progress of a request.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import (
    Is,
    Items,
    Less,
    Phase,
    PhaseRules,
    Positive,
    Progress,
    ProgressCounts,
    When,
)
from pykruise.plans.shown import Cell, Shown

_STATES: Final = "status.containerRecreateStates"
_FAILED: Final = Items(_STATES, "phase", "Failed")
_WANTED: Final = Items("spec.containers")
_SUCCEEDED: Final = Items(_STATES, "phase", "Succeeded")


def _format_line(document: Mapping[str, Any], progress: Progress) -> str:
    name = f"containerrecreaterequest {quote_text(document['metadata']['name'])}"
    if progress.phase is Phase.FAILED:
        states = get_path(document, "status", "containerRecreateStates", default=())
        bad = [state for state in states if state.get("phase") == "Failed"]
        words = "; ".join(f"{item.get('name')}: {item.get('message') or 'failed'}" for item in bad)
        return words or progress.details or "the request failed"
    counts = (
        f"{progress.succeeded} of {format_count(progress.wanted, 'container is', 'containers are')} recreated"
    )
    return (
        f"{name} complete: {counts}" if progress.is_done else f"Waiting for {name} to complete: {counts}..."
    )


SHOWN: Final = Shown(
    kind="ContainerRecreateRequest",
    board="jobs",
    place=60,
    is_observed=False,
    progress=PhaseRules(
        rules=(
            When(phase=Phase.FAILED, all=(Is("status.phase", ("Failed",)),)),
            When(phase=Phase.FAILED, all=(Is("status.phase", ("Completed",)), Positive(_FAILED))),
            When(phase=Phase.FAILED, all=(Is("status.phase", ("Completed",)), Less(_SUCCEEDED, _WANTED))),
            When(phase=Phase.COMPLETED, all=(Is("status.phase", ("Completed", "Succeeded")),)),
        ),
        otherwise=Phase.PROGRESSING,
        counts=ProgressCounts(
            wanted=Items(_STATES),
            active=Items(_STATES, "phase", "Recreating"),
            succeeded=_SUCCEEDED,
            failed=_FAILED,
        ),
        details="{status.message}",
    ),
    line=_format_line,
    columns=(
        Cell("PHASE", "status.phase", "Pending"),
        Cell("COMPLETED", _SUCCEEDED),
        Cell("FAILED", _FAILED),
    ),
)
