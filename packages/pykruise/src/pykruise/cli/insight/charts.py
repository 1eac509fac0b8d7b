"""Charts of a simulated rollout: rows of blocks for a terminal, and an SVG document for browsers and files.

Played ──▶ draw_terminal_chart(), draw_svg_chart()

Pure. Time runs to the right. Each moment shows the number of new pods, old pods and available pods.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pykruise.cli.insight.simulating import Played, Sample
from pykruise.kube.values.durations import format_short_duration

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_WIDTH: Final = 60


def draw_terminal_chart(played: Played, *, width: int = _WIDTH) -> list[str]:
    """Return three rows of blocks with their scales, one more row for each subset that has pods, and a time axis."""
    if not played.samples:
        return []
    end_s = max(played.duration_s, played.samples[-1].at_s, 1.0)
    top = max(1, *(max(sample.total, *sample.ended.values(), 0) for sample in played.samples))

    def row(title: str, value: Callable[[Sample], int], worst: Callable[[Sequence[int]], int]) -> str:
        cells: list[str] = []
        extremes: list[int] = []
        for column in range(width):
            seen = _select_samples_between(
                played.samples, end_s * column / width, end_s * (column + 1) / width
            )
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
                # Each column shows the minimum, so that a short decrease stays visible.
                row("available", lambda sample: sample.available, min),
            ]
        ),
        *(row(subset[:9], partial(_in_subset, subset), max) for subset in _find_subsets(played)),
        f"{'':9s} └0s{format_short_duration(end_s):─>{width - 2}s}┘",
    ]


def _find_subsets(played: Played) -> list[str]:
    """Return the subsets that have pods at some time."""
    return sorted({name for sample in played.samples for name in sample.subsets})


def _in_subset(name: str, sample: Sample) -> int:
    return sample.subsets.get(name, 0)


def _select_samples_between(samples: Sequence[Sample], begin_s: float, end_s: float) -> list[Sample]:
    """Return the samples that were valid at some moment between `begin_s` and `end_s`."""
    seen = [sample for sample in samples if begin_s < sample.at_s < end_s]
    before = [sample for sample in samples if sample.at_s <= begin_s]
    return [before[-1], *seen] if before else seen or [samples[0]]


_MARGIN: Final = 60
_SIZE: Final = (720, 320)
_COLOURS: Final = ("#2b8a3e", "#862e9c", "#5c940d", "#0b7285")
"""Colours of the subsets; they repeat."""
_OUTSIDE: Final = ("drain", "node", "join", "leave", "outage", "gone")
"""Events outside the rollout that the chart marks."""


def draw_svg_chart(title: str, played: Played) -> str:
    """Return one rollout as a complete SVG document."""
    return draw_svg_charts([(title, played)])


def draw_svg_charts(plays: Sequence[tuple[str, Played]]) -> str:
    """Return rollouts side by side on the same scales, as a complete SVG document: areas for pods by revision, lines
    for available and wanted pods, marks for outside events.
    """
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
    """One rollout, drawn into a rectangle of `_SIZE`. The time axis ends at `end_s`, the number axis at `top`."""

    def __init__(self, title: str, played: Played, *, end_s: float, top: int) -> None:
        self._title = title
        self._played = played
        self._end_s = end_s
        self._top = top
        self._width, self._height = _SIZE[0] - 2 * _MARGIN, _SIZE[1] - 2 * _MARGIN

    def lines(self) -> list[str]:
        played = self._played
        subsets = [(_COLOURS[n % len(_COLOURS)], name) for n, name in enumerate(_find_subsets(played))]
        return [
            f'<text x="{_MARGIN}" y="20" font-size="14">{_escape_xml(self._title)}</text>',
            self._draw_area(lambda sample: sample.total, "#c9d6e8", "older revisions"),
            self._draw_area(lambda sample: sample.revisions.get(played.target, 0), "#3f7fbf", "new revision"),
            self._draw_line(lambda sample: sample.available, "#d9480f", 'stroke-width="2"'),
            *(
                self._draw_line(partial(_in_subset, name), colour, 'stroke-dasharray="4 2"')
                for colour, name in subsets
            ),
            *self._draw_wanted(),
            *self._draw_marks(),
            *self._draw_axes(),
            *self._draw_legend(subsets),
        ]

    def _to_point(self, at_s: float, number: float) -> tuple[float, float]:
        x = _MARGIN + min(at_s, self._end_s) / self._end_s * self._width
        return round(x, 1), round(_SIZE[1] - _MARGIN - number / self._top * self._height, 1)

    def _to_steps(self, value: Callable[[Sample], int]) -> list[str]:
        points: list[tuple[float, float]] = []
        last = 0
        for number, sample in enumerate(self._played.samples):
            if number:
                points.append(self._to_point(sample.at_s, last))
            last = value(sample)
            points.append(self._to_point(sample.at_s, last))
        return [f"{x},{y}" for x, y in [*points, self._to_point(self._end_s, last)]]

    def _draw_area(self, value: Callable[[Sample], int], colour: str, name: str) -> str:
        (x0, y0), (x1, y1) = self._to_point(0, 0), self._to_point(self._end_s, 0)
        around = " ".join([f"{x0},{y0}", *self._to_steps(value), f"{x1},{y1}"])
        return f'<polygon points="{around}" fill="{colour}"><title>{name}</title></polygon>'

    def _draw_line(self, value: Callable[[Sample], int], colour: str, style: str) -> str:
        return f'<polyline points="{" ".join(self._to_steps(value))}" fill="none" stroke="{colour}" {style}/>'

    def _draw_wanted(self) -> list[str]:
        """Draw the number of wanted pods, where it is known."""
        wanted = self._played.wanted
        if not wanted:
            return []
        (x0, y), (x1, _) = self._to_point(0, wanted), self._to_point(self._end_s, wanted)
        return [
            f'<line x1="{x0}" y1="{y}" x2="{x1}" y2="{y}" stroke="#495057" stroke-dasharray="6 4"/>',
            f'<text x="{x1}" y="{y - 4}" text-anchor="end" fill="#495057">wanted {wanted}</text>',
        ]

    def _draw_marks(self) -> list[str]:
        """Draw a line with a title for each outside event."""
        marks = []
        for at_s, what in self._played.events:
            if any(word in what.lower() for word in _OUTSIDE):
                (x, y0), (_, y1) = self._to_point(at_s, 0), self._to_point(at_s, self._top)
                marks.append(
                    f'<line x1="{x}" y1="{y0}" x2="{x}" y2="{y1}" stroke="#e03131" stroke-dasharray="2 3">'
                    f"<title>{_escape_xml(what)}</title></line>"
                    f'<text x="{x + 3}" y="{y1 + 10}" fill="#e03131" font-size="10">{_escape_xml(what)}</text>'
                )
        return marks

    def _draw_axes(self) -> list[str]:
        axes = []
        for number in range(0, self._top + 1, max(self._top // 5, 1)):
            y = self._to_point(0, number)[1]
            axes.append(f'<text x="{_MARGIN - 8}" y="{y}" text-anchor="end">{number}</text>')
        for part in range(5):
            x, label = self._to_point(self._end_s * part / 4, 0)[0], _format_tick(self._end_s * part / 4)
            axes.append(f'<text x="{x}" y="{_SIZE[1] - _MARGIN + 16}" text-anchor="middle">{label}</text>')
        middle_x, middle_y = _MARGIN + self._width / 2, _MARGIN + self._height / 2
        return [
            *axes,
            f'<text x="{middle_x}" y="{_SIZE[1] - _MARGIN + 32}" text-anchor="middle">time since the change</text>',
            f'<text x="16" y="{middle_y}" text-anchor="middle" transform="rotate(-90 16 {middle_y})">pods</text>',
        ]

    def _draw_legend(self, subsets: Sequence[tuple[str, str]]) -> list[str]:
        legend = [("#3f7fbf", "new revision"), ("#c9d6e8", "older revisions"), ("#d9480f", "available")]
        legend += [(colour, f"subset {_escape_xml(name)}") for colour, name in subsets]
        result = []
        for number, (colour, name) in enumerate(legend):
            x = _MARGIN + number * min(140, self._width // len(legend))
            result.append(f'<rect x="{x}" y="{_SIZE[1] - 16}" width="10" height="10" fill="{colour}"/>')
            result.append(f'<text x="{x + 15}" y="{_SIZE[1] - 7}">{name}</text>')
        return result


def _format_tick(seconds: float) -> str:
    """Format a time of the axis, with tenths of a second where whole seconds would be wrong."""
    if seconds >= 60 or seconds == int(seconds):
        return format_short_duration(seconds)
    return f"{seconds:.1f}s"


def _escape_xml(text: str) -> str:
    """Escape text for XML."""
    # This import loads an HTTP client, which a chart on a terminal does not need.
    from xml.sax.saxutils import escape

    return escape(text)
