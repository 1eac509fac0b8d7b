"""DELETE: immediate, graceful, or when the last finalizer is removed.

Call ──▶ delete() / delete_collection() ──▶ marks (deletionTimestamp, finalizers) or removes ──▶ CallAnswer
writes.py ──▶ is_deleting_with_update() ──▶ the update that removes the last finalizer removes the object

Same rules as apiserver's `registry/generic` store, with its special rules for namespaces and CRDs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.lifecycle import check_not_immortal
from pykruise.sandbox.apiserver.objects.metadata import FOREGROUND, ORPHAN, make_uid
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, make_unsupported_dry_run
from pykruise.sandbox.apiserver.requests.encoding import encode_object, list_body
from pykruise.sandbox.apiserver.requests.negotiation import read_body
from pykruise.sandbox.apiserver.requests.selection import selection_of
from pykruise.sandbox.apiserver.requests.statuses import (
    MODIFIED_MEANWHILE,
    Refusal,
    build_success_document,
    make_bad_request,
    make_conflict,
    make_invalid_options,
    make_not_found,
    make_unclassified_error,
)

CRD_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that keeps a CRD until its objects are deleted."""

_ATTEMPTS: Final = 5
_PODS_STAY: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to "
    "remove them or set propagationPolicy=Orphan to suppress this warning"
)
_ORPHANS_BY_DEFAULT: Final = ("replicationcontrollers", "jobs.batch")
_WITHOUT_GARBAGE_COLLECTION: Final = ("events",)


class DeletionOptions(NamedTuple):
    """Options of a deletion. None and empty mean that the client did not set the option."""

    uid: str = ""
    resource_version: str = ""
    grace_s: int | None = None
    propagation: str = ""
    orphan_dependents: bool | None = None
    dry_run: bool = False

    def to_document(self) -> dict[str, Any]:
        """Return the `DeleteOptions` that registry strategies and admission read."""
        doc: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace_s is not None:
            doc["gracePeriodSeconds"] = self.grace_s
        if self.propagation:
            doc["propagationPolicy"] = self.propagation
        if self.dry_run:
            doc["dryRun"] = ["All"]
        return doc


# --- options ----------------------------------------


def options_of(call: Call) -> DeletionOptions:
    """Read the options from the body, or from the query when there is no body. Raises Refusal."""
    doc = read_body(call.headers, call.body, what="DeleteOptions") if call.body else _from_query(call.query)
    kind = doc.get("kind")
    if kind not in (None, "", "DeleteOptions"):
        version = doc.get("apiVersion") or ""
        raise make_unclassified_error(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:100"'
        )
    preconditions = _read_typed_member(doc, "preconditions", dict) or {}
    dry_run = _read_typed_member(doc, "dryRun", list) or []
    options = DeletionOptions(
        uid=_read_typed_member(preconditions, "uid", str) or "",
        resource_version=_read_typed_member(preconditions, "resourceVersion", str) or "",
        grace_s=_read_typed_member(doc, "gracePeriodSeconds", int),
        propagation=_read_typed_member(doc, "propagationPolicy", str) or "",
        orphan_dependents=_read_typed_member(doc, "orphanDependents", bool),
        dry_run=bool(dry_run) or call.dry_run,
    )
    _check_options(options, dry_run)
    return options


def _check_options(options: DeletionOptions, dry_run: Sequence[Any]) -> None:
    result: list[Cause] = []
    policies = ["Foreground", "Background", "Orphan"]
    if options.orphan_dependents is not None and options.propagation:
        text = "orphanDependents and deletionPropagation cannot be both set"
        result.append(causes.make_invalid_error("propagationPolicy", options.propagation, text))
    if options.propagation and options.propagation not in policies:
        result.append(
            causes.make_not_supported_error("propagationPolicy", options.propagation, [*policies, "nil"])
        )
    if any(each != "All" for each in dry_run):
        result.append(make_unsupported_dry_run(dry_run))
    if result:
        raise make_invalid_options("DeleteOptions", result)


def _from_query(query: Mapping[str, str]) -> Document:
    doc: Document = {}
    if text := query.get("gracePeriodSeconds"):
        try:
            doc["gracePeriodSeconds"] = int(text)
        except ValueError:
            raise make_bad_request(f"strconv.ParseInt: parsing {quote_text(text)}: invalid syntax") from None
    if text := query.get("propagationPolicy"):
        doc["propagationPolicy"] = text
    if text := query.get("orphanDependents"):
        doc["orphanDependents"] = text.lower() not in ("0", "false")
    if text := query.get("dryRun"):
        doc["dryRun"] = [text]
    return doc


def _read_typed_member(doc: Mapping[str, Any], member: str, kind: type) -> Any:
    value = doc.get(member)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    raise make_bad_request(
        f"DeleteOptions cannot be read: {member} must be {'an' if kind is int else 'a'} {kind.__name__}"
    )


# --- DELETE of an object and of a collection ----------------------------------------


async def delete(core: Core, call: Call) -> CallAnswer:
    """Delete the object that the call names. Raises Refusal."""
    options = options_of(call)
    check_not_immortal(call)
    if call.entry.shelf == "jobs.batch" and not options.propagation and options.orphan_dependents is None:
        call.warnings.append(_PODS_STAY)
    return await delete_stored(core, call, options)


async def delete_collection(core: Core, call: Call) -> CallAnswer:
    """Delete the objects that the selectors match, sequentially. Return the list of their previous states."""
    selection = selection_of(call.entry, call.query)
    query = {name: call.query[name] for name in call.query if name not in ("labelSelector", "fieldSelector")}
    options = options_of(_replace(call, query=query))
    page = core.storage.scan(call.entry.shelf, namespace=call.namespace)
    meant = [stored for stored in page.items if selection.matches(stored)]
    for stored in meant:
        item = _replace(call, name=stored.key.name, namespace=stored.key.namespace)
        try:
            check_not_immortal(item)
            await delete_stored(core, item, options)
        except Refusal as refusal:
            # Another request was faster, and the object is already deleted.
            if refusal.code != 404:
                raise
    raws = [await core.answer(call, stored) for stored in meant]
    return CallAnswer(200, list_body(call.entry, raws, revision=page.revision), is_object=False)


def _replace(call: Call, **changes: Any) -> Call:
    from msgspec.structs import replace

    return replace(call, **changes)


async def delete_stored(
    core: Core, call: Call, options: DeletionOptions, *, ask_reviewers: bool = True
) -> CallAnswer:
    """Mark or remove the object that the call names, as the options require. Raises Refusal."""
    entry = call.entry
    for _ in range(_ATTEMPTS):
        stored = core.get(entry, call.namespace, call.name)
        if stored is None:
            raise make_not_found(entry.resource, call.name)
        check_preconditions(call, options, stored)
        if ask_reviewers:
            await _run_reviewers(core, call, options, stored)
        if core.get(entry, call.namespace, call.name) is stored:
            return await _delete_now(core, call, options, stored)
    raise make_conflict(entry.resource, call.name, MODIFIED_MEANWHILE)


def check_preconditions(call: Call, options: DeletionOptions, stored: Stored) -> None:
    """Reject (409) the deletion of another object with the same name, or of an object that has changed."""
    kind = call.entry.resource.kind
    if options.uid and options.uid != stored.uid:
        text = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise make_conflict(call.entry.resource, call.name, text, of=kind)
    if options.resource_version and options.resource_version != str(stored.revision):
        text = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({stored.revision}). The object might have been modified"
        )
        raise make_conflict(call.entry.resource, call.name, text, of=kind)


async def _run_reviewers(core: Core, call: Call, options: DeletionOptions, stored: Stored) -> None:
    entry = call.entry
    if not core.admission.concerns(entry.resource, "", "DELETE"):
        return
    request = AdmissionRequest(
        uid=make_uid(core.rng),
        operation="DELETE",
        resource=entry.resource,
        namespace=call.namespace,
        name=call.name,
        username=call.user.name,
        extra=call.user.extra,
        groups=call.user.groups,
        old_object=await core.load(entry, stored),
        dry_run=options.dry_run,
        options=options.to_document(),
    )
    for ask in (core.admission.mutate, core.admission.validate):
        call.warnings.extend((await ask(request)).warnings)


async def _delete_now(core: Core, call: Call, options: DeletionOptions, stored: Stored) -> CallAnswer:
    """Delete the object. Nothing awaits before the commit, so no other request can change the object in between."""
    entry = call.entry
    doc = decode(stored.raw)
    meta: dict[str, Any] = doc["metadata"]
    if entry.shelf == "namespaces":
        ending = _mark_namespace(doc, options, core.clock())
    elif entry.shelf == "customresourcedefinitions.apiextensions.k8s.io":
        ending = _mark_crd(doc, core.clock())
    else:
        ending = _mark_object(entry, doc, options, core.clock())
    match ending:
        case "pending":
            return await _build_answer(core, call, stored, stored.raw)
        case "mark":
            if options.dry_run:
                return CallAnswer(200, await _render(core, call, encode_object(doc), stored))
            marked = core.put(
                entry, stored, doc, managed=_compute_managers_of_marked(core, entry, stored, doc)
            )
            status = 202 if options.orphan_dependents is False else 200
            return CallAnswer(status, await core.answer(call, marked))
        case "mark and remove":
            # Watchers get both events: a forced deletion is recorded before the removal.
            if not options.dry_run:
                stored = core.put(entry, stored, doc)
    if options.dry_run:
        meta.setdefault("resourceVersion", str(stored.revision))
        return await _build_answer(core, call, stored, encode_object(doc))
    return await _build_answer(core, call, stored, core.remove(entry, stored))


async def _render(core: Core, call: Call, raw: bytes, stored: Stored) -> bytes:
    """Render another state of the stored object as the call requests."""
    shown = await core.show(call.entry, raw)
    return core.ownership.show(call.entry, shown, stored) if call.shows_managed else shown


def _compute_managers_of_marked(core: Core, entry: CatalogEntry, stored: Stored, doc: Document) -> bytes:
    """Return the field managers of a marked object. No manager owns the finalizers that the server adds."""
    if not doc["metadata"].get("finalizers"):
        return stored.managed
    return core.ownership.record_server_change(entry, stored.managed, decode(stored.raw), doc)


async def _build_answer(core: Core, call: Call, stored: Stored, raw: bytes) -> CallAnswer:
    """Respond with the object in `raw` for kinds that return it, else with a Status."""
    if call.entry.returns_deleted:
        return CallAnswer(200, await _render(core, call, raw, stored))
    resource = call.entry.resource
    status = build_success_document(
        name=stored.key.name, group=resource.group, kind=resource.plural, uid=stored.uid
    )
    return CallAnswer(200, orjson.dumps(status), is_object=False)


# --- stages of a deletion ----------------------------------------


def _mark_object(entry: CatalogEntry, doc: Document, options: DeletionOptions, now: Instant) -> str:
    """Mark the document as the deletion requires, and return the next step:

    `pending` (it is being deleted already), `mark`, `mark and remove`, or `remove`.
    """
    meta: dict[str, Any] = doc["metadata"]
    graceful = entry.strategy.compute_grace_period(doc, options.to_document())
    grace = 0
    if graceful is not None:
        if meta.get("deletionTimestamp"):
            current = meta.get("deletionGracePeriodSeconds") or 0
            if current == 0:
                graceful = None
            elif options.grace_s is None or options.grace_s >= current:
                return "pending"
            else:
                # The grace period can only get shorter. It begins when the deletion begins.
                begun = parse_time(meta["deletionTimestamp"]) - current
                grace = max(options.grace_s, 0)
                meta["deletionTimestamp"] = format_time(begun + grace)
                meta["deletionGracePeriodSeconds"] = grace
        else:
            grace = graceful
            meta["deletionTimestamp"] = format_time(now + grace)
            meta["deletionGracePeriodSeconds"] = grace
            _count_generation(meta)
    changed = _set_dependents_finalizers(entry, meta, options)
    if graceful is not None:
        return "mark" if meta.get("finalizers") or grace > 0 else "mark and remove"
    if meta.get("finalizers"):
        if meta.get("deletionTimestamp") and not changed:
            return "mark"
        _mark_terminating(meta, now)
        return "mark"
    return "remove"


def _mark_terminating(meta: dict[str, Any], now: Instant) -> None:
    """Mark the object as terminating, without a grace period, because it only waits for its finalizers."""
    if not meta.get("deletionTimestamp"):
        _count_generation(meta)
        meta["deletionTimestamp"] = format_time(now)
    elif parse_time(meta["deletionTimestamp"]) > now:
        meta["deletionTimestamp"] = format_time(now)
    meta["deletionGracePeriodSeconds"] = 0


def _count_generation(meta: dict[str, Any]) -> None:
    """Increase the generation, because a deletion changes the desired state."""
    if meta.get("generation"):
        meta["generation"] += 1


def _set_dependents_finalizers(entry: CatalogEntry, meta: dict[str, Any], options: DeletionOptions) -> bool:
    """Set the finalizers that tell the garbage collector how to treat dependents. Return whether they changed."""
    if entry.shelf in _WITHOUT_GARBAGE_COLLECTION:
        return False
    old = meta.get("finalizers") or []
    new = [name for name in old if name not in (ORPHAN, FOREGROUND)]
    if _wants_finalizer(options, ORPHAN, old, default=entry.shelf in _ORPHANS_BY_DEFAULT):
        new.append(ORPHAN)
    elif _wants_finalizer(options, FOREGROUND, old, default=False):
        new.append(FOREGROUND)
    if set(new) == set(old):
        return False
    if new:
        meta["finalizers"] = new
    else:
        meta.pop("finalizers", None)
    return True


def _wants_finalizer(
    options: DeletionOptions, finalizer: str, present: Sequence[str], *, default: bool
) -> bool:
    """Whether the deletion needs the finalizer. An explicit option decides, else the object's finalizers, else the
    default.
    """
    if options.orphan_dependents is not None:
        return finalizer == ORPHAN and options.orphan_dependents
    if options.propagation:
        return options.propagation == ("Orphan" if finalizer == ORPHAN else "Foreground")
    for name in present:
        if name in (ORPHAN, FOREGROUND):
            return name == finalizer
    return default


def _mark_namespace(doc: Document, options: DeletionOptions, now: Instant) -> str:
    """Mark a namespace: it is Terminating until its content is deleted and spec.finalizers is empty."""
    meta: dict[str, Any] = doc["metadata"]
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = format_time(now)
        doc.setdefault("status", {})["phase"] = "Terminating"
        keep = [name for name in meta.get("finalizers") or [] if name not in (ORPHAN, FOREGROUND)]
        if options.propagation == "Orphan" or options.orphan_dependents:
            keep.append(ORPHAN)
        elif options.propagation == "Foreground":
            keep.append(FOREGROUND)
        if keep:
            meta["finalizers"] = keep
        else:
            meta.pop("finalizers", None)
        return "mark"
    if (doc.get("spec") or {}).get("finalizers"):
        return "pending"
    if meta.get("finalizers"):
        meta["deletionGracePeriodSeconds"] = 0
        return "mark"
    return "remove"


def _mark_crd(doc: Document, now: Instant) -> str:
    """Mark a CRD: it waits for its objects, in addition to its other finalizers."""
    meta: dict[str, Any] = doc["metadata"]
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = format_time(now)
        finalizers = meta.setdefault("finalizers", [])
        if CRD_CLEANUP not in finalizers:
            finalizers.append(CRD_CLEANUP)
        conditions = doc.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [each for each in conditions if each.get("type") != "Terminating"]
        conditions.append(
            {
                "type": "Terminating",
                "status": "True",
                "lastTransitionTime": format_time(now),
                "reason": "InstanceDeletionPending",
                "message": (
                    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                ),
            }
        )
        return "mark"
    if meta.get("finalizers"):
        meta["deletionGracePeriodSeconds"] = 0
        return "mark"
    return "remove"


def is_deleting_with_update(entry: CatalogEntry, new: Document, old: Document) -> bool:
    """Whether an update removes the last finalizer of a terminating object, so that the object must be removed."""
    meta, before = new["metadata"], old["metadata"]
    if not before.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if (before.get("deletionGracePeriodSeconds") or 0) > 0:
        return False
    if entry.shelf == "namespaces":
        return not (new.get("spec") or {}).get("finalizers")
    return True


def remove_with_update(core: Core, entry: CatalogEntry, stored: Stored) -> None:
    """Remove the object. Watchers see its state before the update, as on a real API server."""
    core.remove(entry, stored)
