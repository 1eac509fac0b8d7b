"""Owner references of all known objects, in both directions, updated change by change.

raw bytes ──▶ project_meta() ──▶ MetaView;  a change ──▶ OwnerGraph.update() ──▶ dependents, blocking, foreground

Pure. No operation is quadratic in the number of dependents, because the dependents that block an owner are counted.
"""

from typing import NamedTuple, Protocol

import msgspec

from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.runtime.control import ObjectView
from pykruise.sandbox.pod_view import OwnerRef

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class GraphObject(ObjectView, Protocol):
    """Fields of an object that the graph needs; a shared cache must project to a type with these fields."""

    @property
    def owners(self) -> tuple[OwnerRef, ...]: ...
    @property
    def finalizers(self) -> tuple[str, ...]: ...


class MetaView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The metadata that garbage collection depends on."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: int = 0
    is_deleting: bool = False
    owners: tuple[OwnerRef, ...] = ()
    finalizers: tuple[str, ...] = ()


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerRef, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta = _Meta()


_decode = msgspec.json.Decoder(_Object).decode


def project_meta(raw: bytes | msgspec.Raw) -> MetaView:
    """Project the bytes of any object to its metadata. Raises msgspec.DecodeError."""
    meta = _decode(raw).metadata
    return MetaView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        is_deleting=meta.deletion_timestamp is not None,
        owners=meta.owner_references or (),
        finalizers=meta.finalizers or (),
    )


class ObjectId(NamedTuple):
    """One object of any resource."""

    resource: Resource
    key: Key

    def __str__(self) -> str:
        return f"{self.resource} {self.key}"


class OwnerGraph:
    """Owner references of all known objects in both directions, updated change by change."""

    def __init__(self) -> None:
        self.dependents: dict[str, dict[ObjectId, bool]] = {}
        """Dependents by owner UID. The value: whether the dependent blocks the owner's foreground deletion."""
        self.blocking: dict[str, int] = {}
        """Number of blocking dependents by owner UID."""
        self.ids: dict[str, ObjectId] = {}
        """Known objects by UID."""
        self.foreground: dict[str, ObjectId] = {}
        """Objects that wait for their dependents, by UID."""

    def update(self, target: ObjectId, old: GraphObject | None, new: GraphObject | None) -> None:
        """Apply one change."""
        if old is not None and (new is None or new.uid != old.uid):
            self.ids.pop(old.uid, None)
            self.foreground.pop(old.uid, None)
        if new is not None:
            self.ids[new.uid] = target
            if new.is_deleting and FOREGROUND in new.finalizers:
                self.foreground[new.uid] = target
            else:
                self.foreground.pop(new.uid, None)
        before = old.owners if old is not None else ()
        after = new.owners if new is not None else ()
        if before is not after and before != after:
            for ref in before:
                self._remove_reference(ref, target)
            for ref in after:
                self._add_reference(ref, target)

    def _add_reference(self, ref: OwnerRef, target: ObjectId) -> None:
        blocks = bool(ref.block_owner_deletion)
        known = self.dependents.setdefault(ref.uid, {})
        if known.get(target):
            return  # the object names this owner twice
        known[target] = blocks
        if blocks:
            self.blocking[ref.uid] = self.blocking.get(ref.uid, 0) + 1

    def _remove_reference(self, ref: OwnerRef, target: ObjectId) -> None:
        known = self.dependents.get(ref.uid)
        if known is None:
            return
        if known.pop(target, False):
            left = self.blocking[ref.uid] - 1
            if left:
                self.blocking[ref.uid] = left
            else:
                del self.blocking[ref.uid]
        if not known:
            del self.dependents[ref.uid]
