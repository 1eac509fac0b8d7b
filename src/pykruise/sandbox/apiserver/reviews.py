"""Questions that are asked by POST and stored nowhere: may I, who am I.

server.py ──▶ REVIEWS[plural] ──▶ the question with its answer in `status`

Everybody with access may do everything here; an authorizer that says otherwise is asked in these places.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from pykruise.kube.documents import Document
from pykruise.sandbox.apiserver.calls import Answer, Call, check_write_options
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.decoding import of_body

__all__ = ["REVIEWS"]

_ANYTHING: Final = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_ADMIN: Final = "kubernetes-admin"


def _access(call: Call) -> Document:
    return {"allowed": True}


def _rules(call: Call) -> Document:
    return dict(_ANYTHING)


def _self(call: Call) -> Document:
    groups = ["system:masters", "system:authenticated"]
    return {"userInfo": {"username": call.username or _ADMIN, "groups": groups}}


def _token(call: Call) -> Document:
    return {"user": {}, "error": "tokens are not reviewed here"}


def _review(answer: Callable[[Call], Document]) -> Callable[[Core, Call], Awaitable[Answer]]:
    async def review(core: Core, call: Call) -> Answer:
        check_write_options(call, "CreateOptions")
        doc: dict[str, Any] = of_body(call)
        doc["metadata"].setdefault("creationTimestamp", None)
        doc["status"] = answer(call)
        return Answer(201, orjson.dumps(doc), is_object=False)

    return review


REVIEWS: Final[Mapping[str, Callable[[Core, Call], Awaitable[Answer]]]] = {
    "localsubjectaccessreviews": _review(_access),
    "selfsubjectaccessreviews": _review(_access),
    "selfsubjectreviews": _review(_self),
    "selfsubjectrulesreviews": _review(_rules),
    "subjectaccessreviews": _review(_access),
    "tokenreviews": _review(_token),
}
"""By plural: what answers a POST to the collection."""
