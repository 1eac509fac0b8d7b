"""AdmissionReview and ConversionReview, as an API server writes and reads them.

a write under review ──▶ encode_admission() ──▶ POST ──▶ read_admission() ──▶ ReviewResponse
documents            ──▶ encode_conversion() ──▶ POST ──▶ read_conversion() ──▶ documents

Pure. A failure is a CallingError with Kubernetes' message.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import quote_text

_ADMISSION: Final = "admission.k8s.io"
_CONVERSION: Final = "apiextensions.k8s.io/v1"


class CallingError(Exception):
    """A webhook could not be called, or its response is invalid."""


class ReviewResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Response of an admission webhook."""

    allowed: bool
    status: Mapping[str, Any] | None = None
    patch: bytes | None = None
    warnings: tuple[str, ...] = ()


def encode_admission(request: Mapping[str, Any], version: str) -> bytes:
    """Encode the AdmissionReview to post."""
    doc = {"kind": "AdmissionReview", "apiVersion": f"{_ADMISSION}/{version}", "request": request}
    return orjson.dumps(doc)


def format_status_error(status: int, body: bytes) -> str:
    """Error message of client-go for a response that is not 200."""
    text = body.decode("utf-8", "replace").strip()
    match status:
        case 400:
            return text or "the server rejected our request for an unknown reason"
        case 401:
            return "the server has asked for the client to provide credentials"
        case 403:
            return text or "unknown"
        case 404:
            return "the server could not find the requested resource"
        case 405:
            return "the server does not allow this method on the requested resource"
        case 409:
            return "the server reported a conflict"
        case 429:
            return "the server has received too many requests and has asked us to try again later"
        case 500:
            return f"an error on the server ({quote_text(text or 'unknown')}) has prevented the request from succeeding"
        case 503:
            return "the server is currently unable to handle the request"
        case 504:
            return (
                "the server was unable to return a response in the time allotted, but may still be "
                "processing the request"
            )
        case _ if status >= 500:
            return f"an error on the server ({quote_text(text or 'unknown')}) has prevented the request from succeeding"
        case _:
            return f"the server responded with the status code {status} but did not return more information"


def read_admission(body: bytes, *, uid: str, version: str, mutating: bool) -> ReviewResponse:
    """Read the response in an AdmissionReview. Raises CallingError."""
    doc = _decode_object(body, prefix="failed to call webhook: ")
    response = doc.get("response")
    if not isinstance(response, dict):
        raise CallingError("received invalid webhook response: webhook response was absent")
    wanted = f"{_ADMISSION}/{version}"
    if (doc.get("apiVersion"), doc.get("kind")) != (wanted, "AdmissionReview"):
        raise CallingError(
            "received invalid webhook response: expected webhook response of "
            f"{wanted}, Kind=AdmissionReview, got {_format_gvk(doc)}"
        )
    if (response.get("uid") or "") != uid:
        text = quote_text(str(response.get("uid") or ""))
        raise CallingError(
            f"received invalid webhook response: expected response.uid={quote_text(uid)}, got {text}"
        )
    warnings = response.get("warnings")
    status = response.get("status")
    return ReviewResponse(
        allowed=response.get("allowed") is True,
        status=status if isinstance(status, dict) else None,
        patch=_decode_patch(response) if mutating else None,
        warnings=tuple(str(each) for each in warnings) if isinstance(warnings, list) else (),
    )


def _format_gvk(doc: Mapping[str, Any]) -> str:
    version, kind = doc.get("apiVersion") or "", doc.get("kind") or ""
    return f"{version if '/' in str(version) else f'/{version}'}, Kind={kind}"


def _decode_patch(response: Mapping[str, Any]) -> bytes | None:
    kind, text = response.get("patchType"), response.get("patch")
    if not text and kind is None:
        return None
    prefix = "received invalid webhook response: webhook returned "
    if not text:
        raise CallingError(f"{prefix}response.patchType but not response.patch")
    if kind is None:
        raise CallingError(f"{prefix}response.patch but not response.patchType")
    try:
        patch = base64.b64decode(str(text), validate=True)
    except binascii.Error as err:
        raise CallingError(f"{prefix}a patch that is not base64: {err}") from err
    if kind != "JSONPatch" and patch.strip() != b"[]":
        raise CallingError(f"unsupported patch type {quote_text(str(kind))}")
    return patch


def _decode_object(body: bytes, *, prefix: str = "") -> Mapping[str, Any]:
    """Decode the body of a response, which must be a JSON object. Raises CallingError."""
    try:
        doc = orjson.loads(body)
    except orjson.JSONDecodeError:
        doc = ""
    if isinstance(doc, dict):
        return doc
    text = "array" if isinstance(doc, list) else "string"
    raise CallingError(
        f"{prefix}couldn't get version/kind; json parse error: json: cannot unmarshal {text} into Go value "
        'of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
        '"json:\\"kind,omitempty\\"" }'
    )


# --- conversion ----------------------------------------


def encode_conversion(docs: Sequence[Document], *, uid: str, desired: str) -> bytes:
    """Encode the ConversionReview to post."""
    request = {"uid": uid, "desiredAPIVersion": desired, "objects": list(docs)}
    return orjson.dumps({"kind": "ConversionReview", "apiVersion": _CONVERSION, "request": request})


def read_conversion(body: bytes, *, uid: str) -> list[Any]:
    """Read the converted objects. Raises CallingError."""
    doc = _decode_object(body)
    if (doc.get("apiVersion"), doc.get("kind")) != (_CONVERSION, "ConversionReview"):
        raise CallingError(
            f"expected webhook response of {_CONVERSION}, Kind=ConversionReview, got {_format_gvk(doc)}"
        )
    response = doc.get("response")
    if not isinstance(response, dict):
        raise CallingError("no response provided")
    if (response.get("uid") or "") != uid:
        raise CallingError(
            f"expected response.uid={quote_text(uid)}, got {quote_text(str(response.get('uid') or ''))}"
        )
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if not result.get("status"):
        raise CallingError("response.result.status was '', expected 'Success'")
    if result["status"] != "Success":
        raise CallingError(str(result.get("message") or "") or "response.result.status was 'Failure'")
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []
