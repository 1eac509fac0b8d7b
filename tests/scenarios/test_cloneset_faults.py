"""Whatever goes wrong between the manager and the API server, a CloneSet ends up as wanted.

Every scenario creates six pods, updates them, and scales in, while something is broken. Then: it converges, there
never were more pods than replicas + maxSurge (counted at the API server), never fewer available than maxUnavailable
allows, and no pod was created that was not needed.
"""

import asyncio
import random
from collections.abc import Callable

import pytest

from pykruise.kube.resources import PODS
from pykruise.pods.view import keys
from support.common_faults import (
    WRITE_FAULTS,
    at_random,
    changes_of,
    refused,
    refused_for_a_while,
    the_writes,
)
from support.faults import (
    Answer,
    CutAfter,
    DropAnswer,
    Duplicate,
    EndAfter,
    FaultyTransport,
    GarbageAfter,
    GoneAfter,
    Refuse,
    Request,
    StallAfter,
    Swap,
    TakeEffectLate,
    conflict,
    deletes,
    patches,
    posts,
    watches,
    workload_writes,
)
from support.kills import Kill
from support.scenario import PodWatch, Stage, cloneset, rolling

REPLICAS = 6
SURGE = 1
UNAVAILABLE = 1
UPDATED = 4

Prepare = Callable[[FaultyTransport], None]


async def live_through(stage: Stage, seen: PodWatch, prepare: Prepare) -> FaultyTransport:
    """Create, update and scale in the CloneSet, with a manager whose transport has the faults of `prepare`."""
    faulty = FaultyTransport(stage.manager_transport())
    prepare(faulty)
    await stage.start_manager(faulty)
    strategy = rolling(maxUnavailable=UNAVAILABLE, maxSurge=SURGE)
    await stage.create(cloneset(replicas=REPLICAS, updateStrategy=strategy))
    await stage.settled(replicas=REPLICAS)
    assert seen.most <= REPLICAS + SURGE
    assert seen.created == REPLICAS
    seen.watch_from_now()
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=REPLICAS)
    assert seen.most <= REPLICAS + SURGE
    assert seen.fewest_available is not None
    assert seen.fewest_available >= REPLICAS - UNAVAILABLE
    await stage.scale("web", UPDATED)
    await stage.settled(replicas=UPDATED)
    return faulty


async def test_nothing_is_broken_and_nothing_is_wasted(stage: Stage, seen: PodWatch) -> None:
    """Without faults, the scenario creates no unnecessary pod: the other tests compare with this."""
    await live_through(stage, seen, lambda _faulty: None)
    assert seen.created == 2 * REPLICAS


@pytest.mark.checkered
@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("after", range(24))
async def test_the_pod_watch_is_cut_after_any_event(stage: Stage, seen: PodWatch, after: int) -> None:
    await live_through(
        stage, seen, lambda faulty: faulty.on(watches("/pods"), CutAfter(after), CutAfter(after))
    )


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("after", [0, 1, 5, 17])
async def test_every_pod_watch_is_cut_after_a_few_events(stage: Stage, seen: PodWatch, after: int) -> None:
    def cut(_request: Request) -> CutAfter:
        return CutAfter(after + 1)

    await live_through(stage, seen, lambda faulty: faulty.on(watches("/pods"), cut))


@pytest.mark.checkered
@pytest.mark.few_on_real(3)
@pytest.mark.parametrize("after", [0, 3, 11])
@pytest.mark.parametrize(
    "fault",
    [
        GoneAfter,
        EndAfter,
        GarbageAfter,
        pytest.param(StallAfter, marks=pytest.mark.virtual_time("silence is noticed after minutes")),
    ],
)
async def test_a_rollout_survives_every_other_end_of_a_watch(
    stage: Stage, seen: PodWatch, fault: Callable[[int], object], after: int
) -> None:
    """The watch gets 410 in mid-stream, a normal end, a line that is not JSON, or nothing more"""

    def prepare(faulty: FaultyTransport) -> None:
        for path in ("/pods", "/clonesets", "/controllerrevisions"):
            faulty.on(watches(path), fault(after), fault(after + 2))  # type: ignore[arg-type]  # they are faults

    await live_through(stage, seen, prepare)


async def test_a_watch_that_is_answered_with_410_when_it_is_opened(stage: Stage, seen: PodWatch) -> None:
    await live_through(stage, seen, lambda faulty: faulty.on(watches(), *[Answer(410, reason="Expired")] * 6))


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("after", [0, 4, 9, 14])
async def test_duplicate_events_do_not_disturb_the_rollout(stage: Stage, seen: PodWatch, after: int) -> None:
    await live_through(stage, seen, lambda faulty: faulty.on(watches("/pods"), Duplicate(after)))


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("after", [0, 4, 9, 14])
async def test_two_swapped_events_do_not_disturb_a_rollout(stage: Stage, seen: PodWatch, after: int) -> None:
    await live_through(stage, seen, lambda faulty: faulty.on(watches("/pods"), Swap(after)))


@pytest.mark.checkered
@pytest.mark.few_on_real(8)
@pytest.mark.parametrize("number", range(12))
@WRITE_FAULTS
async def test_one_failing_write_does_not_disturb_the_rollout(
    stage: Stage, seen: PodWatch, fault: object, number: int
) -> None:
    """The write with this number, and the twelfth write after it, meet the fault."""
    await live_through(
        stage,
        seen,
        lambda faulty: faulty.on(workload_writes(), the_writes(number, number + 12, fault=fault)),
    )


@pytest.mark.checkered
@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("number", range(12))
async def test_any_patch_or_deletion_conflicts(stage: Stage, seen: PodWatch, number: int) -> None:
    faults = [None] * number + [conflict()]
    await live_through(stage, seen, lambda faulty: faulty.on(changes_of("/clonesets"), *faults))
    # a conflict is no failure
    conditions = (await stage.status()).get("conditions") or []
    assert not [
        condition
        for condition in conditions
        if condition["type"] in ("FailedScale", "FailedUpdate") and condition["status"] == "True"
    ]


@pytest.mark.parametrize("kind", [posts, patches, deletes])
async def test_all_writes_of_a_kind_lose_their_first_two_answers(
    stage: Stage, seen: PodWatch, kind: Callable[[str], Callable[[Request], bool]]
) -> None:
    tries: dict[tuple[str, str, bytes | None], int] = {}

    def twice(request: Request) -> DropAnswer | None:
        what = (request.method, request.path, request.body)
        tries[what] = tries.get(what, 0) + 1
        return DropAnswer() if tries[what] <= 2 else None

    await live_through(stage, seen, lambda faulty: faulty.on(kind("/pods"), twice))


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("after_s", [0.05, 0.4])
async def test_a_creation_takes_effect_after_its_client_gave_up(
    stage: Stage, seen: PodWatch, after_s: float
) -> None:
    await live_through(
        stage,
        seen,
        lambda faulty: faulty.on(
            posts("/pods"), None, TakeEffectLate(after_s), None, TakeEffectLate(after_s)
        ),
    )


@pytest.mark.virtual_time("a request is under way for an hour")
async def test_a_late_creation_of_a_surplus_pod_is_undone(stage: Stage) -> None:
    """A request that has been sent cannot be taken back: it creates one pod too many, which is deleted."""
    # given a rollout, one of whose creations arrives an hour later
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    await stage.create(cloneset(replicas=3, updateStrategy=rolling(maxUnavailable=1)))
    await stage.settled(replicas=3)
    faulty.on(posts("/pods"), TakeEffectLate(3600.0))
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=3)
    await stage.set_image("web", "nginx:3")
    await stage.settled(replicas=3)
    # when it has arrived
    await asyncio.gather(*faulty.later)
    # then
    await stage.settled(replicas=3)


@pytest.mark.checkered
@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("seed", range(20))
async def test_random_faults_do_not_disturb_the_rollout(
    stage: Stage, seen: PodWatch, real_plane: object | None, seed: int
) -> None:
    await live_through(
        stage, seen, lambda faulty: at_random(faulty, random.Random(seed), stalls=real_plane is None)
    )


async def test_pods_that_may_not_be_created_are_tried_less_and_less_often(stage: Stage) -> None:
    """A quota is used up, or the namespace terminates: the error names the pod, which is another one each time."""

    # given
    def refused(request: Request) -> Answer:
        name = request.to_document["metadata"]["name"]
        return Answer(403, reason="Forbidden", message=f'pods "{name}" is forbidden: exceeded quota')

    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/pods"), refused)
    await stage.start_manager(faulty)
    # when
    await stage.create(cloneset(replicas=3))
    await asyncio.sleep(stage.long_s)
    # then the failure is reported once, and no report of it starts another try
    tries = [request for request in faulty.log if request.method == "POST" and "/pods" in request.path]
    reports = [request for request in faulty.log if request.path.endswith("/clonesets/web/status")]
    assert 5 < len(tries) < 40
    assert len(reports) <= 3
    conditions = {condition["type"]: condition for condition in (await stage.status())["conditions"]}
    what, _, remedy = conditions["FailedScale"]["message"].partition("; ")
    assert what == 'create pods: pods "…" is forbidden: exceeded quota'
    assert remedy == "raise the ResourceQuota, or free resources that it counts"


# ── a write is rejected every time ───────────────────────────────────────────


async def test_a_rejected_surge_pod_does_not_stop_the_update_in_place(stage: Stage, seen: PodWatch) -> None:
    # given a CloneSet that fills its quota
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    strategy = rolling(maxUnavailable=1, maxSurge=1, podUpdatePolicy="InPlaceIfPossible")
    await stage.create(cloneset(replicas=3, updateStrategy=strategy))
    await stage.settled(replicas=3)
    faulty.on(posts("/pods"), refused)
    seen.watch_from_now()
    # when
    await stage.set_image("web", "nginx:2")
    # then each pod is updated in its turn
    await stage.settled(replicas=3)
    assert (seen.most, seen.created) == (3, 3)
    assert seen.fewest_available == 2


async def test_a_rejected_deletion_does_not_stop_the_update_in_place(stage: Stage, seen: PodWatch) -> None:
    # given a pod to delete that a policy protects
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    strategy = rolling(maxUnavailable=1, podUpdatePolicy="InPlaceIfPossible")
    await stage.create(cloneset(replicas=4, updateStrategy=strategy))
    await stage.settled(replicas=4)
    (protected, before), *_ = [(pod.name, pod.revision) for pod in await stage.pods()]
    faulty.on(deletes(f"/pods/{protected}"), refused)
    seen.watch_from_now()
    # when
    await stage.merge("web", {"spec": {"scaleStrategy": {"podsToDelete": [protected]}}})
    await stage.set_image("web", "nginx:2")

    # then
    async def updated() -> bool:
        return all(pod.revision != before and pod.is_ready for pod in await stage.pods())

    await stage.until(updated, within_s=60.0)
    assert seen.created == 4
    assert seen.fewest_available == 3
    # and when the policy ends, the next reconcile deletes the pod
    faulty.clear()
    await stage.scale("web", 5)

    async def deleted() -> bool:
        return protected not in {pod.name for pod in await stage.pods()}

    await stage.until(deleted)
    await stage.settled(replicas=5)


async def test_a_pod_whose_patches_are_rejected_does_not_stop_scaling(stage: Stage, seen: PodWatch) -> None:
    # given a pod that lacks a label, and a policy that rejects the write of it
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    odd, *others = sorted(pod.name for pod in await stage.pods())
    faulty.on(patches(f"/pods/{odd}"), refused)
    label = {"metadata": {"labels": {keys.TEMPLATE_HASH_LABEL: None}}}
    await stage.merge(odd, label, resource=PODS)
    await stage.until(lambda: any(odd in request.path for request in faulty.log[-50:]))
    # when it is scaled out, pods are deleted, and it is scaled in
    await stage.scale("web", 5)
    await stage.until(lambda: seen.created == 5)
    await stage.merge("web", {"spec": {"scaleStrategy": {"podsToDelete": [others[0]]}}})

    async def replaced() -> bool:
        names = {pod.name for pod in await stage.pods()}
        return others[0] not in names and len(names) == 5

    await stage.until(replaced)
    await stage.scale("web", 2)

    async def scaled_in() -> bool:
        return len(await stage.pods()) == 2

    await stage.until(scaled_in)
    # and the list of pods to delete becomes empty
    spec = (await stage.get("web"))["spec"]
    assert not spec["scaleStrategy"].get("podsToDelete")


@pytest.mark.virtual_time("writes are rejected for a minute")
@pytest.mark.parametrize("policy", ["ReCreate", "InPlaceIfPossible"])
@pytest.mark.parametrize("seed", range(10))
async def test_limits_hold_while_writes_to_some_pods_are_rejected(
    stage: Stage, seen: PodWatch, policy: str, seed: int
) -> None:
    # given a CloneSet, and an API server that rejects writes from now on
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    strategy = rolling(maxUnavailable=UNAVAILABLE, maxSurge=SURGE, podUpdatePolicy=policy)
    await stage.create(cloneset(replicas=REPLICAS, updateStrategy=strategy))
    await stage.settled(replicas=REPLICAS)
    faulty.on(workload_writes("/pods"), refused_for_a_while(seed=seed))
    seen.watch_from_now()
    # when it is updated, a pod is specified for deletion, and it is updated again
    await stage.set_image("web", "nginx:2")
    await asyncio.sleep(15)
    specified = (await stage.pods())[seed % REPLICAS].name
    await stage.merge("web", {"spec": {"scaleStrategy": {"podsToDelete": [specified]}}})
    await asyncio.sleep(15)
    await stage.set_image("web", "nginx:3")
    await asyncio.sleep(45)
    await stage.set_image("web", "nginx:3", minReadySeconds=1)  # the next reconcile begins now
    # then it reaches its spec, and the limits were never exceeded
    await stage.settled(replicas=REPLICAS)
    assert seen.most <= REPLICAS + SURGE
    assert seen.fewest_available is not None
    assert seen.fewest_available >= REPLICAS - UNAVAILABLE


@pytest.mark.virtual_time("test_real_control_plane.py kills a real API server")
@pytest.mark.parametrize("unready_s", [5.0, 30.0])
async def test_an_api_server_that_has_just_started_refuses_creations_for_a_while(
    stage: Stage, seen: PodWatch, unready_s: float
) -> None:
    """403: the new API server has not read its roles yet, or its admission (every 30 s) not the list of kinds.

    Events wake the CloneSet meanwhile, and each time another attempt is refused.
    """
    # given an API server that dies when it has created some pods, and comes back
    loop = asyncio.get_running_loop()
    died_at: list[float] = []
    tried: list[Request] = []

    def restarting(request: Request) -> Refuse | Answer | None:
        tried.append(request)
        if len(tried) <= 12:
            return None
        died_at[:] = died_at or [loop.time()]
        if loop.time() < died_at[0] + 2.0:
            return Refuse()
        if loop.time() < died_at[0] + 2.0 + unready_s:
            return Answer(403, reason="Forbidden", message=f"{request.path}: cannot set blockOwnerDeletion")
        return None

    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/pods"), restarting)
    await stage.start_manager(faulty)
    await stage.create(cloneset(replicas=80))
    await stage.until(lambda: died_at)
    # when it has come back and refuses nothing any more, after much has happened
    outage_s = 2.0 + unready_s
    for number in range(40):
        await asyncio.sleep(outage_s / 80)
        await stage.merge("web", {"spec": {"minReadySeconds": 1 - number % 2}})
    await asyncio.sleep(outage_s / 2)
    assert seen.created < 80
    # then the set is complete after at most about the same time again, and no pod is created twice
    await stage.settled(replicas=80, within_s=1.25 * outage_s + 5.0)
    assert seen.most == seen.created == 80


# ── the manager is killed ────────────────────────────────────────────────────


@pytest.mark.checkered(8)
@pytest.mark.few_on_real(6)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(40))
async def test_a_manager_killed_at_any_write_is_succeeded_by_another(
    stage: Stage, seen: PodWatch, at: int, takes_effect: bool
) -> None:
    # given a manager that is killed at that write of a creation, a rollout, or a scale-in
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes(), kill)
    await stage.start_manager(faulty)
    strategy = rolling(maxUnavailable=UNAVAILABLE, maxSurge=SURGE)
    await stage.create(cloneset(replicas=REPLICAS, updateStrategy=strategy))

    async def created() -> bool:
        return kill.reached or (await stage.status()).get("availableReplicas") == REPLICAS

    await stage.until(created)
    if not kill.reached:
        await stage.settled(replicas=REPLICAS)
        seen.watch_from_now()
    await stage.set_image("web", "nginx:2")
    await stage.until(lambda: kill.reached, what="the kill")
    await stage.kill_manager()
    # when
    await stage.start_manager()
    # then
    await stage.settled(replicas=REPLICAS)
    assert seen.most <= REPLICAS + SURGE
    if seen.fewest_available is not None:
        assert seen.fewest_available >= REPLICAS - UNAVAILABLE


async def test_a_graceful_stop_leaves_no_write_half_done(stage: Stage, seen: PodWatch) -> None:
    # given a manager in the middle of creating
    await stage.start_manager()
    await stage.create(cloneset(replicas=40))
    await stage.until(lambda: seen.created > 0)
    # when
    await stage.stop_manager()
    stopped_at = len(await stage.pods())
    # then nothing is created any more
    await asyncio.sleep(stage.long_s)
    assert seen.created == stopped_at
    # and another one finishes it
    await stage.start_manager()
    await stage.settled(replicas=40)
    assert seen.created == 40


async def test_two_managers_at_the_same_time_do_not_harm_each_other(stage: Stage, seen: PodWatch) -> None:
    """Without leader election both act; preconditions make the result correct in the end."""
    # given
    await stage.start_manager()
    await stage.start_manager()
    # when
    await stage.create(cloneset(replicas=REPLICAS))
    # then
    await stage.settled(replicas=REPLICAS)
