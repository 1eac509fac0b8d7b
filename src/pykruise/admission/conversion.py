"""Conversion reviews: what an API server asks to have objects in another version, and the answer.

ConversionReview (request) ──▶ review() ──▶ ConversionReview (response): the objects, or what went wrong

Pure; the webhook server mounts it at `/convert`. All objects of a request are converted or none: a failure
names every object that could not be. Rule: `apiextensions.k8s.io/v1 ConversionReview`; v1beta1 has the same
shape and is answered as v1beta1.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds import conversions
from pykruise.kube.conversion import ConversionError, Conversions, convert
from pykruise.kube.documents import Document

__all__ = ["REVIEW_VERSIONS", "review"]

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
"""What is answered, the preferred one first: `conversionReviewVersions` of a CRD."""

_GROUP: Final = "apiextensions.k8s.io"


def review(document: Mapping[str, Any], table: Conversions | None = None) -> Document:
    """The answer to a ConversionReview.

    Raises ValueError for what is no ConversionReview with a request, which a server answers with 400.
    """
    table = conversions() if table is None else table
    version = document.get("apiVersion")
    if document.get("kind") != "ConversionReview" or version not in {
        f"{_GROUP}/{each}" for each in REVIEW_VERSIONS
    }:
        raise ValueError(f"not a ConversionReview of {_GROUP}: {version} {document.get('kind')}")
    request = document.get("request")
    if not isinstance(request, Mapping):
        raise ValueError("request: the ConversionReview has none")
    return {
        "apiVersion": version,
        "kind": "ConversionReview",
        "response": {"uid": request.get("uid") or "", **_answer(request, table)},
    }


def _answer(request: Mapping[str, Any], table: Conversions) -> Document:
    wanted, objects = request.get("desiredAPIVersion"), request.get("objects")
    if not isinstance(wanted, str) or not wanted:
        return _failed(["request.desiredAPIVersion is missing"])
    if not isinstance(objects, list):
        return _failed(["request.objects is no list"])
    found: list[Document] = []
    problems: list[str] = []
    for index, each in enumerate(objects):
        try:
            found.append(_converted(each, wanted, table))
        except ConversionError as err:
            problems.append(f"{_name(each) or f'object {index}'}: {err}")
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


def _name(each: Any) -> str:
    metadata = each.get("metadata") if isinstance(each, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return ""
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _failed(problems: list[str]) -> Document:
    return {"result": {"status": "Failure", "message": "; ".join(problems)}, "convertedObjects": []}
