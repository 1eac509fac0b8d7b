"""Makes text from outside harmless for a terminal. A terminal acts on control characters: an annotation or a message
could clear the screen, change the window's title, or hide the lines above it.

text of the cluster ──▶ escape_terminal() ──▶ text for a terminal
value of a table cell ──▶ fit_cell() ──▶ the same, in one line

The replacements of ESC and CR are kubectl's. kubectl leaves the other control characters unchanged. Pure.
"""

from typing import Final

__all__ = ["escape_terminal", "fit_cell"]

_KEPT: Final = "\t\n"
_ESCAPES: Final = str.maketrans(
    {
        **{
            chr(code): f"\\x{code:02x}"
            for code in (*range(0x20), *range(0x7F, 0xA0))
            if chr(code) not in _KEPT
        },
        "\x1b": "^[",
        "\r": "\\r",
    }
)
_BREAKS: Final = "\f\n\r"


def escape_terminal(text: str) -> str:
    """Return the text with visible characters instead of control characters; tabs and line ends stay."""
    return text.translate(_ESCAPES)


def fit_cell(text: str) -> str:
    """Return the text of a table cell, cut at its first line end as in kubectl: `first line...`."""
    if text.isprintable():
        return text
    end = min((place for char in _BREAKS if (place := text.find(char)) >= 0), default=-1)
    return escape_terminal(text if end < 0 else f"{text[:end]}...")
