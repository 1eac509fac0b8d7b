"""Draws lines that have colours or that change: a terminal overwrites the previous lines, other outputs append.

Session, lines ──▶ draw() ──▶ standard output

The lines contain control characters for the terminal, so draw() escapes nothing: a function that builds lines must
escape text of the cluster (terminal_text.py).
"""

from collections.abc import Sequence

from pykruise.cli.kubectl.session import Session


def draw(session: Session, lines: Sequence[str], *, before: int) -> None:
    """Draw lines. `before`: number of lines drawn last time."""
    text = "\n".join(lines) + "\n"
    if session.around.is_terminal:
        session.write((f"\x1b[{before}A\x1b[J" if before else "") + text)
        return
    session.write(("\n" if before else "") + text)
