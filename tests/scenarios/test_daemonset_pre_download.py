"""Images of a DaemonSet's new revision are pulled ahead of its update, where that is asked for."""

from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.gates import Gates
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.view import keys
from support.daemonsets import Pool
from support.scenario import Stage, cloneset, rolling

SETTINGS = ManagerSettings(
    gates=Gates.of(PreDownloadImageForDaemonSetUpdate=True, PreDownloadImageForInPlaceUpdate=True)
)


async def has_no_jobs(stage: Stage) -> bool:
    return not await stage.stored(IMAGE_PULL_JOBS)


async def test_images_are_pulled_ahead_and_the_jobs_are_deleted_after_the_rollout(
    stage: Stage, pool: Pool
) -> None:
    """daemonset 6.11, inplace-update cases 69 to 73"""
    # given a rollout that stops after one node
    await stage.start_manager(settings=SETTINGS)
    doc = pool.daemonset(updateStrategy=rolling(rollingUpdateType="InPlaceIfPossible", partition=3))
    doc["metadata"]["annotations"] = {
        "apps.kruise.io/image-predownload-parallelism": "2",
        "apps.kruise.io/image-predownload-timeout-seconds": "soon",
        "apps.kruise.io/image-predownload-min-updated-ready-pods": "1",
    }
    await stage.create(doc, resource=DAEMON_SETS)
    await pool.settled()
    # then its first rollout needs none
    assert await has_no_jobs(stage)
    # when
    await pool.set_image("nginx:2")
    # then there is one for the other nodes, once the first one is updated and ready
    (job,) = await stage.until(lambda: stage.stored(IMAGE_PULL_JOBS))
    result = await pool.settled(updated=1)
    update = f"web-{result['status']['updateRevision']}"
    assert job["metadata"]["name"] == f"{update}-main"
    assert job["metadata"]["ownerReferences"][0]["uid"] == result["metadata"]["uid"]
    assert (job["spec"]["image"], job["spec"]["parallelism"]) == ("nginx:2", 2)
    assert job["spec"]["pullPolicy"] == {"backoffLimit": 1, "timeoutSeconds": 300}
    stored = await stage.get(update, resource=CONTROLLER_REVISIONS)
    assert stored["metadata"]["labels"][keys.PRE_DOWNLOAD_CREATED_LABEL] == "true"
    assert len(await stage.until(lambda: stage.events("CreatedImagePullJob"))) == 1
    # when a user deletes it, it is not made again
    await stage.delete(job["metadata"]["name"], resource=IMAGE_PULL_JOBS)
    await pool.change(updateStrategy=rolling(partition=2))
    await pool.settled(updated=2)
    assert await has_no_jobs(stage)
    # when the rollout goes on to the end and another one comes
    await pool.change(updateStrategy=rolling(partition=0))
    await pool.settled()
    await pool.set_image("nginx:3")
    # then
    await stage.until(lambda: stage.stored(IMAGE_PULL_JOBS))
    await pool.settled()
    await stage.until(lambda: has_no_jobs(stage))


async def test_both_kinds_pull_ahead_in_one_manager_and_delete_only_their_own_jobs(
    stage: Stage, pool: Pool
) -> None:
    """inplace-update case 72"""
    # given
    await stage.start_manager(settings=SETTINGS)
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1, partition=3)
    await stage.create(cloneset("other", replicas=4, updateStrategy=strategy))
    await pool.create(updateStrategy=rolling(partition=3))
    await stage.settled("other", replicas=4)
    await pool.settled()
    # when
    await stage.set_image("other", "nginx:2")
    await pool.set_image("nginx:2")
    await stage.settled("other", replicas=4, updated=1)
    await pool.settled(updated=1)

    # then each has one
    async def owners() -> list[str]:
        jobs = await stage.stored(IMAGE_PULL_JOBS)
        return sorted(job["metadata"]["ownerReferences"][0]["kind"] for job in jobs)

    assert await owners() == ["CloneSet", "DaemonSet"]
    # and only the job whose rollout is over is deleted
    await pool.change(updateStrategy=rolling(partition=0))
    await pool.settled()

    async def is_one_left() -> bool:
        return await owners() == ["CloneSet"]

    await stage.until(is_one_left)


async def test_nothing_is_pulled_in_advance_without_the_gate(stage: Stage, pool: Pool) -> None:
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(partition=3))
    await pool.settled()
    await pool.set_image("nginx:2")
    await pool.settled(updated=1)
    assert await has_no_jobs(stage)
