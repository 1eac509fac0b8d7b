"""Media types of requests and responses, and the form: the object itself, its metadata, or a table.

Accept header ──▶ form_of() ──▶ Form ──▶ reads.py and server.py render objects in it
Content-Type  ──▶ read_body() ──▶ a document

Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson
import yaml

from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import quote_text
from pykruise.kube.yaml_documents import format_yaml, read_yaml
from pykruise.sandbox.apiserver.requests.statuses import (
    make_bad_request,
    make_no_representation,
    make_not_acceptable,
    make_request_entity_too_large,
    make_unsupported_media_type,
)

JSON: Final = "application/json"
YAML: Final = "application/yaml"
BODY_LIMIT: Final = 3 * 1024 * 1024
"""Largest request body in bytes, as on a real API server."""

_OFFERED: Final = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_NO_KIND: Final = "couldn't get version/kind; json parse error: "
_DEEPEST: Final = 200
"""Maximum depth of nesting; a deeper document could exhaust the stack of the code that walks it."""


class Form(msgspec.Struct, frozen=True):
    """Form in which objects are shown."""

    shows: str = "object"
    """`object`, `table` or `metadata` (PartialObjectMetadata)."""
    version: str = "v1"
    """Version of meta.k8s.io for tables and metadata."""
    include: str = "Metadata"
    """Content of a table's rows: `None`, `Metadata` or `Object`."""
    yaml: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether objects are shown unchanged."""
        return self.shows == "object"

    @property
    def name(self) -> str:
        """Name of the form; forms with the same output have the same name."""
        return "" if self.is_plain else f"{self.shows}/{self.version}/{self.include}"


PLAIN: Final = Form()


def form_of(headers: Mapping[str, str], query: Mapping[str, str], *, custom: bool = False) -> Form:
    """Return the first requested form that is supported; `custom`: for a custom resource.

    Raises Refusal: 406 when no form is supported, 400 for an unknown `includeObject`.
    """
    accept = headers.get("accept") or JSON
    if accept in (JSON, "*/*"):
        return PLAIN
    for media, params in _parse_accept(accept):
        if media not in (JSON, YAML, "*/*", "application/*"):
            continue
        form = _parse_form(params, query)
        if form is not None:
            return msgspec.structs.replace(form, yaml=True) if media == YAML else form
    raise make_not_acceptable(_OFFERED) if custom else make_no_representation(_OFFERED)


def _parse_accept(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the media types with their parameters, the preferred types first."""
    clauses = []
    for position, clause in enumerate(accept[:4096].split(",")):
        media, *rest = (part.strip() for part in clause.split(";"))
        params = dict(part.split("=", 1) for part in rest if "=" in part)
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 0.0
        clauses.append((-quality, position, media, params))
    for _, _, media, params in sorted(clauses, key=lambda item: item[:2]):
        yield media, params


def _parse_form(params: Mapping[str, str], query: Mapping[str, str]) -> Form | None:
    wanted = params.get("as", "")
    if not wanted:
        return PLAIN
    if params.get("g") != "meta.k8s.io" or params.get("v") not in ("v1", "v1beta1"):
        return None
    if wanted == "Table":
        include = query.get("includeObject") or "Metadata"
        if include not in ("None", "Metadata", "Object"):
            shown = quote_text(include)
            raise make_bad_request(
                f"Unable to convert to Table as requested: includeObject: Invalid value: {shown}: "
                "must be 'Metadata', 'Object', 'None', or empty"
            )
        return Form("table", params["v"], include)
    if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return Form("metadata", params["v"])
    return None


def read_body(headers: Mapping[str, str], body: bytes | None, *, what: str) -> Document:
    """Read the document in a request's body. `what` is the expected kind, for the message.

    Raises Refusal: 400 for an invalid body, 413, 415.
    """
    data = body or b""
    if len(data) > BODY_LIMIT:
        raise make_request_entity_too_large(BODY_LIMIT)
    media = (headers.get("content-type") or JSON).partition(";")[0].strip().lower()
    if media not in (JSON, YAML, "application/x-yaml", "text/yaml", ""):
        raise make_unsupported_media_type(_OFFERED)
    if media in (YAML, "application/x-yaml", "text/yaml"):
        value = _parse_yaml(data, what)
    else:
        value = parse_json(
            data,
            prefix=f"the object provided is unrecognized (must be of type {what}): {_NO_KIND}",
            sums_up=True,
        )
    if not isinstance(value, dict):
        raise make_bad_request(
            f"the object provided is unrecognized (must be of type {what}): {_NO_KIND}json: cannot unmarshal "
            f"{_find_json_kind(value)} into Go value of type {_TYPE_META} ({summary_of(data)})"
        )
    return value


def parse_json(data: bytes, *, prefix: str = "", sums_up: bool = False) -> Any:
    """Parse any JSON value. Raises Refusal (400) when the data is not JSON or is nested too deeply.

    `sums_up`: whether the message about invalid JSON shows the beginning of the data.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as err:
        suffix = f" ({summary_of(data)})" if sums_up else ""
        raise make_bad_request(f"{prefix}{_describe_json_error(data, err)}{suffix}") from err
    _check_depth(data, value)
    return value


def _describe_json_error(data: bytes, err: orjson.JSONDecodeError) -> str:
    """Describe the error in the words of a Go decoder."""
    text = data.decode("utf-8", "replace")
    if err.pos >= len(text.rstrip()) or "end of data" in err.msg:
        return "unexpected end of JSON input"
    return f"invalid character {_format_go_character(text[err.pos])} looking for beginning of value"


def _format_go_character(character: str) -> str:
    special = {"'": "'\\''", '"': "'\"'"}
    return special.get(character) or (f"'{character}'" if character.isprintable() else repr(character))


def _check_depth(data: bytes, value: Any) -> None:
    """Reject a value that is nested too deeply. Documents with few brackets are not checked, since they cannot be
    nested too deeply.
    """
    if data.count(b"{") + data.count(b"[") <= _DEEPEST:
        return
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise make_bad_request(f"the document is nested more than {_DEEPEST} levels deep")


def _parse_yaml(data: bytes, what: str) -> Any:
    return parse_yaml(
        data,
        prefix=f"the object provided is unrecognized (must be of type {what}): "
        "error converting YAML to JSON: ",
    )


def parse_yaml(data: bytes, *, prefix: str = "") -> Any:
    """Parse any YAML value; JSON is YAML, too. Raises Refusal (400)."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    else:
        _check_depth(data, value)
        return value
    try:
        text = data.decode()
        _check_yaml(text)
        value = read_yaml(text)
        # Encoded as JSON, so that dates and other YAML types become values that JSON has.
        return parse_json(orjson.dumps(value))
    except yaml.MarkedYAMLError as err:
        line = max(1, err.problem_mark.line) if err.problem_mark is not None else 1
        raise make_bad_request(f"{prefix}yaml: line {line}: {err.problem}") from err
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, orjson.JSONEncodeError, ValueError) as err:
        raise make_bad_request(f"{prefix}{err}") from err


def _check_yaml(text: str) -> None:
    """Reject YAML that could exhaust the resources of its reader, before values are built from it.

    Aliases multiply (a few lines can expand to gigabytes), and the library composes nodes recursively in C, where a
    deep document overflows the stack of the whole process.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise make_bad_request("YAML aliases are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise make_bad_request(f"the document is nested more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def to_yaml(body: bytes) -> bytes:
    """Convert a JSON response to YAML."""
    return format_yaml(orjson.loads(body), allow_unicode=True, width=80).encode()


def _find_json_kind(value: Any) -> str:
    return {bool: "bool", str: "string", list: "array", type(None): "null"}.get(type(value), "number")


def summary_of(data: bytes) -> str:
    """The beginning of a body, as text when it looks like JSON, else in hexadecimal."""
    if not data:
        return "<empty>"
    cut, rest = data[:30], " ..." if len(data) > 30 else ""
    return (cut.decode("utf-8", "replace") if data.startswith(b"{") else cut.hex()) + rest
