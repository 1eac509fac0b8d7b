"""The client: its requests, its results from answers, and its retries."""

import asyncio
import gc
import itertools
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import Limiter
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Response
from pykruise.kube.errors import (
    LONGEST_WAIT_S,
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    InternalError,
    InvalidError,
    KubeError,
    MethodNotAllowedError,
    NotFoundError,
    RequestTimeoutError,
    RequestTooLargeError,
    ServerTimeoutError,
    ServerUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    UnsupportedMediaTypeError,
)
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS
from pykruise.kube.version import __version__
from support.scripted import ScriptedTransport, answer, refusal

POD = {"kind": "Pod", "metadata": {"name": "a", "uid": "u-1"}}


def client(transport: ScriptedTransport, **options: Any) -> Client:
    return Client(transport, rng=random.Random(1), **options)


def now() -> float:
    return asyncio.get_running_loop().time()


# ── requests ────────────────────────────────────────────────────────────────


async def test_a_get_requests_json_with_our_user_agent_and_returns_the_raw_bytes() -> None:
    # given
    transport = ScriptedTransport(answer(200, b'{"kind": "Pod",  "metadata": {"name": "a"}}'))
    # when
    raw = await client(transport).get(PODS, "ns", "a", subresource="status")
    # then
    assert raw == b'{"kind": "Pod",  "metadata": {"name": "a"}}'
    asked = transport.asked[0]
    assert (asked.method, asked.path, asked.query) == ("GET", "/api/v1/namespaces/ns/pods/a/status", {})
    assert asked.headers["accept"] == "application/json"
    assert asked.headers["user-agent"] == f"pykruise/{__version__}"


async def test_a_create_posts_the_document_with_its_options() -> None:
    # given
    transport = ScriptedTransport(answer(201, POD))
    # when
    await client(transport).create(PODS, "ns", POD, dry_run=True, field_manager="me")
    # then
    asked = transport.asked[0]
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/ns/pods")
    assert asked.query == {"dryRun": "All", "fieldManager": "me"}
    assert asked.headers["content-type"] == "application/json"
    assert asked.to_document == POD


async def test_a_create_with_a_name_posts_to_a_subresource_and_never_without() -> None:
    # given
    transport = ScriptedTransport(answer(201, {"kind": "Status"}))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    # when
    await client(transport).create(PODS, "ns", eviction, name="a", subresource="eviction")
    # then
    assert transport.asked[0].path == "/api/v1/namespaces/ns/pods/a/eviction"
    with pytest.raises(ValueError, match="give a name and a subresource"):
        await client(transport).create(PODS, "ns", eviction, name="a")


async def test_an_update_replaces_the_document_of_its_subresource() -> None:
    # given
    transport = ScriptedTransport(answer(200, POD))
    # when
    await client(transport).update(NODES, "", "n1", POD, subresource="status")
    # then
    assert (transport.asked[0].method, transport.asked[0].path) == ("PUT", "/api/v1/nodes/n1/status")


@pytest.mark.parametrize("patch_type", list(PatchType))
async def test_a_patch_names_its_type_and_sends_encoded_bodies_unchanged(patch_type: PatchType) -> None:
    # given
    transport = ScriptedTransport(answer(200, POD))
    # when
    await client(transport).patch(PODS, "ns", "a", b'[{"op":"remove"}]', patch_type=patch_type, force=True)
    # then
    asked = transport.asked[0]
    assert asked.headers["content-type"] == patch_type.value
    assert asked.body == b'[{"op":"remove"}]'
    assert asked.query == {"force": "true"}


async def test_a_json_patch_may_be_given_as_a_list_of_operations() -> None:
    # given
    transport = ScriptedTransport(answer(200, POD))
    operations = [{"op": "test", "path": "/metadata/uid", "value": "u-1"}]
    # when
    await client(transport).patch(PODS, "ns", "a", operations, patch_type=PatchType.JSON)
    # then
    assert transport.asked[0].to_document == operations


async def test_a_delete_carries_its_preconditions_and_options_in_the_body() -> None:
    # given
    transport = ScriptedTransport(answer(200, POD), answer(200, POD))
    ours = client(transport)
    # when
    await ours.delete(
        PODS,
        "ns",
        "a",
        uid="u-1",
        resource_version="7",
        grace_period_s=0,
        propagation="Background",
        dry_run=True,
    )
    await ours.delete(PODS, "ns", "a")
    # then
    assert transport.asked[0].to_document == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-1", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
        "dryRun": ["All"],
    }
    assert transport.asked[1].to_document == {"apiVersion": "v1", "kind": "DeleteOptions"}


async def test_any_path_can_be_read() -> None:
    # given
    transport = ScriptedTransport(answer(200, b"ok"))
    # when, then
    assert await client(transport).get_path("/readyz", query={"verbose": "1"}) == b"ok"
    assert transport.asked[0].query == {"verbose": "1"}


# ── errors ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequestError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (405, "MethodNotAllowed", MethodNotAllowedError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", GoneError),
        (413, "RequestEntityTooLarge", RequestTooLargeError),
        (415, "UnsupportedMediaType", UnsupportedMediaTypeError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", TooManyRequestsError),
        (500, "InternalError", InternalError),
        (500, "ServerTimeout", ServerTimeoutError),
        (502, "", ServerUnavailableError),
        (503, "ServiceUnavailable", ServerUnavailableError),
        (504, "Timeout", ServerTimeoutError),
        (307, "", ApiError),
    ],
)
async def test_an_error_answer_is_raised_as_its_type(
    code: int, reason: str, expected: type[ApiError]
) -> None:
    # given
    transport = ScriptedTransport(refusal(code, reason, "no"), repeat_last=True)
    # when
    with pytest.raises(expected) as caught:
        await client(transport).get(PODS, "ns", "a")
    # then
    assert type(caught.value) is expected
    assert (caught.value.code, caught.value.reason, str(caught.value)) == (code, reason, "no")


async def test_field_errors_are_returned_as_causes() -> None:
    # given
    cause = {"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.replicas"}
    transport = ScriptedTransport(refusal(422, "Invalid", "invalid", causes=[cause]))
    # when
    with pytest.raises(InvalidError) as caught:
        await client(transport).create(PODS, "ns", POD)
    # then
    assert [cause.field for cause in caught.value.causes] == ["spec.replicas"]


# ── asking again: reads ──────────────────────────────────────────────────────

PASSING: list[Exception | Response] = [
    UnreachableError("refused"),
    ConnectionLostError("lost"),
    RequestTimeoutError("late"),
    refusal(429, "TooManyRequests"),
    refusal(500, "InternalError"),
    refusal(502),
    refusal(503, "ServiceUnavailable"),
    refusal(504, "Timeout"),
]


@pytest.mark.parametrize("failure", PASSING, ids=str)
async def test_a_read_is_retried_after_any_transient_failure(failure: Exception | Response) -> None:
    # given
    transport = ScriptedTransport(failure, failure, answer(200, POD))
    # when
    raw = await client(transport).get(PODS, "ns", "a")
    # then
    assert msgspec.json.decode(raw) == POD
    assert len(transport.asked) == 3


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 413, 415, 422])
async def test_a_read_that_was_refused_is_not_repeated(code: int) -> None:
    # given
    transport = ScriptedTransport(refusal(code))
    # when, then
    with pytest.raises(ApiError):
        await client(transport).get(PODS, "ns", "a")
    assert len(transport.asked) == 1


async def test_a_read_that_never_succeeds_is_given_up_after_five_repetitions() -> None:
    # given
    transport = ScriptedTransport(UnreachableError("refused"), repeat_last=True)
    # when
    with pytest.raises(UnreachableError):
        await client(transport).get(PODS, "ns", "a")
    # then
    assert len(transport.asked) == 6


async def test_waits_between_repetitions_grow_and_are_jittered() -> None:
    # given many clients that fail at the same moment
    waits: list[list[float]] = []
    for seed in range(40):
        transport = ScriptedTransport(UnreachableError("refused"), repeat_last=True)
        with pytest.raises(UnreachableError):
            await Client(transport, rng=random.Random(seed)).get(PODS, "ns", "a")
        times = [asked.at for asked in transport.asked]
        waits.append([later - earlier for earlier, later in itertools.pairwise(times)])
    # then the nth wait lies between 0 and twice the previous bound, and differs from client to client
    for number, bound in enumerate((0.2, 0.4, 0.8, 1.6, 3.2)):
        nth = [wait[number] for wait in waits]
        assert all(0 <= wait <= bound + 1e-6 for wait in nth)
        assert max(nth) > 0.7 * bound
        assert min(nth) < 0.3 * bound


async def test_retry_after_is_the_least_that_is_waited() -> None:
    # given
    transport = ScriptedTransport(refusal(429, "TooManyRequests", retry_after_s=2), answer(200, POD))
    # when
    await client(transport).get(PODS, "ns", "a")
    # then
    first, second = transport.asked
    assert 2 <= second.at - first.at <= 2.3


async def test_a_wait_that_would_be_too_long_is_left_to_the_caller_with_its_length() -> None:
    # given
    transport = ScriptedTransport(refusal(429, "TooManyRequests", retry_after_s=120))
    began = now()
    # when
    with pytest.raises(TooManyRequestsError) as caught:
        await client(transport).get(PODS, "ns", "a")
    # then
    assert caught.value.retry_after_s == LONGEST_WAIT_S
    assert now() - began < 1


async def test_retries_end_with_the_total_timeout_of_all_attempts() -> None:
    # given a server that lets every request time out after 30 s
    transport = ScriptedTransport(*[30.0, RequestTimeoutError("late")] * 6)
    # when
    with pytest.raises(RequestTimeoutError):
        await client(transport).get(PODS, "ns", "a")
    # then
    assert len(transport.asked) == 2


# ── asking again: writes ─────────────────────────────────────────────────────


async def write(ours: Client, verb: str) -> bytes:
    match verb:
        case "create":
            return await ours.create(PODS, "ns", POD)
        case "update":
            return await ours.update(PODS, "ns", "a", POD)
        case "patch":
            return await ours.patch(PODS, "ns", "a", {}, patch_type=PatchType.MERGE)
        case _:
            return await ours.delete(PODS, "ns", "a", uid="u-1")


WRITES = ("create", "update", "patch", "delete")


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize(
    "failure",
    [
        UnreachableError("refused"),
        refusal(429, "TooManyRequests", retry_after_s=1),
        refusal(429, "TooManyRequests"),
        refusal(503, "ServiceUnavailable", retry_after_s=1),
    ],
    ids=str,
)
async def test_a_write_is_repeated_when_it_was_surely_not_processed(
    verb: str, failure: Exception | Response
) -> None:
    # given
    transport = ScriptedTransport(failure, failure, failure, answer(200, POD))
    # when
    raw = await write(client(transport), verb)
    # then
    assert msgspec.json.decode(raw) == POD
    assert len(transport.asked) == 4
    assert {asked.body for asked in transport.asked} == {transport.asked[0].body}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize(
    "failure",
    [
        ConnectionLostError("lost"),
        RequestTimeoutError("late"),
        refusal(500, "InternalError"),
        refusal(500, "ServerTimeout", retry_after_s=1),
        refusal(502, retry_after_s=1),
        refusal(503, "ServiceUnavailable"),
        refusal(504, "Timeout", retry_after_s=1),
        refusal(409, "Conflict"),
        refusal(404, "NotFound"),
        refusal(422, "Invalid"),
    ],
    ids=str,
)
async def test_a_write_that_may_have_taken_effect_is_sent_once(
    verb: str, failure: Exception | Response
) -> None:
    # given
    transport = ScriptedTransport(failure)
    # when
    with pytest.raises(KubeError):
        await write(client(transport), verb)
    # then
    assert len(transport.asked) == 1


async def test_a_write_is_repeated_three_times_at_most() -> None:
    # given
    transport = ScriptedTransport(UnreachableError("refused"), repeat_last=True)
    # when
    with pytest.raises(UnreachableError):
        await client(transport).create(PODS, "ns", POD)
    # then
    assert len(transport.asked) == 4


async def test_a_refusal_by_a_disruption_budget_is_an_answer_and_not_a_busy_server() -> None:
    # given
    cause = {"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}
    transport = ScriptedTransport(refusal(429, "TooManyRequests", retry_after_s=10, causes=[cause]))
    ours = client(transport)
    before = ours.limiter.read_stats()
    # when
    with pytest.raises(TooManyRequestsError):
        await ours.create(PODS, "ns", {}, name="a", subresource="eviction")
    # then
    assert len(transport.asked) == 1
    assert ours.limiter.read_stats() == msgspec.structs.replace(before, started=1)


@pytest.mark.parametrize(
    ("response", "cuts"),
    [
        (answer(429, b"Too many requests, please try again later.\n"), 1),
        (answer(503, b"<html>no server is available</html>"), 1),
        (refusal(504, "Timeout"), 1),
        (refusal(429, "TooManyRequests"), 0),
        (refusal(503, "ServiceUnavailable"), 0),
    ],
    ids=["busy server", "proxy", "late", "rejected with 429", "rejected with 503"],
)
async def test_an_admission_webhook_that_rejects_an_object_is_not_an_overload(
    response: Any, cuts: int
) -> None:
    # given
    ours = client(ScriptedTransport(response), retry=RetryPolicy(writes=0))
    # when
    with pytest.raises(ApiError):
        await ours.create(PODS, "ns", POD)
    # then
    assert ours.limiter.read_stats().cuts == cuts


async def test_a_late_write_after_a_fast_write_of_another_object_is_not_an_overload() -> None:
    # given
    ours = client(ScriptedTransport(answer(201, POD), refusal(504, "Timeout")))
    await ours.create(PODS, "ns", POD)
    # when
    with pytest.raises(ApiError):
        await ours.create(PODS, "ns", POD)
    # then
    assert ours.limiter.read_stats().cuts == 0


async def test_the_number_of_retries_can_be_set() -> None:
    # given
    transport = ScriptedTransport(UnreachableError("refused"), repeat_last=True)
    # when
    with pytest.raises(UnreachableError):
        await client(transport, retry=RetryPolicy(reads=0)).get(PODS, "ns", "a")
    # then
    assert len(transport.asked) == 1


async def test_a_request_gives_its_slot_back_while_it_waits_to_retry() -> None:
    # given a limiter with one place
    transport = ScriptedTransport(UnreachableError("refused"), answer(200, POD), answer(200, POD))
    limiter = Limiter(start=1, minimum=1, maximum=1)
    ours = client(transport, limiter=limiter)
    # when one request fails and waits, and another comes
    first = asyncio.create_task(ours.get(PODS, "ns", "slow"))
    second = asyncio.create_task(ours.get(PODS, "ns", "fast"))
    await asyncio.gather(first, second)
    # then
    assert [asked.path[-4:] for asked in transport.asked] == ["slow", "fast", "slow"]


# ── lists ────────────────────────────────────────────────────────────────────


def page(*names: str, version: str = "100", token: str = "") -> Response:
    items = [{"metadata": {"name": name}} for name in names]
    meta = {"resourceVersion": version, **({"continue": token} if token else {})}
    return answer(200, {"kind": "PodList", "metadata": meta, "items": items})


def names(items: list[msgspec.Raw]) -> list[str]:
    return [msgspec.json.decode(item)["metadata"]["name"] for item in items]


async def test_a_list_follows_its_pages() -> None:
    # given
    transport = ScriptedTransport(page("a", "b", token="t1"), page("c", "d", token="t2"), page("e"))
    # when
    result = await client(transport).list(
        PODS, "ns", label_selector="app=x", field_selector="spec.nodeName=n", limit=2, resource_version="50"
    )
    # then
    assert result.resource_version == "100"
    assert names(result.items) == ["a", "b", "c", "d", "e"]
    selectors = {"labelSelector": "app=x", "fieldSelector": "spec.nodeName=n"}
    assert [asked.query for asked in transport.asked] == [
        {**selectors, "limit": "2", "resourceVersion": "50"},
        # a continue token brings its own resourceVersion; naming another one is an error
        {**selectors, "limit": "2", "continue": "t1"},
        {**selectors, "limit": "2", "continue": "t2"},
    ]


async def test_the_next_page_is_requested_while_a_page_is_read() -> None:
    # given
    transport = ScriptedTransport(page("a", token="t1"), page("b", token="t2"), page("c"))
    requested: list[int] = []

    async def read(items: Sequence[msgspec.Raw]) -> None:
        await asyncio.sleep(1)
        requested.append(len(transport.asked))

    # when
    await client(transport).read_list(PODS, "ns", read, list, limit=1)
    # then one page is requested early, and no more
    assert requested == [2, 3, 3]


async def test_a_page_that_cannot_be_read_ends_the_request_of_the_next_page(caplog: Any) -> None:
    # given
    transport = ScriptedTransport(page("a", token="t1"), refusal(403, "Forbidden"))

    async def fail(items: Sequence[msgspec.Raw]) -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError

    # when
    with pytest.raises(ZeroDivisionError):
        await client(transport).read_list(PODS, "ns", fail, list, limit=1)
    # then nothing runs on, and no error is reported late
    assert len(asyncio.all_tasks()) == 1
    gc.collect()
    assert not caplog.records


async def test_metadata_only_requests_name_the_list_type_and_the_object_type_in_a_watch() -> None:
    """API servers reject the list type in a watch, and the object type in a list."""
    transport = ScriptedTransport(page("a"), streams=[[event("ADDED", "a")]])
    asking = client(transport)
    await asking.list(PODS, metadata_only=True)
    async with asking.watch(PODS, resource_version="1", metadata_only=True) as events:
        assert [event.type async for event in events] == ["ADDED"]
    listed, watched = (asked.headers["accept"] for asked in transport.asked)
    assert listed == "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    assert watched == "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def test_a_list_over_all_namespaces_without_limit_is_one_request() -> None:
    # given
    transport = ScriptedTransport(page("a"))
    # when
    await client(transport).list(PODS, limit=0)
    # then
    assert [(asked.path, asked.query) for asked in transport.asked] == [("/api/v1/pods", {})]


@pytest.mark.parametrize(
    "body", [b'{"metadata":{"resourceVersion":"9"},"items":null}', b'{"metadata":{"resourceVersion":"9"}}']
)
async def test_a_list_of_nothing_is_empty(body: bytes) -> None:
    # given
    transport = ScriptedTransport(answer(200, body))
    # when
    result = await client(transport).list(PODS)
    # then
    assert (result.items, result.resource_version) == ([], "9")


async def test_a_list_whose_token_expired_begins_again_in_one_page() -> None:
    # given
    transport = ScriptedTransport(
        page("a", "b", token="t1"), refusal(410, "Expired"), page("a", "b", "c", version="200")
    )
    # when
    result = await client(transport).list(PODS, "ns", limit=2)
    # then nothing of the first pass is left
    assert names(result.items) == ["a", "b", "c"]
    assert result.resource_version == "200"
    assert transport.asked[2].query == {}


async def test_a_list_whose_tokens_keep_expiring_is_given_up() -> None:
    # given
    expiring = [page("a", token="t1"), refusal(410, "Expired")]
    transport = ScriptedTransport(*expiring, *expiring)
    # when, then
    with pytest.raises(GoneError):
        await client(transport).list(PODS, "ns", limit=1)
    assert len(transport.asked) == 4


async def test_a_list_refused_with_410_at_its_first_page_is_not_restarted() -> None:
    # given a resourceVersion that is too old
    transport = ScriptedTransport(refusal(410, "Expired"))
    # when, then
    with pytest.raises(GoneError):
        await client(transport).list(PODS, "ns", resource_version="1")
    assert len(transport.asked) == 1


async def test_one_failing_page_is_retried_and_the_other_pages_are_kept() -> None:
    # given
    transport = ScriptedTransport(page("a", token="t1"), ConnectionLostError("lost"), page("b"))
    # when
    result = await client(transport).list(PODS, "ns", limit=1)
    # then
    assert names(result.items) == ["a", "b"]


async def test_an_answer_that_is_not_a_list_is_a_connection_error() -> None:
    # given something that is no API server
    transport = ScriptedTransport(answer(200, b"<html>welcome</html>"))
    # when, then
    with pytest.raises(ConnectionLostError, match="not a list"):
        await client(transport).list(PODS)


# ── watches ──────────────────────────────────────────────────────────────────


def event(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name}}}


async def follow(ours: Client, types: list[str]) -> None:
    """Watch to the end, noting the types of events."""
    async with ours.watch(PODS, resource_version="7") as events:
        async for watch_event in events:
            types.append(watch_event.type)


async def test_a_watch_yields_events_until_the_server_ends_it() -> None:
    # given
    transport = ScriptedTransport(streams=[[event("ADDED", "a"), 60, event("DELETED", "a")]])
    # when
    async with client(transport).watch(PODS, "ns", resource_version="7", label_selector="app=x") as events:
        seen = [(event.type, *names([event.object])) async for event in events]
    # then
    assert seen == [("ADDED", "a"), ("DELETED", "a")]
    asked = transport.asked[0]
    assert (asked.method, asked.path) == ("STREAM", "/api/v1/namespaces/ns/pods")
    seconds = int(asked.query["timeoutSeconds"])
    assert 300 <= seconds <= 600
    assert asked.query == {
        "watch": "true",
        "resourceVersion": "7",
        "labelSelector": "app=x",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
    }
    assert transport.open_streams == 0


async def test_a_watch_can_be_given_its_times() -> None:
    # given
    transport = ScriptedTransport(streams=[[]])
    # when
    async with client(transport).watch(
        PODS, resource_version="7", bookmarks=False, timeout_s=12, idle_timeout_s=99
    ) as events:
        assert [event async for event in events] == []
    # then
    assert transport.asked[0].query == {"watch": "true", "resourceVersion": "7", "timeoutSeconds": "12"}
    assert transport.asked[0].timeout_s == 99  # the transport looks after silence


@pytest.mark.parametrize(
    ("status", "expected", "code"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old"}, GoneError, 410),
        ({"code": 410, "reason": "Gone"}, GoneError, 410),
        ({"code": 500, "reason": "InternalError"}, InternalError, 500),
        ({"reason": "Expired"}, GoneError, 500),
        ({}, InternalError, 500),
        ("nonsense", InternalError, 500),
    ],
)
async def test_an_error_event_is_raised_as_the_error_of_its_status(
    status: Any, expected: type[ApiError], code: int
) -> None:
    # given
    transport = ScriptedTransport(streams=[[event("ADDED", "a"), {"type": "ERROR", "object": status}]])
    seen: list[str] = []
    # when
    with pytest.raises(expected) as caught:
        await follow(client(transport), seen)
    # then
    assert seen == ["ADDED"]
    assert caught.value.code == code
    assert transport.open_streams == 0


@pytest.mark.parametrize(
    "line", [b'{"type":"ADDED","obj', b"", b"<html>", b'{"type":"ADDED"}', b'{"type":1,"object":{}}', b"\xff"]
)
async def test_a_line_that_is_not_an_event_counts_as_a_broken_connection(line: bytes) -> None:
    # given
    transport = ScriptedTransport(streams=[[event("ADDED", "a"), line]])
    # when, then
    with pytest.raises(ConnectionLostError, match="not a watch event"):
        await follow(client(transport), [])


async def test_a_watch_that_is_refused_raises_on_entering_and_is_not_repeated() -> None:
    # given
    transport = ScriptedTransport(streams=[UnreachableError("refused"), []])
    # when, then
    with pytest.raises(UnreachableError):
        async with client(transport).watch(PODS, resource_version="7"):
            pass
    assert len(transport.asked) == 1


async def test_a_watch_does_not_use_a_slot_of_the_limiter() -> None:
    # given a limiter with one place, and a watch that stays open
    transport = ScriptedTransport(answer(200, POD), streams=[[event("ADDED", "a"), 3600]])
    ours = client(transport, limiter=Limiter(start=1, minimum=1, maximum=1))
    async with ours.watch(PODS, resource_version="7") as events:
        await anext(events)
        # when, then
        await asyncio.wait_for(ours.get(PODS, "ns", "a"), 1)


async def test_an_event_keeps_the_exact_bytes_of_the_server() -> None:
    # given an object with unknown fields
    line = b'{"type":"MODIFIED","object":{"zz":[1,2,{"x":"\xc3\xa4"}],"metadata":{}},"extra":1}'
    transport = ScriptedTransport(streams=[[line]])
    # when
    async with client(transport).watch(PODS, resource_version="7") as events:
        watch_event = await anext(events)
    # then
    assert bytes(watch_event.object) == b'{"zz":[1,2,{"x":"\xc3\xa4"}],"metadata":{}}'
