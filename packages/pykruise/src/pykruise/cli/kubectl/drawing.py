"""Pictures of lines that change: over what was there on a terminal, below it elsewhere.

Session, lines ──▶ draw() ──▶ standard output
"""

from collections.abc import Sequence

from pykruise.cli.kubectl.session import Session


def draw(session: Session, lines: Sequence[str], *, before: int) -> None:
    """Draw lines; `before`: how many were drawn last."""
    text = "\n".join(lines) + "\n"
    if session.around.is_terminal:
        session.around.out((f"\x1b[{before}A\x1b[J" if before else "") + text)
        return
    session.around.out(("\n" if before else "") + text)
