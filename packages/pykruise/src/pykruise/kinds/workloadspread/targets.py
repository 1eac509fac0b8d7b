"""Which workloads can be spread, and how many pods they want.

workload document ──▶ replicas_of() ──▶ pods it wants, or None: unknown

Pure. Kinds are compared by group and kind; versions do not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import TARGET_RESOURCES

BATCH: Final = "batch"


BUILT_IN: Final = frozenset(TARGET_RESOURCES)
"""Kinds that need no white list."""

_WITH_REPLICAS: Final = BUILT_IN - {GroupKind(BATCH, "Job")} | {GroupKind("", "ReplicationController")}


# How many pods a workload wants


class PathError(ValueError):
    """A path of replicas leads to no whole number; the message says where it ends."""


def value_at(doc: Any, path: str) -> int:
    """The whole number at a dotted path; numeric segments index lists, the empty path yields 0.

    Raises PathError.
    """
    if not path:
        return 0
    here: Any = doc
    walked: list[str] = []
    for segment in path.split("."):
        walked.append(segment)
        here = _step(here, segment, ".".join(walked))
    if isinstance(here, bool) or not isinstance(here, int):
        raise PathError(f"{path}: is not a whole number")
    return here


_LONGEST_INDEX: Final = 9


def _step(here: Any, segment: str, walked: str) -> Any:
    if isinstance(here, dict):
        if segment not in here:
            raise PathError(f"{walked}: is not there")
        return here[segment]
    if isinstance(here, list):
        is_index = len(segment) <= _LONGEST_INDEX and segment.isascii() and segment.isdecimal()
        if not is_index or int(segment) >= len(here):
            raise PathError(f"{walked}: is not an index of a list of {len(here)}")
        return here[int(segment)]
    raise PathError(f"{walked}: what is above it is neither an object nor a list")


def replicas_of(
    document: Mapping[str, Any], target: GroupKind, *, paths: Sequence[str] = (), listed_path: str = ""
) -> int | None:
    """Pods that the workload wants. None: only its scale subresource may know. Raises PathError.

    `paths`: of the target filter, their values add up. `listed_path`: of the white list.
    """
    if paths:
        return sum(value_at(document, path) for path in paths)
    if listed_path:
        return value_at(document, listed_path)
    spec: Document = document.get("spec") or {}
    if target == GroupKind(BATCH, "Job"):
        return _number(spec.get("parallelism"))
    return _number(spec.get("replicas")) if target in _WITH_REPLICAS else None


def _number(value: Any) -> int:
    """Absent is 1, as API servers default it."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 1
