"""Heads of HTTP messages as bytes. No other module of the repository writes them.

method, target, fields ──▶ format_request_head()                        ──▶ bytes
status, fields         ──▶ format_status_line(), format_field_lines()   ──▶ bytes

Any part of a head may come from a user: the path and headers of a probe, or a warning that repeats a field of an
object. A character that ends a line or a word would turn the head into other requests, so this module raises an error
that names the part of the head and the rule that it breaks. Callers that must respond nevertheless use
`replace_controls` first. A test looks for line ends in all other modules. Pure.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

__all__ = [
    "CLOSE",
    "CONTINUE",
    "HEAD_END",
    "LAST_CHUNK",
    "LINE_END",
    "HttpHeadError",
    "chunk_of",
    "encode_percent",
    "flaw_of_host",
    "flaw_of_name",
    "flaw_of_target",
    "flaw_of_value",
    "format_field_lines",
    "format_length_line",
    "format_request_head",
    "format_request_line",
    "format_status_line",
    "replace_controls",
]

LINE_END: Final = b"\r\n"
"""The end of a line of a head."""
HEAD_END: Final = b"\r\n\r\n"
"""The end of a head: an empty line."""
CLOSE: Final = b"Connection: close\r\n"
"""The field line that announces the end of the connection."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The interim response that asks for the body of a request."""
LAST_CHUNK: Final = b"0\r\n\r\n"
"""The end of a chunked body."""

Fields = Iterable[tuple[str, str]]

_is_token: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_is_host: Final = re.compile(r"[0-9A-Za-z._~:%\[\]-]+").fullmatch
_PLAIN: Final = "/%?&=;:@!$'()*+,~[]"
"""Characters that a path and a query may contain besides letters, digits and `-._`."""


class HttpHeadError(ValueError):
    """A part of a head contains a character that would end this part."""


def flaw_of_target(text: str) -> str:
    """Return the mistake in a request's target (path and query); empty: none."""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        return "it must be printable ASCII without spaces; percent-encode all other characters"
    return ""


def flaw_of_name(text: str) -> str:
    """Return the mistake in a header's name; empty: none. Rule: RFC 9110's token."""
    return "" if _is_token(text) else "it must consist of letters, digits and some marks such as '-'"


def flaw_of_value(text: str) -> str:
    """Return the mistake in a header's value; empty: none. This is Go's rule: no control character except the tab."""
    return "it contains a control character" if _CONTROLS.search(text) else ""


def flaw_of_host(text: str) -> str:
    """Return the mistake in a host (a name or an address); empty: none."""
    return "" if _is_host(text) else "it must be a name or an address"


def encode_percent(text: str) -> str:
    """Return a path with its query, with forbidden characters percent-encoded, as Go's clients do."""
    return quote(text.partition("#")[0], safe=_PLAIN)


def replace_controls(text: str) -> str:
    """Return a header's value with a space in place of each control character except the tab. Go's servers replace only
    line ends.
    """
    return _CONTROLS.sub(" ", text)


def format_request_head(method: str, target: str, fields: Fields) -> bytes:
    """Return the head of a request, including its end. Raises HttpHeadError."""
    return b"".join((format_request_line(method, target), format_field_lines(fields), LINE_END))


def format_request_line(method: str, target: str) -> bytes:
    """Return the first line of a request. Raises HttpHeadError."""
    if flaw_of_name(method):
        raise HttpHeadError(f"{method!r} is not an HTTP method")
    if flaw := flaw_of_target(target):
        raise HttpHeadError(f"{method} {target[:200]!r}: {flaw}")
    return f"{method} {target} HTTP/1.1\r\n".encode()


def format_status_line(status: int) -> bytes:
    """Return the first line of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Status"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


def format_field_lines(fields: Fields) -> bytes:
    """Return header lines. Raises HttpHeadError, which names the header but not its value, because that may be a
    secret.
    """
    lines = []
    for name, value in fields:
        if flaw := flaw_of_name(name):
            raise HttpHeadError(f"header {name[:200]!r}: {flaw}")
        if flaw := flaw_of_value(value):
            raise HttpHeadError(f"header {name}: {flaw}")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("utf-8", "replace")


def format_length_line(size: int) -> bytes:
    """Return the Content-Length header."""
    return b"Content-Length: %d\r\n" % size


def chunk_of(part: bytes) -> bytes:
    """Return one chunk of a body of unknown length."""
    return b"%x\r\n%b\r\n" % (len(part), part)
