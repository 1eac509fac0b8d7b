"""Forecast of applying a UnitedDeployment: the distribution of its pods, and the changes of each subset's workload.

manifest ──dry run──▶ snapshot after the change ──plan of the UnitedDeployment──▶ writes to workloads ──▶ Outlook
                                                  each written workload ──forecast()──▶ an entry of Outlook.within

The rollouts of CloneSets and Advanced StatefulSets are simulated with the document that the manager would write. For
other workloads, the forecast lists the changes only.
"""

from collections.abc import AsyncIterator, Iterator

from pykruise.cli.insight.admission_check import ask_admission, list_changed_paths
from pykruise.cli.insight.cluster_reading import Sight, look_at
from pykruise.cli.insight.effect_forecast import Outlook, OutlookBatch, PodFate
from pykruise.cli.insight.forecasting import Forecast, forecast
from pykruise.cli.insight.united.explaining import EXPLAINED
from pykruise.kinds.uniteddeployment.kind import KIND
from pykruise.kinds.uniteddeployment.workloads import TEMPLATES, SubsetWorkload
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.kube.values.counts import format_count
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan, Step
from pykruise.runtime.reasons import Reason


async def forecast_united(
    client: Client, document: Document, key: Key, now: Instant, settings: ManagerSettings | None = None
) -> Outlook:
    """Read the objects and ask admission in a dry run. Writes nothing. Raises KubeError for reads that fail."""
    verdict = await ask_admission(client, KIND.resource, key, document)
    if verdict.wanted is None:
        return Outlook(**verdict.about)
    wanted = {**verdict.wanted, "metadata": {**verdict.wanted["metadata"], "namespace": key.namespace}}
    sight = await look_at(client, KIND, wanted, now=now, settings=settings)
    plan = sight.plan()
    return Outlook(
        **verdict.about,
        batches=tuple(_find_batches(sight, plan)),
        batches_title="Subsets",
        notes=tuple(_find_notes(sight, plan, plan.waiting)),
        within=tuple([item async for item in _forecast_workloads(client, sight, plan, now, settings)]),
    )


def _find_batches(sight: Sight, plan: Plan) -> Iterator[OutlookBatch]:
    """Yield the changes of workloads and pods in batches."""
    workloads = {workload.key: workload for workload in sight.snapshot.workloads}
    number = 0
    for stage in plan.stages:
        fates = [
            PodFate(pod=chain.subject, do=_change_of(step, workloads.get(step.action.key)))
            for chain in stage.chains
            for step in chain.steps
            if step.action.resource != CONTROLLER_REVISIONS and stage.purpose != Purpose.REPORT_STATUS
        ]
        if fates:
            number += 1
            yield OutlookBatch(number=number, fates=tuple(fates))


def _change_of(step: Step, workload: SubsetWorkload | None) -> str:
    action = step.action
    kind = action.resource.kind
    match action:
        case Create():
            return f"create a {kind} of {format_count(action.body['spec'].get('replicas', 0), 'pod')}"
        case Delete():
            return f"delete {kind} {action.key.name}: {step.because}"
        case Patch() if workload is not None:
            wanted = (action.body.get("spec") or {}).get("replicas", workload.replicas)
            size = (
                "" if wanted == workload.replicas else f" {workload.replicas} → {format_count(wanted, 'pod')}"
            )
            return f"update {kind} {action.key.name}:{size or f' {step.because}'}"
        case _:
            return step.because


def _find_notes(sight: Sight, plan: Plan, waiting: Reason | None) -> Iterator[str]:
    yield from (note.message for note in plan.notes)
    # The status contains the planned number of pods only for a subset that already has a workload.
    kind_of_workloads = sight.snapshot.united.template
    existing = {
        workload.subset for workload in sight.snapshot.workloads if workload.template == kind_of_workloads
    }
    entries = (plan.status or {}).get("subsetStatuses") or ()
    sizes = [
        f"{entry['name']} {entry.get('replicas') or 0}" for entry in entries if entry["name"] in existing
    ]
    if sizes and not plan.notes:
        yield f"after these changes the existing subsets have these numbers of pods: {', '.join(sizes)}"
    if waiting is not None and waiting.remedy and not plan.notes:
        yield waiting.full_message


async def _forecast_workloads(
    client: Client, sight: Sight, plan: Plan, now: Instant, settings: ManagerSettings | None
) -> AsyncIterator[Forecast | Outlook]:
    """Yield a forecast of each workload that the plan writes to."""
    templates = {resource: name for name, resource in TEMPLATES.items()}
    for step in plan.steps:
        action = step.action
        template = templates.get(action.resource)
        if template is None or isinstance(action, Delete):
            continue
        if isinstance(action, Create):
            document = action.body
            live: Document | None = None
        else:
            live = decode(await client.get(action.resource, action.key.namespace, action.key.name))
            document = apply_merge_patch(live, action.body)
        if template in EXPLAINED:
            yield await forecast(
                client, document, namespace=sight.snapshot.united.namespace, now=now, settings=settings
            )
        elif live is not None:
            yield Outlook(
                kind=action.resource.kind,
                namespace=action.key.namespace,
                name=action.key.name,
                change="changed",
                fields=tuple(list_changed_paths(live["spec"], document["spec"], "spec")),
            )
        else:
            yield Outlook(
                kind=action.resource.kind,
                namespace=action.key.namespace,
                name=action.key.name,
                change="created",
                new_pods=(f"{document['spec'].get('replicas', 0)} of them",),
            )
