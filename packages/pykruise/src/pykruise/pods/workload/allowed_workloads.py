"""Further kinds of workloads that an administrator allows.

ConfigMap kruise-configuration ──▶ read_white_list() ──▶ WhiteList

Pure. Kinds are compared by group and kind; versions are ignored.
"""

from typing import Any, Final

import msgspec

from pykruise.kube.documents import rename_members
from pykruise.kube.values.group_kinds import GroupKind

CONFIGURATION: Final = "kruise-configuration"
"""Name of the ConfigMap in the manager's namespace."""

STATEFUL_KINDS: Final = "PPS_Watch_Custom_Workload_WhiteList"
"""Key of the list of stateful kinds whose pods PersistentPodStates and PodUnavailableBudgets support."""


class WhiteListError(ValueError):
    """The white list cannot be read; the message contains the place."""


class AllowedList(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of workload that an administrator allows."""

    target: GroupKind
    version: str = ""
    """Version; if empty, the version that the API server prefers."""
    replicas_path: str = ""
    """Path of the field with the number of pods; empty if the scale subresource has the number."""
    owners: tuple[GroupKind, ...] = ()
    """Kinds in the ownership chain between the workload and its pods."""


class WhiteList(msgspec.Struct, frozen=True, kw_only=True):
    """Allowed kinds of workloads besides the built-in ones."""

    workloads: tuple[AllowedList, ...] = ()

    @property
    def owners(self) -> frozenset[GroupKind]:
        """Every kind on the list, and the kinds between it and its pods."""
        return frozenset(kind for workload in self.workloads for kind in (workload.target, *workload.owners))

    def find(self, target: GroupKind) -> AllowedList | None:
        """Entry of a kind; None if the kind is not on the list."""
        return next((workload for workload in self.workloads if workload.target == target), None)


def read_white_list(text: str | None) -> WhiteList:
    """Parse the white list from JSON text; None or empty: the list is empty. Raises WhiteListError.

    Member names match without regard to case.
    """
    if not text:
        return WhiteList()
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise WhiteListError(f"not valid JSON: {error}") from error
    workloads = _read_list(document, "workloads", "")
    return WhiteList(
        workloads=tuple(_read_entry(workload, f"workloads[{i}]") for i, workload in enumerate(workloads))
    )


def _read_entry(entry: Any, path: str) -> AllowedList:
    further = _read_list(entry, "subResources", path)
    return AllowedList(
        target=_read_kind(entry, path),
        version=_read_text(entry, "Version", path),
        replicas_path=_read_text(entry, "replicasPath", path),
        owners=tuple(_read_kind(value, f"{path}.subResources[{i}]") for i, value in enumerate(further)),
    )


def _read_kind(entry: Any, path: str) -> GroupKind:
    return GroupKind(_read_text(entry, "Group", path), _read_text(entry, "Kind", path))


def _read_list(entry: Any, name: str, path: str) -> list[Any]:
    value = _find_member(entry, name, path)
    if value is not None and not isinstance(value, list):
        raise WhiteListError(f"{path}.{name}: must be a list".lstrip("."))
    return value or []


def _read_text(entry: Any, name: str, path: str) -> str:
    value = _find_member(entry, name, path)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WhiteListError(f"{path}.{name}: must be a string")
    return value


def _find_member(entry: Any, name: str, path: str) -> Any:
    if not isinstance(entry, dict):
        raise WhiteListError(f"{path or 'the white list'}: must be an object")
    return rename_members(entry, (name,)).get(name)
