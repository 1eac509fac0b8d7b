"""The agent reports containers of pods of OpenKruise's workloads, and restarts those with an outdated environment."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pykruise.agent.cri.values import ExecResult
from pykruise.agent.flags import AgentGates
from pykruise.agent.metadata_reporter import MOST_ENV, parse_environment
from pykruise.agent.rules.container_metadata import ANNOTATION, Reported, report
from pykruise.kube.resources import PODS
from support.agent_stage import AgentStage, agent_stage

FROM_LABEL = [
    {"name": "VERSION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['version']"}}},
    {"name": "PLAIN", "value": "x"},
]
NONE = 86995377


async def reported(stage: AgentStage, name: str = "web-0") -> Any:
    annotations = (await stage.get(PODS, name))["metadata"].get("annotations") or {}
    return json.loads(annotations[ANNOTATION])["containers"] if ANNOTATION in annotations else None


async def until_reported(stage: AgentStage, name: str = "web-0") -> Any:
    async def is_there() -> bool:
        return await reported(stage, name) is not None

    await stage.until(is_there, within_s=20.0)
    return await reported(stage, name)


def environment(stage: AgentStage, **values: str) -> None:
    """Make `env` print these values in every container."""

    async def run(_name: str, command: Sequence[str]) -> ExecResult:
        assert tuple(command) == ("env",)
        text = "".join(f"{name}={value}\n" for name, value in values.items())
        return ExecResult(exit_code=0, stdout=text.encode(), stderr=b"")

    stage.runtime.exec = run


async def test_a_pod_of_ours_has_its_containers_reported_and_others_have_not() -> None:
    """containers cases 60, 61"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        await stage.run_pod("other-0", is_ours=False)
        await until_reported(stage)
        fake_container = stage.runtime.newest("app", pod["metadata"]["uid"])
        app, side = await reported(stage)
        assert app == {
            "name": "app",
            "containerID": f"containerd://{fake_container.id}",
            "restartCount": 0,
            "hashes": {"plainHash": 0x1A2B, "extractedEnvFromMetadataHash": NONE},
        }
        assert side["name"] == "side"
        assert stage.runtime.execs == []  # no variable comes from metadata, so no command runs
        await asyncio.sleep(10.0)
        assert await reported(stage, "other-0") is None


async def test_pods_with_sidecars_are_reported_for_any_owner() -> None:
    async with agent_stage() as stage:
        await stage.run_pod("web-0", is_ours=False, annotations={"kruise.io/sidecarset-hash": "{}"})
        assert await until_reported(stage)


async def test_the_environment_that_a_container_was_started_with_is_hashed() -> None:
    async with agent_stage() as stage:
        environment(stage, VERSION="1", PLAIN="x")
        await stage.run_pod("web-0", env=FROM_LABEL, labels={"version": "1"})
        [app] = await until_reported(stage)
        text = b'[{"name":"VERSION","value":"1"}]'
        assert app["hashes"]["extractedEnvFromMetadataHash"] == _hash_by_hand(text)


def _hash_by_hand(text: bytes) -> int:
    value = 2166136261
    for byte in f"([]uint8)[{' '.join(map(str, text))}]".encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


async def test_another_run_of_a_container_replaces_its_entry_only() -> None:
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        before = await until_reported(stage)
        stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
        await asyncio.sleep(2.0)
        await stage.play_kubelet("web-0")
        await asyncio.sleep(5.0)
        app, side = await reported(stage)
        assert (app["restartCount"], side) == (1, before[1])


async def test_changed_metadata_restarts_a_container_within_an_update_in_place_once() -> None:
    """containers case 62"""
    async with agent_stage() as stage:
        environment(stage, VERSION="1")
        await stage.run_pod("web-0", "app", "side", env=FROM_LABEL, labels={"version": "1"})
        await until_reported(stage)
        # when the label changes outside of an update in place, nothing happens
        await stage.merge(PODS, "web-0", {"metadata": {"labels": {"version": "2"}}})
        await asyncio.sleep(30.0)
        assert stage.runtime.stopped == []
        # during an update in place, both containers are restarted
        environment(stage, VERSION="2")
        await stage.play_kubelet("web-0", InPlaceUpdateReady="False")
        await stage.until(lambda: sorted(name for name, _ in stage.runtime.stopped) == ["app", "side"])
        await asyncio.sleep(2.0)
        await stage.play_kubelet("web-0", InPlaceUpdateReady="False")
        await asyncio.sleep(30.0)
        # and the report has their new ids and environments
        hashes = {item["hashes"]["extractedEnvFromMetadataHash"] for item in await reported(stage)}
        assert hashes == {_hash_by_hand(b'[{"name":"VERSION","value":"2"}]')}
        assert len(stage.runtime.stopped) == 2
        await asyncio.sleep(5.0)
        assert {event["source"]["component"] for event in await stage.events("Killing")} == {
            "kruise-daemon-containermeta"
        }


async def test_a_container_that_the_kubelet_stops_for_its_new_image_is_not_stopped_again() -> None:
    async with agent_stage() as stage:
        # given a container whose environment comes from a label
        environment(stage, VERSION="1")
        pod = await stage.run_pod("web-0", env=FROM_LABEL, labels={"version": "1"})
        await until_reported(stage)
        # when an update in place changes the label and the image, and the kubelet needs two seconds for the stop
        environment(stage, VERSION="2")
        await stage.merge(PODS, "web-0", {"metadata": {"labels": {"version": "2"}}})
        await stage.play_kubelet("web-0", InPlaceUpdateReady="False")
        await asyncio.sleep(2.0)
        stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
        await asyncio.sleep(1.0)
        await stage.play_kubelet("web-0", InPlaceUpdateReady="False")
        await asyncio.sleep(30.0)
        # then the agent does not stop it
        assert stage.runtime.stopped == []
        assert await stage.events("Killing") == []


async def test_a_failed_read_of_the_environment_is_retried_while_the_rest_is_reported() -> None:
    """containers case 63"""
    async with agent_stage() as stage:

        async def no_env(_name: str, _command: Sequence[str]) -> ExecResult:
            return ExecResult(exit_code=127, stdout=b"", stderr=b"env: not found")

        stage.runtime.exec = no_env
        await stage.run_pod("web-0", env=FROM_LABEL, labels={"version": "1"})
        [app] = await until_reported(stage)
        assert app["hashes"] == {"plainHash": 0x1A2B}
        environment(stage, VERSION="1")
        await asyncio.sleep(4.0)
        [app] = await reported(stage)
        assert app["hashes"]["extractedEnvFromMetadataHash"] > 0


async def test_the_order_of_statuses_does_not_matter() -> None:
    """containers case 64, inplace-update pitfall 13"""
    async with agent_stage() as stage:
        await stage.run_pod("web-0", "app", "side")
        before = await until_reported(stage)
        version = (await stage.get(PODS, "web-0"))["metadata"]["resourceVersion"]
        stored = (await stage.get(PODS, "web-0"))["status"]["containerStatuses"]
        await stage.patch(
            PODS, "web-0", {"status": {"containerStatuses": stored[::-1]}}, subresource="status"
        )
        after_ours = (await stage.get(PODS, "web-0"))["metadata"]["resourceVersion"]
        await asyncio.sleep(30.0)
        assert await reported(stage) == before
        assert (await stage.get(PODS, "web-0"))["metadata"]["resourceVersion"] == after_ours != version


async def test_no_environment_is_reported_without_the_gate() -> None:
    async with agent_stage(gates=AgentGates(reports_environment=False)) as stage:
        await stage.run_pod("web-0", env=FROM_LABEL, labels={"version": "1"})
        [app] = await until_reported(stage)
        assert app["hashes"] == {"plainHash": 0x1A2B}


async def test_an_agent_that_does_not_watch_pods_lists_and_reports_none() -> None:
    """operations case 34"""
    async with agent_stage(gates=AgentGates(watches_pods=False)) as stage:
        await stage.run_pod("web-0")
        await asyncio.sleep(30.0)
        assert await reported(stage) is None
        assert not any(request.path.endswith("/pods") for request in stage.faulty.log)


async def test_pods_from_before_the_agents_start_are_reported_only_after_a_change() -> None:
    async with agent_stage(starts=False) as stage:
        await stage.run_pod("web-0")
        await asyncio.sleep(5.0)
        await stage.start_agent()
        await asyncio.sleep(30.0)
        assert await reported(stage) is None
        await stage.play_kubelet("web-0", Ready="True")
        assert await until_reported(stage)


async def test_the_removed_containers_of_an_ended_pod_are_not_looked_for_repeatedly() -> None:
    async with agent_stage() as stage:
        pod = await stage.run_pod("job-1", "app", "side")
        stage.runtime.restarts_in_s = None
        # given an ended pod whose containers the kubelet has removed, and which was reported without one of them
        stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
        await stage.patch(PODS, "job-1", {"status": {"phase": "Succeeded"}}, subresource="status")
        await asyncio.sleep(10.0)
        stage.runtime.running.clear()
        await stage.patch(PODS, "job-1", {"metadata": {"annotations": {ANNOTATION: "{}"}}})
        await asyncio.sleep(10.0)
        calls = len(stage.runtime.calls)
        # when
        await asyncio.sleep(3600.0)
        # then
        assert len(stage.runtime.calls) == calls


async def test_a_terminating_pod_is_not_reported() -> None:
    async with agent_stage() as stage:
        await stage.run_pod("web-0")
        await stage.merge(PODS, "web-0", {"metadata": {"finalizers": ["example.com/hold"]}})
        await stage.client.delete(PODS, "default", "web-0")
        await asyncio.sleep(20.0)
        assert await reported(stage) is None


def test_a_report_is_written_as_other_agents_write_it() -> None:
    reported = Reported(name="app", container_id="containerd://1", restart_count=2, plain_hash=3, env_hash=4)
    assert report([reported]) == (
        '{"containers":[{"name":"app","containerID":"containerd://1","restartCount":2,'
        '"hashes":{"plainHash":3,"extractedEnvFromMetadataHash":4}}]}'
    )


async def test_an_annotation_with_line_breaks_restarts_a_container_once() -> None:
    # given a container with a variable from an annotation whose lines look like variables
    source = {"fieldRef": {"fieldPath": "metadata.annotations['config']"}}
    async with agent_stage() as stage:
        environment(stage, CONFIG="a=1\nb=1", PLAIN="x")
        annotations = {"config": "a=1\nb=1"}
        await stage.run_pod("web-0", env=[{"name": "CONFIG", "valueFrom": source}], annotations=annotations)
        await until_reported(stage)
        # when the annotation changes in an update in place
        new = {"metadata": {"annotations": {"config": "a=1\nb=2"}}}
        await stage.merge(PODS, "web-0", new)
        await stage.play_kubelet("web-0", InPlaceUpdateReady="False")
        await stage.until(lambda: bool(stage.runtime.stopped), within_s=30.0)
        environment(stage, CONFIG="a=1\nb=2", PLAIN="x")
        await asyncio.sleep(10.0)
        await stage.play_kubelet("web-0", InPlaceUpdateReady="False")
        await asyncio.sleep(120.0)
        # then the restarted container is up to date
        text = b'[{"name":"CONFIG","value":"a=1\\nb=2"}]'
        [app] = await reported(stage)
        assert app["hashes"]["extractedEnvFromMetadataHash"] == _hash_by_hand(text)
        assert len(stage.runtime.stopped) == 1


async def test_a_variable_after_a_long_one_is_hashed() -> None:
    async with agent_stage() as stage:
        environment(stage, LONG="x" * 200_000, VERSION="1")
        await stage.run_pod("web-0", env=FROM_LABEL, labels={"version": "1"})
        [app] = await until_reported(stage)
        text = b'[{"name":"VERSION","value":"1"}]'
        assert app["hashes"]["extractedEnvFromMetadataHash"] == _hash_by_hand(text)


async def test_no_hash_is_reported_for_an_output_that_was_cut() -> None:
    async with agent_stage() as stage:
        environment(stage, LONG="x" * MOST_ENV, VERSION="1")
        await stage.run_pod("web-0", env=FROM_LABEL, labels={"version": "1"})
        [app] = await until_reported(stage)
        assert app["hashes"] == {"plainHash": 0x1A2B}


@pytest.mark.parametrize(
    ("text", "long_values", "values"),
    [
        (b"A=1\nB=x=y\nC=\n", {}, {"A": "1", "B": "x=y", "C": ""}),
        (b"A=1\nmore\n\nB=2\n", {}, {"A": "1\nmore\n", "B": "2"}),
        (b"A=1\x0b\xe2\x80\xa82\n", {}, {"A": "1\x0b\u20282"}),
        (b"B=2\nA=b=1\nB=9\n", {"A": "b=1\nB=9"}, {"A": "b=1\nB=9", "B": "2"}),
        (b"A=b=1\nB=9\nC=3\n", {"A": "b=1\nB=9"}, {"A": "b=1\nB=9", "C": "3"}),
        # the container has an older value, or one that continues
        (b"A=b=1\nB=8\n", {"A": "b=1\nB=9"}, {"A": "b=1", "B": "8"}),
        (b"A=1\n2\n3\n", {"A": "1\n2"}, {"A": "1\n2\n3"}),
    ],
)
def test_the_environment_is_read_with_the_line_breaks_of_its_values(
    text: bytes, long_values: Mapping[str, str], values: Mapping[str, str]
) -> None:
    assert parse_environment(text, long_values) == values
