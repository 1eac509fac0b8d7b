"""AdvancedCronJob shows itself: its fields, verbs and columns, and how far one is.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quoted
from pykruise.plans.progress import (
    Has,
    IsTrue,
    Items,
    Phase,
    PhaseRules,
    Positive,
    Progress,
    ProgressCounts,
    When,
)
from pykruise.plans.shown import Cell, Field, Shown

_ACTIVE: Final = Items("status.active")


def _line(document: Mapping[str, Any], progress: Progress) -> str:
    name = f"advancedcronjob {quoted(document['metadata']['name'])}"
    last = get_path(document, "status", "lastScheduleTime") or "never"
    if progress.active:
        return f"Waiting for {name}: {progress.active} active, last scheduled {last}..."
    return f"{name} has nothing active, last scheduled {last}"


SHOWN: Final = Shown(
    kind="AdvancedCronJob",
    board="jobs",
    place=70,
    is_observed=False,
    progress=PhaseRules(
        rules=(
            When(
                phase=Phase.PROGRESSING,
                all=(Positive(_ACTIVE),),
                details="{active} active, last scheduled {status.lastScheduleTime}",
            ),
            When(phase=Phase.PAUSED, all=(IsTrue("spec.paused"),), details="the schedule is paused"),
            When(
                phase=Phase.HEALTHY,
                all=(Has("status.lastScheduleTime", is_there=False),),
                details="it has not run yet",
            ),
        ),
        counts=ProgressCounts(active=_ACTIVE),
        details="it ran last at {status.lastScheduleTime}",
    ),
    line=_line,
    columns=(
        Cell("SCHEDULE", "spec.schedule", "-"),
        Cell("SUSPEND", lambda document: bool(get_path(document, "spec", "paused"))),
        Cell("ACTIVE", _ACTIVE),
        Cell("LAST SCHEDULE", "status.lastScheduleTime", "<none>"),
    ),
    fields={"schedule": Field("spec.schedule"), "paused": Field("spec.paused")},
    templates=("spec.template.jobTemplate.spec.template", "spec.template.broadcastJobTemplate.spec.template"),
)
