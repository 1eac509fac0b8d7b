"""Permissions of a part of a program, as values from which RBAC rules are generated.

declarations (tuples of Right) ──▶ merge_rights() ──▶ rules of a ClusterRole or Role

Pure. A Right states its purpose (`why`), so that a denial can be explained.
"""

from collections.abc import Iterable

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource

__all__ = ["READ", "WRITE", "Right", "make_right", "merge_rights"]

READ = ("get", "list", "watch")
"""Verbs that a cache needs."""

WRITE = ("create", "delete", "patch")
"""Verbs that an executor needs; it never replaces whole objects of other owners."""


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """Verbs on one resource, or on one of its subresources.

    `names`: only these objects (never with create or list). `in_namespace`: only in this program's own namespace.
    """

    group: str
    resource: str
    """`pods` or `pods/status`."""
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    in_namespace: bool = False
    why: str = ""

    @property
    def plural(self) -> str:
        """The resource without its subresource."""
        return self.resource.partition("/")[0]


def make_right(
    resource: Resource,
    *verbs: str,
    subresource: str = "",
    names: tuple[str, ...] = (),
    in_namespace: bool = False,
    why: str = "",
) -> Right:
    """Return the right to use `verbs` on a resource (or one of its subresources)."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Right(
        group=resource.group, resource=plural, verbs=verbs, names=names, in_namespace=in_namespace, why=why
    )


def merge_rights(rights: Iterable[Right]) -> list[Document]:
    """Return RBAC rules that allow exactly these rights: one rule for each set of verbs of a group, sorted."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.names), set()).update(right.verbs)
    grouped: dict[tuple[str, tuple[str, ...], tuple[str, ...]], set[str]] = {}
    for (group, resource, names), allowed in verbs.items():
        grouped.setdefault((group, names, tuple(sorted(allowed))), set()).add(resource)
    return [
        {"apiGroups": [group], "resources": sorted(resources)}
        | ({"resourceNames": sorted(names)} if names else {})
        | {"verbs": list(allowed)}
        for (group, names, allowed), resources in sorted(grouped.items(), key=lambda item: _sort_key(*item))
    ]


def _sort_key(
    key: tuple[str, tuple[str, ...], tuple[str, ...]], resources: set[str]
) -> tuple[str, list[str], tuple[str, ...]]:
    group, names, _ = key
    return group, sorted(resources), names
