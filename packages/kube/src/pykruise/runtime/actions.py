"""The writes a plan may ask for. Each is one API request with its precondition, as a plain value.

plan() ──▶ Action values ──▶ runtime/execute.py sends them; `plan`, `explain` and tests read them.

Pure: nothing here talks to a server.
"""

from typing import Any

import msgspec

from pykruise.kube.cache.store import Projected
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource

__all__ = ["Action", "Create", "Delete", "Patch", "delete_object", "patch_object"]


class Create(msgspec.Struct, frozen=True, kw_only=True, tag="create"):
    """POST of a new object. That the name is still free is its precondition.

    With an empty `key.name` the API server makes a name of `metadata.generateName`. Such a creation has no
    precondition, so it is not repeated when its answer is lost: better is a name that the plan has chosen.
    """

    resource: Resource
    key: Key
    body: dict[str, Any]


class Patch(msgspec.Struct, frozen=True, kw_only=True, tag="patch"):
    """PATCH of an object or one of its subresources.

    `uid` guards against another object of the same name; `resource_version` against any change since the
    decision was made (empty: the decision did not depend on the rest of the object). The executor puts
    both into the patch itself, so that the API server checks them.
    """

    resource: Resource
    key: Key
    patch_type: PatchType
    body: Any
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""


class Delete(msgspec.Struct, frozen=True, kw_only=True, tag="delete"):
    """DELETE with preconditions. `grace_period_s=None` leaves the object's own grace period."""

    resource: Resource
    key: Key
    uid: str
    resource_version: str = ""
    grace_period_s: int | None = None
    propagation: str = ""
    """Background, Foreground or Orphan; empty: as the resource has it (Jobs of batch/v1 orphan their pods)."""


Action = Create | Patch | Delete


def patch_object(
    resource: Resource,
    seen: Projected,
    body: Any,
    *,
    patch_type: PatchType = PatchType.MERGE,
    subresource: str = "",
    unchanged: bool = False,
) -> Patch:
    """A patch of this very object. `unchanged`: only if it is still as it was seen."""
    return Patch(
        resource=resource,
        key=Key(seen.namespace, seen.name),
        patch_type=patch_type,
        body=body,
        subresource=subresource,
        uid=seen.uid,
        resource_version=str(seen.resource_version) if unchanged else "",
    )


def delete_object(
    resource: Resource, seen: Projected, *, unchanged: bool = False, propagation: str = ""
) -> Delete:
    """The deletion of this very object. `unchanged`: only if it is still as it was seen."""
    return Delete(
        resource=resource,
        key=Key(seen.namespace, seen.name),
        uid=seen.uid,
        resource_version=str(seen.resource_version) if unchanged else "",
        propagation=propagation,
    )
