"""The agent continues the work of OpenKruise's daemon, and the daemon that of the agent. Neither repeats work."""

import asyncio
import json

import pytest

from pykruise.agent.rules.container_metadata import ANNOTATION
from pykruise.agent.rules.image_pulls import NODE_IMAGES
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kube.resources import PODS
from support.agent_stage import NODE, agent_stage, tag
from support.fake_runtime import Remote


async def test_images_pulled_by_the_daemon_are_not_pulled_again_and_unfinished_pulls_are() -> None:
    async with agent_stage(starts=False) as stage:
        await stage.ask({"nginx": [tag("1.8"), tag("1.9", version=2)]})
        done = {
            "tag": "1.8",
            "phase": "Succeeded",
            "progress": 100,
            "version": 0,
            "imageID": "nginx@sha256:1",
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:00:09Z",
        }
        begun = {"tag": "1.9", "phase": "Pulling", "version": 2, "startTime": "2026-01-01T00:00:00Z"}
        status = {
            "desired": 2,
            "succeeded": 1,
            "failed": 0,
            "pulling": 1,
            "imageStatuses": {"nginx": {"tags": [done, begun]}},
        }
        await stage.patch(NODE_IMAGES, NODE, {"status": status}, subresource="status")
        stage.runtime.registry["nginx:1.9"] = Remote()
        # when
        await stage.start_agent()
        assert (await stage.ends("nginx", "1.9"))["phase"] == "Succeeded"
        # then
        assert [reference for reference, _, _ in stage.runtime.pulls] == ["nginx:1.9"]
        assert await stage.tag_status("nginx", "1.8") == done


async def test_a_request_started_by_the_daemon_continues_where_it_was() -> None:
    async with agent_stage(starts=False) as stage:
        pod = await stage.run_pod("web-0", "app", "side")
        await stage.request_recreation("again", pod, "app", "side", orderedRecreate=True)
        states = [
            {"name": "app", "phase": "Recreating", "isKilled": True},
            {"name": "side", "phase": "Pending"},
        ]
        body = {"status": {"phase": "Recreating", "containerRecreateStates": states}}
        await stage.patch(REQUESTS, "again", body, subresource="status")
        stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
        await asyncio.sleep(1.0)
        # when
        await stage.start_agent()
        await asyncio.sleep(5.0)
        assert stage.runtime.stopped == []
        await stage.mirror("again")
        # then only the second one is stopped
        await stage.until(lambda: [name for name, _ in stage.runtime.stopped] == ["side"])
        assert (await stage.phases("again"))["app"] == "Succeeded"


@pytest.mark.parametrize(("restarts", "state"), [(False, "Succeeded"), (True, "Unknown")])
async def test_a_probe_result_stays_unless_the_container_restarted_while_no_agent_ran(
    restarts: bool, state: str
) -> None:
    async with agent_stage() as stage:
        # given a stored result, and no agent any more
        pod = await stage.run_pod("web-0")
        probe = {"periodSeconds": 5, "initialDelaySeconds": 120, "exec": {"command": ["/idle"]}}
        asked = {"name": "game#idle", "containerName": "app", "probe": probe}
        await stage.ask_probes(pod, asked)

        async def has_succeeded() -> bool:
            return (await stage.probe_states()).get("game#idle", {}).get("state") == "Succeeded"

        await stage.until(has_succeeded, within_s=150.0)
        await stage.stop_agent()
        # when the container may restart, and then an agent starts
        await asyncio.sleep(10.0)
        if restarts:
            stage.runtime.end_container(stage.runtime.newest("app", pod["metadata"]["uid"]).id)
            await asyncio.sleep(5.0)
        await stage.start_agent()
        await asyncio.sleep(20.0)
        # then
        assert (await stage.probe_states())["game#idle"]["state"] == state


async def test_metadata_reported_by_the_daemon_is_kept_for_the_same_containers() -> None:
    async with agent_stage(starts=False) as stage:
        pod = await stage.run_pod("web-0", "app")
        fake_container = stage.runtime.newest("app", pod["metadata"]["uid"])
        entry = {
            "name": "app",
            "containerID": f"containerd://{fake_container.id}",
            "restartCount": 0,
            "hashes": {"plainHash": 77, "extractedEnvFromMetadataHash": 86995377},
        }
        text = json.dumps({"containers": [entry]})
        await stage.merge(PODS, "web-0", {"metadata": {"annotations": {ANNOTATION: text}}})
        version = (await stage.get(PODS, "web-0"))["metadata"]["resourceVersion"]
        # when
        await stage.start_agent()
        await asyncio.sleep(30.0)
        # then nothing is written
        assert (await stage.get(PODS, "web-0"))["metadata"]["resourceVersion"] == version


async def test_an_unreadable_metadata_report_is_rewritten() -> None:
    async with agent_stage() as stage:
        await stage.run_pod("web-0", "app", annotations={ANNOTATION: "{"})

        async def is_readable() -> bool:
            return (
                len(json.loads(await _report(stage))["containers"]) == 1 if await _is_json(stage) else False
            )

        await stage.until(is_readable)


async def _report(stage) -> str:  # type: ignore[no-untyped-def]
    return str((await stage.get(PODS, "web-0"))["metadata"]["annotations"][ANNOTATION])


async def _is_json(stage) -> bool:  # type: ignore[no-untyped-def]
    try:
        json.loads(await _report(stage))
    except ValueError:
        return False
    return True


async def test_an_agent_reads_only_objects_of_its_node() -> None:
    async with agent_stage() as stage:
        reads = [request for request in stage.faulty.log if request.method in ("GET", "STREAM")]
        by_resource = {request.path.rpartition("/")[2]: request.query for request in reads}
        assert by_resource["nodeimages"]["fieldSelector"] == f"metadata.name={NODE}"
        assert by_resource["nodepodprobes"]["fieldSelector"] == f"metadata.name={NODE}"
        assert by_resource["pods"]["fieldSelector"] == f"spec.nodeName={NODE}"
        selector = by_resource["containerrecreaterequests"]["labelSelector"]
        assert f"crr.apps.kruise.io/node-name={NODE}" in selector.split(",")
        assert set(by_resource) == {"nodeimages", "nodepodprobes", "pods", "containerrecreaterequests"}


async def test_containers_that_the_request_does_not_name_are_not_stopped() -> None:
    """containers case 31"""
    async with agent_stage() as stage:
        pod = await stage.run_pod("web-0", "app")
        debugger = stage.runtime.run_container("debugger", pod_uid=pod["metadata"]["uid"])
        await stage.request_recreation("again", pod, "app")
        await stage.until(lambda: bool(stage.runtime.stopped))
        await asyncio.sleep(5.0)
        await stage.mirror("again")
        await stage.until(lambda: _is_completed(stage))
        assert [name for name, _ in stage.runtime.stopped] == ["app"]
        assert debugger.state == "running"


async def _is_completed(stage) -> bool:  # type: ignore[no-untyped-def]
    return bool((await stage.recreation("again")).get("phase") == "Completed")


async def test_an_api_server_that_is_away_for_a_minute_costs_a_minute() -> None:
    from support.faults import Refuse, requests

    async with agent_stage() as stage:
        stage.runtime.exec = None
        pod = await stage.run_pod("web-0", "app")
        stage.runtime.registry["nginx:1.9"] = Remote(takes_s=5.0)
        await stage.ask({"nginx": [tag("1.9")]})
        await stage.request_recreation("again", pod, "app")
        await stage.until(lambda: bool(stage.runtime.stopped))
        # when the agent cannot reach the API server for a minute
        stage.faulty.on(requests(), lambda _: Refuse())
        await asyncio.sleep(60.0)
        stage.faulty.clear()
        # then the results of that minute are reported
        assert (await stage.ends("nginx", "1.9"))["phase"] == "Succeeded"
        assert len(stage.runtime.pulls) == 1
        await stage.mirror("again")
        await stage.until(lambda: _is_completed(stage), within_s=120.0)
        assert len(stage.runtime.stopped) == 1
