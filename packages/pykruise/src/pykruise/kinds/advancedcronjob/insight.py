"""AdvancedCronJob for the commands explain, plan and simulate.

status ──▶ headline_of()                                  ──▶ INSIGHT (plans/insight.py)
snapshot ──▶ list_ticks(), zone_of()      child ──▶ tick_of()
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.advancedcronjob.children import ChildView, Ending, end_document, tick_of
from pykruise.kinds.advancedcronjob.plan import (
    correction_of,
    find_beginning,
    find_deleted_failure,
    schedule_of,
)
from pykruise.kinds.advancedcronjob.snapshot import AdvancedCronJobSnapshot, is_readable
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.cron import Every, Fields, Schedule, ScheduleError, find_ticks
from pykruise.plans.insight import ClockInsight, InsightChild, KeptChildren
from pykruise.pods.reasons import Code


def headline_of(status: Mapping[str, Any]) -> str:
    """Summarize the active children and the last scheduled time."""
    active = status.get("active") or []
    kind, last = status.get("type") or "job", status.get("lastScheduleTime")
    names = f": {', '.join(item.get('name', '') for item in active[:3])}" if active else ""
    return f"{format_count(len(active), f'active {kind}')}{names}; {f'last run {last}' if last else 'has not run yet'}"


def list_ticks(snapshot: AdvancedCronJobSnapshot, until: Instant) -> Iterator[Instant]:
    """Yield the times of the schedule from now on; no times if the schedule is unreadable."""
    schedule = _read_schedule(snapshot)
    if schedule is None:
        return
    moment: Instant | None = snapshot.now
    if isinstance(schedule, Every):  # the next time of an interval is computed from its last tick
        begin = find_beginning(snapshot)
        moment = find_ticks(schedule, begin, snapshot.now, most=1).latest or begin
    while moment is not None and (moment := schedule.next(moment)) is not None and moment <= until:
        yield moment


def zone_of(snapshot: AdvancedCronJobSnapshot) -> str:
    """Return the name of the schedule's time zone; empty means UTC."""
    schedule = _read_schedule(snapshot)
    return getattr(schedule.zone, "key", "") if isinstance(schedule, Fields) else ""


def _read_schedule(snapshot: AdvancedCronJobSnapshot) -> Schedule | None:
    try:
        return schedule_of(snapshot) if is_readable(snapshot) else None
    except ScheduleError:
        return None


def list_children(snapshot: AdvancedCronJobSnapshot) -> Iterator[InsightChild]:
    """Yield the active children, and the last ended child if it failed. While the AdvancedCronJob is being deleted,
    yield all children, because each of them may delay this.
    """
    made = snapshot.cron.made
    if made is None:
        return
    ordered = sorted(snapshot.children, key=lambda child: (child.started_at, child.name), reverse=True)
    correction = correction_of(snapshot.cron)
    for child in ordered:
        if child.ending is Ending.ACTIVE or snapshot.cron.is_deleting:
            yield InsightChild(
                resource=made[1],
                key=Key(child.namespace, child.name),
                reason=_find_reason_code(child),
                correction=correction,
            )
    if snapshot.cron.is_deleting:
        return
    last = next((child for child in ordered if child.ending is not Ending.ACTIVE), None)
    if last is not None and last.has_failed:
        key = Key(last.namespace, last.name)
        yield InsightChild(resource=made[1], key=key, has_failed=True, correction=correction)


def count_kept_children(snapshot: AdvancedCronJobSnapshot) -> KeptChildren | None:
    """Count the children, with the history limits; None if the spec is unreadable."""
    made = snapshot.cron.made
    if made is None or not is_readable(snapshot):
        return None
    spec = snapshot.cron.spec
    endings = [child.ending for child in snapshot.children]
    return KeptChildren(
        resource=made[1],
        active=endings.count(Ending.ACTIVE),
        succeeded=endings.count(Ending.SUCCESSFUL),
        failed=endings.count(Ending.FAILED),
        succeeded_field="spec.successfulJobsHistoryLimit",
        succeeded_limit=spec.successful_jobs_history_limit,
        failed_field="spec.failedJobsHistoryLimit",
        failed_limit=spec.failed_jobs_history_limit,
    )


def _find_reason_code(child: ChildView) -> str:
    if child.is_suspended:
        return Code.PAUSED
    return Code.LIMIT_IS_ZERO if child.starts_no_pod else ""


INSIGHT: Final = ClockInsight(
    names=frozenset({"acj"}),
    containers=(),
    headline=headline_of,
    children=list_children,
    one_child_at_a_time="set spec.concurrencyPolicy to Forbid",
    kept_children=count_kept_children,
    deleted_failure=find_deleted_failure,
    has_observed_generation=False,
    ticks=list_ticks,
    tick_of=tick_of,
    is_active=lambda child: child.ending is Ending.ACTIVE,
    ended=end_document,
    zone=zone_of,
)
