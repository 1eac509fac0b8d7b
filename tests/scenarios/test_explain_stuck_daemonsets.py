"""`pykruise explain` names the true cause of DaemonSets that are stuck, each staged on a cluster."""

from typing import Any

import pytest

from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool
from support.faults import Answer, FaultyTransport, posts
from support.remedies import each_case, each_way, follow_way
from support.scenario import Object, Stage, rolling
from support.stuck import Stuck, named

HOOK = {"labelsHandler": {"hook": "on"}}


async def rolled_out(stage: Stage, pool: Pool, *, rule: Object | None = None, **spec: Any) -> None:
    """Create a DaemonSet, wait until it is settled, and roll out a new image whose containers follow the rule."""
    await stage.start_manager()
    await pool.create(**spec)
    await pool.settled()
    if rule:
        stage.kubelets.set_rules([Rule(image="nginx:2", **rule)])
    await pool.set_image("nginx:2")


async def with_pods_of(stage: Stage, pool: Pool, **pod: Any) -> None:
    """A DaemonSet whose pods have these fields in their spec."""
    document = pool.daemonset()
    document["spec"]["template"]["spec"] |= pod
    await stage.start_manager()
    await stage.create(document, resource=DAEMON_SET.resource)


async def answered_with(stage: Stage, pool: Pool, answer: Answer, *, path: str = "/pods") -> None:
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts(path), lambda _request: answer)
    await stage.start_manager(faulty)
    await pool.create()


async def image_cannot_be_pulled(stage: Stage, pool: Pool) -> None:
    await rolled_out(stage, pool, rule={"image_pull_error": True})


async def image_cannot_be_pulled_in_place(stage: Stage, pool: Pool) -> None:
    strategy = rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=1)
    await rolled_out(stage, pool, rule={"image_pull_error": True}, updateStrategy=strategy)


async def containers_crash(stage: Stage, pool: Pool) -> None:
    await rolled_out(stage, pool, rule={"exit_code": 3, "after_s": 0.0})


async def containers_are_never_ready(stage: Stage, pool: Pool) -> None:
    await rolled_out(stage, pool, rule={"never_ready": True})


async def surging_pods_are_never_ready(stage: Stage, pool: Pool) -> None:
    strategy = rolling(maxSurge=1, maxUnavailable=0)
    await rolled_out(stage, pool, rule={"never_ready": True}, updateStrategy=strategy)


async def too_large_for_the_nodes(stage: Stage, pool: Pool) -> None:
    resources = {"requests": {"cpu": "999"}}
    await with_pods_of(stage, pool, containers=[{"name": "main", "image": "nginx:1", "resources": resources}])


async def a_readiness_gate_is_closed(stage: Stage, pool: Pool) -> None:
    await with_pods_of(stage, pool, readinessGates=[{"conditionType": "example.com/registered"}])


async def pods_are_not_ready_for_long_enough(stage: Stage, pool: Pool) -> None:
    await stage.start_manager()
    await pool.create(minReadySeconds=3600)


async def a_node_does_not_answer(stage: Stage, pool: Pool) -> None:
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    node = pool.nodes[0]
    stage.kubelets.stop_node(node)
    lost = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await stage.client.patch(NODES, "", node, lost, patch_type=PatchType.STRATEGIC, subresource="status")
    await pool.set_image("nginx:2")


async def a_finalizer_holds_a_pod(stage: Stage, pool: Pool) -> None:
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    name = (await stage.pods())[0].name
    patch = {"metadata": {"finalizers": ["example.com/backup"]}}
    await stage.client.patch(PODS, stage.namespace, name, patch, patch_type=PatchType.MERGE)
    await stage.delete(name, resource=PODS)


async def the_deletion_hook_is_not_released(stage: Stage, pool: Pool) -> None:
    document = pool.daemonset(lifecycle={"preDelete": HOOK})
    document["spec"]["template"]["metadata"]["labels"]["hook"] = "on"
    await stage.start_manager()
    await stage.create(document, resource=DAEMON_SET.resource)
    await pool.settled()
    await pool.set_image("nginx:2")


async def the_quota_is_used_up(stage: Stage, pool: Pool) -> None:
    await answered_with(stage, pool, Answer(403, message="pods is forbidden: exceeded quota: team"))


async def a_webhook_refuses(stage: Stage, pool: Pool) -> None:
    message = 'admission webhook "policy.example.com" denied the request: images must be signed'
    await answered_with(stage, pool, Answer(400, message=message))


async def revisions_cannot_be_stored(stage: Stage, pool: Pool) -> None:
    refusal = Answer(
        403, message='controllerrevisions.apps is forbidden: User "kruise" cannot create resource'
    )
    await answered_with(stage, pool, refusal, path="/controllerrevisions")


async def updates_are_paused(stage: Stage, pool: Pool) -> None:
    await rolled_out(stage, pool, updateStrategy=rolling(paused=True))


async def the_partition_keeps_nodes(stage: Stage, pool: Pool) -> None:
    await rolled_out(stage, pool, updateStrategy=rolling(partition=3))


async def pods_are_updated_on_delete(stage: Stage, pool: Pool) -> None:
    await rolled_out(stage, pool, updateStrategy={"type": "OnDelete"})


async def only_some_nodes_are_selected(stage: Stage, pool: Pool) -> None:
    selector = {"matchLabels": {"example.com/canary": "yes"}}
    await rolled_out(stage, pool, updateStrategy=rolling(selector=selector))


async def no_manager_runs(stage: Stage, pool: Pool) -> None:
    await pool.create()


CASES = (
    Stuck(image_cannot_be_pulled, "ImagePull", "image nginx:2 of container main cannot be pulled", ways=3),
    Stuck(
        image_cannot_be_pulled_in_place,
        "ImagePull",
        "image nginx:2 of container main cannot be pulled",
        ways=3,
    ),
    Stuck(containers_crash, "ContainerFails", "exit code 3", ways=2),
    Stuck(containers_are_never_ready, "NotReady", "runs, but is not ready", ways=2),
    Stuck(surging_pods_are_never_ready, "NotReady", "is available", ways=2),
    Stuck(too_large_for_the_nodes, "Unschedulable", "Insufficient cpu", ways=2),
    Stuck(a_readiness_gate_is_closed, "ReadinessGate", "example.com/registered"),
    Stuck(pods_are_not_ready_for_long_enough, "MinReadySeconds", "minReadySeconds 3600", ways=0),
    Stuck(a_node_does_not_answer, "NodeLost", "does not answer", ways=2),
    Stuck(a_finalizer_holds_a_pod, "Finalizer", "example.com/backup"),
    Stuck(the_deletion_hook_is_not_released, "PreDeleteHook", "waits until the preDelete hook"),
    Stuck(the_quota_is_used_up, "Quota", "exceeded quota: team", ways=0),
    Stuck(a_webhook_refuses, "Webhook", "images must be signed", ways=0),
    Stuck(
        revisions_cannot_be_stored,
        "Forbidden",
        "store revision: controllerrevisions.apps is forbidden",
        ways=0,
    ),
    Stuck(updates_are_paused, "Paused", "set spec.updateStrategy.rollingUpdate.paused to false", "paused"),
    Stuck(
        the_partition_keeps_nodes, "Partition", "lower spec.updateStrategy.rollingUpdate.partition", "done"
    ),
    Stuck(pods_are_updated_on_delete, "OnDelete", "delete the pods", "done", ways=2),
    Stuck(only_some_nodes_are_selected, "NodeSelector", "widen rollingUpdate.selector", "done"),
    Stuck(no_manager_runs, "NoManager", "check that the manager runs"),
)


@pytest.mark.parametrize("case", each_case(CASES))
async def test_explain_names_the_true_cause_of_a_daemonset(stage: Stage, pool: Pool, case: Stuck) -> None:
    # given
    await case.stage_it(stage, pool)
    # when
    _, said = await named(stage, DAEMON_SET, cause=case.cause, verdict=case.verdict)
    # then
    assert case.says in said


@pytest.mark.virtual_time("as many as there are remedies")
@pytest.mark.parametrize(("case", "number"), each_way(CASES))
async def test_no_remedy_makes_pods_unavailable(stage: Stage, pool: Pool, case: Stuck, number: int) -> None:
    # given
    await case.stage_it(stage, pool)
    explanation, _ = await named(stage, DAEMON_SET, cause=case.cause, verdict=case.verdict)
    # when, then
    await follow_way(stage, DAEMON_SET, Key(stage.namespace, "web"), case, number, explanation)
