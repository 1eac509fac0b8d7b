"""The agent carries out ContainerRecreateRequests for pods of its node."""

import asyncio
from collections.abc import Sequence

import pytest

from pykruise.agent import containers, recreator
from pykruise.agent.cri.values import ExecResult
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kube.resources import PODS
from support.agent_stage import AgentStage, agent_stage
from support.faults import writes
from support.kills import Kill

HOOK = {"preStop": {"exec": {"command": ["/drain", "now"]}}}


async def mirror_ready(stage: AgentStage, name: str) -> None:
    """Act as the kubelet and the manager: containers become ready one second after their start."""
    while (await stage.recreation(name)).get("phase") != "Completed":
        await asyncio.sleep(1.0)
        await stage.mirror(name)


async def completed(stage: AgentStage, name: str, *, within_s: float = 120.0) -> dict[str, object]:
    async def is_completed() -> bool:
        return (await stage.recreation(name)).get("phase") == "Completed"

    await stage.until(is_completed, within_s=within_s)
    return await stage.recreation(name)


async def test_one_container_is_stopped_once_and_done_when_another_is_ready() -> None:
    """containers case 9"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        # when
        await stage.request_recreation("again", pod, "app", terminationGracePeriodSeconds=7)
        await stage.until(lambda: stage.runtime.stopped == [("app", 7)])
        # then the request waits for the container to become ready
        await asyncio.sleep(30.0)
        [state] = (await stage.recreation("again"))["containerRecreateStates"]
        assert state == {"name": "app", "phase": "Recreating", "isKilled": True}
        # and it is completed when the manager has seen that the container is ready
        await stage.mirror("again")
        status = await completed(stage, "again")
        assert status["containerRecreateStates"] == [{"name": "app", "phase": "Succeeded", "isKilled": True}]
        assert stage.runtime.stopped == [("app", 7)]
        await asyncio.sleep(3.0)
        [event] = await stage.events("Killing")
        assert event["source"] == {"component": "kruise-daemon-crr", "host": "node-a"}


@pytest.mark.parametrize("has_events", [True, False])
async def test_two_ordered_containers_are_stopped_sequentially(has_events: bool) -> None:
    """containers case 11"""
    async with agent_stage(has_events=has_events) as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        await stage.request_recreation("again", pod, "app", "side", orderedRecreate=True)
        await stage.until(lambda: [name for name, _ in stage.runtime.stopped] == ["app"])
        await asyncio.sleep(30.0)
        assert [name for name, _ in stage.runtime.stopped] == ["app"]
        await stage.mirror("again")
        await stage.until(lambda: [name for name, _ in stage.runtime.stopped] == ["app", "side"])
        await asyncio.sleep(2.0)
        await stage.mirror("again")
        await completed(stage, "again")


async def test_the_second_is_stopped_as_soon_as_the_first_is_recreating_when_not_ordered() -> None:
    """containers case 10"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        await stage.request_recreation("again", pod, "app", "side")
        await stage.until(
            lambda: [name for name, _ in stage.runtime.stopped] == ["app", "side"], within_s=5.0
        )


@pytest.mark.parametrize(("policy", "stopped"), [("Fail", ["app"]), ("Ignore", ["app", "side"])])
async def test_a_container_that_cannot_be_stopped_ends_the_request_or_is_passed_over(
    policy: str, stopped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """containers case 12"""
    from pykruise.agent.cri.errors import CallRefusedError

    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        stop, asked = stage.runtime.stop_container, []

        async def refuse_app(container_id: str, *, grace_s: int) -> None:
            name = stage.runtime.running[container_id].name
            asked.append(name)
            if name == "app":
                raise CallRefusedError("the shim does not answer")
            await stop(container_id, grace_s=grace_s)

        monkeypatch.setattr(stage.runtime, "stop_container", refuse_app)
        await stage.request_recreation("again", pod, "app", "side", failurePolicy=policy)
        mirroring = asyncio.create_task(mirror_ready(stage, "again"))
        status = await completed(stage, "again")
        await mirroring
        assert asked == stopped
        first, second = status["containerRecreateStates"]  # type: ignore[misc]
        assert (first["phase"], first["message"]) == ("Failed", "the shim does not answer")
        assert second["phase"] == ("Succeeded" if policy == "Ignore" else "Pending")


async def test_a_container_that_already_restarted_is_not_stopped_unless_forced() -> None:
    """containers case 14"""
    async with agent_stage(starts=False) as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        await stage.request_recreation("again", pod, "app")
        forced = await stage.run_pod("web-1", "app")
        await stage.request_recreation("forced", forced, "app", forceRecreate=True)
        for entry in (pod, forced):
            stage.runtime.end_container(stage.runtime.newest("app", entry["metadata"]["uid"]).id)
        await asyncio.sleep(5.0)
        await stage.start_agent()
        for name in ("again", "forced"):
            mirroring = asyncio.create_task(mirror_ready(stage, name))
            await completed(stage, name)
            await mirroring
        assert len(stage.runtime.stopped) == 1
        assert "isKilled" not in (await stage.recreation("again"))["containerRecreateStates"][0]


async def test_a_container_that_has_ended_is_not_stopped() -> None:
    """containers case 15"""
    async with agent_stage() as stage:
        stage.runtime.restarts_in_s = None
        pod = await stage.run_pod("web-0")
        request_later = stage.runtime.newest("app", pod["metadata"]["uid"])
        stage.runtime.end_container(request_later.id)
        await stage.request_recreation("again", pod)

        async def waits() -> bool:
            return await stage.phases("again") == {"app": "Recreating"}

        await stage.until(waits)
        assert stage.runtime.stopped == []


async def test_the_grace_period_starts_when_the_manager_sets_its_condition() -> None:
    """containers cases 16, 17"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")
        await stage.request_recreation("again", pod, unreadyGracePeriodSeconds=3)
        await asyncio.sleep(20.0)
        assert (await stage.recreation("again"))["phase"] == "Recreating"
        assert stage.runtime.stopped == []
        # when
        grace = {
            "type": "PreRecreateGrace",
            "status": "True",
            "reason": "PreRecreateGrace",
            "message": "",
            "lastTransitionTime": stage.stamp(),
        }
        began = stage.now
        await stage.patch(REQUESTS, "again", {"status": {"conditions": [grace]}}, subresource="status")
        await stage.until(lambda: bool(stage.runtime.stopped))
        assert stage.now - began >= 2.9


async def test_requests_for_one_pod_run_sequentially() -> None:
    """containers case 24"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")
        await stage.request_recreation("first", pod)
        await asyncio.sleep(1.0)
        await stage.request_recreation("second", pod)
        await asyncio.sleep(10.0)
        assert (await stage.recreation("first"))["phase"] == "Recreating"
        assert (await stage.recreation("second"))["phase"] == "Pending"
        await stage.mirror("first")
        await completed(stage, "first")

        async def begins() -> bool:
            return (await stage.recreation("second"))["phase"] == "Recreating"

        await stage.until(begins)


async def test_containers_of_two_runtimes_or_of_an_unknown_one_end_the_request_with_a_message() -> None:
    """containers case 26"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        other = {"side": {"statusContext": {"containerID": "cri-o://1", "restartCount": 0}}}
        await stage.request_recreation("mixed", pod, "app", "side", details=other)
        assert "different container runtimes: containerd, cri-o" in str(
            (await completed(stage, "mixed"))["message"]
        )
        await stage.request_recreation("unknown", pod, "side", details=other)
        message = str((await completed(stage, "unknown"))["message"])
        assert message.startswith("failed to find runtime service:")
        assert stage.runtime.stopped == []


async def test_the_hook_runs_before_the_stop_and_counts_against_the_grace_period() -> None:
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")

        async def drain(_name: str, _command: Sequence[str]) -> ExecResult:
            await asyncio.sleep(4.0)
            return ExecResult(exit_code=0, stdout=b"", stderr=b"")

        stage.runtime.exec = drain
        await stage.request_recreation("again", pod, terminationGracePeriodSeconds=10, details={"app": HOOK})
        await stage.until(lambda: bool(stage.runtime.stopped))
        assert stage.runtime.execs == [("app", ("/drain", "now"))]
        [(_, grace_s)] = stage.runtime.stopped
        assert grace_s == 6


@pytest.mark.parametrize(
    ("ip", "is_in_host_network", "asked"),
    [("10.0.0.9", False, "10.0.0.9"), ("", True, "127.0.0.1"), ("", False, "")],
)
async def test_a_hook_gets_the_address_of_the_pod_or_of_the_host(
    monkeypatch: pytest.MonkeyPatch, ip: str, is_in_host_network: bool, asked: str
) -> None:
    given: list[str] = []

    async def run(*_: object, ip: str, **__: object) -> None:
        given.append(ip)

    monkeypatch.setattr(containers, "run_pre_stop", run)
    async with agent_stage() as stage:
        # given a pod with its own network, with that of the host, or without a known network
        pod = await stage.run_pod("web-0")
        uid = pod["metadata"]["uid"]
        stage.runtime.ips[uid] = ip
        stage.runtime.in_host_network = {uid} if is_in_host_network else set()
        # when
        get = {"preStop": {"httpGet": {"port": 80}}}
        await stage.request_recreation("again", pod, terminationGracePeriodSeconds=10, details={"app": get})
        await stage.until(lambda: bool(stage.runtime.stopped))
        # then
        assert given == [asked]


async def test_the_hook_is_left_out_without_a_grace_period() -> None:
    """containers case 27"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")
        await stage.request_recreation("again", pod, terminationGracePeriodSeconds=0, details={"app": HOOK})
        await stage.until(lambda: stage.runtime.stopped == [("app", 2)])
        assert stage.runtime.execs == []


async def test_a_hook_that_takes_too_long_is_given_up_and_reported() -> None:
    """containers case 28"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")

        async def hang(_name: str, _command: Sequence[str]) -> ExecResult:
            await asyncio.Event().wait()
            raise AssertionError

        stage.runtime.exec = hang
        await stage.request_recreation("again", pod, terminationGracePeriodSeconds=10, details={"app": HOOK})
        await stage.until(lambda: stage.runtime.stopped == [("app", 2)])
        await asyncio.sleep(2.0)
        [event] = await stage.events("FailedPreStopHook")
        assert event["type"] == "Warning"


async def test_slow_stops_of_one_namespace_leave_half_of_the_places_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recreator, "PLACES", 8)
    running, most = 0, 0

    async def drain(_name: str, _command: Sequence[str]) -> ExecResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(20.0)
        running -= 1
        return ExecResult(exit_code=0, stdout=b"", stderr=b"")

    async with agent_stage() as stage:
        stage.runtime.exec = drain
        # when
        for number in range(10):
            pod = await stage.run_pod(f"web-{number}")
            details = {"app": HOOK}
            await stage.request_recreation(
                f"again-{number}", pod, terminationGracePeriodSeconds=30, details=details
            )
        # then all are stopped, the others when a place is free again
        await stage.until(lambda: len(stage.runtime.stopped) == 10, within_s=120.0)
        assert most == 4


@pytest.mark.parametrize(
    ("uid", "is_found"),
    [("5c2a1b7d9e3f4a6b8c0d1e2f3a4b5c6d", True), ("3f0e8f1c-8d57-4c1f-9b34-0a4c5f0f5a11", False)],
    ids=["static pod", "another pod with the name"],
)
async def test_the_containers_of_a_static_pod_are_found_by_its_name(uid: str, is_found: bool) -> None:
    async with agent_stage() as stage:
        pod = await stage.run_pod("etcd-node-a", "etcd", is_ours=False)
        container = stage.runtime.newest("etcd", pod["metadata"]["uid"])
        await stage.request_recreation("again", pod, "etcd")
        # when the container has another UID than the pod that the API server has
        container.labels["io.kubernetes.pod.uid"] = uid
        await stage.ask_probes(
            pod,
            {
                "name": "m#p",
                "containerName": "etcd",
                "probe": {"exec": {"command": ["x"]}, "periodSeconds": 5},
            },
        )
        await asyncio.sleep(30.0)
        # then
        assert [name for name, _ in stage.runtime.stopped] == (["etcd"] if is_found else [])
        assert bool(stage.runtime.execs) is is_found


async def test_an_unknown_container_is_reported_as_not_found() -> None:
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app")
        context = {"statusContext": {"containerID": "containerd://gone", "restartCount": 0}}
        await stage.request_recreation("again", pod, "app", details={"app": context})
        stage.runtime.running.clear()

        async def is_named() -> bool:
            states = (await stage.recreation("again")).get("containerRecreateStates") or [{}]
            return str(states[0].get("message", "")).startswith("not found container")

        await stage.until(is_named)


@pytest.mark.parametrize("write", range(4))
@pytest.mark.parametrize("takes_effect", [False, True])
async def test_an_agent_that_is_killed_at_any_write_is_followed_by_one_that_ends_the_request(
    write: int, takes_effect: bool
) -> None:
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")
        kill = Kill(write, takes_effect=takes_effect)
        stage.faulty.on(writes("containerrecreaterequests"), kill)
        await stage.request_recreation("again", pod)
        mirroring = asyncio.create_task(mirror_ready(stage, "again"))
        await stage.until(lambda: kill.reached)
        await stage.kill_agent()
        stage.faulty.clear()
        await stage.start_agent()
        status = await completed(stage, "again")
        await mirroring
        assert status["containerRecreateStates"][0]["phase"] == "Succeeded"  # type: ignore[index]
        assert len(stage.runtime.stopped) == 1


async def test_a_runtime_that_is_away_is_waited_for() -> None:
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")
        stage.runtime.go_down()
        await stage.request_recreation("again", pod)
        await asyncio.sleep(20.0)
        assert (await stage.recreation("again"))["phase"] == "Recreating"
        stage.runtime.come_back()
        mirroring = asyncio.create_task(mirror_ready(stage, "again"))
        status = await completed(stage, "again")
        await mirroring
        assert status["containerRecreateStates"][0]["phase"] == "Succeeded"  # type: ignore[index]


async def test_a_deleted_or_completed_recreate_request_stops_no_container() -> None:
    async with agent_stage(starts=False) as stage:
        pod = await stage.run_pod("web-0")
        await stage.request_recreation("again", pod)
        over = {"phase": "Completed", "completionTime": stage.stamp()}
        await stage.patch(REQUESTS, "again", {"status": over}, subresource="status")
        await stage.start_agent()
        await asyncio.sleep(20.0)
        assert stage.runtime.stopped == []
        assert await stage.exists(PODS, "web-0")


@pytest.mark.parametrize(("grace_s", "is_stopped"), [(10.0, True), (2.0, False)])
async def test_at_shutdown_the_agent_finishes_a_stop_only_within_its_time_limit(
    grace_s: float, is_stopped: bool
) -> None:
    async def drain(_name: str, _command: Sequence[str]) -> ExecResult:
        await asyncio.sleep(6.0)
        return ExecResult(stdout=b"", stderr=b"", exit_code=0)

    async with agent_stage(starts=False) as stage:
        await stage.start_agent(stop_grace_s=grace_s)
        stage.runtime.exec = drain
        pod = await stage.run_pod("web-0")
        await stage.request_recreation("again", pod, terminationGracePeriodSeconds=30, details={"app": HOOK})
        await stage.until(lambda: bool(stage.runtime.execs))
        await stage.stop_agent()
        assert bool(stage.runtime.stopped) is is_stopped
