"""Image volumes: pulled ahead of their update, and named when they cannot be pulled."""

import os

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.gates import Gates
from pykruise.kube.ids import Key
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.reasons import Code
from support.scenario import Object, Stage, cloneset, rolling

AHEAD = ManagerSettings(gates=Gates.of(PreDownloadImageForInPlaceUpdate=True))
BROKEN = "shop/broken:1"
pytestmark = pytest.mark.skipif(
    os.environ.get("KUBERNETES", NEWEST_MINOR) not in ("1.35", "1.36", "1.37"),
    reason="API servers drop image volumes",
)


def spec_of_pods(model: str) -> Object:
    mount = {"name": "model", "mountPath": "/model"}
    return {
        "containers": [{"name": "main", "image": "nginx:1", "volumeMounts": [mount]}],
        "volumes": [{"name": "model", "image": {"reference": model}}],
    }


async def created(stage: Stage, model: str, *, replicas: int = 4) -> None:
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1, partition=replicas - 1)
    body = cloneset(replicas=replicas, updateStrategy=strategy)
    body["spec"]["template"]["spec"] = spec_of_pods(model)
    await stage.create(body)


async def change_model(stage: Stage, model: str) -> None:
    await stage.merge("web", {"spec": {"template": {"spec": spec_of_pods(model)}}})


async def test_a_changed_image_of_a_volume_is_pulled_ahead(stage: Stage) -> None:
    # given
    await stage.start_manager(settings=AHEAD)
    await created(stage, "model:1")
    await stage.settled(replicas=4)
    assert not await stage.stored(IMAGE_PULL_JOBS)
    # when
    await change_model(stage, "model:2")
    # then
    (job,) = await stage.until(lambda: stage.stored(IMAGE_PULL_JOBS))
    update = (await stage.settled(replicas=4, updated=1))["status"]["updateRevision"]
    assert job["spec"]["image"] == "model:2"
    assert job["metadata"]["name"] == f"{update}-model.volume"
    # when the rollout is over
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    await stage.settled(replicas=4)

    # then
    async def is_gone() -> bool:
        return not await stage.stored(IMAGE_PULL_JOBS)

    await stage.until(is_gone)


async def test_an_image_of_a_volume_that_cannot_be_pulled_is_named(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await created(stage, BROKEN, replicas=2)

    # then by the condition
    async def is_said() -> Object | None:
        conditions: list[Object] = (await stage.status()).get("conditions") or []
        return next((item for item in conditions if item["reason"] == Code.IMAGE_PULL), None)

    condition = await stage.until(is_said, what="that an image cannot be pulled")
    assert condition["type"] == "Waiting"
    assert f"image {BROKEN} of volume model" in condition["message"]
    # and by explain
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, "web"), now=stage.clock(), kind=KIND, settings=ManagerSettings()
    )
    waits = [wait for wait in explanation.waits if wait.code == Code.IMAGE_PULL]
    assert waits
    assert all(f"image {BROKEN} of volume model" in wait.words for wait in waits)
    # when it is corrected
    await change_model(stage, "model:1")
    # then
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    await stage.settled(replicas=2)
