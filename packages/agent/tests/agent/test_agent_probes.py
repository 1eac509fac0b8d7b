"""The agent runs the probes that its NodePodProbe requests."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.agent import probe_handlers
from pykruise.agent.cri.errors import CallRefusedError
from pykruise.agent.cri.values import ExecResult
from pykruise.agent.http_get import HttpAnswer, HttpGetError
from pykruise.agent.rules.probe_checks import NODE_POD_PROBES
from support.agent_stage import NODE, AgentStage, agent_stage


def probe(name: str = "game#idle", *, container: str = "app", **fields: Any) -> dict[str, Any]:
    handler = (
        {} if {"exec", "httpGet", "tcpSocket", "grpc"} & fields.keys() else {"exec": {"command": ["/idle"]}}
    )
    return {"name": name, "containerName": container, "probe": {"periodSeconds": 5, **handler, **fields}}


class Command:
    """A command in containers, with a result that the test sets."""

    def __init__(self) -> None:
        self.exit_code = 0
        self.text = "idle"
        self.takes_s = 0.0
        self.count = 0

    async def __call__(self, _name: str, _command: Sequence[str]) -> ExecResult:
        self.count += 1
        await asyncio.sleep(self.takes_s)
        written, other = self.text.encode(), b"not the message"
        stdout, stderr = (other, written) if self.exit_code else (written, other)
        return ExecResult(exit_code=self.exit_code, stdout=stdout, stderr=stderr)


async def state_is(stage: AgentStage, name: str, state: str, *, within_s: float = 60.0) -> Any:
    async def is_it() -> bool:
        return (await stage.probe_states()).get(name, {}).get("state") == state

    await stage.until(is_it, within_s=within_s)
    return (await stage.probe_states())[name]


async def test_an_outcome_is_reported_with_its_text_and_an_event_when_it_changes() -> None:
    """containers case 44"""
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(failureThreshold=2))
        result = await state_is(stage, "game#idle", "Succeeded")
        assert result["message"] == "idle"
        # when it fails
        command.exit_code, command.text = 1, "busy"
        result = await state_is(stage, "game#idle", "Failed")
        assert result["message"] == "busy"
        await asyncio.sleep(3.0)
        assert len(await stage.events("KruiseProbeSucceeded")) == 1
        [event] = await stage.events("KruiseProbeFailed")
        assert event["source"]["component"] == "kruise-daemon-podprobe"


async def test_fewer_failures_than_the_threshold_change_nothing() -> None:
    """containers case 46"""
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(failureThreshold=3))
        await state_is(stage, "game#idle", "Succeeded")
        command.exit_code, before = 1, command.count
        await stage.until(lambda: command.count == before + 2)
        command.exit_code = 0
        await asyncio.sleep(10.0)
        assert (await stage.probe_states())["game#idle"]["state"] == "Succeeded"


async def test_another_run_of_the_container_is_unknown_first() -> None:
    """containers case 47"""
    async with agent_stage() as stage:
        stage.runtime.exec = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(initialDelaySeconds=8))
        await state_is(stage, "game#idle", "Succeeded")
        stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
        await state_is(stage, "game#idle", "Unknown", within_s=10.0)
        await state_is(stage, "game#idle", "Succeeded", within_s=30.0)


async def test_another_run_of_the_container_is_probed_in_the_same_period() -> None:
    async with agent_stage() as stage:
        # given a probe that succeeds once a minute
        stage.runtime.exec = command = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(periodSeconds=60))
        before = await state_is(stage, "game#idle", "Succeeded", within_s=70.0)
        # when the container restarts well before the next probe
        await asyncio.sleep(20.0)
        stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
        await stage.until(lambda: command.count == 2, within_s=70.0)
        await asyncio.sleep(2.0)
        # then the state is that of the new container, and was not unknown in between
        after = (await stage.probe_states())["game#idle"]
        assert (after["state"], after["lastTransitionTime"]) == ("Succeeded", before["lastTransitionTime"])
        assert after["lastProbeTime"] > before["lastProbeTime"]


async def test_a_container_is_unknown_before_its_first_outcome() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(initialDelaySeconds=60))
        before = await state_is(stage, "game#idle", "Unknown", within_s=10.0)
        await asyncio.sleep(20.0)
        assert await stage.probe_states() == {"game#idle": before}
        assert await stage.events("KruiseProbeFailed") == []
        await state_is(stage, "game#idle", "Succeeded")


async def test_a_container_that_appears_after_the_first_check_is_unknown() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(container="late", initialDelaySeconds=60))
        await asyncio.sleep(10.0)
        assert await stage.probe_states() == {}
        stage.runtime.run_container("late", pod_uid=pod["metadata"]["uid"])
        await state_is(stage, "game#idle", "Unknown", within_s=10.0)


async def test_a_container_that_does_not_run_fails_without_a_probe() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        stage.runtime.restarts_in_s = None
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe())
        await state_is(stage, "game#idle", "Succeeded")
        stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
        result = await state_is(stage, "game#idle", "Failed")
        count = command.count
        assert result["message"] == "Container(app) is Non-running"
        await asyncio.sleep(30.0)
        assert command.count == count


async def test_long_texts_of_many_probes_stay_whole() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        command.text = "text " * 200
        pod = await stage.run_pod("web-0")
        # when their total length exceeds the limit for the messages of other statuses
        names = [f"game#{number}" for number in range(40)]
        await stage.ask_probes(pod, *[probe(name, periodSeconds=60) for name in names])
        for name in names:
            state = await state_is(stage, name, "Succeeded", within_s=180.0)
            # then no probe shortens the message of another
            assert state["message"] == command.text
        assert {state["message"] for state in (await stage.probe_states()).values()} == {command.text}


async def test_long_texts_are_cut() -> None:
    """containers case 56"""
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        command.text = "é" * 5000
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe())
        assert (await state_is(stage, "game#idle", "Succeeded"))["message"] == "é" * 1024


async def test_an_unchanged_outcome_is_written_again_after_ten_minutes_and_not_before() -> None:
    """containers case 57"""
    async with agent_stage() as stage:
        stage.runtime.exec = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe())
        before = await state_is(stage, "game#idle", "Succeeded")
        await asyncio.sleep(540.0)
        assert await stage.probe_states() == {"game#idle": before}
        await asyncio.sleep(120.0)
        after = (await stage.probe_states())["game#idle"]
        assert after["lastProbeTime"] > before["lastProbeTime"]
        assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_a_changed_probe_period_applies_immediately() -> None:
    """containers pitfall p"""
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(periodSeconds=600))
        await state_is(stage, "game#idle", "Succeeded", within_s=700.0)
        before = command.count
        await stage.ask_probes(pod, probe(periodSeconds=2))
        await asyncio.sleep(20.0)
        assert command.count - before >= 8


async def test_a_changed_handler_makes_what_was_found_unknown() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(periodSeconds=30))
        await state_is(stage, "game#idle", "Succeeded")
        command.exit_code = 1
        await stage.ask_probes(pod, probe(periodSeconds=30, failureThreshold=5, exec={"command": ["/other"]}))
        await state_is(stage, "game#idle", "Unknown", within_s=10.0)


async def test_a_probe_that_moves_to_another_container_becomes_unknown() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(periodSeconds=30))
        await state_is(stage, "game#idle", "Succeeded")
        await stage.ask_probes(pod, probe(container="none", periodSeconds=30))
        await state_is(stage, "game#idle", "Unknown", within_s=10.0)


async def test_a_change_of_another_probe_does_not_repeat_a_running_probe() -> None:
    async with agent_stage() as stage:
        # given a probe that runs for eight seconds
        stage.runtime.exec = command = Command()
        command.takes_s = 8.0
        pod = await stage.run_pod("web-0")
        slow = probe(periodSeconds=60, timeoutSeconds=10)
        await stage.ask_probes(pod, slow)
        await stage.until(lambda: command.count == 1, within_s=120.0)
        # when another probe of the pod appears and disappears during this time
        other = probe("game#other", tcpSocket={"port": 80})
        for probes in ((slow, other), (slow,)):
            await asyncio.sleep(2.0)
            await stage.ask_probes(pod, *probes)
        # then the result of the only run is reported
        await state_is(stage, "game#idle", "Succeeded", within_s=10.0)
        assert command.count == 1


async def test_removed_probes_end_and_their_states_are_removed() -> None:
    """containers case 51"""
    async with agent_stage() as stage:
        stage.runtime.exec = command = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(), probe("game#other"))
        await state_is(stage, "game#other", "Succeeded")
        await stage.ask_probes(pod, probe())
        await stage.until(lambda: True)

        async def is_alone() -> bool:
            return list(await stage.probe_states()) == ["game#idle"]

        await stage.until(is_alone)
        assert command.count > 0


async def test_two_probes_of_one_container_do_not_mix() -> None:
    """containers pitfall d"""
    async with agent_stage() as stage:

        async def run(_name: str, command: Sequence[str]) -> ExecResult:
            text = command[0].encode()
            if text == b"/good":
                return ExecResult(exit_code=0, stdout=text, stderr=b"")
            return ExecResult(exit_code=1, stdout=b"", stderr=text)

        stage.runtime.exec = run
        pod = await stage.run_pod("web-0")
        good = probe("game#good", exec={"command": ["/good"]})
        await stage.ask_probes(pod, good, probe("game#bad", exec={"command": ["/bad"]}))
        await state_is(stage, "game#good", "Succeeded")
        await state_is(stage, "game#bad", "Failed")
        states = await stage.probe_states()
        assert {name: state["message"] for name, state in states.items()} == {
            "game#good": "/good",
            "game#bad": "/bad",
        }


async def test_a_slow_probe_does_not_delay_other_probes() -> None:
    async with agent_stage() as stage:
        calls: dict[str, int] = {}

        async def run(_name: str, command: Sequence[str]) -> ExecResult:
            calls[command[0]] = calls.get(command[0], 0) + 1
            await asyncio.sleep(1e6 if command[0] == "/slow" else 0.0)
            return ExecResult(exit_code=0, stdout=b"", stderr=b"")

        stage.runtime.exec = run
        pod = await stage.run_pod("web-0")
        slow = probe("game#slow", exec={"command": ["/slow"]}, timeoutSeconds=20, failureThreshold=1)
        await stage.ask_probes(pod, slow, probe("game#fast", exec={"command": ["/fast"]}))
        await asyncio.sleep(60.0)
        assert calls["/fast"] >= 10
        assert (await state_is(stage, "game#slow", "Failed"))["message"] == "command timed out after 20 s"


async def test_a_pod_with_many_commands_starts_one_a_second_and_leaves_the_workers_to_others() -> None:
    async with agent_stage() as stage:
        running, most, started = Counter[str](), Counter[str](), Counter[str]()

        async def run(_name: str, command: Sequence[str]) -> ExecResult:
            of = command[0]
            started[of] += 1
            running[of] += 1
            most[of] = max(most[of], running[of])
            await asyncio.sleep(1000 if of == "/dear" else 0)
            running[of] -= 1
            return ExecResult(exit_code=0, stdout=b"", stderr=b"")

        stage.runtime.exec = run
        greedy, modest = await stage.run_pod("web-0"), await stage.run_pod("web-1")
        dear = [
            probe(f"game#{number}", exec={"command": ["/dear"]}, timeoutSeconds=1000) for number in range(100)
        ]
        await stage.ask_probes(modest, probe("game#fast", exec={"command": ["/fast"]}))
        stored = await stage.get(NODE_POD_PROBES, NODE)
        entry = {
            "name": "web-0",
            "namespace": "default",
            "uid": greedy["metadata"]["uid"],
            "IP": "",
            "probes": dear,
        }
        stored["spec"]["podProbes"].append(entry)
        await stage.client.update(NODE_POD_PROBES, "", NODE, stored)
        # when
        await asyncio.sleep(5.0)
        assert started["/dear"] <= 6
        await asyncio.sleep(55.0)
        # then
        assert most["/dear"] == 8
        assert started["/fast"] >= 5


@pytest.mark.parametrize(("pods", "probes", "most"), [(1, 150, 8), (20, 8, 96)])
async def test_probes_without_response_do_not_stop_the_probes_of_other_namespaces(
    monkeypatch: pytest.MonkeyPatch, pods: int, probes: int, most: int
) -> None:
    answered, waiting = 0, 0

    async def get(host: str, *_: object, timeout_s: float, **__: object) -> HttpAnswer:
        nonlocal answered, waiting
        if host == "10.9.9.9":
            waiting += 1
            await asyncio.sleep(timeout_s)
            raise HttpGetError("no response")
        answered += 1
        return HttpAnswer(200, b"ok")

    monkeypatch.setattr(probe_handlers, "send_http_get", get)
    async with agent_stage() as stage:
        # given a probe of one pod, and pods of another namespace whose probes never get a response
        modest = await stage.run_pod("modest")
        rules = {"httpGet": {"port": 80}, "periodSeconds": 5}
        await stage.ask_probes(modest, probe("game#fast", **rules), ip="10.0.0.1")
        stored = await stage.get(NODE_POD_PROBES, NODE)
        for number in range(pods):
            pod = await stage.run_pod(f"greedy-{number}")
            slow = [probe(f"game#{index}", **rules, timeoutSeconds=3600) for index in range(probes)]
            entry = {"name": pod["metadata"]["name"], "namespace": "greedy", "uid": pod["metadata"]["uid"]}
            stored["spec"]["podProbes"].append({**entry, "IP": "10.9.9.9", "probes": slow})
        await stage.client.update(NODE_POD_PROBES, "", NODE, stored)
        await asyncio.sleep(60.0)
        answered_before = answered
        # when
        await asyncio.sleep(60.0)
        # then
        assert waiting == most
        assert answered - answered_before >= 11


async def test_each_command_of_a_pod_gets_its_turn() -> None:
    async with agent_stage() as stage:
        started = Counter[str]()

        async def run(_name: str, command: Sequence[str]) -> ExecResult:
            started[command[0]] += 1
            await asyncio.sleep(20.5)
            return ExecResult(exit_code=0, stdout=b"", stderr=b"")

        stage.runtime.exec = run
        pod = await stage.run_pod("web-0")
        # when more slow commands are due than may run at the same time
        names = [f"/{number}" for number in range(12)]
        probes = [
            probe(f"game#{name[1:]}", exec={"command": [name]}, timeoutSeconds=60, periodSeconds=1)
            for name in names
        ]
        await stage.ask_probes(pod, *probes)
        await asyncio.sleep(200.0)
        # then none of them runs more often than another one
        counts = [started[name] for name in names]
        assert min(counts) >= 4
        assert max(counts) - min(counts) <= 1


async def test_a_waiting_command_that_is_removed_does_not_hold_up_others() -> None:
    async with agent_stage() as stage:
        started = Counter[str]()

        async def run(_name: str, command: Sequence[str]) -> ExecResult:
            started[command[0]] += 1
            return ExecResult(exit_code=0, stdout=b"", stderr=b"")

        stage.runtime.exec = run
        pod = await stage.run_pod("web-0")
        many = [probe(f"game#{number}", exec={"command": ["/many"]}) for number in range(50)]
        last = probe("game#last", exec={"command": ["/last"]})
        await stage.ask_probes(pod, *many, last)
        await asyncio.sleep(6.0)
        assert started["/last"] == 0
        # when the probes that wait before the last one are removed, or get another handler
        changed = probe("game#0", tcpSocket={"port": 80})
        await stage.ask_probes(pod, changed, last)
        # then it runs
        await stage.until(lambda: started["/last"] > 0, within_s=10.0)


async def test_a_probe_that_cannot_run_keeps_its_state() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe())
        await state_is(stage, "game#idle", "Succeeded")

        async def refuse(_name: str, _command: Sequence[str]) -> ExecResult:
            raise CallRefusedError("the shim does not answer")

        stage.runtime.exec = refuse
        await asyncio.sleep(60.0)
        assert (await stage.probe_states())["game#idle"]["state"] == "Succeeded"


async def test_a_pod_without_an_address_has_no_failed_probe() -> None:
    """containers case 49"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe(tcpSocket={"port": 80}))
        await asyncio.sleep(30.0)
        assert [state["state"] for state in (await stage.probe_states()).values()] == ["Unknown"]


async def test_a_runtime_that_is_away_changes_no_state() -> None:
    async with agent_stage() as stage:
        stage.runtime.exec = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe())
        await state_is(stage, "game#idle", "Succeeded")
        stage.runtime.go_down()
        await asyncio.sleep(60.0)
        stage.runtime.come_back()
        await asyncio.sleep(60.0)
        assert (await stage.probe_states())["game#idle"]["state"] == "Succeeded"


async def test_nothing_is_checked_without_the_gate() -> None:
    from pykruise.agent.flags import AgentGates

    async with agent_stage(gates=AgentGates(probes=False)) as stage:
        stage.runtime.exec = command = Command()
        pod = await stage.run_pod("web-0")
        await stage.ask_probes(pod, probe())
        await asyncio.sleep(60.0)
        assert command.count == 0
        assert (await stage.get(NODE_POD_PROBES, NODE)).get("status") is None


@pytest.mark.parametrize("started_s_ago", [0.0])
async def test_the_first_checks_after_a_start_are_spread(started_s_ago: float) -> None:
    async with agent_stage(starts=False) as stage:
        times: list[float] = []

        async def run(_name: str, _command: Sequence[str]) -> ExecResult:
            times.append(stage.now)
            return ExecResult(exit_code=0, stdout=b"", stderr=b"")

        stage.runtime.exec = run
        pod = await stage.run_pod("web-0")
        await asyncio.sleep(5.0)
        many = [probe(f"game#{number}", periodSeconds=60) for number in range(20)]
        await stage.ask_probes(pod, *many)
        await stage.start_agent()
        await stage.until(lambda: len(times) == 20, within_s=70.0)
        assert max(times) - min(times) > 20.0
