"""The chart of a run on a real control plane: pods a second of each phase, beside the API server's own limit.

Report's phases ──▶ svg() ──▶ one SVG document, for the docs
"""

from collections.abc import Sequence
from html import escape
from typing import Protocol

__all__ = ["BarPhase", "svg"]

ROW, BAR, LEFT, WIDTH, TOP = 44, 14, 240, 460, 48
REACHED, LIMIT = "#2f6fb0", "#c9d6e3"


class BarPhase(Protocol):
    """What a row shows."""

    @property
    def name(self) -> str: ...

    @property
    def pods_per_s(self) -> float: ...

    @property
    def bare_pods_per_s(self) -> float: ...


def svg(phases: Sequence[BarPhase], *, title: str) -> str:
    """A pair of bars a phase: what the manager reached, and what the API server alone takes of the same writes."""
    longest = max((max(one.pods_per_s, one.bare_pods_per_s) for one in phases), default=0.0) or 1.0
    height = TOP + ROW * len(phases) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>',
        f'<text x="8" y="38" fill="{REACHED}">pods a second</text>',
        '<text x="110" y="38" fill="#7a8a99">the API server alone, with the same writes</text>',
    ]
    for number, phase in enumerate(phases):
        top = TOP + ROW * number
        lines.append(f'<text x="8" y="{top + 18}">{escape(phase.name)}</text>')
        lines += _bar(top, phase.pods_per_s, longest, REACHED)
        lines += _bar(top + BAR + 2, phase.bare_pods_per_s, longest, LIMIT)
    return "\n".join([*lines, "</svg>\n"])


def _bar(top: float, value: float, longest: float, colour: str) -> list[str]:
    width = WIDTH * value / longest
    return [
        f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<text x="{LEFT + width + 6:.1f}" y="{top + BAR - 3}" font-size="11">{value:.0f}</text>',
    ]
