"""An admission review: what an API server asks before it stores an object, and the answer.

API server ──▶ AdmissionRequest ──▶ a reviewer (webhook server, or a function in the same process)
           ◀── AdmissionAnswer (allowed with patched object, or refused with a Status)

The names are those of `admission.k8s.io/v1 AdmissionReview`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from pykruise.kube.documents import same
from pykruise.kube.errors import Status
from pykruise.kube.resources import Resource


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One write that is under review. Objects are plain documents in the version of `resource`."""

    uid: str
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    username: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False
    options: dict[str, Any] | None = None


class AdmissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Allowed (`refusal` is None), possibly with a changed object; or refused."""

    refusal: Status | None = None
    object: dict[str, Any] | None = None
    """The object as the reviewer wants it stored; None: unchanged. Only a mutating reviewer may set it."""
    warnings: tuple[str, ...] = ()


ALLOWED = AdmissionAnswer()


def is_on_its_way_out(request: AdmissionRequest) -> bool:
    """Whether a terminating object is written with the spec that is stored, as when its finalizers are taken off.

    Such a write must not be refused for what the spec says: the object could then never go.
    """
    new, old = request.object, request.old_object
    if request.operation != "UPDATE" or new is None or old is None:
        return False
    is_terminating = bool((old.get("metadata") or {}).get("deletionTimestamp"))
    return is_terminating and same(new.get("spec"), old.get("spec"))


Reviewer = Callable[[AdmissionRequest], Awaitable[AdmissionAnswer]]


class ReviewRule(msgspec.Struct, frozen=True, kw_only=True):
    """One reviewer and what it wants to see."""

    name: str
    reviewer: Reviewer
    mutating: bool
    wants: Callable[[Resource, str, str], bool]
    """Called with resource, subresource (empty: the object itself) and operation."""
