"""Further kinds of workloads that an administrator allows.

ConfigMap kruise-configuration ──▶ read_white_list() ──▶ WhiteList

Pure. Kinds are compared by group and kind; versions do not matter.
"""

from typing import Any, Final

import msgspec

from pykruise.kube.values.group_kinds import GroupKind

CONFIGURATION: Final = "kruise-configuration"
"""Name of the ConfigMap, in the manager's own namespace."""

STATEFUL_KINDS: Final = "PPS_Watch_Custom_Workload_WhiteList"
"""Key of the list of kinds like StatefulSets, whose pods PersistentPodStates and PodUnavailableBudgets know."""


class WhiteListError(ValueError):
    """The white list cannot be read; the message says where."""


class AllowedList(msgspec.Struct, frozen=True, kw_only=True):
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

    workloads: tuple[AllowedList, ...] = ()

    @property
    def owners(self) -> frozenset[GroupKind]:
        """Every kind on it, and those between it and its pods."""
        return frozenset(kind for workload in self.workloads for kind in (workload.target, *workload.owners))

    def find(self, target: GroupKind) -> AllowedList | None:
        """The entry of a kind."""
        return next((workload for workload in self.workloads if workload.target == target), None)


def read_white_list(text: str | None) -> WhiteList:
    """The white list of its JSON text; None or empty: nothing is on it. Raises WhiteListError.

    Names of members are matched whatever their case.
    """
    if not text:
        return WhiteList()
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise WhiteListError(f"no JSON: {error}") from error
    workloads = _list(document, "workloads", "")
    return WhiteList(
        workloads=tuple(_listed(workload, f"workloads[{i}]") for i, workload in enumerate(workloads))
    )


def _listed(entry: Any, path: str) -> AllowedList:
    further = _list(entry, "subResources", path)
    return AllowedList(
        target=_kind(entry, path),
        version=_text(entry, "Version", path),
        replicas_path=_text(entry, "replicasPath", path),
        owners=tuple(_kind(value, f"{path}.subResources[{i}]") for i, value in enumerate(further)),
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
