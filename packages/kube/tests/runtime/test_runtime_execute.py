"""The executor: order, limits, failures, and lost answers."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from pykruise.kube.documents import encode
from pykruise.kube.errors import (
    AlreadyExistsError,
    Cause,
    ConflictError,
    ConnectionLostError,
    ErrorStatus,
    ForbiddenError,
    InternalError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    StatusDetails,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.execute import LONGEST_REPEAT_S, Executor, Failure
from pykruise.runtime.plan import CREATED_NAME, Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import WriteFault
from pykruise.runtime.refusals import split_remedy

OWNER = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "CloneSet",
    "name": "web",
    "uid": "u-web",
    "controller": True,
}


class Store:
    """Objects by key behind the writer's methods; `faults` are the errors of the next writes.

    A fault is an error to raise, and whether the write takes effect before it.
    """

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.log: list[str] = []
        self.faults: list[tuple[KubeError, bool]] = []
        self.read_faults: list[KubeError] = []
        self.fault_for: Callable[[str, Key], tuple[KubeError, bool] | None] = lambda _verb, _key: None
        self.seconds_for: Callable[[str, Key], float] = lambda _verb, _key: 0.01
        self.under_way = 0
        self.most_under_way = 0

    async def _write(self, verb: str, key: Key, effect: Callable[[], dict[str, Any]]) -> bytes:
        self.log.append(f"{verb} {key.name}")
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.seconds_for(verb, key))
        self.under_way -= 1
        fault = self.faults.pop(0) if self.faults else self.fault_for(verb, key)
        if fault is None:
            return encode(effect())
        error, took_effect = fault
        if took_effect:
            effect()
        raise error

    async def create(
        self, resource: Resource, namespace: str, body: dict[str, Any], **_options: Any
    ) -> bytes:
        if "name" not in body["metadata"]:
            body = {"metadata": {**body["metadata"], "name": f"made-{len(self.log)}"}}
        key = Key(namespace, body["metadata"]["name"])

        def effect() -> dict[str, Any]:
            if key in self.objects:
                raise AlreadyExistsError(ErrorStatus(code=409, reason="AlreadyExists"))
            self.objects[key] = body
            return body

        return await self._write("create", key, effect)

    async def patch(
        self, resource: Resource, key: Key, body: Any, *, dry_run: bool = False, **_options: Any
    ) -> bytes:
        def effect() -> dict[str, Any]:
            if key not in self.objects:
                raise NotFoundError(ErrorStatus(code=404))
            changed = {**self.objects[key], "patched": body}
            if not dry_run:
                self.objects[key] = changed
            return changed

        return await self._write("patch", key, effect)

    async def delete(self, resource: Resource, key: Key, *, uid: str, **_options: Any) -> bytes:
        def effect() -> dict[str, Any]:
            result = self.objects.get(key)
            if result is None:
                raise NotFoundError(ErrorStatus(code=404))
            if result["metadata"].get("uid", uid) != uid:
                raise ConflictError(ErrorStatus(code=409))
            return self.objects.pop(key)

        return await self._write("delete", key, effect)

    async def read(self, resource: Resource, key: Key, **_options: Any) -> bytes:
        self.log.append(f"read {key.name}")
        if self.read_faults:
            raise self.read_faults.pop(0)
        if key not in self.objects:
            raise NotFoundError(ErrorStatus(code=404))
        return encode(self.objects[key])


def pod(name: str, *, owner_uid: str = "u-web", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "ownerReferences": [{**OWNER, "uid": owner_uid}], **metadata}}


def creation(name: str, *, done: str = "", failed: str = "") -> Chain:
    return Chain(
        subject=name,
        steps=(
            Step(
                action=Create(resource=PODS, key=Key("ns", name), body=pod(name)),
                because="too few",
                done=Note(reason=done, message=f"created {name}") if done else None,
                failed=Note(reason=failed, message=f"could not create {name}", warning=True)
                if failed
                else None,
            ),
        ),
    )


def deletion(name: str, *, uid: str = "u-1") -> Chain:
    return Chain(
        subject=name,
        steps=(Step(action=Delete(resource=PODS, key=Key("ns", name), uid=uid), because="surplus"),),
    )


def labelling(name: str, **fields: Any) -> Step:
    action = Patch(
        resource=PODS,
        key=Key("ns", name),
        patch_type=PatchType.STRATEGIC,
        body={"metadata": {"labels": {"a": "b"}}},
        **fields,
    )
    return Step(action=action, because="")


def plan_of(*stages: Stage) -> Plan:
    return Plan(stages=stages)


@pytest.fixture
def store() -> Store:
    return Store()


def executor(store: Store, **options: Any) -> Executor:
    return Executor(store, rng=random.Random(1), **options)  # type: ignore[arg-type]  # a store with the writer's methods


def names(count: int) -> list[str]:
    return [f"p{number:03}" for number in range(count)]


async def test_a_stage_starts_only_when_the_one_before_it_is_done(store: Store) -> None:
    # given
    plan = plan_of(
        Stage(purpose=Purpose.STORE_REVISION, chains=(creation("a"), creation("b"))),
        Stage(purpose=Purpose.CREATE_PODS, chains=(creation("c"),)),
    )
    # when
    outcome = await executor(store).execute(plan)
    # then
    assert store.log == ["create a", "create b", "create c"]
    assert outcome.written == 3
    assert outcome.failure is None


async def test_an_independent_stage_runs_although_another_failed(store: Store) -> None:
    # given creations that are refused, independent deletions, and a stage that depends on both
    store.fault_for = lambda verb, _key: (
        (ForbiddenError(ErrorStatus(code=403, reason="Forbidden")), False) if verb == "create" else None
    )
    store.objects = {Key("ns", name): pod(name, uid="u-1") for name in ("b", "c")}
    plan = plan_of(
        Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"), creation("d")), ramp=True),
        Stage(purpose=Purpose.DELETE_PODS, chains=(deletion("b"), deletion("c")), regardless=True),
        Stage(purpose=Purpose.TIDY_UP, chains=(deletion("e"),)),
    )
    # when
    outcome = await executor(store).execute(plan)
    # then
    assert store.log == ["create a", "delete b", "delete c"]
    assert outcome.written == 2
    assert outcome.failure is not None
    assert outcome.failure.purpose is Purpose.CREATE_PODS


async def test_a_failure_of_an_independent_stage_ends_that_stage(store: Store) -> None:
    store.fault_for = lambda _verb, _key: (ForbiddenError(ErrorStatus(code=403, reason="Forbidden")), False)
    plan = plan_of(
        Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)),
        Stage(
            purpose=Purpose.REPLACE_PODS, chains=(creation("b"), creation("c")), ramp=True, regardless=True
        ),
    )
    outcome = await executor(store).execute(plan)
    assert store.log == ["create a", "create b"]
    assert outcome.failure is not None
    assert outcome.failure.purpose is Purpose.CREATE_PODS


async def test_chains_of_an_independent_stage_fail_alone_and_later_stages_are_skipped(
    store: Store,
) -> None:
    """The stage is like the namespaces of a ResourceDistribution; all failures are reported."""
    store.fault_for = lambda _verb, key: (
        (ForbiddenError(ErrorStatus(code=403, reason="Forbidden")), False) if key.name in ("a", "c") else None
    )
    plan = plan_of(
        Stage(
            purpose=Purpose.DISTRIBUTE,
            chains=tuple(map(creation, "abcd")),
            ramp=True,
            is_independent=True,
            regardless=True,
        ),
        Stage(purpose=Purpose.TIDY_UP, chains=(deletion("e"),)),
    )
    outcome = await executor(store).execute(plan)
    assert store.log == ["create a", "create b", "create c", "create d"]
    assert [failure.subject for failure in outcome.failures] == ["a", "c"]
    assert outcome.failure is outcome.failures[0]
    assert outcome.written == 2


async def test_chains_in_flight_never_exceed_the_limit(store: Store) -> None:
    # given
    plan = plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=tuple(creation(name) for name in names(50))))
    # when
    await executor(store, max_in_flight=7).execute(plan)
    # then
    assert store.most_under_way == 7
    assert len(store.objects) == 50


async def test_thousands_of_slow_writes_of_one_plan_do_not_delay_other_plans(store: Store) -> None:
    # given two workloads, each with thousands of creations that a webhook delays by ten seconds
    def slow_down(_verb: str, key: Key) -> float:
        return 10.0 if key.name.startswith("slow") else 0.01

    store.seconds_for = slow_down
    run = executor(store)
    slow = [
        asyncio.create_task(
            run.execute(
                plan_of(
                    Stage(
                        purpose=Purpose.CREATE_PODS,
                        chains=tuple(creation(f"slow-{plan}-{name}") for name in names(2000)),
                    )
                )
            )
        )
        for plan in "ab"
    ]
    await asyncio.sleep(1)
    # when a workload of another tenant creates a hundred pods
    began = asyncio.get_running_loop().time()
    chains = tuple(creation(name) for name in names(100))
    outcome = await run.execute(plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=chains)))
    # then it waits only until the first of the slow writes have ended
    assert outcome.written == 100
    assert asyncio.get_running_loop().time() - began < 9.2
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_no_chain_that_waits_for_a_place_starts_after_the_spec_has_changed(store: Store) -> None:
    # given a plan that uses all places for ten seconds, and another plan that waits
    store.seconds_for = lambda _verb, key: 10.0 if key.name.startswith("slow") else 0.01
    run, is_changed = executor(store), False
    slow = plan_of(
        Stage(purpose=Purpose.CREATE_PODS, chains=tuple(creation(f"slow-{name}") for name in names(32)))
    )
    task = asyncio.create_task(run.execute(slow))
    await asyncio.sleep(1)
    chains = tuple(creation(name) for name in names(20))
    waiting = asyncio.create_task(
        run.execute(
            plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=chains, ramp=True)),
            until=lambda: is_changed,
            ramps={Purpose.CREATE_PODS: 32},
        )
    )
    await asyncio.sleep(1)
    # when the spec changes before the waiting chains get their places
    is_changed = True
    outcome = await waiting
    await task
    # then none of them starts, and the ramp does not grow
    assert (outcome.written, outcome.interrupted) == (0, True)
    assert outcome.ramps == {Purpose.CREATE_PODS: 32}


async def test_a_started_pod_is_finished_before_the_next_pod_is_started(store: Store) -> None:
    # given chains of two steps, and two chains in flight
    for name in names(6):
        store.objects[Key("ns", name)] = pod(name)
    chains = tuple(Chain(subject=name, steps=(labelling(name), labelling(name))) for name in names(6))
    # when
    await executor(store, max_in_flight=2).execute(plan_of(Stage(purpose=Purpose.UPDATE_PODS, chains=chains)))
    # then
    assert store.log[:4] == ["patch p000", "patch p001", "patch p000", "patch p001"]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_dry_run_changes_nothing_and_its_refusal_ends_the_chain(
    store: Store, is_refused: bool
) -> None:
    # given
    store.objects[Key("ns", "web-a")] = pod("web-a")
    if is_refused:
        store.faults = [(ForbiddenError(ErrorStatus(code=403, message="no room")), False)]
    real = Patch(
        resource=PODS,
        key=Key("ns", "web-a"),
        patch_type=PatchType.STRATEGIC,
        body={"spec": {}},
        subresource="resize",
    )
    asked = msgspec.structs.replace(real, is_dry_run=True)
    chain = Chain(
        subject="web-a", steps=(Step(action=asked, because="asks"), Step(action=real, because="resizes"))
    )
    plan = Plan(stages=(Stage(purpose=Purpose.UPDATE_PODS, chains=(chain,)),))
    # when
    outcome = await Executor(store, rng=random.Random(1)).execute(plan)  # type: ignore[arg-type]
    # then
    assert outcome.done == (() if is_refused else (real,))
    assert ("patched" in store.objects[Key("ns", "web-a")]) is not is_refused
    assert (outcome.failure is not None and outcome.failure.is_refused_resize) is is_refused


REFUSED_RESIZES: Final = {
    "no room": WriteFault.RESIZE_REFUSED,
    "node does not have enough allocatable resources": WriteFault.RESIZE_REFUSED,
    'User "manager" cannot patch resource "pods/resize"': WriteFault.RESIZE_REFUSED,
    "exceeded quota: team": WriteFault.QUOTA,
    'admission webhook "pods.example.com" denied the request': WriteFault.WEBHOOK,
    "ValidatingAdmissionPolicy 'small' denied request": WriteFault.POLICY,
    "maximum cpu usage per Container is 1, but limit is 2": WriteFault.POLICY,
}
"""Answers with status code 403 to a resize, each with the code of the failure."""


@pytest.mark.parametrize(("message", "code"), REFUSED_RESIZES.items())
async def test_a_refused_resize_has_its_own_reason_unless_a_person_must_correct_the_cause(
    message: str, code: WriteFault
) -> None:
    # given
    error = ForbiddenError(ErrorStatus(code=403, message=message))
    resize = Patch(
        resource=PODS,
        key=Key("ns", "web-a"),
        patch_type=PatchType.STRATEGIC,
        body={"spec": {}},
        subresource="resize",
    )
    step = Step(action=resize, because="resizes")
    # then
    assert Failure(Purpose.UPDATE_PODS, "web-a", step, error).reason.code == code


async def test_a_ramp_risks_one_request_before_it_sends_many(store: Store) -> None:
    # given a template that the server refuses
    store.fault_for = lambda _verb, _key: (
        ForbiddenError(ErrorStatus(code=403, message="exceeded quota")),
        False,
    )
    plan = plan_of(
        Stage(purpose=Purpose.CREATE_PODS, ramp=True, chains=tuple(creation(name) for name in names(100)))
    )
    # when
    outcome = await executor(store).execute(plan)
    # then
    assert store.log == ["create p000"]
    assert outcome.failure is not None
    assert not outcome.failure.is_stale


async def test_a_ramp_doubles_its_batches_while_all_writes_succeed(store: Store) -> None:
    """cloneset case 20: three pods in batches of 1 and 2"""
    # given
    seen: list[int] = []
    original = store.create

    async def counted(*args: Any, **options: Any) -> bytes:
        seen.append(store.under_way)
        return await original(*args, **options)

    store.create = counted  # type: ignore[method-assign]
    plan = plan_of(
        Stage(purpose=Purpose.CREATE_PODS, ramp=True, chains=tuple(creation(name) for name in names(7)))
    )
    # when
    await executor(store).execute(plan)
    # then the first chain is alone, then two run together, then four
    assert seen == [0, 0, 1, 0, 1, 2, 3]


async def test_after_a_failure_in_the_second_batch_what_succeeded_stays_and_nothing_else_starts(
    store: Store,
) -> None:
    """cloneset case 21"""
    # given
    store.fault_for = lambda _verb, key: (
        (ForbiddenError(ErrorStatus(code=403, message="exceeded quota")), False)
        if key.name == "p001"
        else None
    )
    chains = tuple(creation(name, done="SuccessfulCreate", failed="FailedCreate") for name in names(7))
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, ramp=True, chains=chains))
    )
    # then
    assert sorted(key.name for key in store.objects) == ["p000", "p002"]
    assert outcome.written == 2
    assert [(note.reason, note.message, count) for note, count in outcome.notes] == [
        ("SuccessfulCreate", "created p000 (and 1 more: p002)", 2),
        ("FailedCreate", "could not create p001: exceeded quota", 1),
    ]


async def test_a_write_may_be_recorded_under_several_reasons_each_with_its_count(store: Store) -> None:
    # given three creations with two notes each; the last creation is refused
    store.fault_for = lambda _verb, key: (
        (ForbiddenError(ErrorStatus(code=403, message="exceeded quota")), False)
        if key.name == "p002"
        else None
    )

    def with_two_reasons(name: str) -> Chain:
        (step,) = creation(name, done="Created", failed="Failed").steps
        also = (
            Note(reason="Grew", message=f"grew by {name}"),
            Note(reason="Stuck", message=name, warning=True),
        )
        return Chain(subject=name, steps=(msgspec.structs.replace(step, also=also),))

    chains = tuple(with_two_reasons(name) for name in names(3))
    # when
    outcome = await executor(store).execute(plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=chains)))
    # then
    assert [(note.reason, note.message, count) for note, count in outcome.notes] == [
        ("Created", "created p000 (and 1 more: p001)", 2),
        ("Grew", "grew by p000 (and 1 more: p001)", 2),
        ("Failed", "could not create p002: exceeded quota", 1),
        ("Stuck", "p002: exceeded quota", 1),
    ]


@pytest.mark.parametrize(
    "lost",
    [
        ConnectionLostError("lost"),
        ServerTimeoutError(ErrorStatus(code=504)),
        InternalError(ErrorStatus(code=500)),
    ],
)
async def test_a_creation_whose_answer_was_lost_is_found_again_and_not_repeated_under_another_name(
    store: Store, lost: KubeError
) -> None:
    # given
    store.faults = [(lost, True)]
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert outcome.failure is None
    assert list(store.objects) == [Key("ns", "a")]


async def test_a_creation_without_an_answer_is_sent_again_with_the_same_name(store: Store) -> None:
    # given two requests that never arrive
    store.faults = [(ConnectionLostError("lost"), False), (ServerTimeoutError(ErrorStatus(code=504)), False)]
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert store.log == ["create a"] * 3
    assert outcome.written == 1


async def test_a_write_that_always_takes_too_long_fails_after_a_minute(store: Store) -> None:
    """Webhooks together may need more time than the API server, or than the Lease, permits."""
    # given
    store.faults = [(ServerTimeoutError(ErrorStatus(code=504, message="webhook")), False)] * 100
    begun = asyncio.get_running_loop().time()
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, ServerTimeoutError)
    assert LONGEST_REPEAT_S <= asyncio.get_running_loop().time() - begun < LONGEST_REPEAT_S + 10
    assert not store.objects


async def test_a_slow_deletion_has_succeeded_when_the_object_terminates(store: Store) -> None:
    # given an API server that has begun the deletion, and responds to no try in time
    store.objects[Key("ns", "a")] = pod("a", uid="u-1", deletionTimestamp="2026-01-01T00:00:00Z")
    store.faults = [(ServerTimeoutError(ErrorStatus(code=504)), False)] * 100
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.DELETE_PODS, chains=(deletion("a"),)))
    )
    # then
    assert outcome.failure is None
    assert outcome.written == 1


@pytest.mark.parametrize(
    "then",
    [
        UnreachableError("refused"),
        UnauthorizedError(ErrorStatus(code=401)),
        ForbiddenError(ErrorStatus(code=403, message="exceeded quota")),
        TooManyRequestsError(ErrorStatus(code=429)),
        ServerUnavailableError(ErrorStatus(code=503)),
    ],
)
async def test_a_creation_that_arrived_counts_even_if_later_tries_fail(store: Store, then: KubeError) -> None:
    # given a server that stores the pod, fails before it answers, and recovers step by step
    store.faults = [(ConnectionLostError("lost"), True), (then, False)]
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert outcome.failure is None
    assert list(store.objects) == [Key("ns", "a")]


async def test_the_outcome_of_a_lost_creation_is_read_until_the_server_answers(store: Store) -> None:
    # given a server that for a while can neither create nor read
    store.faults = [(ConnectionLostError("lost"), True), (InternalError(ErrorStatus(code=500)), False)]
    store.read_faults = [
        UnreachableError("refused"),
        ForbiddenError(ErrorStatus(code=403)),
        ServerUnavailableError(ErrorStatus(code=503)),
    ]
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert outcome.failure is None
    assert store.read_faults == []


async def test_a_creation_ends_with_the_error_of_a_forbidden_read(store: Store) -> None:
    # given
    store.faults = [(ConnectionLostError("lost"), True)]
    store.read_faults = [ForbiddenError(ErrorStatus(code=403, message="may not get pods"))] * 100
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert outcome.failure is not None
    assert str(outcome.failure.error) == "may not get pods"


async def test_a_creation_that_the_server_failed_is_not_taken_for_done(store: Store) -> None:
    # given a 500 and nothing stored
    store.faults = [(InternalError(ErrorStatus(code=500, message="webhook down")), False)]
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert outcome.failure is not None
    assert str(outcome.failure.error) == "webhook down"


async def test_a_failure_in_an_optional_stage_is_reported_and_the_plan_continues(store: Store) -> None:
    # given
    store.faults = [(ForbiddenError(ErrorStatus(code=403, message="no")), False)]
    optional = Stage(purpose=Purpose.PRE_DOWNLOAD, chains=(creation("a"),), is_optional=True)
    # when
    outcome = await executor(store).execute(
        plan_of(optional, Stage(purpose=Purpose.CREATE_PODS, chains=(creation("b"),)))
    )
    # then
    assert outcome.failure is None
    assert Key("ns", "b") in store.objects


@pytest.mark.parametrize("fails", [True, False])
async def test_a_stage_after_a_failed_optional_one_is_skipped(store: Store, fails: bool) -> None:
    # given
    store.faults = [(ForbiddenError(ErrorStatus(code=403, message="no")), False)] if fails else []
    first = Stage(purpose=Purpose.PRE_DOWNLOAD, chains=(creation("a"),), is_optional=True)
    second = Stage(
        purpose=Purpose.PRE_DOWNLOAD,
        chains=(creation("b"),),
        is_optional=True,
        only_after=(Purpose.PRE_DOWNLOAD,),
    )
    # when
    await executor(store).execute(
        plan_of(first, second, Stage(purpose=Purpose.CREATE_PODS, chains=(creation("c"),)))
    )
    # then
    assert (Key("ns", "b") in store.objects) is not fails
    assert Key("ns", "c") in store.objects


@pytest.mark.parametrize("fails", [True, False])
async def test_a_stage_after_a_failed_independent_one_is_skipped(store: Store, fails: bool) -> None:
    """A failure of any other stage does not matter to it."""
    # given
    no = (ForbiddenError(ErrorStatus(code=403, message="no")), False)
    store.faults = [no, no] if fails else [no]
    alone = {"is_independent": True, "regardless": True}
    elsewhere = Stage(purpose=Purpose.CREATE_WORKLOADS, chains=(creation("a"),), **alone)
    shrinks = Stage(purpose=Purpose.UPDATE_WORKLOADS, chains=(creation("b"),), **alone)
    grows = Stage(
        purpose=Purpose.GROW_WORKLOADS,
        chains=(creation("c"),),
        only_after=(Purpose.UPDATE_WORKLOADS,),
        **alone,
    )
    # when
    await executor(store).execute(plan_of(elsewhere, shrinks, grows))
    # then
    assert (Key("ns", "c") in store.objects) is not fails


@pytest.mark.parametrize(
    ("refused", "log"),
    [
        ("", ["create a", "create b", "delete f"]),
        ("b", ["create a", "create b", "delete f"]),
        ("a", ["create a", "delete c", "delete f"]),
        ("ac", ["create a", "delete c", "delete d", "delete f"]),
    ],
    ids=["nothing is refused", "a part is refused", "all is refused", "the alternative is refused too"],
)
async def test_an_alternative_runs_only_if_no_write_that_it_replaces_took_effect(
    store: Store, refused: str, log: list[str]
) -> None:
    # given creations, and deletions that run only instead of them
    no = ForbiddenError(ErrorStatus(code=403, message="no"))
    store.fault_for = lambda _verb, key: (no, False) if key.name in refused else None
    store.objects = {Key("ns", name): pod(name, uid="u-1") for name in "cdf"}
    create, delete = Purpose.CREATE_PODS, Purpose.DELETE_PODS
    plan = plan_of(
        Stage(purpose=create, chains=(creation("a"), creation("b")), ramp=True),
        Stage(purpose=delete, chains=(deletion("c"),), regardless=True, instead_of=(create,)),
        Stage(
            purpose=Purpose.UPDATE_PODS,
            chains=(deletion("d"),),
            regardless=True,
            instead_of=(create, delete),
        ),
        Stage(purpose=Purpose.TIDY_UP, chains=(deletion("f"),), regardless=True),
    )
    # when
    await executor(store).execute(plan)
    # then
    assert store.log == log


async def test_an_alternative_does_not_run_if_a_result_is_unknown(store: Store) -> None:
    # given a creation that may have taken effect: the API server never answers it in time
    late = ServerTimeoutError(ErrorStatus(code=504))
    store.fault_for = lambda verb, _key: (late, False) if verb == "create" else None
    store.objects = {Key("ns", "c"): pod("c", uid="u-1")}
    create, delete = Purpose.CREATE_PODS, Purpose.DELETE_PODS
    # when
    await executor(store).execute(
        plan_of(
            Stage(purpose=create, chains=(creation("a"),)),
            Stage(purpose=delete, chains=(deletion("c"),), regardless=True, instead_of=(create,)),
        )
    )
    # then
    assert "delete c" not in store.log


async def test_a_request_that_was_never_sent_fails_immediately(store: Store) -> None:
    # given
    store.faults = [(UnreachableError("refused"), False)]
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert store.log == ["create a"]
    assert outcome.failure is not None


async def test_a_failed_creation_is_reported_in_the_same_words_for_every_name(store: Store) -> None:
    # given a server that names the pod
    def refused(_verb: str, key: Key) -> tuple[KubeError, bool]:
        status = ErrorStatus(
            code=403, reason="Forbidden", message=f'pods "{key.name}" is forbidden: exceeded quota'
        )
        return ForbiddenError(status), False

    store.fault_for = refused
    # when
    failures = [
        (
            await executor(store).execute(
                plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation(name),)))
            )
        ).failure
        for name in ("web-1a2b3", "web-4c5d6")
    ]
    # then
    assert [failure.reason.message for failure in failures if failure is not None] == [
        'create pods: pods "…" is forbidden: exceeded quota'
    ] * 2


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ForbiddenError(ErrorStatus(code=403, message="exceeded quota: two")), "raise the ResourceQuota"),
        (
            ForbiddenError(
                ErrorStatus(code=403, message="node didn't have enough allocatable resources: cpu")
            ),
            "lower the requests of the pod",
        ),
        (
            ForbiddenError(ErrorStatus(code=403, message="namespace x is being terminated")),
            "no action is needed: the namespace",
        ),
        (
            ForbiddenError(ErrorStatus(code=403, message='User "m" cannot create resource "pods"')),
            "grant the manager the missing permission",
        ),
        (
            ForbiddenError(
                ErrorStatus(code=403, message="failed quota: q: must specify limits.cpu for: main")
            ),
            "set in the spec of the pods",
        ),
        (
            ForbiddenError(
                ErrorStatus(code=403, message="maximum memory usage per Container is 1Mi, but limit is 2Mi")
            ),
            "request what the LimitRange allows",
        ),
        (
            ForbiddenError(ErrorStatus(code=403, message="no PriorityClass with name x was found")),
            "create PriorityClass x (kubectl create priorityclass x --value=NUMBER), or correct priorityClassName",
        ),
        (
            ForbiddenError(
                ErrorStatus(
                    code=403,
                    message='error looking up service account ns/robot: serviceaccount "robot" not found',
                )
            ),
            "create ServiceAccount robot (kubectl create serviceaccount -n ns robot), or correct serviceAccountName",
        ),
        (
            ForbiddenError(
                ErrorStatus(code=403, message="error looking up service account ns/robot: timeout")
            ),
            "correct serviceAccountName in the spec of the pods",
        ),
        (
            ForbiddenError(ErrorStatus(code=403, message='violates PodSecurity "restricted:latest"')),
            "correct the spec of the pods, or have the level of the namespace lowered",
        ),
        (
            InvalidError(ErrorStatus(code=422, message="ValidatingAdmissionPolicy 'p' denied request: no")),
            "change the object's spec so that the policy allows the write",
        ),
        (
            InvalidError(ErrorStatus(code=422, message="spec.containers")),
            "correct what the API server rejects",
        ),
        (UnreachableError("no route"), "no action is needed if the API server"),
        (
            InternalError(ErrorStatus(code=500, message='failed calling webhook "check.team.io": refused')),
            "make the server of webhook check.team.io respond, or correct or delete the webhook configuration that"
            " contains it (kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations)",
        ),
        (
            InternalError(
                ErrorStatus(code=500, message='admission webhook "m.kb.io" denied the request: spec.x: no')
            ),
            "correct what the message of the webhook names",
        ),
        (
            InternalError(ErrorStatus(code=500, message="failed calling webhook: refused")),
            "make the server of this webhook respond",
        ),
    ],
)
async def test_a_failure_has_a_remedy_for_the_user(store: Store, error: KubeError, remedy: str) -> None:
    store.faults = [(error, False)]
    failure = (
        await executor(store).execute(
            plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("web-x7k2p"),)))
        )
    ).failure
    assert failure is not None
    reason, namespace = failure.reason, failure.step.action.key.namespace
    assert reason.remedy.startswith(remedy)
    known = reason.remedy.replace("the spec of the pods", "the pod template")
    assert split_remedy(reason.full_message, namespace=namespace) == (reason.message, known)


async def test_a_name_that_another_owner_has_makes_it_plan_again(store: Store) -> None:
    # given a pod of that name with another owner
    store.objects[Key("ns", "a")] = pod("a", owner_uid="u-other")
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then the live object was read (and so cached) for the next plan
    assert outcome.failure is not None
    assert outcome.failure.is_stale
    assert store.log == ["create a", "read a"]


async def test_a_terminating_pod_of_the_same_name_is_not_taken_for_the_new_one(store: Store) -> None:
    # given
    store.objects[Key("ns", "a")] = pod("a", deletionTimestamp="2026-01-01T00:00:00Z")
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=(creation("a"),)))
    )
    # then
    assert outcome.failure is not None
    assert outcome.failure.is_stale


async def test_deleting_a_missing_object_succeeds(store: Store) -> None:
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.DELETE_PODS, chains=(deletion("a"),)))
    )
    # then
    assert outcome.failure is None


async def test_deleting_a_recreated_object_keeps_the_new_one(store: Store) -> None:
    # given
    store.objects[Key("ns", "a")] = pod("a", uid="u-2")
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.DELETE_PODS, chains=(deletion("a", uid="u-1"),)))
    )
    # then
    assert outcome.failure is None
    assert Key("ns", "a") in store.objects


async def test_a_deletion_whose_answer_was_lost_is_repeated_for_the_same_pod(store: Store) -> None:
    # given
    store.objects[Key("ns", "a")] = pod("a", uid="u-1")
    store.faults = [(ConnectionLostError("lost"), True)]
    # when
    outcome = await executor(store).execute(
        plan_of(Stage(purpose=Purpose.DELETE_PODS, chains=(deletion("a"),)))
    )
    # then
    assert store.log == ["delete a", "delete a"]
    assert outcome.failure is None


async def test_a_conflict_is_stale_and_its_object_is_read_for_the_next_plan(store: Store) -> None:
    # given
    store.objects[Key("ns", "a")] = pod("a")
    store.faults = [(ConflictError(ErrorStatus(code=409, message="modified")), False)]
    # when
    chain = Chain(subject="a", steps=(labelling("a", uid="u-1"),))
    outcome = await executor(store).execute(plan_of(Stage(purpose=Purpose.LABEL_REVISIONS, chains=(chain,))))
    # then
    assert outcome.failure is not None
    assert outcome.failure.is_stale
    assert store.log == ["patch a", "read a"]


async def test_after_a_conflict_the_stage_continues_and_later_stages_are_skipped(store: Store) -> None:
    # given three pods to label, of which another client has changed the first
    names = ("a", "b", "c")
    store.objects = {Key("ns", name): pod(name) for name in names}
    store.faults = [(ConflictError(ErrorStatus(code=409, message="modified")), False)]
    label = [Chain(subject=name, steps=(labelling(name, uid="u-1"),)) for name in names]
    plan = plan_of(
        Stage(purpose=Purpose.SET_CONDITIONS, chains=tuple(label)),
        Stage(purpose=Purpose.TIDY_UP, chains=(deletion("a"),)),
    )
    # when
    outcome = await executor(store, max_in_flight=1).execute(plan)
    # then
    assert store.log == ["patch a", "read a", "patch b", "patch c"]
    assert outcome.failure is not None
    assert outcome.failure.is_stale
    assert outcome.written == 2


async def test_a_patch_that_meets_a_successor_of_the_same_name_is_stale(store: Store) -> None:
    # given the API server's answer when metadata.uid of a patch differs
    store.objects[Key("ns", "a")] = pod("a", uid="u-2")
    cause = Cause(reason="FieldValueInvalid", message="field is immutable", field="metadata.uid")
    store.faults = [(InvalidError(ErrorStatus(code=422, details=StatusDetails(causes=(cause,)))), False)]
    # when
    chain = Chain(subject="a", steps=(labelling("a", uid="u-1"),))
    outcome = await executor(store).execute(plan_of(Stage(purpose=Purpose.LABEL_REVISIONS, chains=(chain,))))
    # then
    assert outcome.failure is not None
    assert outcome.failure.is_stale
    assert store.log == ["patch a", "read a"]


async def test_preconditions_are_part_of_the_patch(store: Store) -> None:
    # given
    store.objects[Key("ns", "a")] = pod("a")
    chain = Chain(subject="a", steps=(labelling("a", uid="u-1", resource_version="7"),))
    # when
    await executor(store).execute(plan_of(Stage(purpose=Purpose.LABEL_REVISIONS, chains=(chain,))))
    # then
    assert store.objects[Key("ns", "a")]["patched"] == {
        "metadata": {"labels": {"a": "b"}, "uid": "u-1", "resourceVersion": "7"}
    }


async def test_preconditions_of_a_json_patch_are_tests(store: Store) -> None:
    # given
    store.objects[Key("ns", "a")] = pod("a")
    action = Patch(
        resource=PODS,
        key=Key("ns", "a"),
        patch_type=PatchType.JSON,
        body=[{"op": "remove", "path": "/spec/x"}],
        uid="u-1",
    )
    chain = Chain(subject="a", steps=(Step(action=action, because=""),))
    # when
    await executor(store).execute(plan_of(Stage(purpose=Purpose.LABEL_REVISIONS, chains=(chain,))))
    # then
    assert store.objects[Key("ns", "a")]["patched"] == [
        {"op": "test", "path": "/metadata/uid", "value": "u-1"},
        {"op": "remove", "path": "/spec/x"},
    ]


async def test_an_outdated_plan_stops_between_two_pods(store: Store) -> None:
    # given
    plan = plan_of(Stage(purpose=Purpose.CREATE_PODS, chains=tuple(creation(name) for name in names(100))))
    # when the spec changes after ten pods
    outcome = await executor(store, max_in_flight=1).execute(plan, until=lambda: len(store.objects) >= 10)
    # then
    assert outcome.interrupted
    assert outcome.written == 10
    assert outcome.failure is None


async def test_a_fault_is_reported_before_a_stale_write(store: Store) -> None:
    # given a conflict and a refusal in one stage
    for name in ("a", "b"):
        store.objects[Key("ns", name)] = pod(name)
    store.fault_for = lambda _verb, key: (
        (ConflictError(ErrorStatus(code=409)), False)
        if key.name == "a"
        else (ForbiddenError(ErrorStatus(code=403, message="no")), False)
    )
    chains = tuple(Chain(subject=name, steps=(labelling(name),)) for name in ("a", "b"))
    # when
    outcome = await executor(store).execute(plan_of(Stage(purpose=Purpose.LABEL_REVISIONS, chains=chains)))
    # then
    assert outcome.failure is not None
    assert outcome.failure.subject == "b"


def unnamed_creation() -> Chain:
    """Creation of a pod whose name the API server generates."""
    action = Create(resource=PODS, key=Key("ns", ""), body={"metadata": {"generateName": "made-"}})
    done = Note(reason="Created", message=f"created {CREATED_NAME}", is_single=True)
    return Chain(subject="", steps=(Step(action=action, because="too few", done=done),))


async def test_a_note_has_the_name_that_the_api_server_made(store: Store) -> None:
    # given
    stage = Stage(purpose=Purpose.CREATE_PODS, chains=(unnamed_creation(), unnamed_creation()))
    # when
    outcome = await executor(store, max_in_flight=1).execute(plan_of(stage))
    # then there is an event for each, since the notes are single
    assert [(note.message, count) for note, count in outcome.notes] == [
        ("created made-0", 1),
        ("created made-1", 1),
    ]


async def test_a_creation_without_a_name_is_not_repeated_when_its_answer_is_lost(store: Store) -> None:
    # given
    store.faults = [(ConnectionLostError("gone"), True)]
    stage = Stage(purpose=Purpose.CREATE_PODS, chains=(unnamed_creation(),))
    # when
    outcome = await executor(store).execute(plan_of(stage))
    # then the next plan counts the pods that exist
    assert store.log == ["create made-0"]
    assert outcome.failure is not None
    assert not outcome.failure.is_stale


@pytest.mark.parametrize(
    "quoted", ["web-{}", "web-{:.3}…", "web-{:.2}..."], ids=["whole", "cut", "cut by dots"]
)
def test_a_refusal_message_is_the_same_for_every_generated_name(quoted: str) -> None:
    def message(end: str) -> str:
        action = Create(resource=PODS, key=Key("default", f"web-{end}"), body={})
        error = InvalidError(ErrorStatus(code=422, message=f'Invalid value: "{quoted.format(end)}"'))
        return Failure("create pods", "", Step(action=action, because="1 missing"), error).reason.message

    assert message("k76rk") == message("22vqh") == 'create pods: Invalid value: "…"'
