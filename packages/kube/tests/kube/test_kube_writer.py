"""The writer: its reports about writes to the caches."""

import json
from typing import Any

import pytest

from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Response
from pykruise.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectionLostError,
    KubeError,
    NotFoundError,
)
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, PODS
from support.scripted import ScriptedTransport, answer, refusal

KEY = Key("ns", "a")
POD = {"kind": "Pod", "metadata": {"namespace": "ns", "name": "a", "uid": "u-1", "resourceVersion": "7"}}
EVICTION = {"kind": "Eviction", "metadata": {"name": "a"}}


class Ear:
    """A cache that only records the reports."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def observe_written(self, raw: bytes) -> None:
        self.heard.append(("written", json.loads(raw)))

    def observe_deleted(self, key: Key, uid: str, raw: bytes) -> None:
        self.heard.append(("deleted", key, uid, json.loads(raw) if raw else None))


def writer(*script: Response | Exception) -> tuple[Writer, Ear]:
    ear = Ear()
    return Writer(Client(ScriptedTransport(*script)), {PODS: ear}), ear


async def patch(ours: Writer, **options: Any) -> bytes:
    return await ours.patch(PODS, KEY, {}, patch_type=PatchType.MERGE, **options)


def missing(**details: Any) -> Response:
    return refusal(404, "NotFound", 'pods "a" not found', **details)


# ── what was written ─────────────────────────────────────────────────────────


async def test_answers_of_writes_are_in_the_cache_before_the_call_returns() -> None:
    # given
    ours, ear = writer(*[answer(200, POD)] * 4)
    # when
    await ours.create(PODS, "ns", POD)
    await ours.update(PODS, KEY, POD)
    await patch(ours)
    raw = await patch(ours, subresource="status")
    # then
    assert ear.heard == [("written", POD)] * 4
    assert json.loads(raw) == POD


async def test_a_subresource_is_observed_only_when_its_answer_is_the_object() -> None:
    # given
    scale = {"kind": "Scale", "metadata": POD["metadata"]}
    ours, ear = writer(answer(200, scale), answer(201, EVICTION), answer(200, POD))
    # when
    await patch(ours, subresource="scale")
    await ours.create(PODS, "ns", EVICTION, name="a", subresource="eviction")
    await patch(ours, subresource="resize")
    # then
    assert ear.heard == [("written", POD)]


async def test_a_resource_without_cache_just_passes_through() -> None:
    # given
    ours, ear = writer(answer(201, POD), answer(200, POD), answer(200, {}), missing(name="a"))
    # when
    await ours.create(CONFIG_MAPS, "ns", {})
    await ours.patch(CONFIG_MAPS, KEY, {}, patch_type=PatchType.MERGE)
    await ours.delete(CONFIG_MAPS, KEY, uid="u-1")
    with pytest.raises(NotFoundError):
        await ours.delete(CONFIG_MAPS, KEY, uid="u-1")
    # then
    assert ear.heard == []


async def test_a_dry_run_changes_nothing_and_is_not_observed() -> None:
    # given
    ours, ear = writer(*[answer(200, POD)] * 4)
    # when
    await ours.create(PODS, "ns", POD, dry_run=True)
    await ours.update(PODS, KEY, POD, dry_run=True)
    await patch(ours, dry_run=True)
    await ours.delete(PODS, KEY, uid="u-1", dry_run=True)
    # then
    assert ear.heard == []


async def test_a_read_updates_the_cache() -> None:
    # given
    ours, ear = writer(answer(200, POD), missing(name="a"), missing(name="a"))
    # when
    assert json.loads(await ours.read(PODS, KEY)) == POD
    with pytest.raises(NotFoundError):
        await ours.read(PODS, KEY, uid="u-1")
    with pytest.raises(NotFoundError):
        await ours.read(PODS, KEY)
    # then without a uid nothing is known to be gone
    assert ear.heard == [("written", POD), ("deleted", KEY, "u-1", None)]


# ── deletions ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("document", [POD, {"kind": "Status", "status": "Success"}], ids=["object", "status"])
async def test_the_answer_of_a_delete_reaches_the_cache_with_the_requested_uid(
    document: dict[str, Any],
) -> None:
    # given
    ours, ear = writer(answer(200, document))
    # when
    await ours.delete(PODS, KEY, uid="u-1")
    # then
    assert ear.heard == [("deleted", KEY, "u-1", document)]


@pytest.mark.parametrize("verb", ["delete", "patch", "update"])
async def test_not_found_for_a_uid_removes_the_object_from_the_cache(verb: str) -> None:
    # given
    ours, ear = writer(missing(name="a", kind="pods"))
    # when
    with pytest.raises(NotFoundError):
        await change(ours, verb, uid="u-1")
    # then
    assert ear.heard == [("deleted", KEY, "u-1", None)]


@pytest.mark.parametrize("verb", ["delete", "patch", "update"])
async def test_not_found_without_a_uid_changes_no_cache(verb: str) -> None:
    # given: the cache may hold a successor, created a moment later
    ours, ear = writer(missing(name="a"))
    # when
    with pytest.raises(NotFoundError):
        await change(ours, verb)
    # then
    assert ear.heard == []


@pytest.mark.parametrize(
    "response",
    [answer(404, b"404 page not found"), missing(), missing(name="other")],
    ids=["no status", "no name", "another object"],
)
async def test_a_404_that_is_not_about_the_object_proves_nothing(response: Response) -> None:
    # given a resource that is not served, or a proxy that answers 404 itself
    ours, ear = writer(response)
    # when
    with pytest.raises(NotFoundError):
        await ours.delete(PODS, KEY, uid="u-1")
    # then
    assert ear.heard == []


# ── what only raises ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (refusal(409, "AlreadyExists", name="a"), AlreadyExistsError),
        (refusal(409, "Conflict", name="a"), ConflictError),
        (ConnectionLostError("lost"), ConnectionLostError),
    ],
    ids=["exists", "conflict", "lost"],
)
async def test_other_failures_are_raised_and_change_no_cache(
    failure: Response | Exception, expected: type[KubeError]
) -> None:
    # given
    ours, ear = writer(failure, failure)
    # when
    with pytest.raises(expected):
        await ours.create(PODS, "ns", POD)
    with pytest.raises(expected):
        await ours.delete(PODS, KEY, uid="u-1")
    # then
    assert ear.heard == []


async def change(ours: Writer, verb: str, **options: Any) -> None:
    match verb:
        case "delete":
            await ours.delete(PODS, KEY, **options)
        case "patch":
            await patch(ours, **options)
        case _:
            await ours.update(PODS, KEY, POD, **options)


async def test_arguments_reach_the_request() -> None:
    # given
    transport = ScriptedTransport(answer(200, POD), answer(200, POD))
    ours = Writer(Client(transport), {})
    # when
    await ours.patch(
        PODS, KEY, {"a": 1}, patch_type=PatchType.APPLY, field_manager="me", force=True, uid="u-1"
    )
    await ours.delete(PODS, KEY, uid="u-1", resource_version="7", grace_period_s=3, propagation="Orphan")
    # then
    patched, deleted = transport.asked
    assert (patched.path, patched.to_document) == ("/api/v1/namespaces/ns/pods/a", {"a": 1})
    assert patched.query == {"fieldManager": "me", "force": "true"}
    assert deleted.to_document["preconditions"] == {"uid": "u-1", "resourceVersion": "7"}
    assert (deleted.to_document["gracePeriodSeconds"], deleted.to_document["propagationPolicy"]) == (
        3,
        "Orphan",
    )


async def test_a_status_patch_of_a_deleted_object_is_not_an_error() -> None:
    # given
    transport = ScriptedTransport(answer(200, POD), missing(), refusal(409, "Conflict"))
    ours = Writer(Client(transport), {})
    # when, then: written; deleted, which is no error; changed by another client, which is an error
    assert await ours.patch_status(PODS, KEY, {"status": {"a": 1}}, uid="u-1")
    assert not await ours.patch_status(PODS, KEY, {"status": {"a": 1}}, uid="u-1")
    with pytest.raises(ConflictError):
        await ours.patch_status(PODS, KEY, {"status": {"a": 1}}, uid="u-1")
    written = transport.asked[0]
    assert written.path == "/api/v1/namespaces/ns/pods/a/status"
    assert written.to_document == {"status": {"a": 1}}
