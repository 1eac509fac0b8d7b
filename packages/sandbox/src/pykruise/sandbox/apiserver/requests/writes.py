"""POST, PUT and PATCH of objects.

Call ──▶ decode ──▶ (mutating admission) ──▶ the kind's rules, metadata, validation ──▶ (validating admission)
     ──▶ Core.put() ──▶ CallAnswer

An update reads, changes and writes the object without an await in between. If the update has to wait for admission, it
reads the object again afterwards. If the object has changed meanwhile, the update starts again.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, deep_copy, encode_canonical
from pykruise.kube.errors import Cause
from pykruise.kube.schemas.served_fields import ServedFields
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.access.attributes import Attributes
from pykruise.sandbox.apiserver.builtin import pods
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects import metadata
from pykruise.sandbox.apiserver.objects.lifecycle import check_namespace
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.plugins import builtin as plugins
from pykruise.sandbox.apiserver.plugins import limits, pod_security
from pykruise.sandbox.apiserver.requests import decoding
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, check_write_options
from pykruise.sandbox.apiserver.requests.deletion import is_deleting_with_update, remove_with_update
from pykruise.sandbox.apiserver.requests.patching import read_patch
from pykruise.sandbox.apiserver.requests.statuses import (
    MODIFIED_MEANWHILE,
    Refusal,
    make_already_exists,
    make_bad_request,
    make_conflict,
    make_internal_error,
    make_invalid,
    make_not_found,
    make_not_while_terminating,
    make_unclassified_error,
)

_NAME_ATTEMPTS: Final = 8
_CONFLICT_ATTEMPTS: Final = 5

Change = Callable[[Document, Stored], Document | Awaitable[Document]]
"""Builds the wanted object from a new document of the current object and from the stored object. It may change the
document. It is called again if the object has changed in the meantime.
"""

Tracks = Callable[[Call, Stored, Document, Document, Instant], Awaitable[bytes]]
"""Returns the owners after a change, from the call, the stored object, the old and the new document, and the time."""


# --- POST ----------------------------------------


async def create(core: Core, call: Call) -> CallAnswer:
    """Create the object in the body. Respond 201 with the object. Raises Refusal."""
    check_write_options(call, "CreateOptions")
    doc = decoding.decode_body(call)
    return await create_document(core, call, doc)


async def create_document(
    core: Core, call: Call, doc: Document, *, managed: bytes | None = None
) -> CallAnswer:
    """Create an object that is already in canonical shape. `managed`: the owners of its fields, if they are known."""
    entry, strategy = call.entry, call.entry.strategy
    if entry.crd and entry.terminating:
        raise make_not_while_terminating(entry.resource)
    meta: dict[str, Any] = doc["metadata"]
    metadata.wipe(meta)
    _set_namespace(call, meta)
    check_namespace(core, call, meta)
    doc = strategy.default(doc)
    now = core.clock()
    doc["metadata"].pop("managedFields", None)
    asked = _copy_shallow(doc) if managed is None else doc
    if core.service_accounts and entry.shelf == "pods":
        from pykruise.sandbox.apiserver.plugins.pod_accounts import await_default_account

        await await_default_account(core, call, doc)
    doc = plugins.admit(core, call, doc, None)
    doc = await _run_mutating(core, call, "CREATE", doc, None)
    meta = doc["metadata"]
    # The identity is set first, because a kind's own rules may use it (a Job's selector contains its uid).
    metadata.stamp_new(meta, uid=metadata.make_uid(core.rng), now=now)
    generated = not meta.get("name") and bool(meta.get("generateName"))
    if generated:
        _generate_free_name(core, call, meta)
    doc = strategy.prepare_create(strategy.drop_disabled(doc))
    meta = doc["metadata"]
    kept = core.ownership.record_creation(call, asked, doc, now) if managed is None else managed
    if strategy.is_spec_changed(doc, doc) is not None:
        meta["generation"] = 1
    causes = [
        *metadata.validate_new(entry.resource, meta, custom=entry.is_custom),
        *strategy.validate_create(doc),
    ]
    if causes:
        raise _make_invalid_refusal(call, doc, causes)
    if entry.is_custom:
        call.warnings.extend(metadata.list_finalizer_advice(meta))
    pod_security.check(core, call, doc, None)
    await _run_validating(core, call, "CREATE", doc, None)
    limits.check(core, call, doc, None)
    if meta.get("resourceVersion"):
        if meta["resourceVersion"] != "0":
            raise make_unclassified_error("resourceVersion should not be set on objects to be created")
        del meta["resourceVersion"]
    if core.get(entry, call.namespace, meta["name"]) is not None:
        raise make_already_exists(entry.resource, meta["name"])
    if call.dry_run:
        return CallAnswer(201, core.preview(call, doc, kept))
    stored_doc = await core.encode_for_storage(entry, doc)
    # Another request may have created the object while the converter ran.
    if entry.converter is not None and core.get(entry, call.namespace, meta["name"]) is not None:
        raise make_already_exists(entry.resource, meta["name"])
    stored = core.put(entry, None, stored_doc, managed=kept)
    return CallAnswer(201, await core.answer(call, stored))


def _copy_shallow(doc: Document) -> Document:
    """Copy the document, its metadata and its spec, because the rules of kinds set members there."""
    asked = dict(doc)
    for member in ("metadata", "spec"):
        if isinstance(part := doc.get(member), dict):
            asked[member] = dict(part)
    return asked


def _make_invalid_refusal(call: Call, doc: Document, causes: Sequence[Cause]) -> Refusal:
    """Build the Refusal. It names a custom object by the object's own kind and group, even if these are wrong."""
    kind, group = call.entry.resource.kind, call.entry.resource.group
    if call.entry.is_custom:
        kind = str(doc.get("kind") or "")
        group = str(doc.get("apiVersion") or "").rpartition("/")[0]
    return make_invalid(kind, group, doc["metadata"].get("name") or "", causes)


def _set_namespace(call: Call, meta: dict[str, Any]) -> None:
    """Set the object's namespace to that of the request. Another namespace in the object is an error."""
    said = meta.get("namespace") or ""
    if said == call.namespace:
        if not said:
            meta.pop("namespace", None)
        return
    if not said:
        meta["namespace"] = call.namespace
    elif not call.entry.resource.namespaced:
        del meta["namespace"]
    else:
        raise make_bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _generate_free_name(core: Core, call: Call, meta: dict[str, Any]) -> None:
    """Generate a name that is not in use. If eight generated names are in use, the creation fails."""
    for _ in range(_NAME_ATTEMPTS):
        meta["name"] = metadata.generate_name(meta["generateName"], core.rng)
        if core.get(call.entry, call.namespace, meta["name"]) is None:
            return


# --- PUT ----------------------------------------


async def replace_object(core: Core, call: Call) -> CallAnswer:
    """PUT: replace the object with the one in the body. Raises Refusal."""
    check_write_options(call, "UpdateOptions")
    doc = decoding.decode_body(call)
    _set_namespace(call, doc["metadata"])
    check_name(call, doc["metadata"])
    raw = encode_canonical(doc)
    entry = call.entry
    if core.get(entry, call.namespace, call.name) is None:
        if not (entry.create_on_update and not call.subresource):
            raise make_not_found(entry.resource, call.name)
        uid = doc["metadata"].get("uid")
        if uid:
            raise _make_uid_conflict(call, uid, "")
        check_may_create(core, call)
        return await create_document(core, call, doc)
    return await modify(core, call, lambda doc, stored: decode(raw), replaces=True)


def check_may_create(core: Core, call: Call) -> None:
    """Check that a user who writes to an object that does not exist may create it. Raises Refusal (403)."""
    if core.authorizer is not None and not call.user.is_master:
        resource = call.entry.resource
        asked = Attributes(
            user=call.user,
            verb="create",
            group=resource.group,
            resource=resource.plural,
            namespace=call.namespace,
            name=call.name,
        )
        core.authorizer.check(asked)


def check_name(call: Call, meta: dict[str, Any]) -> None:
    """Check that the object's name and namespace are those of the request. Raises Refusal."""
    name = meta.get("name") or ""
    if not name:
        raise make_bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise make_bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )
    namespace = meta.get("namespace") or ""
    if call.namespace and namespace and namespace != call.namespace:
        raise make_bad_request(
            f"the namespace of the object ({namespace}) does not match the namespace on the request "
            f"({call.namespace})"
        )


def _make_uid_conflict(call: Call, wanted: str, text: str) -> Refusal:
    """Build the conflict with the message of a real API server's storage layer."""
    where = f"{call.namespace}/{call.name}" if call.namespace else call.name
    group = call.entry.resource.group
    prefix = f"{group}/" if call.entry.is_custom else ""
    return make_conflict(
        call.entry.resource,
        call.name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{prefix}{call.entry.resource.plural}/{where}"
        f", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {text}",
    )


# --- PATCH ----------------------------------------


async def patch(core: Core, call: Call) -> CallAnswer:
    """PATCH: apply the patch to the object. Raises Refusal."""
    wanted = read_patch(call, call.entry.definition)
    if core.get(call.entry, call.namespace, call.name) is None:
        raise make_not_found(call.entry.resource, call.name)

    touches_managed = b"managedFields" in (call.body or b"")

    def patched(doc: Document, stored: Stored) -> Document:
        if touches_managed:
            doc = core.ownership.add_managed_fields(call.entry, doc, stored.managed, stored=stored)
        # Members that the patch does not touch have been valid since they were stored, so they are neither copied
        # nor decoded again.
        if touches_managed and _clears_managed(patched_doc := wanted.apply(deep_copy(doc))):
            patched_doc["metadata"]["managedFields"] = [{}]
            return decoding.decode_patch(call, patched_doc, {})
        untouched = {member: doc.pop(member) for member in wanted.list_untouched(doc)}
        return decoding.decode_patch(call, wanted.apply(doc), untouched)

    return await modify(core, call, patched, untouched=wanted.list_untouched)


def _clears_managed(doc: Document) -> bool:
    """Whether the patch leaves an empty list of managers, which removes all managers."""
    meta = doc.get("metadata")
    return isinstance(meta, dict) and meta.get("managedFields") == []


# --- common parts of PUT and PATCH ----------------------------------------


async def modify(
    core: Core,
    call: Call,
    change: Change,
    *,
    replaces: bool = False,
    show: Callable[[Document], Document] | None = None,
    tracks: Tracks | None = None,
    untouched: Callable[[Document], Iterable[str]] | None = None,
) -> CallAnswer:
    """Change the object of the call through the endpoint of the call. Raises Refusal.

    `replaces`: the change is a PUT, whose uid is a precondition. `show` builds the response's document from the object.
    `tracks` computes the owners of fields, for a change that determines them itself. `untouched`: the members that the
    change does not touch; the old and the new document share them.
    """
    entry = call.entry
    for _ in range(_CONFLICT_ATTEMPTS):
        stored = core.get(entry, call.namespace, call.name)
        if stored is None:
            raise make_not_found(entry.resource, call.name)
        old = await core.load(entry, stored)
        if untouched is not None and entry.converter is None:
            # Metadata is always copied, because later steps write to it.
            fresh = core.decode_beside(entry, stored, old, {*untouched(old)} - {"metadata"})
        else:
            fresh = await core.load(entry, stored)
        made = change(fresh, stored)
        new = made if isinstance(made, dict) else await made
        if replaces and (uid := new["metadata"].get("uid")) and uid != stored.uid:
            raise _make_uid_conflict(call, uid, stored.uid)
        new, managed = await update(core, call, stored, old, new, tracks=tracks)
        if is_deleting_with_update(entry, new, old):
            if core.get(entry, call.namespace, call.name) is not stored:
                continue
            body = core.preview(call, new, managed, stored=stored)
            if not call.dry_run:
                remove_with_update(core, entry, stored)
        elif call.dry_run:
            body = core.preview(call, new, managed, stored=stored)
        else:
            stored_doc = await core.encode_for_storage(entry, new)
            if core.get(entry, call.namespace, call.name) is not stored:
                continue
            body = await core.answer(call, core.put(entry, stored, stored_doc, managed=managed))
        return CallAnswer(200, encode_canonical(show(decode(body))) if show else body)
    raise make_conflict(entry.resource, call.name, MODIFIED_MEANWHILE)


async def update(
    core: Core, call: Call, stored: Stored, old: Document, new: Document, *, tracks: Tracks | None = None
) -> tuple[Document, bytes]:
    """Return the new object after admission, the rules of its kind and validation, and the owners of its fields.

    Raises Refusal.
    """
    entry, strategy = call.entry, call.entry.strategy
    meta: dict[str, Any] = new["metadata"]
    _set_namespace(call, meta)
    check_name(call, meta)
    new = strategy.default_changed(new, old)
    track = tracks or core.ownership.record_change
    # A resize accepts only a few fields. Owners are tracked after all other fields have been restored.
    late = call.subresource == "resize"
    managed = b"" if late else await track(call, stored, old, new, core.clock())
    new = plugins.admit(core, call, new, old)
    new = await _run_mutating(core, call, "UPDATE", new, old)
    meta = new["metadata"]
    _check_revision(call, meta, stored)
    metadata.copy_immutable_fields(meta, old["metadata"])
    rules = _choose_rules(call)
    new = rules.prepare(new, old)
    if late:
        managed = await track(call, stored, old, new, core.clock())
    if rules.counts and strategy.is_spec_changed(new, old):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
    meta = new["metadata"]
    meta["resourceVersion"] = str(stored.revision)
    causes = [*metadata.validate_changed(meta, old["metadata"]), *rules.validate(new, old)]
    if causes:
        raise _make_invalid_refusal(call, new, causes)
    if entry.is_custom:
        call.warnings.extend(metadata.list_finalizer_advice(meta, old["metadata"]))
    pod_security.check(core, call, new, old)
    await _run_validating(core, call, "UPDATE", new, old)
    limits.check(core, call, new, old)
    return new, managed


class _Rules(NamedTuple):
    """Rules of an endpoint: accepted fields, checks, and whether its writes can increase the generation."""

    prepare: Callable[[Document, Document], Document]
    validate: Callable[[Document, Document], list[Cause]]
    counts: bool


def _choose_rules(call: Call) -> _Rules:
    strategy = call.entry.strategy
    match call.subresource:
        case "status":
            return _Rules(strategy.prepare_status_update, strategy.validate_status_update, counts=False)
        case "resize":
            assert isinstance(strategy, pods.PodStrategy)
            return _Rules(strategy.resize, strategy.check_resize, counts=True)
        case "ephemeralcontainers":
            assert isinstance(strategy, pods.PodStrategy)
            return _Rules(strategy.add_ephemeral_containers, strategy.check_ephemeral_containers, counts=True)
        case "finalize":
            return _Rules(_keep_status, _check_nothing, counts=False)
        case _:
            prepare = strategy.prepare_update
            return _Rules(
                lambda new, old: prepare(strategy.drop_disabled(new), old),
                strategy.validate_update,
                counts=True,
            )


def _keep_status(new: Document, old: Document) -> Document:
    if "status" in old:
        new["status"] = old["status"]
    return new


def _check_nothing(new: Document, old: Document) -> list[Cause]:
    return []


def _check_revision(call: Call, meta: dict[str, Any], stored: Stored) -> None:
    """Optimistic concurrency: the new object's resourceVersion, if any, must be the current one."""
    said = meta.get("resourceVersion") or ""
    if said in ("", "0"):
        if call.entry.unconditional_update:
            return
        cause = Cause(
            reason="FieldValueInvalid",
            message="Invalid value: 0x0: must be specified for an update",
            field="metadata.resourceVersion",
        )
        resource = call.entry.resource
        raise make_invalid(resource.plural, resource.group, call.name, [cause])
    if said == str(stored.revision):
        return
    if not (said.isascii() and said.isdigit()):
        raise make_unclassified_error(f"strconv.ParseUint: parsing {quote_text(said)}: invalid syntax")
    raise make_conflict(call.entry.resource, call.name, MODIFIED_MEANWHILE)


# --- admission ----------------------------------------


async def _run_mutating(
    core: Core, call: Call, operation: str, doc: Document, old: Document | None
) -> Document:
    """Run the mutating reviewers. Return their object, decoded to its kind's shape."""
    entry = call.entry
    if not core.admission.concerns(entry.resource, call.subresource, operation):
        return doc
    verdict = await core.admission.mutate(review(core, call, operation, doc, old))
    call.warnings.extend(verdict.warnings)
    if not verdict.changed or verdict.object is None:
        return doc
    try:
        doc, _ = decoding.to_typed(entry, verdict.object)
        doc["metadata"].pop("managedFields", None)
    except ValueError as err:
        raise make_internal_error(f"failed calling webhook: {err}") from err
    return plugins.admit(core, call, entry.strategy.default(doc), old)


async def _run_validating(
    core: Core, call: Call, operation: str, doc: Document, old: Document | None
) -> None:
    if core.admission.concerns(call.entry.resource, call.subresource, operation):
        verdict = await core.admission.validate(review(core, call, operation, doc, old))
        call.warnings.extend(verdict.warnings)


def review(
    core: Core, call: Call, operation: str, doc: Document | None, old: Document | None
) -> AdmissionRequest:
    """Build the request for the reviewers."""
    meta = (doc or old or {}).get("metadata") or {}
    return AdmissionRequest(
        uid=metadata.make_uid(core.rng),
        operation=operation,
        resource=call.entry.resource,
        subresource=call.subresource,
        namespace=call.namespace,
        name=call.name or meta.get("name") or "",
        username=call.user.name,
        extra=call.user.extra,
        groups=call.user.groups,
        object=doc,
        old_object=old,
        dry_run=call.dry_run,
        served=ServedFields(core.catalog.minor),
    )
