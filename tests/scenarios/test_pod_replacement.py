"""A CloneSet that creates no pod before a terminating one has ended (pykruise.io/pod-replacement-policy: Failed)."""

import asyncio
from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import PODS
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import FINISHED
from pykruise.pods.workload.options import POD_REPLACEMENT_POLICY
from support.scenario import Object, PodWatch, Stage, cloneset, rolling

OLD_CLONE_SETS = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")
HOLD = "example.com/hold"


def waiting_for_ends(policy: str = "Failed", **spec: Any) -> Object:
    document = cloneset(**spec)
    document["metadata"]["annotations"] = {POD_REPLACEMENT_POLICY.annotation: policy}
    return document


class MostExisting:
    """The highest number of pods at the same time that had not ended, terminating or not."""

    def __init__(self, seen: PodWatch) -> None:
        self._seen = seen
        self.count = 0
        seen.cache.subscribe(lambda _: self._look())

    def _look(self) -> None:
        existing = [pod for pod in self._seen.cache.values() if pod.phase not in FINISHED]
        self.count = max(self.count, len(existing))


async def _hold(stage: Stage, name: str, *, is_held: bool) -> None:
    """Keep a deleted pod from ending, as a slow shutdown does, or let it end."""
    await stage.merge(name, {"metadata": {"finalizers": [HOLD] if is_held else None}}, resource=PODS)


@pytest.mark.parametrize(
    ("budget", "most"),
    [
        ({"maxUnavailable": 2}, 4),
        ({"maxUnavailable": 0, "maxSurge": 1}, 5),
        ({"maxUnavailable": 1, "maxSurge": 2}, 6),
    ],
    ids=["without-surge", "with-surge", "with-both"],
)
async def test_a_rollout_never_has_more_pods_than_it_may_counting_those_that_terminate(
    stage: Stage, seen: PodWatch, budget: dict[str, int], most: int
) -> None:
    # given
    await stage.start_manager()
    await stage.create(waiting_for_ends(replicas=4, updateStrategy=rolling(**budget)))
    await stage.settled(replicas=4)
    existing = MostExisting(seen)
    # when
    await stage.set_image("web", "nginx:2")
    # then
    await stage.settled(replicas=4)
    assert existing.count <= most
    assert seen.created >= 8


async def test_the_successor_waits_for_a_pod_that_does_not_end_and_the_status_names_it(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(waiting_for_ends(replicas=2))
    await stage.settled(replicas=2)
    pod = (await stage.pods())[0]
    await _hold(stage, pod.name, is_held=True)
    # when
    await stage.delete(pod.name, resource=PODS)

    # then
    async def is_reported() -> bool:
        conditions = (await stage.status()).get("conditions") or ()
        terminating = next((item for item in conditions if item["type"] == "TerminatingPods"), None)
        return terminating is not None and pod.name in terminating["message"]

    await stage.until(is_reported, what="the status names the pod")
    await asyncio.sleep(stage.long_s)
    assert len(await stage.pods()) == 2, "the one that serves and the one that terminates"
    conditions = (await stage.status())["conditions"]
    waiting = next(item for item in conditions if item["type"] == "Waiting")
    assert waiting["reason"] in (Code.TERMINATING, Code.FINALIZER)
    # when it ends
    await _hold(stage, pod.name, is_held=False)
    # then
    result = await stage.settled(replicas=2)

    async def is_gone() -> bool:
        conditions = (await stage.status()).get("conditions") or ()
        return all(item["type"] not in ("TerminatingPods", "Waiting") for item in conditions)

    await stage.until(is_gone, what="the status reports no terminating pod")
    assert result["metadata"]["annotations"][POD_REPLACEMENT_POLICY.annotation] == "Failed"


async def test_removing_the_option_in_the_middle_lets_the_successor_be_created(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(waiting_for_ends(replicas=2))
    await stage.settled(replicas=2)
    pod = (await stage.pods())[0]
    await _hold(stage, pod.name, is_held=True)
    await stage.delete(pod.name, resource=PODS)
    await asyncio.sleep(stage.long_s / 2)
    # when
    patch = {"metadata": {"annotations": {POD_REPLACEMENT_POLICY.annotation: None}}}
    await stage.merge("web", patch)

    # then
    async def is_replaced() -> bool:
        return len([item for item in await stage.pods() if item.is_active]) == 2

    await stage.until(is_replaced)
    await _hold(stage, pod.name, is_held=False)
    await stage.settled(replicas=2)


@pytest.mark.sandbox_only
@pytest.mark.parametrize("resource", [CLONE_SETS, OLD_CLONE_SETS], ids=lambda resource: resource.version)
async def test_admission_names_the_annotation_and_the_accepted_values(stage: Stage, resource: Any) -> None:
    document = {**waiting_for_ends("Never"), "apiVersion": resource.api_version}
    with pytest.raises(InvalidError) as refused:
        await stage.create(document, resource=resource)
    assert f"metadata.annotations[{POD_REPLACEMENT_POLICY.annotation}]" in str(refused.value)
    assert "must be TerminatingOrFailed or Failed" in str(refused.value)


@pytest.mark.sandbox_only
async def test_both_versions_have_the_option(stage: Stage) -> None:
    await stage.create(waiting_for_ends())
    old = await stage.get("web", resource=OLD_CLONE_SETS)
    assert old["metadata"]["annotations"][POD_REPLACEMENT_POLICY.annotation] == "Failed"
    # when a client of v1alpha1 writes what it read
    await stage.client.update(OLD_CLONE_SETS, stage.namespace, "web", old)
    # then
    new = await stage.get("web")
    assert new["metadata"]["annotations"] == {POD_REPLACEMENT_POLICY.annotation: "Failed"}
