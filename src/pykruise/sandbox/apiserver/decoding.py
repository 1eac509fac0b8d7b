"""From what a client sent to a document of the right kind: apiVersion and kind, types, unknown fields.

body or patched document ──▶ of_body() / of_patch() ──▶ canonical document of the entry's kind, warnings in the Call

Pure. The kind's own shape (types of built-in kinds, schema of custom ones) is `Strategy.decode`.
"""

from pykruise.kube.documents import Document, canonical
from pykruise.sandbox.apiserver import causes
from pykruise.sandbox.apiserver.calls import Call
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.metadata import shape_problem
from pykruise.sandbox.apiserver.negotiation import read_body
from pykruise.sandbox.apiserver.statuses import bad_request, invalid

__all__ = ["of_body", "of_patch", "typed"]


def of_body(call: Call) -> Document:
    """The object in a request's body, in canonical shape. Raises Refusal."""
    entry = call.entry
    doc = read_body(call.headers, call.body, what=entry.resource.kind)
    check_type(entry, doc, body=call.body or b"")
    prefix = f'{entry.resource.kind} in version "{entry.resource.version}" cannot be handled as a {entry.resource.kind}'
    try:
        doc, unknown = typed(entry, doc)
    except ValueError as err:
        raise bad_request(f"{prefix}: {err}") from err
    if unknown and call.field_validation == "Strict":
        raise bad_request(f"{prefix}: {_strict_error(unknown)}")
    _warn(call, unknown)
    return doc


def of_patch(call: Call, doc: Document) -> Document:
    """A patched object in canonical shape. Raises Refusal (422)."""
    try:
        read, unknown = typed(call.entry, doc)
    except ValueError as err:
        raise invalid("", "", "", [causes.invalid("patch", canonical(doc).decode(), str(err))]) from err
    if unknown and call.field_validation == "Strict":
        text = canonical(doc).decode()
        raise invalid("", "", "", [causes.invalid("patch", text, _strict_error(unknown))])
    _warn(call, unknown)
    return read


def typed(entry: CatalogEntry, doc: Document) -> tuple[Document, list[str]]:
    """The document in its kind's shape, and the unknown fields that were dropped.

    Raises ValueError when a value has the wrong type.
    """
    if entry.is_custom and (problem := shape_problem(doc)):
        raise ValueError(problem)
    doc, unknown = entry.strategy.decode(doc)
    metadata = doc.get("metadata")
    if metadata is None:
        doc["metadata"] = {}
    elif metadata.get("creationTimestamp", "") is None:
        # A Go server's way of writing "not yet"; objects that are stored have one.
        del metadata["creationTimestamp"]
    return doc, unknown


def check_type(entry: CatalogEntry, doc: Document, *, body: bytes) -> None:
    """apiVersion and kind must be those of the resource; built-in kinds may leave them out. Raises Refusal."""
    resource = entry.resource
    kind, version = doc.get("kind"), doc.get("apiVersion")
    if not isinstance(kind or "", str) or not isinstance(version or "", str):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; json "
            "parse error: json: cannot unmarshal: apiVersion and kind are strings"
        )
    if entry.is_custom and not kind:
        text = body[:1024].decode("utf-8", "replace")
        raise bad_request(f"Object 'Kind' is missing in '{text}'")
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if kind and kind != resource.kind and not entry.is_custom:
        shown = resource.version
        raise bad_request(
            f'{kind} in version "{shown}" cannot be handled as a {resource.kind}: converting ({shown}.{kind}) to '
            f"({resource.group.partition('.')[0] or 'core'}.{resource.kind}): unknown conversion"
        )
    if not entry.is_custom or not version:
        doc.setdefault("kind", resource.kind)
        doc["apiVersion"] = resource.api_version


def _strict_error(unknown: list[str]) -> str:
    return "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)


def _warn(call: Call, unknown: list[str]) -> None:
    if unknown and call.field_validation == "Warn":
        call.warnings.extend(f'unknown field "{path}"' for path in unknown)
