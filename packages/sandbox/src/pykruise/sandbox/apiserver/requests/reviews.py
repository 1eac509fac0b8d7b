"""Reviews: questions that are sent by POST and not stored, about permissions, users and tokens.

server.py ──▶ REVIEWS[plural] ──▶ the question with its answer in `status`

Without RBAC, all users may do everything, and the reviews report this.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.schemas.releases import number_of
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.access.attributes import Attributes
from pykruise.sandbox.apiserver.access.rules import PolicyRule
from pykruise.sandbox.apiserver.access.tokens import AUDIENCE
from pykruise.sandbox.apiserver.access.users import User
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, check_write_options
from pykruise.sandbox.apiserver.requests.decoding import decode_body
from pykruise.sandbox.apiserver.requests.statuses import make_bad_request, make_invalid

_ANYTHING: Final[list[PolicyRule]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
_ADMIN: Final = "kubernetes-admin"

Review = Callable[[Core, Call, Document], Document]


# --- permissions ----------------------------------------


def _review_self_access(core: Core, call: Call, spec: Document) -> Document:
    _raise_invalid(call, _check_attributes(spec))
    return _decide(core, call.user, spec)


def _review_access(core: Core, call: Call, spec: Document) -> Document:
    _raise_invalid(call, [*_check_subject(spec), *_check_attributes(spec)])
    return _decide(core, _read_user(spec), spec)


def _review_local_access(core: Core, call: Call, spec: Document) -> Document:
    result = [*_check_subject(spec), *_check_attributes(spec)]
    asked = spec.get("resourceAttributes") or {}
    if (asked.get("namespace") or "") != call.namespace:
        text = "must match metadata.namespace"
        result.append(
            causes.make_invalid_error("spec.resourceAttributes.namespace", asked.get("namespace") or "", text)
        )
    if spec.get("nonResourceAttributes") is not None:
        text = "disallowed on this kind of request"
        result.append(
            causes.make_invalid_error("spec.nonResourceAttributes", spec["nonResourceAttributes"], text)
        )
    _raise_invalid(call, result)
    return _decide(core, _read_user(spec), spec)


def _check_subject(spec: Document) -> Iterable[Cause]:
    if not spec.get("user") and not spec.get("groups"):
        yield causes.make_invalid_error("spec.user", "", "at least one of user or group must be specified")


def _check_attributes(spec: Document) -> Iterable[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown = (
            f"authorization.NonResourceAttributes{{Path:{quote_text(path.get('path') or '')}, "
            f"Verb:{quote_text(path.get('verb') or '')}}}"
        )
        text = "cannot be specified in combination with resourceAttributes"
        yield causes.make_invalid_shown_error("spec.nonResourceAttributes", shown, text)
    elif resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield causes.make_invalid_error("spec.resourceAttributes", None, text)


def _raise_invalid(call: Call, value: Iterable[Cause]) -> None:
    wrong = list(value)
    if wrong:
        raise make_invalid("", call.entry.resource.group, "", wrong)  # without a kind, as on a real server


def _read_user(spec: Document) -> User:
    return User(name=spec.get("user") or "", groups=tuple(spec.get("groups") or ()))


def _decide(core: Core, user: User, spec: Document) -> Document:
    if core.authorizer is None:
        return {"allowed": True}
    decision = core.authorizer.decide(_read_attributes(user, spec))
    return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})


def _read_attributes(user: User, spec: Document) -> Attributes:
    if (path := spec.get("nonResourceAttributes")) is not None:
        return Attributes(user=user, verb=path.get("verb") or "", path=path.get("path") or "")
    asked: Document = spec["resourceAttributes"]
    members = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(user=user, **{member: asked.get(member) or "" for member in members})


def _review_rules(core: Core, call: Call, spec: Document) -> Document:
    namespace = spec.get("namespace") or ""
    if not namespace:
        raise make_bad_request("no namespace on request")
    held = core.authorizer.list_rules(call.user, namespace) if core.authorizer is not None else _ANYTHING
    return {
        "resourceRules": [
            _select_members(rule, "apiGroups", "resources", "resourceNames")
            for rule in held
            if rule.get("resources")
        ],
        "nonResourceRules": [
            _select_members(rule, "nonResourceURLs") for rule in held if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
    }


def _select_members(rule: PolicyRule, *members: str) -> Document:
    return {member: list(rule[member]) for member in ("verbs", *members) if rule.get(member)}


# --- users ----------------------------------------


def _review_self(core: Core, call: Call, spec: Document) -> Document:
    return {"userInfo": {**call.user.to_document(), "username": call.user.name or _ADMIN}}


def _review_token(core: Core, call: Call, spec: Document) -> Document:
    user = core.tokens.user_of(spec.get("token") or "")
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user.to_document(), "audiences": [AUDIENCE]}


_FIRST_WITHOUT_NULL_TIME: Final = (1, 34)
"""First minor version of Kubernetes that omits the creation time of an object that is not stored."""


def _review(answer: Review) -> Callable[[Core, Call], Awaitable[CallAnswer]]:
    async def review(core: Core, call: Call) -> CallAnswer:
        check_write_options(call, "CreateOptions")
        doc: dict[str, Any] = decode_body(call)
        if number_of(core.catalog.minor) < _FIRST_WITHOUT_NULL_TIME:
            doc["metadata"].setdefault("creationTimestamp", None)
        if call.namespace:
            doc["metadata"]["namespace"] = call.namespace
        spec = doc.get("spec") or {}
        if answer is _review_rules:
            doc["spec"] = {}  # the response does not repeat the spec
        doc["status"] = answer(core, call, spec)
        return CallAnswer(201, orjson.dumps(doc), is_object=False)

    return review


REVIEWS: Final[Mapping[str, Callable[[Core, Call], Awaitable[CallAnswer]]]] = {
    "localsubjectaccessreviews": _review(_review_local_access),
    "selfsubjectaccessreviews": _review(_review_self_access),
    "selfsubjectreviews": _review(_review_self),
    "selfsubjectrulesreviews": _review(_review_rules),
    "subjectaccessreviews": _review(_review_access),
    "tokenreviews": _review(_review_token),
}
"""Functions that respond to a POST to the collection, by plural."""
