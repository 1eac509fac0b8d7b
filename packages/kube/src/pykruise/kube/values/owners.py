"""Owner references: the controller of an object, and the patches that adopt or release the object.

document ──▶ controller_of() ──▶ OwnerReference
uid, owner ──▶ build_adoption_patch() / release_patch() ──▶ a strategic merge patch, which the caller sends

Pure. Both patches carry the dependent's uid: an API server rejects them with 409 when the name now belongs to another
object.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import group_of

__all__ = [
    "OwnerReference",
    "build_adoption_patch",
    "build_owner_reference",
    "controller_of",
    "is_controlled_by",
    "is_owned_by",
    "read_owner_references",
    "release_patch",
]


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An entry of `metadata.ownerReferences`. In JSON: `apiVersion`, `kind`, `name`, `uid`, ..."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def group(self) -> str:
        """The API group; "" for the core group."""
        return group_of(self.api_version) or ""

    def to_document(self) -> Document:
        """Return the reference as an object contains it."""
        plain: Document = msgspec.to_builtins(self)
        return plain


def read_owner_references(doc: Mapping[str, Any]) -> list[OwnerReference]:
    """Return all owners of an object, in their order. Raises ValueError for an invalid entry."""
    refs = (doc.get("metadata") or {}).get("ownerReferences") or []
    try:
        return msgspec.convert(refs, list[OwnerReference])
    except msgspec.ValidationError as err:
        raise ValueError(f"metadata.ownerReferences: {err}") from err


def controller_of(doc: Mapping[str, Any]) -> OwnerReference | None:
    """Return the owner that controls the object (`controller: true`), or None. The API server allows at most one."""
    for ref in (doc.get("metadata") or {}).get("ownerReferences") or ():
        if ref.get("controller") is True:
            return OwnerReference(
                api_version=ref.get("apiVersion", ""),
                kind=ref.get("kind", ""),
                name=ref.get("name", ""),
                uid=ref.get("uid", ""),
                controller=True,
                block_owner_deletion=ref.get("blockOwnerDeletion"),
            )
    return None


def is_controlled_by(doc: Mapping[str, Any], uid: str) -> bool:
    """Whether the owner with this uid controls the object."""
    controller = controller_of(doc)
    return controller is not None and controller.uid == uid


def is_owned_by(doc: Mapping[str, Any], uid: str) -> bool:
    """Whether the uid is among the owners, controlling or not (garbage collection uses this)."""
    refs = (doc.get("metadata") or {}).get("ownerReferences") or ()
    return any(ref.get("uid") == uid for ref in refs)


def build_owner_reference(
    *,
    api_version: str,
    kind: str,
    name: str,
    uid: str,
    controller: bool = True,
    block_owner_deletion: bool = True,
) -> Document:
    """Return an entry for `metadata.ownerReferences`, by default with `controller` and `blockOwnerDeletion`.

    False flags are left out, as a typed Kubernetes client would.
    """
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=name,
        uid=uid,
        controller=controller or None,
        block_owner_deletion=block_owner_deletion or None,
    ).to_document()


def build_adoption_patch(owner: Mapping[str, Any], *, uid: str, finalizers: Sequence[str] = ()) -> Document:
    """Return a strategic merge patch that adds `owner` (see `build_owner_reference`) to the object with this `uid`."""
    metadata: Document = {"ownerReferences": [dict(owner)], "uid": uid}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def release_patch(*, owner_uid: str, uid: str, finalizers: Sequence[str] = ()) -> Document:
    """Return a strategic merge patch that removes the owner with `owner_uid` from the object with this `uid`.

    It also removes `finalizers`.
    """
    metadata: Document = {"ownerReferences": [{"$patch": "delete", "uid": owner_uid}], "uid": uid}
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": metadata}
