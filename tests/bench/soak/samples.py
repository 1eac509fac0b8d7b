"""Measurements of a long run, and the slopes fitted to them.

Sample, Sample, … ──▶ slopes_of() ──▶ growth per day of each figure ──▶ report_of() (Markdown), chart_of() (SVG)

The first half of a run fills caches and learns; the slope is fitted to the second half.
"""

from collections.abc import Sequence
from html import escape
from statistics import linear_regression
from typing import Final

import msgspec

__all__ = ["FIGURES", "Sample", "Slope", "chart_of", "report_of", "slopes_of"]

DAY_S: Final = 86400.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """State of a process at one time."""

    at_s: float
    """Seconds since the start, virtual or real."""
    rss_mb: float
    file_descriptors: int
    tasks: int
    """Tasks of the event loop, or threads of a process that is seen from outside."""
    cached: int
    """Objects in all caches of the manager."""
    queued: int
    """Keys that wait in the manager's queues."""
    python_objects: int
    """Objects that the garbage collector tracks, after a collection; 0: not measured."""
    stored: int
    """Objects in the API server."""


FIGURES: Final = {
    "rss_mb": "memory (MB)",
    "file_descriptors": "file descriptors",
    "tasks": "tasks",
    "cached": "cached objects",
    "queued": "queued keys",
    "python_objects": "Python objects",
    "stored": "stored objects",
}
"""Fields of Sample, and their names in reports."""


class Slope(msgspec.Struct, frozen=True, kw_only=True):
    """Growth of one figure in the second half of a run."""

    figure: str
    first: float
    """Mean of the first quarter of that half."""
    last: float
    """Mean of the last quarter of that half."""
    per_day: float
    """Fitted growth per day (least squares)."""


def slopes_of(samples: Sequence[Sample]) -> list[Slope]:
    """Fit a line to each figure of the second half. Raises ValueError for fewer than eight samples."""
    if len(samples) < 8:
        raise ValueError(f"eight samples are needed to fit a slope, and there are {len(samples)}")
    half = samples[len(samples) // 2 :]
    quarter = max(1, len(half) // 4)
    times = [sample.at_s for sample in half]
    slopes = []
    for figure in FIGURES:
        values = [float(getattr(sample, figure)) for sample in half]
        slopes.append(
            Slope(
                figure=figure,
                first=sum(values[:quarter]) / quarter,
                last=sum(values[-quarter:]) / quarter,
                per_day=linear_regression(times, values).slope * DAY_S,
            )
        )
    return slopes


def report_of(samples: Sequence[Sample]) -> str:
    """Markdown table of the slopes."""
    hours = samples[-1].at_s / 3600
    lines = [
        f"{hours:.1f} hours, {len(samples)} samples; slopes are fitted to the second half.",
        "",
        "| figure | at half time | at the end | growth per day |",
        "|---|---|---|---|",
    ]
    for slope in slopes_of(samples):
        lines.append(
            f"| {FIGURES[slope.figure]} | {slope.first:,.1f} | {slope.last:,.1f} | {slope.per_day:+,.2f} |"
        )
    return "\n".join(lines) + "\n"


WIDTH, HEIGHT, LEFT, TOP, GAP = 640, 70, 150, 40, 24
LINE = "#2f6fb0"


def chart_of(samples: Sequence[Sample], *, title: str) -> str:
    """SVG with one line per figure over time, each from 0 to its maximum."""
    rows = len(FIGURES)
    height = TOP + rows * (HEIGHT + GAP)
    end_s = samples[-1].at_s or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>',
    ]
    for row, (figure, name) in enumerate(FIGURES.items()):
        top = TOP + row * (HEIGHT + GAP)
        values = [float(getattr(sample, figure)) for sample in samples]
        highest = max(values) or 1.0
        points = " ".join(
            f"{LEFT + WIDTH * sample.at_s / end_s:.1f},{top + HEIGHT * (1 - value / highest):.1f}"
            for sample, value in zip(samples, values, strict=True)
        )
        parts += [
            f'<text x="8" y="{top + HEIGHT / 2:.0f}">{escape(name)}</text>',
            f'<line x1="{LEFT}" y1="{top + HEIGHT}" x2="{LEFT + WIDTH}" y2="{top + HEIGHT}" stroke="#c9d6e3"/>',
            f'<polyline fill="none" stroke="{LINE}" stroke-width="1.5" points="{points}"/>',
            f'<text x="{LEFT + WIDTH + 8}" y="{top + 12}" font-size="11">{highest:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])
