"""SidecarSets beside workloads of any kind: injected, upgraded, and never in each other's way."""

import asyncio
from functools import partial

import orjson
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.gates import Gates
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.documents import Document, annotations_of, decode
from pykruise.kube.errors import ApiError, InvalidError
from pykruise.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, PODS, Resource
from pykruise.manager.settings import NAMESPACE, ManagerSettings
from pykruise.pods.workload.options import UPDATED_PODS
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Stage, cloneset, rolling
from support.sidecarsets import by_name, container, hot, names, sidecarset

LOG = "log"

RESTART_RULES_SINCE = 35
"""The minor of Kubernetes whose containers have `restartPolicyRules`."""


async def create_set(stage: Stage, doc: Document) -> Document:
    """The SidecarSet, for pods of the scenario's namespace alone."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    bound = {**doc, "spec": {"namespaceSelector": selector, **doc["spec"]}}
    return await stage.create(bound, resource=SIDECAR_SETS)


async def set_images(stage: Stage, *containers: Document, name: str = LOG) -> None:
    await stage.merge(name, {"spec": {"containers": list(containers)}}, resource=SIDECAR_SETS)


async def status(stage: Stage, name: str = LOG) -> Document:
    """The SidecarSet's status if it is about the current spec, else an empty one."""
    result = await stage.get(name, resource=SIDECAR_SETS)
    current: Document = result.get("status") or {}
    return current if current.get("observedGeneration") == result["metadata"]["generation"] else {}


async def upgraded(stage: Stage, count: int, name: str = LOG) -> list[Document]:
    """Wait until that many pods have the present sidecars and are ready; returns all pods."""

    async def is_done() -> bool:
        current = await status(stage, name)
        wanted = ("matchedPods", "updatedPods", "readyPods", "updatedReadyPods")
        return all(current.get(field) == count for field in wanted)

    await stage.until(is_done, what=f"{name} upgraded in {count} pods")
    return await stage.stored(PODS)


def workload(kind: Resource, replicas: int) -> Document:
    """A workload with the container main and pods labelled app=web."""
    doc = cloneset(replicas=replicas)
    doc |= {"apiVersion": kind.api_version, "kind": kind.kind}
    if kind is DAEMON_SETS:
        doc["spec"].pop("replicas")
        doc["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"}
    return doc


@pytest.mark.node
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        pytest.param(CLONE_SETS, 3, id="CloneSet"),
        pytest.param(DEPLOYMENTS, 3, id="Deployment"),
        pytest.param(DAEMON_SETS, 1, id="DaemonSet"),
    ],
)
async def test_pods_of_any_workload_get_the_sidecar_and_its_upgrades(
    stage: Stage, kind: Resource, count: int
) -> None:
    # given
    stored = await create_set(stage, sidecarset(LOG, container(LOG)))
    await stage.start_manager()
    # when
    await stage.create(workload(kind, count), resource=kind)
    before = await upgraded(stage, count)
    # then
    for pod in before:
        assert names(pod) == [LOG, "main"]
        record = orjson.loads(annotations_of(pod)["kruise.io/sidecarset-hash"])[LOG]
        assert record["hash"] == annotations_of(stored)["kruise.io/sidecarset-hash"]
        assert annotations_of(pod)["kruise.io/sidecarset-injected-list"] == LOG
    # when
    await set_images(stage, container(LOG, "log:2"))
    after = await upgraded(stage, count)
    # then the same pods run it, and no others were made
    assert {entry["metadata"]["uid"] for entry in after} == {entry["metadata"]["uid"] for entry in before}
    assert {by_name(entry, LOG)["image"] for entry in after} == {"log:2"}
    assert {by_name(entry, "main")["image"] for entry in after} == {"nginx:1"}
    revisions = (
        await stage.client.list(
            CONTROLLER_REVISIONS, NAMESPACE, label_selector=f"kruise.io/sidecarset-name={LOG}"
        )
    ).items
    assert len(revisions) == 2


SCALING = ManagerSettings(gates=Gates.of(InPlaceWorkloadVerticalScaling=True))


async def policy_of_the_future(stage: Stage) -> Document:
    """Fields of a container that pykruise does not know: of a newer Kubernetes, or invented."""
    version = decode(await stage.client.get_path("/version"))
    if int(version["minor"].rstrip("+")) < RESTART_RULES_SINCE:
        return {"policyOfTheFuture": {"restartPolicy": "Sometimes"}}
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    # Not OnFailure: a container that ends with code 0 for its new image might not start again.
    return {"restartPolicy": "Always", "restartPolicyRules": [rule]}


def unchanging(pod: Document) -> Document:
    """Name of a container → its fields without those that the CloneSet and the SidecarSet change."""
    changing = ("image", "resources")
    containers = {
        container["name"]: {field: value for field, value in container.items() if field not in changing}
        for container in pod["spec"]["containers"]
    }
    return {**pod["spec"], "containers": containers}


def main(image: str, cpu: str, further: Document) -> Document:
    """The CloneSet's own container."""
    return {
        **further,
        "name": "main",
        "image": image,
        "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "900m"}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


@pytest.mark.node
async def test_a_cloneset_and_a_sidecarset_change_the_same_pods_concurrently(stage: Stage) -> None:
    """Images and amounts of both change while managers are killed; all converge, and no pod is recreated."""
    # given
    await create_set(stage, sidecarset(LOG, container(LOG), updateStrategy={"maxUnavailable": 2}))
    manager = await stage.start_manager(settings=SCALING)
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=2)
    body = cloneset(replicas=4, updateStrategy=strategy)
    further = await policy_of_the_future(stage)
    body["spec"]["template"]["spec"]["containers"] = [main("nginx:1", "100m", further)]
    await stage.create(body)
    await stage.settled(replicas=4)
    before = await upgraded(stage, 4)
    # when both change, and the manager dies again and again
    template = {"spec": {"containers": [main("nginx:2", "200m", further)]}}
    await stage.merge("web", {"spec": {"template": template}})
    await set_images(stage, container(LOG, "log:2"))
    for pause_s in (0.3, 0.7, 1.1):
        await asyncio.sleep(pause_s)
        await stage.kill_manager(manager)
        manager = await stage.start_manager(settings=SCALING)
    # then
    await stage.settled(replicas=4, updated=4)
    after = await upgraded(stage, 4)
    assert {entry["metadata"]["uid"] for entry in after} == {entry["metadata"]["uid"] for entry in before}
    for pod in after:
        assert by_name(pod, LOG)["image"] == "log:2"
        own = by_name(pod, "main")
        assert (own["image"], own["resources"]["requests"]["cpu"]) == ("nginx:2", "200m")
        assert own["resizePolicy"] == [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
        assert own["terminationMessagePolicy"] == "FallbackToLogsOnError"
        assert [unchanging(pod)] == [
            unchanging(entry) for entry in before if entry["metadata"]["uid"] == pod["metadata"]["uid"]
        ]
        running = {status["name"]: status["image"] for status in pod["status"]["containerStatuses"]}
        assert running[LOG].endswith("log:2")
        assert running["main"].endswith("nginx:2")


@pytest.mark.node
async def test_a_hot_upgrade_ends_with_one_working_and_one_idle_container(stage: Stage) -> None:
    """sidecarset cases 73 and 75"""
    # given
    await create_set(stage, sidecarset("mesh", hot("mesh")))
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    before = await upgraded(stage, 2, "mesh")
    # when
    await set_images(stage, hot("mesh", "mesh:2"), name="mesh")
    after = await upgraded(stage, 2, "mesh")
    # then
    assert {entry["metadata"]["uid"] for entry in after} == {entry["metadata"]["uid"] for entry in before}
    for pod in after:
        assert by_name(pod, "mesh-1")["image"] == "empty:1"
        assert by_name(pod, "mesh-2")["image"] == "mesh:2"
    events = await stage.events("ResetContainerSucceed")
    assert {event["involvedObject"]["name"] for event in events} == {
        entry["metadata"]["name"] for entry in after
    }


async def test_a_pod_that_cannot_be_injected_is_refused_whole(stage: Stage) -> None:
    """sidecarset case 55"""
    policy = {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu - 2"}}}
    await create_set(stage, sidecarset(LOG, container(LOG, resourcesPolicy=policy)))
    limited = {"name": "main", "image": "nginx:1", "resources": {"limits": {"cpu": "1"}}}
    pod = {"metadata": {"name": "x", "labels": {"app": "web"}}, "spec": {"containers": [limited]}}

    async def is_refused() -> str:
        try:
            await stage.create(pod, resource=PODS)
        except ApiError as error:
            return str(error)
        await stage.delete("x", resource=PODS, grace_period_s=0)
        return ""

    message = await stage.until(is_refused, what="the pod is refused")
    assert "must not be negative" in message
    assert LOG in message


async def test_a_bad_sidecarset_is_refused_with_its_fields(stage: Stage) -> None:
    bad = sidecarset("bad", container("Bad"), hot("mesh", empty=""), selector={})
    with pytest.raises(InvalidError) as caught:
        await stage.create(bad, resource=SIDECAR_SETS)
    assert {cause.field for cause in caught.value.causes} >= {
        "spec.selector",
        "spec.containers[0].name",
        "spec.containers[1].upgradeStrategy.hotUpgradeEmptyImage",
    }


@pytest.mark.node
async def test_an_older_revision_is_injected_when_it_is_selected(stage: Stage) -> None:
    """sidecarset cases 48 and 51"""
    # given two revisions
    await create_set(stage, sidecarset(LOG, container(LOG), customVersion="v1"))
    await stage.start_manager()
    first = (await stage.until(lambda: status(stage)))["latestRevision"]
    await stage.merge(
        LOG, {"spec": {"containers": [container(LOG, "log:2")], "customVersion": "v2"}}, resource=SIDECAR_SETS
    )

    async def second() -> bool:
        current = await status(stage)
        return bool(current) and current["latestRevision"] != first

    await stage.until(second)
    # when
    choice = {
        "injectionStrategy": {"revision": {"customVersion": "v1"}},
        "updateStrategy": {"type": "NotUpdate"},
    }
    await stage.merge(LOG, {"spec": choice}, resource=SIDECAR_SETS)
    pod = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    numbers = iter(range(1000))

    async def created() -> Document | None:
        named = {**pod, "metadata": {**pod["metadata"], "name": f"x-{next(numbers)}"}}
        outcome = await stage.create(named, resource=PODS)
        return outcome if by_name(outcome, LOG)["image"] == "log:1" else None

    # then
    result = await stage.until(created, what="a pod gets the first revision")
    assert (
        orjson.loads(annotations_of(result)["kruise.io/sidecarset-hash"])[LOG]["controllerRevision"] == first
    )


async def test_a_fixed_number_of_pods_has_the_newest_sidecars_while_the_workload_scales(stage: Stage) -> None:
    """sidecarset case 94"""
    # given
    await create_set(stage, sidecarset(LOG, container(LOG, "log:1"), customVersion="v1"))
    await stage.start_manager()
    await stage.create(cloneset(replicas=4))
    await upgraded(stage, 4)
    # when two pods must get the new image
    change = {
        "metadata": {"annotations": {UPDATED_PODS.annotation: "2"}},
        "spec": {
            "containers": [container(LOG, "log:2")],
            "customVersion": "v2",
            "injectionStrategy": {"revision": {"customVersion": "v1"}},
        },
    }
    await stage.merge(LOG, change, resource=SIDECAR_SETS)

    async def has(updated: int, pods: int) -> bool:
        current = await status(stage)
        numbers = [current.get(field) for field in ("matchedPods", "updatedPods", "updatedReadyPods")]
        return numbers == [pods, updated, updated]

    # then
    await stage.until(lambda: has(2, 4))
    # when the workload scales
    for replicas in (7, 1, 5):
        await stage.merge("web", {"spec": {"replicas": replicas}})
        # then
        await stage.until(partial(has, min(2, replicas), replicas), what=f"2 of {replicas}")
        await asyncio.sleep(1)
        assert await has(min(2, replicas), replicas)
    # when the annotation is removed
    await stage.merge(
        LOG, {"metadata": {"annotations": {UPDATED_PODS.annotation: None}}}, resource=SIDECAR_SETS
    )
    # then
    await upgraded(stage, 5)


@pytest.mark.node
async def test_pods_recreated_by_their_workload_are_injected_afresh(stage: Stage) -> None:
    """section 6.13"""
    await create_set(stage, sidecarset(LOG, container(LOG)))
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    before = await upgraded(stage, 2)
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=2, updated=2)
    after = await upgraded(stage, 2)
    assert {entry["metadata"]["uid"] for entry in after}.isdisjoint(
        entry["metadata"]["uid"] for entry in before
    )
    assert all(names(entry) == [LOG, "main"] for entry in after)


@pytest.mark.node
async def test_a_deleted_sidecarset_keeps_its_pods_and_deletes_its_revisions(stage: Stage) -> None:
    """sidecarset case 81"""
    await create_set(stage, sidecarset(LOG, container(LOG)))
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    before = await upgraded(stage, 2)
    await stage.delete(LOG, resource=SIDECAR_SETS)

    async def no_revisions() -> bool:
        label = f"kruise.io/sidecarset-name={LOG}"
        return not (await stage.client.list(CONTROLLER_REVISIONS, NAMESPACE, label_selector=label)).items

    await stage.until(no_revisions, what="its revisions are collected")
    after = await stage.stored(PODS)
    assert [names(entry) for entry in after] == [names(entry) for entry in before]


@pytest.mark.node
@pytest.mark.needs_admission
async def test_a_startup_probe_must_be_complete(stage: Stage) -> None:
    """sidecarset section 4.3: liveness and readiness probes get defaults, startup probes do not"""
    # given
    probe = {"tcpSocket": {"port": 80}}
    # when
    with pytest.raises(InvalidError) as refused:
        await create_set(stage, sidecarset(LOG, container("log", startupProbe=probe, livenessProbe=probe)))
    # then
    [cause] = refused.value.causes
    assert cause.field == "spec.containers[0].startupProbe.successThreshold"
    # when it is complete, then it is stored as it is given
    whole = {**probe, "successThreshold": 1}
    stored = await create_set(stage, sidecarset(LOG, container("log", startupProbe=whole)))
    assert stored["spec"]["containers"][0]["startupProbe"] == whole


@pytest.mark.needs_admission
async def test_ready_pods_are_counted_also_where_nothing_is_updated(stage: Stage) -> None:
    # given a SidecarSet that is put into new pods only
    await stage.start_manager()
    await create_set(stage, sidecarset(LOG, container("log"), updateStrategy={"type": "NotUpdate"}))
    await stage.create(workload(CLONE_SETS, 2))

    async def are_ready(count: int) -> bool:
        return (await status(stage)).get("readyPods") == count

    await stage.until(partial(are_ready, 2))
    # when one goes bad
    name = (await stage.pods())[0].name
    stage.kubelets.set_rules([Rule(pod=name, never_ready=True)])
    # then
    await stage.until(partial(are_ready, 1))
    # when it recovers
    stage.kubelets.set_rules([])
    # then
    await stage.until(partial(are_ready, 2))
