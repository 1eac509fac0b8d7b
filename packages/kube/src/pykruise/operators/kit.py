"""A Work from a plan function: children become creations, patches and deletions with preconditions.

snapshot() ──▶ Observed ──▶ the operator's plan ──▶ Desired ──▶ _to_plan() ──▶ Plan

    the finalizer ──▶ children that should exist ──▶ deletion of the others
    the status: reported at the same time

Writes of one stage run concurrently. A child that is being deleted stays unchanged: its end enqueues the owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.values.counts import format_count
from pykruise.operators.children import Child, build_child_document, is_applied_by, namespace_of, patch_of
from pykruise.operators.decisions import Desired, DesiredReason, Observed
from pykruise.runtime.actions import Action, Create, delete_object, patch_object
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView, make_object_views
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import Reason
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import wake_itself, wake_owner

__all__ = ["operator"]

PlanFunction = Callable[[Observed], Desired]

_Children = Mapping[tuple[Resource, Key], Child]

_TAKEN_AGAIN_S = 300.0
"""Seconds until a taken name is checked again: events of the object that has the name do not enqueue the owner."""


def operator(
    resource: Resource,
    plan: PlanFunction,
    *,
    owns: Sequence[Resource] = (),
    finalizer: str = "",
    finalize: PlanFunction = lambda _: Desired(),
    name: str = "",
) -> Work:
    """Return the work of an operator for one kind.

    `plan`: a pure function, called for each event of an object or of its children. `owns`: resources of the children.
    `finalizer`: a name such as `example.com/site`; the object stays until the children that this operator wrote, and
    that `finalize` does not want, are deleted, and until the result of `finalize` has no `waiting`. Empty: Kubernetes'
    garbage collection deletes the children. `name`: name in logs, metrics, events and the children's annotation
    `APPLIED_BY`; empty: the resource's plural. Two operators for one resource must have two names, since each deletes
    the children with its name that its plan does not return. Raises ValueError for a finalizer without `/`.
    """
    if finalizer and "/" not in finalizer:
        raise ValueError(f"finalizer {finalizer!r}: write a domain and a name, such as example.com/site")
    views = make_object_views(resource)
    owned = tuple((child, make_object_views(child)) for child in dict.fromkeys(owns))
    name = name or resource.plural
    kit = _Kit(name=name, resource=resource, plan=plan, finalize=finalize, finalizer=finalizer, owned=owned)
    control = Control(
        name=name,
        component=name,
        objects=views,
        reads=lambda _: tuple(item for _, item in owned),
        wakes=lambda _: (wake_itself(views), *(wake_owner(item, resource) for _, item in owned)),
        snapshot=kit.snapshot,
        object_of=lambda observed: observed.object,
        plan=kit.decide,
    )
    return Work(resource=resource, control=control)


class _Kit(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    resource: Resource
    plan: PlanFunction
    finalize: PlanFunction
    finalizer: str
    owned: tuple[tuple[Resource, Views[DocumentView]], ...]

    async def snapshot(self, view: DocumentView, read: Read[Any]) -> Observed:
        """Look up the object's children in caches: no request is sent."""
        views = dict(self.owned)

        def lookup(resource: Resource, key: Key) -> DocumentView | None:
            return read.get(views[resource], key) if resource in views else None

        owned = {resource: tuple(read.list_owned(item, view.uid)) for resource, item in self.owned}
        return Observed(object=view, owned=owned, now=read.now(), lookup=lookup)

    def decide(self, observed: Observed) -> Plan:
        """Decide about one object."""
        view = observed.object
        if not view.is_deleting:
            desired = self.plan(observed)
            children = _index_children(desired.children, view)
            return self._to_plan(observed, desired, children, first=self._add_finalizer(view))
        if not self.finalizer or self.finalizer not in view.finalizers:
            return Plan()
        return self._end(observed, self.finalize(observed))

    def _end(self, observed: Observed, desired: Desired) -> Plan:
        """Return the plan for a terminating object: the finalizer is removed last."""
        children = _index_children(desired.children, observed.object)
        plan = self._to_plan(observed, desired, children, first=())
        if plan.stages or plan.waiting is not None:
            return plan
        left = [
            f"{resource.kind} {view.name}"
            for resource, views in observed.owned.items()
            for view in views
            if (resource, view.key) not in children and is_applied_by(view, self.name)
        ]
        if left:
            message = (
                f"{format_count(len(left), 'object is', 'objects are')} not deleted yet, such as {left[0]}"
            )
            reason = Reason(DesiredReason.CHILDREN_TERMINATING, message)
            return msgspec.structs.replace(plan, waiting=reason)
        step = self._plan_finalizers(
            observed.object,
            [name for name in observed.object.finalizers if name != self.finalizer],
            because="everything that the object owned is deleted",
        )
        return msgspec.structs.replace(
            plan, stages=(_build_stage("remove the finalizer", [step]),), status=None
        )

    def _add_finalizer(self, view: DocumentView) -> tuple[Stage, ...]:
        if not self.finalizer or self.finalizer in view.finalizers:
            return ()
        names = [*view.finalizers, self.finalizer]
        step = self._plan_finalizers(
            view, names, because="the deletion of the object must wait for the objects that it owns"
        )
        return (_build_stage("add the finalizer", [step]),)

    def _plan_finalizers(self, view: DocumentView, names: Sequence[str], *, because: str) -> Step:
        body = {"metadata": {"finalizers": list(names)}}
        # The patch replaces a list that other controllers write too.
        return Step(action=patch_object(self.resource, view, body, unchanged=True), because=because)

    def _to_plan(
        self, observed: Observed, desired: Desired, children: _Children, *, first: tuple[Stage, ...]
    ) -> Plan:
        view = observed.object
        waiting, notes = desired.waiting, list(desired.events)
        writes: list[Step] = []
        owned = {(resource, item.key): item for resource, views in observed.owned.items() for item in views}
        known = {resource for resource, _ in self.owned}
        for (resource, key), child in children.items():
            if resource not in known:
                raise LookupError(f"operator(owns=) does not name {resource.kind}, which a plan returned")
            stored = owned.get((resource, key))
            if stored is None and (other := observed.lookup(resource, key)) is not None:
                waiting = _name_taken(resource, other)
                notes.append(_note_of(waiting))
            elif (action := self._write_of(child, key, view, stored)) is not None:
                writes.append(_build_step(action, resource, child.name))
        unwanted = list(_plan_deletions(observed, children, operator=self.name))
        stages = [*first, *([_build_stage("write children", writes)] if writes else ())]
        if unwanted:
            stages.append(_build_stage("delete children", unwanted))
        again_s = desired.requeue_after_s
        if waiting is not None and waiting.code == DesiredReason.NAME_TAKEN:
            again_s = _TAKEN_AGAIN_S if again_s is None else min(again_s, _TAKEN_AGAIN_S)
        return Plan(
            stages=tuple(stages),
            status=desired.status,
            waiting=waiting,
            notes=tuple(notes),
            requeue_after_s=again_s,
        )

    def _write_of(
        self, child: Child, key: Key, owner: DocumentView, stored: DocumentView | None
    ) -> Action | None:
        if stored is None:
            body = build_child_document(child, self.resource, owner, operator=self.name)
            return Create(resource=child.resource, key=key, body=body)
        if stored.is_deleting or (patch := patch_of(child, stored, operator=self.name)) is None:
            return None
        return patch_object(child.resource, stored, patch, patch_type=PatchType.MERGE)


def _index_children(children: Iterable[Child], owner: DocumentView) -> _Children:
    """Return the children by resource and key. Raises ValueError if one of them occurs twice."""
    result: dict[tuple[Resource, Key], Child] = {}
    for child in children:
        key = Key(namespace_of(child, owner), child.name)
        if (child.resource, key) in result:
            raise ValueError(f"the plan for {owner.key} returned {child.resource.kind} {key} twice")
        result[child.resource, key] = child
    return result


def _plan_deletions(observed: Observed, children: _Children, *, operator: str) -> Iterator[Step]:
    for resource, views in observed.owned.items():
        for view in views:
            is_unwanted = (resource, view.key) not in children and is_applied_by(view, operator)
            if not is_unwanted or view.is_deleting:
                continue
            yield Step(
                action=delete_object(resource, view, propagation="Background"),
                because="the spec of the object no longer requires it",
                done=Note(reason="Deleted", message=f"deleted {resource.kind} {view.name}"),
            )


def _build_step(action: Action, resource: Resource, name: str) -> Step:
    verb = "created" if isinstance(action, Create) else "changed"
    return Step(
        action=action,
        because="the spec of the object requires it",
        done=Note(reason=verb.capitalize(), message=f"{verb} {resource.kind} {name}"),
    )


def _build_stage(purpose: str, steps: Sequence[Step]) -> Stage:
    chains = tuple(Chain(subject=step.action.key.name, steps=(step,)) for step in steps)
    return Stage(purpose=purpose, chains=chains, is_independent=True)


def _name_taken(resource: Resource, other: DocumentView) -> Reason:
    message = f"{resource.kind} {other.name} exists, and this object does not own it"
    remedy = f"delete {resource.kind} {other.name}, or create this object again with another name"
    return Reason(DesiredReason.NAME_TAKEN, message, remedy)


def _note_of(reason: Reason) -> Note:
    return Note(reason=reason.code, message=reason.full_message, warning=True, again_after_s=_TAKEN_AGAIN_S)
