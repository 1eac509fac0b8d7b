"""`pykruise explain all`: a row for each object of every kind, those that need action first."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykruise.cli.explain import BROKEN, DONE, run_explain
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.errors import ForbiddenError
from pykruise.sandbox.cluster import ClusterSettings
from support.rbac import Authorizer, AuthorizingTransport
from support.scenario import Stage
from support.situations.documents import (
    broadcastjob,
    budget,
    cloneset,
    cronjob,
    daemonset,
    distribution,
    ephemeraljob,
    listjob,
    marker,
    podstate,
    pulljob,
    request,
    sidecarset,
    spread,
    statefulset,
    united,
)
from support.situations.nodes import its_agent_is_gone, its_node_does_not_answer
from support.situations.world import KINDS, World, with_agents

pytestmark = pytest.mark.sandbox_only


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


async def said_of_all(
    stage: Stage, *targets: str, client: Client | None = None, **options: Any
) -> tuple[int, str]:
    """Exit code and output of the command in the stage's namespace."""

    @asynccontextmanager
    async def reach(_path: Path | None, _context: str | None) -> AsyncIterator[tuple[Client, str]]:
        yield client or stage.client, stage.namespace

    said: list[str] = []
    given = {"output": "text", **options}
    code = await run_explain(
        *(targets or ("all",)),
        namespace=None,
        kubeconfig=None,
        context=None,
        watch=False,
        say=said.append,
        reach=reach,
        **given,
    )
    return code, "\n".join(said)


async def put_one_of_every_kind(world: World) -> None:
    two = [{"name": "a", "maxReplicas": 2}, {"name": "b"}]
    await world.put(
        *(cloneset(), statefulset("db"), daemonset("agent"), united("zones"), sidecarset("log")),
        *(spread("parts", subsets=two), budget("guard"), distribution("shared")),
        *(broadcastjob("tune"), cronjob("nightly", schedule="0 3 1 1 *"), ephemeraljob("look")),
        *(pulljob("ahead"), listjob("base"), marker("idle"), podstate("sticky", target="db")),
    )
    await world.wait(30)
    pod = (await world.list("pod"))[0]["metadata"]["name"]
    await world.put(request(pod, "again"))
    await world.wait(30)


async def test_every_kind_has_its_row_and_what_needs_action_is_first(stage: Stage) -> None:
    # given an object of every kind that people make, and one that needs action
    world = World(stage)
    await world.start()
    world.fail(image="bad:1", image_pull_error=True)
    await put_one_of_every_kind(world)
    await world.put(cloneset("bad", image="bad:1"))
    await world.wait(30)
    # when
    code, said = await said_of_all(stage)
    # then
    headline, _, first, *rest = said.splitlines()
    assert code == BROKEN
    assert " of " in headline
    assert headline.endswith(" action.")
    assert "needs action" in headline or "need action" in headline
    made_for_nodes = {
        kind.resource.kind
        for kind in KINDS.values()
        if kind.shown is not None and kind.shown.is_made_for_nodes
    }
    kinds = {line.split()[0] for line in (first, *rest) if "/" in line or line.startswith("SidecarSet")}
    assert {kind.resource.kind for kind in KINDS.values()} - made_for_nodes <= kinds | {
        "ResourceDistribution"
    }
    assert "ResourceDistribution shared" in said
    phases = [line.split()[2] for line in (first, *rest) if f"{stage.namespace}/" in line]
    needing = [phase in ("Failed", "Degraded") for phase in phases]
    assert needing == sorted(needing, reverse=True)
    assert f"CloneSet {stage.namespace}/bad" in said
    assert "ImagePull: bad-" in said
    assert "Details and remedies: pykruise explain " in said


async def test_a_node_with_failed_images_has_a_row_and_healthy_nodes_have_none(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    world.fail(image="*app:1", node="node-2", image_pull_error=True)
    await world.put(pulljob("ahead", completionPolicy={"type": "Never"}))
    await world.wait()
    _, said = await said_of_all(stage)
    assert "NodeImage node-2" in said
    assert "NodeImage node-1" not in said
    assert "NodePodProbe" not in said


@pytest.mark.parametrize(
    ("stage_it", "row"),
    [(its_node_does_not_answer, "NodeImage node-1"), (its_agent_is_gone, "NodePodProbe node-1")],
)
async def test_a_node_whose_agent_reports_nothing_has_a_row(
    stage: Stage, stage_it: Callable[[World], Awaitable[None]], row: str
) -> None:
    world = World(stage)
    await world.start()
    await stage_it(world)
    await world.wait(60)
    code, said = await said_of_all(stage)
    assert code == BROKEN
    rows = [line for line in said.splitlines() if line.startswith(row)]
    assert [line.split()[2:4] for line in rows] == [["Degraded", "NoAgent:"]]


async def test_each_list_is_read_once_for_all_objects(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    lists: list[int] = []
    for number in (1, 5):
        await world.put(*(cloneset(f"web-{number}-{each}", replicas=1) for each in range(number)))
        await world.wait(30)
        metered = MeteredTransport(stage.client.transport)
        await said_of_all(stage, client=stage.client.replace_transport(metered))
        lists.append(metered.requests["GET pods"])
    assert lists[1] == lists[0]


async def test_explain_begins_with_no_action_needed_when_all_is_healthy(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(cloneset())
    await world.wait()
    code, said = await said_of_all(stage)
    assert (code, said.splitlines()[0]) == (DONE, "No action is needed for 1 object.")
    assert "Details" not in said


async def test_details_are_shown_on_demand(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    world.fail(image="nginx:1", image_pull_error=True)
    await world.put(cloneset(), budget("guard"))
    await world.wait()
    _, said = await said_of_all(stage, with_details=True)
    assert "→ correct the image or its pull secret in spec.template" in said
    _, listed = await said_of_all(stage, output="json")
    assert {item["kind"] for item in msgspec.json.decode(listed)} == {"CloneSet", "PodUnavailableBudget"}


def allowed(stage: Stage, *rules: dict[str, Any]) -> Client:
    """The client of a user with a Role in the stage's namespace."""
    role = {"kind": "Role", "metadata": {"namespace": stage.namespace}, "rules": rules}
    return stage.client.replace_transport(AuthorizingTransport(stage.client.transport, Authorizer([role])))


async def test_kinds_that_the_user_may_not_list_are_left_out_with_a_note(stage: Stage) -> None:
    # given a user who may read the objects of one namespace
    world = World(stage)
    await world.start()
    await put_one_of_every_kind(world)
    await world.put(pulljob("daily", completionPolicy={"type": "Never"}))
    await world.wait(60)
    _, said_to_admin = await said_of_all(stage)
    groups = ["", "apps", "autoscaling", "batch", "policy", "apps.kruise.io", "policy.kruise.io"]
    viewer = allowed(stage, {"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list"]})
    # when
    notes: list[str] = []
    _, said = await said_of_all(stage, client=viewer, note=notes.append)
    # then
    assert notes == [
        "These kinds are not shown, because you have no permission to list their objects: "
        "NodeImage, NodePodProbe, ResourceDistribution, SidecarSet."
    ]
    in_namespace = {
        tuple(line.split()[:2]) for line in said_to_admin.splitlines() if f" {stage.namespace}/" in line
    }
    shown = {tuple(line.split()[:2]) for line in said.splitlines() if f" {stage.namespace}/" in line}
    assert shown == in_namespace
    # and an object whose details need lists of the whole cluster has its phase
    (row,) = [line for line in said.splitlines() if line.startswith(f"ImagePullJob {stage.namespace}/daily")]
    assert row.split()[2] == "Healthy"
    assert "the details cannot be read: nodeimages is forbidden" in row


async def test_explain_fails_if_the_user_may_list_no_kind(stage: Stage) -> None:
    with pytest.raises(ForbiddenError):
        await said_of_all(stage, client=allowed(stage))


async def test_explain_reports_an_empty_namespace(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    assert await said_of_all(stage) == (DONE, "There is nothing to explain.")
