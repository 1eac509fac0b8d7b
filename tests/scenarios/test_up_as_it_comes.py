"""`pykruise up` without options: every kind is on, all examples can be applied at once, and its gates can be read.

start_playground() in virtual time, with the settings of `up` ──▶ kubectl apply -f examples/
    ──▶ every object reaches its wanted state
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.gates import read_manager_settings
from pykruise.cli.insight.overview import format_overview
from pykruise.cli.playground import Playground, add_agents, publish_manager, start_playground
from pykruise.cli.up import PULL_S, settings_of
from pykruise.kinds import list_kinds
from pykruise.kube.clock import make_loop_clock, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import DEPLOYMENTS, NAMESPACES, STORAGE_CLASSES
from pykruise.manager.doctor.live import Live
from pykruise.manager.doctor.workload import check_gates, check_manager
from pykruise.plans.progress import Phase
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.yaml_documents import yaml_documents

EXAMPLES = Path(__file__).parents[2] / "examples"
START = parse_time("2026-01-31T12:00:00Z")
KINDS = {kind.resource.kind: kind for kind in list_kinds() if kind.versions}


@asynccontextmanager
async def running(feature_gates: str = "") -> AsyncIterator[Playground]:
    settings = ClusterSettings(nodes=3, kubelet=KubeletSettings(pull_s=PULL_S))
    async with start_playground(
        add_agents(settings),
        manager_settings=settings_of(feature_gates),
        clock=make_loop_clock(start=START),
        rng=random.Random(7),
        is_repeatable=True,
    ) as place:
        await publish_manager(place.client, settings_of(feature_gates))
        yield place


async def apply(place: Playground, files: list[Path]) -> list[Document]:
    """Apply the files as kubectl does, one object after another. Returns the objects of pykruise's kinds."""
    ours = []
    beside = {resource.kind: resource for resource in (DEPLOYMENTS, STORAGE_CLASSES, NAMESPACES)}
    for document in (document for file in files for document in yaml_documents(file.read_text())):
        kind = document["kind"]
        is_ours = "kruise.io" in document["apiVersion"]
        resource = KINDS[kind].resource if is_ours else beside[kind]
        await place.client.create(resource, "default" if resource.namespaced else "", document)
        if is_ours:
            ours.append(document)
    return ours


def test_every_kind_is_on_unless_its_gate_is_given() -> None:
    by_default = settings_of("").gates
    assert all(by_default[gate] for kind in KINDS.values() for gate in kind.gates)
    given = settings_of("ImagePullJobGate=false,InPlaceWorkloadVerticalScaling=true").gates
    assert not given["ImagePullJobGate"]
    assert given["ResourceDistributionGate"]
    assert given["InPlaceWorkloadVerticalScaling"]


async def test_commands_and_doctor_read_the_gates_of_the_sandbox() -> None:
    asked = "InPlaceWorkloadVerticalScaling=true"
    async with running(asked) as place:
        settings = await read_manager_settings(place.client, make_loop_clock(start=START))
        assert settings.gates == settings_of(asked).gates
        live = Live(place.client, clock=make_loop_clock(start=START))
        (manager,) = await check_manager(live)
        assert "the manager runs in pykruise up" in manager.format_line()
        assert not any("is off" in gate.format_line() for gate in await check_gates(live))


async def test_all_examples_can_be_applied_together_and_become_healthy() -> None:
    async with running() as place:
        ours = await apply(place, sorted(EXAMPLES.glob("*.yaml")))
        await asyncio.sleep(90.0)
        ours += await apply(place, sorted((EXAMPLES / "requests").glob("*.yaml")))
        await asyncio.sleep(210.0)
        settings = await read_manager_settings(place.client, make_loop_clock(start=START))
        clock = make_loop_clock(start=START)
        explanations = [
            await read_and_explain(
                place.client,
                Key("default" if kind.resource.namespaced else "", entry["metadata"]["name"]),
                now=clock(),
                kind=kind,
                settings=settings,
            )
            for entry in ours
            for kind in (KINDS[entry["kind"]],)
        ]
        said = format_overview(explanations)
        assert {explanation.phase for explanation in explanations} <= {Phase.HEALTHY, Phase.COMPLETED}, said
        assert "No action is needed" in said


@pytest.mark.parametrize("folder", [EXAMPLES, EXAMPLES / "requests"], ids=["examples", "requests"])
def test_no_two_examples_share_a_name_or_the_pods_of_another(folder: Path) -> None:
    names: dict[tuple[str, str], str] = {}
    selectors: dict[str, str] = {}
    for file in sorted(folder.glob("*.yaml")):
        for document in yaml_documents(file.read_text()):
            named = (document["kind"], document["metadata"]["name"])
            assert names.setdefault(named, file.name) == file.name, named
            selector = (document.get("spec") or {}).get("selector") or {}
            labels = str(sorted((selector.get("matchLabels") or {}).items()))
            if labels != "[]":
                assert selectors.setdefault(labels, file.name) == file.name, labels
