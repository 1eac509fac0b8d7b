"""The manager does exactly what `pykruise plan` has said.

A cluster comes to rest; a change is planned, then made. Every write of the manager is compared with the plan: the
operation, the pod and the order. Names of new pods are random, so only their position in the order is compared. On a
real cluster pods become ready after different times, so there only operations and pods are compared, not the order.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from pykruise.cli.insight.forecasting import Forecast, forecast
from pykruise.cli.plan import compute_exit_code, describe_forecast
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.sandbox.cluster import ClusterSettings
from support.daemonsets import Pool
from support.faults import FaultyTransport, Request
from support.scenario import Object, Stage, cloneset, rolling
from support.statefulsets import Sets, claim_template, statefulset


@pytest.fixture
def cluster_settings(request: pytest.FixtureRequest) -> ClusterSettings:
    """Settings with which every pod becomes ready after the same time, as a forecast assumes."""
    start_s = 0.2 if request.config.getoption("--cluster") == "real" else 2.0
    return ClusterSettings(nodes=4, start_s=start_s, ready_s=0.0, stop_s=start_s / 2)


Ordered = Callable[[Iterable[tuple[str, str]]], list[tuple[str, str]]]


@pytest.fixture
def ordered(request: pytest.FixtureRequest) -> Ordered:
    """A function that orders operations: on a real cluster it sorts them, because their order cannot be predicted."""
    return sorted if request.config.getoption("--cluster") == "real" else list


def random_case(seed: int) -> tuple[Object, Object]:
    """A CloneSet, and a merge patch of its spec."""
    rng = random.Random(seed)
    policy = rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible", "InPlaceOnly"))
    fields: dict[str, Any] = {"podUpdatePolicy": policy, "maxUnavailable": rng.choice((1, 2, 3, "50%"))}
    if policy != "InPlaceOnly" and rng.random() < 0.4:
        fields["maxSurge"] = rng.choice((1, 2))
    if rng.random() < 0.4:
        fields["partition"] = rng.choice((1, 2, "50%", "99%"))
    document = cloneset(replicas=rng.randint(2, 9), updateStrategy=rolling(**fields))
    if rng.random() < 0.3:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        document["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    change: Object = {}
    containers = [{"name": "main", "image": "nginx:1"}]
    if rng.random() < 0.8:
        containers = [{"name": "main", "image": "nginx:2"}]
    if policy != "InPlaceOnly" and rng.random() < 0.3:
        containers[0]["env"] = [{"name": "A", "value": "1"}]  # type: ignore[assignment]
    change["template"] = {"spec": {"containers": containers}}
    if rng.random() < 0.4:
        change["replicas"] = rng.randint(1, 10)
    return document, change


def operations(log: Sequence[Request], namespace: str) -> list[tuple[str, str]]:
    """Operations of the manager's requests on pods of a namespace, in order; a new pod has no name."""
    operations: list[tuple[str, str]] = []
    new: set[str] = set()
    for request in log:
        if f"/{namespace}/pods" not in request.path:
            continue  # CloneSets of previous tests may still terminate
        name = request.path.partition("/pods/")[2].partition("/")[0]
        if request.method == "POST":
            new.add(request.to_document["metadata"]["name"])
            operations.append(("create", ""))
        elif request.method == "DELETE":
            operations.append(("delete", "" if name in new else name))
        elif request.method == "PATCH":
            labels = (request.to_document.get("metadata") or {}).get("labels") or {}
            if "controller-revision-hash" in labels:
                operations.append(("update in place", "" if name in new else name))
    return operations


def planned_operations(said: Forecast) -> list[tuple[str, str]]:
    """The operations of a plan, in the form of the manager's operations."""
    new: set[str] = set()
    operations: list[tuple[str, str]] = []
    for batch in said.batches:
        for fate in batch.fates:
            if fate.do == "create":
                new.add(fate.pod)
            operations.append((fate.do, "" if fate.pod in new else fate.pod))
    return operations


@pytest.mark.few_on_real(5)
@pytest.mark.parametrize("seed", range(16))
async def test_the_manager_executes_exactly_the_plan_of_a_cloneset(
    stage: Stage, ordered: Ordered, seed: int
) -> None:
    # given a CloneSet at rest
    document, change = random_case(seed)
    watched = FaultyTransport(stage.manager_transport())
    await stage.start_manager(watched)
    await stage.create(document)
    replicas = document["spec"]["replicas"]
    await stage.settled(replicas=replicas)
    # when the change is planned, and then made
    changed = apply_merge_patch(document, {"spec": change})
    said = await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())
    before = len(watched.log)
    await stage.merge("web", {"spec": change})
    wanted = change.get("replicas", replicas)
    result = await stage.until(lambda: _rest(stage, wanted), what="the change to be carried out")
    # then
    assert ordered(planned_operations(said)) == ordered(operations(watched.log[before:], stage.namespace))
    assert said.pods_after == result["status"]["replicas"]
    assert compute_exit_code([said]) == 2 or not planned_operations(said)


async def _rest(stage: Stage, replicas: int) -> Object | None:
    rest = await stage.get("web")
    status = rest.get("status") or {}
    pods = await stage.pods()
    is_there = (
        status.get("observedGeneration") == rest["metadata"]["generation"]
        and status.get("replicas") == status.get("availableReplicas") == replicas == len(pods)
        and status.get("updatedReplicas", 0) >= status.get("expectedUpdatedReplicas", 0)
        and not any(pod.is_deleting for pod in pods)
    )
    return rest if is_there else None


def random_daemonset_case(seed: int, pool: Pool) -> tuple[Object, Object]:
    """A DaemonSet on the pool, and a merge patch of its spec."""
    rng = random.Random(seed)
    fields: dict[str, Any] = {"maxUnavailable": rng.choice((1, 2, "50%"))}
    sort = rng.choice(("Standard", "InPlaceIfPossible", "Surge"))
    if sort == "Surge":
        fields = {"maxSurge": rng.choice((1, 2)), "maxUnavailable": 0}
    else:
        fields["rollingUpdateType"] = sort
    if rng.random() < 0.4:
        fields["partition"] = rng.choice((1, 2))
    containers: list[Object] = [{"name": "main", "image": "nginx:2"}]
    if rng.random() < 0.3:
        containers[0]["env"] = [{"name": "A", "value": "1"}]
    document = pool.daemonset(updateStrategy=rolling(**fields))
    return document, {"template": {"spec": {"containers": containers}}}


@pytest.mark.few_on_real(4)
@pytest.mark.parametrize("seed", range(10))
async def test_the_manager_executes_exactly_the_plan_of_a_daemonset(
    stage: Stage, pool: Pool, ordered: Ordered, seed: int
) -> None:
    # given a DaemonSet at rest
    document, change = random_daemonset_case(seed, pool)
    watched = FaultyTransport(stage.manager_transport())
    await stage.start_manager(watched)
    await stage.create(document, resource=DAEMON_SETS)
    await pool.settled()
    # when the change is planned, and then made
    changed = apply_merge_patch(document, {"spec": change})
    said = await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())
    before = len(watched.log)
    await pool.change(**change)
    partition = document["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0)
    await pool.settled(updated=len(pool.nodes) - partition)
    # then
    assert ordered(planned_operations(said)) == ordered(operations(watched.log[before:], stage.namespace))
    assert said.pods_after == len(pool.nodes)
    assert compute_exit_code([said]) == 2


def random_statefulset_case(seed: int) -> tuple[Object, Object, int]:
    """A StatefulSet, a merge patch of its spec, and how many pods are new in the end."""
    rng = random.Random(seed)
    is_parallel = rng.random() < 0.6
    policy = rng.choice(("ReCreate", "InPlaceIfPossible"))
    replicas, partition = rng.randint(2, 6), rng.choice((0, 0, 1, 2))
    fields: dict[str, Any] = {"podUpdatePolicy": policy, "partition": partition}
    if is_parallel:
        fields["maxUnavailable"] = rng.choice((1, 2, "50%"))
    document = statefulset(
        replicas=replicas,
        podManagementPolicy="Parallel" if is_parallel else "OrderedReady",
        updateStrategy=rolling(**fields),
        reserveOrdinals=rng.choice(([], [1], ["0-1"])),
    )
    if rng.random() < 0.4:
        document["spec"]["volumeClaimTemplates"] = [claim_template()]
    containers: list[Object] = [{"name": "main", "image": "nginx:2"}]
    if rng.random() < 0.3:
        containers[0]["env"] = [{"name": "A", "value": "1"}]
    change: Object = {"template": {"spec": {"containers": containers}}}
    if rng.random() < 0.5:
        change["replicas"] = rng.randint(1, 7)
    return document, change, max(change.get("replicas", replicas) - partition, 0)


@pytest.mark.few_on_real(4)
@pytest.mark.parametrize("seed", range(12))
async def test_the_manager_executes_exactly_the_plan_of_a_statefulset(
    stage: Stage, ordered: Ordered, seed: int
) -> None:
    # given a StatefulSet at rest
    document, change, updated = random_statefulset_case(seed)
    sets = Sets(stage)
    watched = FaultyTransport(stage.manager_transport())
    await stage.start_manager(watched)
    await stage.create(document, resource=ADVANCED_STATEFUL_SETS)
    await sets.until(lambda: _all_serve(sets, document["spec"]["replicas"]), what="the pods")
    # when the change is planned, and then made
    changed = apply_merge_patch(document, {"spec": change})
    said = await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())
    before = len(watched.log)
    await sets.change(**change)
    wanted = changed["spec"]["replicas"]
    await sets.until(lambda: _all_serve(sets, wanted, updated=updated), what="the change to be carried out")
    # then, by name: pods of a StatefulSet have theirs beforehand
    made = [(fate.do, fate.pod) for batch in said.batches for fate in batch.fates if fate.do == "create"]
    posted = [
        request
        for request in watched.log[before:]
        if request.method == "POST" and request.path.endswith(f"/{stage.namespace}/pods")
    ]
    assert ordered(made) == ordered(("create", request.to_document["metadata"]["name"]) for request in posted)
    assert ordered(planned_operations(said)) == ordered(operations(watched.log[before:], stage.namespace))
    assert said.pods_after == wanted
    assert compute_exit_code([said]) == 2


async def _all_serve(sets: Sets, replicas: int, *, updated: int = 0) -> bool:
    result = await sets.get()
    status = result.get("status") or {}
    there = await sets.pods()
    return (
        status.get("observedGeneration") == result["metadata"]["generation"]
        and status.get("replicas") == status.get("availableReplicas") == replicas == len(there)
        and status.get("updatedReplicas", 0) >= updated
        and not any(pod.is_deleting for pod in there.values())
    )


async def test_a_plan_writes_nothing_and_is_repeatable(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=4))
    await stage.settled(replicas=4)
    changed = cloneset(replicas=3, image="nginx:2")
    reading = FaultyTransport(stage.client.transport)
    client = stage.client.replace_transport(reading)
    # when
    first = await forecast(client, changed, namespace=stage.namespace, now=stage.clock())
    second = await forecast(client, changed, namespace=stage.namespace, now=stage.clock())
    # then
    writes = [request for request in reading.log if request.method not in ("GET", "STREAM")]
    assert all(request.query.get("dryRun") == "All" for request in writes)
    assert describe_forecast(first) == describe_forecast(second)


async def test_a_plan_of_the_stored_manifest_changes_nothing(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    said = await forecast(stage.client, cloneset(), namespace=stage.namespace, now=stage.clock())
    assert describe_forecast(said) == [f"CloneSet {stage.namespace}/web: nothing would change"]
    assert compute_exit_code([said]) == 0


async def test_all_admission_errors_are_reported_together(stage: Stage) -> None:
    # given three mistakes
    wrong = cloneset(replicas=2, updateStrategy=rolling(maxUnavailable="5", partition="abc"))
    wrong["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    # when
    said = await forecast(stage.client, wrong, namespace=stage.namespace, now=stage.clock())
    # then
    assert said.change == "refused"
    assert compute_exit_code([said]) == 1
    text = "\n".join(describe_forecast(said))
    for field in ("maxUnavailable", "partition", "spec.template.metadata.labels"):
        assert field in text


async def test_a_field_that_forces_recreation_is_named(stage: Stage) -> None:
    # given
    document = cloneset(replicas=3, updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible"))
    await stage.start_manager()
    await stage.create(document)
    await stage.settled(replicas=3)
    changed = apply_merge_patch(document, {})
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    # when
    said = await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())
    # then
    assert [way for way in said.ways.values() if way.startswith("recreated: ") and "env" in way]
    assert any("env" in field.path for field in said.fields)


async def test_the_plan_of_a_rollback_replaces_a_pod_that_finds_no_node(stage: Stage) -> None:
    # given a rollout to a node selector that no node matches
    document = cloneset(replicas=3, updateStrategy=rolling(podUpdatePolicy="ReCreate"))
    await stage.start_manager()
    await stage.create(document)
    await stage.settled(replicas=3)
    await stage.merge("web", {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}})

    async def find_pending_pods() -> list[str] | None:
        return [pod.name for pod in await stage.pods() if not pod.node_name] or None

    (pending,) = await stage.until(find_pending_pods)
    # when
    document["spec"]["template"]["spec"]["nodeSelector"] = None
    said = await forecast(stage.client, document, namespace=stage.namespace, now=stage.clock())
    # then
    assert ("delete", pending) in planned_operations(said)
    assert pending not in {name for names in said.stays.values() for name in names}


async def test_a_new_object_is_planned_too(stage: Stage) -> None:
    said = await forecast(stage.client, cloneset(replicas=2), namespace=stage.namespace, now=stage.clock())
    assert said.change == "created"
    assert planned_operations(said) == [("create", ""), ("create", "")]
