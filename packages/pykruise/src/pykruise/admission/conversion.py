"""Conversion reviews: an API server sends objects, and gets them in the version that it requests.

ConversionReview (request) ──▶ review() ──▶ ConversionReview (response): the objects, or the problems

Pure; the webhook server serves it at `/convert`. If an object cannot be converted, the response contains no objects,
and its message names the objects with a problem, at most 16. Same rules as in Kubernetes (`apiextensions.k8s.io/v1
ConversionReview`). v1beta1 has the same structure and gets a v1beta1 response.

A request may contain thousands of objects. They are decoded, converted and encoded one after the other, so that only
one object is in memory as a document.
"""

import logging
from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds import list_conversions
from pykruise.kube.documents import Document, check_bounds, decode, encode
from pykruise.kube.schemas.conversion import ConversionError, Conversions, convert
from pykruise.kube.values.counts import format_count

_log = logging.getLogger(__name__)

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
"""Accepted versions of ConversionReview, the preferred version first: `conversionReviewVersions` of a CRD."""

MOST_PROBLEMS: Final = 16
"""Maximum number of objects that the message of a failure names."""

LONGEST_TEXT: Final = 1024
"""Maximum length of a name or an error message."""

MOST_VALUES: Final = 1_000_000
"""Maximum number of values in one request, estimated before decoding from commas and opening brackets."""

_GROUP: Final = "apiextensions.k8s.io"
_API_VERSIONS: Final = tuple(f"{_GROUP}/{version}" for version in REVIEW_VERSIONS)


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: str = ""
    desired: str = ""
    objects: list[msgspec.Raw] | None = None


class _Review(msgspec.Struct, rename={"api_version": "apiVersion"}):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_decode = msgspec.json.Decoder(_Review).decode


class _RequestHead(msgspec.Struct):
    uid: str = ""


class _Head(msgspec.Struct, rename={"api_version": "apiVersion"}):
    """The fields of a ConversionReview that a failure needs. Other fields may be invalid."""

    api_version: str = ""
    request: _RequestHead = msgspec.field(default_factory=_RequestHead)


_decode_head = msgspec.json.Decoder(_Head).decode


def answer(body: bytes, table: Conversions | None = None) -> bytes:
    """Convert like `review`, but return a response with status Failure if the review is invalid, or if a bug in
    this program raises an exception.
    """
    try:
        return review(body, table)
    except (ValueError, RecursionError) as error:
        return build_failure(body, f"the body cannot be converted: {error}")
    except Exception:
        _log.exception("a conversion failed")
        return build_failure(body, "the conversion failed; see the manager's log")


def build_failure(body: bytes, message: str) -> bytes:
    """Return a response with status Failure to a request that was not converted.

    It has the version and the UID of the request if these can be read. API servers do not show the message of a
    response with another UID.
    """
    try:
        asked = _decode_head(body)
    except (msgspec.DecodeError, RecursionError):
        asked = _Head()
    version = asked.api_version if asked.api_version in _API_VERSIONS else _API_VERSIONS[0]
    return _encode_answer(version, asked.request.uid, _build_failed_result([message]))


def review(body: bytes, table: Conversions | None = None) -> bytes:
    """Return the ConversionReview with the response: all objects in the same order, or the problems.

    Raises ValueError if the body is not a ConversionReview with a request.
    """
    version, request = _read(body)
    problems: list[str] = []
    if not request.desired:
        problems.append("request.desiredAPIVersion is missing")
    elif request.objects is None:
        problems.append("request.objects is not a list")
    converted: list[orjson.Fragment] = []
    for index, raw in enumerate(() if problems else request.objects or ()):
        name = f"object {index}"
        try:
            doc = decode(check_bounds(raw))
            name = _format_name(doc) or name
            document = _convert_object(doc, request.desired, list_conversions() if table is None else table)
            converted.append(orjson.Fragment(encode(document)))
        except ValueError as err:
            problems.append(f"{name[:LONGEST_TEXT]}: {str(err)[:LONGEST_TEXT]}")
            if len(problems) >= MOST_PROBLEMS:
                break
    succeeded = {"result": {"status": "Success"}, "convertedObjects": converted}
    return _encode_answer(version, request.uid, _build_failed_result(problems) if problems else succeeded)


def _read(body: bytes) -> tuple[str, _Request]:
    if (number := sum(map(body.count, (b",", b"[", b"{")))) > MOST_VALUES:
        raise ValueError(f"the request has {format_count(number, 'value')}, but the limit is {MOST_VALUES}")
    try:
        asked = _decode(body)
    except msgspec.DecodeError as err:
        raise ValueError(f"not a ConversionReview: {err}") from err
    if asked.kind != "ConversionReview" or asked.api_version not in _API_VERSIONS:
        raise ValueError(f"not a ConversionReview of {_GROUP}: {asked.api_version} {asked.kind}")
    if asked.request is None:
        raise ValueError("the ConversionReview has no request")
    return asked.api_version, asked.request


def _encode_answer(version: str, uid: str, result: Document) -> bytes:
    response = {"uid": uid, **result}
    return orjson.dumps({"apiVersion": version, "kind": "ConversionReview", "response": response})


def _convert_object(each: Any, wanted: str, table: Conversions) -> Document:
    """Convert one object. If the object is a list, convert each item.

    The result always has metadata, because API servers require it. During a server-side apply, they send objects
    without the fields that an applier no longer owns, possibly even without metadata.
    """
    if not isinstance(each, dict):
        raise ConversionError("the item is not an object")
    kind, items = each.get("kind"), each.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        converted = [_convert_object(item, wanted, table) for item in items]
        return {**each, "apiVersion": wanted, "items": converted}
    result = convert(each, wanted, table)
    return result if isinstance(result.get("metadata"), dict) else {**result, "metadata": {}}


def _format_name(each: Document) -> str:
    metadata = each.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return ""
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _build_failed_result(problems: list[str]) -> Document:
    return {"result": {"status": "Failure", "message": "; ".join(problems)}, "convertedObjects": []}
