"""Adoption and release: a controller owns the objects that its selector matches.

owned objects, orphans ──▶ ownership_of() ──▶ Ownership: to keep, to adopt, to release ──▶ plan_ownership()

Pure. This is the rule of Kubernetes' ControllerRefManager.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.values.owners import build_adoption_patch, release_patch
from pykruise.kube.values.selectors import Selector
from pykruise.runtime.actions import Patch
from pykruise.runtime.objects import DocumentView, build_owner_reference_to
from pykruise.runtime.plan import Chain, Stage, Step

__all__ = ["ADOPT", "RELEASE", "Owned", "Ownership", "check_still_there", "ownership_of", "plan_ownership"]

ADOPT: Final = "adopt"
RELEASE: Final = "release"
"""Purposes of stages."""


class Owned(Protocol):
    """Resources that a controller may own."""

    @property
    def key(self) -> Key: ...
    @property
    def uid(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def is_deleting(self) -> bool: ...


T = TypeVar("T", bound=Owned)


class Ownership(msgspec.Struct, Generic[T], frozen=True):
    """Objects of one resource, divided by their owner's selector."""

    kept: Sequence[T]
    adopted: Sequence[T] = ()
    released: Sequence[T] = ()

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to adopt or release."""
        return not self.adopted and not self.released


def ownership_of(
    owner: DocumentView, selector: Selector, owned: Iterable[T], orphans: Iterable[T]
) -> Ownership[T]:
    """Divide objects by the owner's selector. An owner that is being deleted neither adopts nor releases."""
    if owner.is_deleting:
        return Ownership(tuple(owned))
    kept: list[T] = []
    released: list[T] = []
    for item in owned:
        (kept if selector.matches(item.labels) else released).append(item)
    adopted = [orphan for orphan in orphans if not orphan.is_deleting and selector.matches(orphan.labels)]
    return Ownership(kept, adopted, released)


def plan_ownership(
    owner: DocumentView, resource: Resource, of: Resource, ownership: Ownership[Any]
) -> tuple[Stage, ...]:
    """Return the stages that adopt and release; none if there is nothing to do. `resource`: the owner's resource,
    which has a status subresource; `of`: the resource of the owned objects.
    """
    stages: list[Stage] = []
    if ownership.released:
        chains = tuple(
            _patch_chain(
                of,
                item,
                release_patch(owner_uid=owner.uid, uid=item.uid),
                "the selector no longer matches the object",
            )
            for item in ownership.released
        )
        stages.append(Stage(purpose=RELEASE, chains=chains, is_independent=True))
    if ownership.adopted:
        reference = build_owner_reference_to(resource, owner)
        chains = tuple(
            _patch_chain(
                of,
                item,
                build_adoption_patch(reference, uid=item.uid),
                "the selector matches the object, which has no controller",
            )
            for item in ownership.adopted
        )
        seen = str(owner.resource_version)
        check = check_still_there(resource, owner.key, uid=owner.uid, resource_version=seen)
        stages += [check, Stage(purpose=ADOPT, chains=chains, is_independent=True)]
    return tuple(stages)


def check_still_there(
    resource: Resource, key: Key, *, uid: str, resource_version: str, purpose: str = ADOPT
) -> Stage:
    """Return a stage with an empty patch of the owner. The API server rejects the patch if the owner was deleted,
    replaced or changed, for example if it is terminating: objects that it adopts then would be deleted with it.
    """
    action = Patch(
        resource=resource,
        key=key,
        patch_type=PatchType.MERGE,
        body={},
        subresource="status",
        uid=uid,
        resource_version=resource_version,
    )
    step = Step(action=action, because="check that the owner still exists and is unchanged")
    return Stage(purpose=purpose, chains=(Chain(subject="", steps=(step,)),))


def _patch_chain(of: Resource, owned: Owned, body: dict[str, Any], because: str) -> Chain:
    action = Patch(resource=of, key=owned.key, patch_type=PatchType.STRATEGIC, body=body, uid=owned.uid)
    return Chain(subject=owned.key.name, steps=(Step(action=action, because=because),))
