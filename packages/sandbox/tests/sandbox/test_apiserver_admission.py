"""Reviewers: their order, their requests, their changes, and writes during a review."""

import asyncio
from collections.abc import Callable
from typing import Any

from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, ResourceRule, Reviewer
from pykruise.kube.errors import ErrorStatus
from pykruise.sandbox.apiserver import ReviewRule
from support.api import CONFIG_MAPS, PODS, Api, config_map, pod

X = f"{CONFIG_MAPS}/x"


def rule(
    name: str, reviewer: Reviewer, *, mutating: bool = True, operations: str = "CREATE UPDATE DELETE"
) -> ReviewRule:
    writes = ResourceRule(groups=("",), resources=("configmaps",), operations=tuple(operations.split()))
    return ReviewRule(name=name, reviewer=reviewer, mutating=mutating, rules=(writes,))


class Witness:
    """A reviewer that records its requests, and answers as configured."""

    def __init__(self, change: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.requests: list[AdmissionRequest] = []
        self._change = change

    async def __call__(self, request: AdmissionRequest) -> AdmissionAnswer:
        self.requests.append(request)
        if self._change is None or request.object is None:
            return ALLOWED
        self._change(request.object)
        return AdmissionAnswer(object=request.object)


def adding(key: str, value: str) -> Callable[[dict[str, Any]], None]:
    def change(doc: dict[str, Any]) -> None:
        doc.setdefault("data", {})[key] = value

    return change


async def test_mutating_reviewers_run_in_order_before_the_validating_ones() -> None:
    # given
    first, second, judge = Witness(adding("a", "1")), Witness(adding("b", "2")), Witness()
    rules = [rule("judge", judge, mutating=False), rule("first", first), rule("second", second)]
    api = Api.fresh(reviewers=rules)
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    # then
    assert reply.doc["data"] == {"a": "1", "b": "2"}
    [request] = second.requests
    assert request.object is not None
    assert request.object["data"]["a"] == "1"
    [last] = judge.requests
    assert last.object is not None
    assert last.object["data"] == {"a": "1", "b": "2"}
    assert last.object["metadata"]["uid"], "the validating ones see the object as it will be stored"


async def test_reviewers_get_what_the_write_is() -> None:
    # given
    witness = Witness()
    api = Api.fresh(reviewers=[rule("w", witness, mutating=False)])
    # when
    await api.post(CONFIG_MAPS, config_map("x", data={"a": "1"}), dryRun="All")
    await api.post(CONFIG_MAPS, config_map("x", data={"a": "1"}))
    await api.patch(X, {"data": {"a": "2"}})
    await api.delete(X, {"propagationPolicy": "Background"})
    # then
    operations = [(each.operation, each.name, each.namespace, each.dry_run) for each in witness.requests]
    assert operations == [
        ("CREATE", "x", "default", True),
        ("CREATE", "x", "default", False),
        ("UPDATE", "x", "default", False),
        ("DELETE", "x", "default", False),
    ]
    update, delete = witness.requests[2:]
    assert update.object is not None
    assert update.old_object is not None
    assert (update.old_object["data"], update.object["data"]) == ({"a": "1"}, {"a": "2"})
    assert delete.object is None
    assert delete.old_object is not None
    assert delete.options is not None
    assert delete.options["propagationPolicy"] == "Background"


async def test_a_refusal_names_the_reviewer_and_keeps_code_and_causes() -> None:
    # given
    async def no(_: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(refusal=ErrorStatus(message="not on my watch", code=403, reason="Forbidden"))

    api = Api.fresh(reviewers=[rule("guard.example.com", no, mutating=False)])
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    # then
    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert reply.message == 'admission webhook "guard.example.com" denied the request: not on my watch'
    assert (await api.get(X)).status == 404


async def test_a_refusal_without_a_message_is_a_refusal() -> None:
    # given
    async def no(_: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(refusal=ErrorStatus())

    api = Api.fresh(reviewers=[rule("guard", no)])
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    # then
    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert reply.message == 'admission webhook "guard" denied the request without explanation'


async def test_a_reviewer_that_fails_fails_the_write() -> None:
    # given
    async def broken(_: AdmissionRequest) -> AdmissionAnswer:
        raise ZeroDivisionError("oh")

    api = Api.fresh(reviewers=[rule("broken", broken)])
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    # then
    assert (reply.status, reply.reason) == (500, "InternalError")
    assert 'failed calling webhook "broken": oh' in reply.message


async def test_warnings_of_reviewers_reach_the_client() -> None:
    # given
    async def warn(_: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(warnings=("careful", 'a "quote"'))

    api = Api.fresh(reviewers=[rule("warner", warn)])
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    # then
    assert reply.headers["warning"] == '299 - "careful", 299 - "a \\"quote\\""'


async def test_changes_of_a_reviewer_to_its_copy_are_not_stored() -> None:
    # given
    async def meddle(request: AdmissionRequest) -> AdmissionAnswer:
        assert request.object is not None
        request.object["data"] = {"sneaked": "in"}
        if request.old_object:
            request.old_object.clear()
        return ALLOWED

    api = Api.fresh(reviewers=[rule("meddler", meddle), rule("judge", meddle, mutating=False)])
    # when
    await api.post(CONFIG_MAPS, config_map("x", data={"a": "1"}))
    reply = await api.patch(X, {"metadata": {"labels": {"l": "v"}}})
    # then
    assert reply.doc["data"] == {"a": "1"}


async def test_an_object_changed_by_a_reviewer_is_validated() -> None:
    # given
    def spoil(doc: dict[str, Any]) -> None:
        doc["metadata"]["labels"] = {"a b": "c"}

    api = Api.fresh(reviewers=[rule("spoiler", Witness(spoil), operations="CREATE")])
    # when
    reply = await api.post(CONFIG_MAPS, config_map("x"))
    # then
    assert (reply.status, reply.reason) == (422, "Invalid")


async def test_a_patch_is_applied_again_when_the_object_changes_during_a_review() -> None:
    # given
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("x", data={"a": "1"}))

    async def slow(request: AdmissionRequest) -> AdmissionAnswer:
        if request.object is not None and "mine" in request.object["data"]:
            await asyncio.sleep(1)
        return ALLOWED

    witness = Witness()
    slow_api = Api.fresh(
        seed=2, storage=api.server.storage, reviewers=[rule("slow", slow), rule("w", witness)]
    )
    # when
    patching = asyncio.create_task(slow_api.patch(X, {"data": {"mine": "1"}}))
    await asyncio.sleep(0.5)
    await api.patch(X, {"data": {"theirs": "1"}})
    reply = await patching
    # then
    assert reply.status == 200
    assert reply.doc["data"] == {"a": "1", "mine": "1", "theirs": "1"}
    assert len(witness.requests) == 2


async def test_a_constantly_changing_object_is_a_conflict_after_five_tries() -> None:
    # given
    api = Api.fresh()
    await api.post(CONFIG_MAPS, config_map("x", data={"n": "0"}))
    tries = 0

    async def restless(_: AdmissionRequest) -> AdmissionAnswer:
        nonlocal tries
        tries += 1
        await api.patch(X, {"data": {"n": str(tries)}})
        return ALLOWED

    slow_api = Api.fresh(seed=2, storage=api.server.storage, reviewers=[rule("restless", restless)])
    # when
    reply = await slow_api.patch(X, {"data": {"mine": "1"}})
    # then
    assert (reply.status, reply.reason, tries) == (409, "Conflict", 5)


async def test_a_patch_with_a_revision_is_not_tried_again() -> None:
    # given
    api = Api.fresh()
    made = await api.post(CONFIG_MAPS, config_map("x"))

    async def meanwhile(_: AdmissionRequest) -> AdmissionAnswer:
        await api.patch(X, {"data": {"theirs": "1"}})
        return ALLOWED

    slow_api = Api.fresh(seed=2, storage=api.server.storage, reviewers=[rule("m", meanwhile)])
    # when
    reply = await slow_api.patch(X, {"metadata": {"resourceVersion": made.revision}, "data": {"mine": "1"}})
    # then
    assert (reply.status, reply.reason) == (409, "Conflict")
    assert (await api.get(X)).doc["data"] == {"theirs": "1"}


async def test_a_name_taken_while_reviewers_think_is_taken() -> None:
    # given
    api = Api.fresh()

    async def meanwhile(_: AdmissionRequest) -> AdmissionAnswer:
        await api.post(CONFIG_MAPS, config_map("x"))
        return ALLOWED

    slow_api = Api.fresh(seed=2, storage=api.server.storage, reviewers=[rule("m", meanwhile, mutating=False)])
    # when
    reply = await slow_api.post(CONFIG_MAPS, config_map("x"))
    # then
    assert (reply.status, reply.reason) == (409, "AlreadyExists")


async def test_deletions_can_be_refused() -> None:
    # given
    async def no(_: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(refusal=ErrorStatus(message="protected"))

    api = Api.fresh(reviewers=[rule("guard", no, mutating=False, operations="DELETE")])
    await api.post(CONFIG_MAPS, config_map("x"))
    # when
    reply, many = await api.delete(X), await api.delete(CONFIG_MAPS)
    # then
    assert (reply.status, many.status) == (403, 403)
    assert (await api.get(X)).status == 200


async def test_requests_of_subresources_are_reviewed_with_their_subresource() -> None:
    # given
    witness = Witness()
    everything = ResourceRule(groups=("*",), resources=("*/*",), operations=("*",))
    watching = ReviewRule(name="w", reviewer=witness, mutating=False, rules=(everything,))
    api = Api.fresh(reviewers=[watching])
    await api.post(PODS, pod("a"))
    # when
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    await api.post(f"{PODS}/a/binding", {"target": {"name": "n1"}})
    await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    # then
    assert [(each.operation, each.subresource) for each in witness.requests] == [
        ("CREATE", ""),
        ("UPDATE", "status"),
        ("CREATE", "binding"),
        ("CREATE", "eviction"),
    ]
