"""Names and label values derived from an object's own name, each with its maximum length.

KIND.derived ──▶ admission/advice.py ──▶ a warning in a response that allows the write
             ──▶ tests: objects of every kind with names of 1 to 253 letters are rejected, cause a warning, or work

Pure. OpenKruise accepts names from which no valid name can be derived, so they are accepted here too. The object
reports NameTooLong when the API server rejects an object with a derived name (runtime/execute.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import get_path
from pykruise.kube.values.counts import format_count

LONGEST_LABEL: Final = 63
LONGEST_NAME: Final = 253
HASH: Final = "-" + 10 * "0"
"""Longest suffix that a revision's name adds to its owner's name: the hash is a number of 32 bits."""
RANDOM_END: Final = "-" + 5 * "x"
"""Suffix that names of pods and workloads add to their owner's name."""


class DerivedName(msgspec.Struct, frozen=True, kw_only=True):
    """A name or label value derived from the object's name."""

    what: str
    """Description, such as `the label controller-revision-hash of its pods`."""
    longest: int
    """Maximum number of characters."""
    of: Callable[[Mapping[str, Any], Any], Iterable[str]]
    """Function from the document and the kind's settings to the derived values, including the longest expected one."""


def warnings_of_names(doc: Mapping[str, Any], derived: Sequence[DerivedName], settings: Any) -> Iterator[str]:
    """Yield a warning for each DerivedName with a value that would be too long."""
    if not get_path(doc, "metadata", "name"):
        return
    for derived_name in derived:
        longest = max(derived_name.of(doc, settings), key=len, default="")
        if len(longest) > derived_name.longest:
            yield (
                f"metadata.name: {derived_name.what} would be {longest} ({format_count(len(longest), 'character')}), "
                f"but the limit is {derived_name.longest}: the API server would reject it; use a shorter name"
            )
