"""The writes that a plan can request: each is one API request with its preconditions, as a plain value.

plan() ──▶ Action values ──▶ runtime/execute.py sends them; `plan`, `explain` and tests read them.

Pure: this module sends nothing to a server.
"""

from typing import Any

import msgspec

from pykruise.kube.cache.store import Projected
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource

__all__ = ["Action", "Create", "Delete", "Patch", "delete_object", "patch_object"]


class Create(msgspec.Struct, frozen=True, kw_only=True, tag="create"):
    """POST of a new object. Its precondition: no other object has the name.

    If `key.name` is empty, the API server generates a name from `metadata.generateName`. Such a creation has no
    precondition and is not repeated when its response is lost, so a name that the plan chooses is better.
    """

    resource: Resource
    key: Key
    body: dict[str, Any]


class Patch(msgspec.Struct, frozen=True, kw_only=True, tag="patch"):
    """PATCH of an object or one of its subresources.

    `uid` guards against another object of the same name. `resource_version` guards against any change since the
    decision was made (empty: the decision does not depend on such changes). The executor puts both into the patch body,
    so that the API server checks them.
    """

    resource: Resource
    key: Key
    patch_type: PatchType
    body: Any
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""
    is_dry_run: bool = False
    """Whether the API server only checks the patch and stores nothing. A chain begins with such a patch if the API
    server may reject a later write of the chain, and the writes before that one would have to be undone.
    """


class Delete(msgspec.Struct, frozen=True, kw_only=True, tag="delete"):
    """DELETE with preconditions. `grace_period_s=None` leaves the object's own grace period."""

    resource: Resource
    key: Key
    uid: str
    resource_version: str = ""
    grace_period_s: int | None = None
    propagation: str = ""
    """Background, Foreground or Orphan; empty: the default of the resource (Jobs of batch/v1 orphan their pods)."""
    is_due: bool = False
    """Whether the object has served its purpose: it has ended, or a schedule replaces it. churn.py does not count such
    a deletion.
    """


Action = Create | Patch | Delete
"""A write to the API server."""


def patch_object(
    resource: Resource,
    seen: Projected,
    body: Any,
    *,
    patch_type: PatchType = PatchType.MERGE,
    subresource: str = "",
    unchanged: bool = False,
    is_dry_run: bool = False,
) -> Patch:
    """Return a patch of exactly this object. `unchanged`: only if its resourceVersion is still the same."""
    return Patch(
        resource=resource,
        key=Key(seen.namespace, seen.name),
        patch_type=patch_type,
        body=body,
        subresource=subresource,
        uid=seen.uid,
        resource_version=str(seen.resource_version) if unchanged else "",
        is_dry_run=is_dry_run,
    )


def delete_object(
    resource: Resource, seen: Projected, *, unchanged: bool = False, propagation: str = ""
) -> Delete:
    """Return the deletion of exactly this object. `unchanged`: only if its resourceVersion is still the same."""
    return Delete(
        resource=resource,
        key=Key(seen.namespace, seen.name),
        uid=seen.uid,
        resource_version=str(seen.resource_version) if unchanged else "",
        propagation=propagation,
    )
