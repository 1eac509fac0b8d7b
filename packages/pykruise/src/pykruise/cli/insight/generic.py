"""Forecast for a kind that has nothing but its plan.

manifest ──dry run──▶ Sight as it would be ──the kind's plan──▶ Outlook: the writes that would come first
"""

from collections.abc import Iterator

from pykruise.cli.insight.admission_check import asked
from pykruise.cli.insight.cluster_reading import look_at
from pykruise.cli.insight.effect_forecast import Outlook, OutlookBatch, PodFate
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.runtime.plan import Plan


async def forecast_any(
    client: Client, kind: Kind, document: Document, key: Key, now: Instant, settings: ManagerSettings | None
) -> Outlook:
    """Look, and ask admission in a dry run. Writes nothing. Raises KubeError for what cannot be read."""
    verdict = await asked(client, kind.resource, key, document)
    if verdict.wanted is None:
        return Outlook(**verdict.about)
    sight = await look_at(client, kind, verdict.wanted, now=now, settings=settings)
    plan = sight.plan() if sight.snapshot is not None else Plan()
    return Outlook(
        **verdict.about,
        batches=tuple(_batches(plan)),
        stays={why.message: (name,) for name, why in plan.skipped.items()},
        notes=tuple(note.message for note in plan.notes),
    )


def _batches(plan: Plan) -> Iterator[OutlookBatch]:
    for number, stage in enumerate(plan.stages, start=1):
        fates = (PodFate(pod=chain.subject, do=chain.steps[-1].because) for chain in stage.chains)
        yield OutlookBatch(number=number, fates=tuple(fates))
