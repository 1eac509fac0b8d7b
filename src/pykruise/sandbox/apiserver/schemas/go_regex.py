"""Go's regular expressions in Python: patterns mean what they mean to a Kubernetes API server."""

import re
from typing import Final

__all__ = ["go_regex"]


def go_regex(pattern: str) -> re.Pattern[str]:
    """A Go (RE2) regular expression compiled for Python: `$` is the very end, classes are ASCII.

    Raises `re.error` for what Python has no counterpart of (`\\p{Greek}`).
    """
    return re.compile(_GO_ONLY.sub(_to_python, pattern), re.ASCII)


_POSIX_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_GO_ONLY: Final = re.compile(
    r"\[:(?P<posix>[a-z]+):\]|\\(?P<escaped>.)|(?P<group>\[\^?\]?)|(?P<end>\$)", re.DOTALL
)


def _to_python(match: re.Match[str]) -> str:
    if match["posix"]:
        return _POSIX_CLASSES.get(match["posix"], match[0])
    if match["escaped"] == "z":
        return r"\Z"
    if match["end"] and not _inside_class(match.string, match.start()):
        return r"\Z"
    return match[0]


def _inside_class(pattern: str, position: int) -> bool:
    inside, index = False, 0
    while index < position:
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "[" and not inside:
            inside = True
            index += len(pattern[index + 1 :]) - len(re.sub(r"^\^?\]?", "", pattern[index + 1 :]))
        elif char == "]":
            inside = False
        index += 1
    return inside
