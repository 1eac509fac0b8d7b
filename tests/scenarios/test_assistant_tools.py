"""`pykruise mcp` as an assistant sees it: the SDK's own client asks, on a cluster and in a process of its own."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from mcp import Client as McpClient
from mcp import StdioServerParameters, stdio_client

from pykruise.cli.assistant.bounds import MOST_ITEMS, shorten_document
from pykruise.cli.assistant.read_only import ReadOnlyError, ReadOnlyTransport, is_read
from pykruise.cli.assistant.server import make_assistant_server
from pykruise.cli.assistant.tools import TOOLS, ToolSession
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.pods.reasons import Code
from pykruise.sandbox.nodes.faults import Rule
from pykruise.testing.http import HttpSandbox
from support.faults import Answer, FaultyTransport, reads
from support.scenario import Stage, cloneset


class _NotedWrites(WrappedTransport):
    """Notes the requests that an API server would store."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.writes: list[Request] = []

    async def request(self, request: Request, /) -> Response:
        if not is_read(request):
            self.writes.append(request)
        return await super().request(request)


def session_of(stage: Stage, client: Client | None = None) -> ToolSession:
    @asynccontextmanager
    async def reach(_kubeconfig: Path | None, _context: str | None) -> AsyncIterator[tuple[Client, str]]:
        yield client or stage.client, stage.namespace

    return ToolSession(reach=reach, clock=stage.client.clock)


async def asked(stage: Stage, tool: str, client: Client | None = None, **arguments: Any) -> Any:
    """Structured answer of a tool, checked against the schema that clients get."""
    async with McpClient(make_assistant_server(session_of(stage, client))) as assistant:
        result = await assistant.call_tool(tool, arguments)
        assert not result.is_error, result.content
        schema = next(
            item.output_schema for item in (await assistant.list_tools()).tools if item.name == tool
        )
    jsonschema.validate(result.structured_content, schema)
    return result.structured_content


async def refused(stage: Stage, tool: str, **arguments: Any) -> str:
    """Error that the tool answers with."""
    async with McpClient(make_assistant_server(session_of(stage))) as assistant:
        result = await assistant.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


async def stuck(stage: Stage) -> None:
    """A CloneSet of three pods whose new image cannot be pulled."""
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    stage.kubelets.set_rules([Rule(image="nginx:2", image_pull_error=True)])
    await stage.set_image("web", "nginx:2")

    async def is_explained() -> bool:
        return bool((await asked(stage, "explain", target="clonesets/web"))["cause"] == Code.IMAGE_PULL)

    await stage.until(is_explained)


async def test_kinds_that_the_user_may_not_list_are_named(stage: Stage) -> None:
    await stage.create(cloneset())
    transport = FaultyTransport(stage.client.transport)
    transport.on(reads("/sidecarsets"), lambda _request: Answer(403, message="sidecarsets is forbidden"))
    client = stage.client.replace_transport(transport)
    answer = await asked(stage, "explain_all", client)
    assert answer["hidden_kinds"] == ["SidecarSet"]
    assert "no permission to list their objects: SidecarSet." in answer["text"]
    assert [row["name"] for row in answer["objects"]] == ["web"]


async def test_every_tool_is_marked_as_read_only_and_describes_each_argument(stage: Stage) -> None:
    async with McpClient(make_assistant_server(session_of(stage))) as assistant:
        tools = (await assistant.list_tools()).tools
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.description
        fields = tool.input_schema["properties"].items()
        assert [name for name, field in fields if not field.get("description")] == []


async def test_an_assistant_finds_what_is_stuck_and_why(stage: Stage) -> None:
    # given
    await stuck(stage)
    # when it looks for what needs action, then at that
    rows = (await asked(stage, "explain_all", only_needing_action=True))["objects"]
    answer = await asked(stage, "explain", target=f"{rows[0]['kind'].lower()}/{rows[0]['name']}")
    # then
    assert [(row["kind"], row["name"], row["cause"]) for row in rows] == [("CloneSet", "web", "ImagePull")]
    assert answer["needs_person"]
    assert (answer["phase"], answer["explanation"]["waits"][0]["code"]) == ("Degraded", "ImagePull")
    assert "rollout undo" in rows[0]["remedy"]
    assert rows[0]["remedy"] in answer["text"]


async def test_a_change_is_planned_and_not_applied(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    stored = await stage.get("web")
    # when a stored object would change, and a manifest would be applied
    change = await asked(stage, "plan", target="clonesets/web", changes=["replicas=5"])
    manifest = yaml.safe_dump(cloneset(replicas=3, image="nginx:2"))
    applied = await asked(stage, "plan", manifest=manifest)
    # then
    assert change["has_changes"]
    assert change["forecasts"][0]["pods_after"] == 5
    assert applied["has_changes"]
    assert not applied["is_refused"]
    assert await stage.get("web") == stored


async def test_a_plan_reports_that_a_change_would_be_refused(stage: Stage) -> None:
    await stage.start_manager()
    answer = await asked(stage, "plan", manifest=yaml.safe_dump(cloneset(replicas=-1)))
    assert answer["is_refused"]
    assert "spec.replicas" in answer["text"]


async def test_a_rollout_is_simulated_from_manifests_alone(stage: Stage) -> None:
    before, after = (yaml.safe_dump(cloneset(image=image)) for image in ("nginx:1", "nginx:2"))
    whole = await asked(stage, "simulate", manifest=before, changes=[after])
    broken = await asked(stage, "simulate", manifest=before, changes=[after], fail_pod="100%")
    assert whole["is_complete"]
    assert not broken["is_complete"]


async def test_revisions_have_numbers_and_differences(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=3)
    # when
    revisions = (await asked(stage, "rollout_history", target="clonesets/web"))["revisions"]
    # then
    assert [revision["number"] for revision in revisions] == [1, 2]
    assert revisions[1]["differences"] == ["template.spec.containers[main].image: nginx:1 → nginx:2"]


async def test_events_of_an_object_are_read_oldest_first(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    events = (await asked(stage, "events", target="cloneset/web"))["events"]
    assert {event["reason"] for event in events} == {"SuccessfulCreate"}
    assert sum(event["count"] for event in events) == 3
    assert [event["last"] for event in events] == sorted(event["last"] for event in events)


async def test_the_installation_is_examined(stage: Stage) -> None:
    await stage.start_manager()
    answer = await asked(stage, "doctor")
    assert {finding["check"] for finding in answer["findings"]} >= {"crds"}
    assert answer["faults"] == sum(finding["level"] == "fault" for finding in answer["findings"])


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("explain", {}, "missing required field `target`"),
        ("explain", {"target": "clonesets/web", "name": "web"}, "unknown field `name`"),
        ("explain", {"target": "clonesets"}, "expected TYPE/NAME of one object"),
        ("explain", {"target": "clonesets/wbe"}, "there is no CloneSet"),
        ("plan", {}, "give either a manifest, or a target"),
        ("plan", {"target": "clonesets/web"}, "no change of clonesets/web is given"),
        ("plan", {"manifest": "kind: ["}, "manifest, line 1"),
        ("simulate", {"manifest": "", "nodes": 5000}, "nodes: 5000 is not between 1 and 100"),
        ("events", {"target": "clonesets/web/x"}, "expected TYPE/NAME of one object"),
        ("rollout_history", {"target": "sidecarsets/web"}, '"web" not found'),
        ("scale", {}, "no tool is named 'scale'"),
    ],
)
async def test_a_failing_call_reports_what_to_correct(
    stage: Stage, tool: str, arguments: dict[str, Any], text: str
) -> None:
    await stage.start_manager()
    assert text in await refused(stage, tool, **arguments)


async def test_no_tool_writes(stage: Stage) -> None:
    # given
    await stuck(stage)
    noted = _NotedWrites(stage.client.transport)
    client = stage.client.replace_transport(noted)
    calls: dict[str, dict[str, Any]] = {
        "explain": {"target": "clonesets/web"},
        "explain_all": {"all_namespaces": True},
        "plan": {"target": "clonesets/web", "changes": ["image=main=nginx:3"]},
        "simulate": {"manifest": yaml.safe_dump(cloneset())},
        "rollout_history": {"target": "clonesets/web"},
        "events": {"target": "clonesets/web"},
        "doctor": {},
    }
    # when every tool there is has been called
    for tool in TOOLS:
        await asked(stage, tool.name, client, **calls[tool.name])
    # then
    assert noted.writes == []


async def test_a_write_is_not_even_sent(stage: Stage) -> None:
    noted = _NotedWrites(stage.client.transport)
    client = stage.client.replace_transport(ReadOnlyTransport(noted))
    with pytest.raises(ReadOnlyError):
        await client.delete(CLONE_SETS, stage.namespace, "web")
    with pytest.raises(ReadOnlyError):
        await client.create(CLONE_SETS, stage.namespace, cloneset())
    with pytest.raises(ReadOnlyError):
        client.transport.stream(Request("POST", "/api/v1/namespaces/default/pods/web/exec"))
    assert noted.writes == []


async def test_rights_are_those_of_the_caller(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    # given a user who may read CloneSets, but no pods
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(reads("/pods"), lambda _request: Answer(403))
    # when
    async with McpClient(
        make_assistant_server(session_of(stage, stage.client.replace_transport(faulty)))
    ) as assistant:
        result = await assistant.call_tool("explain", {"target": "clonesets/web"})
    # then
    assert result.is_error
    assert "on purpose" in str(result.content)


def test_long_lists_and_texts_are_cut_with_a_count() -> None:
    pods = [f"web-{number}" for number in range(1_000)]
    result = shorten_document({"waits": [{"pods": pods, "words": "x" * 5_000}]})
    assert result["waits"][0]["pods"][-2:] == [f"web-{MOST_ITEMS - 1}", f"… and {1_000 - MOST_ITEMS} more"]
    assert result["waits"][0]["words"].endswith("… and 1000 more characters")
    # and a list of objects has the count beside it
    result = shorten_document({"batches": [{"fates": {}}] * (MOST_ITEMS + 7)})
    assert (len(result["batches"]), result["omitted_batches"]) == (MOST_ITEMS, 7)


@pytest.mark.real_time
def test_an_assistant_starts_the_command_and_calls_its_tools(tmp_path: Path) -> None:
    """The whole way: the SDK's client, a process, a kubeconfig, HTTPS."""
    import asyncio

    kubeconfig = tmp_path / "kubeconfig"

    async def ask() -> Any:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "pykruise.cli", "mcp", "--kubeconfig", str(kubeconfig)],
            env=dict(os.environ),
        )
        async with McpClient(stdio_client(parameters)) as assistant:
            tools = (await assistant.list_tools()).tools
            result = await assistant.call_tool("explain_all", {"all_namespaces": True})
        return len(tools), result.is_error, result.structured_content

    with HttpSandbox(kubeconfig):
        count, is_error, answer = asyncio.run(ask())
    assert (count, is_error) == (len(TOOLS), False)
    assert answer["objects"] == []
