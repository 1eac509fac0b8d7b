"""Evictions that wait for a successor (pykruise.io/eviction-surge), on both clusters."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain, read_and_explain_pod
from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.errors import ForbiddenError, InvalidError, NotFoundError, TooManyRequestsError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.pods.view import keys
from pykruise.pods.workload.evictions import WANTED_S
from pykruise.pods.workload.options import EVICTION_SURGE
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Object, PodWatch, Stage, cloneset
from support.statefulsets import statefulset

SLOW = Rule(image="nginx:1", start_s=3600)


def surging(surge: str = "2", **spec: Any) -> Object:
    document = cloneset(**spec)
    document["metadata"]["annotations"] = {EVICTION_SURGE.annotation: surge}
    return document


def budget() -> Object:
    """A budget for the pods of the app that allows no unavailable pod."""
    return {
        "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
        "kind": POD_UNAVAILABLE_BUDGETS.kind,
        "metadata": {"name": "pub"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0},
    }


class FewestServing:
    """The lowest number of pods that served at the same time."""

    def __init__(self, seen: PodWatch) -> None:
        self._seen = seen
        self.count = self._count()
        seen.cache.subscribe(lambda _: self._look())

    def _count(self) -> int:
        return sum(pod.is_ready and pod.is_active for pod in self._seen.cache.values())

    def _look(self) -> None:
        self.count = min(self.count, self._count())


async def evict(stage: Stage, name: str) -> None:
    body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await stage.client.create(PODS, stage.namespace, body, name=name, subresource="eviction")


async def insist(stage: Stage, name: str) -> None:
    """Repeat the eviction as kubectl drain does, until the pod is deleted."""
    while True:
        try:
            await evict(stage, name)
        except NotFoundError:
            return
        except TooManyRequestsError:
            pass
        await asyncio.sleep(0.5)


async def _start(stage: Stage, document: Object, *, replicas: int) -> list[str]:
    await stage.start_manager()
    await stage.create(budget(), resource=POD_UNAVAILABLE_BUDGETS)
    await stage.create(document)
    await stage.settled(replicas=replicas)
    return sorted(pod.name for pod in await stage.pods())


async def test_evictions_of_all_pods_lose_no_available_pod(stage: Stage, seen: PodWatch) -> None:
    """cloneset cases 99 and 100"""
    # given
    names = await _start(stage, surging(replicas=6), replicas=6)
    fewest = FewestServing(seen)
    # when
    await asyncio.gather(*(insist(stage, name) for name in names))
    # then
    await stage.settled(replicas=6)
    assert fewest.count == 6
    assert not {pod.name for pod in await stage.pods()} & set(names)


async def test_an_eviction_waits_for_a_successor_that_does_not_become_ready(stage: Stage) -> None:
    """cloneset cases 99 and 103"""
    # given
    names = await _start(stage, surging(replicas=2), replicas=2)
    stage.kubelets.set_rules([SLOW])
    # when
    with pytest.raises(TooManyRequestsError, match="CloneSet web creates a successor first"):
        await evict(stage, names[0])

    async def has_successor() -> bool:
        return len(await stage.pods()) == 3

    await stage.until(has_successor)
    await asyncio.sleep(min(stage.long_s, WANTED_S / 2))
    # then the pod stays, and explain names what it waits for
    assert set(names) <= {pod.name for pod in await stage.pods()}
    (successor,) = {pod.name for pod in await stage.pods()} - set(names)
    now = stage.clock()
    pod = await read_and_explain_pod(stage.client, Key(stage.namespace, names[0]), now=now)
    assert (
        "eviction: CloneSet web creates a successor first, and deletes the pod when the successor is available"
        in pod.next
    )
    result = await read_and_explain(stage.client, Key(stage.namespace, "web"), now=now, kind=KIND)
    assert any(successor in wait.pods for wait in result.waits)
    # when the successor can become ready
    stage.kubelets.set_rules([])
    with suppress(ForbiddenError):  # on a real control plane it may be ready already
        await stage.delete(successor, resource=PODS)
    # then
    await insist(stage, names[0])
    await stage.settled(replicas=2)


async def test_removing_the_option_deletes_the_surplus_pod(stage: Stage) -> None:
    """cloneset case 101"""
    names = await _start(stage, surging(replicas=2), replicas=2)
    stage.kubelets.set_rules([SLOW])
    with pytest.raises(TooManyRequestsError):
        await evict(stage, names[0])

    async def has_successor() -> bool:
        return len(await stage.pods()) == 3

    await stage.until(has_successor)
    # when
    await stage.merge("web", {"metadata": {"annotations": {EVICTION_SURGE.annotation: None}}})
    # then
    await stage.settled(replicas=2)
    assert {pod.name for pod in await stage.pods()} == set(names)


@pytest.mark.sandbox_only
async def test_an_eviction_that_is_not_repeated_leaves_no_surplus_pod(stage: Stage) -> None:
    """cloneset case 102"""
    # given a drain that was cancelled
    names = await _start(stage, surging(replicas=2), replicas=2)
    stage.kubelets.set_rules([SLOW])
    with pytest.raises(TooManyRequestsError):
        await evict(stage, names[0])
    # when
    await asyncio.sleep(WANTED_S + 10)
    # then
    await stage.settled(replicas=2)
    assert {pod.name for pod in await stage.pods()} == set(names)
    documents = await stage.stored(PODS)
    assert not any(
        keys.EVICTION_REQUESTED_ANNOTATION in (doc["metadata"].get("annotations") or {}) for doc in documents
    )


async def test_a_cloneset_without_the_option_leaves_the_answer_to_its_budget(stage: Stage) -> None:
    names = await _start(stage, cloneset(replicas=2), replicas=2)
    with pytest.raises(TooManyRequestsError, match="pub unavailable allowed is negative"):
        await evict(stage, names[0])
    await asyncio.sleep(stage.long_s)
    documents = await stage.stored(PODS)
    assert len(documents) == 2
    assert "pykruise.io/" not in str([doc["metadata"].get("annotations") for doc in documents])


async def test_the_clonesets_of_a_united_deployment_have_the_option(stage: Stage, seen: PodWatch) -> None:
    # given
    await stage.start_manager()
    await stage.create(budget(), resource=POD_UNAVAILABLE_BUDGETS)
    await stage.create(_united("cloneSetTemplate", surging()), resource=UNITED_DEPLOYMENTS)

    async def are_ready() -> bool:
        return sum(pod.is_ready for pod in await stage.pods()) == 4

    await stage.until(are_ready)
    fewest = FewestServing(seen)
    # when
    name = (await stage.pods())[0].name
    await insist(stage, name)
    # then
    await stage.until(are_ready)
    assert fewest.count == 4


@pytest.mark.sandbox_only
@pytest.mark.parametrize(
    ("document", "resource", "field", "message"),
    [
        (surging("none"), CLONE_SETS, "metadata", "must be a number of pods (at least 1), or a percentage"),
        (statefulset(), ADVANCED_STATEFUL_SETS, "metadata", "is only for CloneSets"),
        (
            None,
            UNITED_DEPLOYMENTS,
            "spec.template.advancedStatefulSetTemplate.metadata",
            "is only for CloneSets",
        ),
    ],
    ids=["bad-value", "statefulset", "uniteddeployment"],
)
async def test_admission_names_the_annotation(
    stage: Stage, document: Object | None, resource: Any, field: str, message: str
) -> None:
    """cloneset case 105"""
    if document is None:
        template = {**statefulset(), "metadata": {"annotations": {EVICTION_SURGE.annotation: "1"}}}
        document = _united("advancedStatefulSetTemplate", template)
    elif resource is ADVANCED_STATEFUL_SETS:
        document["metadata"]["annotations"] = {EVICTION_SURGE.annotation: "1"}
    with pytest.raises(InvalidError) as refused:
        await stage.create(document, resource=resource)
    assert f"{field}.annotations[{EVICTION_SURGE.annotation}]" in str(refused.value)
    assert message in str(refused.value)


def _united(name: str, workload: Object) -> Object:
    """A UnitedDeployment with two subsets of this workload."""
    spec = {field: value for field, value in workload["spec"].items() if field != "replicas"}
    labels = {"app": "web"}
    metadata = {"labels": labels, "annotations": workload["metadata"]["annotations"]}
    return {
        "apiVersion": UNITED_DEPLOYMENTS.api_version,
        "kind": UNITED_DEPLOYMENTS.kind,
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {name: {"metadata": metadata, "spec": spec}},
            "topology": {"subsets": [{"name": "a"}, {"name": "b"}]},
        },
    }
