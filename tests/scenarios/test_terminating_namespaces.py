"""A namespace is deleted with workloads in it, while a manager runs."""

import asyncio

import pytest

from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.resources import NAMESPACES, PODS
from support.scenario import Stage, cloneset

REPLICAS = 6


@pytest.mark.long_on_real
@pytest.mark.not_in_brief("it waits for nothing to happen, which virtual time shows as well")
async def test_missing_pods_in_a_terminating_namespace_are_not_created_repeatedly(stage: Stage) -> None:
    # given a CloneSet, one of whose pods keeps its namespace terminating: newer control planes delete the pods of a
    # namespace first, and their owner only when they are gone
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered)
    await stage.create(cloneset(replicas=REPLICAS))
    await stage.settled(replicas=REPLICAS)
    kept = (await stage.pods())[0].name
    await stage.merge(kept, {"metadata": {"finalizers": ["example.com/keep"]}}, resource=PODS)
    before = metered.requests["POST pods"]
    # when
    await stage.client.delete(NAMESPACES, "", stage.namespace)

    async def is_alone() -> bool:
        return [pod.name for pod in await stage.pods()] == [kept]

    await stage.until(is_alone)
    # then creations are not repeated: at most those of one plan, which ends at the first refusal
    await asyncio.sleep(min(stage.long_s, 10.0))
    tried = metered.requests["POST pods"] - before
    assert tried <= 1
    # when what held it up is gone
    await stage.merge(kept, {"metadata": {"finalizers": None}}, resource=PODS)

    # then
    async def is_gone() -> bool:
        return not await stage.exists("web")

    await stage.until(is_gone)
