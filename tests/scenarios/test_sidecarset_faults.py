"""Sidecars reach the wanted state after any fault between the manager and the API server.

Every scenario upgrades the sidecars of a CloneSet's pods during a fault. In the end all pods have the new sidecars,
no pod was recreated, and never were more upgraded pods out of service than maxUnavailable allows.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import EVENTS, PODS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.faults import (
    Answer,
    CutAfter,
    DropAnswer,
    DropRequest,
    FaultyTransport,
    GoneAfter,
    Refuse,
    Request,
    TakeEffectLate,
    TimeOut,
    conflict,
    patches,
    posts,
    too_many,
    watches,
    workload_writes,
)
from support.kills import Kill
from support.scenario import Stage, cloneset
from support.sidecarsets import by_name, container, hot, sidecarset

PODS_OF_ALL = 4
MOST_DOWN = 2

Prepare = Callable[[FaultyTransport], None]


class Watcher:
    """Records how many pods with the new sidecar are out of service at the same time."""

    def __init__(self) -> None:
        self.down: dict[Key, bool] = {}
        self.most_down = 0

    def on_change(self, change: Change[PodView]) -> None:
        pod = change.new
        self.down[change.key] = pod is not None and _is_new(pod) and not pod.has_ready_condition
        self.most_down = max(self.most_down, sum(self.down.values()))


def _is_new(pod: PodView) -> bool:
    return any(container.image == "log:2" for container in pod.containers)


@asynccontextmanager
async def watching(stage: Stage) -> AsyncIterator[Watcher]:
    """A client that watches while the block runs."""
    watcher = Watcher()
    cache: Cache[PodView] = Cache(
        stage.client, PODS, project=project_pod, namespace=stage.namespace, clock=stage.clock, rng=stage.rng
    )
    cache.subscribe(watcher.on_change)
    task = asyncio.create_task(cache.run())
    try:
        await cache.wait_synced()
        yield watcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def bound(stage: Stage, doc: Document) -> None:
    """The SidecarSet, for pods of the scenario's namespace alone."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    scoped = {**doc, "spec": {"namespaceSelector": selector, **doc["spec"]}}
    await stage.create(scoped, resource=SIDECAR_SETS)


async def all_have(stage: Stage, image: str, *, count: int = PODS_OF_ALL) -> list[Document]:
    """Wait until all pods run the image and the status says so."""

    async def is_done() -> bool:
        status = (await stage.get("log", resource=SIDECAR_SETS)).get("status") or {}
        if status.get("updatedReadyPods") != count or status.get("matchedPods") != count:
            return False
        return all(_has(pod, image) for pod in await stage.stored(PODS))

    await stage.until(is_done, what=f"all pods run {image}")
    return await stage.stored(PODS)


def _has(pod: Document, image: str) -> bool:
    images = {container["name"]: container["image"] for container in pod["spec"]["containers"]}
    return image in (images.get("log"), images.get("log-1"), images.get("log-2"))


async def set_image(stage: Stage, sidecar: Document) -> None:
    await stage.merge("log", {"spec": {"containers": [sidecar]}}, resource=SIDECAR_SETS)


def uids(pods: list[Document]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


async def live_through(stage: Stage, prepare: Prepare) -> None:
    """Inject and upgrade sidecars with a manager whose transport has the faults of `prepare`, and check the result."""
    faulty = FaultyTransport(stage.manager_transport())
    prepare(faulty)
    await bound(stage, sidecarset("log", container("log"), updateStrategy={"maxUnavailable": MOST_DOWN}))
    await stage.start_manager(faulty)
    await stage.create(cloneset(replicas=PODS_OF_ALL))
    before = await all_have(stage, "log:1")
    async with watching(stage) as seen:
        await set_image(stage, container("log", "log:2"))
        after = await all_have(stage, "log:2")
    assert uids(after) == uids(before)
    assert seen.most_down <= MOST_DOWN


def some_writes(fault: object, *, seed: int = 7, share: float = 0.25) -> Prepare:
    """Each write meets the fault with the probability `share`."""
    chance = random.Random(seed)

    def prepare(faulty: FaultyTransport) -> None:
        faulty.on(workload_writes(), lambda request: fault if chance.random() < share else None)

    return prepare


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(DropRequest(), id="lost before"),
        pytest.param(DropAnswer(), id="lost after"),
        pytest.param(TakeEffectLate(0.4), id="takes effect late"),
        pytest.param(TimeOut(2.0), id="no answer"),
        pytest.param(Refuse(), id="no connection"),
        pytest.param(Answer(500), id="500"),
        pytest.param(Answer(503), id="503"),
        pytest.param(too_many(), id="429"),
        pytest.param(conflict(), id="409"),
    ],
)
async def test_an_upgrade_ends_well_although_writes_fail(stage: Stage, fault: object) -> None:
    await live_through(stage, some_writes(fault))


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("fault", [CutAfter(2), GoneAfter(1)], ids=["cut", "gone"])
async def test_an_upgrade_ends_well_although_watches_break(stage: Stage, fault: object) -> None:
    def prepare(faulty: FaultyTransport) -> None:
        faulty.on(watches("/pods"), *[fault] * 12)

    await live_through(stage, prepare)


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize(("write", "takes_effect"), [(0, True), (2, True), (4, False), (6, True)])
@pytest.mark.parametrize("make", [container, hot], ids=["cold", "hot"])
async def test_a_manager_killed_at_any_write_is_succeeded_by_another(
    stage: Stage, write: int, make: Callable[..., Document], *, takes_effect: bool
) -> None:
    # given
    await bound(stage, sidecarset("log", make("log", "log:1"), updateStrategy={"maxUnavailable": MOST_DOWN}))
    manager = await stage.start_manager()
    await stage.create(cloneset(replicas=PODS_OF_ALL))
    before = await all_have(stage, "log:1")
    await stage.kill_manager(manager)
    await set_image(stage, make("log", "log:2"))
    # when
    kill = Kill(write, takes_effect=takes_effect)
    dying = FaultyTransport(stage.manager_transport())
    dying.on(patches(), kill)
    mortal = await stage.start_manager(dying)
    await stage.until(lambda: kill.reached or stage_is_done(stage), within_s=60.0)
    await stage.kill_manager(mortal)
    await stage.start_manager()
    # then
    after = await all_have(stage, "log:2")
    assert uids(after) == uids(before)
    if make is hot:
        assert all(sorted(_images(pod)) == ["empty:1", "log:2"] for pod in after)


async def stage_is_done(stage: Stage) -> bool:
    status = (await stage.get("log", resource=SIDECAR_SETS)).get("status") or {}
    return bool(status.get("updatedReadyPods") == PODS_OF_ALL)


def _images(pod: Document) -> list[str]:
    return [
        container["image"] for container in pod["spec"]["containers"] if container["name"].startswith("log")
    ]


async def test_changes_of_others_to_the_pods_during_an_upgrade_are_kept(stage: Stage) -> None:
    """sidecarset case 72"""
    await bound(stage, sidecarset("log", container("log"), updateStrategy={"maxUnavailable": MOST_DOWN}))
    await stage.start_manager()
    await stage.create(cloneset(replicas=PODS_OF_ALL))
    before = await all_have(stage, "log:1")
    names = [pod["metadata"]["name"] for pod in before]
    # when another client writes into each pod again and again
    await set_image(stage, container("log", "log:2"))
    for number in range(5):
        for name in names:
            labels = {f"note-{number}": "written"}
            annotations = {f"example.com/note-{number}": "written"}
            await stage.merge(
                name, {"metadata": {"labels": labels, "annotations": annotations}}, resource=PODS
            )
        await asyncio.sleep(0.05)
    # then
    for pod in await all_have(stage, "log:2"):
        for number in range(5):
            assert pod["metadata"]["labels"][f"note-{number}"] == "written"
            assert pod["metadata"]["annotations"][f"example.com/note-{number}"] == "written"
        assert by_name(pod, "main")["image"] == "nginx:1"


async def test_a_pod_deleted_during_an_upgrade_blocks_no_other(stage: Stage) -> None:
    """sidecarset case 71"""
    await bound(stage, sidecarset("log", container("log"), updateStrategy={"maxUnavailable": MOST_DOWN}))
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    await stage.create(cloneset(replicas=PODS_OF_ALL))
    before = await all_have(stage, "log:1")
    victim = before[0]["metadata"]["name"]

    def is_of_victim(request: Request) -> bool:
        return request.method == "PATCH" and request.path.endswith(f"/pods/{victim}")

    async def gone() -> None:
        await stage.client.delete(PODS, stage.namespace, victim, grace_period_s=0)

    deleting = asyncio.create_task(gone())
    await set_image(stage, container("log", "log:2"))
    await deleting
    after = await all_have(stage, "log:2")
    assert victim not in {pod["metadata"]["name"] for pod in after}
    assert len(uids(after) & uids(before)) == PODS_OF_ALL - 1
    assert sum(is_of_victim(request) for request in faulty.log) <= 4


async def test_revisions_that_cannot_be_stored_stop_nothing_but_upgrades_and_are_reported(
    stage: Stage,
) -> None:
    def prepare(faulty: FaultyTransport) -> None:
        faulty.on(posts("controllerrevisions"), *[Answer(500)] * 4)

    await live_through(stage, prepare)


def test_watcher_counts_only_new_pods_that_are_down() -> None:
    """A test of Watcher itself: a pod with the old image does not count."""
    old = decode(b'{"metadata":{"name":"x"},"spec":{"containers":[{"name":"log","image":"log:1"}]}}')
    assert not _has(old, "log:2")
    assert _has(old, "log:1")


@pytest.mark.virtual_time("two minutes of them")
async def test_upgrades_that_are_refused_are_tried_again_seldom_with_one_event_and_one_line(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    # given a budget that refuses each patch of its pods
    faulty = FaultyTransport(stage.manager_transport())
    await bound(stage, sidecarset("log", container("log")))
    await stage.start_manager(faulty)
    await stage.create(cloneset(replicas=PODS_OF_ALL))
    await all_have(stage, "log:1")
    tries = 0

    def refuse(_: Request) -> Answer:
        nonlocal tries
        tries += 1
        return Answer(403, message="admission webhook denied the request: pub web allows no more")

    faulty.on(patches("/pods/web-"), refuse)
    caplog.set_level("WARNING")
    # when a pod changes once a second, for two minutes
    await set_image(stage, container("log", "log:2"))
    pod = (await stage.pods())[0].name
    for number in range(120):
        await stage.merge(pod, {"metadata": {"labels": {"number": str(number)}}}, resource=PODS)
        await asyncio.sleep(1.0)
    # then
    assert tries <= 9
    listed = [decode(raw) for raw in (await stage.client.list(EVENTS, "default")).items]
    (event,) = [entry for entry in listed if entry["reason"] == "FailedUpgradeSidecar"]
    assert event.get("count", 1) == 1
    assert sum("allows no more" in line for line in caplog.messages) == 1
    # and when it allows them again they are made
    faulty.clear()
    await all_have(stage, "log:2")
