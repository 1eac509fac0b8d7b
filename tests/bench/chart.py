"""Charts of runs on a real control plane.

phases of one manager ──▶ svg() ──▶ pods per second, compared with a bare script and a bare client
phases of two managers ──▶ svg_of_comparison() ──▶ pods per second and CPU of both
"""

from collections.abc import Sequence
from html import escape
from typing import Protocol

__all__ = ["BarPhase", "ComparedPhase", "svg", "svg_of_comparison"]

ROW, BAR, LEFT, WIDTH, TOP = 60, 14, 240, 460, 48
HALF, GAP = 300, 60
"""Width of each of two charts side by side, and the space between them."""
REACHED, SCRIPT, LIMIT = "#2f6fb0", "#e0a040", "#c9d6e3"


class BarPhase(Protocol):
    """Values of a row."""

    @property
    def name(self) -> str: ...

    @property
    def pods_per_s(self) -> float: ...

    @property
    def script_pods_per_s(self) -> float: ...

    @property
    def bare_pods_per_s(self) -> float: ...


def svg(phases: Sequence[BarPhase], *, title: str) -> str:
    """Bars of a phase: the figures of the manager, of a bare script with the same writes (if it was measured),
    and of a bare client."""
    rates = (
        rate
        for phase in phases
        for rate in (phase.pods_per_s, phase.script_pods_per_s, phase.bare_pods_per_s)
    )
    longest = max(rates, default=0.0) or 1.0
    height = TOP + ROW * len(phases) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>',
        f'<text x="8" y="38" fill="{REACHED}">pods a second</text>',
        f'<text x="110" y="38" fill="{SCRIPT}">a bare script with the same writes</text>',
        '<text x="340" y="38" fill="#7a8a99">the API server alone with them</text>',
    ]
    for number, phase in enumerate(phases):
        top = TOP + ROW * number
        lines.append(f'<text x="8" y="{top + 18}">{escape(phase.name)}</text>')
        lines += _bar(top, phase.pods_per_s, longest, REACHED)
        lines += _bar(top + BAR + 2, phase.bare_pods_per_s, longest, LIMIT)
        if phase.script_pods_per_s:
            lines += _bar(top + 2 * (BAR + 2), phase.script_pods_per_s, longest, SCRIPT)
    return "\n".join([*lines, "</svg>\n"])


class ComparedPhase(Protocol):
    """A row that compares two managers; each pair is (pykruise, OpenKruise)."""

    @property
    def name(self) -> str: ...

    @property
    def pods_per_s(self) -> tuple[float, float]: ...

    @property
    def cpu_ms(self) -> tuple[float, float]: ...


def svg_of_comparison(phases: Sequence[ComparedPhase], *, release: str) -> str:
    """Two charts side by side, with two bars for each phase: pods per second, and the manager's CPU per pod."""
    height = TOP + ROW * len(phases) + 10
    width = LEFT + 2 * (HALF + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<text x="8" y="20" fill="{REACHED}" font-weight="bold">pykruise</text>',
        f'<text x="90" y="20" fill="{SCRIPT}" font-weight="bold">OpenKruise {escape(release)}</text>',
        f'<text x="{LEFT}" y="38">pods per second (more is better)</text>',
        f'<text x="{LEFT + HALF + GAP}" y="38">CPU of the manager, ms per pod (less is better)</text>',
    ]
    fastest = max((rate for phase in phases for rate in phase.pods_per_s), default=0.0) or 1.0
    costliest = max((cpu for phase in phases for cpu in phase.cpu_ms), default=0.0) or 1.0
    for number, phase in enumerate(phases):
        top = TOP + ROW * number
        lines.append(f'<text x="8" y="{top + 24}">{escape(phase.name)}</text>')
        for row, colour in enumerate((REACHED, SCRIPT)):
            at = top + row * (BAR + 2)
            speed, cpu = phase.pods_per_s[row], phase.cpu_ms[row]
            lines += _bar(at, speed, fastest, colour, width=HALF)
            lines += _bar(at, cpu, costliest, colour, left=LEFT + HALF + GAP, width=HALF, digits=1)
    return "\n".join([*lines, "</svg>\n"])


def _bar(
    top: float,
    value: float,
    longest: float,
    colour: str,
    *,
    left: float = LEFT,
    width: float = WIDTH,
    digits: int = 0,
) -> list[str]:
    length = width * value / longest
    return [
        f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<text x="{left + length + 6:.1f}" y="{top + BAR - 3}" font-size="11">{value:.{digits}f}</text>',
    ]
