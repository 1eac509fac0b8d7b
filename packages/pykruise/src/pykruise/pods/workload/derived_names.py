"""Names and label values that are made from an object's own name, each with the characters it may have.

KIND.derived ──▶ admission/advice.py ──▶ a warning beside an answer that allows the write
             ──▶ tests: objects of every kind with names of 1 to 253 letters are refused, warned of, or work

Pure. OpenKruise accepts names of which nothing can be made, and so they are accepted here; the object says
NameTooLong when the API server refuses what is made of it (runtime/execute.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import get_path

LONGEST_LABEL: Final = 63
LONGEST_NAME: Final = 253
HASH: Final = "-" + 10 * "0"
"""Longest suffix of a revision's name after its owner's: the hash is a number of 32 bits."""
RANDOM_END: Final = "-" + 5 * "x"
"""Suffix of pods' and workloads' names after their owner's."""


class DerivedName(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is named after the object."""

    what: str
    """`the label controller-revision-hash of its pods`."""
    longest: int
    """Characters that it may have."""
    of: Callable[[Mapping[str, Any], Any], Iterable[str]]
    """The document and the kind's settings to what it is made of them, the longest that is to be expected."""


def warnings_of_names(doc: Mapping[str, Any], derived: Sequence[DerivedName], settings: Any) -> Iterator[str]:
    """Objects that cannot be created because their names would be too long; the longest of each."""
    if not get_path(doc, "metadata", "name"):
        return
    for derived_name in derived:
        longest = max(derived_name.of(doc, settings), key=len, default="")
        if len(longest) > derived_name.longest:
            yield (
                f"metadata.name: {derived_name.what} would be {longest}, of {len(longest)} characters, and may have "
                f"{derived_name.longest}: it cannot be made; use a shorter name"
            )
