"""Draws lines that change: a terminal overwrites the previous lines, other outputs append.

Session, lines ──▶ draw() ──▶ standard output
"""

from collections.abc import Sequence

from pykruise.cli.kubectl.session import Session


def draw(session: Session, lines: Sequence[str], *, before: int) -> None:
    """Draw lines. `before`: number of lines drawn last time."""
    text = "\n".join(lines) + "\n"
    if session.around.is_terminal:
        session.around.out((f"\x1b[{before}A\x1b[J" if before else "") + text)
        return
    session.around.out(("\n" if before else "") + text)
