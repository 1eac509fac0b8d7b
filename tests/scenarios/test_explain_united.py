"""`explain` and `plan` of UnitedDeployments: through to the workloads of the subsets and their pods, on a cluster."""

import asyncio
from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.effect_forecast import Outlook
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.forecasting import Forecast
from pykruise.cli.plan import describe_forecast, plan_document
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET_KIND
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.uniteddeployment.kind import KIND
from pykruise.kinds.uniteddeployment.workloads import CLONE_SET, DEPLOYMENT
from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool
from support.remedies import followed, ways_of
from support.scenario import Object, Stage
from support.uniteddeployments import ALL_TEMPLATES, NAME, United

pytestmark = pytest.mark.sandbox_only


@pytest.fixture
async def united(stage: Stage, pool: Pool, request: pytest.FixtureRequest) -> United:
    united = United(stage, pool, getattr(request, "param", CLONE_SET))
    await united.label_nodes()
    return united


every_template = pytest.mark.parametrize(
    "united",
    [
        pytest.param(template, marks=[] if template in (CLONE_SET, DEPLOYMENT) else pytest.mark.exhaustive)
        for template in ALL_TEMPLATES
    ],
    indirect=True,
)
"""Kinds of the subsets' workloads: in a plain run one of pykruise and one of Kubernetes. test_uniteddeployment.py
tests the others."""


async def explanation(stage: Stage) -> Explanation:
    return await read_and_explain(stage.client, Key(stage.namespace, NAME), now=stage.clock(), kind=KIND)


async def caused(stage: Stage, code: str) -> Explanation:
    """Wait until this is the cause that is named."""

    async def is_named() -> Explanation | None:
        outcome = await explanation(stage)
        return outcome if outcome.cause == code else None

    result: Explanation = await stage.until(is_named, what=f"cause {code}")
    return result


async def outlook(united: United, *subsets: Object, **spec: Any) -> Outlook:
    document = united.to_document(*subsets, **spec)
    stage = united.stage
    outlook = await plan_document(stage.client, document, namespace=stage.namespace, now=stage.clock())
    assert isinstance(outlook, Outlook)
    return outlook


# ── explain ──────────────────────────────────────────────────────────────


@every_template
async def test_a_healthy_united_deployment_waits_for_nothing(stage: Stage, united: United) -> None:
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)

    result = await explanation(stage)

    assert (result.verdict, result.waits) == ("done", ())
    assert result.headline == "4 of 4 pods are ready, 4 are updated (a 2, b 2)"
    assert result.done == ("subset a: 2 of 2 pods are ready", "subset b: 2 of 2 pods are ready")


@every_template
async def test_pods_without_a_node_are_the_cause(stage: Stage, united: United) -> None:
    await united.take_zone("a")
    await stage.start_manager()
    await united.create(replicas=4)

    explanation = await caused(stage, "Unschedulable")

    assert explanation.verdict == "waiting"
    assert "(subset a)" in explanation.waits[0].words
    assert len(explanation.waits[0].pods) == 2
    assert not [wait for wait in explanation.waits if wait.code == "Subsets"], (
        "what only follows is not listed"
    )


@every_template
async def test_an_image_that_cannot_be_pulled_is_the_cause(stage: Stage, united: United) -> None:
    stage.kubelets.set_rules([Rule(image="nginx:bad", image_pull_error=True)])
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    await united.set_image("nginx:bad")

    explanation = await caused(stage, "ImagePull")

    assert "(subset " in explanation.waits[0].words


async def test_a_patch_that_cannot_be_applied_is_the_cause(stage: Stage, united: United) -> None:
    await stage.start_manager()
    bad = {"spec": {"containers": [{"$patch": "unheard-of", "name": "main"}]}}
    await united.create(united.subset("a", patch=bad), united.subset("b"), replicas=4)

    explanation = await caused(stage, "Patch")

    assert explanation.waits[0].words.startswith("subset a: ")


async def test_a_scale_that_cannot_be_divided_is_the_cause(stage: Stage, united: United) -> None:
    await stage.start_manager()
    await united.create(united.subset("a", replicas=2), united.subset("b", replicas=2), replicas=4)
    await united.settled(a=2, b=2)
    await united.scale(5)

    explanation = await caused(stage, "InvalidSpec")

    assert "ineffective" in explanation.waits[0].words
    assert explanation.headline == "4 of 5 pods are ready, 4 are updated (a 2, b 2)"
    assert len(explanation.waits) == 1, "the manager has processed the change"


async def test_a_workload_of_a_subset_is_corrected_in_its_united_deployment(
    stage: Stage, united: United
) -> None:
    await stage.start_manager()
    patch = {"spec": {"priorityClassName": "spot"}}
    await united.create(united.subset("a", patch=patch), united.subset("b"), replicas=4)
    explanation = await caused(stage, "Policy")
    assert "of 4 pods are ready" in explanation.headline
    workloads = (await stage.client.list(CLONE_SETS, stage.namespace)).items
    names = [decode(raw)["metadata"]["name"] for raw in workloads]
    (name,) = (name for name in names if "-a-" in name)

    part = await read_and_explain(
        stage.client, Key(stage.namespace, name), now=stage.clock(), kind=CLONE_SET_KIND
    )

    assert part.waits[0].remedy.endswith(
        "or correct priorityClassName in the patch of subset a in spec.topology.subsets"
    )
    assert part.waits[0].remedy == explanation.waits[0].remedy


async def test_a_partition_is_at_rest(stage: Stage, united: United) -> None:
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    strategy = {"manualUpdate": {"partitions": {"a": 1}}}
    await united.set_image("nginx:2", updateStrategy=strategy)

    async def is_at_rest() -> Explanation | None:
        outcome = await explanation(stage)
        return outcome if "Partition" in {wait.code for wait in outcome.waits} else None

    result = await stage.until(is_at_rest)
    assert "(subset a)" in next(wait for wait in result.waits if wait.code == "Partition").words


async def test_a_missing_manager_is_the_cause(stage: Stage, united: United) -> None:
    await united.create(replicas=4)
    explanation = await caused(stage, "NoManager")
    assert explanation.next, "what would be done is listed"


async def test_a_skipped_subset_is_reported(stage: Stage, united: United) -> None:
    await stage.start_manager()
    topology = {
        "subsets": [united.subset("a", maxReplicas=2), united.subset("b")],
        "scheduleStrategy": {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 1}},
    }
    await united.take_zone("a")
    await united.create(replicas=2, topology=topology)
    await united.settled(a=0, b=2)

    result = await explanation(stage)

    assert result.verdict == "done"
    assert result.done[0] == "subset a: 0 of 0 pods are ready, skipped now"
    assert "UnitedDeployment" in format_explanation(result, now=stage.clock())


@every_template
async def test_no_remedy_takes_pods_away_and_the_united_deployment_is_what_is_rolled_back(
    stage: Stage, united: United
) -> None:
    stage.kubelets.set_rules([Rule(image="nginx:bad", image_pull_error=True)])
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    await united.set_image("nginx:bad")
    explanation = await caused(stage, "ImagePull")
    await asyncio.sleep(stage.long_s)
    explanation = await caused(stage, "ImagePull")
    (back,) = [way for way in ways_of(explanation) if way.sentence.startswith("roll back: ")]
    assert f" uniteddeployments.apps.kruise.io/{NAME} " in f"{back.sentence} "
    await followed(stage, KIND, Key(stage.namespace, NAME), explanation, back)


@every_template
async def test_a_template_that_is_corrected_takes_no_pods_away(stage: Stage, united: United) -> None:
    stage.kubelets.set_rules([Rule(image="nginx:bad", image_pull_error=True)])
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    await united.set_image("nginx:bad")
    await caused(stage, "ImagePull")
    await asyncio.sleep(stage.long_s)
    explanation = await caused(stage, "ImagePull")
    ways = [way for way in ways_of(explanation) if not way.sentence.startswith("roll back: ")]
    assert len(ways) == 2
    await followed(stage, KIND, Key(stage.namespace, NAME), explanation, ways[0])


# ── plan ─────────────────────────────────────────────────────────────────


async def test_the_pods_to_create_are_listed_per_subset(stage: Stage, united: United) -> None:
    result = await outlook(united, replicas=5)

    assert result.change == "created"
    assert [fate.do for batch in result.batches for fate in batch.fates] == [
        "create a CloneSet of 2 pods",
        "create a CloneSet of 3 pods",
    ]
    assert [forecast.pods_after for forecast in result.within if isinstance(forecast, Forecast)] == [2, 3]
    assert result.notes == (), "no subset exists, so no numbers of existing subsets are listed"
    assert not await stage.exists(NAME, resource=KIND.resource), "nothing is written"


async def test_a_new_template_is_played_in_each_subset(stage: Stage, united: United) -> None:
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    united_document = united.to_document(replicas=4)
    inner = united_document["spec"]["template"][CLONE_SET]["spec"]["template"]["spec"]
    inner["containers"][0]["image"] = "nginx:2"

    outlook = await plan_document(stage.client, united_document, namespace=stage.namespace, now=stage.clock())

    assert isinstance(outlook, Outlook)
    assert len(outlook.within) == 2
    for forecast in outlook.within:
        assert isinstance(forecast, Forecast)
        assert {fate.do for batch in forecast.batches for fate in batch.fates} == {"create", "delete"}
    lines = "\n".join(describe_forecast(outlook))
    assert "CloneSet" in lines
    assert "never fewer than" in lines


@pytest.mark.parametrize("united", [CLONE_SET, DEPLOYMENT], indirect=True)
async def test_other_sizes_are_listed_for_each_subset(stage: Stage, united: United) -> None:
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)

    result = await outlook(united, replicas=6)

    kind = "Deployment" if united.template == DEPLOYMENT else "CloneSet"
    names = {name: workload["metadata"]["name"] for name, workload in (await united.workloads()).items()}
    assert [(fate.pod, fate.do) for batch in result.batches for fate in batch.fates] == [
        (name, f"update {kind} {names[name]}: 2 → 3 pods") for name in "ab"
    ]
    assert len(result.within) == 2
    assert result.notes == ("after these changes the existing subsets have these numbers of pods: a 3, b 3",)


async def test_a_refusal_is_reported(stage: Stage, united: United) -> None:
    result = await outlook(united, united.subset("a", replicas=1), united.subset("b", replicas=1), replicas=3)
    assert result.change == "refused"
    assert "spec.topology.subsets" in result.errors[0]
