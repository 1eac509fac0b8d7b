"""A played rollout as pictures: rows of blocks for a terminal, an SVG for everything else.

Played ──▶ terminal_chart(), svg_chart()

Pure. Time runs to the right; each moment shows how many pods are of the new revision, how many of older ones,
and how many are available.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pykruise.cli.insight.playing import Played, Sample
from pykruise.kube.durations import short_duration

__all__ = ["svg_chart", "terminal_chart"]

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_WIDTH: Final = 60


def terminal_chart(played: Played, *, width: int = _WIDTH) -> list[str]:
    """Three rows of blocks with their scales, one more for each subset that pods are in, and a time axis."""
    if not played.samples:
        return []
    end_s = max(played.duration_s, played.samples[-1].at_s, 1.0)
    top = max(1, *(max(sample.total, *sample.ended.values(), 0) for sample in played.samples))

    def row(title: str, value: Callable[[Sample], int], worst: Callable[[Sequence[int]], int]) -> str:
        cells: list[str] = []
        extremes: list[int] = []
        for column in range(width):
            seen = _between(played.samples, end_s * column / width, end_s * (column + 1) / width)
            number = worst([value(sample) for sample in seen])
            extremes.append(number)
            cells.append(_BLOCKS[-(-number * (len(_BLOCKS) - 1) // top)])
        return f"{title:>9s} │{''.join(cells)}│ {min(extremes)}…{max(extremes)}"

    return [
        *(
            [
                row("active", lambda sample: sample.total, max),
                row("succeeded", lambda sample: sample.ended.get("Succeeded", 0), max),
                row("failed", lambda sample: sample.ended.get("Failed", 0), max),
            ]
            if played.is_job
            else [
                row("new", lambda sample: sample.revisions.get(played.target, 0), max),
                row("older", lambda sample: sample.total - sample.revisions.get(played.target, 0), max),
                row("available", lambda sample: sample.available, min),  # a dip must not hide in its column
            ]
        ),
        *(row(one[:9], partial(_in_subset, one), max) for one in _subsets(played)),
        f"{'':9s} └0s{short_duration(end_s):─>{width - 2}s}┘",
    ]


def _subsets(played: Played) -> list[str]:
    """Subsets that pods are in at any time."""
    return sorted({name for sample in played.samples for name in sample.subsets})


def _in_subset(name: str, sample: Sample) -> int:
    return sample.subsets.get(name, 0)


def _between(samples: Sequence[Sample], begin_s: float, end_s: float) -> list[Sample]:
    """What held at some moment of this time."""
    seen = [sample for sample in samples if begin_s < sample.at_s < end_s]
    before = [sample for sample in samples if sample.at_s <= begin_s]
    return [before[-1], *seen] if before else seen or [samples[0]]


_MARGIN: Final = 50
_SIZE: Final = (720, 300)
_COLOURS: Final = ("#2b8a3e", "#862e9c", "#5c940d", "#0b7285")
"""Of subsets, in turn."""


def svg_chart(title: str, played: Played) -> str:
    """A stacked area of pods by revision with the available ones as a line. A whole SVG document."""
    width, height = _SIZE
    end_s = max(played.duration_s, 1.0)
    top = max((sample.total for sample in played.samples), default=1) + 1
    inner_w, inner_h = width - 2 * _MARGIN, height - 2 * _MARGIN

    def point(at_s: float, number: float) -> str:
        x = _MARGIN + min(at_s, end_s) / end_s * inner_w
        return f"{x:.1f},{height - _MARGIN - number / top * inner_h:.1f}"

    def steps(value: Callable[[Sample], int]) -> list[str]:
        points: list[str] = []
        last = 0
        for number, sample in enumerate(played.samples):
            if number:
                points.append(point(sample.at_s, last))
            last = value(sample)
            points.append(point(sample.at_s, last))
        return [*points, point(end_s, last)]

    def area(value: Callable[[Sample], int], colour: str, name: str) -> str:
        around = " ".join([point(0, 0), *steps(value), point(end_s, 0)])
        return f'<polygon points="{around}" fill="{colour}"><title>{name}</title></polygon>'

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_MARGIN}" y="20" font-size="14">{_escaped(title)}</text>',
        area(lambda sample: sample.total, "#c9d6e8", "older revisions"),
        area(lambda sample: sample.revisions.get(played.target, 0), "#3f7fbf", "new revision"),
        f'<polyline points="{" ".join(steps(lambda sample: sample.available))}" fill="none" stroke="#d9480f" '
        'stroke-width="2"/>',
    ]
    subsets = [(_COLOURS[number % len(_COLOURS)], name) for number, name in enumerate(_subsets(played))]
    for colour, name in subsets:
        points = " ".join(steps(partial(_in_subset, name)))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-dasharray="4 2"/>')
    for number in range(0, top + 1, max(top // 5, 1)):
        y = point(0, number).split(",")[1]
        lines.append(f'<text x="{_MARGIN - 8}" y="{y}" text-anchor="end">{number}</text>')
    for part in range(5):
        x = point(end_s * part / 4, 0).split(",")[0]
        label = short_duration(end_s * part / 4)
        lines.append(f'<text x="{x}" y="{height - _MARGIN + 18}" text-anchor="middle">{label}</text>')
    legend = [("#3f7fbf", "new revision"), ("#c9d6e8", "older revisions"), ("#d9480f", "available")]
    legend += [(colour, f"subset {_escaped(name)}") for colour, name in subsets]
    for number, (colour, name) in enumerate(legend):
        x_at = _MARGIN + number * min(140, inner_w // len(legend))
        lines.append(f'<rect x="{x_at}" y="{height - 18}" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x_at + 15}" y="{height - 9}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _escaped(text: str) -> str:
    """As text of XML."""
    # An HTTP client comes with it, which a chart on a terminal can do without.
    from xml.sax.saxutils import escape

    return escape(text)
