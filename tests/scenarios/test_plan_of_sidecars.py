"""`pykruise plan` of SidecarSets: the manager does exactly what it has said."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykruise.cli.insight.effect_forecast import Outlook
from pykruise.cli.plan import compute_exit_code, describe_forecast, plan_document
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.documents import Document, decode
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.manager.settings import NAMESPACE
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.faults import FaultyTransport
from support.golden import same_as
from support.scenario import Object, Stage, cloneset
from support.sidecarsets import container, hot, sidecarset

LOG = "log"
GOLDEN = Path(__file__).parent / "golden" / "plan" / "sidecarset"


def manifest(stage: Stage, *containers: Object, **spec: Any) -> Document:
    """A SidecarSet for pods of the scenario's namespace alone."""
    doc = sidecarset(LOG, *containers, **spec)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    return {**doc, "spec": {"namespaceSelector": selector, **doc["spec"]}}


async def plan(stage: Stage, doc: Document) -> Outlook:
    plan = await plan_document(stage.client, doc, namespace=stage.namespace, now=stage.clock())
    assert isinstance(plan, Outlook)
    return plan


async def with_sidecars(stage: Stage, *containers: Object, replicas: int = 5, **spec: Any) -> None:
    """A manager, a SidecarSet, and pods that have its sidecars and are ready."""
    await stage.start_manager()
    await stage.create(manifest(stage, *(containers or (container(LOG),)), **spec), resource=SIDECAR_SETS)
    await stage.create(cloneset(replicas=replicas))
    await stage.settled(replicas=replicas)
    await ready(stage, replicas)


async def ready(stage: Stage, count: int) -> None:
    """Wait until that many pods have sidecars and are ready."""

    async def are_known() -> bool:
        result = await stage.get(LOG, resource=SIDECAR_SETS)
        status = result.get("status") or {}
        is_latest = status.get("observedGeneration") == result["metadata"]["generation"]
        return is_latest and status.get("readyPods") == count

    await stage.until(are_known)


def text_of(outlook: Outlook) -> str:
    return "\n".join(describe_forecast(outlook)) + "\n"


def golden(request: pytest.FixtureRequest, name: str, outlook: Outlook) -> None:
    """Compare the plan with its golden file, in the sandbox only, where all names are fixed."""
    if request.config.getoption("--cluster") == "sandbox":
        same_as(GOLDEN / f"{name}.txt", text_of(outlook))


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        ({"maxUnavailable": 2}, "two-at-a-time"),
        ({"maxUnavailable": "100%"}, "all-at-once"),
        ({"partition": 3}, "partition"),
        ({"partition": "50%", "maxUnavailable": 2}, "half"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_pods_are_upgraded_in_the_batches_that_were_planned(
    stage: Stage, request: pytest.FixtureRequest, strategy: Object, name: str
) -> None:
    # given
    await with_sidecars(stage)
    doc = manifest(stage, container(LOG, "log:2"), updateStrategy=strategy)
    # when
    outlook = await plan(stage, doc)
    order: list[str] = []

    def watch(change: Change[PodView]) -> None:
        if change.old is not None and change.new is not None and _hash(change.old) != _hash(change.new):
            order.append(f"{change.key.namespace}/{change.key.name}")

    cache = Cache(
        stage.client, PODS, project=project_pod, namespace=stage.namespace, clock=stage.clock, rng=stage.rng
    )
    cache.subscribe(watch)
    watching = asyncio.create_task(cache.run())
    await cache.wait_synced()
    await stage.merge(LOG, {"spec": doc["spec"]}, resource=SIDECAR_SETS)
    batches = [{fate.pod for fate in batch.fates} for batch in outlook.batches]
    await stage.until(lambda: len(order) >= sum(map(len, batches)))
    await ready(stage, 5)
    await asyncio.sleep(1)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    # then
    golden(request, name, outlook)
    assert outlook.change == "changed"
    assert compute_exit_code([outlook]) == 2
    assert len(order) == sum(map(len, batches))
    assert set(order) == set().union(*batches)
    if request.config.getoption("--cluster") == "sandbox":  # elsewhere pods become ready one before the other
        assert [set(order[at : at + len(place)]) for at, place in _places(batches)] == batches


def _hash(pod: PodView) -> str:
    return pod.annotations.get(keys.SIDECARSET_HASH_ANNOTATION, "")


def _places(batches: list[set[str]]) -> list[tuple[int, set[str]]]:
    at, places = 0, []
    for batch in batches:
        places.append((at, batch))
        at += len(batch)
    return places


async def test_a_change_that_only_new_pods_get_is_reported_with_its_field(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    await with_sidecars(stage, replicas=3)
    changed = container(LOG, "log:2", env=[{"name": "LEVEL", "value": "debug"}])
    outlook = await plan(stage, manifest(stage, changed))
    golden(request, "recreation", outlook)
    assert outlook.batches == ()
    [why] = outlook.stays
    assert why.startswith("only when the pod is recreated")
    assert "containers[log].env" in why


async def test_hot_sidecars_are_upgraded_and_the_old_containers_become_idle(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    await with_sidecars(stage, hot(LOG, "log:1"), replicas=2)
    outlook = await plan(stage, manifest(stage, hot(LOG, "log:2")))
    golden(request, "hot", outlook)
    assert [len(batch.fates) for batch in outlook.batches] == [1, 1]
    assert (
        "containers log-1 (log:2) and log-2 (empty:1, idle), before the pod's own containers"
        in outlook.new_pods
    )


async def test_existing_pods_are_not_changed(stage: Stage, request: pytest.FixtureRequest) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    await asyncio.sleep(1.1)  # times of creation are whole seconds
    annotations = [{"annotations": {"example.com/by": "log"}, "patchPolicy": "Retain"}]
    with stage.past_admission():  # admission would require a whitelist of annotations
        outlook = await plan(stage, manifest(stage, container(LOG), patchPodMetadata=annotations))
    golden(request, "created", outlook)
    assert (outlook.change, outlook.batches) == ("created", ())
    assert not await stage.exists(LOG, resource=SIDECAR_SETS)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"updateStrategy": {"paused": True}}, "paused"),
        ({"updateStrategy": {"type": "NotUpdate"}}, "not-update"),
        ({"injectionStrategy": {"paused": True}}, "injection-paused"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_paused_sidecarset_is_reported(
    stage: Stage, request: pytest.FixtureRequest, spec: Object, name: str
) -> None:
    await with_sidecars(stage, replicas=2)
    golden(request, name, await plan(stage, manifest(stage, container(LOG, "log:2"), **spec)))


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        ({"partition": "30%"}, "revision-of-a-share"),
        ({"partition": 1}, "revision-of-no-new-pod"),
        ({"selector": {"matchLabels": {"is": "canary"}}}, "revision-outside-of-the-selector"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_pods_that_get_the_revision_of_the_injection_strategy_are_named(
    stage: Stage, request: pytest.FixtureRequest, strategy: Object, name: str
) -> None:
    await with_sidecars(stage, replicas=2)
    label = f"kruise.io/sidecarset-name={LOG}"
    revisions = await stage.client.list(CONTROLLER_REVISIONS, NAMESPACE, label_selector=label)
    revision = decode(revisions.items[0])["metadata"]["name"]
    injection = {"revision": {"revisionName": revision, "policy": "Partial"}}
    spec = {"injectionStrategy": injection, "updateStrategy": strategy}
    golden(request, name, await plan(stage, manifest(stage, container(LOG, "log:2"), **spec)))


async def test_an_upgrade_in_progress_is_reported_too(stage: Stage) -> None:
    # given a partition has stopped it
    await with_sidecars(stage, replicas=3, updateStrategy={"partition": 3})
    doc = manifest(stage, container(LOG, "log:2"), updateStrategy={"partition": 3})
    await stage.merge(LOG, {"spec": doc["spec"]}, resource=SIDECAR_SETS)
    # when it is lifted
    doc["spec"]["updateStrategy"] = {"partition": 1}
    outlook = await plan(stage, doc)
    # then
    assert tuple(map(str, outlook.fields)) == ("spec.updateStrategy.partition: 3 → 1",)
    assert [len(batch.fates) for batch in outlook.batches] == [1, 1]
    assert len(outlook.stays["the partition keeps it at its revision"]) == 1


async def test_an_unchanged_sidecarset_has_an_empty_plan(stage: Stage) -> None:
    await with_sidecars(stage, replicas=2)
    outlook = await plan(stage, manifest(stage, container(LOG)))
    assert (outlook.change, compute_exit_code([outlook])) == ("unchanged", 0)
    assert text_of(outlook) == "SidecarSet log: nothing would change\n"


async def test_all_errors_of_admission_are_listed(stage: Stage) -> None:
    bad = manifest(stage, container(LOG, podInjectPolicy="Somewhere"), updateStrategy={"maxUnavailable": -1})
    outlook = await plan(stage, bad)
    assert (outlook.change, compute_exit_code([outlook])) == ("refused", 1)
    assert len(outlook.errors) == 2
    assert "spec.containers[0].podInjectPolicy" in text_of(outlook)


async def test_planning_writes_nothing(stage: Stage) -> None:
    await with_sidecars(stage, replicas=2)
    writing = FaultyTransport(stage.client.transport)
    doc = manifest(stage, container(LOG, "log:2"))
    await plan_document(
        stage.client.replace_transport(writing), doc, namespace=stage.namespace, now=stage.clock()
    )
    written = [request for request in writing.log if request.method not in ("GET", "STREAM")]
    assert [request.query.get("dryRun") for request in written] == ["All"]
