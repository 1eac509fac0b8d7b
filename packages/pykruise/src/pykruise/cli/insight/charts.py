"""A played rollout as pictures: rows of blocks for a terminal, an SVG for everything else.

Played ──▶ terminal_chart(), svg_chart()

Pure. Time runs to the right; each moment shows how many pods are of the new revision, how many of older ones,
and how many are available.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pykruise.cli.insight.simulating import Played, Sample
from pykruise.kube.values.durations import short_duration

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
        *(row(subset[:9], partial(_in_subset, subset), max) for subset in _subsets(played)),
        f"{'':9s} └0s{short_duration(end_s):─>{width - 2}s}┘",
    ]


def _subsets(played: Played) -> list[str]:
    """Subsets that pods are in at any time."""
    return sorted({name for sample in played.samples for name in sample.subsets})


def _in_subset(name: str, sample: Sample) -> int:
    return sample.subsets.get(name, 0)


def _between(samples: Sequence[Sample], begin_s: float, end_s: float) -> list[Sample]:
    """Values that held at some moment of this time."""
    seen = [sample for sample in samples if begin_s < sample.at_s < end_s]
    before = [sample for sample in samples if sample.at_s <= begin_s]
    return [before[-1], *seen] if before else seen or [samples[0]]


_MARGIN: Final = 60
_SIZE: Final = (720, 320)
_COLOURS: Final = ("#2b8a3e", "#862e9c", "#5c940d", "#0b7285")
"""Colours of subsets, in turn."""
_OUTSIDE: Final = ("drain", "node", "join", "leave", "outage", "gone")
"""Events from outside that get a mark."""


def svg_chart(title: str, played: Played) -> str:
    """One rollout as a whole SVG document."""
    return svg_charts([(title, played)])


def svg_charts(plays: Sequence[tuple[str, Played]]) -> str:
    """Rollouts side by side under the same scales, as a whole SVG document: pods by revision as areas, the available
    ones and the wanted number as lines, marks for what happens from outside."""
    width, height = _SIZE
    end_s = max(1.0, *(played.duration_s for _, played in plays))
    top = max(1, *(sample.total for _, played in plays for sample in played.samples)) + 1
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * len(plays)} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width * len(plays)}" height="{height}" fill="white"/>',
    ]
    for number, (title, played) in enumerate(plays):
        lines.append(f'<g transform="translate({number * width},0)">')
        lines += _Picture(title, played, end_s=end_s, top=top).lines()
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


class _Picture:
    """One rollout, drawn into a rectangle of _SIZE. Time to `end_s`, numbers to `top`."""

    def __init__(self, title: str, played: Played, *, end_s: float, top: int) -> None:
        self._title = title
        self._played = played
        self._end_s = end_s
        self._top = top
        self._width, self._height = _SIZE[0] - 2 * _MARGIN, _SIZE[1] - 2 * _MARGIN

    def lines(self) -> list[str]:
        played = self._played
        subsets = [(_COLOURS[n % len(_COLOURS)], name) for n, name in enumerate(_subsets(played))]
        return [
            f'<text x="{_MARGIN}" y="20" font-size="14">{_escaped(self._title)}</text>',
            self._area(lambda sample: sample.total, "#c9d6e8", "older revisions"),
            self._area(lambda sample: sample.revisions.get(played.target, 0), "#3f7fbf", "new revision"),
            self._line(lambda sample: sample.available, "#d9480f", 'stroke-width="2"'),
            *(
                self._line(partial(_in_subset, name), colour, 'stroke-dasharray="4 2"')
                for colour, name in subsets
            ),
            *self._wanted(),
            *self._marks(),
            *self._axes(),
            *self._legend(subsets),
        ]

    def _point(self, at_s: float, number: float) -> tuple[float, float]:
        x = _MARGIN + min(at_s, self._end_s) / self._end_s * self._width
        return round(x, 1), round(_SIZE[1] - _MARGIN - number / self._top * self._height, 1)

    def _steps(self, value: Callable[[Sample], int]) -> list[str]:
        points: list[tuple[float, float]] = []
        last = 0
        for number, sample in enumerate(self._played.samples):
            if number:
                points.append(self._point(sample.at_s, last))
            last = value(sample)
            points.append(self._point(sample.at_s, last))
        return [f"{x},{y}" for x, y in [*points, self._point(self._end_s, last)]]

    def _area(self, value: Callable[[Sample], int], colour: str, name: str) -> str:
        (x0, y0), (x1, y1) = self._point(0, 0), self._point(self._end_s, 0)
        around = " ".join([f"{x0},{y0}", *self._steps(value), f"{x1},{y1}"])
        return f'<polygon points="{around}" fill="{colour}"><title>{name}</title></polygon>'

    def _line(self, value: Callable[[Sample], int], colour: str, style: str) -> str:
        return f'<polyline points="{" ".join(self._steps(value))}" fill="none" stroke="{colour}" {style}/>'

    def _wanted(self) -> list[str]:
        """How many pods are wanted, where that is known."""
        wanted = self._played.wanted
        if not wanted:
            return []
        (x0, y), (x1, _) = self._point(0, wanted), self._point(self._end_s, wanted)
        return [
            f'<line x1="{x0}" y1="{y}" x2="{x1}" y2="{y}" stroke="#495057" stroke-dasharray="6 4"/>',
            f'<text x="{x1}" y="{y - 4}" text-anchor="end" fill="#495057">wanted {wanted}</text>',
        ]

    def _marks(self) -> list[str]:
        """A line with a title where something happens from outside."""
        marks = []
        for at_s, what in self._played.events:
            if any(word in what.lower() for word in _OUTSIDE):
                (x, y0), (_, y1) = self._point(at_s, 0), self._point(at_s, self._top)
                marks.append(
                    f'<line x1="{x}" y1="{y0}" x2="{x}" y2="{y1}" stroke="#e03131" stroke-dasharray="2 3">'
                    f"<title>{_escaped(what)}</title></line>"
                    f'<text x="{x + 3}" y="{y1 + 10}" fill="#e03131" font-size="10">{_escaped(what)}</text>'
                )
        return marks

    def _axes(self) -> list[str]:
        axes = []
        for number in range(0, self._top + 1, max(self._top // 5, 1)):
            y = self._point(0, number)[1]
            axes.append(f'<text x="{_MARGIN - 8}" y="{y}" text-anchor="end">{number}</text>')
        for part in range(5):
            x, label = self._point(self._end_s * part / 4, 0)[0], _tick(self._end_s * part / 4)
            axes.append(f'<text x="{x}" y="{_SIZE[1] - _MARGIN + 16}" text-anchor="middle">{label}</text>')
        middle_x, middle_y = _MARGIN + self._width / 2, _MARGIN + self._height / 2
        return [
            *axes,
            f'<text x="{middle_x}" y="{_SIZE[1] - _MARGIN + 32}" text-anchor="middle">time since the change</text>',
            f'<text x="16" y="{middle_y}" text-anchor="middle" transform="rotate(-90 16 {middle_y})">pods</text>',
        ]

    def _legend(self, subsets: Sequence[tuple[str, str]]) -> list[str]:
        legend = [("#3f7fbf", "new revision"), ("#c9d6e8", "older revisions"), ("#d9480f", "available")]
        legend += [(colour, f"subset {_escaped(name)}") for colour, name in subsets]
        result = []
        for number, (colour, name) in enumerate(legend):
            x = _MARGIN + number * min(140, self._width // len(legend))
            result.append(f'<rect x="{x}" y="{_SIZE[1] - 16}" width="10" height="10" fill="{colour}"/>')
            result.append(f'<text x="{x + 15}" y="{_SIZE[1] - 7}">{name}</text>')
        return result


def _tick(seconds: float) -> str:
    """A time of the axis: tenths of a second where whole ones would be somewhere else."""
    if seconds >= 60 or seconds == int(seconds):
        return short_duration(seconds)
    return f"{seconds:.1f}s"


def _escaped(text: str) -> str:
    """As text of XML."""
    # An HTTP client comes with it, which a chart on a terminal can do without.
    from xml.sax.saxutils import escape

    return escape(text)
