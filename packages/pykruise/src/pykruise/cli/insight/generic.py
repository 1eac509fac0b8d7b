"""Forecast for a kind that has no other forecast than its plan.

manifest ──dry run──▶ snapshot after the change ──plan of its kind──▶ Outlook: the manager's first writes
"""

from collections.abc import Iterator
from typing import assert_never

from pykruise.cli.insight.admission_check import ask_admission
from pykruise.cli.insight.cluster_reading import look_at
from pykruise.cli.insight.effect_forecast import Outlook, OutlookBatch, PodFate, group_by_reason
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.runtime.actions import Action, Create, Delete, Patch
from pykruise.runtime.plan import Chain, Plan


async def forecast_any(
    client: Client, kind: Kind, document: Document, key: Key, now: Instant, settings: ManagerSettings | None
) -> Outlook:
    """Read the object and ask admission in a dry run. Writes nothing. Raises KubeError for reads that fail."""
    verdict = await ask_admission(client, kind.resource, key, document)
    if verdict.wanted is None:
        return Outlook(**verdict.about)
    sight = await look_at(client, kind, verdict.wanted, now=now, settings=settings)
    plan = sight.plan() if sight.snapshot is not None else Plan()
    return Outlook(
        **verdict.about,
        batches=tuple(_find_batches(plan, key)),
        batches_title="Order",
        then="then",
        stays=group_by_reason(
            (why.message, name) for name, why in (*plan.skipped.items(), *plan.skipped_nodes.items())
        ),
        notes=tuple(_find_notes(plan)),
    )


def _find_notes(plan: Plan) -> Iterator[str]:
    yield from (note.message for note in plan.notes)
    said = {why.message for why in (*plan.skipped.values(), *plan.skipped_nodes.values())}
    if plan.waiting is not None and plan.waiting.message not in said:
        yield plan.waiting.full_message


def _find_batches(plan: Plan, key: Key) -> Iterator[OutlookBatch]:
    """Yield a batch for each stage that writes more than the object's own metadata and status."""
    number = 0
    for stage in plan.stages:
        chains = [chain for chain in stage.chains if not _is_bookkeeping(chain, key)]
        if chains:
            number += 1
            yield OutlookBatch(number=number, fates=tuple(_build_pod_fate(chain) for chain in chains))


def _is_bookkeeping(chain: Chain, key: Key) -> bool:
    """Whether the chain only updates the metadata or the status of the object itself."""
    action = chain.steps[-1].action
    return isinstance(action, Patch) and action.key == key and not _is_of_the_spec(action)


def _is_of_the_spec(action: Patch) -> bool:
    return not action.subresource and isinstance(action.body, dict) and "spec" in action.body


def _build_pod_fate(chain: Chain) -> PodFate:
    """Return the write and the name of its object. A random name is valid for this plan only, so the reason of the
    write replaces it.
    """
    step = chain.steps[-1]
    verb = f"{_name_operation(step.action)} {step.action.resource.kind}"
    if chain.has_random_name:
        return PodFate(pod=step.because, do=verb)
    return PodFate(pod=chain.subject or step.action.key.name, do=f"{verb} ({step.because})")


def _name_operation(action: Action) -> str:
    match action:
        case Create():
            return "create"
        case Patch():
            return "update"
        case Delete():
            return "delete"
        case _:
            assert_never(action)
