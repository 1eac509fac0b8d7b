"""Hints for unknown names: the known name that differs by a few letters.

find_nearest("clonset", ["clonesets", "daemonsets"]) ──▶ "clonesets"      format_hint(…) ──▶ "; did you mean clonesets?"

Pure.
"""

import difflib
from collections.abc import Iterable
from typing import Final

__all__ = ["find_nearest", "format_hint"]

_SIMILAR: Final = 0.8
"""Least similarity, from 0 to 1. `deployment` and `uniteddeployment` have 0.77, but are not misspellings of each
other.
"""
_SHORT: Final = 5
_SIMILAR_SHORT: Final = 0.6
"""Least similarity of short words, in which two swapped letters make a larger difference."""
_MOST: Final = 2000
"""Maximum number of names that are compared: a hint must not cause a noticeable wait."""
_LONGEST: Final = 253


def find_nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to the word, ignoring case; empty if none is similar."""
    by_lower: dict[str, str] = {}
    for name in known:
        if len(by_lower) == _MOST:
            break
        by_lower.setdefault(name.lower(), name)
    cutoff = _SIMILAR_SHORT if len(word) <= _SHORT else _SIMILAR
    close = difflib.get_close_matches(word.lower()[:_LONGEST], by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else ""


def format_hint(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return the end of an error message: `; did you mean clonesets?`, or `otherwise` if no known name is similar."""
    name = find_nearest(word, known)
    return f"; did you mean {name}?" if name else otherwise
