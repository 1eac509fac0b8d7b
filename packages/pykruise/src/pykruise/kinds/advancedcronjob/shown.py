"""Presentation of the kind AdvancedCronJob: its fields, verbs and columns, and the progress of an object.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.advancedcronjob.changes import SCHEDULED_SINCE
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import annotations_of, get_path
from pykruise.kube.values.go_text import quote_text
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
from pykruise.plans.shown import Cell, Field, Metrics, Shown

_ACTIVE: Final = Items("status.active")


def _format_line(document: Mapping[str, Any], progress: Progress) -> str:
    name = f"advancedcronjob {quote_text(document['metadata']['name'])}"
    last = get_path(document, "status", "lastScheduleTime") or "never"
    if progress.active:
        return f"Waiting for {name}: {progress.active} active, last scheduled {last}..."
    return f"{name} has no active run, last scheduled {last}"


def _read_last_time(document: Mapping[str, Any], _zone: str) -> float | None:
    """Return the last scheduled time from the status (lastScheduleTime); None if there is none."""
    last = get_path(document, "status", "lastScheduleTime")
    return parse_time(last) if last else None


def _find_next_time(document: Mapping[str, Any], zone: str) -> float | None:
    """Return the first time of the schedule that is later than the last scheduled time, the creation and the last
    change of the schedule. If this time is in the past, its run is due or was missed. A schedule without a zone is read
    in the manager's `zone`. None if the AdvancedCronJob is paused, or if its schedule is unreadable or has no next
    time.
    """
    from pykruise.kube.values.cron import ScheduleError, parse_schedule

    spec = document.get("spec") or {}
    if spec.get("paused"):
        return None
    since = (
        document["metadata"].get("creationTimestamp"),
        get_path(document, "status", "lastScheduleTime"),
        annotations_of(document).get(SCHEDULED_SINCE),
    )
    try:
        own = spec.get("timeZone")
        schedule = parse_schedule(str(spec.get("schedule", "")), zone=zone if own is None else own)
        return schedule.next(max(parse_time(item) for item in since if item))
    except (ScheduleError, ValueError):
        return None


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
    line=_format_line,
    metrics=Metrics(
        counts={"status_active": _ACTIVE},
        times={"status_last_schedule_time": _read_last_time, "next_schedule_time": _find_next_time},
        has_conditions=False,
    ),
    columns=(
        Cell("SCHEDULE", "spec.schedule", "-"),
        Cell("SUSPEND", lambda document: bool(get_path(document, "spec", "paused"))),
        Cell("ACTIVE", _ACTIVE),
        Cell("LAST SCHEDULE", "status.lastScheduleTime", "<none>"),
    ),
    fields={"schedule": Field("spec.schedule"), "paused": Field("spec.paused")},
    has_fixed_template=True,
    templates=("spec.template.jobTemplate.spec.template", "spec.template.broadcastJobTemplate.spec.template"),
)
