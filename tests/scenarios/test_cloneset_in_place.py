"""A CloneSet changes its pods in place: same names, uids and addresses, one restart, whatever goes wrong."""

import asyncio
import copy
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from pykruise.kinds.gates import Gates
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.client.transport import Request as SentRequest
from pykruise.kube.client.transport import Response, WrappedTransport
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.in_place.images import parse_image_name
from pykruise.pods.view import keys
from pykruise.sandbox.nodes.images import ImageTable
from support.faults import (
    Answer,
    CutAfter,
    Delay,
    DropAnswer,
    DropRequest,
    FaultyTransport,
    Refuse,
    Request,
    TimeOut,
    conflict,
    too_many,
    watches,
    workload_writes,
)
from support.kills import Kill
from support.scenario import Object, PodWatch, Stage, cloneset, rolling

REPLICAS = 4
DIGEST = "sha256:" + "ab" * 32
OTHER_DIGEST = "sha256:" + "cd" * 32
HOOK = "example.com/hook"


def in_place(policy: str = "InPlaceIfPossible", **fields: Any) -> Object:
    fields.setdefault("maxUnavailable", 1)
    return rolling(podUpdatePolicy=policy, **fields)


async def documents(stage: Stage) -> dict[str, Object]:
    """The pods as stored, by name."""
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    return {doc["metadata"]["name"]: doc for doc in map(decode, listed.items)}


def identities(pods: Mapping[str, Object]) -> dict[str, tuple[str, str, str]]:
    """Facts that must stay, by the pod's name: uid, node and address."""
    return {
        name: (pod["metadata"]["uid"], pod["spec"]["nodeName"], pod["status"]["podIP"])
        for name, pod in pods.items()
    }


def restarts(pods: Mapping[str, Object]) -> list[int]:
    return [status["restartCount"] for pod in pods.values() for status in pod["status"]["containerStatuses"]]


def images(pods: Mapping[str, Object]) -> set[str]:
    return {container["image"] for pod in pods.values() for container in pod["spec"]["containers"]}


async def created(stage: Stage, *, replicas: int = REPLICAS, **spec: Any) -> dict[str, Object]:
    """A settled CloneSet that is updated in place; its pods."""
    spec.setdefault("updateStrategy", in_place())
    await stage.create(cloneset(replicas=replicas, **spec))
    await stage.settled(replicas=replicas)
    return await documents(stage)


async def is_true(stage: Stage, kind: str) -> Object | None:
    conditions = (await stage.status()).get("conditions") or []
    return next(
        (
            condition
            for condition in conditions
            if condition["type"] == kind and condition["status"] == "True"
        ),
        None,
    )


# ── what it is about ─────────────────────────────────────────────────────────


@pytest.mark.node
async def test_names_uids_and_addresses_stay_and_each_container_restarts_once(
    stage: Stage, seen: PodWatch
) -> None:
    # given
    await stage.start_manager()
    before = await created(stage)
    seen.watch_from_now()
    # when
    await stage.set_image("web", "nginx:2")
    result = await stage.settled(replicas=REPLICAS)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert images(after) == {"nginx:2"}
    assert restarts(after) == [1] * REPLICAS
    assert seen.fewest_available == REPLICAS - 1
    assert result["status"]["currentRevision"] == result["status"]["updateRevision"]
    assert await is_true(stage, "FailedUpdate") is None
    events = await stage.until(lambda: stage.events("SuccessfulUpdatePodInPlace"))
    assert sum(event["count"] for event in events) == REPLICAS


@pytest.mark.virtual_time("how often a kubelet comes in between depends on the machine's load")
@pytest.mark.parametrize("max_unavailable", [1, "100%"])
async def test_a_pod_costs_three_writes(stage: Stage, max_unavailable: int | str) -> None:
    # given
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered)
    replicas = 40
    await created(stage, replicas=replicas, updateStrategy=in_place(maxUnavailable=max_unavailable))
    before = metered.requests.copy()
    # when
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=replicas)
    # then
    cost = metered.requests - before
    assert cost["PATCH pods"] == replicas
    # a write of the kubelet that comes in between costs one more
    assert cost["PATCH pods"] + cost["PATCH pods/status"] <= 3.1 * replicas
    assert cost["POST pods"] == cost["DELETE pods"] == 0


@pytest.mark.node
async def test_labels_alone_change_without_a_restart(stage: Stage, seen: PodWatch) -> None:
    # given
    await stage.start_manager()
    before = await created(stage)
    # when
    labels = {"app": "web", "tier": "front"}
    await stage.merge("web", {"spec": {"template": {"metadata": {"labels": labels}}}})
    await stage.settled(replicas=REPLICAS)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [0] * REPLICAS
    assert all(pod["metadata"]["labels"]["tier"] == "front" for pod in after.values())


@pytest.mark.node
async def test_a_pod_that_cannot_change_in_place_is_recreated(stage: Stage) -> None:
    await stage.start_manager()
    before = await created(stage)
    await stage.merge("web", {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    await stage.settled(replicas=REPLICAS)
    assert not {*before} & {*await documents(stage)}


@pytest.mark.node
async def test_in_place_only_reports_an_impossible_change_and_recovers_when_it_is_reverted(
    stage: Stage,
) -> None:
    """cloneset case 78"""
    # given
    await stage.start_manager()
    before = await created(stage, updateStrategy=in_place("InPlaceOnly"))
    # when
    await stage.merge("web", {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    result = await stage.until(lambda: is_true(stage, "FailedUpdate"))
    # then
    assert "spec.hostNetwork was added" in result["message"]
    # when
    await stage.merge("web", {"spec": {"template": {"spec": {"hostNetwork": None}}}})
    await stage.settled(replicas=REPLICAS)
    # then

    async def is_over() -> bool:
        return await is_true(stage, "FailedUpdate") is None

    await stage.until(is_over)
    assert identities(await documents(stage)) == identities(before)


@pytest.mark.node
async def test_in_place_only_with_a_percentage_of_surge_pods_is_scaled_up_from_zero(stage: Stage) -> None:
    """10% of 0 pods is 0, which admission accepts, and `kubectl scale` is not reviewed."""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=0, updateStrategy=in_place("InPlaceOnly", maxSurge="10%")))
    # when
    await stage.scale("web", REPLICAS)
    # then
    await stage.settled(replicas=REPLICAS)


@pytest.mark.node
async def test_a_partition_holds_pods_and_a_rollback_restores_all(stage: Stage) -> None:
    # given
    await stage.start_manager()
    before = await created(stage, updateStrategy=in_place(partition=2))
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=REPLICAS, updated=2)
    assert images(await documents(stage)) == {"nginx:1", "nginx:2"}
    # when
    await stage.set_image("web", "nginx:1", updateStrategy=in_place(partition=0))
    await stage.settled(replicas=REPLICAS)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert images(after) == {"nginx:1"}
    assert sorted(restarts(after)) == [0, 0, 2, 2]


# ── unknown fields survive ───────────────────────────────────────────────────


class Injecting(WrappedTransport):
    """A sidecar, and fields that pykruise does not know, as a cluster's own webhooks add them to new pods."""

    async def request(self, request: SentRequest, /) -> Response:
        if request.method == "POST" and request.path.endswith("/pods") and request.body is not None:
            pod = json.loads(request.body)
            main = pod["spec"]["containers"][0]
            main["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
            main["resources"] = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
            pod["spec"]["containers"].append({"name": "proxy", "image": "mesh/proxy:7", "stdin": True})
            pod["spec"]["hostname"] = "injected"
            pod["metadata"].setdefault("annotations", {})["mesh.example.com/injected"] = '{"by": "mesh"}'
            request = msgspec.structs.replace(request, body=json.dumps(pod).encode())
        return await self._inner.request(request)


@pytest.mark.node
@pytest.mark.parametrize("vertical_scaling", [False, True])
async def test_unknown_fields_survive(stage: Stage, vertical_scaling: bool) -> None:
    # given pods with a sidecar and fields of others, one of them resized meanwhile
    gates = ManagerSettings(gates=Gates.of(InPlaceWorkloadVerticalScaling=vertical_scaling))
    await stage.start_manager(Injecting(stage.manager_transport()), settings=gates)
    names = sorted(await created(stage, replicas=2))
    await _resize(stage, names[0], cpu="150m")
    before = await documents(stage)
    # when
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=2)
    # then only the image and what the manager itself writes are different
    after = await documents(stage)
    for name, old in before.items():
        new = after[name]
        wanted = copy.deepcopy(old["spec"])
        wanted["containers"][0]["image"] = "nginx:2"
        assert new["spec"] == wanted
        assert _foreign(new["metadata"]) == _foreign(old["metadata"])
    assert after[names[0]]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "150m"
    assert sorted(restarts(after)) == [0, 0, 1, 1]


async def _resize(stage: Stage, name: str, *, cpu: str) -> None:
    """Resize the pod as a vertical autoscaler does; its kubelet reports resources, which a resize requires."""
    statuses = (await stage.get(name, resource=PODS))["status"]["containerStatuses"]
    reported = [{**status, "resources": {"requests": {"cpu": "100m"}}} for status in statuses]
    await stage.merge(name, {"status": {"containerStatuses": reported}}, resource=PODS, subresource="status")
    amounts = {"requests": {"cpu": cpu}, "limits": {"cpu": "1"}}
    await stage.client.patch(
        PODS,
        stage.namespace,
        name,
        {"spec": {"containers": [{"name": "main", "resources": amounts}]}},
        patch_type=PatchType.STRATEGIC,
        subresource="resize",
    )


def _foreign(metadata: Object) -> Object:
    """Metadata without the fields that always change, and without the manager's own."""
    own = {
        keys.REVISION_LABEL,
        keys.TEMPLATE_HASH_LABEL,
        keys.STATE_TIME_ANNOTATION,
        keys.IN_PLACE_STATE_ANNOTATION,
    }
    foreign = {
        field: value
        for field, value in metadata.items()
        if field not in ("resourceVersion", "generation", "managedFields")
    }
    for field in ("labels", "annotations"):
        foreign[field] = {key: value for key, value in metadata[field].items() if key not in own}
    return foreign


@pytest.mark.node
async def test_the_image_of_a_native_sidecar_changes_in_place(stage: Stage, seen: PodWatch) -> None:
    # given pods with an init container that keeps running
    await stage.start_manager()
    body = cloneset(replicas=2, updateStrategy=in_place())
    sidecar = {"name": "proxy", "image": "mesh/proxy:1", "restartPolicy": "Always"}
    body["spec"]["template"]["spec"]["initContainers"] = [sidecar]
    await stage.create(body)
    await stage.settled(replicas=2)
    before = await documents(stage)
    seen.watch_from_now()
    # when
    changed = [{**sidecar, "image": "mesh/proxy:2"}]
    await stage.merge("web", {"spec": {"template": {"spec": {"initContainers": changed}}}})
    await stage.settled(replicas=2)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [0, 0]
    assert {pod["spec"]["initContainers"][0]["image"] for pod in after.values()} == {"mesh/proxy:2"}
    ran = [pod["status"]["initContainerStatuses"][0] for pod in after.values()]
    assert {item["image"] for item in ran} == {"docker.io/mesh/proxy:2"} or {
        item["image"] for item in ran
    } == {"mesh/proxy:2"}
    assert seen.fewest_available == 1


# ── never stuck ──────────────────────────────────────────────────────────────


async def updated_through(stage: Stage, seen: PodWatch, fault: Any) -> None:
    """Update two pods in place while the manager's writes meet the fault."""
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    before = await created(stage, replicas=2)
    faulty.on(workload_writes(), fault)
    seen.watch_from_now()
    began = stage.clock()
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=2)
    took = stage.clock() - began
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [1, 1]
    assert seen.fewest_available == 1
    # without a fault it takes three seconds; what goes wrong costs one try, not minutes
    assert took < 45
    assert await is_true(stage, "FailedUpdate") is None


@pytest.mark.checkered
@pytest.mark.few_on_real(4)
@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize(
    "fault",
    [
        conflict(),
        DropAnswer(),
        DropRequest(),
        Refuse(),
        too_many(),
        Answer(500),
        Answer(500, takes_effect=True),
        Answer(504, takes_effect=True),
        pytest.param(TimeOut(30.0, takes_effect=True), marks=pytest.mark.virtual_time("it takes 30 s")),
        Delay(2.0),
        Delay(2.0, on_the_way_back=True),
    ],
    ids=lambda fault: repr(fault)[:40],
)
async def test_an_in_place_update_completes_despite_one_failing_write(
    stage: Stage, seen: PodWatch, fault: Any, number: int
) -> None:
    count = 0

    def choose(_request: Request) -> Any:
        nonlocal count
        count += 1
        return fault if count - 1 == number else None

    await updated_through(stage, seen, choose)


@pytest.mark.checkered(4)
@pytest.mark.few_on_real(3)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(9))
async def test_never_stuck_when_the_manager_is_killed(
    stage: Stage, seen: PodWatch, at: int, takes_effect: bool
) -> None:
    # given a manager that is killed at that write of an update in place
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    before = await created(stage, replicas=2)
    kill = Kill(at, takes_effect=takes_effect)
    faulty.on(workload_writes(), kill)
    seen.watch_from_now()
    await stage.set_image("web", "nginx:2")

    async def over() -> bool:
        return kill.reached or (await stage.status()).get("updatedAvailableReplicas") == 2

    await stage.until(over)
    await stage.kill_manager()
    # when another one goes on
    await stage.start_manager()
    # then
    await stage.settled(replicas=2)
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [1, 1]
    assert seen.fewest_available == 1


@pytest.mark.checkered
@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("seed", range(12))
async def test_an_in_place_update_completes_despite_random_faults(
    stage: Stage, seen: PodWatch, seed: int
) -> None:
    # given
    rng = random.Random(seed)
    faults: list[Callable[[], Any]] = [
        conflict,
        DropAnswer,
        DropRequest,
        Refuse,
        too_many,
        lambda: Answer(500),
        lambda: Answer(500, takes_effect=True),
        lambda: Delay(rng.uniform(0, 2)),
        lambda: Delay(rng.uniform(0, 2), on_the_way_back=True),
    ]
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    before = await created(stage, updateStrategy=in_place(maxUnavailable=2))
    seen.watch_from_now()
    faulty.on(workload_writes(), lambda _request: rng.choice(faults)() if rng.random() < 0.3 else None)
    faulty.on(watches(), lambda _request: CutAfter(rng.randrange(8)) if rng.random() < 0.5 else None)
    # when
    for image in ("nginx:2", "nginx:3"):
        await stage.set_image("web", image)
        await stage.settled(replicas=REPLICAS)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [2] * REPLICAS
    assert (seen.fewest_available or 0) >= REPLICAS - 2


# ── always finishes, or says why ─────────────────────────────────────────────


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nginx:1", "nginx:2"),
        ("nginx:1", "nginx:same"),
        ("nginx", "nginx:1"),
        ("nginx:1", "docker.io/library/nginx:same"),
        ("registry.example.com:5000/shop/web:1", "registry.example.com:5000/shop/web:2"),
        (f"nginx@{DIGEST}", f"nginx@{OTHER_DIGEST}"),
        (f"registry.example.com/web@{DIGEST}", f"registry.example.com/web@{OTHER_DIGEST}"),
        ("nginx:1", f"nginx@{DIGEST}"),
        (f"nginx:1@{DIGEST}", f"nginx:2@{DIGEST}"),
    ],
)
async def test_an_in_place_update_completes_with_any_image_names(stage: Stage, old: str, new: str) -> None:
    """inplace: the same digest under a new tag, digests, with and without a registry prefix"""
    # given
    stage.kubelets.set_images(ImageTable(same_as={"nginx:same": "nginx:1"}))
    await stage.start_manager()
    before = await created(stage, replicas=2, image=old)
    # when
    await stage.set_image("web", new)
    await stage.settled(replicas=2)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert images(after) == {new}
    assert restarts(after) == [1, 1]


@pytest.mark.node
async def test_an_unpullable_image_holds_the_other_pods_until_another_image_is_set(
    stage: Stage, seen: PodWatch
) -> None:
    # given
    await stage.start_manager()
    before = await created(stage)
    seen.watch_from_now()
    await stage.set_image("web", "shop/broken:1")

    async def one_waits() -> bool:
        return (await stage.status()).get("updatedReplicas") == 1

    await stage.until(one_waits)
    await asyncio.sleep(stage.long_s)
    assert images(await documents(stage)) == {"nginx:1", "shop/broken:1"}
    # when
    await stage.set_image("web", "nginx:3")
    await stage.settled(replicas=REPLICAS)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert images(after) == {"nginx:3"}
    assert seen.fewest_available == REPLICAS - 1


async def test_defaults_filled_in_by_the_server_are_not_a_difference(stage: Stage) -> None:
    # given
    await stage.start_manager()
    before = await created(stage, replicas=2)
    # when the template sets a default explicitly
    spelled_out = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "containers": [
            {"name": "main", "image": "nginx:2", "resources": {}}
            | {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
        ],
    }
    await stage.merge("web", {"spec": {"template": {"spec": spelled_out}}})
    await stage.settled(replicas=2)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [1, 1]


@pytest.mark.node
async def test_a_grace_period_takes_the_pod_out_of_service_before_its_image_changes(
    stage: Stage, seen: PodWatch
) -> None:
    # given
    strategy = in_place(inPlaceUpdateStrategy={"gracePeriodSeconds": 3})
    await stage.start_manager()
    before = await created(stage, replicas=2, updateStrategy=strategy)
    seen.watch_from_now()
    began = stage.clock()
    # when
    await stage.set_image("web", "nginx:2")

    async def one_is_out() -> bool:
        return any(not pod.is_ready for pod in await stage.pods())

    await stage.until(one_is_out)
    assert images(await documents(stage)) == {"nginx:1"}
    await stage.settled(replicas=2)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [1, 1]
    assert seen.fewest_available == 1
    # One after the other; each grace period is counted from a whole second, which may just be over.
    assert stage.clock() - began >= 2 * (3 - 1)


@pytest.mark.node
async def test_a_rollback_in_the_grace_period_ends_with_the_old_image(stage: Stage) -> None:
    # given a pod in its grace period
    strategy = in_place(inPlaceUpdateStrategy={"gracePeriodSeconds": 3})
    await stage.start_manager()
    before = await created(stage, replicas=2, updateStrategy=strategy)
    await stage.set_image("web", "nginx:2")

    async def one_is_out() -> bool:
        return any(pod.is_in_grace for pod in await stage.pods())

    await stage.until(one_is_out)
    # when
    await stage.set_image("web", "nginx:1")
    # then
    await stage.settled(replicas=2)
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert images(after) == {"nginx:1"}
    assert not any(keys.IN_PLACE_GRACE_ANNOTATION in pod["metadata"]["annotations"] for pod in after.values())


@pytest.mark.node
async def test_templates_in_quick_succession_end_with_the_last(stage: Stage, seen: PodWatch) -> None:
    # given
    await stage.start_manager()
    before = await created(stage, updateStrategy=in_place(maxUnavailable=2))
    seen.watch_from_now()
    # when
    for number in range(2, 9):
        await stage.set_image("web", f"nginx:{number}")
        await asyncio.sleep(0.35)
    await stage.settled(replicas=REPLICAS)
    # then
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert images(after) == {"nginx:8"}
    running = {status["image"] for pod in after.values() for status in pod["status"]["containerStatuses"]}
    assert {parse_image_name(image) for image in running} == {parse_image_name("nginx:8")}
    assert (seen.fewest_available or 0) >= REPLICAS - 2


# ── hooks ────────────────────────────────────────────────────────────────────


@pytest.mark.node
async def test_the_in_place_hook_with_a_finalizer_is_waited_for_before_and_after_the_update(
    stage: Stage, seen: PodWatch
) -> None:
    # given pods that another program holds by a finalizer
    hook = {"finalizersHandler": [HOOK], "markPodNotReady": True}
    template = {
        "metadata": {"labels": {"app": "web"}, "finalizers": [HOOK]},
        "spec": {
            "containers": [{"name": "main", "image": "nginx:1"}],
            "readinessGates": [{"conditionType": keys.KRUISE_POD_READY}],
        },
    }
    await stage.start_manager()
    before = await created(stage, replicas=2, template=template, lifecycle={"inPlaceUpdate": hook})
    seen.watch_from_now()
    await stage.set_image("web", "nginx:2")
    for _ in range(2):
        # when one prepares, out of service, it is let go
        name = await stage.until(lambda: _in_state(stage, "PreparingUpdate"))
        assert not (await _pod(stage, name)).is_ready
        await stage.merge(name, {"metadata": {"finalizers": None}}, resource=PODS)
        # when it is updated, it waits for the hook
        assert await stage.until(lambda: _in_state(stage, "Updated")) == name
        await stage.merge(name, {"metadata": {"finalizers": [HOOK]}}, resource=PODS)
    # then
    await stage.settled(replicas=2)
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert restarts(after) == [1, 1]
    assert seen.fewest_available == 1
    for name in after:
        await stage.merge(name, {"metadata": {"finalizers": None}}, resource=PODS)


@pytest.mark.node
async def test_the_in_place_hook_with_a_label_stops_a_rollout_until_the_label_is_removed(
    stage: Stage,
) -> None:
    # given
    await stage.start_manager()
    lifecycle = {"inPlaceUpdate": {"labelsHandler": {"example.com/held": "yes"}}}
    before = await created(stage, replicas=2, lifecycle=lifecycle)
    for name in before:
        await stage.merge(name, {"metadata": {"labels": {"example.com/held": "yes"}}}, resource=PODS)
    # when
    await stage.set_image("web", "nginx:2")
    name = await stage.until(lambda: _in_state(stage, "PreparingUpdate"))
    await asyncio.sleep(stage.long_s)
    # then nothing has changed
    assert images(await documents(stage)) == {"nginx:1"}
    # when the template is taken back, it returns
    await stage.set_image("web", "nginx:1")
    await stage.settled(replicas=2)
    assert (await _pod(stage, name)).state == "Normal"
    assert restarts(await documents(stage)) == [0, 0]


@pytest.mark.parametrize("filters_events", [False, True], ids=["gate off", "gate on"])
@pytest.mark.parametrize(
    ("hook", "arrives"),
    [
        ({"finalizersHandler": [HOOK]}, {"finalizers": [HOOK]}),
        ({"labelsHandler": {"example.com/in": "yes"}}, {"labels": {"example.com/in": "yes"}}),
    ],
    ids=["finalizer", "label"],
)
async def test_an_event_of_the_pre_normal_hook_sets_the_pod_to_normal(
    stage: Stage, filters_events: bool, hook: Object, arrives: Object
) -> None:
    """cloneset case 80: the watch event alone lets it become Normal, with the event filter off and on"""
    # given
    settings = ManagerSettings(gates=Gates.of(CloneSetEventHandlerOptimization=filters_events))
    await stage.start_manager(settings=settings)
    lifecycle = {"preNormal": hook}
    await stage.create(cloneset(replicas=1, lifecycle=lifecycle, updateStrategy=in_place()))

    async def is_ready_but_not_available() -> str:
        pods = await stage.pods()
        return pods[0].name if pods and pods[0].is_ready and not pods[0].is_serving else ""

    name = await stage.until(is_ready_but_not_available)
    await asyncio.sleep(stage.long_s)
    assert (await _pod(stage, name)).state == "PreparingNormal"
    waiting = await is_true(stage, "Waiting")
    assert waiting is not None
    assert waiting["reason"] == "PreNormalHook"
    # when
    began = stage.clock()
    await stage.merge(name, {"metadata": arrives}, resource=PODS)
    # then
    await stage.settled(replicas=1)
    assert stage.clock() - began < 2
    await stage.merge(name, {"metadata": {"finalizers": None}}, resource=PODS)


@pytest.mark.parametrize("filters_events", [False, True], ids=["gate off", "gate on"])
async def test_a_pod_is_normal_from_the_start_without_the_pre_normal_hook(
    stage: Stage, filters_events: bool
) -> None:
    """A pod becomes Normal before it is ready, as soon as it has a node"""
    settings = ManagerSettings(gates=Gates.of(CloneSetEventHandlerOptimization=filters_events))
    await stage.start_manager(settings=settings)
    await stage.create(cloneset(replicas=2, updateStrategy=in_place()))

    async def states() -> set[str]:
        return {pod.state for pod in await stage.pods()}

    await stage.until(states)
    await stage.settled(replicas=2)
    assert await states() == {"Normal"}
    # and a rollout in place goes through with it
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=2)


async def _in_state(stage: Stage, state: str) -> str:
    """The name of a pod in that state; empty: there is none."""
    return next((pod.name for pod in await stage.pods() if pod.state == state), "")


async def _pod(stage: Stage, name: str) -> Any:
    return next(pod for pod in await stage.pods() if pod.name == name)


# ── take-over ────────────────────────────────────────────────────────────────


@pytest.mark.node
@pytest.mark.parametrize("has_image", [False, True], ids=["before the image", "after the image"])
async def test_a_rollout_that_another_manager_left_in_the_middle_is_continued(
    stage: Stage, seen: PodWatch, has_image: bool
) -> None:
    # given a revision of the new template, and a pod that OpenKruise's manager has begun to update
    await stage.start_manager()
    before = await created(stage, updateStrategy=in_place(paused=True))
    await stage.set_image("web", "nginx:2")

    async def is_stored() -> str:
        result = await stage.get("web")
        status = result["status"]
        is_new = status.get("observedGeneration") == result["metadata"]["generation"]
        return status["updateRevision"] if is_new else ""

    target = await stage.until(is_stored)
    await stage.kill_manager()
    names = sorted(before)
    condition = {
        "type": keys.IN_PLACE_READY,
        "status": "False",
        "reason": "StartInPlaceUpdate",
        "lastTransitionTime": "2026-01-31T11:59:00Z",
    }
    await stage.client.patch(
        PODS,
        stage.namespace,
        names[0],
        {"status": {"conditions": [condition]}},
        patch_type=PatchType.STRATEGIC,
        subresource="status",
    )
    if has_image:
        old_id = before[names[0]]["status"]["containerStatuses"][0]["imageID"]
        state = {
            "revision": target,
            "updateTimestamp": "2026-01-31T11:59:00Z",
            "lastContainerStatuses": {"main": {"imageID": old_id}},
            "updateImages": True,
            "containerBatchesRecord": [{"timestamp": "2026-01-31T11:59:00Z", "containers": ["main"]}],
        }
        labels = {
            keys.REVISION_LABEL: target,
            keys.TEMPLATE_HASH_LABEL: target.rpartition("-")[2],
            keys.STATE_LABEL: "Updating",
        }
        body = {
            "metadata": {
                "labels": labels,
                "annotations": {keys.IN_PLACE_STATE_ANNOTATION: json.dumps(state)},
            },
            "spec": {"containers": [{"name": "main", "image": "nginx:2"}]},
        }
        await stage.client.patch(PODS, stage.namespace, names[0], body, patch_type=PatchType.STRATEGIC)
    # when
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"paused": False}}}})
    await stage.start_manager()
    # then
    await stage.settled(replicas=REPLICAS)
    after = await documents(stage)
    assert identities(after) == identities(before)
    assert images(after) == {"nginx:2"}
    assert restarts(after) == [1] * REPLICAS
    assert seen.created == REPLICAS
    revisions = await stage.client.list(CONTROLLER_REVISIONS, stage.namespace)
    assert len(revisions.items) == 2
