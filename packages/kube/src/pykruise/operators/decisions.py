"""Inputs and outputs of an operator's plan function, as values that a test can build and compare.

Observed ──▶ plan() ──▶ Desired
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.models.model import Model, parse
from pykruise.kube.resources import Resource
from pykruise.operators.children import Child
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.plan import Note
from pykruise.runtime.reasons import Reason

__all__ = ["Desired", "DesiredReason", "Observed"]

M = TypeVar("M")


def _knows_nothing(_resource: Resource, _key: Key) -> DocumentView | None:
    return None


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """All data that a decision about one object reads.

    A test builds it with `object` and `owned`. In a program, it is filled from caches, which already contain the latest
    writes of the operator.
    """

    object: DocumentView
    owned: Mapping[Resource, Sequence[DocumentView]] = {}
    """Children by resource, for the resources in `operator(owns=)`; also children that no plan wants any more."""
    now: Instant = 0.0
    """Seconds since 1970."""
    lookup: Callable[[Resource, Key], DocumentView | None] = _knows_nothing
    """Finds an object of any owner by resource and key, in the resources that `operator(owns=)` names."""

    def children(self, resource: Resource) -> Sequence[DocumentView]:
        """Return the owned objects of a resource."""
        return self.owned.get(resource, ())

    def child(self, resource: Resource, name: str) -> DocumentView | None:
        """Return an owned object by its name; None: it does not exist."""
        return next((view for view in self.children(resource) if view.name == name), None)

    def as_model(self, model: type[M]) -> M:
        """Return the object as a typed value: a class of `pykruise-kube models`, or a msgspec Struct.

        A Struct drops fields that it does not have. Raises msgspec.ValidationError with the path of a field
        that has the wrong type.
        """
        if issubclass(model, Model):
            return parse(model, self.object.doc)
        return msgspec.convert(self.object.doc, model)


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """The state that an object and its children should have."""

    children: Iterable[Child] = ()
    """All objects that the object should own. Children that the operator wrote, and that are not among them, are
    deleted. Two children of one resource, namespace and name are a ValueError.
    """
    status: Document | None = None
    """The whole status; None: the stored status stays."""
    events: tuple[Note, ...] = ()
    """Events to record. If every plan returns the same event, set `Note.again_after_s`; otherwise each reconcile
    records it again.
    """
    waiting: Reason | None = None
    """Reason for which the object waits; while there is one, the finalizer is not removed."""
    requeue_after_s: float | None = None
    """Seconds until the next plan, even if nothing changes before; None: only a change starts one."""


class DesiredReason(StrEnum):
    """Codes of the reasons for which this package itself waits."""

    NAME_TAKEN = "NameTaken"
    """An object with the name of a child exists, and belongs to another owner or to none."""
    CHILDREN_TERMINATING = "ChildrenTerminating"
    """A terminating object waits until its children are deleted."""
