"""ImageListPullJobs on a cluster whose nodes pull: one ImagePullJob an image, changed lists, failures, kills."""

import pytest

from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.errors import InvalidError
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool
from support.faults import FaultyTransport, writes
from support.kills import Kill
from support.pulls import NAME, PULLING, Pulls, with_agents
from support.scenario import Object, Stage


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings, request: pytest.FixtureRequest) -> ClusterSettings:
    is_real = request.config.getoption("--cluster") == "real"
    return with_agents(cluster_settings, pull_s=0.2 if is_real else 1.0)


@pytest.fixture
def pulls(stage: Stage, pool: Pool) -> Pulls:
    return Pulls(stage, pool)


@pytest.fixture
def images(pulls: Pulls) -> list[str]:
    return [pulls.image.replace("app:1", f"{name}:1") for name in ("a", "b", "c")]


async def status_of(stage: Stage) -> Object:
    status: Object = (await stage.get(NAME, resource=IMAGE_LIST_PULL_JOBS)).get("status") or {}
    return status


async def completed(stage: Stage) -> Object:
    """Wait until the list has ended; its status then."""

    async def is_over() -> Object | None:
        status = await status_of(stage)
        return status if status.get("completionTime") else None

    result: Object = await stage.until(is_over, what="completionTime of the list")
    return result


async def children(stage: Stage) -> dict[str, Object]:
    """ImagePullJobs that are not being deleted, by image."""
    children = await stage.stored(IMAGE_PULL_JOBS)
    return {
        entry["spec"]["image"]: entry for entry in children if "deletionTimestamp" not in entry["metadata"]
    }


async def test_every_image_gets_its_job_and_the_list_completes_with_them(
    stage: Stage, pulls: Pulls, images: list[str]
) -> None:
    """images cases 59 and 62"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create_list(*images, parallelism=4)

    status = await completed(stage)

    assert {name: status.get(name) for name in ("desired", "completed", "succeeded")} == {
        "desired": 3,
        "completed": 3,
        "succeeded": 3,
    }
    assert set(await children(stage)) == set(images)
    assert await stage.until(lambda: stage.events("Successful create ImagePullJob"))


async def test_an_image_that_is_added_gets_a_job_and_one_that_is_removed_loses_it(
    stage: Stage, pulls: Pulls, images: list[str]
) -> None:
    """images case 59"""
    first, second, third = images
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create_list(first, second, parallelism=4, completionPolicy={"type": "Never"})
    await stage.until(lambda: _has(stage, {first, second}))
    before = (await children(stage))[second]["metadata"]["uid"]

    await stage.merge(NAME, {"spec": {"images": [second, third]}}, resource=IMAGE_LIST_PULL_JOBS)

    await stage.until(lambda: _has(stage, {second, third}))
    assert (await children(stage))[second]["metadata"]["uid"] == before


async def _has(stage: Stage, images: set[str]) -> bool:
    return set(await children(stage)) == images


async def test_another_template_replaces_all_jobs(stage: Stage, pulls: Pulls, images: list[str]) -> None:
    """images case 60: and nodes pull with the new time-out"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create_list(images[0], parallelism=4, completionPolicy={"type": "Never"})
    await stage.until(lambda: _has(stage, {images[0]}))
    before = (await children(stage))[images[0]]["metadata"]["uid"]

    change = {"spec": {"parallelism": 3, "pullPolicy": {"timeoutSeconds": 77}}}
    await stage.merge(NAME, change, resource=IMAGE_LIST_PULL_JOBS)

    async def is_replaced() -> bool:
        result = (await children(stage)).get(images[0])
        return result is not None and result["metadata"]["uid"] != before

    await stage.until(is_replaced)
    assert (await children(stage))[images[0]]["spec"]["parallelism"] == 3

    async def has_new_policy() -> bool:
        entries = [
            entry
            for node_image in (await pulls.node_images()).values()
            for image, entry in node_image.entries
            if image.reference == images[0]
        ]
        return len(entries) == 4 and all(
            entry.pull_policy is not None and entry.pull_policy.timeout_seconds == 77 for entry in entries
        )

    await stage.until(has_new_policy)


@pytest.mark.virtual_time("pauses between tries")
async def test_an_image_that_fails_on_a_node_is_named(
    stage: Stage, pool: Pool, pulls: Pulls, images: list[str]
) -> None:
    """images case 62"""
    stage.kubelets.set_rules([Rule(image=images[1], node=pool.nodes[0], image_pull_error=True)])
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create_list(*images[:2], parallelism=4, pullPolicy={"backoffLimit": 0})

    status = await completed(stage)

    assert (status["completed"], status["succeeded"]) == (2, 1)
    (failed,) = status["failedImageStatuses"]
    child = (await children(stage))[images[1]]
    assert (failed["name"], failed["imagePullJob"]) == (images[1], child["metadata"]["name"])


async def test_a_finished_list_is_deleted_with_its_jobs(
    stage: Stage, pulls: Pulls, images: list[str]
) -> None:
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    done = {"type": "Always", "ttlSecondsAfterFinished": 1}
    await pulls.create_list(*images, parallelism=4, completionPolicy=done)

    async def is_gone() -> bool:
        is_there = await stage.exists(NAME, resource=IMAGE_LIST_PULL_JOBS)
        return not is_there and not await stage.stored(IMAGE_PULL_JOBS)

    await stage.until(is_gone)


async def test_a_list_deleted_in_the_foreground_creates_no_new_job(
    stage: Stage, pulls: Pulls, images: list[str]
) -> None:
    """images case 63"""
    await stage.start_manager(settings=PULLING)
    await pulls.ready()
    await pulls.create_list(*images, parallelism=4, completionPolicy={"type": "Never"})
    await stage.until(lambda: _has(stage, set(images)))
    seen = {entry["metadata"]["uid"] for entry in await stage.stored(IMAGE_PULL_JOBS)}

    await stage.delete(NAME, resource=IMAGE_LIST_PULL_JOBS, propagation="Foreground")

    async def is_gone() -> bool:
        assert {entry["metadata"]["uid"] for entry in await stage.stored(IMAGE_PULL_JOBS)} <= seen
        return not await stage.exists(NAME, resource=IMAGE_LIST_PULL_JOBS)

    await stage.until(is_gone)


async def test_a_list_is_refused_for_the_errors_of_its_jobs(pulls: Pulls, images: list[str]) -> None:
    """images case 61"""
    for given, fields, path in (
        ([], {}, "spec.images"),
        ([images[0], images[0]], {}, r"spec.images\[1\]"),
        ([f"x:{number}" for number in range(256)], {}, "spec.images"),
        (
            images,
            {"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 1}},
            "activeDeadlineSeconds",
        ),
    ):
        with pytest.raises(InvalidError, match=path):
            await pulls.create_list(*given, **fields)  # type: ignore[arg-type]


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(7))
@pytest.mark.checkered
async def test_a_manager_is_killed_at_any_write(
    stage: Stage, pulls: Pulls, images: list[str], at: int, takes_effect: bool
) -> None:
    """No image gets a second job, and none is forgotten."""
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty, settings=PULLING)
    await pulls.ready()
    faulty.on(writes(), kill)
    await pulls.create_list(*images[:2], parallelism=4)

    async def is_over() -> bool:
        return kill.reached or bool((await status_of(stage)).get("completionTime"))

    await stage.until(is_over)
    await stage.kill_manager()
    await stage.start_manager(settings=PULLING)

    status = await completed(stage)

    assert (status["desired"], status["succeeded"]) == (2, 2)
    assert len(await stage.stored(IMAGE_PULL_JOBS)) == 2
