"""`pykruise explain` names the true cause of rollouts that are stuck, each staged on a cluster."""

from functools import partial
from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanations import Explanation
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS
from pykruise.sandbox.nodes.faults import Rule
from support.faults import Answer, FaultyTransport, posts
from support.remedies import each_case, each_way, follow_way
from support.scenario import Object, Stage, cloneset, rolling
from support.stuck import Stuck, named

IN_PLACE = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}
HOOK = {"labelsHandler": {"hook": "on"}}


def hooked(document: Object, **hooks: Object) -> Object:
    """The document with hooks; its pods carry the hook's label from the start."""
    document["spec"]["lifecycle"] = hooks
    document["spec"]["template"]["metadata"]["labels"]["hook"] = "on"
    return document


async def rolled_out(stage: Stage, document: Object, **rule: Any) -> None:
    """Create a CloneSet, wait until it is settled, and roll out a new image whose containers follow the rule."""
    await stage.start_manager()
    await stage.create(document)
    await stage.settled(replicas=document["spec"]["replicas"])
    if rule:
        stage.kubelets.set_rules([Rule(image="nginx:2", **rule)])
    await stage.set_image("web", "nginx:2")


async def answered_with(stage: Stage, answer: Answer) -> None:
    """Start a manager whose creations of pods get this answer, and create a CloneSet."""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/pods"), lambda _request: answer)
    await stage.start_manager(faulty)
    await stage.create(cloneset())


async def pod_template(stage: Stage, **spec: Any) -> None:
    """A set whose pods have these fields in their spec."""
    document = cloneset()
    document["spec"]["template"]["spec"] |= spec
    await stage.start_manager()
    await stage.create(document)


async def patched(stage: Stage, number: int, patch: Object) -> str:
    """Change one pod as another client would; returns its name."""
    name = (await stage.pods())[number].name
    await stage.client.patch(PODS, stage.namespace, name, patch, patch_type=PatchType.MERGE)
    return name


# ── pods that fail or wait ───────────────────────────────────────────────────


async def image_cannot_be_pulled(stage: Stage) -> None:
    await rolled_out(stage, cloneset(updateStrategy=rolling(maxUnavailable=1)), image_pull_error=True)


async def image_cannot_be_pulled_in_place(stage: Stage) -> None:
    await rolled_out(stage, cloneset(updateStrategy=rolling(**IN_PLACE)), image_pull_error=True)


async def containers_crash(stage: Stage) -> None:
    await rolled_out(stage, cloneset(), exit_code=3, after_s=1.0)


async def containers_are_never_ready(stage: Stage) -> None:
    await rolled_out(stage, cloneset(), never_ready=True)


async def containers_are_never_ready_in_place(stage: Stage) -> None:
    await rolled_out(stage, cloneset(updateStrategy=rolling(**IN_PLACE)), never_ready=True)


async def one_old_pod_uses_the_budget_up(stage: Stage) -> None:
    """An old pod that is not ready any more uses up maxUnavailable: the others wait for it."""
    await stage.start_manager()
    await stage.create(cloneset(replicas=3, updateStrategy=rolling(maxUnavailable=1)))
    await stage.settled(replicas=3)
    name = (await stage.pods())[2].name
    stage.kubelets.set_rules([Rule(pod=name, never_ready=True)])
    await stage.until(lambda: _is_down(stage, name))
    await stage.merge("web", {"spec": {"replicas": 4, "scaleStrategy": {"maxUnavailable": 1}}})


async def too_large_for_every_node(stage: Stage) -> None:
    resources = {"requests": {"cpu": "999"}}
    await pod_template(stage, containers=[{"name": "main", "image": "nginx:1", "resources": resources}])


async def no_node_has_the_label(stage: Stage) -> None:
    await pod_template(stage, nodeSelector={"disk": "ssd"})


async def all_nodes_are_cordoned(stage: Stage) -> None:
    await cordon_all(stage)
    await pod_template(stage)


async def cordon_all(stage: Stage, unschedulable: bool | None = True) -> None:
    for node in (await stage.client.list(NODES)).items:
        name, patch = decode(node)["metadata"]["name"], {"spec": {"unschedulable": unschedulable}}
        await stage.client.patch(NODES, "", name, patch, patch_type=PatchType.MERGE)


async def a_readiness_gate_is_closed(stage: Stage) -> None:
    await pod_template(stage, readinessGates=[{"conditionType": "example.com/registered"}])


async def a_node_does_not_answer(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    pod = (await stage.pods())[0]
    stage.kubelets.stop_node(pod.node_name)
    lost = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await stage.client.patch(
        NODES, "", pod.node_name, lost, patch_type=PatchType.STRATEGIC, subresource="status"
    )
    await stage.delete(pod.name, resource=PODS)


async def a_finalizer_holds_a_pod(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    name = await patched(stage, 0, {"metadata": {"finalizers": ["example.com/backup"]}})
    await stage.delete(name, resource=PODS)


async def pods_are_not_ready_for_long_enough(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(minReadySeconds=3600))


# ── the API server says no ───────────────────────────────────────────────────


async def the_quota_is_used_up(stage: Stage) -> None:
    await answered_with(
        stage, Answer(403, message="pods is forbidden: exceeded quota: team, requested: pods=1, used: pods=9")
    )


async def a_webhook_does_not_answer(stage: Stage) -> None:
    message = 'failed calling webhook "pods.example.com": context deadline exceeded'
    await answered_with(stage, Answer(500, message=message))


async def a_webhook_refuses(stage: Stage) -> None:
    message = 'admission webhook "policy.example.com" denied the request: images must be signed'
    await answered_with(stage, Answer(400, message=message))


async def the_manager_lacks_a_right(stage: Stage) -> None:
    await answered_with(stage, Answer(403, message='pods is forbidden: User "kruise" cannot create resource'))


# ── what the user asked for ──────────────────────────────────────────────────


async def updates_are_paused(stage: Stage) -> None:
    await rolled_out(stage, cloneset(updateStrategy=rolling(paused=True)))


async def the_partition_keeps_pods(stage: Stage) -> None:
    await rolled_out(stage, cloneset(updateStrategy=rolling(partition=2)))


async def pods_are_updated_on_delete(stage: Stage) -> None:
    await rolled_out(stage, cloneset(updateStrategy={"type": "OnDelete"}))


async def in_place_only_cannot(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(updateStrategy=rolling(podUpdatePolicy="InPlaceOnly", maxUnavailable=1)))
    await stage.settled(replicas=3)
    containers = [{"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "1"}]}]
    await stage.merge("web", {"spec": {"template": {"spec": {"containers": containers}}}})


async def scaling_is_limited(stage: Stage) -> None:
    stage.kubelets.set_rules([Rule(start_s=3000.0)])
    await stage.start_manager()
    await stage.create(cloneset(scaleStrategy={"maxUnavailable": 1}))


async def the_deadline_is_exceeded(stage: Stage) -> None:
    await rolled_out(stage, cloneset(progressDeadlineSeconds=3), never_ready=True)
    await stage.until(partial(_is_overdue, stage))


async def _is_overdue(stage: Stage) -> bool:
    conditions = (await stage.status()).get("conditions") or ()
    return any(condition.get("reason") == "ProgressDeadlineExceeded" for condition in conditions)


async def the_deadline_is_exceeded_on_delete(stage: Stage) -> None:
    on_delete = cloneset(progressDeadlineSeconds=3, updateStrategy={"type": "OnDelete"})
    await rolled_out(stage, on_delete)
    await stage.until(partial(_is_overdue, stage))


# ── hooks ────────────────────────────────────────────────────────────────────


async def the_deletion_hook_is_not_released(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(hooked(cloneset(), preDelete=HOOK))
    await stage.settled(replicas=3)
    await stage.scale("web", 2)


async def the_update_hook_is_not_released(stage: Stage) -> None:
    await rolled_out(stage, hooked(cloneset(updateStrategy=rolling(**IN_PLACE)), inPlaceUpdate=HOOK))


async def the_update_hook_is_not_put_back(stage: Stage) -> None:
    await rolled_out(stage, hooked(cloneset(updateStrategy=rolling(**IN_PLACE)), inPlaceUpdate=HOOK))

    async def asked() -> bool:
        return any(pod.state == "PreparingUpdate" for pod in await stage.pods())

    await stage.until(asked)
    for number, pod in enumerate(await stage.pods()):
        if pod.state == "PreparingUpdate":
            await patched(stage, number, {"metadata": {"labels": {"hook": None}}})


async def the_hook_of_new_pods_is_missing(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(lifecycle={"preNormal": {"labelsHandler": {"warm": "yes"}}}))


# ── the workload itself ──────────────────────────────────────────────────────


async def no_manager_runs(stage: Stage) -> None:
    await stage.create(cloneset())


async def it_is_being_deleted(stage: Stage) -> None:
    await stage.start_manager()
    document = cloneset()
    document["metadata"]["finalizers"] = ["example.com/archive"]
    await stage.create(document)
    await stage.settled(replicas=3)
    await stage.delete("web")


async def a_record_of_an_update_is_broken(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(updateStrategy=rolling(**IN_PLACE)))
    await stage.settled(replicas=3)
    state = {"lifecycle.apps.kruise.io/state": "Updating"}
    annotations = {"apps.kruise.io/inplace-update-state": "{"}
    await patched(stage, 0, {"metadata": {"labels": state, "annotations": annotations}})


async def an_orphan_matches(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    stray = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    await stage.create(stray, resource=PODS)


async def _is_down(stage: Stage, name: str) -> bool:
    return any(pod.name == name and not pod.is_ready for pod in await stage.pods())


async def a_value_got_around_admission(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    with stage.past_admission():
        await stage.merge("web", {"spec": {"updateStrategy": rolling(partition="5")}})


async def the_selector_was_changed(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset())
    await stage.settled(replicas=3)
    labels = {"app": "web", "tier": "front"}
    template = {"metadata": {"labels": labels}}
    with stage.past_admission():
        await stage.merge("web", {"spec": {"selector": {"matchLabels": labels}, "template": template}})


CASES = (
    Stuck(image_cannot_be_pulled, "ImagePull", "image nginx:2 of container main cannot be pulled", ways=3),
    Stuck(
        image_cannot_be_pulled_in_place,
        "ImagePull",
        "image nginx:2 of container main cannot be pulled",
        ways=3,
    ),
    Stuck(containers_crash, "ContainerFails", "exit code 3", ways=2),
    Stuck(containers_are_never_ready, "NotReady", "container main runs, but is not ready", ways=2),
    Stuck(containers_are_never_ready_in_place, "NotReady", "container main runs, but is not ready", ways=2),
    Stuck(one_old_pod_uses_the_budget_up, "NotReady", "scaleStrategy.maxUnavailable is 1", useless=(0,)),
    Stuck(too_large_for_every_node, "Unschedulable", "Insufficient cpu", ways=2),
    Stuck(no_node_has_the_label, "Unschedulable", "node affinity", ways=2),
    Stuck(all_nodes_are_cordoned, "Unschedulable", "unschedulable", ways=1),
    Stuck(a_readiness_gate_is_closed, "ReadinessGate", "example.com/registered"),
    Stuck(a_node_does_not_answer, "NodeLost", "does not answer", ways=2),
    Stuck(a_finalizer_holds_a_pod, "Finalizer", "example.com/backup"),
    Stuck(pods_are_not_ready_for_long_enough, "MinReadySeconds", "minReadySeconds 3600", ways=0),
    Stuck(the_quota_is_used_up, "Quota", "exceeded quota: team", ways=0),
    Stuck(a_webhook_does_not_answer, "Webhook", "pods.example.com", ways=0),
    Stuck(a_webhook_refuses, "Webhook", "images must be signed", ways=0),
    Stuck(the_manager_lacks_a_right, "Forbidden", "cannot create resource", ways=0),
    Stuck(updates_are_paused, "Paused", "set spec.updateStrategy.rollingUpdate.paused to false", "paused"),
    Stuck(the_partition_keeps_pods, "Partition", "lower spec.updateStrategy.rollingUpdate.partition", "done"),
    Stuck(pods_are_updated_on_delete, "OnDelete", "delete the pods", "done", ways=2),
    Stuck(in_place_only_cannot, "NotInPlace", "env", ways=2),
    Stuck(scaling_is_limited, "Starting", "creating 0 of 2 missing pods now", ways=0),
    Stuck(the_deadline_is_exceeded, "NotReady", "no progress within progressDeadlineSeconds", ways=2),
    Stuck(the_deadline_is_exceeded_on_delete, "OnDelete", "delete the pods", "done", ways=2),
    Stuck(the_deletion_hook_is_not_released, "PreDeleteHook", "waits until the preDelete hook is removed"),
    Stuck(
        the_update_hook_is_not_released,
        "InPlaceUpdateHook",
        "waits until the inPlaceUpdate hook is removed",
    ),
    Stuck(
        the_update_hook_is_not_put_back,
        "InPlaceUpdateHook",
        "waits for the inPlaceUpdate hook: label hook=on",
    ),
    Stuck(the_hook_of_new_pods_is_missing, "PreNormalHook", "waits for the preNormal hook: label warm=yes"),
    Stuck(a_value_got_around_admission, "Refused", "spec.updateStrategy.rollingUpdate.partition", "refused"),
    Stuck(the_selector_was_changed, "Refused", "selector", "refused", ways=2),
    Stuck(no_manager_runs, "NoManager", "check that the manager runs"),
    Stuck(
        it_is_being_deleted,
        "Finalizer",
        "finalizer example.com/archive holds it",
        "terminating",
        ways=0,
    ),
    Stuck(a_record_of_an_update_is_broken, "BrokenUpdate", "cannot continue", ways=2),
    Stuck(an_orphan_matches, "Orphan", "a CloneSet never adopts pods", "done", ways=2),
)


@pytest.mark.parametrize("case", each_case(CASES))
async def test_explain_names_the_true_cause(stage: Stage, case: Stuck) -> None:
    try:
        # given
        await case.stage_it(stage)
        # when
        _, said = await named(stage, CLONE_SET, cause=case.cause, verdict=case.verdict)
        # then
        assert case.says in said
    finally:
        if case.stage_it is all_nodes_are_cordoned:
            await cordon_all(stage, None)  # a real cluster's nodes serve other tests


async def test_a_finished_rollout_waits_for_nothing(stage: Stage) -> None:
    await rolled_out(stage, cloneset())
    await stage.settled(replicas=3)
    explanation, _ = await named(stage, CLONE_SET, cause="", verdict="done")
    assert (explanation.waits, explanation.next) == ((), ())


async def test_explain_only_reads(stage: Stage) -> None:
    # given
    await rolled_out(stage, cloneset(), never_ready=True)
    reading = FaultyTransport(stage.client.transport)
    # when
    explanation: Explanation = await read_and_explain(
        stage.client.replace_transport(reading),
        Key(stage.namespace, "web"),
        now=stage.clock(),
        kind=CLONE_SET,
    )
    # then
    assert explanation.name == "web"
    assert {request.method for request in reading.log} == {"GET"}


async def test_a_missing_object_cannot_be_explained(stage: Stage) -> None:
    with pytest.raises(Exception, match="there is no CloneSet") as caught:
        await read_and_explain(stage.client, Key(stage.namespace, "other"), now=stage.clock(), kind=CLONE_SET)
    assert isinstance(caught.value.__cause__, NotFoundError)


@pytest.mark.virtual_time("as many as there are remedies")
@pytest.mark.parametrize(("case", "number"), each_way(CASES))
async def test_no_remedy_makes_pods_unavailable(stage: Stage, case: Stuck, number: int) -> None:
    # given
    await case.stage_it(stage)
    explanation, _ = await named(stage, CLONE_SET, cause=case.cause, verdict=case.verdict)
    # when, then
    await follow_way(stage, CLONE_SET, Key(stage.namespace, "web"), case, number, explanation)


@pytest.mark.parametrize("volume", ["secret", "configMap", "projected"])
async def test_a_volume_that_cannot_be_mounted_is_named(stage: Stage, volume: str) -> None:
    """A pod's status does not say why its containers are not created: only events of the kubelet do."""
    # given
    source: Object = {"secretName": "gone"} if volume == "secret" else {"name": "gone"}
    if volume == "projected":
        source = {"sources": [{"secret": {"name": "gone"}}]}
    container = {"name": "main", "image": "nginx:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    doc = cloneset(replicas=1)
    doc["spec"]["template"]["spec"] = {"containers": [container], "volumes": [{"name": "v", volume: source}]}
    await stage.start_manager()
    await stage.create(doc)
    await stage.until(lambda: stage.events("FailedMount"))
    # when
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, "web"), now=stage.clock(), kind=CLONE_SET
    )
    # then
    (wait,) = (wait for wait in explanation.waits if wait.code == "MountFails")
    assert '"gone" not found' in wait.words
    made, command = ("ConfigMap", "configmap") if volume == "configMap" else ("Secret", "secret generic")
    create = f"kubectl create {command} -n {stage.namespace} gone --from-file=FILE"
    assert wait.remedy == f"create {made} gone ({create}); or correct the volume in spec.template"
