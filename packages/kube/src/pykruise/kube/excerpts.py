"""Text from outside, cut where it enters: what an API server, a webhook behind it or a container runtime says.

text of any length ──▶ excerpt() ──▶ its beginning and its end, MOST_TEXT characters at most

Such text is kept in errors, logged, and stored in conditions, several times at once. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["MOST_TEXT", "excerpt", "with_short_messages"]

MOST_TEXT: Final = 1024
"""Characters of a text from outside."""
_GAP: Final = " … "
_WORD: Final = 128
"""A cut moves by so much at most to stand between two words: half a name would be another one with each try."""


def excerpt(text: str, *, most: int = MOST_TEXT) -> str:
    """The text, or its beginning and its end; `most` is 16 at least."""
    if len(text) <= most:
        return text
    half = (most - len(_GAP)) // 2
    head, tail = text[:half], text[-half:]
    reach = min(_WORD, half // 2)
    if (space := head.rfind(" ", half - reach)) >= 0:
        head = head[:space]
    if (space := tail.find(" ", 0, reach)) >= 0:
        tail = tail[space + 1 :]
    return f"{head}{_GAP}{tail}"


_TOLD: Final = ("message", "reason")
"""Fields with such an end say something to people; others (a label selector, a name) are whole or of no use."""


def with_short_messages(value: Any) -> Any:
    """A JSON value with excerpts of its messages, however deep; itself where none is too long."""
    match value:
        case Mapping():
            items = {name: _short_item(str(name), item) for name, item in value.items()}
            return items if any(items[name] is not item for name, item in value.items()) else value
        case list() | tuple():
            parts = [with_short_messages(item) for item in value]
            return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
        case _:
            return value


def _short_item(name: str, item: Any) -> Any:
    if isinstance(item, str):
        return excerpt(item) if name.lower().endswith(_TOLD) else item
    return with_short_messages(item)
