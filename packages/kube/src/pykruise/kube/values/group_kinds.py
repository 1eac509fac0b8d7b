"""Kinds in whichever version: what references to workloads are compared by.

apiVersion + kind ──▶ group_kind() ──▶ GroupKind

Pure.
"""

from typing import NamedTuple

from pykruise.kube.resources import is_group_part

__all__ = ["GroupKind", "group_kind", "group_of"]


class GroupKind(NamedTuple):
    """A kind in whichever version."""

    group: str
    kind: str


def group_of(api_version: str) -> str | None:
    """The group of an apiVersion, empty for core; None: it is none, or could be no part of a path."""
    parts = api_version.split("/")
    if not 1 <= len(parts) <= 2 or not all(map(is_group_part, parts)):
        return None
    return parts[0] if len(parts) == 2 else ""


def group_kind(api_version: str, kind: str) -> GroupKind | None:
    """The kind that apiVersion and kind name; None: they name none."""
    group = group_of(api_version)
    return GroupKind(group, kind) if group is not None and kind else None
