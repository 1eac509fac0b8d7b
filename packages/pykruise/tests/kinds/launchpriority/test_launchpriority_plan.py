"""Containers of a pod start by priority, one level after the other; cases of the specification of updates in place."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykruise.kinds.launchpriority.kind import KIND, read_barrier
from pykruise.kinds.launchpriority.plan import Barrier, LaunchPrioritySnapshot, is_waiting, plan_barriers
from pykruise.kube.documents import Document, encode
from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, PODS, Resource
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.settings import NoSettings
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Read
from support.snapshots import control_of, read_of

COMPLETED = "apps.kruise.io/container-launch-priority-completed"


def pod(
    priorities: Mapping[str, int | None],
    *,
    ready: tuple[str, ...] = (),
    started: tuple[str, ...] = (),
    conditions: list[Document] | None = None,
    **metadata: Any,
) -> PodView:
    """A pod of containers with these priorities (None: no barrier). `ready`: its ready containers; `started`: running
    containers that are not ready yet."""

    def container(name: str, priority: int | None) -> Document:
        reference = {"name": "web-0-barrier", "key": f"p_{priority}"}
        env = [{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": reference}}]
        return {"name": name, "image": "i:1", **({} if priority is None else {"env": env})}

    all_ready = "True" if set(ready) == set(priorities) else "False"
    return project_pod(
        encode(
            {
                "metadata": {
                    "name": "web-0",
                    "namespace": "shop",
                    "uid": "u1",
                    "resourceVersion": "7",
                    **metadata,
                },
                "spec": {"containers": [container(*priority) for priority in priorities.items()]},
                "status": {
                    "phase": "Pending",
                    "conditions": [{"type": "ContainersReady", "status": all_ready}]
                    if conditions is None
                    else conditions,
                    "containerStatuses": [
                        {"name": name, "ready": name in ready} for name in (*ready, *started)
                    ],
                },
            }
        )
    )


def plan(pod: PodView, *keys: str, owner: str = "u1", exists: bool = True) -> Plan:
    """The plan for a pod whose ConfigMap has these keys."""
    barrier = Barrier(uid="c1", owner_uid=owner, keys=frozenset(keys)) if exists else None
    return plan_barriers(LaunchPrioritySnapshot(pod=pod, barrier=barrier))


def opened(plan: Plan) -> list[str]:
    """The keys that the plan adds."""
    return [
        key
        for step in plan.steps
        if step.action.resource == CONFIG_MAPS and not isinstance(step.action, Delete)
        for key in step.action.body["data"]
    ]


def is_completed(plan: Plan) -> bool:
    return any(
        step.action.resource == PODS
        and isinstance(step.action, Patch)
        and step.action.body == {"metadata": {"annotations": {COMPLETED: "true"}}}
        for step in plan.steps
    )


def test_the_first_barrier_is_opened_with_a_config_map_owned_by_the_pod() -> None:
    """inplace-update case 62"""
    result = plan(pod({"a": 1, "b": 0}), exists=False)
    (step,) = result.steps
    assert isinstance(step.action, Create)
    assert step.action.key.name == "web-0-barrier"
    assert step.action.body["data"] == {"p_1": "true"}
    assert step.action.body["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u1"}
    ]
    assert not is_completed(result)


def test_the_next_barrier_opens_when_all_above_are_ready_and_with_the_last_the_pod_is_marked() -> None:
    """inplace-update case 62"""
    # given two barriers; neither container is ready, and the first is open
    waiting = plan(pod({"a": 1, "b": 0}), "p_1")
    # then
    assert waiting.is_settled
    assert waiting.skipped["web-0"].message == "containers of priority 1 are not ready yet"
    # when the first is ready
    result = plan(pod({"a": 1, "b": 0}, ready=("a",)), "p_1")
    # then
    assert opened(result) == ["p_0"]
    assert is_completed(result)
    addition = next(iter(result.steps)).action
    assert isinstance(addition, Patch)
    assert (addition.key.name, addition.patch_type, addition.body) == (
        "web-0-barrier",
        PatchType.MERGE,
        {"data": {"p_0": "true"}},
    )


def test_a_pod_of_which_nothing_is_reported_yet_waits() -> None:
    for conditions in ([], [{"type": "ContainersReady", "status": "Unknown"}]):
        item = pod({"a": 1, "b": 0}, conditions=conditions)
        assert is_waiting(item)
        assert opened(plan(item, exists=False)) == ["p_1"]


def test_a_container_that_has_started_and_is_not_ready_holds_back_those_below_it() -> None:
    assert opened(plan(pod({"a": 1, "b": 0}, started=("a",)), "p_1")) == []


def test_containers_of_one_priority_start_together_and_the_next_priority_waits_for_them() -> None:
    three = {"a": 5, "b": 5, "c": -1}
    assert opened(plan(pod(three), exists=False)) == ["p_5"]
    assert opened(plan(pod(three, ready=("a",)), "p_5")) == []
    assert opened(plan(pod(three, ready=("a", "b")), "p_5")) == ["p_-1"]


def test_an_open_barrier_is_not_written_again_only_the_pod_is_marked() -> None:
    for ready in (("a",), ()):  # a ready container may have been restarted since then
        result = plan(pod({"a": 1, "b": 0}, ready=ready), "p_1", "p_0")
        assert opened(result) == []
        assert is_completed(result)


@pytest.mark.parametrize(
    "item",
    [
        pod({"a": 1, "b": 0}, annotations={COMPLETED: "true"}),
        pod({"a": 1, "b": 0}, deletionTimestamp="2026-01-31T12:00:00Z"),
        pod({"a": 1, "b": 0}, ready=("a", "b")),
        pod({"a": 1, "b": 0}, conditions=[{"type": "ContainersReady", "status": "True"}]),
        pod({"free": None, "b": 0}, ready=("b",)),
        pod({"a": None, "b": None}),
    ],
    ids=["completed", "terminating", "all ready", "said to be ready", "others not ready", "without barriers"],
)
def test_pods_that_wait_for_no_barrier_are_not_planned(item: PodView) -> None:
    """inplace-update case 63"""
    assert not is_waiting(item)
    assert plan(item, exists=False).is_settled


def test_containers_without_a_barrier_hold_no_container_back() -> None:
    assert opened(plan(pod({"free": None, "b": 0}), exists=False)) == ["p_0"]


def test_keys_of_an_earlier_pod_of_the_same_name_open_nothing() -> None:
    """a recreated pod with the same name, before the garbage collector has deleted the ConfigMap"""
    result = plan(pod({"a": 1, "b": 0}), "p_1", "p_0", owner="u0")
    removal, creation = result.steps
    assert isinstance(removal.action, Delete)
    assert removal.action.uid == "c1"
    assert isinstance(creation.action, Create)
    assert opened(result) == ["p_1"]
    assert not is_completed(result)


def test_a_deleted_config_map_is_recreated_with_all_open_barriers() -> None:
    ready = tuple("abcdef")
    priorities = dict(zip((*ready, "g", "h"), (9, 8, 7, 6, 5, 4, 3, 0), strict=True))
    result = plan(pod(priorities, ready=ready), exists=False)
    assert opened(result) == ["p_3", "p_4", "p_5", "p_6", "p_7", "p_8", "p_9"]


def test_a_config_map_is_read_with_the_pod_it_belongs_to() -> None:
    owners = [{"kind": "CloneSet", "uid": "u0"}, {"kind": "Pod", "uid": "u1"}]
    body = {"metadata": {"uid": "c1", "ownerReferences": owners}, "data": {"p_1": "true"}}
    assert read_barrier(encode(body)) == Barrier(uid="c1", owner_uid="u1", keys=frozenset({"p_1"}))
    assert read_barrier(b'{"metadata": {"uid": "c2"}}') == Barrier(uid="c2")


class Client:
    """An API server with or without the pod's ConfigMap; a read calls `meanwhile`."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None, *, exists: bool = True) -> None:
        self._meanwhile = meanwhile
        self._exists = exists
        self.asked: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        self.asked.append(f"{resource.kind} {namespace}/{name}")
        self._meanwhile()
        if not self._exists:
            raise NotFoundError(ErrorStatus(code=404))
        return encode({"metadata": {"uid": "c1"}, "data": {"p_1": "true"}})


async def seen(pod: PodView, client: Client) -> LaunchPrioritySnapshot | None:
    snapshot: LaunchPrioritySnapshot | None = await control_of(KIND).snapshot(
        pod, read_of(KIND, pod, {}, settings=NoSettings(), now=0.0, live=client)
    )
    return snapshot


@pytest.mark.parametrize("exists", [True, False])
async def test_the_configmap_of_a_pod_that_waits_is_read(exists: bool) -> None:
    item, client = pod({"a": 1, "b": 0}), Client(exists=exists)
    snapshot = await seen(item, client)
    assert client.asked == ["ConfigMap shop/web-0-barrier"]
    assert snapshot is not None
    assert snapshot.pod == item
    assert snapshot.barrier == (Barrier(uid="c1", keys=frozenset({"p_1"})) if exists else None)


async def test_nothing_is_read_for_a_pod_that_does_not_wait() -> None:
    client = Client()
    assert await seen(pod({"a": 1, "b": 0}, annotations={COMPLETED: "true"}), client) is None
    assert client.asked == []


@pytest.mark.parametrize("later", [pod({"a": 1, "b": 0}, ready=("a",)), None], ids=["changed", "gone"])
async def test_a_pod_that_changes_while_its_config_map_is_read_is_planned_in_its_new_state(
    later: PodView | None,
) -> None:
    first = pod({"a": 1, "b": 0})
    known: list[PodView] = [first]

    def change() -> None:
        known[:] = [later] if later is not None else []

    class Pods:
        """A cache of the known pods."""

        def get(self, key: Key) -> PodView | None:
            return next(iter(known), None)

    cache: Any = Pods()
    client: Any = Client(change)
    read: Read[Any] = Read(
        {POD_VIEWS: cache},
        key=Key("shop", "web-0"),
        uid=first.uid,
        now=lambda: 0.0,
        rng=random.Random(1),
        settings=NoSettings(),
        live=client,
    )
    result = await control_of(KIND).snapshot(first, read)
    if later is None:
        assert result is None
        return
    assert result is not None
    assert result.pod is later
