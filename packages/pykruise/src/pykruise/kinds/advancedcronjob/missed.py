"""Times of the schedule at which no run could start within `startingDeadlineSeconds`, and why.

children, schedule, deadline ──▶ find_missed_runs() ──▶ MissedRuns ──▶ explain_missed_runs() ──▶ Reason

Pure. With concurrencyPolicy Forbid, a run prevents the next one if it is still active when the deadline after the
next scheduled time has passed. The children that are kept show this even after a later run has started.
"""

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from pykruise.kinds.advancedcronjob.children import ChildView, Ending
from pykruise.kinds.advancedcronjob.due import MANY
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.values.cron import Schedule, find_ticks
from pykruise.pods.reasons import CODES, Code
from pykruise.runtime.reasons import Reason

_MARGIN_S: Final = 60
"""Seconds that the remedy adds to the longest overlap: runs do not last equally long."""


class MissedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that were missed because a child was active."""

    latest: Instant
    """The latest time whose run was missed."""
    count: int
    """Number of missed runs, counted up to MANY for each child."""
    child: ChildView
    """The child that was active at the latest time."""
    overlap_s: float
    """Longest time, in seconds, between the last scheduled time during a child's run and the child's end."""


def find_missed_runs(
    children: Iterable[ChildView],
    schedule: Schedule,
    *,
    since: Instant,
    now: Instant,
    deadline_s: int,
) -> MissedRuns | None:
    """Return the runs that were missed because an earlier run was active, with concurrencyPolicy Forbid; None if there
    are none. `since`: earlier times do not count.
    """
    known = list(children)
    served = {child.scheduled_at for child in known}
    runs: list[MissedRuns] = []
    for child in known:
        end = now if child.ending is Ending.ACTIVE else child.ended_at
        if child.scheduled_at is None or end is None or child.scheduled_at < since:
            continue
        ticks = find_ticks(schedule, child.scheduled_at, end - deadline_s, most=MANY)
        if ticks.latest is None or ticks.latest in served:
            continue
        last = find_ticks(schedule, child.scheduled_at, end, most=1).latest
        overlap_s = end - (ticks.latest if last is None else last)
        runs.append(MissedRuns(latest=ticks.latest, count=ticks.count, child=child, overlap_s=overlap_s))
    if not runs:
        return None
    return msgspec.structs.replace(
        max(runs, key=lambda run: run.latest),
        count=sum(run.count for run in runs),
        overlap_s=max(run.overlap_s for run in runs),
    )


def explain_missed_runs(missed: MissedRuns, *, deadline_s: int) -> Reason:
    """Return the reason of missed runs, with a deadline that is long enough."""
    child = missed.child
    number = f"{MANY} or more" if missed.count >= MANY else str(missed.count)
    others = f"; {number} runs were missed in this way"
    if child.ended_at is None or child.ending is Ending.ACTIVE:
        lasted = "is still active"
        enough = CODES[Code.RUN_MISSED].helps
    else:
        lasted = f"lasted until {format_time(child.ended_at)}"
        enough = f"set spec.startingDeadlineSeconds to {math.ceil(missed.overlap_s) + _MARGIN_S}"
    return Reason(
        Code.RUN_MISSED,
        f"the run of {format_time(missed.latest)} was missed: the run before it {lasted}, concurrencyPolicy is Forbid,"
        f" and a run must start within {deadline_s} s (spec.startingDeadlineSeconds)"
        f"{others if missed.count > 1 else ''}",
        f"{enough}; or choose a spec.schedule whose times are further apart than a run lasts; or set"
        " spec.concurrencyPolicy to Allow",
    )


def explain_late_run(tick: Instant, *, deadline_s: int) -> Reason:
    """Return the reason of a missed run, if no existing child prevented it."""
    return Reason(
        Code.RUN_MISSED,
        f"the run of {format_time(tick)} was missed: it could not start within {deadline_s} s"
        " (spec.startingDeadlineSeconds); possible causes: no manager was active, the API server rejected the run, or"
        " an earlier run, which no longer exists, was still active",
        "if the events of the AdvancedCronJob show a rejected run, correct its cause; or raise"
        " spec.startingDeadlineSeconds above the longest time without a manager",
    )
