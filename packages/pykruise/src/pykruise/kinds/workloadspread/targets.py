"""Workloads whose pods can be spread, and their number of replicas.

workload document ──▶ replicas_of() ──▶ desired number of pods, or None: unknown

Pure. Kinds are compared by group and kind; versions do not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import TARGET_RESOURCES

BATCH: Final = "batch"


BUILT_IN: Final = frozenset(TARGET_RESOURCES)
"""Kinds that need no entry on the white list."""

_WITH_REPLICAS: Final = BUILT_IN - {GroupKind(BATCH, "Job")} | {GroupKind("", "ReplicationController")}


# Replicas of a workload


class PathError(ValueError):
    """A path of replicas does not lead to a whole number; the message contains the part of the path at which the search
    ended.
    """


def read_value_at(doc: Any, path: str) -> int:
    """Return the whole number at a dotted path. Numeric segments index lists, and the empty path yields 0.

    Raises PathError.
    """
    if not path:
        return 0
    here: Any = doc
    walked: list[str] = []
    for segment in path.split("."):
        walked.append(segment)
        here = _take_step(here, segment, ".".join(walked))
    if isinstance(here, bool) or not isinstance(here, int):
        raise PathError(f"{path}: is not a whole number")
    return here


_LONGEST_INDEX: Final = 9


def _take_step(here: Any, segment: str, walked: str) -> Any:
    if isinstance(here, dict):
        if segment not in here:
            raise PathError(f"{walked}: does not exist")
        return here[segment]
    if isinstance(here, list):
        is_index = len(segment) <= _LONGEST_INDEX and segment.isascii() and segment.isdecimal()
        if not is_index or int(segment) >= len(here):
            items = format_count(len(here), "item")
            raise PathError(f"{walked}: is not an index of this list, which has {items}")
        return here[int(segment)]
    raise PathError(f"{walked}: its parent is neither an object nor a list")


def replicas_of(
    document: Mapping[str, Any], target: GroupKind, *, paths: Sequence[str] = (), listed_path: str = ""
) -> int | None:
    """Return the desired number of pods of the workload; None: only the scale subresource may contain it. Raises
    PathError.

    `paths`: paths of the target filter, whose values are added. `listed_path`: path of the white list.
    """
    if paths:
        return sum(read_value_at(document, path) for path in paths)
    if listed_path:
        return read_value_at(document, listed_path)
    spec: Document = document.get("spec") or {}
    if target == GroupKind(BATCH, "Job"):
        return _to_number(spec.get("parallelism"))
    return _to_number(spec.get("replicas")) if target in _WITH_REPLICAS else None


def _to_number(value: Any) -> int:
    """Return the number. An absent number counts as 1, which is the default of API servers."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 1
