"""`explain` names what refuses a manager's writes, where an API server really refuses them: quotas, webhooks, policies,
rights. The sandbox has none of the four; there the answers are scripted (test_explain_stuck_*)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import pytest

from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kinds.statefulset.kind import KIND as STATEFUL_SET
from pykruise.plans.kind import Kind
from support.daemonsets import Pool
from support.scenario import Object, Stage, cloneset
from support.statefulsets import statefulset
from support.stuck import Refusal, named, used_up_quota

pytestmark = [pytest.mark.real]

DOCUMENTS: dict[str, tuple[Kind, Callable[[Pool], Object]]] = {
    "cloneset": (CLONE_SET, lambda _pool: cloneset()),
    "daemonset": (DAEMON_SET, lambda pool: pool.daemonset()),
    "statefulset": (STATEFUL_SET, lambda _pool: statefulset(parallel=True)),
}


@pytest.fixture
async def refusal(stage: Stage) -> AsyncIterator[Refusal]:
    """Rejects writes of the manager in several ways; they are removed at the end."""
    refusal = Refusal(stage)
    yield refusal
    await refusal.end()


async def the_quota_is_used_up(stage: Stage, _refusal: Refusal) -> None:
    await used_up_quota(stage, pods=1)
    await stage.start_manager()


async def a_webhook_does_not_answer(stage: Stage, refusal: Refusal) -> None:
    await refusal.by_dead_webhook()
    await stage.start_manager()


async def a_policy_refuses(stage: Stage, refusal: Refusal) -> None:
    await refusal.by_policy("images must be signed")
    await stage.start_manager()


async def the_manager_lacks_a_right(stage: Stage, refusal: Refusal) -> None:
    await stage.start_manager(await refusal.by_rights())


class Refused(NamedTuple):
    """A way to refuse writes, the cause that `explain` must name first, and words that it must use."""

    stage_it: Callable[[Stage, Refusal], Awaitable[None]]
    cause: str
    says: str


CASES = (
    Refused(the_quota_is_used_up, "Quota", "exceeded quota: team"),
    Refused(a_webhook_does_not_answer, "Webhook", 'failed calling webhook "pods.example.com"'),
    Refused(a_policy_refuses, "Policy", "images must be signed"),
    Refused(the_manager_lacks_a_right, "Forbidden", 'cannot create resource "pods"'),
)


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stage_it.__name__)
async def test_explain_names_what_refuses(
    stage: Stage, pool: Pool, refusal: Refusal, case: Refused, kind: str
) -> None:
    # given
    workload, document = DOCUMENTS[kind]
    await case.stage_it(stage, refusal)
    await stage.create(document(pool), resource=workload.resource)
    # when
    _, said = await named(stage, workload, cause=case.cause)
    # then
    assert case.says in said
