"""A hint for a name that is not known: the known name that differs from it by a few letters.

nearest("clonset", ["clonesets", "daemonsets"]) ──▶ "clonesets"      hint(…) ──▶ "; did you mean clonesets?"

Pure.
"""

import difflib
from collections.abc import Iterable
from typing import Final

__all__ = ["hint", "nearest"]

_SIMILAR: Final = 0.8
"""Least similarity, from 0 to 1. `deployment` is like `uniteddeployment` by 0.77, and neither is meant by the other."""
_SHORT: Final = 5
_SIMILAR_SHORT: Final = 0.6
"""Least similarity of words with at most so many letters, where two swapped letters count for more."""
_MOST: Final = 2000
"""Names that are compared at most: a hint is not worth a noticeable wait."""
_LONGEST: Final = 253


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that is most like the word, capitals aside; empty if none is like it."""
    by_lower: dict[str, str] = {}
    for name in known:
        if len(by_lower) == _MOST:
            break
        by_lower.setdefault(name.lower(), name)
    cutoff = _SIMILAR_SHORT if len(word) <= _SHORT else _SIMILAR
    close = difflib.get_close_matches(word.lower()[:_LONGEST], by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else ""


def hint(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """The end of an error message: `; did you mean clonesets?`, or `otherwise` if no known name is like the word."""
    name = nearest(word, known)
    return f"; did you mean {name}?" if name else otherwise
