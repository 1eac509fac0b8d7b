"""A plan notes each budget that a rollout breaks, for every kind of workload; these budgets do not stop the rollout."""

from collections.abc import Callable
from typing import Any

import pytest

from pykruise.cli.insight.forecasting import Forecast, forecast
from pykruise.cli.plan import describe_forecast
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kinds.statefulset.kind import KIND as STATEFUL_SET
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.resources import POD_DISRUPTION_BUDGETS
from pykruise.plans.kind import Kind
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from support.daemonsets import Pool
from support.scenario import Object, Stage, cloneset, rolling
from support.statefulsets import statefulset

KINDS: dict[str, tuple[Kind, Callable[[Pool], Object], Object]] = {
    "cloneset": (CLONE_SET, lambda _pool: cloneset(replicas=4), {"maxUnavailable": 2}),
    "daemonset": (DAEMON_SET, lambda pool: pool.daemonset(), {"maxUnavailable": 2}),
    "statefulset": (
        STATEFUL_SET,
        lambda _pool: statefulset(replicas=4, parallel=True),
        {"maxUnavailable": 2},
    ),
}


async def at_rest(stage: Stage, workload: Kind, document: Object) -> None:
    await stage.create(document, resource=workload.resource)

    async def are_ready() -> bool:
        pods = await stage.pods()
        return len(pods) == 4 and all(pod.is_serving for pod in pods)

    await stage.until(are_ready, what="four pods")


async def protect(stage: Stage, budget: str, wanted: int) -> None:
    """Create a budget that requires `wanted` available pods, and wait until its status counts the pods."""
    selector = {"matchLabels": {"app": "web"}}
    if budget == "disruption":
        body: Object = {
            "metadata": {"name": "guard"},
            "spec": {"minAvailable": wanted, "selector": selector},
        }
        await stage.create(body, resource=POD_DISRUPTION_BUDGETS)
        resource, field = POD_DISRUPTION_BUDGETS, "currentHealthy"
    else:
        body = {
            "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
            "kind": POD_UNAVAILABLE_BUDGETS.kind,
            "metadata": {"name": "guard"},
            "spec": {"minAvailable": wanted, "selector": selector},
        }
        await stage.create(body, resource=POD_UNAVAILABLE_BUDGETS)
        resource, field = POD_UNAVAILABLE_BUDGETS, "currentAvailable"

    async def is_counted() -> bool:
        status = (await stage.get("guard", resource=resource)).get("status") or {}
        return bool(status.get(field) == 4)

    await stage.until(is_counted, what="the budget's status")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("budget", "line"),
    [
        (
            "disruption",
            "PodDisruptionBudget guard requires 3 available pods, but at times only 2 remain: "
            "the budget does not block controllers, but drains wait during that time",
        ),
        (
            "unavailable",
            "PodUnavailableBudget guard requires 3 available pods, but at times only 2 remain: "
            "a webhook that checks this budget rejects disruptions that would leave fewer than 3",
        ),
    ],
    ids=["disruption", "unavailable"],
)
async def test_a_plan_notes_a_budget_that_the_rollout_violates(
    stage: Stage, pool: Pool, kind: str, budget: str, line: str
) -> None:
    # given four pods of which three are to be available, and a rollout that takes two at a time
    workload, make, rollout = KINDS[kind]
    document = make(pool)
    document["spec"]["updateStrategy"] = rolling(**rollout)
    await stage.start_manager()
    await at_rest(stage, workload, document)
    await protect(stage, budget, 3)

    async def planned(**fields: Any) -> Forecast:
        containers = [{"name": "main", "image": "nginx:2"}]
        spec = {
            "template": {"spec": {"containers": containers}},
            "updateStrategy": rolling(**rollout, **fields),
        }
        changed = apply_merge_patch(document, {"spec": spec})
        return await forecast(stage.client, changed, namespace=stage.namespace, now=stage.clock())

    # when
    said = await planned()
    # then
    assert said.lowest_available == 2
    assert said.notes == (line,)
    assert f"  {line}" in describe_forecast(said)
    # and nothing is noted of a rollout that leaves enough
    assert (await planned(partition=3)).notes == ()
