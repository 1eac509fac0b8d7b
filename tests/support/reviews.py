"""AdmissionReviews as an API server sends them, and its interpretation of the responses."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import orjson

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, ReviewRule
from pykruise.kube.patches import apply_json_patch
from pykruise.kube.resources import Resource
from pykruise.plans.review import RevisionLookup
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.selector_guard import record_of

Doc = dict[str, Any]


def request(
    resource: Resource,
    doc: Mapping[str, Any] | None = None,
    *,
    old: Mapping[str, Any] | None = None,
    operation: str = "",
    **fields: Any,
) -> AdmissionRequest:
    """A review of one write; the existing objects determine the operation."""
    operation = operation or ("DELETE" if doc is None else "UPDATE" if old is not None else "CREATE")
    metadata = (doc or old or {}).get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    named: dict[str, Any] = {"name": metadata.get("name") or "", "namespace": metadata.get("namespace") or ""}
    if not named["namespace"] and resource.namespaced:
        named["namespace"] = "shop"
    return AdmissionRequest(
        uid="review-1",
        operation=operation,
        resource=resource,
        object=dict(doc) if doc is not None else None,
        old_object=dict(old) if old is not None else None,
        username="alice",
        **{**named, **fields},
    )


def posted(asked: AdmissionRequest, *, api_version: str = "admission.k8s.io/v1", **more: Any) -> bytes:
    """The body that an API server sends for the review."""
    resource = asked.resource
    kind = {"group": resource.group, "version": resource.version}
    body = {
        "apiVersion": api_version,
        "kind": "AdmissionReview",
        "request": {
            "uid": asked.uid,
            "kind": {**kind, "kind": resource.kind},
            "resource": {**kind, "resource": resource.plural},
            "requestKind": {**kind, "kind": resource.kind},
            "name": asked.name,
            "namespace": asked.namespace,
            "operation": asked.operation,
            "userInfo": {"username": asked.username, "groups": asked.groups, "extra": asked.extra},
            "object": asked.object,
            "oldObject": asked.old_object,
            "dryRun": asked.dry_run,
            "options": asked.options,
            **({"subResource": asked.subresource} if asked.subresource else {}),
            **more,
        },
    }
    return orjson.dumps(body)


class Reply(msgspec.Struct):
    """A response, read as an API server reads it."""

    api_version: str
    uid: str
    allowed: bool
    code: int
    message: str
    patch: list[Doc] | None
    warnings: list[str]

    def applied_to(self, doc: Mapping[str, Any]) -> Doc:
        """The object after the patch."""
        return apply_json_patch(doc, self.patch or [])


def read(body: bytes) -> Reply:
    """A response; fails if an API server would reject it."""
    doc = orjson.loads(body)
    assert doc["kind"] == "AdmissionReview"
    response = doc["response"]
    assert ("patch" in response) == (response.get("patchType") == "JSONPatch")
    assert response["allowed"] is not ("status" in response)
    status = response.get("status") or {}
    return Reply(
        api_version=doc["apiVersion"],
        uid=response["uid"],
        allowed=response["allowed"],
        code=status.get("code", 200),
        message=status.get("message", ""),
        patch=orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else None,
        warnings=response.get("warnings", []),
    )


def at_once(reviewer: Reviewer, asked: AdmissionRequest) -> AdmissionAnswer:
    """The response of a review that never waits."""
    asking = reviewer(asked)
    try:
        asking.__await__().send(None)  # type: ignore[attr-defined]
    except StopIteration as done:
        answer: AdmissionAnswer = done.value
        return answer
    raise AssertionError("the review waits")


def after_both(
    rules: Iterable[ReviewRule],
    resource: Resource,
    doc: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
) -> AdmissionAnswer:
    """The responses to a creation, or a change of `old`: the validating review gets the object that the mutating review
    has changed.
    """
    return _reviewed(rules, resource, doc, old)[0]


def with_defaults(rules: Iterable[ReviewRule], resource: Resource, doc: Mapping[str, Any]) -> Doc:
    """The object as its creation stores it."""
    return dict(_reviewed(rules, resource, doc, None)[1])


def _reviewed(
    rules: Iterable[ReviewRule], resource: Resource, doc: Mapping[str, Any], old: Mapping[str, Any] | None
) -> tuple[AdmissionAnswer, Mapping[str, Any]]:
    asked, answer = doc, AdmissionAnswer()
    for rule in rules:
        if any(
            resource.plural in resource_rule.resources and resource.group in resource_rule.groups
            for resource_rule in rule.rules
        ):
            answer = at_once(rule.reviewer, request(resource, asked, old=old))
            asked = answer.object or asked
    return answer, asked


def recorded(selector: Mapping[str, Any]) -> RevisionLookup:
    """An owner with one revision whose record contains this selector."""
    revision = RevisionView(
        namespace="shop",
        name="web-1",
        uid="uid-web-1",
        resource_version=1,
        number=1,
        template={},
        meaning=b"",
        annotations=record_of(selector),
    )

    async def revisions(_namespace: str, _uid: str) -> list[RevisionView]:
        return [revision]

    return revisions
