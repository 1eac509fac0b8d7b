"""Server-side apply: PATCH with a document that has exactly the fields that the applier wants.

Call ──▶ apply() ──▶ FieldOwnership.record_apply() ──▶ writes.create_document() or writes.modify() ──▶ CallAnswer

Same rules as apiserver's `applyPatcher` and apimachinery's `managedfields`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from pykruise.kube.clock import Instant
from pykruise.kube.documents import LAST_APPLIED, Document, deep_copy, encode_canonical
from pykruise.kube.errors import Cause, ErrorStatus, StatusDetails
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.managed.applies import (
    Applied,
    ApplyConflict,
    ConflictsError,
    InvalidFieldsError,
    UnconvertibleError,
    format_conflict,
)
from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet, subtract_sets
from pykruise.sandbox.apiserver.managed.shapes import Shape
from pykruise.sandbox.apiserver.managed.values import collect_fields, compare
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.requests import decoding, writes
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, check_write_options
from pykruise.sandbox.apiserver.requests.negotiation import BODY_LIMIT, parse_yaml
from pykruise.sandbox.apiserver.requests.statuses import (
    Refusal,
    make_bad_request,
    make_conflict,
    make_not_found,
    make_request_entity_too_large,
    make_unclassified_error,
)

_KUBECTL: Final = "kubectl"


async def apply(core: Core, call: Call) -> CallAnswer:
    """Create the applied object, or change the existing one. Raises Refusal."""
    _check_options(call)
    config = _read_config(call)
    stored = core.get(call.entry, call.namespace, call.name)
    if stored is None:
        return await _create_applied(core, call, config)
    outcome: dict[str, bytes] = {}

    async def change(live: Document, stored: Stored) -> Document:
        wanted = _check_config(call, config)
        result = await _apply_to(core, call, live, wanted, stored)
        outcome["managed"] = result.kept
        doc = _decode_merged(call, result.document)
        return _update_last_applied(call, live, config, doc)

    async def tracks(call: Call, stored: Stored, old: Document, new: Document, now: Instant) -> bytes:
        new["metadata"].pop("managedFields", None)
        return outcome["managed"]

    return await writes.modify(core, call, change, tracks=tracks)


async def _create_applied(core: Core, call: Call, config: Document) -> CallAnswer:
    entry = call.entry
    if call.subresource:
        raise make_not_found(entry.resource, call.name)
    writes.check_may_create(core, call)
    wanted = _check_config(call, config)
    result = await _apply_to(core, call, core.ownership.find_kind(entry).empty, wanted, None)
    doc = _decode_merged(
        call, {**result.document, "apiVersion": entry.api_version, "kind": entry.resource.kind}
    )
    meta = doc["metadata"]
    if uid := meta.get("uid"):
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise make_conflict(entry.resource, call.name, text)
    meta.pop("resourceVersion", None)  # a precondition that applies only to existing objects
    writes.check_name(call, {"name": meta.get("name")})
    return await writes.create_document(core, call, doc, managed=result.kept)


def _check_options(call: Call) -> None:
    extra: list[Cause] = []
    if not call.query.get("fieldManager"):
        extra.append(causes.make_required_error("fieldManager", "is required for apply patch"))
    check_write_options(call, "PatchOptions", extra)


def _read_config(call: Call) -> Document:
    body = call.body or b""
    if len(body) > BODY_LIMIT:
        raise make_request_entity_too_large(BODY_LIMIT)
    config = parse_yaml(body, prefix="error decoding patch: error converting YAML to JSON: ")
    if not isinstance(config, dict):
        raise make_bad_request(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{'array' if isinstance(config, list) else 'string'} into Go value of type map[string]interface {{}}"
        )
    return config


def _check_config(call: Call, config: Document) -> Document:
    """Check that the applied document has the resource's kind, and return a copy. Raises Refusal."""
    entry = call.entry
    version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    if not isinstance(version, str) or not isinstance(kind, str):
        raise make_bad_request("invalid object type: /, Kind=")
    if (version, kind) != (entry.api_version, entry.resource.kind):
        group, _, short = version.rpartition("/")
        raise make_bad_request(f"invalid object type: {group}/{short}, Kind={kind}")
    metadata = config.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("managedFields") is not None:
        raise make_bad_request("metadata.managedFields must be nil")
    wanted: Document = deep_copy(config)
    if isinstance(metadata, Mapping) and metadata.get("creationTimestamp", "") is None:
        # Go's clients write null for an unset time.
        del wanted["metadata"]["creationTimestamp"]
    return wanted


async def _apply_to(
    core: Core, call: Call, live: Document, config: Document, stored: Stored | None
) -> Applied:
    """Apply to the live object. Raises Refusal: 409 for conflicts."""
    allowed = _find_client_side_fields(call, live, core.ownership.find_kind(call.entry).shape)
    try:
        return await core.ownership.record_apply(call, stored, live, config, core.clock(), allowed=allowed)
    except InvalidFieldsError as err:
        meta = config.get("metadata")
        meta = meta if isinstance(meta, Mapping) else {}
        resource = call.entry.resource
        gvk = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        where = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
        raise make_unclassified_error(f"failed to create typed patch object ({where}; {gvk}): {err}") from err
    except UnconvertibleError as err:
        raise make_unclassified_error(str(err)) from err
    except ConflictsError as err:
        raise _make_conflict_refusal(err.conflicts) from err


def _find_client_side_fields(call: Call, live: Document, shape: Shape) -> FieldSet:
    """Fields that kubectl applied client-side before it changed to server-side apply. They cause no conflict.

    They are the fields that still have the applied value: another manager has changed all others.
    """
    if call.query.get("fieldManager") != _KUBECTL:
        return EMPTY
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        applied = orjson.loads(text) if isinstance(text, str) else None
        if not isinstance(applied, dict) or applied.get("apiVersion") != call.entry.api_version:
            return EMPTY
        changes = compare(applied, live, shape)
        return subtract_sets(subtract_sets(collect_fields(applied, shape), changes.modified), changes.removed)
    except (orjson.JSONDecodeError, InvalidFieldsError):
        return EMPTY


def _update_last_applied(call: Call, live: Document, config: Document, doc: Document) -> Document:
    """Update kubectl's last-applied annotation, because users may return to client-side apply."""
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    if call.query.get("fieldManager") != _KUBECTL or LAST_APPLIED not in annotations:
        return doc
    said = deep_copy(config)
    if isinstance(metadata := said.get("metadata"), dict):
        (metadata.get("annotations") or {}).pop(LAST_APPLIED, None)
    text = f"{encode_canonical(said).decode()}\n"
    doc["metadata"].setdefault("annotations", {})[LAST_APPLIED] = text
    return doc


def _decode_merged(call: Call, doc: Document) -> Document:
    try:
        return decoding.to_typed(call.entry, doc)[0]
    except ValueError as err:
        raise make_unclassified_error(
            f"failed to convert merged object to last applied version: {err}"
        ) from err


def _make_conflict_refusal(value: Sequence[ApplyConflict]) -> Refusal:
    details = StatusDetails(
        causes=tuple(
            Cause(reason="FieldManagerConflict", message=f"conflict with {each.manager}", field=each.path)
            for each in value
        )
    )
    status = ErrorStatus(
        status="Failure", message=format_conflict(value), reason="Conflict", code=409, details=details
    )
    return Refusal(status)
