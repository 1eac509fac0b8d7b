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

__all__ = ["REVIEW_VERSIONS", "Reviewing", "review"]

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


class Reviewing:
    """One ConversionReview that is being answered, object by object, so that others may have a turn in between."""

    def __init__(self, body: bytes, table: Conversions | None = None) -> None:
        """Raises ValueError for what is no ConversionReview with a request, which a server answers with a failure."""
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
        self._table = conversions() if table is None else table
        self._version, self._request = asked.api_version, asked.request
        self._found: list[orjson.Fragment] = []
        self._problems: list[str] = []
        if not asked.request.desired:
            self._problems.append("request.desiredAPIVersion is missing")
        elif asked.request.objects is None:
            self._problems.append("request.objects is no list")

    @property
    def sizes(self) -> list[int]:
        """Bytes of each object that is to be converted; none when it has failed already."""
        return [] if self._problems else [len(memoryview(each)) for each in self._request.objects or ()]

    def convert(self, index: int) -> None:
        """Convert one object, or note why it cannot be."""
        if len(self._problems) >= MOST_PROBLEMS:
            return
        name = f"object {index}"
        try:
            doc = decode(bounded((self._request.objects or [])[index]))
            name = _name(doc) or name
            converted = encode(_converted(doc, self._request.desired, self._table))
            self._found.append(orjson.Fragment(converted))
        except ValueError as err:
            self._problems.append(f"{name[:LONGEST_TEXT]}: {str(err)[:LONGEST_TEXT]}")

    def answer(self) -> bytes:
        """The ConversionReview with the response: all objects in their order, or what went wrong."""
        if self._problems:
            result = _failed(self._problems)
        else:
            result = {"result": {"status": "Success"}, "convertedObjects": self._found}
        response = {"uid": self._request.uid, **result}
        return orjson.dumps({"apiVersion": self._version, "kind": "ConversionReview", "response": response})


def review(body: bytes, table: Conversions | None = None) -> bytes:
    """The answer to a ConversionReview, all at once. Raises ValueError as Reviewing does."""
    reviewing = Reviewing(body, table)
    for index in range(len(reviewing.sizes)):
        reviewing.convert(index)
    return reviewing.answer()


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
