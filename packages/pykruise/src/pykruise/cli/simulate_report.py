"""Output of `pykruise simulate`: timeline, chart, extremes, and two simulations side by side.

Played ──▶ report(), format_comparison() ──▶ lines;  outcome_of() ──▶ one word for programs

Pure.
"""

from collections.abc import Sequence

from pykruise.cli.insight.charts import draw_terminal_chart
from pykruise.cli.insight.explanation_text import format_waits
from pykruise.cli.insight.simulating import (
    PlayAction,
    Played,
)
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.durations import format_short_duration


def report(name: str, played: Played, *, lines: int = 40) -> list[str]:
    """Timeline, chart and extremes of a rollout."""
    timeline = _format_timeline(played)
    shown = timeline[:lines]
    if len(timeline) > lines:
        shown.append(f"           … {len(timeline) - lines} more")
    return [
        f"{name}: {_format_outcome(played)}",
        "",
        *shown,
        "",
        *draw_terminal_chart(played),
        "",
        *_format_facts(played),
        *_wait_lines(played),
    ]


def format_comparison(names: Sequence[str], played: Sequence[Played]) -> list[str]:
    """Two rollouts under the same conditions: charts one below the other, extremes side by side."""
    lines: list[str] = []
    for name, part in zip(names, played, strict=True):
        lines += [f"{name}: {_format_outcome(part)}", *draw_terminal_chart(part), ""]
    rows: list[tuple[str, list[str]]] = [
        ("duration", [format_short_duration(item.duration_s) for item in played]),
        ("lowest available", [str(item.lowest_available) for item in played]),
        ("most pods", [str(max((s.total for s in item.samples), default=0)) for item in played]),
        ("container restarts", [str(item.restarts) for item in played]),
        ("pods created", [str(_count_of(item, "create")) for item in played]),
        ("pods deleted", [str(_count_of(item, "delete")) for item in played]),
    ]
    if any(item.kept for item in played):
        rows.append(("rejected by budgets", [str(sum(item.kept.values())) for item in played]))
    width = max(len(name) for name in names) + 2
    lines.append(f"{'':20s}" + "".join(f"{name:>{width}s}" for name in names))
    lines += [f"{title:20s}" + "".join(f"{value:>{width}s}" for value in values) for title, values in rows]
    return lines


def outcome_of(played: Played) -> str:
    """Outcome in brief: complete, paused, stuck or not over; for a job complete or failed."""
    if not played.is_over or (played.end is None and not played.is_job):
        return "not over"
    if played.is_job:
        return "failed" if played.end is not None and played.end.phase.needs_a_person else "complete"
    assert played.end is not None
    return {"done": "complete", "paused": "paused"}.get(played.end.verdict, "stuck")


def _format_outcome(played: Played) -> str:
    """Outcome in one line. A rollout is complete although a partition keeps pods at the old revision."""
    if played.is_job and played.is_over:
        state = played.end.headline if played.end is not None else "finished and deleted"
        return f"{state} after {format_short_duration(played.duration_s)}"
    if not played.is_over or played.end is None:
        return f"not finished after {format_short_duration(played.duration_s)}"
    if played.end.verdict == "done":
        return f"complete after {format_short_duration(played.duration_s)}"
    word = "paused" if played.end.verdict == "paused" else "stuck"
    return f"{word} after {format_short_duration(played.duration_s)}: {played.end.headline}"


def _wait_lines(played: Played) -> list[str]:
    """Final waits and their remedies, in the words of `explain`."""
    return format_waits(played.end, now=0) if played.end is not None else []


def _format_facts(played: Played) -> list[str]:
    if played.is_job:
        return [
            f"duration            {format_short_duration(played.duration_s)}",
            f"at the same time    {max((sample.total for sample in played.samples), default=0)} at most",
            f"pods                {_count_of(played, 'create')} created, {_count_of(played, 'delete')} deleted, "
            f"{_count_ended(played, 'Succeeded')} succeeded, {_count_ended(played, 'Failed')} failed",
        ]
    return [
        f"duration            {format_short_duration(played.duration_s)}",
        f"lowest available    {played.lowest_available}",
        f"container restarts  {played.restarts}",
        f"pods                {_count_of(played, 'create')} created, {_count_of(played, 'delete')} deleted, "
        f"{_count_of(played, 'update in place')} updated in place"
        + (f", {upgraded} got new sidecars" if (upgraded := _count_of(played, "upgrade sidecars")) else ""),
        *_format_subsets(played),
        *_format_budgets(played),
    ]


def _format_budgets(played: Played) -> list[str]:
    """Number of requests that budgets denied."""
    refused = ", ".join(
        f"{name} rejected {format_count(count, 'request')}" for name, count in sorted(played.kept.items())
    )
    return [f"budgets             {refused}"] if refused else []


def _format_subsets(played: Played) -> list[str]:
    """Pods per subset at the end."""
    names = sorted({name for sample in played.samples for name in sample.subsets})
    last = played.samples[-1].subsets if played.samples else {}
    counts = ", ".join(f"{name} {last.get(name, 0)}" for name in names)
    return [f"subsets             {counts}"] if counts else []


def _count_ended(played: Played, phase: str) -> int:
    """Number of pods that ended in this phase; a job may have deleted some of them."""
    return max((sample.ended.get(phase, 0) for sample in played.samples), default=0)


def _count_of(played: Played, do: str) -> int:
    return sum(action.do == do for action in played.actions)


def _format_timeline(played: Played) -> list[str]:
    """Events sorted by time; actions of the same moment share a line."""
    lines: list[tuple[float, str]] = list(played.events)
    groups: dict[tuple[int, int, str], list[PlayAction]] = {}
    for action in played.actions:
        groups.setdefault((round(action.at_s), action.batch, action.do), []).append(action)
    for (_, _, do), actions in groups.items():
        lines.append((actions[0].at_s, f"{do}: {', '.join(map(_format_action, actions))}"))
    return [
        f"  {format_short_duration(at_s):>8s} {what}"
        for at_s, what in sorted(lines, key=lambda line: line[0])
    ]


def _format_action(action: PlayAction) -> str:
    where = action.subset or action.node
    return f"{action.name} ({where})" if where else action.name
