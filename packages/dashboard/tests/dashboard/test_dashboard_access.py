"""Rights to see rows, and reads that the caches answer instead of the API server."""

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson

from pykruise.dashboard.access import ALLOWED_S, DENIED_S, UNKNOWN_S, DashboardUser, ReviewedAccess
from pykruise.dashboard.mirror import KEPT_S, MirrorTransport
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.errors import UnreachableError
from pykruise.kube.resources import EVENTS, PODS

SETS = "clonesets.apps.kruise.io"


class ScriptedReviews:
    """An API server that answers SubjectAccessReviews, and records them."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = set(allowed)
        self.asked: list[tuple[str, str]] = []
        self.is_away = False

    async def request(self, request: Request, /) -> Response:
        if self.is_away:
            raise UnreachableError("away")
        assert request.body is not None
        spec = orjson.loads(request.body)["spec"]
        assert (spec["user"], spec["groups"]) == ("jane", ["blue"])
        of = spec["resourceAttributes"]
        right = (
            f"{of['resource']}.{of['group']}" if of.get("group") else of["resource"],
            of.get("namespace", ""),
        )
        self.asked.append(right)
        return Response(201, {}, orjson.dumps({"status": {"allowed": right in self.allowed}}))

    def stream(self, request: Request, /) -> Any:
        raise AssertionError("nothing is watched")

    async def close(self) -> None: ...


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def access_of(reviews: ScriptedReviews) -> tuple[ReviewedAccess, Clock]:
    clock = Clock()
    user = DashboardUser(name="jane", groups=("blue",))
    return ReviewedAccess(Client(reviews), user, clock=clock), clock


def in_namespaces(*names: str) -> Iterable[tuple[str, str]]:
    return [(SETS, name) for name in names]


async def test_a_user_who_may_list_all_namespaces_is_reviewed_once() -> None:
    reviews = ScriptedReviews((SETS, ""))
    access, _ = access_of(reviews)
    await access.learn(in_namespaces("a", "b", "c"))
    await access.learn(in_namespaces("d"))
    assert reviews.asked == [(SETS, "")]
    assert access.may_see(SETS, "never asked about")


async def test_other_users_are_reviewed_per_namespace() -> None:
    reviews = ScriptedReviews((SETS, "a"))
    access, _ = access_of(reviews)
    await access.learn(in_namespaces("a", "b"))
    assert (access.may_see(SETS, "a"), access.may_see(SETS, "b")) == (True, False)
    assert not access.may_see(SETS, "")
    assert not access.may_see("pods", "a")


async def test_a_resource_without_a_review_is_not_visible() -> None:
    access, _ = access_of(ScriptedReviews((SETS, "a")))
    assert not access.may_see(SETS, "a")


async def test_an_answer_counts_for_a_minute_and_a_no_of_one_namespace_for_five() -> None:
    reviews = ScriptedReviews((SETS, "a"))
    access, clock = access_of(reviews)
    await access.learn(in_namespaces("a", "b"))
    reviews.allowed = {(SETS, "b")}
    clock.now = ALLOWED_S + 1
    await access.learn(in_namespaces("a", "b"))
    assert (access.may_see(SETS, "a"), access.may_see(SETS, "b")) == (False, False)
    assert access.epoch == 1
    clock.now = DENIED_S + 1
    await access.learn(in_namespaces("a", "b"))
    assert access.may_see(SETS, "b")
    assert access.epoch == 2


async def test_a_user_whose_rights_cannot_be_read_sees_nothing_and_is_reviewed_again_soon() -> None:
    reviews = ScriptedReviews((SETS, ""))
    access, clock = access_of(reviews)
    reviews.is_away = True
    await access.learn(in_namespaces("a"))
    assert not access.may_see(SETS, "a")
    reviews.is_away = False
    clock.now = UNKNOWN_S + 1
    await access.learn(in_namespaces("a"))
    assert access.may_see(SETS, "a")


async def test_two_streams_of_a_user_share_one_review() -> None:
    reviews = ScriptedReviews((SETS, ""))
    access, _ = access_of(reviews)
    await asyncio.gather(access.learn(in_namespaces("a")), access.learn(in_namespaces("b")))
    assert reviews.asked == [(SETS, "")]


# ── reads from the caches ────────────────────────────────────────────────────


class Answers(WrappedTransport):
    def __init__(self) -> None:
        self.paths: list[str] = []

    async def request(self, request: Request, /) -> Response:
        self.paths.append(request.path)
        return Response(200, {}, b'{"items":[],"metadata":{"resourceVersion":"1"}}')


async def test_events_of_an_object_are_listed_once_per_interval_for_all_viewers() -> None:
    answers, clock = Answers(), Clock()
    transport: Transport = MirrorTransport(answers, {}, clock=clock)
    client = Client(transport)
    for _ in range(5):
        await client.list(EVENTS, "shop", field_selector="involvedObject.uid=1")
    assert len(answers.paths) == 1
    await client.list(EVENTS, "shop", field_selector="involvedObject.uid=2")
    assert len(answers.paths) == 2
    clock.now = KEPT_S + 0.1
    await client.list(EVENTS, "shop", field_selector="involvedObject.uid=1")
    assert len(answers.paths) == 3


async def test_a_list_of_an_unmirrored_resource_is_sent_to_the_api_server() -> None:
    answers = Answers()
    await Client(MirrorTransport(answers, {}, clock=Clock())).list(PODS, "shop")
    assert answers.paths == ["/api/v1/namespaces/shop/pods"]
