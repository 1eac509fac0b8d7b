"""The chart of a run on a real control plane: pods a second, beside a bare script and the API server alone.

Report's phases ──▶ svg() ──▶ one SVG document, for the docs
"""

from collections.abc import Sequence
from html import escape
from typing import Protocol

__all__ = ["BarPhase", "svg"]

ROW, BAR, LEFT, WIDTH, TOP = 60, 14, 240, 460, 48
REACHED, SCRIPT, LIMIT = "#2f6fb0", "#e0a040", "#c9d6e3"


class BarPhase(Protocol):
    """What a row shows."""

    @property
    def name(self) -> str: ...

    @property
    def pods_per_s(self) -> float: ...

    @property
    def script_pods_per_s(self) -> float: ...

    @property
    def bare_pods_per_s(self) -> float: ...


def svg(phases: Sequence[BarPhase], *, title: str) -> str:
    """Bars of a phase: what the manager reached, what a bare script with the same writes did (where that was
    measured), and what the API server alone takes of them."""
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


def _bar(top: float, value: float, longest: float, colour: str) -> list[str]:
    width = WIDTH * value / longest
    return [
        f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<text x="{LEFT + width + 6:.1f}" y="{top + BAR - 3}" font-size="11">{value:.0f}</text>',
    ]
