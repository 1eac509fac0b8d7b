"""Marks of a CloneSet's pods, written as short words.

marks("4n o! od") ──▶ how many pods have each mark
"""

import re
from collections import Counter

from pykruise.kinds.cloneset.limits import Mark


def marks(text: str) -> Counter[Mark]:
    """`4n o! od op`: four ready new pods; old ones not ready, specified for deletion, in PreparingDelete."""
    marks: Counter[Mark] = Counter()
    for count, age, preparing, down, marked in re.findall(r"(\d*)([on])(p?)(!?)(d?)(?:\s|$)", text):
        mark = Mark(
            is_new=age == "n",
            is_pre_deleting=bool(preparing),
            is_available=not down,
            is_to_delete=bool(marked),
        )
        marks[mark] += int(count or 1)
    return marks
