"""Decoding of a client's object into a document of the right kind: apiVersion and kind, types, unknown fields.

body or patched document ──▶ decode_body() / decode_patch() ──▶ canonical document of the kind, warnings in the Call

Pure. `Strategy.decode` knows the shape of the kind (types of built-in kinds, schema of custom kinds).
"""

from typing import Final

from pykruise.kube.documents import Document, decode, encode_canonical
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.negotiation import read_body, summary_of
from pykruise.sandbox.apiserver.requests.statuses import Refusal, make_bad_request, make_invalid


def decode_body(call: Call) -> Document:
    """Decode the object in a request's body to its canonical shape. Raises Refusal."""
    entry = call.entry
    doc = read_body(call.headers, call.body, what=entry.resource.kind)
    check_type(entry, doc, body=call.body or b"")
    kind = entry.resource.kind
    prefix = f'{kind} in version "{entry.resource.version}" cannot be handled as a {kind}'
    try:
        doc, unknown = to_typed(entry, doc)
    except ValueError as err:
        raise make_bad_request(f"{prefix}: {err}") from err
    if unknown and call.field_validation == "Strict":
        raise make_bad_request(f"{prefix}: {_format_strict_error(unknown)}")
    _warn_unknown(call, unknown)
    return doc


def decode_patch(call: Call, doc: Document, untouched: Document) -> Document:
    """Decode a patched object to its canonical shape. Raises Refusal (422).

    `untouched` are members that the patch cannot have changed. They are canonical already, so they are only added to
    the result.
    """
    entry = call.entry
    if not entry.is_custom and (doc.get("apiVersion"), doc.get("kind")) != (
        entry.api_version,
        entry.resource.kind,
    ):
        text = f"no conversion to {entry.api_version} {entry.resource.kind}"
        raise _make_undecodable_patch({**doc, **untouched}, text)
    if not doc.get("kind"):
        text = encode_canonical({**doc, **untouched}).decode()
        raise _make_undecodable_patch({**doc, **untouched}, f"Object 'Kind' is missing in '{text}'")
    sent = encode_canonical(doc) if call.field_validation == "Strict" else b""
    try:
        read, unknown = to_typed(entry, doc)
    except ValueError as err:
        raise _make_undecodable_patch({**doc, **untouched}, str(err)) from err
    if unknown and call.field_validation == "Strict":
        raise _make_undecodable_patch({**decode(sent), **untouched}, _format_strict_error(unknown))
    _warn_unknown(call, unknown)
    read.update(untouched)
    return read


def _make_undecodable_patch(patched: Document, why: str) -> Refusal:
    return make_invalid(
        "", "", "", [causes.make_invalid_error("patch", encode_canonical(patched).decode(), why)]
    )


def to_typed(entry: CatalogEntry, doc: Document) -> tuple[Document, list[str]]:
    """Return the document in its kind's shape, and the unknown fields that were dropped.

    Raises ValueError when a value has the wrong type.
    """
    doc, unknown = entry.strategy.decode(doc)
    metadata = doc.get("metadata")
    if metadata is None:
        doc["metadata"] = {}
    elif metadata.get("creationTimestamp", "") is None:
        # A Go client writes null for an unset time; stored objects always have a creationTimestamp.
        del metadata["creationTimestamp"]
    return doc, unknown


def check_type(entry: CatalogEntry, doc: Document, *, body: bytes) -> None:
    """Check that apiVersion and kind are those of the resource; built-in kinds may omit them. Raises Refusal."""
    resource = entry.resource
    kind, version = doc.get("kind"), doc.get("apiVersion")
    if not isinstance(kind or "", str) or not isinstance(version or "", str):
        raise make_bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get "
            "version/kind; json parse error: json: cannot unmarshal: apiVersion and kind must be strings"
        )
    if entry.is_custom and not kind:
        text = body[:1024].decode("utf-8", "replace")
        raise make_bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object 'Kind' is missing in '{text}' ({summary_of(body)})"
        )
    if not entry.is_custom and (version or kind):
        _check_builtin_type(entry, version or resource.api_version, kind or resource.kind)
    if (version or entry.is_custom) and version != resource.api_version:
        raise make_bad_request(
            f"the API version in the data ({version or ''}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if not entry.is_custom:
        doc.update(apiVersion=resource.api_version, kind=resource.kind)


def _check_builtin_type(entry: CatalogEntry, version: str, kind: str) -> None:
    """Reject a document of another type with the error of apiserver's typed decoder. Raises Refusal."""
    resource = entry.resource
    if (version, kind) == (resource.api_version, resource.kind):
        return
    short = version.rpartition("/")[2]
    wrong = f'{kind} in version "{short}" cannot be handled as a {resource.kind}: '
    if version == resource.api_version and kind in _KINDS_OF_V1:
        package = resource.group.partition(".")[0] or "core"
        why = f"converting ({short}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    else:
        why = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:100"'
    raise make_bad_request(wrong + why)


_KINDS_OF_V1: Final = frozenset(
    {
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    }
)


def _format_strict_error(unknown: list[str]) -> str:
    return "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)


def _warn_unknown(call: Call, unknown: list[str]) -> None:
    if unknown and call.field_validation == "Warn":
        call.warnings.extend(f'unknown field "{path}"' for path in unknown)
