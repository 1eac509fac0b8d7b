"""Checks that responses contain objects, so that callers can read their fields.

bytes of a response ──▶ check_object() (the client, after reads and writes) ──▶ the same bytes, or MalformedAnswerError
                    └─▶ metadata_of() ──▶ the typed metadata

A proxy's page with status 200, a Status instead of an object, or half an object is treated as a missing response, so
callers do not have to handle a KeyError. Pure.
"""

import msgspec

from pykruise.kube.errors import MalformedAnswerError
from pykruise.kube.excerpts import excerpt

__all__ = ["AnswerMetadata", "check_object", "metadata_of"]


class AnswerMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a stored object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: AnswerMetadata


_decode = msgspec.json.Decoder(_Object).decode


def metadata_of(raw: bytes | msgspec.Raw) -> AnswerMetadata:
    """Decode the metadata of an object as an API server stores it. Raises MalformedAnswerError."""
    try:
        answer_metadata = _decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"the response is not an object: {excerpt(str(error))}") from error
    if not answer_metadata.name or not (answer_metadata.resource_version or "0").isdecimal():
        raise MalformedAnswerError(
            "the response is not an object: it has no name, or its resourceVersion is not a number"
        )
    return answer_metadata


def check_object(raw: bytes, *, what: str) -> bytes:
    """Return the response unchanged. Raises MalformedAnswerError, which names the request `what`."""
    try:
        metadata_of(raw)
    except MalformedAnswerError as error:
        raise MalformedAnswerError(f"{what}: {error}") from error
    return raw
