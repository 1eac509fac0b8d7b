"""Access to rows: a user sees the rows of a resource that the user may list, in a namespace or everywhere.

(resource, namespace) of rows ──learn()──▶ SubjectAccessReview, cached for a short time ──▶ may_see()

On a laptop, the dashboard reads with the user's permissions, so the user may see everything in the caches. In a
cluster, the dashboard reads with its own permissions, and asks the API server about each user: first whether the user
may list the resource everywhere, and if not, about each namespace. While an answer is not known, the user does not see
the rows.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec
import orjson

from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request
from pykruise.kube.errors import KubeError, parse_error

ALLOWED_S: Final = 60.0
"""Seconds that a positive answer is valid."""
DENIED_S: Final = 300.0
"""Seconds that a negative answer about a namespace is valid. This is longer than for a positive answer: otherwise a
user who may read only one of a thousand namespaces would cause reviews for the other 999 every minute.
"""
UNKNOWN_S: Final = 5.0
"""Seconds until the next try after the API server could not be asked. Until then access is denied."""
_AT_ONCE: Final = 16

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

Right = tuple[str, str]
"""A resource (`clonesets.apps.kruise.io`) and a namespace; an empty namespace means all."""


class DashboardUser(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a request, as a TokenReview reports it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class Access(Protocol):
    """The rows that one user may see."""

    @property
    def epoch(self) -> int:
        """Number that changes when a permission changes. The user may then no longer see rows that were sent before."""
        ...

    async def learn(self, rights: Iterable[Right]) -> None:
        """Ask the API server about permissions for which there is no valid answer."""
        ...

    def may_see(self, resource: str, namespace: str) -> bool:
        """Whether the user may list these objects, as far as the answers are known."""
        ...


class FullAccess:
    """Access to all rows."""

    epoch = 0

    async def learn(self, rights: Iterable[Right]) -> None:
        """Do nothing: every permission is granted."""

    def may_see(self, resource: str, namespace: str) -> bool:
        """Return True."""
        return True


class _Answer(msgspec.Struct, frozen=True):
    is_allowed: bool
    until: float


class ReviewedAccess:
    """The API server's answers about a user. `client` may create SubjectAccessReviews. `clock` returns monotonic
    seconds.
    """

    def __init__(self, client: Client, user: DashboardUser, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._user = user
        self._clock = clock
        self._answers: dict[Right, _Answer] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._learning = asyncio.Lock()
        self.epoch = 0
        """See Access."""

    async def learn(self, rights: Iterable[Right]) -> None:
        """See Access. Raises nothing: a user whose permissions cannot be reviewed sees nothing."""
        wanted = set(rights)
        async with self._learning:  # another stream of this user may be sending the same reviews
            await self._ask({(resource, "") for resource, _ in wanted})
            await self._ask({item for item in wanted if item[1] and not self._is_allowed((item[0], ""))})

    def may_see(self, resource: str, namespace: str) -> bool:
        """See Access."""
        return self._is_allowed((resource, "")) or (
            bool(namespace) and self._is_allowed((resource, namespace))
        )

    def _is_allowed(self, right: Right) -> bool:
        # learn() runs earlier and renews expired answers, so this method also uses expired ones.
        known = self._answers.get(right)
        return known is not None and known.is_allowed

    async def _ask(self, rights: Iterable[Right]) -> None:
        now = self._clock()
        due = [right for right in rights if (known := self._answers.get(right)) is None or known.until <= now]
        for right, answer in zip(due, await asyncio.gather(*map(self._review, due)), strict=True):
            known = self._answers.get(right)
            is_allowed = answer is True
            if known is not None and known.is_allowed != is_allowed:
                self.epoch += 1
            lasts_s = UNKNOWN_S if answer is None else DENIED_S if right[1] and not is_allowed else ALLOWED_S
            self._answers[right] = _Answer(is_allowed, self._clock() + lasts_s)

    async def _review(self, right: Right) -> bool | None:
        """Return the answer of a review; None if the API server could not be asked."""
        resource, _, group = right[0].partition(".")
        attributes = {"verb": "list", "group": group, "resource": resource, "namespace": right[1]}
        spec = {
            "user": self._user.name,
            "uid": self._user.uid,
            "groups": list(self._user.groups),
            "extra": self._user.extra,
            "resourceAttributes": {name: value for name, value in attributes.items() if value},
        }
        try:
            async with self._places:
                answer = await send_review(self._client, _REVIEWS, "SubjectAccessReview", spec)
        except KubeError:
            return None
        return bool((answer.get("status") or {}).get("allowed"))


async def send_review(client: Client, path: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Send a review to the API server, which stores nothing. Raises KubeError."""
    group_version = path.removeprefix("/apis/").rpartition("/")[0]
    body = orjson.dumps({"apiVersion": group_version, "kind": kind, "spec": spec})
    answer = await client.transport.request(
        Request("POST", path, headers={"content-type": "application/json"}, body=body, timeout_s=10.0)
    )
    if answer.status not in (200, 201):
        raise parse_error(answer.status, answer.body, answer.headers)
    result: dict[str, Any] = orjson.loads(answer.body)
    return result
