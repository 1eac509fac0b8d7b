"""`pykruise plan` and `pykruise explain` as they are typed: several documents, standard input, JSON, missing rights."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykruise.cli.errors import format_one_line
from pykruise.cli.explain import run_explain
from pykruise.cli.insight.gates import read_manager_settings
from pykruise.cli.insight.traced_requests import Reach
from pykruise.cli.plan import run_plan
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.resources import DEPLOYMENTS
from pykruise.manager.install import MANAGER
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import daemonset
from support.faults import Answer, Delay, FaultyTransport, reads
from support.golden import same_as
from support.scenario import Object, Stage, cloneset, rolling
from support.statefulsets import Sets, claim_template, statefulset


def reaching(stage: Stage, client: Client | None = None) -> Reach:
    """A connection to the stage's cluster, instead of the cluster of a kubeconfig."""

    @asynccontextmanager
    async def reach(_kubeconfig: Path | None, _context: str | None) -> AsyncIterator[tuple[Client, str]]:
        yield client or stage.client, stage.namespace

    return reach


async def planned(stage: Stage, client: Client | None = None, **given: Any) -> tuple[int, str]:
    """Exit code and text of `pykruise plan`."""
    printed: list[str] = []
    fixed: dict[str, Any] = {"file": None, "target": None, "sets": (), "namespace": None, "output": "text"}
    code = await run_plan(
        **(fixed | given), kubeconfig=None, context=None, say=printed.append, reach=reaching(stage, client)
    )
    return code, "\n".join(printed)


async def explained(stage: Stage, target: str, client: Client | None = None, **given: Any) -> list[str]:
    """Outputs of `pykruise explain`, one for each time that it prints."""
    printed: list[str] = []
    fixed: dict[str, Any] = {"namespace": None, "watch": False, "output": "text", "every_s": 0.5}
    await run_explain(
        target,
        **(fixed | given),
        kubeconfig=None,
        context=None,
        say=printed.append,
        reach=reaching(stage, client),
    )
    return printed


def manifests(path: Path, *documents: Object) -> Path:
    path.write_text(yaml.safe_dump_all(documents), "utf-8")
    return path


async def test_several_documents_of_all_kinds_are_planned_together(stage: Stage, tmp_path: Path) -> None:
    # given a CloneSet that is stored like its manifest, and manifests of two objects that do not exist
    await stage.start_manager()
    there = cloneset(replicas=2)
    await stage.create(there)
    await stage.settled(replicas=2)
    file = manifests(tmp_path / "all.yaml", there, daemonset("agent"), statefulset("queue", replicas=2))
    # when
    code, text = await planned(stage, file=file)
    as_json = json.loads((await planned(stage, file=file, output="json"))[1])
    # then
    assert code == 2
    titles = [part.splitlines()[0] for part in text.split("\n\n") if "Set " in part.splitlines()[0]]
    assert titles == [
        f"CloneSet {stage.namespace}/web: nothing would change",
        f"DaemonSet {stage.namespace}/agent: would be created",
        f"StatefulSet {stage.namespace}/queue: would be created",
    ]
    assert [(item["kind"], item["change"]) for item in as_json] == [
        ("CloneSet", "unchanged"),
        ("DaemonSet", "created"),
        ("StatefulSet", "created"),
    ]
    # and in order, one pod after the other
    order = [[(fate["do"], fate["pod"]) for fate in batch["fates"]] for batch in as_json[2]["batches"]]
    assert order == [[("create", "queue-0")], [("create", "queue-1")]]
    # and nothing has been written
    assert not await stage.stored(DAEMON_SETS)
    assert not await stage.stored(ADVANCED_STATEFUL_SETS)


async def test_standard_input_and_a_set_flag_give_the_same_plan(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    await stage.start_manager()
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible")
    await stage.create(cloneset(replicas=2, updateStrategy=strategy))
    await stage.settled(replicas=2)
    # when the change comes from standard input, or from the command line
    changed = cloneset(replicas=2, image="nginx:2", updateStrategy=strategy)
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(changed)))
    piped = await planned(stage, file=Path("-"))
    typed = await planned(stage, target="clonesets/web", sets=["image=main=nginx:2"])
    # then
    assert piped == typed
    assert piped[0] == 2
    assert "spec.template.spec.containers[main].image: nginx:1 → nginx:2" in piped[1]


async def test_watching_prints_each_change_until_it_is_done(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    # when
    printed = await explained(stage, "cloneset/web", watch=True)
    # then it has printed more than once, never the same twice in a row, and ends with the rollout
    assert len(printed) > 1
    assert all(first.strip() != second.strip() for first, second in pairwise(printed))
    assert printed[-1].strip().startswith(f"CloneSet {stage.namespace}/web: Healthy.")


@pytest.mark.virtual_time("the API server is away for a minute")
async def test_a_watch_continues_after_reads_that_fail_and_shows_later_objects(stage: Stage) -> None:
    # given a watch of an unfinished rollout
    is_away = False
    transport = FaultyTransport(stage.client.transport)
    transport.on(reads(), lambda _request: Answer(503) if is_away else None)
    client = Client(transport, clock=stage.clock, rng=stage.rng)
    stage.kubelets.set_rules([Rule(image="nginx:1", never_ready=True)])
    await stage.start_manager()
    await stage.create(cloneset(replicas=1))
    await asyncio.sleep(5)
    watching = asyncio.create_task(explained(stage, "clonesets", client, watch=True))
    await asyncio.sleep(5)
    # when
    is_away = True
    await asyncio.sleep(60)
    assert not watching.done()
    is_away = False
    await stage.create(cloneset("later", replicas=1))
    await asyncio.sleep(60)
    stage.kubelets.set_rules([])
    # then
    printed = await watching
    assert "/later: " not in printed[0]
    assert f"CloneSet {stage.namespace}/later: Healthy." in printed[-1]
    assert f"CloneSet {stage.namespace}/web: Healthy." in printed[-1]


@pytest.mark.virtual_time("the API server is away for a minute")
async def test_a_watch_ends_in_time_while_the_api_server_is_away(stage: Stage) -> None:
    is_away = False
    transport = FaultyTransport(stage.client.transport)
    transport.on(reads(), lambda _request: Answer(503) if is_away else None)
    client = Client(transport, clock=stage.clock, rng=stage.rng)
    await stage.create(cloneset(replicas=1))
    watching = asyncio.create_task(explained(stage, "clonesets/web", client, watch=True, timeout_s=60.0))
    await asyncio.sleep(5)
    is_away = True
    async with asyncio.timeout(60):
        assert len(await watching) == 1


async def test_json_has_what_the_text_has(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2, updateStrategy=rolling(paused=True)))
    await stage.settled(replicas=2)
    await stage.set_image("web", "nginx:2")

    async def is_paused() -> Any:
        outcome = json.loads((await explained(stage, "clonesets/web", output="json"))[0])
        return outcome if outcome["verdict"] == "paused" else None

    # when
    result = await stage.until(is_paused)
    # then
    assert result["cause"] == "Paused"
    assert result["waits"][0]["remedy"].startswith("resume")
    assert len(result["waits"][0]["pods"]) == 2


@pytest.mark.parametrize("what", ["clonesets", "pods", "controllerrevisions"])
async def test_a_user_who_may_not_read_a_resource_gets_one_line_that_names_it(
    stage: Stage, what: str
) -> None:
    # given a user without a right
    await stage.create(cloneset())
    transport = FaultyTransport(stage.client.transport)
    message = f'{what} is forbidden: User "jane" cannot list resource "{what}" in the namespace'
    transport.on(reads(f"/{what}"), lambda _request: Answer(403, message=message))
    client = Client(transport, clock=stage.clock, rng=stage.rng)
    # when
    with pytest.raises(ForbiddenError) as refused_plan:
        await planned(stage, client, target="clonesets/web", sets=["replicas=1"])
    with pytest.raises(ForbiddenError) as refused_explanation:
        await explained(stage, "clonesets/web", client)
    # then the command ends with one line (and exit code 1: packages/pykruise/tests/cli)
    for refused in (refused_plan, refused_explanation):
        line = format_one_line(refused.value)
        assert message in line
        assert "\n" not in line


@pytest.mark.sandbox_only
async def test_a_statefulset_is_planned_and_explained_in_readable_text(stage: Stage) -> None:
    # given three pods in order, with claims, and an image that cannot be pulled
    await stage.start_manager()
    sets = Sets(stage)
    await sets.create(replicas=3, volumeClaimTemplates=[claim_template()])
    await sets.settled(replicas=3)
    # when it is planned to be smaller and of that image
    _, plan = await planned(stage, target="asts/web", sets=["image=main=nginx:2", "replicas=2"])
    stage.kubelets.set_rules([Rule(image="nginx:2", image_pull_error=True)])
    await sets.set_image("nginx:2")

    async def is_stuck() -> str | None:
        text = (await explained(stage, "asts/web"))[0]
        return text if "ImagePull" in text else None

    explanation = await stage.until(is_stuck)
    # then
    same_as("statefulset-plan.txt", plan, namespace=stage.namespace)
    same_as("statefulset-explain.txt", explanation, namespace=stage.namespace)


@pytest.mark.sandbox_only
async def test_a_daemonset_is_planned_and_explained_in_readable_text(stage: Stage) -> None:
    # given a pod on each of four nodes, one at a time
    await stage.start_manager()
    await stage.create(daemonset("agent"), resource=DAEMON_SETS)

    async def is_there() -> bool:
        status = (await stage.get("agent", resource=DAEMON_SETS)).get("status") or {}
        return bool(status.get("numberAvailable") == 4 == status.get("updatedNumberScheduled"))

    await stage.until(is_there)
    # when
    _, plan = await planned(stage, target="daemonsets/agent", sets=["image=main=nginx:2", "partition=3"])
    explanation = (await explained(stage, "daemonsets/agent"))[0]
    # then
    same_as("daemonset-plan.txt", plan, namespace=stage.namespace)
    same_as("daemonset-explain.txt", explanation, namespace=stage.namespace)


@pytest.mark.sandbox_only
async def test_the_gates_of_the_clusters_manager_count_when_no_others_are_given(stage: Stage) -> None:
    # given a manager whose Deployment switches a gate on
    container = {
        "name": "manager",
        "image": "pykruise",
        "args": ["manager", "--feature-gates=CloneSetShortHash=true"],
    }
    labels = {"app": "manager"}
    manager: Object = {
        "metadata": {"name": MANAGER},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    # then
    assert not (await read_manager_settings(stage.client, stage.clock)).gates["CloneSetShortHash"]
    await stage.client.create(DEPLOYMENTS, "kruise-system", manager)
    assert (await read_manager_settings(stage.client, stage.clock)).gates["CloneSetShortHash"]

    # and the defaults if the user may not read the Deployment
    transport = FaultyTransport(stage.client.transport)
    transport.on(reads("deployments"), lambda _request: Answer(403, "Forbidden"))
    assert not (await read_manager_settings(stage.client.replace_transport(transport), stage.clock)).gates[
        "CloneSetShortHash"
    ]


async def test_a_slow_plan_reports_its_progress_beside_its_output(stage: Stage) -> None:
    # given an API server that is slow to list pods
    await stage.create(cloneset())
    slow = FaultyTransport(stage.client.transport)
    slow.on(reads("/pods"), Delay(3.0), Delay(3.0))
    noted: list[str] = []
    # when
    code, said = await planned(
        stage,
        stage.client.replace_transport(slow),
        target="clonesets/web",
        sets=("replicas=9",),
        note=noted.append,
    )
    # then
    assert code == 2
    assert noted == ["planning CloneSet web (1 of 1) …"]
    assert "planning" not in said
