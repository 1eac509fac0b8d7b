"""Which workloads can be spread, and how many pods they want.

ConfigMap kruise-configuration ──▶ read_white_list() ──▶ WhiteList
workload document ──▶ replicas_of() ──▶ pods it wants, or None: unknown

Pure. Kinds are told apart by group and kind; versions do not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.group_kinds import GroupKind

__all__ = [
    "APPS",
    "BUILT_IN",
    "KRUISE",
    "Listed",
    "PathError",
    "WhiteList",
    "WhiteListError",
    "read_white_list",
    "replicas_of",
    "value_at",
]

KRUISE: Final = "apps.kruise.io"
APPS: Final = "apps"
BATCH: Final = "batch"


BUILT_IN: Final = frozenset(
    {
        GroupKind(APPS, "Deployment"),
        GroupKind(APPS, "ReplicaSet"),
        GroupKind(APPS, "StatefulSet"),
        GroupKind(KRUISE, "CloneSet"),
        GroupKind(KRUISE, "StatefulSet"),
        GroupKind(BATCH, "Job"),
    }
)
"""Kinds that need no white list."""

_WITH_REPLICAS: Final = BUILT_IN - {GroupKind(BATCH, "Job")} | {GroupKind("", "ReplicationController")}


# The white list


class WhiteListError(ValueError):
    """The white list cannot be read; the message says where."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of workload that an administrator allows."""

    target: GroupKind
    version: str = ""
    """Empty: the one that the API server prefers."""
    replicas_path: str = ""
    """Where its number of pods is; empty: its scale subresource knows."""
    owners: tuple[GroupKind, ...] = ()
    """Kinds between it and its pods."""


class WhiteList(msgspec.Struct, frozen=True, kw_only=True):
    """Kinds of workloads beside the built-in ones."""

    workloads: tuple[Listed, ...] = ()

    @property
    def owners(self) -> frozenset[GroupKind]:
        """Every kind that may be an owner on the way from a pod to a target."""
        further = {kind for one in self.workloads for kind in (one.target, *one.owners)}
        return BUILT_IN | further

    def find(self, target: GroupKind) -> Listed | None:
        """The entry of a kind."""
        return next((one for one in self.workloads if one.target == target), None)


def read_white_list(text: str | None) -> WhiteList:
    """The white list of its JSON text; None or empty: nobody is on it. Raises WhiteListError.

    Names of members are matched whatever their case.
    """
    if not text:
        return WhiteList()
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise WhiteListError(f"no JSON: {error}") from error
    workloads = _list(document, "workloads", "")
    return WhiteList(workloads=tuple(_listed(one, f"workloads[{i}]") for i, one in enumerate(workloads)))


def _listed(entry: Any, path: str) -> Listed:
    further = _list(entry, "subResources", path)
    return Listed(
        target=_kind(entry, path),
        version=_text(entry, "Version", path),
        replicas_path=_text(entry, "replicasPath", path),
        owners=tuple(_kind(one, f"{path}.subResources[{i}]") for i, one in enumerate(further)),
    )


def _kind(entry: Any, path: str) -> GroupKind:
    return GroupKind(_text(entry, "Group", path), _text(entry, "Kind", path))


def _list(entry: Any, name: str, path: str) -> list[Any]:
    value = _member(entry, name, path)
    if value is not None and not isinstance(value, list):
        raise WhiteListError(f"{path}.{name}: must be a list".lstrip("."))
    return value or []


def _text(entry: Any, name: str, path: str) -> str:
    value = _member(entry, name, path)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WhiteListError(f"{path}.{name}: must be a text")
    return value


def _member(entry: Any, name: str, path: str) -> Any:
    if not isinstance(entry, dict):
        raise WhiteListError(f"{path or 'it'}: must be an object")
    return next((value for key, value in entry.items() if key.lower() == name.lower()), None)


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
        raise PathError(f"{path}: is no whole number")
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
            raise PathError(f"{walked}: is no index of a list of {len(here)}")
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
