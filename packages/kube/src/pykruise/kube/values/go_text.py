"""Values in error messages, written as in Kubernetes' own messages.

The API server's texts come from Go's formatting (`%q`, `%v`). People and scripts compare them, so the sandbox and
admission use the same form. Pure.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

__all__ = [
    "LONGEST_EXCERPT",
    "encode_go_json",
    "escape_html",
    "excerpt",
    "format_shown",
    "name_go_type",
    "quote_text",
]

LONGEST_EXCERPT: Final = 256
"""Maximum number of characters of a value in a message: a response must not contain a name of two megabytes six times.
"""

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def excerpt(text: str, most: int = LONGEST_EXCERPT) -> str:
    """Return the text for a message: at most `most` characters from its beginning, and `…` if it is longer."""
    return text if len(text) <= most else f"{text[:most]}…"


def quote_text(text: str) -> str:
    """Return a string in double quotes, with unprintable characters escaped (Go's `%q`)."""
    return '"' + "".join(_ESCAPES.get(char) or _escape(char) for char in text) + '"'


def format_shown(value: Any) -> str:
    """Return a JSON value as Go's `%v` shows it: `map[image:nginx ports:[map[containerPort:80]]]`, keys sorted."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case Mapping():
            return "map[" + " ".join(f"{key}:{format_shown(value[key])}" for key in sorted(value)) + "]"
        case list() | tuple():
            return "[" + " ".join(map(format_shown, value)) + "]"
        case float():
            return _format_float(value)
    return str(value)


def name_go_type(value: Any) -> str:
    """Return Go's name for the type of a decoded JSON value."""
    match value:
        case None:
            return "%!s(<nil>)"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list() | tuple():
            return "[]interface {}"
    return "map[string]interface {}"


def _format_float(value: float) -> str:
    """Return the shortest digits that restore the number; in scientific notation if the exponent is below -4 or above
    5.
    """
    sign, digits, _ = (number := Decimal(repr(value)).normalize()).as_tuple()
    power = number.adjusted()
    if -4 <= power < 6 or not value:
        return f"{number:f}"
    mantissa = "".join(map(str, digits))
    mantissa = mantissa if len(mantissa) == 1 else f"{mantissa[0]}.{mantissa[1:]}"
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def _escape(char: str) -> str:
    if char == " " or char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encode_go_json(value: Any, *, sort_keys: bool = False) -> str:
    """Return JSON text as Go's `encoding/json` writes it: compact, with five characters escaped inside strings."""
    return escape_html(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys))


def escape_html(text: str) -> str:
    """Return JSON text with the five characters escaped that Go escapes; only strings can contain them."""
    for char in "<>&\u2028\u2029":
        if char in text:
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text
