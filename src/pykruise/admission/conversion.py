"""Conversion reviews: what an API server asks to have objects in another version, and the answer.

ConversionReview (request) ──▶ review() ──▶ ConversionReview (response): the objects, or what went wrong

Pure; the webhook server mounts it at `/convert`. All objects of a request are converted or none: a failure
names every object that could not be. Rule: `apiextensions.k8s.io/v1 ConversionReview`; v1beta1 has the same
shape and is answered as v1beta1.

A request may have thousands of objects. They are read, converted and written one by one, so that only one of them
is in memory as a document.
"""

from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds import conversions
from pykruise.kube.conversion import ConversionError, Conversions, convert
from pykruise.kube.documents import Document, bounded, decode, encode

__all__ = ["REVIEW_VERSIONS", "review"]

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
"""What is answered, the preferred one first: `conversionReviewVersions` of a CRD."""

MOST_PROBLEMS: Final = 16
"""Objects that a failure names."""

LONGEST_TEXT: Final = 1024
"""Of a name, or of what is wrong."""

MOST_VALUES: Final = 1_000_000
"""Commas and brackets in one request."""

_GROUP: Final = "apiextensions.k8s.io"


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: str = ""
    desired: str = ""
    objects: list[msgspec.Raw] | None = None


class _Review(msgspec.Struct, rename={"api_version": "apiVersion"}):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_decode = msgspec.json.Decoder(_Review).decode


def review(body: bytes, table: Conversions | None = None) -> bytes:
    """The answer to a ConversionReview.

    Raises ValueError for what is no ConversionReview with a request, which a server answers with a failure.
    """
    table = conversions() if table is None else table
    if (found := sum(map(body.count, (b",", b"[", b"{")))) > MOST_VALUES:
        raise ValueError(f"a request may have {MOST_VALUES} values, this one has {found}")
    try:
        asked = _decode(body)
    except msgspec.DecodeError as err:
        raise ValueError(f"not a ConversionReview: {err}") from err
    if asked.kind != "ConversionReview" or asked.api_version not in {
        f"{_GROUP}/{each}" for each in REVIEW_VERSIONS
    }:
        raise ValueError(f"not a ConversionReview of {_GROUP}: {asked.api_version} {asked.kind}")
    if asked.request is None:
        raise ValueError("request: the ConversionReview has none")
    head = {"apiVersion": asked.api_version, "kind": asked.kind}
    return orjson.dumps({**head, "response": {"uid": asked.request.uid, **_answer(asked.request, table)}})


def _answer(request: _Request, table: Conversions) -> Document:
    if not request.desired:
        return _failed(["request.desiredAPIVersion is missing"])
    if request.objects is None:
        return _failed(["request.objects is no list"])
    found: list[orjson.Fragment] = []
    problems: list[str] = []
    for index, each in enumerate(request.objects):
        name = f"object {index}"
        try:
            doc = decode(bounded(each))
            name = _name(doc) or name
            found.append(orjson.Fragment(encode(_converted(doc, request.desired, table))))
        except ValueError as err:
            problems.append(f"{name[:LONGEST_TEXT]}: {str(err)[:LONGEST_TEXT]}")
            if len(problems) >= MOST_PROBLEMS:
                break
    return _failed(problems) if problems else {"result": {"status": "Success"}, "convertedObjects": found}


def _converted(each: Any, wanted: str, table: Conversions) -> Document:
    """A list that was sent as one object is converted item by item."""
    if not isinstance(each, dict):
        raise ConversionError("it is no object")
    kind, items = each.get("kind"), each.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        converted = [_converted(item, wanted, table) for item in items]
        return {**each, "apiVersion": wanted, "items": converted}
    return convert(each, wanted, table)


def _name(each: Document) -> str:
    metadata = each.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return ""
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _failed(problems: list[str]) -> Document:
    return {"result": {"status": "Failure", "message": "; ".join(problems)}, "convertedObjects": []}
