"""`pykruise explain` names the true cause of SidecarSets that are stuck, each staged on a cluster."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.kinds.sidecarset.kind import KIND as SIDECAR_SET
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, PODS
from pykruise.sandbox.nodes.faults import Rule
from support.faults import Answer, FaultyTransport, patches
from support.golden import same_as
from support.remedies import each_case, each_way, follow_way
from support.scenario import Object, Stage, cloneset
from support.sidecarsets import canary, container, hot, sidecarset
from support.stuck import Stuck, explain_until

LOG = "log"
GOLDEN = Path(__file__).parent / "golden" / "explain" / "sidecarset"


async def create_set(stage: Stage, *containers: Object, name: str = LOG, **spec: Any) -> Object:
    """A SidecarSet for pods of the scenario's namespace alone."""
    return await stage.create(bound(stage, sidecarset(name, *containers, **spec)), resource=SIDECAR_SETS)


def bound(stage: Stage, doc: Object) -> Object:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    return {**doc, "spec": {"namespaceSelector": selector, **doc["spec"]}}


async def with_sidecars(stage: Stage, *containers: Object, **spec: Any) -> None:
    """A manager, a SidecarSet, and three pods that have its sidecars and are ready."""
    await stage.start_manager()
    await create_set(stage, *(containers or (container(LOG),)), **spec)
    await stage.create(cloneset())
    await stage.settled(replicas=3)

    async def are_known() -> bool:
        result = await stage.get(LOG, resource=SIDECAR_SETS)
        return (result.get("status") or {}).get("readyPods") == 3

    await stage.until(are_known)


async def change(stage: Stage, *containers: Object, **spec: Any) -> None:
    """Change the sidecars, and other fields of the spec."""
    body = {**({"containers": list(containers)} if containers else {}), **spec}
    await stage.merge(LOG, {"spec": body}, resource=SIDECAR_SETS)


async def the_image_cannot_be_pulled(stage: Stage) -> None:
    await with_sidecars(stage)
    stage.kubelets.set_rules([Rule(image="log:2", image_pull_error=True)])
    await change(stage, container(LOG, "log:2"))


async def the_sidecar_is_never_ready(stage: Stage) -> None:
    await with_sidecars(stage)
    stage.kubelets.set_rules([Rule(image="log:2", never_ready=True)])
    await change(stage, container(LOG, "log:2"))


async def upgrades_are_paused(stage: Stage) -> None:
    await with_sidecars(stage, updateStrategy={"paused": True})
    await change(stage, container(LOG, "log:2"))


async def the_partition_keeps_pods(stage: Stage) -> None:
    await with_sidecars(stage, updateStrategy={"partition": 2})
    await change(stage, container(LOG, "log:2"))


async def pods_are_only_injected(stage: Stage) -> None:
    await with_sidecars(stage, updateStrategy={"type": "NotUpdate"})
    await change(stage, container(LOG, "log:2"))


async def pods_are_not_selected(stage: Stage) -> None:
    await with_sidecars(stage, updateStrategy={"selector": {"matchLabels": {"canary": "yes"}}})
    await change(stage, container(LOG, "log:2"))


async def more_than_images_changed(stage: Stage) -> None:
    await with_sidecars(stage)
    await change(stage, container(LOG, "log:2", env=[{"name": "LEVEL", "value": "debug"}]))


async def the_other_twin_is_never_idle(stage: Stage) -> None:
    await with_sidecars(stage, hot(LOG, "log:1"))
    stage.kubelets.set_rules([Rule(image="log:2", never_ready=True)])
    await change(stage, hot(LOG, "log:2"))


async def an_annotation_is_in_the_way(stage: Stage) -> None:
    patch = [{"annotations": {"example.com/levels": '{"a":1}'}, "patchPolicy": "MergePatchJson"}]
    with stage.past_admission():  # admission would require a whitelist of annotations
        await create_set(stage, container(LOG), patchPodMetadata=patch)
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    for pod in await stage.pods():
        broken = {"metadata": {"annotations": {"example.com/levels": "no json"}}}
        await stage.client.patch(PODS, stage.namespace, pod.name, broken, patch_type=PatchType.MERGE)
    with stage.past_admission():
        await change(stage, container(LOG, "log:2"))


async def no_pod_matches(stage: Stage) -> None:
    await stage.start_manager()
    await create_set(stage, container(LOG), selector={"matchLabels": {"app": "none"}})


async def no_namespace_is_selected(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    await create_set(stage, container(LOG), namespaceSelector={"matchLabels": {"team": stage.namespace}})


async def pods_were_there_before(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    await asyncio.sleep(1.1)  # times of creation are whole seconds
    await create_set(stage, container(LOG))


async def webhooks_were_down(stage: Stage) -> None:
    await stage.start_manager()
    await create_set(stage, container(LOG))
    await asyncio.sleep(1.1)
    with stage.past_admission():
        await stage.create(cloneset())
        await stage.settled(replicas=3)


async def the_namespace_is_left_out(stage: Stage) -> None:
    await stage.start_manager()
    label = {"metadata": {"labels": {"control-plane": "openkruise"}}}
    await stage.client.patch(NAMESPACES, "", stage.namespace, label, patch_type=PatchType.MERGE)
    await create_set(stage, container(LOG))
    with stage.past_admission():  # the webhooks' namespace selector excludes the namespace
        await stage.create(cloneset())
        await stage.settled(replicas=3)


async def injection_is_paused(stage: Stage) -> None:
    await stage.start_manager()
    await create_set(stage, container(LOG), injectionStrategy={"paused": True})
    await asyncio.sleep(1.1)
    await stage.create(cloneset())
    await stage.settled(replicas=3)


async def injection_is_paused_and_pods_are_older(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    await asyncio.sleep(1.1)  # times of creation are whole seconds
    await create_set(stage, container(LOG), injectionStrategy={"paused": True})


async def a_canary_takes_its_place(stage: Stage) -> None:
    await stage.start_manager()
    await create_set(stage, container(LOG))
    await stage.create(
        bound(stage, canary("log-canary", container(LOG, "log:2"), base=LOG)), resource=SIDECAR_SETS
    )
    await stage.create(cloneset())
    await stage.settled(replicas=3)


async def two_have_one_container(stage: Stage) -> None:
    await with_sidecars(stage)
    with stage.past_admission():
        await create_set(stage, container(LOG, "other:1"), name="other")


async def a_revision_is_not_stored(stage: Stage) -> None:
    await with_sidecars(stage)
    with stage.past_admission():
        await change(stage, injectionStrategy={"revision": {"revisionName": "log-none"}})


async def the_upgrade_is_refused(stage: Stage) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    await create_set(stage, container(LOG))
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    faulty.on(patches("/pods/web-"), lambda _: Answer(422, message="images must be signed"))
    await change(stage, container(LOG, "log:2"))


async def no_manager_runs(stage: Stage) -> None:
    await create_set(stage, container(LOG))


CASES = (
    Stuck(the_image_cannot_be_pulled, "ImagePull", "image log:2 of container log cannot be pulled", ways=3),
    Stuck(the_sidecar_is_never_ready, "NotReady", "container log runs, but is not ready", ways=2),
    Stuck(upgrades_are_paused, "Paused", "set spec.updateStrategy.paused to false", "paused"),
    Stuck(the_partition_keeps_pods, "Partition", "lower spec.updateStrategy.partition", "done"),
    Stuck(
        pods_are_only_injected, "NotUpdate", "set spec.updateStrategy.type to RollingUpdate", "done", ways=2
    ),
    Stuck(pods_are_not_selected, "NothingSelected", "(canary=yes) matches no pod", ways=2),
    Stuck(more_than_images_changed, "NotInPlace", "(containers[log].env)"),
    Stuck(
        the_other_twin_is_never_idle,
        "NotReady",
        "container log-2 runs, but is not ready",
        ways=2,
        useless=(1,),
    ),
    Stuck(an_annotation_is_in_the_way, "BrokenUpdate", "example.com/levels", ways=2),
    Stuck(no_pod_matches, "NoPods", "no pod matches spec.selector", "done"),
    Stuck(no_namespace_is_selected, "NoPods", "does not select their namespaces", "done", ways=2),
    Stuck(pods_were_there_before, "NotInjected", "it is older than this SidecarSet"),
    Stuck(webhooks_were_down, "NotInjected", "webhooks were not called"),
    Stuck(the_namespace_is_left_out, "NotInjected", "remove the label control-plane=openkruise"),
    Stuck(
        injection_is_paused, "InjectionPaused", "set spec.injectionStrategy.paused to false", "done", ways=2
    ),
    Stuck(
        injection_is_paused_and_pods_are_older,
        "NotInjected",
        "set spec.injectionStrategy.paused to false, then recreate the pods",
        ways=2,
    ),
    Stuck(a_canary_takes_its_place, "Canary", "it has the sidecars of canary log-canary", "done", ways=0),
    Stuck(two_have_one_container, "Conflict", "container log already exist in other", ways=2),
    Stuck(a_revision_is_not_stored, "InjectionFails", "log-none of SidecarSet log is not stored"),
    Stuck(the_upgrade_is_refused, "WriteFailed", "images must be signed", ways=0),
    Stuck(no_manager_runs, "NoManager", "check that the manager runs", ways=2),
)


async def explanation_of(stage: Stage, case: Stuck) -> Explanation:
    """The explanation, once it names the cause."""
    return await explain_until(
        stage,
        SIDECAR_SET,
        Key("", LOG),
        lambda result: (result.cause, result.verdict) == (case.cause, case.verdict),
        within_s=90.0,
        lasts=False,
    )


@pytest.mark.parametrize("case", each_case(CASES))
async def test_explain_names_the_true_cause(
    stage: Stage, case: Stuck, request: pytest.FixtureRequest
) -> None:
    # given
    await case.stage_it(stage)
    # when
    said = format_explanation(await explanation_of(stage, case), now=stage.clock())
    # then
    assert case.says in said
    if request.config.getoption("--cluster") == "sandbox":
        same_as(GOLDEN / f"{case.stage_it.__name__}.txt", said, with_ages=False)


async def test_a_finished_rollout_waits_for_nothing(stage: Stage) -> None:
    await with_sidecars(stage)
    explanation = await read_and_explain(stage.client, Key("", LOG), now=stage.clock(), kind=SIDECAR_SET)
    assert (explanation.verdict, explanation.waits, explanation.next) == ("done", (), ())
    assert explanation.headline.startswith("3 of 3 pods")


async def test_explain_only_reads(stage: Stage) -> None:
    # given
    await the_image_cannot_be_pulled(stage)
    reading = FaultyTransport(stage.client.transport)
    # when
    client = stage.client.replace_transport(reading)
    await read_and_explain(client, Key("", LOG), now=stage.clock(), kind=SIDECAR_SET)
    # then
    assert {request.method for request in reading.log} == {"GET"}


@pytest.mark.virtual_time("as many as there are remedies")
@pytest.mark.parametrize(("case", "number"), each_way(CASES))
async def test_no_remedy_makes_pods_unavailable(stage: Stage, case: Stuck, number: int) -> None:
    # given
    await case.stage_it(stage)
    explanation = await explanation_of(stage, case)
    same_as(
        GOLDEN / f"{case.stage_it.__name__}.txt",
        format_explanation(explanation, now=stage.clock()),
        with_ages=False,
    )
    # when, then
    await follow_way(stage, SIDECAR_SET, Key("", LOG), case, number, explanation)
