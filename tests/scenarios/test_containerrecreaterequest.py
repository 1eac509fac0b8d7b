"""ContainerRecreateRequests on a cluster whose simulated nodes play the agent: containers restart, the pod stays."""

from typing import Any

import msgspec
import pytest

from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import get_path, labels_of
from pykruise.kube.errors import ForbiddenError, InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from support.faults import DropAnswer, FaultyTransport, patches
from support.scenario import Object, Stage, cloneset

ACTIVE = "crr.apps.kruise.io/active"


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Settings of nodes with agents."""
    agents = make_simulated_agents(AgentTasks(recreates=True))
    return msgspec.structs.replace(cluster_settings, agents=agents)


def request(pod: str, *containers: str, name: str = "again", **spec: Any) -> Object:
    return {
        "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
        "kind": CONTAINER_RECREATE_REQUESTS.kind,
        "metadata": {"name": name},
        "spec": {
            "podName": pod,
            "containers": [{"name": container} for container in containers or ("main",)],
            **spec,
        },
    }


async def ask(stage: Stage, doc: Object) -> Object:
    return await stage.create(doc, resource=CONTAINER_RECREATE_REQUESTS)


async def with_pod(stage: Stage, *containers: str, **pod: Any) -> Object:
    """The serving pod of a CloneSet with these containers."""
    doc = cloneset(replicas=1)
    spec = doc["spec"]["template"]["spec"]
    spec["containers"] = [{"name": container, "image": "nginx:1"} for container in containers or ("main",)]
    spec.update(pod)
    await stage.create(doc)
    await stage.settled(replicas=1)
    (result,) = await stage.stored(PODS)
    return result


async def pod_now(stage: Stage) -> Object:
    (now,) = await stage.stored(PODS)
    return now


def restarts(pod: Object) -> dict[str, int]:
    return {status["name"]: status["restartCount"] for status in pod["status"]["containerStatuses"]}


async def now_of(stage: Stage, name: str = "again") -> Object:
    return await stage.get(name, resource=CONTAINER_RECREATE_REQUESTS)


async def completed(stage: Stage, name: str = "again") -> Object:
    """The request once it is over, and no agent sees it any more."""

    async def is_over() -> Object | None:
        outcome = await now_of(stage, name)
        has_ended = get_path(outcome, "status", "phase") == "Completed"
        return outcome if has_ended and ACTIVE not in labels_of(outcome) else None

    result: Object = await stage.until(is_over)
    return result


def states(states: Object) -> dict[str, str]:
    return {state["name"]: state["phase"] for state in states["status"]["containerRecreateStates"]}


async def test_a_container_is_recreated_once_and_its_pod_stays(stage: Stage) -> None:
    """containers cases 1 and 9"""
    await stage.start_manager()
    pod = await with_pod(stage)
    # when
    stored = await ask(stage, request(pod["metadata"]["name"]))
    # then the request knows what its agent needs
    labels = labels_of(stored)
    assert labels["crr.apps.kruise.io/pod-uid"] == pod["metadata"]["uid"]
    assert labels["crr.apps.kruise.io/node-name"] == pod["spec"]["nodeName"]
    assert labels[ACTIVE] == "true"
    (container,) = stored["spec"]["containers"]
    (status,) = pod["status"]["containerStatuses"]
    assert container["statusContext"] == {"containerID": status["containerID"], "restartCount": 0}
    assert stored["spec"]["strategy"]["failurePolicy"] == "Fail"
    assert stored["spec"]["strategy"]["terminationGracePeriodSeconds"] == 30
    # and the container restarts
    stays = await completed(stage)
    (state,) = stays["status"]["containerRecreateStates"]
    assert (state["phase"], state["isKilled"]) == ("Succeeded", True)
    after = await pod_now(stage)
    assert (after["metadata"]["uid"], restarts(after)) == (pod["metadata"]["uid"], {"main": 1})


@pytest.mark.parametrize("ordered", [True, False])
async def test_several_containers_are_recreated_sequentially(stage: Stage, ordered: bool) -> None:
    """containers cases 10 and 11"""
    await stage.start_manager()
    pod = await with_pod(stage, "one", "two")
    seen: list[dict[str, str]] = []

    async def is_over() -> bool:
        result = await now_of(stage)
        phases = {
            state["name"]: state["phase"]
            for state in get_path(result, "status", "containerRecreateStates", default=())
        }
        if phases and phases not in seen:
            seen.append(phases)
        return bool(get_path(result, "status", "completionTime"))

    await ask(stage, request(pod["metadata"]["name"], "one", "two", strategy={"orderedRecreate": ordered}))
    await stage.until(is_over)

    assert restarts(await pod_now(stage)) == {"one": 1, "two": 1}
    if ordered:
        assert not [item for item in seen if item["one"] != "Succeeded" and item["two"] != "Pending"]


async def test_a_pod_is_out_of_service_before_and_back_after(stage: Stage) -> None:
    """containers cases 16 and 19"""
    await stage.start_manager()
    pod = await with_pod(stage)
    name = pod["metadata"]["name"]
    await ask(stage, request(name, strategy={"unreadyGracePeriodSeconds": 3}))

    async def is_held() -> Object | None:
        outcome = await now_of(stage)
        held = get_path(outcome, "status", "conditions", default=())
        return outcome if held else None

    # when it is taken out of service
    result = await stage.until(is_held)
    (condition,) = result["status"]["conditions"]
    assert result["metadata"]["finalizers"] == ["crr.apps.kruise.io/unready-acquired"]
    assert _kruise_ready(await pod_now(stage)) == "False"
    assert restarts(await pod_now(stage)) == {"main": 0}
    # then it is stopped after the grace period, and is back
    result = await completed(stage)
    began = parse_time(condition["lastTransitionTime"])
    after = await pod_now(stage)
    (status,) = after["status"]["containerStatuses"]
    assert parse_time(status["lastState"]["terminated"]["finishedAt"]) >= began + 3
    assert result["status"]["conditions"] == [condition]
    assert "finalizers" not in result["metadata"]
    assert _kruise_ready(after) == "True"


def _kruise_ready(pod: Object) -> str:
    (result,) = [
        condition for condition in pod["status"]["conditions"] if condition["type"] == "KruisePodReady"
    ]
    return str(result["status"])


async def test_requests_for_one_pod_are_executed_sequentially(stage: Stage) -> None:
    """containers case 24"""
    await stage.start_manager()
    pod = await with_pod(stage)
    force = {"forceRecreate": True}
    for number in range(3):
        await ask(stage, request(pod["metadata"]["name"], name=f"again-{number}", strategy=force))
    for number in range(3):
        await completed(stage, f"again-{number}")
    assert restarts(await pod_now(stage)) == {"main": 3}


async def test_a_request_ends_with_its_pod(stage: Stage) -> None:
    """containers case 21"""
    await stage.start_manager()
    pod = await with_pod(stage)
    grace = {"unreadyGracePeriodSeconds": 600}
    await ask(stage, request(pod["metadata"]["name"], strategy=grace))
    await stage.delete(pod["metadata"]["name"], resource=PODS)
    ends = await completed(stage)
    assert ends["status"]["message"] == "pod has gone"


@pytest.mark.sandbox_only
@pytest.mark.parametrize(("grace_s", "stopped_in_s"), [(5, 5.0), (60, 20.0)])
async def test_a_slow_container_stops_on_its_own_or_is_killed_after_the_grace_period(
    stage: Stage, grace_s: int, stopped_in_s: float
) -> None:
    # given a container that needs 20 s to stop
    await stage.start_manager()
    pod = await with_pod(stage)
    stage.kubelets.set_rules([Rule(image="nginx:1", stop_s=20)])
    since = stage.clock()
    # when
    strategy = {"terminationGracePeriodSeconds": grace_s}
    await ask(stage, request(pod["metadata"]["name"], strategy=strategy))

    async def is_restarted() -> bool:
        return restarts(await pod_now(stage)) == {"main": 1}

    await stage.until(is_restarted)
    # then
    assert stage.clock() - since == pytest.approx(stopped_in_s, abs=4)


async def test_a_deadline_ends_a_request(stage: Stage) -> None:
    """containers case 23"""
    await stage.start_manager()
    pod = await with_pod(stage)
    grace = {"unreadyGracePeriodSeconds": 600}
    await ask(stage, request(pod["metadata"]["name"], strategy=grace, activeDeadlineSeconds=4))
    result = await completed(stage)
    assert result["status"]["message"] == "recreating has exceeded the activeDeadlineSeconds"
    # and the pod is in service again
    assert _kruise_ready(await pod_now(stage)) == "True"


async def test_a_finished_request_is_deleted_after_its_ttl(stage: Stage) -> None:
    """containers case 25"""
    await stage.start_manager()
    pod = await with_pod(stage)
    await ask(stage, request(pod["metadata"]["name"], ttlSecondsAfterFinished=1))

    async def is_gone() -> bool:
        return not await stage.exists("again", resource=CONTAINER_RECREATE_REQUESTS)

    await stage.until(is_gone)
    assert restarts(await pod_now(stage)) == {"main": 1}


async def test_a_request_that_is_deleted_gives_the_pod_back(stage: Stage) -> None:
    """containers case 20"""
    await stage.start_manager()
    pod = await with_pod(stage)
    await ask(stage, request(pod["metadata"]["name"], strategy={"unreadyGracePeriodSeconds": 600}))

    async def is_held() -> bool:
        return _kruise_ready(await pod_now(stage)) == "False"

    await stage.until(is_held)
    await stage.delete("again", resource=CONTAINER_RECREATE_REQUESTS)

    async def is_gone() -> bool:
        is_there = await stage.exists("again", resource=CONTAINER_RECREATE_REQUESTS)
        return not is_there and _kruise_ready(await pod_now(stage)) == "True"

    await stage.until(is_gone)
    assert restarts(await pod_now(stage)) == {"main": 0}


async def test_an_impossible_request_is_refused(stage: Stage) -> None:
    """containers cases 2 to 7"""
    await stage.start_manager()
    name = (await with_pod(stage))["metadata"]["name"]
    with pytest.raises(InvalidError, match=r"spec\.podName"):
        await ask(stage, request("none"))
    with pytest.raises(InvalidError, match=r"spec\.containers\[0\]\.name"):
        await ask(stage, request(name, "other"))
    with pytest.raises(InvalidError, match=r"spec\.containers\[1\]\.name.*Duplicate"):
        await ask(stage, request(name, "main", "main"))
    with pytest.raises(InvalidError, match=r"spec\.activeDeadlineSeconds"):
        await ask(stage, request(name, activeDeadlineSeconds=2))
    given = request(name)
    given["spec"]["containers"][0]["statusContext"] = {"containerID": "x://y", "restartCount": 0}
    with pytest.raises(InvalidError, match=r"spec\.containers\[0\]\.statusContext"):
        await ask(stage, given)
    # and what is stored stays for that pod
    await ask(stage, request(name))
    other = {"spec": {"podName": "other"}}
    with pytest.raises(ForbiddenError, match="spec is immutable"):
        await stage.client.patch(
            CONTAINER_RECREATE_REQUESTS, stage.namespace, "again", other, patch_type=PatchType.MERGE
        )


async def test_lost_answers_stop_no_container_twice(stage: Stage) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(patches("/containerrecreaterequests"), DropAnswer(), None, DropAnswer(), DropAnswer())
    await stage.start_manager(faulty)
    pod = await with_pod(stage)
    await ask(stage, request(pod["metadata"]["name"], strategy={"unreadyGracePeriodSeconds": 1}))
    await completed(stage)
    assert restarts(await pod_now(stage)) == {"main": 1}
    assert _kruise_ready(await pod_now(stage)) == "True"


async def test_a_container_that_exits_before_its_stop_is_not_stopped_again(stage: Stage) -> None:
    await stage.start_manager()
    pod = await with_pod(stage)
    await ask(stage, request(pod["metadata"]["name"]))

    async def is_begun() -> bool:
        return get_path(await now_of(stage), "status", "phase") == "Recreating"

    await stage.until(is_begun)
    # another one is started before the first one would have been stopped
    stage.kubelets.set_rules([Rule(exit_code=1, first_runs=1), Rule(start_s=0.01)])
    await completed(stage)
    after = await pod_now(stage)
    (status,) = after["status"]["containerStatuses"]
    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (1, 1)
