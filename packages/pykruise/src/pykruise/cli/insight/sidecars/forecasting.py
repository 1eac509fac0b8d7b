"""Forecast of applying a SidecarSet: the order of pod upgrades, pods that cannot be upgraded, and the sidecars of new
pods.

manifest ──dry run──▶ SidecarSight as it would be ──▶ rounds of plan_sidecarset() ──▶ Outlook

The order is the manager's own: the forecast makes the manager's plan repeatedly, and treats the planned pods as
upgraded and ready each time.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pykruise.agent.rules.recreations import REQUESTS
from pykruise.cli.insight.admission_check import ask_admission
from pykruise.cli.insight.effect_forecast import Outlook, OutlookBatch, PodFate, group_by_reason
from pykruise.cli.insight.sidecars.explaining import explain_missing, explain_skipped, list_busy
from pykruise.cli.insight.sidecars.look import SidecarSight, sight_of
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.matching import PARTIAL, choose_contents
from pykruise.kinds.sidecarset.plan import plan_sidecarset
from pykruise.kinds.sidecarset.sidecar_contents import Sidecar, SidecarSetContents, name_hot_pair
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView, has_contents
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create
from pykruise.runtime.plan import Plan
from pykruise.runtime.reasons import Reason

MOST_ROUNDS = 500
"""Maximum number of batches in the forecast; a longer rollout continues in the same way."""


async def forecast_sidecars(
    client: Client, document: Document, key: Key, now: Instant, settings: ManagerSettings | None = None
) -> Outlook:
    """Read the objects and ask admission in a dry run. Writes nothing. Raises KubeError for reads that fail."""
    verdict = await ask_admission(client, SIDECAR_SETS, Key("", key.name), document)
    if verdict.wanted is None:
        return Outlook(**verdict.about)
    sight = await sight_of(client, verdict.wanted, now=now, settings=settings)
    plan = plan_sidecarset(sight.snapshot)
    batches, stays, is_cut = _forecast_rollout(sight, plan)
    return Outlook(
        **verdict.about,
        batches=batches,
        stays=stays,
        new_pods=tuple(_describe_new_pods(sight)),
        notes=tuple(_find_notes(sight, batches, is_cut=is_cut, restarting=_list_restarting(plan))),
    )


# ── existing pods ────────────────────────────────────────────────────────────


def _forecast_rollout(
    sight: SidecarSight, plan: Plan
) -> tuple[tuple[OutlookBatch, ...], dict[str, tuple[str, ...]], bool]:
    """Return the batches, the reasons why the remaining pods are not upgraded, and whether there would be further
    batches. `plan`: the plan for the snapshot.
    """
    snapshot = sight.snapshot
    batches: list[OutlookBatch] = []
    while len(batches) < MOST_ROUNDS:
        doing = {
            chain.subject: "end the hot upgrade"
            if stage.purpose == Purpose.END_HOT_UPGRADES
            else "upgrade in place"
            for stage in plan.stages
            if stage.purpose in (Purpose.UPGRADE_SIDECARS, Purpose.END_HOT_UPGRADES)
            for chain in stage.chains
        }
        if not doing:
            break
        fates = tuple(PodFate(pod=pod, do=do) for pod, do in doing.items())
        batches.append(OutlookBatch(number=len(batches) + 1, fates=fates))
        pods = [_apply_operation(pod, doing.get(pod.label)) for pod in snapshot.pods]
        snapshot = msgspec.structs.replace(snapshot, pods=pods)
        plan = plan_sidecarset(snapshot)
    after = msgspec.structs.replace(sight, snapshot=snapshot)
    return (
        tuple(batches),
        group_by_reason(_list_unchanged_pods(after, plan.skipped)),
        bool(plan.stages) and len(batches) == MOST_ROUNDS,
    )


def _apply_operation(pod: ManagedPod, do: str | None) -> ManagedPod:
    """Return the pod as it is after the operation, updated and ready; without an operation, the same pod."""
    if do is None:
        return pod
    pairs = tuple(msgspec.structs.replace(pair, other_image=pair.sidecar.empty_image) for pair in pod.pairs)
    is_updated = pod.is_updated or do == "upgrade in place"
    return msgspec.structs.replace(
        pod, is_updated=is_updated, is_consistent=True, is_ready=True, restarting={}, pairs=pairs
    )


def _list_unchanged_pods(sight: SidecarSight, skipped: Mapping[str, Reason]) -> Iterator[tuple[str, str]]:
    busy = list_busy(sight)
    for pod in sight.managed:
        if pod.label in skipped:
            wait = explain_skipped(pod, skipped[pod.label], sight, busy=busy)
            words = "only when the pod is recreated: " if wait.code == Code.NOT_IN_PLACE else ""
            yield f"{words}{wait.words}", pod.label
    for wait in explain_missing(sight):
        yield from ((wait.words, pod) for pod in wait.pods)


# ── new pods ─────────────────────────────────────────────────────────────────


def _describe_new_pods(sight: SidecarSight) -> Iterator[str]:
    view = sight.view
    if not has_contents(view):
        return
    strategy = view.spec.injection_strategy
    if strategy is not None and strategy.paused:
        yield "get no sidecars, because injectionStrategy.paused is true"
        return
    try:
        contents = choose_contents(view, labels={}, revisions=sight.revisions, draw=lambda: 1.0)
    except InjectionError as error:
        yield f"are rejected: {error}"
        return
    yield from _describe_revision(view, contents)
    yield from _describe_contents(contents)


def _describe_revision(view: ReadableSidecarSetView, contents: SidecarSetContents) -> Iterator[str]:
    """Yield which new pods get the revision of injectionStrategy. `contents`: those of a pod without labels."""
    choice = view.spec.revision_choice
    if choice is None or not choice.names_revision:
        return
    is_partial = choice.policy == PARTIAL
    if contents is not view.contents:
        others = ", except pods that updateStrategy.selector matches"
        is_selected = is_partial and view.update_selector is not None
        required = f"get revision {contents.revision}, as injectionStrategy.revision requires"
        yield required + (others if is_selected else "")
        return
    strategy = view.spec.update_strategy
    share = strategy.partition if strategy is not None else None
    if is_partial and isinstance(share, str):
        yield (
            f"get the containers below; a share of {share} (updateStrategy.partition) gets the revision that "
            "injectionStrategy.revision names"
        )


def _describe_contents(contents: SidecarSetContents) -> Iterator[str]:
    for container in contents.init_containers:
        yield _describe_sidecar(container, "init container")
    for container in contents.containers:
        yield _describe_sidecar(container, "container")
    annotations = [key for patch in contents.patch_pod_metadata for key in patch.annotations or {}]
    if annotations:
        yield f"annotations {', '.join(sorted(annotations))}"
    if contents.image_pull_secrets:
        yield f"pull secrets {', '.join(str(secret.get('name')) for secret in contents.image_pull_secrets)}"


def _describe_sidecar(sidecar: Sidecar, what: str) -> str:
    place = "before" if sidecar.goes_before else "after"
    if sidecar.is_hot:
        first, second = name_hot_pair(sidecar.name)
        return (
            f"{what}s {first} ({sidecar.image}) and {second} "
            f"({sidecar.empty_image}, idle), {place} the pod's own containers"
        )
    kind = f"{what} that keeps running" if sidecar.is_native else what
    return f"{kind} {sidecar.name} ({sidecar.image}), {place} the pod's own containers"


# ── further notes ────────────────────────────────────────────────────────────


def _list_restarting(plan: Plan) -> Sequence[str]:
    """Return the containers that the plan restarts, because their variables read annotations that change."""
    return sorted(
        {
            container["name"]
            for step in plan.steps
            if isinstance(step.action, Create) and step.action.resource == REQUESTS
            for container in step.action.body["spec"]["containers"]
        }
    )


def _find_notes(
    sight: SidecarSight, batches: Sequence[OutlookBatch], *, is_cut: bool, restarting: Sequence[str]
) -> Iterator[str]:
    if is_cut:
        yield f"only the first {MOST_ROUNDS} batches are shown; the others are the same"
    busy = [pod.label for pod in sight.managed if pod.is_updated and not (pod.is_consistent and pod.is_ready)]
    if busy:
        have = format_count(
            len(busy),
            "pod has the current sidecars and is not ready: it counts",
            "pods have the current sidecars and are not ready: they count",
        )
        yield f"{have} against maxUnavailable"
    if any(container.is_hot for container in (sight.view.contents.containers if sight.view.contents else ())):
        yield "hot sidecars: when the new container serves, one more write ends the upgrade of its pod"
    if restarting:
        yield (
            f"containers {', '.join(restarting)} restart in place, because their variables read annotations "
            "that change"
        )
    if batches:
        yield (
            "assumed: every upgraded pod becomes ready, and no other SidecarSet or "
            "workload changes a pod at the same time"
        )
