"""Kinds in any version, by which references to workloads are compared.

apiVersion + kind ──▶ group_kind() ──▶ GroupKind

Pure.
"""

from typing import NamedTuple

from pykruise.kube.resources import is_group_part

__all__ = ["GroupKind", "group_kind", "group_of"]


class GroupKind(NamedTuple):
    """A kind in any version."""

    group: str
    kind: str


def group_of(api_version: str) -> str | None:
    """Return the group of an apiVersion, empty for core. None: the apiVersion is invalid, or cannot be part of a
    path.
    """
    parts = api_version.split("/")
    if not 1 <= len(parts) <= 2 or not all(map(is_group_part, parts)):
        return None
    return parts[0] if len(parts) == 2 else ""


def group_kind(api_version: str, kind: str) -> GroupKind | None:
    """Return the kind that apiVersion and kind name; None when they are invalid."""
    group = group_of(api_version)
    return GroupKind(group, kind) if group is not None and kind else None
