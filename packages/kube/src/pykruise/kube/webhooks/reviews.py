"""AdmissionReview on the wire: the bytes that an API server sends, and the bytes of the response.

path + body ──▶ decode_review() ──▶ AdmissionRequest ──▶ the reviewer of the path ──▶ AdmissionAnswer
            ◀── encode_answer() ◀── JSON patch from the received object to the wanted one

`ReviewDispatcher` has the reviewer of every path. It raises no error: an unreadable body gets the response 400. After
an unexpected error of a reviewer, the response is 500, and this program's log has the error. A long body is decoded,
and its response encoded, in a thread (kube/control/offload.py).
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, ReviewRule
from pykruise.kube.control.offload import Aside
from pykruise.kube.documents import Document, check_bounds, decode
from pykruise.kube.errors import ErrorStatus, InvalidNameError
from pykruise.kube.patches import diff_json
from pykruise.kube.pod_rules.field_errors import build_bad_request
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.served_fields import ServedFields

__all__ = [
    "ANSWER_MARGIN_S",
    "GROUP",
    "LONGEST_WARNING",
    "LONG_AT_ONCE",
    "LONG_REVIEW",
    "MOST_WARNINGS",
    "VERSIONS",
    "Review",
    "ReviewDispatcher",
    "ReviewError",
    "decode_review",
    "encode_answer",
    "encode_refusal",
    "index_rules_by_path",
]

_log = logging.getLogger(__name__)

GROUP: Final = "admission.k8s.io"
"""API group of AdmissionReviews."""
VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
"""Versions of AdmissionReview that are understood."""

LONGEST_WARNING: Final = 256
"""Maximum number of characters of a warning; API servers cut longer ones."""
MOST_WARNINGS: Final = 16
"""Maximum number of warnings: an API server cuts warnings to 4096 characters in total."""

ANSWER_MARGIN_S: Final = 0.5
"""A review that takes too long gets a response this number of seconds before the API server's timeout."""


LONG_REVIEW: Final = 64 * 1024
"""Size of a body in bytes from which its review runs outside the event loop. Decoding 64 kB takes about a millisecond.
"""
LONG_AT_ONCE: Final = 2
"""Maximum number of bodies of this size whose reviews are in progress: a decoded document takes about ten times as much
memory as its body. Further reviews wait.
"""


class ReviewError(Exception):
    """A body that is not an AdmissionReview. `uid` and `api_version` are set if they could be read."""

    def __init__(self, problem: str, *, uid: str = "", api_version: str = VERSIONS[0]) -> None:
        super().__init__(problem)
        self.uid = uid
        self.api_version = api_version


_ABSENT: Final = msgspec.Raw(b"null")


class _GroupVersionKind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _GroupVersionResource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class _User(msgspec.Struct):
    username: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, list[str]] | None = None


class _Request(msgspec.Struct, rename="camel"):
    uid: str = ""
    kind: _GroupVersionKind = msgspec.field(default_factory=_GroupVersionKind)
    resource: _GroupVersionResource = msgspec.field(default_factory=_GroupVersionResource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: _User = msgspec.field(default_factory=_User)
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT
    dry_run: bool | None = None
    options: msgspec.Raw = _ABSENT


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


_decode = msgspec.json.Decoder(_Review).decode


class Review(msgspec.Struct, frozen=True):
    """A request for a review, and the version of the response."""

    api_version: str
    request: AdmissionRequest


def decode_review(body: bytes) -> Review:
    """Decode an AdmissionReview. Raises ReviewError."""
    try:
        review = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReviewError(f"the body is not an AdmissionReview: {error}") from error
    if review.kind != "AdmissionReview" or review.api_version not in VERSIONS:
        raise ReviewError(
            f"the body has apiVersion {review.api_version or '(none)'} and kind {review.kind or '(none)'}; "
            f"expected AdmissionReview of {' or '.join(VERSIONS)}"
        )
    asked = review.request
    if asked is None:
        raise ReviewError("the AdmissionReview has no request", api_version=review.api_version)
    try:
        request = AdmissionRequest(
            uid=asked.uid,
            operation=asked.operation,
            resource=Resource(
                asked.resource.group,
                asked.resource.version,
                asked.resource.resource,
                asked.kind.kind,
                namespaced=bool(asked.namespace),
            ),
            subresource=asked.sub_resource,
            namespace=asked.namespace,
            name=asked.name,
            username=asked.user_info.username,
            groups=asked.user_info.groups or (),
            extra=asked.user_info.extra or {},
            object=_parse_document(asked.object, "request.object"),
            old_object=_parse_document(asked.old_object, "request.oldObject"),
            options=(options := _parse_document(asked.options, "request.options")),
            dry_run=bool(asked.dry_run) or _is_dry_run(options),
            size=len(body),
        )
    except ValueError as error:
        raise ReviewError(str(error), uid=asked.uid, api_version=review.api_version) from error
    return Review(review.api_version, request)


def _parse_document(raw: msgspec.Raw, field: str) -> Document | None:
    if len(memoryview(raw)) == len(b"null") and bytes(raw) == b"null":
        return None
    try:
        return decode(check_bounds(raw))
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error


def _is_dry_run(options: Mapping[str, Any] | None) -> bool:
    stages = (options or {}).get("dryRun")
    return isinstance(stages, list) and "All" in stages


def encode_answer(review: Review, answer: AdmissionAnswer, *, mutating: bool) -> bytes:
    """Encode the response; without a patch when the object has not changed."""
    response: Document = {"uid": review.request.uid, "allowed": answer.refusal is None}
    if answer.refusal is not None:
        response["status"] = _build_status(answer.refusal)
    elif mutating and answer.object is not None and review.request.object is not None:
        operations = diff_json(review.request.object, answer.object)
        if operations:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(operations)).decode()
    if answer.warnings:
        response["warnings"] = [text[:LONGEST_WARNING] for text in answer.warnings[:MOST_WARNINGS]]
    return _encode(review.api_version, response)


def encode_refusal(status: ErrorStatus, *, uid: str = "", api_version: str = VERSIONS[0]) -> bytes:
    """Encode the rejection of a request that could not be reviewed."""
    return _encode(api_version, {"uid": uid, "allowed": False, "status": _build_status(status)})


def _encode(api_version: str, response: Document) -> bytes:
    return orjson.dumps({"apiVersion": api_version, "kind": "AdmissionReview", "response": response})


def _build_status(status: ErrorStatus) -> Document:
    """A metav1.Status without empty fields."""
    result: Document = {"status": status.status or "Failure", "code": status.code or 403}
    if status.message:
        result["message"] = status.message
    if status.reason:
        result["reason"] = status.reason
    if status.details is not None:
        details = msgspec.to_builtins(status.details)
        result["details"] = {key: value for key, value in details.items() if value}
        if causes := result["details"].get("causes"):
            result["details"]["causes"] = [
                {key: text for key, text in cause.items() if text} for cause in causes
            ]
    return result


class ReviewDispatcher:
    """Answers reviews by path. `observe` is called for every response with the path and the code (200: allowed).

    `aside` runs long work; use the same one as the reviewers (reviewers.py). `served`: fields that the API server
    knows.
    """

    def __init__(
        self,
        rules: Iterable[ReviewRule],
        *,
        observe: Callable[[str, int], None] = lambda path, code: None,
        aside: Aside | None = None,
        served: ServedFields = ServedFields(),  # noqa: B008 - frozen
    ) -> None:
        self._served = served
        self.by_path = index_rules_by_path(rules)
        self._aside = aside or Aside()
        self._long = asyncio.Semaphore(LONG_AT_ONCE)
        self._observe = observe

    @property
    def paths(self) -> frozenset[str]:
        """All paths that are answered, with their aliases."""
        return frozenset(self.by_path)

    async def answer(self, path: str, body: bytes, *, timeout_s: float = 10.0) -> bytes:
        """Return the response to a body sent to one of `paths`. If the reviewer does not finish shortly
        before `timeout_s`, the response is an error.
        """
        rule = self.by_path[path]
        code = 400
        try:
            if len(body) < LONG_REVIEW:
                review = decode_review(body)
                answer = await self._run_reviewer(rule, review, timeout_s)
                code = _choose_code(answer)
                return _encode_safely(review, answer, rule)
            async with self._long:
                review = await self._aside.run(decode_review, body)
                answer = await self._run_reviewer(rule, review, timeout_s)
                code = _choose_code(answer)
                return await self._aside.run(_encode_safely, review, answer, rule)
        except ReviewError as error:
            return encode_refusal(build_bad_request(str(error)), uid=error.uid, api_version=error.api_version)
        finally:
            self._observe(path, code)

    async def _run_reviewer(self, rule: ReviewRule, review: Review, timeout_s: float) -> AdmissionAnswer:
        request = msgspec.structs.replace(review.request, served=self._served)
        return await _answer_in_time(rule.reviewer, rule.name, request, timeout_s)


def _choose_code(answer: AdmissionAnswer) -> int:
    return answer.refusal.code if answer.refusal is not None else 200


def index_rules_by_path(rules: Iterable[ReviewRule]) -> dict[str, ReviewRule]:
    """Return the rules by path, with aliases. Webhooks that share a path have one reviewer."""
    result: dict[str, ReviewRule] = {}
    for rule in rules:
        for path in rule.paths:
            result.setdefault(path, rule)
    return result


async def _answer_in_time(
    reviewer: Reviewer, name: str, request: AdmissionRequest, timeout_s: float
) -> AdmissionAnswer:
    try:
        async with asyncio.timeout(max(timeout_s - ANSWER_MARGIN_S, timeout_s / 2)):
            return await reviewer(request)
    except TimeoutError:
        _log.warning("%s: the review did not finish within %.1f s", name, timeout_s)
        text = f"the review did not finish within {timeout_s:.0f} s"
        return AdmissionAnswer(
            refusal=ErrorStatus(status="Failure", message=text, reason="Timeout", code=504)
        )
    except RecursionError:
        return AdmissionAnswer(refusal=build_bad_request("the object is nested too deeply"))
    except InvalidNameError as error:
        status = ErrorStatus(
            status="Failure",
            message=f"the object contains an invalid name: {error}",
            reason="Invalid",
            code=422,
        )
        return AdmissionAnswer(refusal=status)
    except Exception:
        return AdmissionAnswer(refusal=_report_bug(name, request))


def _encode_safely(review: Review, answer: AdmissionAnswer, rule: ReviewRule) -> bytes:
    try:
        return encode_answer(review, answer, mutating=rule.mutating)
    except RecursionError:
        refusal = build_bad_request("the object is nested too deeply")
    except Exception:
        refusal = _report_bug(rule.name, review.request)
    return encode_refusal(refusal, uid=review.request.uid, api_version=review.api_version)


def _report_bug(name: str, request: AdmissionRequest) -> ErrorStatus:
    """Return the response after an unexpected error; only this program's log has its details."""
    where = f"{request.operation} {request.resource} {request.namespace}/{request.name}"
    _log.exception("%s failed on %s", name, where)
    text = f"{name} failed; see the manager's log (review {request.uid})"
    return ErrorStatus(status="Failure", message=text, reason="InternalError", code=500)
