"""POST, PUT and PATCH of objects.

Call ──▶ decode ──▶ (mutating admission) ──▶ defaults, kind's rules, metadata ──▶ validate ──▶ (validating admission)
     ──▶ Core.put() ──▶ Answer

Updates read, change and write without letting anyone in between; where admission makes them wait, they look again,
and start over when the object has changed meanwhile.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, canonical, decode
from pykruise.kube.errors import Cause
from pykruise.kube.patches.errors import PatchError
from pykruise.kube.patches.json_patch import apply_json_patch
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.patches.strategic import apply_strategic_merge
from pykruise.kube.patches.types import PatchType
from pykruise.sandbox.apiserver import causes, decoding, metadata
from pykruise.sandbox.apiserver.builtin import pods
from pykruise.sandbox.apiserver.calls import Answer, Call, check_write_options, flag
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.deletion import deletes_with_update, remove_with_update
from pykruise.sandbox.apiserver.lifecycle import check_namespace
from pykruise.sandbox.apiserver.negotiation import BODY_LIMIT, parse_json
from pykruise.sandbox.apiserver.statuses import (
    MODIFIED_MEANWHILE,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    internal_error,
    invalid,
    method_not_supported,
    not_found,
    request_entity_too_large,
    unclassified_error,
    unprocessable,
    unsupported_media_type,
)
from pykruise.sandbox.apiserver.storage import Stored

__all__ = ["Change", "apply_patch", "create", "modify", "patch", "patcher", "replace", "update"]

_NAME_ATTEMPTS: Final = 8
_CONFLICT_ATTEMPTS: Final = 5

Change = Callable[[Document], Document]
"""Makes the wanted object of the present one, which it leaves alone. Called again when the object changed meanwhile."""


# --- POST -------------------------------------------------------------------------------------------------------


async def create(core: Core, call: Call) -> Answer:
    """Create the object in the body. 201 with the object. Raises Refusal."""
    check_write_options(call, "CreateOptions")
    doc = decoding.of_body(call)
    return await create_document(core, call, doc)


async def create_document(core: Core, call: Call, doc: Document) -> Answer:
    """Create an object that is in canonical shape already."""
    entry, strategy = call.entry, call.entry.strategy
    if entry.crd and entry.terminating:
        raise method_not_supported(
            entry.resource, "create not allowed while custom resource definition is terminating"
        )
    meta: dict[str, Any] = doc["metadata"]
    metadata.wipe(meta)
    _own_namespace(call, meta)
    check_namespace(core, call, meta)
    doc = strategy.default(doc)
    doc = await _mutated(core, call, "CREATE", doc, None)
    meta = doc["metadata"]
    # Identity first: a kind's own rules may lean on it (a Job's selector holds its uid).
    metadata.stamp_new(meta, uid=metadata.new_uid(core.rng), now=core.clock())
    generated = not meta.get("name") and bool(meta.get("generateName"))
    if generated:
        _name(core, call, meta)
    doc = strategy.prepare_create(doc)
    meta = doc["metadata"]
    if strategy.spec_changed(doc, doc) is not None:
        meta["generation"] = 1
    found = [*metadata.validate_new(entry.resource, meta), *strategy.validate_create(doc)]
    if found:
        raise invalid(entry.resource.kind, entry.resource.group, meta.get("name") or "", found)
    await _validated(core, call, "CREATE", doc, None)
    if meta.get("resourceVersion"):
        if meta["resourceVersion"] != "0":
            raise unclassified_error("resourceVersion should not be set on objects to be created")
        del meta["resourceVersion"]
    if core.get(entry, call.namespace, meta["name"]) is not None:
        raise already_exists(entry.resource, meta["name"])
    if call.dry_run:
        return Answer(201, canonical(doc))
    stored_doc = await core.for_storage(entry, doc)
    if core.get(entry, call.namespace, meta["name"]) is not None:  # a converter may have let others in
        raise already_exists(entry.resource, meta["name"])
    stored = core.put(entry, None, stored_doc)
    return Answer(201, await core.show(entry, stored.raw))


def _own_namespace(call: Call, meta: dict[str, Any]) -> None:
    """The object's namespace is that of the request; saying another is an error."""
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
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _name(core: Core, call: Call, meta: dict[str, Any]) -> None:
    """Generate a name that is free; after eight tries the last one stands, and creation says it is taken."""
    for _ in range(_NAME_ATTEMPTS):
        meta["name"] = metadata.generate_name(meta["generateName"], core.rng)
        if core.get(call.entry, call.namespace, meta["name"]) is None:
            return


# --- PUT --------------------------------------------------------------------------------------------------------


async def replace(core: Core, call: Call) -> Answer:
    """PUT: the body is the object from now on. Raises Refusal."""
    check_write_options(call, "UpdateOptions")
    doc = decoding.of_body(call)
    _check_name(call, doc["metadata"])
    raw = canonical(doc)
    entry = call.entry
    if core.get(entry, call.namespace, call.name) is None:
        if not (entry.create_on_update and not call.subresource):
            raise not_found(entry.resource, call.name)
        uid = doc["metadata"].get("uid")
        if uid:
            raise _wrong_uid(call, uid, "")
        return await create_document(core, call, doc)
    return await modify(core, call, lambda _: decode(raw), replaces=True)


def _check_name(call: Call, meta: dict[str, Any]) -> None:
    name = meta.get("name") or ""
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    namespace = meta.get("namespace") or ""
    if call.namespace and namespace and namespace != call.namespace:
        raise bad_request(
            f"the namespace of the object ({namespace}) does not match the namespace on the request ({call.namespace})"
        )


def _wrong_uid(call: Call, wanted: str, found: str) -> Refusal:
    """The words are those of a real API server's storage layer."""
    where = f"{call.namespace}/{call.name}" if call.namespace else call.name
    group = call.entry.resource.group
    prefix = f"{group}/" if call.entry.is_custom else ""
    return conflict(
        call.entry.resource,
        call.name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{prefix}{call.entry.resource.plural}/{where}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {found}",
    )


# --- PATCH ------------------------------------------------------------------------------------------------------


async def patch(core: Core, call: Call) -> Answer:
    """PATCH: change the object as the patch says. Raises Refusal."""
    change = patcher(call, call.entry.definition)
    if core.get(call.entry, call.namespace, call.name) is None:
        raise not_found(call.entry.resource, call.name)
    return await modify(core, call, lambda doc: decoding.of_patch(call, change(doc)))


def patcher(call: Call, definition: str) -> Change:
    """What the patch in the body does to a document. An empty `definition` knows no strategic merge.

    Raises Refusal: 400 for a body that is no patch, 413, 415; the returned function raises the patch's own failures.
    """
    media = (call.headers.get("content-type") or "").partition(";")[0].strip()
    taken = [PatchType.JSON, PatchType.MERGE, *([PatchType.STRATEGIC] if definition else []), PatchType.APPLY]
    if media not in taken:
        raise unsupported_media_type([str(kind) for kind in taken])
    kind = PatchType(media)
    if kind is PatchType.APPLY:
        raise unsupported_media_type([str(each) for each in taken if each is not PatchType.APPLY])
    if flag(call.query, "force"):
        cause = causes.forbidden("force", "may not be specified for non-apply patch")
        check_write_options(call, "PatchOptions", [cause])
    check_write_options(call, "PatchOptions")
    body = call.body or b""
    if len(body) > BODY_LIMIT:
        raise request_entity_too_large(BODY_LIMIT)
    value = parse_json(body)
    if not isinstance(value, list if kind is PatchType.JSON else dict):
        wanted = "a list of operations" if kind is PatchType.JSON else "an object"
        raise bad_request(f"error decoding patch: {kind} must be {wanted}")
    return lambda doc: apply_patch(kind, doc, value, definition=definition)


def apply_patch(kind: PatchType, doc: Document, value: Any, *, definition: str) -> Document:
    """The patched document. Raises Refusal (400, 413, 422) for a patch that does not fit."""
    try:
        match kind:
            case PatchType.JSON:
                return apply_json_patch(doc, value)
            case PatchType.MERGE:
                return apply_merge_patch(doc, value)
            case _:
                return apply_strategic_merge(doc, value, definition=definition)
    except PatchError as err:
        _refuse_patch(kind, err)
    except RecursionError as err:
        raise bad_request("the patch is nested too deep") from err


def _refuse_patch(kind: PatchType, err: PatchError) -> NoReturn:
    if err.code == 413:
        raise Refusal(
            msgspec.structs.replace(request_entity_too_large(0).status, message=str(err))
        ) from err
    if err.code == 400:
        raise bad_request(str(err)) from err
    if err.code == 422:
        raise unprocessable(str(err)) from err
    raise unclassified_error(str(err)) from err


# --- what PUT and PATCH share -----------------------------------------------------------------------------------


async def modify(
    core: Core,
    call: Call,
    change: Change,
    *,
    replaces: bool = False,
    show: Callable[[Document], Document] | None = None,
) -> Answer:
    """Change the object of the call through its main or status endpoint. Raises Refusal.

    `replaces`: the change is a PUT, whose uid is a precondition. `show` makes the answer's document of the object.
    """
    entry = call.entry
    for _ in range(_CONFLICT_ATTEMPTS):
        stored = core.get(entry, call.namespace, call.name)
        if stored is None:
            raise not_found(entry.resource, call.name)
        old = await core.load(entry, stored)
        new = change(old)
        if replaces and (uid := new["metadata"].get("uid")) and uid != stored.uid:
            raise _wrong_uid(call, uid, stored.uid)
        new = await update(core, call, stored, old, new)
        if deletes_with_update(entry, new, old):
            if core.get(entry, call.namespace, call.name) is not stored:
                continue
            body = canonical(new)
            if not call.dry_run:
                remove_with_update(core, entry, stored)
        elif call.dry_run:
            body = canonical(new)
        else:
            stored_doc = await core.for_storage(entry, new)
            if core.get(entry, call.namespace, call.name) is not stored:
                continue
            body = await core.show(entry, core.put(entry, stored, stored_doc).raw)
        return Answer(200, canonical(show(decode(body))) if show else body)
    raise conflict(entry.resource, call.name, MODIFIED_MEANWHILE)


async def update(core: Core, call: Call, stored: Stored, old: Document, new: Document) -> Document:
    """The new object after admission, the rules of its kind and validation. Raises Refusal."""
    entry, strategy = call.entry, call.entry.strategy
    meta: dict[str, Any] = new["metadata"]
    _own_namespace(call, meta)
    _check_name(call, meta)
    new = strategy.default(new)
    new = await _mutated(core, call, "UPDATE", new, old)
    meta = new["metadata"]
    _check_revision(call, meta, stored)
    metadata.carry_over(meta, old["metadata"])
    rules = _rules_of(call)
    new = rules.prepare(new, old)
    if rules.counts and strategy.spec_changed(new, old):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
    meta = new["metadata"]
    meta["resourceVersion"] = str(stored.revision)
    found = [*metadata.validate_changed(meta, old["metadata"]), *rules.validate(new, old)]
    if found:
        raise invalid(entry.resource.kind, entry.resource.group, call.name, found)
    await _validated(core, call, "UPDATE", new, old)
    return new


class _Rules(NamedTuple):
    """What an endpoint lets through and checks, and whether it counts generations."""

    prepare: Callable[[Document, Document], Document]
    validate: Callable[[Document, Document], list[Cause]]
    counts: bool


def _rules_of(call: Call) -> _Rules:
    strategy = call.entry.strategy
    match call.subresource:
        case "status":
            return _Rules(strategy.prepare_status_update, strategy.validate_status_update, counts=False)
        case "resize":
            return _Rules(pods.resize, pods.check_resize, counts=True)
        case "ephemeralcontainers":
            return _Rules(pods.add_ephemeral_containers, pods.check_ephemeral_containers, counts=True)
        case _:
            return _Rules(strategy.prepare_update, strategy.validate_update, counts=True)


def _check_revision(call: Call, meta: dict[str, Any], stored: Stored) -> None:
    """Optimistic concurrency: a resourceVersion in the new object must be the present one."""
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
        raise invalid(resource.plural, resource.group, call.name, [cause])
    if said == str(stored.revision):
        return
    if not (said.isascii() and said.isdigit()):
        raise bad_request(f"strconv.ParseUint: parsing {causes.go_quote(said)}: invalid syntax")
    raise conflict(call.entry.resource, call.name, MODIFIED_MEANWHILE)


# --- admission --------------------------------------------------------------------------------------------------


async def _mutated(core: Core, call: Call, operation: str, doc: Document, old: Document | None) -> Document:
    """The object as the mutating reviewers want it, back in its kind's shape."""
    entry = call.entry
    if not core.admission.concerns(entry.resource, call.subresource, operation):
        return doc
    verdict = await core.admission.mutate(review(core, call, operation, doc, old))
    call.warnings.extend(verdict.warnings)
    if not verdict.changed or verdict.object is None:
        return doc
    try:
        doc, _ = decoding.typed(entry, verdict.object)
    except ValueError as err:
        raise internal_error(f"failed calling webhook: {err}") from err
    return entry.strategy.default(doc)


async def _validated(core: Core, call: Call, operation: str, doc: Document, old: Document | None) -> None:
    if core.admission.concerns(call.entry.resource, call.subresource, operation):
        verdict = await core.admission.validate(review(core, call, operation, doc, old))
        call.warnings.extend(verdict.warnings)


def review(core: Core, call: Call, operation: str, doc: Document | None, old: Document | None) -> AdmissionRequest:
    """What reviewers are asked."""
    meta = (doc or old or {}).get("metadata") or {}
    return AdmissionRequest(
        uid=metadata.new_uid(core.rng),
        operation=operation,
        resource=call.entry.resource,
        subresource=call.subresource,
        namespace=call.namespace,
        name=call.name or meta.get("name") or "",
        username=call.username,
        object=doc,
        old_object=old,
        dry_run=call.dry_run,
    )
