"""Objects of any kind as whole documents, for controllers without types for their objects.

make_object_views(resource)      ──▶ Views[DocumentView] ──▶ caches
control_of(resource, plan)       ──▶ Control, for decisions that need only the object itself
build_owner_reference_to(…, view) ──▶ owner reference for its children

Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.owners import OwnerReference, build_owner_reference, controller_of
from pykruise.runtime.control import Control
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_CONTROLLER, BY_NAMESPACE, ORPHANS, Views
from pykruise.runtime.wakes import wake_itself

__all__ = [
    "BY_UID",
    "INDEXES",
    "DocumentView",
    "Seen",
    "build_owner_reference_to",
    "control_of",
    "make_absent_document",
    "make_object_views",
    "project_document",
]

BY_UID: Final = "uid"
"""Index: the uid."""


class DocumentView(msgspec.Struct, frozen=True, kw_only=True):
    """An object as a controller reads it: the whole document, which must not be modified."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    doc: Document

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def metadata(self) -> Document:
        """`metadata`."""
        metadata: Document = self.doc["metadata"]
        return metadata

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """`metadata.annotations`."""
        return self.metadata.get("annotations") or {}

    @property
    def finalizers(self) -> Sequence[str]:
        """`metadata.finalizers`."""
        return self.metadata.get("finalizers") or ()

    @property
    def spec(self) -> Document:
        """`spec`."""
        return self.doc.get("spec") or {}

    @property
    def status(self) -> Document:
        """`status`."""
        return self.doc.get("status") or {}

    @property
    def generation(self) -> int:
        """`metadata.generation`; 0 when the kind has none."""
        return int(self.metadata.get("generation") or 0)

    @property
    def created_at(self) -> str:
        """`metadata.creationTimestamp`."""
        return str(self.metadata.get("creationTimestamp") or "")

    @property
    def is_deleting(self) -> bool:
        """Whether its deletion has begun."""
        return self.metadata.get("deletionTimestamp") is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The managing owner."""
        return controller_of(self.doc)

    @property
    def owner_uid(self) -> str:
        """The uid of the managing owner, or empty."""
        result = self.controller
        return result.uid if result else ""

    @property
    def stored_status(self) -> Document:
        """`status` in the form that reconcile.py expects."""
        return self.status

    def count(self, *path: str, default: int = 0) -> int:
        """Return a whole number from the document."""
        return int(get_path(self.doc, *path, default=default))


def project_document(raw: bytes | msgspec.Raw) -> DocumentView:
    """Return the view of any object. Raises ValueError when the text is not an object."""
    doc = decode(raw)
    metadata = doc["metadata"]
    return DocumentView(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        doc=doc,
    )


def make_absent_document(key: Key) -> DocumentView:
    """Return the view of an object that does not exist, for a Control's `absent`: without a uid."""
    return DocumentView(
        namespace=key.namespace, name=key.name, uid="", resource_version=0, doc={"metadata": {}}
    )


INDEXES: Final[Mapping[str, Callable[[DocumentView], Iterable[str]]]] = {
    BY_UID: lambda view: (view.uid,),
    BY_CONTROLLER: lambda view: (view.owner_uid,) if view.owner_uid else (),
    ORPHANS: lambda view: () if view.owner_uid else (view.namespace,),
    BY_NAMESPACE: lambda view: (view.namespace,),
}
"""Indexes of the views that `make_object_views` returns."""


def make_object_views(resource: Resource) -> Views[DocumentView]:
    """Return views of a resource's objects as documents: the same value in each call, so that all work of a program
    shares one cache of the resource.
    """
    return _make_views(resource)


@cache
def _make_views(resource: Resource) -> Views[DocumentView]:
    return Views(resource=resource, projector=lambda: project_document, indexes=INDEXES)


def build_owner_reference_to(resource: Resource, view: DocumentView) -> Document:
    """Return the owner reference for objects that this object controls."""
    return build_owner_reference(
        api_version=resource.api_version, kind=resource.kind, name=view.name, uid=view.uid
    )


class Seen(msgspec.Struct, frozen=True):
    """Snapshot of a decision that needs only the object itself."""

    object: DocumentView
    now: Instant


async def _read_seen(view: DocumentView, read: Read[Any]) -> Seen:
    return Seen(view, read.now())


def control_of(resource: Resource, plan: Callable[[Seen], Plan], *, name: str = "") -> Control:
    """Return a control that calls `plan` for each event of an object. `name`: name in logs; empty: the resource's
    plural.
    """
    views = make_object_views(resource)
    return Control(
        name=name or resource.plural,
        component=name or resource.plural,
        objects=views,
        wakes=lambda _: (wake_itself(views),),
        snapshot=_read_seen,
        object_of=lambda seen: seen.object,
        plan=plan,
    )
