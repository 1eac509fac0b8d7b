"""`plan` of kinds for which it simulates no pods: it describes the writes of one reconcile in words that users know."""

import re
from pathlib import Path
from typing import Any

import pytest

from pykruise.cli.errors import CommandError
from pykruise.cli.plan import apply_sets, describe_forecast, plan_document, run_plan
from pykruise.cli.simulate import Conditions, run_simulate
from pykruise.sandbox.cluster import ClusterSettings
from support.scenario import Object, Stage
from support.situations.documents import (
    broadcastjob,
    cloneset,
    cronjob,
    distribution,
    ephemeraljob,
    listjob,
    marker,
    pulljob,
    united,
)
from support.situations.world import SETTINGS, World, with_agents

pytestmark = pytest.mark.sandbox_only
ROOT = Path(__file__).parents[2]

STEP_NAMES = re.compile(
    r"\b(hold|ask|release|label|mark|keep) (job|nodes|marker|secrets|request)\b|finalizer"
)
"""Names that the code uses for stages of a plan; the output must not contain them."""


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


async def said_of(stage: Stage, document: Object) -> str:
    result = await plan_document(
        stage.client, document, namespace=stage.namespace, now=stage.clock(), settings=SETTINGS
    )
    return "\n".join(describe_forecast(result))


PLANS: list[tuple[Any, list[str]]] = [
    (broadcastjob, ["create Pod: node node-1 has not run a pod of the job yet"]),
    (cronjob, ["the next run is due at "]),
    (ephemeraljob, ["update Pod (the job selects it): web-", "others are started first"]),
    (pulljob, ["update NodeImage (a job requests image app:1): node-1, node-2, node-3, node-4"]),
    (listjob, ["create ImagePullJob: image app:1 has no ImagePullJob, image db:1 has no ImagePullJob"]),
    (marker, ["update NodePodProbe (PodProbeMarker scenario/new): node-"]),
]


@pytest.mark.parametrize(("make", "says"), PLANS, ids=[make.__name__ for make, _ in PLANS])
async def test_a_plan_names_the_objects_that_would_be_written(
    stage: Stage, make: Any, says: list[str]
) -> None:
    world = World(stage)
    await world.start()
    await world.put(cloneset())
    await world.wait(30)
    said = await said_of(stage, make("new"))
    assert said.startswith(f"{make('new')['kind']} {stage.namespace}/new: would be created")
    for words in says:
        assert words in said
    assert not STEP_NAMES.search(said), said
    assert "Existing pods" not in said


async def test_a_plan_of_a_distribution_names_the_namespaces_of_its_copies(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    here = {"includedNamespaces": {"list": [{"name": stage.namespace}]}}
    said = await said_of(stage, distribution("new", targets=here))
    assert f"create ConfigMap (the namespace has no copy): {stage.namespace}" in said


async def test_the_image_of_a_united_deployment_can_be_set(stage: Stage) -> None:
    changed = apply_sets(united("zones"), ["image=main=nginx:9"])
    template = changed["spec"]["template"]["cloneSetTemplate"]["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nginx:9"
    with pytest.raises(CommandError, match="no container is named 'other'; the containers are main"):
        apply_sets(united("zones"), ["image=other=nginx:9"])


@pytest.mark.parametrize("is_there", [False, True], ids=["created", "changed"])
async def test_an_unknown_field_is_reported_in_one_short_line(stage: Stage, is_there: bool) -> None:
    world = World(stage)
    await world.start()
    if is_there:
        await world.put(cloneset())
    document = cloneset()
    document["spec"]["replicass"] = 3
    _, error = (await said_of(stage, document)).splitlines()
    assert 'unknown field "spec.replicass"' in error
    assert len(error) < 160
    assert "{" not in error


async def test_a_version_that_is_not_served_names_the_file(stage: Stage, tmp_path: Path) -> None:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def reach(*_: object) -> Any:
        yield stage.client, stage.namespace

    file = tmp_path / "web.yaml"
    text = (ROOT / "examples" / "cloneset.yaml").read_text()
    file.write_text(text.replace("apps.kruise.io/v1beta1", "apps.kruise.io/v1"))
    with pytest.raises(CommandError) as refused:
        await run_plan(
            file=file,
            target=None,
            sets=(),
            namespace=None,
            kubeconfig=None,
            context=None,
            output="text",
            say=print,
            reach=reach,
        )
    said = str(refused.value)
    assert said.startswith(
        f"{file}, document 1: CloneSet web: there is no apiVersion apps.kruise.io/v1; did you mean "
    )
    assert "apps.kruise.io/v1beta1" in said


async def test_a_file_with_several_schedules_plays_each() -> None:
    said: list[str] = []
    code = await run_simulate(
        ROOT / "examples" / "advancedcronjob.yaml",
        changes=[],
        conditions=Conditions(begin="2026-03-01T00:00:00Z", lasts="2d"),
        svg=None,
        output="text",
        say=said.append,
    )
    assert code == 0
    assert "advancedcronjob.yaml (tune-nightly): 2 days" in said[0]
    assert "advancedcronjob.yaml (report-hourly): 2 days" in said[0]
