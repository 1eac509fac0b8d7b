"""A reconcile: the order of its writes, and the consequences of a failure."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.documents import encode
from pykruise.kube.errors import (
    Cause,
    ConflictError,
    ErrorStatus,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    StatusDetails,
)
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, Resource
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Delete
from pykruise.runtime.control import Control
from pykruise.runtime.execute import Executor
from pykruise.runtime.kstatus import Conditions, Standing, split_kstatus
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, Subject
from pykruise.runtime.read import Memories
from pykruise.runtime.reasons import Reason
from pykruise.runtime.reconcile import (
    RAMP_KEPT_S,
    PlanFailedError,
    ReconciledOwner,
    Reconciler,
    drop_creations,
)
from pykruise.runtime.status import BURST, OWN_CONDITIONS_S
from pykruise.runtime.views import Views

KEY = Key("ns", "web")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The object in the cache."""

    namespace: str = KEY.namespace
    name: str = KEY.name
    uid: str = "u"
    resource_version: int = 1
    generation: int = 0
    stored_status: dict[str, Any] = {}
    kstatus: Conditions = ()
    is_deleting: bool = False


VIEWS = Views[View](resource=CLONE_SETS, projector=lambda: lambda _raw: View())


class World(msgspec.Struct):
    """A snapshot, the cache of its object, the API server behind the writer, and the plan: each test sets them."""

    plan_now: Plan = Plan()
    stored: dict[str, Any] = {}
    writes: list[str] = []
    events: list[tuple[str, int]] = []
    refuse: Callable[[str], KubeError | None] = lambda _name: None
    now: float = 0.0
    gone: bool = False
    current: bool = True
    live_uid: str = "u"
    version: int = 1
    generation: int = 0
    tells_failures: bool = True
    looks: int = 0
    create_s: float = 0.0

    # the cache
    def get(self, key: Key) -> View | None:
        return None if self.gone or key != KEY else self.view()

    def view(self) -> View:
        plain, kstatus = split_kstatus(self.stored)
        return View(
            resource_version=self.version,
            generation=self.generation,
            stored_status=dict(plain),
            kstatus=kstatus,
        )

    # the kind
    def control(self) -> Control:
        async def snapshot(view: View, read: Any) -> World:
            return self

        return Control(
            name="test",
            component="test-controller",
            objects=VIEWS,
            wakes=lambda _: (),
            snapshot=snapshot,
            object_of=World.view,
            plan=lambda world: world.plan_now,
            failed=lambda world, plan, failure: (
                {"failed": str(failure.error)} if world.tells_failures else None
            ),
            is_current=lambda planned, now: self.current,
        )

    # the writer
    async def create(self, resource: Resource, namespace: str, body: Any, **_options: Any) -> bytes:
        name = body["metadata"]["name"]
        if error := self.refuse(name):
            raise error
        await asyncio.sleep(self.create_s)
        self.writes.append(f"create {name}")
        return encode(body)

    async def patch(self, resource: Resource, key: Key, body: Any, **_options: Any) -> bytes:
        if key == KEY and isinstance(
            error := self.refuse(key.name), ConflictError | ForbiddenError | InvalidError
        ):
            raise error
        self.writes.append(f"status {body['status']}")
        self.stored.update(body["status"])
        return b"{}"

    async def read(self, resource: Resource, key: Key, **_options: Any) -> bytes:
        self.looks += 1
        if not self.live_uid:
            raise NotFoundError(ErrorStatus(code=404, reason="NotFound"))
        return encode({"metadata": {"uid": self.live_uid}})


def turn(world: World, **control: Any) -> Reconciler:
    def record(owner: ReconciledOwner, note: Note, count: int) -> None:
        world.events.append((f"{note.reason}: {note.message}", count))

    executor = Executor(world, rng=random.Random(1))  # type: ignore[arg-type]  # a world with the writer's methods
    cache: Any = world
    memories = Memories()
    return Reconciler(
        CLONE_SETS,
        msgspec.structs.replace(world.control(), **control),
        cache,
        read_for=lambda view: cache,
        memories=memories,
        executor=executor,
        record=record,
        reports_ready=True,
    )


def creating(*names: str, is_optional: bool = False, ramp: bool = False, **fields: Any) -> Plan:
    chains = tuple(
        Chain(
            subject=name,
            steps=(
                Step(
                    action=Create(resource=PODS, key=Key("ns", name), body={"metadata": {"name": name}}),
                    because="too few",
                    done=Note(reason="SuccessfulCreate", message=f"created {name}"),
                ),
            ),
        )
        for name in names
    )
    stage = Stage(purpose=Purpose.CREATE_PODS, chains=chains, is_optional=is_optional, ramp=ramp)
    return Plan(stages=(stage,), **fields)


async def create_slowly(world: World, reconcile: Reconciler, count: int) -> list[int]:
    """Reconcile until `count` more pods exist, and return the number of pods after each plan."""
    written = []
    names = [f"pod-{len(world.writes) + number}" for number in range(count)]
    while left := [name for name in names if f"create {name}" not in world.writes]:
        world.plan_now = creating(*left, ramp=True)
        await reconcile(KEY)
        written.append(len(world.writes))
    return written


@pytest.fixture
def world() -> World:
    return World()


async def test_a_settled_object_costs_no_write(world: World) -> None:
    # given
    world.plan_now, world.stored = Plan(status={"replicas": 3}, requeue_after_s=7.0), {"replicas": 3}
    # when
    after = await turn(world)(KEY)
    # then
    assert world.writes == []
    assert after == 7.0


async def test_writes_are_reported_once_per_reason(world: World) -> None:
    # given
    world.plan_now = creating("a", "b", "c")
    # when
    await turn(world)(KEY)
    # then
    assert world.writes == ["create a", "create b", "create c"]
    assert world.events == [("SuccessfulCreate: created a (and 2 more: b, c)", 3)]


async def test_a_note_that_is_not_to_be_repeated_is_recorded_again_only_after_its_time(world: World) -> None:
    # given
    note = Note(reason="Stopped", message="why", warning=True, again_after_s=600)
    world.plan_now = Plan(notes=(note,))
    take = turn(world)
    # when the note is planned again and again
    for _ in range(3):
        await take(KEY)
        await asyncio.sleep(100)
    # then
    assert world.events == [("Stopped: why", 1)]
    # when
    await asyncio.sleep(400)
    await take(KEY)
    # then
    assert world.events == [("Stopped: why", 1)] * 2


async def test_an_event_with_the_same_identity_is_not_recorded_again_in_other_words(world: World) -> None:
    take = turn(world)
    for words in ("pod a is stuck", "pod b is stuck"):
        note = Note(reason="Stuck", message=words, warning=True, again_after_s=600, same_as="Stuck")
        world.plan_now = Plan(notes=(note,))
        await take(KEY)
    assert world.events == [("Stuck: pod a is stuck", 1)]


async def test_events_about_other_objects_are_remembered_per_object(world: World) -> None:
    take = turn(world)
    world.plan_now = Plan(
        notes=tuple(
            Note(
                reason="Stuck",
                message=f"{name} is stuck",
                again_after_s=600,
                about=Subject(resource=PODS, key=Key("shop", name), uid=name),
            )
            for name in "ab"
        )
    )
    for _ in range(3):
        await take(KEY)
    assert world.events == [("Stuck: a is stuck", 1), ("Stuck: b is stuck", 1)]


async def test_an_event_with_another_message_is_recorded_immediately(world: World) -> None:
    take = turn(world)
    for message in ("one", "two", "two", "one"):
        world.plan_now = Plan(notes=(Note(reason="Stopped", message=message, again_after_s=600),))
        await take(KEY)
    assert [event for event, _ in world.events] == ["Stopped: one", "Stopped: two", "Stopped: one"]


async def test_a_deleted_object_needs_no_reconcile(world: World) -> None:
    # given
    world.gone = True
    # then
    assert await turn(world)(KEY) is None


async def test_a_refused_write_is_recorded_in_the_status_and_retried_with_backoff(world: World) -> None:
    # given
    world.plan_now = creating("a")
    world.refuse = lambda name: (
        ForbiddenError(ErrorStatus(code=403, message="exceeded quota")) if name == "a" else None
    )
    # when
    with pytest.raises(PlanFailedError, match="create pods ns/a: exceeded quota"):
        await turn(world)(KEY)
    # then
    assert world.stored == {"failed": "exceeded quota"}


async def test_a_kind_whose_status_has_no_place_for_failures_writes_the_status_of_its_plan(
    world: World,
) -> None:
    # given
    world.plan_now = creating("a", status={"observedGeneration": 2})
    world.tells_failures = False
    world.refuse = lambda name: ForbiddenError(ErrorStatus(code=403, message="no")) if name == "a" else None
    # when
    with pytest.raises(PlanFailedError):
        await turn(world)(KEY)
    # then
    assert world.stored == {"observedGeneration": 2}


async def test_a_stale_plan_is_not_a_failure(world: World) -> None:
    """cloneset 9.3: a conflict sets no condition; the next plan uses the newer state"""
    # given
    world.plan_now = creating("a")
    world.refuse = lambda _name: ConflictError(ErrorStatus(code=409, message="modified"))
    # when
    with pytest.raises(ConflictError):
        await turn(world)(KEY)
    # then
    assert world.stored == {}


async def test_a_conflicting_status_write_is_retried(world: World) -> None:
    """cloneset case 90"""
    # given
    world.plan_now = Plan(status={"replicas": 1})
    world.refuse = lambda _name: ConflictError(ErrorStatus(code=409, message="modified"))
    # then
    with pytest.raises(ConflictError):
        await turn(world)(KEY)


async def test_a_status_that_is_refused_does_not_hold_the_pods_up(world: World) -> None:
    # given
    world.plan_now, world.create_s = creating("a", status={"replicas": 1}), 1.0
    world.refuse = lambda name: ForbiddenError(ErrorStatus(code=403, message="no")) if name == "web" else None
    # when
    with pytest.raises(PlanFailedError, match="patch clonesets"):
        await turn(world)(KEY)
    # then
    assert world.writes == ["create a"]


async def test_a_status_is_written_beside_writes_that_take_long(world: World) -> None:
    # given
    world.plan_now, world.create_s = creating("a", status={"replicas": 0}), 1.0
    # when
    await turn(world)(KEY)
    # then
    assert world.writes == ["status {'replicas': 0}", "create a"]


async def test_a_status_that_the_plans_own_writes_change_again_is_left_to_the_next_plan(world: World) -> None:
    # given fast writes
    reconcile = turn(world)
    world.plan_now = creating("a", status={"replicas": 0})
    # when / then the object is reconciled again immediately
    assert await reconcile(KEY) == 0.0
    assert world.writes == ["create a"]
    # and then the newer status is written
    world.plan_now = Plan(status={"replicas": 1})
    assert await reconcile(KEY) is None
    assert world.writes == ["create a", "status {'replicas': 1}"]


async def test_a_status_is_not_left_to_the_next_plan_for_ever(world: World) -> None:
    # given an object that always has another fast write
    reconcile = turn(world)
    world.create_s = 0.03
    # when
    for number in range(3):
        world.plan_now = creating(f"pod-{number}", status={"replicas": number})
        await reconcile(KEY)
    # then
    assert world.writes[:3] == ["create pod-0", "status {'replicas': 1}", "create pod-1"]


async def test_pods_are_created_at_full_speed_although_the_api_server_answers_only_twice_per_plan(
    world: World,
) -> None:
    """The ramp of a plan continues in the next one: batches of 1, 2, 4, then 8, 16, 32, then always 32."""
    world.create_s = 0.4
    assert await create_slowly(world, turn(world), 200) == [7, 63, 159, 200]


async def test_a_ramp_begins_again_with_one_pod_for_a_new_spec_after_a_failure_and_after_a_rest(
    world: World,
) -> None:
    # given a ramp that has reached its full speed
    reconcile = turn(world)
    world.create_s = 0.4
    await create_slowly(world, reconcile, 100)
    # when the spec changes, then the first plan creates a few pods only
    world.generation += 1
    world.writes.clear()
    assert (await create_slowly(world, reconcile, 100))[0] == 7
    # when a pod is rejected
    world.writes.clear()
    world.refuse = lambda _: ForbiddenError(ErrorStatus(code=403, message="no"))
    with pytest.raises(PlanFailedError):
        await create_slowly(world, reconcile, 100)
    world.refuse = lambda _: None
    world.writes.clear()
    assert (await create_slowly(world, reconcile, 100))[0] == 7
    # when there was nothing to do for a while
    await asyncio.sleep(RAMP_KEPT_S + 1)
    world.writes.clear()
    assert (await create_slowly(world, reconcile, 100))[0] == 7


async def test_a_plan_without_writes_has_its_status_written(world: World) -> None:
    # given a failed write of an optional stage
    world.plan_now = creating("a", is_optional=True, status={"replicas": 1})
    world.refuse = lambda name: ForbiddenError(ErrorStatus(code=403, message="no")) if name == "a" else None
    # when / then
    assert await turn(world)(KEY) == 30.0
    assert world.writes == ["status {'replicas': 1}"]


async def test_a_status_is_written_rarely_during_pod_writes_and_immediately_afterwards(
    world: World,
) -> None:
    # given ten seconds of work, in reconciles of a tenth of a second
    reconcile = turn(world)
    world.create_s = 0.1
    for number in range(100):
        world.plan_now = creating(f"pod-{number}", status={"replicas": number})
        await reconcile(KEY)
    # then
    status_writes = [write for write in world.writes if write.startswith("status")]
    assert len(status_writes) <= 4 + 10 * 1.5
    # when all work is done
    world.plan_now = Plan(status={"replicas": 100})
    # then
    assert await reconcile(KEY) is None
    assert world.writes[-1] == "status {'replicas': 100}"


async def test_a_constantly_changing_status_is_written_later_by_a_requeue(
    world: World,
) -> None:
    # given a status that changes with every reconcile
    reconcile = turn(world)
    afters = []
    for number in range(6):
        world.plan_now = Plan(status={"replicas": number + 1})
        afters.append(await reconcile(KEY))
    # then the first ones were written immediately, and the last one waits for its pace
    assert len(world.writes) < 6
    assert afters[0] is None
    assert afters[-1] is not None
    assert 0 < afters[-1] <= 0.25


async def test_an_immediate_requeue_without_writes_waits_for_the_status_pace(
    world: World,
) -> None:
    # given a status that waits for its pace
    reconcile = turn(world)
    for number in range(6):
        world.plan_now = Plan(status={"replicas": number + 1}, requeue_after_s=0.0)
        after_s = await reconcile(KEY)
    # then
    assert world.stored["replicas"] < 6
    assert after_s is not None
    assert 0 < after_s <= 0.25


async def test_the_status_that_ends_a_wait_is_never_delayed(
    world: World,
) -> None:
    # given statuses of a rollout that have used up the burst of their pace
    take = turn(world)
    waiting = Reason(Code.NOT_READY, "pods are not ready")
    for ready in range(2 * BURST):
        world.plan_now = Plan(status={"ready": ready}, waiting=waiting)
        await take(KEY)
    assert world.stored["ready"] < 2 * BURST - 1
    # when the rollout is done
    world.plan_now = Plan(status={"ready": 3})
    await take(KEY)
    # then
    assert world.stored == {"ready": 3}
    # and later changes are paced as before
    world.plan_now = Plan(status={"ready": 4})
    assert await take(KEY)
    assert world.stored == {"ready": 3}


async def test_the_first_and_the_last_status_of_each_generation_are_not_paced(world: World) -> None:
    # given statuses of a rollout that have used up the burst of their pace
    take = turn(world)
    waiting = Reason(Code.NOT_READY, "pods are not ready")
    for ready in range(2 * BURST):
        world.plan_now = Plan(status={"ready": ready}, waiting=waiting)
        await take(KEY)
    written = []
    for generation in (1, 2):
        world.generation = generation
        for ready, reason in ((101, waiting), (102, waiting), (103, None), (104, None)):
            # when
            world.plan_now = Plan(status={"ready": 1000 * generation + ready}, waiting=reason)
            await take(KEY)
            written.append(world.stored["ready"])
    # then
    assert written == [1101, 1101, 1103, 1103, 2101, 2101, 2103, 2103]


async def test_a_plan_whose_spec_changed_is_dropped_and_planned_again_immediately(world: World) -> None:
    # given
    world.plan_now, world.current = creating("a", "b"), False
    # when
    after = await turn(world)(KEY)
    # then
    assert world.writes == []
    assert after == 0.0


async def test_notes_of_the_plan_are_recorded_even_when_nothing_is_written(world: World) -> None:
    # given
    world.plan_now = Plan(notes=(Note(reason="ScaleUpLimited", message="2 of 5", warning=True),))
    # when
    await turn(world)(KEY)
    # then
    assert world.events == [("ScaleUpLimited: 2 of 5", 1)]


@pytest.mark.parametrize("live_uid", ["", "another"], ids=["deleted", "recreated"])
async def test_children_of_a_deleted_owner_are_not_recreated(world: World, live_uid: str) -> None:
    # given a deleted owner, which the cache still has, and garbage collection that deletes its children
    reconcile = turn(world)
    world.plan_now = creating("a")
    await reconcile(KEY)
    world.live_uid = live_uid
    # when
    with pytest.raises(ConflictError):
        await reconcile(KEY)
    # then
    assert world.writes == ["create a"]


async def test_a_kind_that_rarely_makes_objects_does_not_read_its_owner(world: World) -> None:
    # given
    reconcile = turn(world)
    world.plan_now = creating("a")
    await reconcile(KEY)
    # when
    await asyncio.sleep(1.5)
    await reconcile(KEY)
    # then
    assert world.looks == 0
    # when it reconciles again immediately
    await reconcile(KEY)
    # then
    assert world.looks == 1
    assert world.writes == ["create a"] * 3


async def test_an_owner_with_a_newer_known_version_is_not_read_again(world: World) -> None:
    # given an owner that has just created an object
    reconcile = turn(world)
    world.plan_now = creating("a")
    await reconcile(KEY)
    # when the owner was changed, so that it existed at that time
    world.version = 2
    await reconcile(KEY)
    # then
    assert world.looks == 0
    # when no newer version is known, the owner may be gone
    await reconcile(KEY)
    # then
    assert world.looks == 1
    assert world.writes == ["create a"] * 3


@pytest.mark.parametrize("code", [409, 500])
async def test_a_failure_in_an_optional_stage_is_retried_automatically(world: World, code: int) -> None:
    # given
    world.plan_now = creating("a", is_optional=True)
    status = ErrorStatus(code=code, reason="Conflict")
    world.refuse = lambda _name: ConflictError(status) if code == 409 else ForbiddenError(status)
    # when there is no other event
    again_s = await turn(world)(KEY)
    # then
    assert again_s == 30.0


def _terminating() -> ForbiddenError:
    cause = Cause(
        reason="NamespaceTerminating", message="namespace ns is being terminated", field="metadata.namespace"
    )
    message = "unable to create new content in namespace ns because it is being terminated"
    return ForbiddenError(
        ErrorStatus(code=403, reason="Forbidden", message=message, details=StatusDetails(causes=(cause,)))
    )


async def test_in_a_namespace_that_terminates_a_creation_is_tried_once_and_waits_for_what_happens(
    world: World,
) -> None:
    # given
    tried: list[str] = []

    def refuse(name: str) -> KubeError | None:
        tried.append(name)
        return _terminating() if name == "a" else None

    world.plan_now, world.refuse = creating("a", status={"replicas": 0}, requeue_after_s=5.0), refuse
    work = turn(world)
    # when
    after = await work(KEY)
    # then the failure is reported, and the key is not requeued
    assert after is None
    assert "failed" in world.stored
    # when an event wakes the key, then everything is written except creations
    assert await work(KEY) is None
    assert tried.count("a") == 1
    assert world.stored["replicas"] == 0
    # when a new object with this name is in a new namespace of the same name
    world.gone = True
    await work(KEY)
    world.gone, world.refuse = False, lambda _name: None
    await work(KEY)
    # then its pod is created
    assert "create a" in world.writes


async def test_a_creation_elsewhere_that_is_refused_so_is_tried_again(world: World) -> None:
    # given an object that creates a pod in another namespace, which terminates
    plan = creating("a")
    (chain,) = plan.stages[0].chains
    action = Create(resource=PODS, key=Key("other", "a"), body={"metadata": {"name": "a"}})
    step = msgspec.structs.replace(chain.steps[0], action=action)
    chains = (msgspec.structs.replace(chain, steps=(step,)),)
    world.plan_now = Plan(stages=(Stage(purpose=Purpose.CREATE_PODS, chains=chains),))
    world.refuse = lambda name: _terminating() if name == "a" else None
    # then
    with pytest.raises(PlanFailedError):
        await turn(world)(KEY)


def test_a_plan_without_its_creations_ends_at_the_first_of_them() -> None:
    def stage(purpose: Purpose, *actions: Any, **fields: Any) -> Stage:
        chains = tuple(Chain(subject=purpose, steps=(Step(action=action, because=""),)) for action in actions)
        return Stage(purpose=purpose, chains=chains, **fields)

    make = Create(resource=PODS, key=Key("ns", "a"), body={})
    drop = Delete(resource=PODS, key=Key("ns", "b"), uid="u")
    plan = Plan(
        stages=(
            stage(Purpose.DELETE_PODS, drop),
            stage(Purpose.REPAIR_PODS, make, drop),
            stage(Purpose.UPDATE_PODS, drop),
            stage(Purpose.DELETE_SURPLUS_PODS, make, drop, regardless=True),
            stage(Purpose.KEEP_PODS, drop, regardless=True, only_after=(Purpose.REPAIR_PODS,)),
            stage(Purpose.REPLACE_PODS, drop, regardless=True, instead_of=(Purpose.REPAIR_PODS,)),
        ),
        requeue_after_s=0.0,
    )
    # when
    result = drop_creations(plan)
    # then
    assert [(stage.purpose, len(stage.chains)) for stage in result.stages] == [
        (Purpose.DELETE_PODS, 1),
        (Purpose.REPAIR_PODS, 1),
        (Purpose.DELETE_SURPLUS_PODS, 1),
    ]
    assert result.requeue_after_s is None
    # and a plan without creations is not changed
    assert (
        drop_creations(Plan(stages=(stage(Purpose.DELETE_PODS, drop),), requeue_after_s=3.0)).requeue_after_s
        == 3.0
    )


async def test_a_missing_object_is_planned_for_when_its_kind_supports_that(world: World) -> None:
    """Other objects may need it: a workload its PersistentPodState"""
    # given
    world.gone, world.plan_now = True, creating("a")
    # then
    assert await turn(world)(KEY) is None
    assert world.writes == []
    none = View(uid="")
    await turn(world, absent=lambda key: none, object_of=lambda snapshot: none)(KEY)
    assert world.writes == ["create a"]


async def test_a_kind_that_learns_from_failures_is_planned_again_immediately_without_an_error(
    world: World,
) -> None:
    """The kind itself decides about each failure, and about the time of the next try"""
    # given
    learned: list[str] = []
    world.plan_now = creating("a", "b")
    world.refuse = lambda name: (
        ForbiddenError(ErrorStatus(code=403, reason="Forbidden")) if name == "a" else None
    )

    def learn(read: Any, snapshot: Any, failures: Any) -> None:
        learned.extend(failure.subject for failure in failures)

    # when
    again_s = await turn(world, learn=learn)(KEY)
    # then
    assert (again_s, learned) == (0.0, ["a"])


async def test_a_status_that_is_refused_is_tried_again_after_longer_and_longer_waits(world: World) -> None:
    """A reconcile that waits for the pace of the status is no success: the queue would use short delays again."""
    # given a server that refuses each status
    world.plan_now = Plan(status={"replicas": 3})
    refused = InvalidError(ErrorStatus(code=422, reason="Invalid", message="no"))
    world.refuse = lambda _name: refused
    take = turn(world)
    for _ in range(20):
        with pytest.raises(PlanFailedError):
            await take(KEY)
    # when the server accepts one
    world.refuse = lambda _name: None
    assert await take(KEY) is None
    # then
    assert world.stored == {"replicas": 3}


OWN = {"own_conditions": frozenset({"Own"}), "urgent_conditions": frozenset[str]()}


def owned(replicas: int, message: str = "") -> Plan:
    conditions = [{"type": "Own", "status": "True", "message": message}] if message else []
    return Plan(status={"replicas": replicas, "conditions": conditions})


async def test_a_condition_unknown_to_clients_is_written_a_minute_later() -> None:
    # given an object whose status is up to date
    world = World(stored={"replicas": 1, "conditions": []}, plan_now=owned(1, "a rival"))
    reconcile = turn(world, **OWN)
    # when only its own condition differs
    assert await reconcile(KEY) == pytest.approx(OWN_CONDITIONS_S)
    await asyncio.sleep(20)
    left = await reconcile(KEY)
    # then nothing is written within the minute
    assert (world.writes, left) == ([], pytest.approx(OWN_CONDITIONS_S - 20))
    await asyncio.sleep(left or 0)
    await reconcile(KEY)
    assert len(world.writes) == 1


async def test_an_unobserved_condition_is_written_together_with_other_changes() -> None:
    # given
    world = World(stored={"replicas": 1, "conditions": []}, plan_now=owned(1, "a rival"))
    reconcile = turn(world, **OWN)
    await reconcile(KEY)
    # when
    world.plan_now = owned(2, "a rival")
    await reconcile(KEY)
    # then
    assert world.stored == world.plan_now.status


@pytest.mark.parametrize(("later", "waits"), [("two of three", True), ("Stuck", False)])
async def test_words_of_kstatus_conditions_wait_and_their_reasons_do_not(later: str, waits: bool) -> None:
    # given an object that reports Ready and Reconciling
    words = ["one of three"]

    def standing(_conditions: object, _waiting: object) -> Standing:
        is_stuck = words[-1] == "Stuck"
        return Standing(is_ready=False, reason="Stuck" if is_stuck else "Updating", message=words[-1])

    world = World(plan_now=Plan(status={"replicas": 1}))
    reconcile = turn(world, standing=standing)
    await reconcile(KEY)
    world.writes.clear()
    # when only the message differs
    words.append(later)
    left = await reconcile(KEY)
    # then
    assert (world.writes == [], left == pytest.approx(OWN_CONDITIONS_S)) == (waits, waits)


async def test_the_condition_delay_restarts_after_a_plan_with_nothing_to_write() -> None:
    # given
    world = World(stored={"replicas": 1, "conditions": []})
    reconcile = turn(world, **OWN)
    for plan in (owned(1, "a rival"), Plan()):
        world.plan_now = plan
        await reconcile(KEY)
        await asyncio.sleep(59)
    # when
    world.plan_now = owned(1, "a rival")
    # then
    assert await reconcile(KEY) == pytest.approx(OWN_CONDITIONS_S)
    assert world.writes == []
