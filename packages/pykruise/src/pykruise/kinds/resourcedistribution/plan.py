"""Decisions about the copies of one resource: the sequence of steps.

DistributionSnapshot ──▶ plan_distribution() ──▶ Plan ──▶ runtime/execute.py
                       targets ▶ one verdict per namespace ▶ create, update ▶ delete outside targets ▶ status

Pure. A plan contains at most one write per namespace. A failed write in one namespace is retried later and does not
delay the other namespaces. Objects that are not copies of this distribution are never written to.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.resourcedistribution.snapshot import (
    DistributionSnapshot,
    ReadableDistributionView,
    ReadableResourceDistribution,
    is_readable,
    make_fixed_remedy,
)
from pykruise.kinds.resourcedistribution.status import (
    CONFLICT_OCCURRED,
    CREATE_FAILED,
    DELETE_FAILED,
    GET_FAILED,
    NAMESPACE_NOT_EXISTS,
    UPDATE_FAILED,
    Failed,
    read_stored_conditions,
    status_of,
)
from pykruise.kinds.resourcedistribution.targets import (
    NEVER,
    is_target,
    list_never_targets,
    list_target_names,
)
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.resourcedistribution.view import DISTRIBUTED, CopyView, DistributionView, read_contents
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, SECRETS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import describe_holders, release_finalizers
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

FROM_ANNOTATION: Final = "kruise.io/resourcedistribution.resource.from"
HASH_ANNOTATION: Final = "kruise.io/resourcedistribution.resource.hashcode"

READ_AGAIN_S: Final = 10.0
"""Seconds until copies that could not be read are read again."""

_WARN_AGAIN_S: Final = 600.0

_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    SECRETS.kind: ("data", "immutable", "type"),
    CONFIG_MAPS.kind: ("binaryData", "data", "immutable"),
}
"""Content fields of a copy, by kind."""


class _Verdicts(msgspec.Struct):
    """Collects the decisions about all namespaces."""

    writes: list[Chain] = []
    deletions: list[Chain] = []
    failed: list[Failed] = []
    skipped: dict[str, Reason] = {}
    succeeded: int = 0
    again_s: float | None = None

    def fail(self, condition: str, namespace: str, reason: Reason) -> None:
        self.failed.append(Failed(condition=condition, namespace=namespace, message=reason.message))
        self.skipped[namespace] = reason

    def look_again(self, seconds: float) -> None:
        self.again_s = seconds if self.again_s is None else min(self.again_s, seconds)


def plan_distribution(snapshot: DistributionSnapshot) -> Plan:
    """Plan all copies, and the status."""
    view = snapshot.distribution
    if view.is_deleting:  # garbage collection deletes the copies because of their owner references
        return Plan()
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.distribution.problem])
    targets = [
        name
        for name in list_target_names(snapshot.distribution, snapshot.namespaces.values())
        if _is_known(name, snapshot)
    ]
    verdicts = _Verdicts()
    for name in list_never_targets(view.included, view.excluded):
        if _is_known(name, snapshot):
            verdicts.skipped[name] = _explain_never_target(name, view)
    for name in targets:
        _distribute(name, snapshot, verdicts)
    for name in sorted(snapshot.copies):
        _clean_up(name, snapshot, verdicts)
    return Plan(
        stages=tuple(_make_stages(verdicts)),
        status=status_of(
            view, desired=len(targets), succeeded=verdicts.succeeded, failed=verdicts.failed, now=snapshot.now
        ),
        requeue_after_s=verdicts.again_s,
        waiting=None if targets else _explain_no_targets(view),
        skipped=verdicts.skipped,
    )


def _explain_no_targets(view: DistributionView) -> Reason:
    words = "spec.targets selects no namespace"
    if view.selector.requirements:
        words = f"{words} (namespaceSelector: {view.selector})"
    return Reason(Code.NO_TARGETS, words)


def _explain_never_target(name: str, view: DistributionView) -> Reason:
    words = "spec.targets names this namespace, but it never receives a copy"
    remedy = (
        f"create {view.kind} {view.copy_name} in namespace {name} by other means (kubectl apply -n {name} -f FILE), or"
        f" remove {name} from spec.targets"
    )
    return Reason(Code.NO_EFFECT, words, remedy)


def _is_known(name: str, snapshot: ReadableResourceDistribution) -> bool:
    """Whether this manager manages the namespace: a manager can be limited to one namespace."""
    return snapshot.only_namespace in ("", name)


def _make_stages(verdicts: _Verdicts) -> Iterator[Stage]:
    for purpose, chains in (
        (Purpose.DISTRIBUTE, verdicts.writes),
        (Purpose.DELETE_COPIES, verdicts.deletions),
    ):
        if chains:
            yield Stage(
                purpose=purpose, chains=tuple(chains), ramp=True, is_independent=True, regardless=True
            )


# ── one namespace ────────────────────────────────────────────────────────────


def _distribute(name: str, snapshot: ReadableResourceDistribution, verdicts: _Verdicts) -> None:
    """Decide about a namespace that should have a copy."""
    view, copy = snapshot.distribution, snapshot.copies.get(name)
    namespace = snapshot.namespaces.get(name)
    if namespace is None or namespace.is_deleting:
        what = "does not exist" if namespace is None else "is being deleted"
        remedy = (
            f"create the namespace (kubectl create namespace {name}), or remove it from spec.targets"
            if namespace is None
            else f"remove namespace {name} from spec.targets, or create the namespace again after its deletion"
        )
        verdicts.fail(
            NAMESPACE_NOT_EXISTS, name, Reason(Code.NO_NAMESPACE, f"namespace {name} {what}", remedy)
        )
    elif copy is not None and not view.owns(copy.controller):
        verdicts.fail(CONFLICT_OCCURRED, name, _explain_taken_name(f"{view.kind} {name}/{copy.name}", copy))
    elif copy is not None and copy.is_deleting:
        _wait_for_deletion(name, view.kind, copy, verdicts)
    elif name in snapshot.unread:
        verdicts.fail(GET_FAILED, name, Reason(Code.WRITE_FAILED, snapshot.unread[name]))
        verdicts.look_again(READ_AGAIN_S)
    elif copy is not None and not copy.content:
        # Another writer has just changed or deleted the copy; an event will report the change.
        verdicts.look_again(READ_AGAIN_S)
    elif copy is not None and copy.content == view.content:
        verdicts.succeeded += 1
    elif copy is not None and copy.is_immutable:
        verdicts.fail(UPDATE_FAILED, name, _explain_fixed_copy(copy))
    elif not _is_held(name, CREATE_FAILED if copy is None else UPDATE_FAILED, snapshot, verdicts):
        verdicts.writes.append(Chain(subject=name, steps=(_write(name, view, copy),)))


def _explain_fixed_copy(copy: CopyView) -> Reason:
    return Reason(
        Code.WRITE_FAILED,
        f"the copy {copy.name} has other contents, and is immutable",
        make_fixed_remedy(copy.name),
    )


def _wait_for_deletion(
    name: str, kind: str, copy: CopyView, verdicts: _Verdicts, *, condition: str = CREATE_FAILED
) -> None:
    """Wait for the event that reports the end of the copy's deletion. If finalizers delay the deletion, report a
    failure.
    """
    message = f"the copy {copy.name} is being deleted"
    if not copy.finalizers:
        verdicts.skipped[name] = Reason(Code.DEPARTING, message)
        return
    remedy = release_finalizers(copy.finalizers, f"{kind} {name}/{copy.name}")
    verdicts.fail(
        condition,
        name,
        Reason(Code.FINALIZER, f"{message}, but {describe_holders(copy.finalizers)} it", remedy),
    )


def _explain_taken_name(what: str, copy: CopyView) -> Reason:
    """Explain why a namespace gets no copy: another object already has the copy's name, and this distribution does not
    own that object.
    """
    owner = copy.controller
    if owner is None:
        message = f"{what} exists, and this distribution did not create it"
        return Reason(
            Code.NAME_TAKEN,
            message,
            f"delete {what} if nothing needs it, or create it again with another name",
        )
    whose = owner.full_name
    if owner.kind != RESOURCE_DISTRIBUTIONS.kind:
        return Reason(
            Code.NAME_TAKEN,
            f"{what} exists, and belongs to {whose}",
            f"change {whose} so that it no longer creates {what}, or remove the namespace from spec.targets, or"
            " distribute the resource by another name",
        )
    whose = f"{owner.kind} {owner.name}"
    return Reason(
        Code.NAME_TAKEN,
        f"{what} exists, and belongs to {whose}",
        f"remove the namespace from spec.targets of this distribution or of {whose}, or distribute the resource by "
        "another name",
    )


def _clean_up(name: str, snapshot: ReadableResourceDistribution, verdicts: _Verdicts) -> None:
    """Decide about a namespace that should have no copy. In a terminating namespace, Kubernetes itself deletes the
    copy.
    """
    view, copy, namespace = snapshot.distribution, snapshot.copies[name], snapshot.namespaces.get(name)
    if namespace is None or namespace.is_deleting or is_target(view, name, namespace.labels):
        return
    if not view.owns(copy.controller):
        return
    if copy.is_deleting:
        _wait_for_deletion(name, view.kind, copy, verdicts, condition=DELETE_FAILED)
        return
    if _is_held(name, DELETE_FAILED, snapshot, verdicts):
        return
    why = "this namespace never gets copies" if name in NEVER else "the namespace is not a target"
    step = Step(
        action=Delete(resource=DISTRIBUTED[view.kind], key=Key(name, copy.name), uid=copy.uid),
        because=why,
        failed=Note(
            reason="DeleteResourceFailed", message=f"failed to delete the copy in {name}", warning=True
        ),
    )
    verdicts.deletions.append(Chain(subject=name, steps=(step,)))


def _is_held(name: str, condition: str, snapshot: ReadableResourceDistribution, verdicts: _Verdicts) -> bool:
    """Whether the last write of this kind failed and must not be retried yet. `condition`: type of the condition that
    reports failures of this kind of write.
    """
    failed = snapshot.failed.get(name)
    if failed is None or failed.condition != condition:
        _keep_failure(name, condition, snapshot, verdicts)
        return False
    verdicts.fail(condition, name, Reason(failed.code, failed.message, failed.remedy))
    if failed.retry_at <= snapshot.now:
        return False
    verdicts.look_again(failed.retry_at - snapshot.now)
    return True


def _keep_failure(
    name: str, condition: str, snapshot: ReadableResourceDistribution, verdicts: _Verdicts
) -> None:
    """Keep a failure that a previous manager stored in the status, until the write succeeds."""
    view, copy = snapshot.distribution, snapshot.copies.get(name)
    if view.stored_status.get("observedGeneration") != view.generation:
        return
    entry = read_stored_conditions(view).get(condition, {})
    if name in (entry.get("failedNamespaces") or ()):
        is_fixed = condition == UPDATE_FAILED and copy is not None and _has_other_type(copy, view)
        remedy = make_fixed_remedy(view.copy_name) if is_fixed else ""
        verdicts.fail(condition, name, Reason(Code.WRITE_FAILED, entry.get("reason") or "", remedy))


def _has_other_type(copy: CopyView, view: ReadableDistributionView) -> bool:
    """Whether the copy is a Secret whose type, which cannot be changed, differs from the requested type."""
    wanted = str(read_contents(view.kind, view.spec.resource).get("type") or "")
    return copy.secret_type not in ("", wanted)


# ── writes ───────────────────────────────────────────────────────────────────


def _write(namespace: str, view: ReadableDistributionView, copy: CopyView | None) -> Step:
    if copy is None:
        return Step(
            action=Create(
                resource=DISTRIBUTED[view.kind],
                key=Key(namespace, view.copy_name),
                body=_make_body(namespace, view),
            ),
            because="the namespace has no copy",
            failed=Note(
                reason="CreateResourceFailed",
                message=f"failed to create the copy in {namespace}",
                warning=True,
            ),
        )
    return Step(
        action=Patch(
            resource=DISTRIBUTED[view.kind],
            key=Key(namespace, view.copy_name),
            patch_type=PatchType.STRATEGIC,
            body=_build_copy_patch(view, copy),
            uid=copy.uid,
            resource_version=str(copy.resource_version),
        ),
        because="the copy differs from spec.resource",
        failed=Note(
            reason="UpdateResourceFailed", message=f"failed to update the copy in {namespace}", warning=True
        ),
    )


def _make_body(namespace: str, view: ReadableDistributionView) -> Document:
    """Build a new copy: the resource as written in the spec, in this namespace."""
    resource = {key: value for key, value in view.spec.resource.items() if key != "status"}
    metadata = {"name": view.copy_name, "namespace": namespace, **_make_metadata(view)}
    return {**resource, "metadata": metadata}


def _build_copy_patch(view: ReadableDistributionView, copy: CopyView) -> Document:
    """Build a strategic merge patch that replaces the contents of the copy, and keeps labels, annotations, finalizers
    and owners that other writers added. The directive `$patch: replace` is set only for fields that the copy has,
    because the API server would drop a field with this directive if the copy lacks the field.
    """
    wanted = read_contents(view.kind, view.spec.resource)
    patch: Document = {"metadata": _make_metadata(view)}
    for field in _FIELDS[view.kind]:
        value: Any = wanted.get(field)
        is_replaced = isinstance(value, dict) and field in copy.has
        patch[field] = {**value, "$patch": "replace"} if is_replaced else value
    return patch


def _make_metadata(view: ReadableDistributionView) -> Document:
    """Metadata of every copy."""
    written = view.spec.resource["metadata"]
    result: Document = {
        "annotations": {
            **(written.get("annotations") or {}),
            FROM_ANNOTATION: view.name,
            HASH_ANNOTATION: view.resource_hash,
        },
        "ownerReferences": [
            build_owner_reference(
                api_version=RESOURCE_DISTRIBUTIONS.api_version,
                kind=RESOURCE_DISTRIBUTIONS.kind,
                name=view.name,
                uid=view.uid,
            )
        ],
    }
    return result | {key: written[key] for key in ("labels", "finalizers") if written.get(key)}
