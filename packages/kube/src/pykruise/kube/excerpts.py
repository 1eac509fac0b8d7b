"""Shortens text from outside as soon as it arrives: messages of an API server, of a webhook behind it, or of a
container runtime.

text of any length ──▶ excerpt() ──▶ its beginning and its end, MOST_TEXT characters at most
status of any size ──▶ fit_status() ──▶ the same counts and entries, with shortened texts and lists of names

Errors, log lines and conditions contain this text, often several of them at the same time. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["MOST_NAMED", "MOST_TEXT", "MOST_TOLD", "excerpt", "fit_status", "shorten_messages"]

MOST_TEXT: Final = 1024
"""Maximum number of characters that are kept of a text from outside."""
_GAP: Final = " … "
_WORD: Final = 128
"""Maximum number of characters by which a cut is moved, so that it is between two words. A cut inside a name could be
at another place in each retry, and the text would differ.
"""


def excerpt(text: str, *, most: int = MOST_TEXT) -> str:
    """Return the text, or its beginning and its end; `most` is 16 at least."""
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
"""Fields with these endings contain text for people; other fields (a label selector, a name) are useless when cut."""


def shorten_messages(value: Any) -> Any:
    """Return a JSON value with shortened messages at any depth; the value itself when no message is too long."""
    match value:
        case Mapping():
            items = {name: _shorten_item(str(name), item) for name, item in value.items()}
            return items if any(items[name] is not item for name, item in value.items()) else value
        case list() | tuple():
            parts = [shorten_messages(item) for item in value]
            return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
        case _:
            return value


def _shorten_item(name: str, item: Any) -> Any:
    if isinstance(item, str):
        return excerpt(item) if name.lower().endswith(_TOLD) else item
    return shorten_messages(item)


# ── whole statuses ───────────────────────────────────────────────────────────

MOST_TOLD: Final = 24 * 1024
"""Maximum number of bytes of the messages of a status's entries (subsets, images, containers) together: with 256
entries, 96 bytes for each entry. The status's own message and conditions do not count.
"""
MOST_NAMED: Final = 256 * 1024
"""Maximum number of bytes of a status's lists of names together: nodes or namespaces with failures. A thousand names of
the maximum length (253) fit. A number next to a list gives the full count.
"""
_LENGTHS: Final = (MOST_TEXT, 512, 256, 128, 64, 16, 0)
"""Possible limits of a message in bytes. The first limit with which all messages fit is used; with thousands of entries
the limit is 0.
"""
_CODE: Final = 64
"""Smallest limit of a reason in bytes: a code is useless when cut."""
_OWN: Final = "conditions"


def fit_status(status: dict[str, Any], *, most_told: int = MOST_TOLD) -> dict[str, Any]:
    """Return the status with messages and lists of names that fit; the status itself when all fit.

    A status that is too large for an API server could never be stored, and would report nothing. The number of its
    entries is determined by the spec, or limited by its kind.

    `most_told`: maximum number of bytes of the messages of its entries together.
    """
    short: dict[str, Any] = shorten_messages(status)
    entries = {name: value for name, value in short.items() if name != _OWN}
    told = [size for name, value in entries.items() for size in _list_message_sizes(name, value, depth=0)]
    length = next(
        (length for length in _LENGTHS if sum(min(length, size) for size in told) <= most_told), _LENGTHS[-1]
    )
    fitting: dict[str, Any] = _Fitting(length if sum(told) > most_told else None).fit(short, depth=0)
    return fitting


def _list_message_sizes(name: str, value: Any, depth: int) -> Iterator[int]:
    """Yield the size in bytes of each message in an entry of the status; messages of the status itself do not count."""
    match value:
        case str():
            if depth and name.lower().endswith(_TOLD):
                yield len(value.encode("utf-8", "surrogatepass"))
        case Mapping():
            for key, item in value.items():
                yield from _list_message_sizes(str(key), item, depth + 1)
        case list() | tuple():
            for item in value:
                yield from _list_message_sizes("", item, depth + 1)
        case _:
            return


class _Fitting:
    """One traversal of a status. `length`: maximum number of bytes of an entry's message; None: no limit."""

    def __init__(self, length: int | None) -> None:
        self._length = length
        self._left = MOST_NAMED

    def fit(self, value: Any, depth: int, *, is_own: bool = False) -> Any:
        """Return the value, shortened where necessary."""
        match value:
            case Mapping():
                items = {
                    key: self._fit_item(str(key), item, depth, is_own=is_own or (depth == 0 and key == _OWN))
                    for key, item in value.items()
                }
                return items if any(items[key] is not item for key, item in value.items()) else value
            case list() | tuple():
                if value and all(isinstance(item, str) for item in value):
                    return self._fit_names(value)
                parts = [self.fit(item, depth + 1, is_own=is_own) for item in value]
                return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
            case _:
                return value

    def _fit_item(self, name: str, item: Any, depth: int, *, is_own: bool) -> Any:
        if not isinstance(item, str):
            return self.fit(item, depth + 1, is_own=is_own)
        if is_own or not depth or self._length is None or not name.lower().endswith(_TOLD):
            return item
        length = self._length if name.lower().endswith("message") else max(self._length, _CODE)
        size = len(item.encode("utf-8", "surrogatepass"))
        if size <= length:
            return item
        return excerpt(item, most=max(16, length * len(item) // size)) if length else ""

    def _fit_names(self, names: list[str] | tuple[str, ...]) -> Any:
        """Return as many of the first names as fit."""
        for number, name in enumerate(names):
            self._left -= len(name.encode("utf-8", "surrogatepass")) + 3
            if self._left < 0:
                return list(names[:number])
        return names
