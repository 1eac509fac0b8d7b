"""`pykruise explain` names the true cause of StatefulSets that are stuck, each staged on a cluster."""

from typing import Any

import pytest

from pykruise.kinds.statefulset.kind import KIND as STATEFUL_SET
from pykruise.kube.ids import Key
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.sandbox.nodes.faults import Rule
from support.faults import Answer, FaultyTransport, posts
from support.remedies import each_case, each_way, follow_way
from support.scenario import Object, Stage, rolling
from support.statefulsets import Sets, claim_template, in_place, statefulset
from support.stuck import Stuck, named

HOOK = {"labelsHandler": {"hook": "on"}}


async def rolled_out(stage: Stage, *, rule: Object | None = None, **spec: Any) -> None:
    """Create a StatefulSet, wait until it is settled, and roll out a new image whose containers follow the rule."""
    sets = Sets(stage)
    await stage.start_manager()
    await sets.create(replicas=3, **spec)
    await sets.settled(replicas=3)
    if rule:
        stage.kubelets.set_rules([Rule(image="nginx:2", **rule)])
    await sets.set_image("nginx:2")


async def hooked(stage: Stage, **spec: Any) -> None:
    """Create a StatefulSet with a hook on every pod, and wait until it is settled."""
    document = statefulset(replicas=2, **spec)
    document["spec"]["template"]["metadata"]["labels"]["hook"] = "on"
    await stage.start_manager()
    await stage.create(document, resource=STATEFUL_SET.resource)
    await Sets(stage).settled(replicas=2)


async def image_cannot_be_pulled(stage: Stage) -> None:
    await rolled_out(stage, rule={"image_pull_error": True})


async def image_cannot_be_pulled_in_place(stage: Stage) -> None:
    await rolled_out(stage, rule={"image_pull_error": True}, updateStrategy=in_place())


async def the_deletion_hook_is_not_released(stage: Stage) -> None:
    await hooked(stage, lifecycle={"preDelete": HOOK})
    await Sets(stage).scale(1)


async def the_update_hook_is_not_released(stage: Stage) -> None:
    await hooked(stage, lifecycle={"inPlaceUpdate": HOOK}, updateStrategy=in_place())
    await Sets(stage).set_image("nginx:2")


async def a_finalizer_holds_a_pod(stage: Stage) -> None:
    sets = Sets(stage)
    await stage.start_manager()
    await sets.create(replicas=2)
    await sets.settled(replicas=2)
    await stage.merge("web-0", {"metadata": {"finalizers": ["example.com/backup"]}}, resource=PODS)
    await stage.delete("web-0", resource=PODS)


async def a_finalizer_holds_a_pod_in_parallel(stage: Stage) -> None:
    sets = Sets(stage)
    await stage.start_manager()
    await sets.create(replicas=3, parallel=True)
    await sets.settled(replicas=3)
    await stage.merge("web-1", {"metadata": {"finalizers": ["example.com/backup"]}}, resource=PODS)
    await stage.delete("web-1", resource=PODS)


async def the_first_pod_is_never_ready(stage: Stage) -> None:
    stage.kubelets.set_rules([Rule(image="nginx:1", never_ready=True)])
    await stage.start_manager()
    await Sets(stage).create(replicas=3)


async def an_old_claim_does_not_go(stage: Stage) -> None:
    held = {"metadata": {"name": "data-web-0", "finalizers": ["example.com/snapshot"]}}
    await stage.create({**claim_template(), **held}, resource=PERSISTENT_VOLUME_CLAIMS)
    await stage.delete("data-web-0", resource=PERSISTENT_VOLUME_CLAIMS)
    await stage.start_manager()
    await Sets(stage).create(replicas=2, volumeClaimTemplates=[claim_template()])


async def the_quota_is_used_up(stage: Stage) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    refusal = Answer(403, message="pods is forbidden: exceeded quota: team")
    faulty.on(posts("/pods"), lambda _request: refusal)
    await stage.start_manager(faulty)
    await Sets(stage).create(replicas=2)


async def revisions_cannot_be_stored(stage: Stage) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    refusal = Answer(
        403, message='controllerrevisions.apps is forbidden: User "kruise" cannot create resource'
    )
    faulty.on(posts("/controllerrevisions"), lambda _request: refusal)
    await stage.start_manager(faulty)
    await Sets(stage).create(replicas=2)


async def updates_are_paused(stage: Stage) -> None:
    await rolled_out(stage, updateStrategy=rolling(paused=True))


async def the_partition_keeps_pods(stage: Stage) -> None:
    await rolled_out(stage, updateStrategy=rolling(partition=2))


async def pods_are_updated_on_delete(stage: Stage) -> None:
    await rolled_out(stage, updateStrategy={"type": "OnDelete"})


async def no_manager_runs(stage: Stage) -> None:
    await Sets(stage).create(replicas=2)


CASES = (
    Stuck(image_cannot_be_pulled, "ImagePull", "image nginx:2 of container main cannot be pulled", ways=3),
    Stuck(
        image_cannot_be_pulled_in_place,
        "ImagePull",
        "image nginx:2 of container main cannot be pulled",
        ways=3,
    ),
    Stuck(the_deletion_hook_is_not_released, "PreDeleteHook", "waits until the preDelete hook"),
    Stuck(the_update_hook_is_not_released, "InPlaceUpdateHook", "waits until the inPlaceUpdate hook"),
    Stuck(a_finalizer_holds_a_pod, "Finalizer", "example.com/backup"),
    Stuck(a_finalizer_holds_a_pod_in_parallel, "Finalizer", "example.com/backup"),
    Stuck(the_first_pod_is_never_ready, "NotReady", "container main runs, but is not ready"),
    Stuck(
        an_old_claim_does_not_go,
        "Finalizer",
        "waits until its old claim data-web-0 is deleted; finalizer example.com/snapshot holds the claim",
    ),
    Stuck(the_quota_is_used_up, "Quota", "exceeded quota: team", ways=0),
    Stuck(
        revisions_cannot_be_stored,
        "Forbidden",
        "store revision: controllerrevisions.apps is forbidden",
        ways=0,
    ),
    Stuck(updates_are_paused, "Paused", "set spec.updateStrategy.rollingUpdate.paused to false", "paused"),
    Stuck(the_partition_keeps_pods, "Partition", "lower spec.updateStrategy.rollingUpdate.partition", "done"),
    Stuck(pods_are_updated_on_delete, "OnDelete", "delete the pods", "done", ways=2),
    Stuck(no_manager_runs, "NoManager", "check that the manager runs"),
)


@pytest.mark.parametrize("case", each_case(CASES))
async def test_explain_names_the_true_cause_of_a_statefulset(stage: Stage, case: Stuck) -> None:
    # given
    await case.stage_it(stage)
    # when
    _, said = await named(stage, STATEFUL_SET, cause=case.cause, verdict=case.verdict)
    # then
    assert case.says in said


@pytest.mark.virtual_time("as many as there are remedies")
@pytest.mark.parametrize(("case", "number"), each_way(CASES))
async def test_no_remedy_makes_pods_unavailable(stage: Stage, case: Stuck, number: int) -> None:
    # given
    await case.stage_it(stage)
    explanation, _ = await named(stage, STATEFUL_SET, cause=case.cause, verdict=case.verdict)
    # when, then
    await follow_way(stage, STATEFUL_SET, Key(stage.namespace, "web"), case, number, explanation)
