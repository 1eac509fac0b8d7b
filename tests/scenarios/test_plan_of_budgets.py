"""`pykruise plan` of a PodUnavailableBudget: the pods that it would cover, its allowed disruptions, and
manifests that are refused."""

from typing import Any

from pykruise.cli.insight.effect_forecast import Outlook
from pykruise.cli.insight.unavailability import forecast_budget
from pykruise.kube.ids import Key
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, budget_name_of
from support.scenario import Object, Stage, cloneset

SELECTED = {"selector": {"matchLabels": {"app": "web"}}}


def budget(name: str = "pub", **spec: Any) -> Object:
    return {
        "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
        "kind": POD_UNAVAILABLE_BUDGETS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def planned(stage: Stage, document: Object) -> Outlook:
    key = Key(stage.namespace, document["metadata"]["name"])
    return await forecast_budget(stage.client, document, key, stage.clock())


async def three_pods(stage: Stage) -> list[str]:
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    return sorted(pod.name for pod in await stage.pods())


async def test_a_plan_of_a_new_budget_annotates_the_existing_pods(stage: Stage) -> None:
    names = await three_pods(stage)
    outlook = await planned(stage, budget(**SELECTED, maxUnavailable=1))
    # then
    assert outlook.change == "created"
    (batch,) = outlook.batches
    assert sorted(fate.pod for fate in batch.fates) == names
    assert {fate.do for fate in batch.fates} == {
        "assign to the budget: the pod is assigned to no PodUnavailableBudget yet"
    }
    assert outlook.notes == ("3 of 3 pods serve, 2 are required: 1 may be disrupted",)
    # and nothing was written
    assert not await stage.exists("pub", resource=POD_UNAVAILABLE_BUDGETS)
    assert {budget_name_of(pod) for pod in await stage.pods()} == {""}


async def test_a_changed_amount_is_shown_with_its_field_and_its_effect(stage: Stage) -> None:
    await three_pods(stage)
    await stage.create(budget(**SELECTED, maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)

    async def are_tied() -> bool:
        return {budget_name_of(pod) for pod in await stage.pods()} == {"pub"}

    await stage.until(are_tied)
    outlook = await planned(stage, budget(**SELECTED, maxUnavailable=2))
    assert outlook.change == "changed"
    assert tuple(map(str, outlook.fields)) == ("spec.maxUnavailable: 1 → 2",)
    assert outlook.batches == ()
    assert outlook.notes == ("3 of 3 pods serve, 1 is required: 2 may be disrupted",)
    # and as it is, nothing would happen
    assert (await planned(stage, budget(**SELECTED, maxUnavailable=1))).change == "unchanged"


async def test_every_error_of_admission_is_listed(stage: Stage) -> None:
    await three_pods(stage)
    outlook = await planned(stage, budget(maxUnavailable="5", ignoredPodSelector={}))
    assert outlook.change == "refused"
    assert {error.partition(": ")[0] for error in outlook.errors} == {
        "spec.selector, targetRef",
        "spec.maxUnavailable",
        "spec.ignoredPodSelector",
    }


async def test_pods_of_another_budget_stay_with_it(stage: Stage) -> None:
    names = await three_pods(stage)
    await stage.create(budget("older", **SELECTED, maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)

    async def are_tied() -> bool:
        return {budget_name_of(pod) for pod in await stage.pods()} == {"older"}

    await stage.until(are_tied)
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}
    outlook = await planned(stage, budget(targetRef=target, maxUnavailable=1))
    assert [sorted(pods) for pods in outlook.stays.values()] == [names]
    assert "some pods of this budget are assigned to PodUnavailableBudget older" in next(iter(outlook.stays))
