"""`pykruise explain pod/NAME`: which budgets hold a pod, which requests have spent them, and when it may go."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.admission.pods.reports import record_events
from pykruise.cli.errors import CommandError
from pykruise.cli.explain import read_and_explain, read_and_explain_pod
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.pod_steps import COMPONENT, make_prevention_report
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.documents import decode, encode
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.progress import Phase
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, project_budget
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Object, Stage, cloneset

BOTH_GATES = ManagerSettings(gates=Gates.of(PodUnavailableBudgetUpdateGate=True))
SELECTED = {"selector": {"matchLabels": {"app": "web"}}}


def budget(name: str = "pub", **spec: Any) -> Object:
    return {
        "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
        "kind": POD_UNAVAILABLE_BUDGETS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def four_pods(stage: Stage, *budgets: Object) -> Sequence[PodView]:
    """Create a CloneSet whose four pods serve, and wait until the budgets know that."""
    for budget in budgets:
        await stage.create(budget, resource=POD_UNAVAILABLE_BUDGETS)
    await stage.create(cloneset(replicas=4))

    async def are_counted() -> bool:
        result = [
            await stage.get(entry["metadata"]["name"], resource=POD_UNAVAILABLE_BUDGETS) for entry in budgets
        ]
        return all((entry.get("status") or {}).get("currentAvailable") == 4 for entry in result) and (
            sum(pod.is_serving for pod in await stage.pods()) == 4
        )

    await stage.until(are_counted, what="four pods that serve")
    return sorted(await stage.pods(), key=lambda pod: pod.name)


async def disruption_budget(stage: Stage, name: str, least: int) -> None:
    body: Object = {"metadata": {"name": name}, "spec": {"minAvailable": least, **SELECTED}}
    await stage.create(body, resource=POD_DISRUPTION_BUDGETS)

    async def is_counted() -> bool:
        status = (await stage.get(name, resource=POD_DISRUPTION_BUDGETS)).get("status") or {}
        return bool(status.get("currentHealthy") == 4)

    await stage.until(is_counted, what="a PodDisruptionBudget's status")


async def of_pod(stage: Stage, name: str, settings: ManagerSettings | None = None) -> Explanation:
    return await read_and_explain_pod(
        stage.client, Key(stage.namespace, name), now=stage.clock(), settings=settings
    )


async def test_explain_reports_the_budget_of_a_pod_and_the_answer_to_each_request(stage: Stage) -> None:
    await stage.start_manager()
    pods = await four_pods(stage, budget(**SELECTED, maxUnavailable=1))
    # when nothing is spent
    explanation = await of_pod(stage, pods[0].name)
    # then
    assert (explanation.kind, explanation.verdict) == ("Pod", "done")
    assert (
        explanation.headline
        == "PodUnavailableBudget pub covers the pod: 4 of 4 pods serve, 3 are required: 1 may be disrupted"
    )
    assert explanation.next[:2] == (
        "deletion, eviction: would be allowed, and use up 1 of 1 allowed disruptions",
        "update, resize: no budget is checked (feature gate PodUnavailableBudgetUpdateGate is off)",
    )
    # and with the gate, updates need the budget's permission too
    explanation = await of_pod(stage, pods[0].name, BOTH_GATES)
    assert explanation.next[:1] == (
        "deletion, update, eviction, resize: would be allowed, and use up 1 of 1 allowed disruptions",
    )


async def test_explain_reports_the_pods_that_spent_a_budget_and_when_the_next_may_be_disrupted(
    stage: Stage,
) -> None:
    # given a budget of one that a deleted pod has used up, whose successor takes its time
    await stage.start_manager()
    first, second, third, _ = await four_pods(stage, budget(**SELECTED, maxUnavailable=1))
    stage.kubelets.set_rules([Rule(image="nginx:1", start_s=20)])
    await stage.delete(first.name, resource=PODS)
    # and a user who was refused another one
    with pytest.raises(ForbiddenError):
        await stage.delete(second.name, resource=PODS)
    await refused(stage, second)

    async def has_come() -> bool:
        return any(not pod.is_serving for pod in await stage.pods() if pod.is_active)

    await stage.until(has_come, what="a successor that does not serve yet")
    successor = next(pod.name for pod in await stage.pods() if pod.is_active and not pod.is_serving)
    # then a pod that serves has to wait, and it is said why
    explanation = await of_pod(stage, third.name)
    assert explanation.verdict == "waiting"
    assert (
        explanation.headline
        == "PodUnavailableBudget pub covers the pod: 3 of 4 pods serve, 3 are required: no pod may be disrupted"
    )
    assert explanation.next[0] == "deletion, eviction: would be rejected"
    assert "the next pod may be disrupted when 1 more pod serves" in explanation.next
    by_pod = {wait.pods: wait for wait in explanation.waits}
    assert by_pod[(second.name,)].words == "this budget rejected 2 disruptions"
    assert (successor,) in by_pod  # which uses the budget up
    # and the one that does not serve may go at any time
    explanation = await of_pod(stage, successor)
    assert (
        explanation.next[0]
        == "deletion, eviction: uses no allowed disruption, because the pod does not serve"
    )
    # and the budget says the same
    said = await read_and_explain(stage.client, Key(stage.namespace, "pub"), now=stage.clock(), kind=KIND)
    assert {wait.pods for wait in said.waits} == {(second.name,), (successor,)}
    assert "the next pod may be disrupted when 1 more pod serves" in said.next
    stage.kubelets.set_rules([])


async def refused(stage: Stage, pod: PodView) -> None:
    """Record the event that the webhooks report when a budget rejects a disruption of the pod."""
    recorder = EventRecorder(stage.client, COMPONENT, clock=stage.clock, rng=stage.rng)
    document: dict[str, Any] = {"metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}}
    protecting = decode(await stage.client.get(POD_UNAVAILABLE_BUDGETS, pod.namespace, "pub"))
    named = project_budget(encode(protecting))
    record_events(recorder, make_prevention_report(document, named, username="alice"))
    await recorder.flush()
    await asyncio.sleep(0)


async def test_explain_reports_that_a_pod_disruption_budget_blocks_a_pod_too(stage: Stage) -> None:
    await stage.start_manager()
    pods = await four_pods(stage, budget(**SELECTED, maxUnavailable=1))
    await disruption_budget(stage, "pdb", 3)
    line = "PodDisruptionBudget pdb must allow evictions too, and allows {}"
    # when it allows one
    explanation = await of_pod(stage, pods[0].name)
    assert explanation.verdict == "done"
    assert f"{line.format(1)} now: 4 of its pods are healthy, 3 must be" in explanation.next
    said = await read_and_explain(stage.client, Key(stage.namespace, "pub"), now=stage.clock(), kind=KIND)
    assert f"{line.format(1)} now: 4 of its pods are healthy, 3 must be" in said.next
    # and when there are two, which no eviction gets past
    await disruption_budget(stage, "strict", 4)
    explanation = await of_pod(stage, pods[0].name)
    assert (explanation.verdict, explanation.cause) == ("waiting", "EvictionBudget")
    assert (
        explanation.waits[0].words
        == "is covered by PodDisruptionBudgets pdb and strict: API servers evict no pod with two budgets"
    )
    assert explanation.phase is Phase.DEGRADED


@pytest.mark.parametrize(
    ("spec", "words", "remedy"),
    [
        (
            {"maxUnavailable": 0},
            "never allows an eviction of its pods: spec.maxUnavailable is 0, so all 4 must stay healthy",
            "raise spec.maxUnavailable of PodDisruptionBudget strict (kubectl edit pdb -n {} strict)",
        ),
        (
            {"minAvailable": "100%"},
            "never allows an eviction of its pods: spec.minAvailable is 100%, so all 4 must stay healthy",
            "lower spec.minAvailable of PodDisruptionBudget strict (kubectl edit pdb -n {} strict)",
        ),
    ],
)
async def test_explain_names_the_field_of_a_disruption_budget_that_never_allows_an_eviction(
    stage: Stage, spec: Object, words: str, remedy: str
) -> None:
    await stage.start_manager()
    pods = await four_pods(stage)
    body: Object = {"metadata": {"name": "strict"}, "spec": {**spec, **SELECTED}}
    await stage.create(body, resource=POD_DISRUPTION_BUDGETS)
    await asyncio.sleep(5)
    # when nothing but a person ends the wait
    explanation = await of_pod(stage, pods[0].name)
    assert (explanation.cause, explanation.phase) == ("EvictionBudget", Phase.DEGRADED)
    (wait,) = explanation.waits
    assert wait.words == f"PodDisruptionBudget strict {words}"
    assert wait.remedy == remedy.format(stage.namespace)
    # and when the remedy is followed
    followed: Object = {"spec": {"maxUnavailable": 1, "minAvailable": None}}
    await stage.merge("strict", followed, resource=POD_DISRUPTION_BUDGETS)
    await asyncio.sleep(5)
    explanation = await of_pod(stage, pods[0].name)
    assert (explanation.verdict, explanation.phase) == ("done", Phase.HEALTHY)


async def test_a_disruption_budget_that_is_used_up_allows_more_when_its_pods_are_healthy(
    stage: Stage,
) -> None:
    await stage.start_manager()
    pods = await four_pods(stage)
    await disruption_budget(stage, "pdb", 3)
    stage.kubelets.set_rules([Rule(image="nginx:1", start_s=1e5)])
    await stage.delete(pods[1].name, resource=PODS)
    await asyncio.sleep(20)
    explanation = await of_pod(stage, pods[0].name)
    assert (explanation.cause, explanation.phase) == ("EvictionBudget", Phase.PROGRESSING)
    assert explanation.waits[0].words.startswith(
        "PodDisruptionBudget pdb allows no eviction of its pods now, because pods that it covers are not ready (web-"
    )
    assert explanation.waits[0].remedy.startswith(
        "wait until more of its pods are healthy, or change the budget"
    )


async def test_explain_reports_which_of_two_budgets_counts_and_which_is_missing(stage: Stage) -> None:
    await stage.start_manager()
    target = {"apiVersion": CLONE_SETS.api_version, "kind": CLONE_SETS.kind, "name": "web"}
    pods = await four_pods(
        stage, budget("older", **SELECTED, maxUnavailable=1), budget("pub", targetRef=target, minAvailable=1)
    )
    explanation = await of_pod(stage, pods[0].name)
    named = pods[0].annotations["pub.kruise.io/related-pub"]
    other = {"older": "pub", "pub": "older"}[named]
    assert explanation.headline.startswith(f"PodUnavailableBudget {named} covers the pod")
    assert any(
        wait.words == f"is also selected by PodUnavailableBudget {other}, but only {named} is checked"
        for wait in explanation.waits
    )
    # no action is needed; the remedy says which of the two budgets to delete, so that the other one applies
    assert (explanation.verdict, explanation.phase) == ("done", Phase.HEALTHY)
    command = f"kubectl delete pub -n {stage.namespace} {named}"
    assert any(command in wait.remedy for wait in explanation.waits)
    # the other budget says that it protects none of its pods
    of_other = await read_and_explain(stage.client, Key(stage.namespace, other), now=stage.clock(), kind=KIND)
    assert (of_other.cause, of_other.phase) == ("ProtectsNothing", Phase.DEGRADED)
    assert of_other.headline.endswith(
        f"but PodUnavailableBudget {named} applies to all of them: this budget protects none of its pods"
    )
    assert command in of_other.waits[0].remedy
    # and a pod with the annotations of a budget that does not exist
    names = ("pub.kruise.io/related-pub", "kruise.io/related-pub")
    body: Object = {
        "metadata": {"name": "lonely", "annotations": dict.fromkeys(names, "gone")},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    await stage.create(body, resource=PODS)
    explanation = await of_pod(stage, "lonely")
    assert (
        explanation.headline
        == "the pod names PodUnavailableBudget gone, which does not exist: no budget covers the pod"
    )


async def test_a_budget_in_a_namespace_that_the_webhooks_exclude_protects_nothing(stage: Stage) -> None:
    # given a namespace that the webhooks exclude
    labels: Object = {"metadata": {"labels": {"control-plane": "openkruise"}}}
    await stage.client.patch(NAMESPACES, "", stage.namespace, labels, patch_type=PatchType.MERGE)
    await stage.start_manager()
    pods = await four_pods(stage, budget("pub", **SELECTED, maxUnavailable=1))
    # then the budget and its pods say so
    said = await read_and_explain(stage.client, Key(stage.namespace, "pub"), now=stage.clock(), kind=KIND)
    reason = f"API servers send no admission reviews of pods in namespace {stage.namespace}"
    assert (said.cause, said.phase) == ("ProtectsNothing", Phase.DEGRADED)
    assert said.headline == f"all disruptions are allowed: {reason}, so the budget protects nothing"
    remedy = said.waits[0].remedy
    assert remedy.endswith(f"(kubectl label namespace {stage.namespace} control-plane-)")
    of_its_pod = await of_pod(stage, pods[0].name)
    assert f"deletion, update, eviction, resize: no budget is checked, because {reason}" in of_its_pod.next
    # and when the remedy is followed
    unlabelled: Object = {"metadata": {"labels": {"control-plane": None}}}
    await stage.client.patch(NAMESPACES, "", stage.namespace, unlabelled, patch_type=PatchType.MERGE)
    said = await read_and_explain(stage.client, Key(stage.namespace, "pub"), now=stage.clock(), kind=KIND)
    assert said.phase == Phase.HEALTHY


async def test_a_pod_that_a_finalizer_keeps_for_long_needs_a_person(stage: Stage) -> None:
    await stage.create(
        {
            "metadata": {"name": "solo", "finalizers": ["example.com/archive"]},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        },
        resource=PODS,
    )
    await asyncio.sleep(10)
    await stage.delete("solo", resource=PODS)
    just_now = await of_pod(stage, "solo")
    assert (just_now.verdict, just_now.phase) == ("terminating", Phase.PROGRESSING)
    await asyncio.sleep(300)
    later = await of_pod(stage, "solo")
    assert (later.verdict, later.phase, later.cause) == ("terminating", Phase.DEGRADED, "Finalizer")


async def test_explain_reports_a_pod_without_a_budget_and_a_missing_pod_is_an_error(
    stage: Stage,
) -> None:
    body: Object = {
        "metadata": {"name": "lonely", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    await stage.create(body, resource=PODS)

    async def serves() -> bool:
        return all(pod.is_serving for pod in await stage.pods())

    await stage.until(serves)
    explanation = await of_pod(stage, "lonely")
    assert format_explanation(explanation, now=stage.clock()) == (
        f"Pod {stage.namespace}/lonely: Healthy. No PodUnavailableBudget covers the pod.\n"
    )
    with pytest.raises(CommandError, match="there is no Pod"):
        await of_pod(stage, "none")
