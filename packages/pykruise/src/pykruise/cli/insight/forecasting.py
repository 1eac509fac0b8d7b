"""Forecast of applying a manifest: admission, then the rollout, simulated in a copy of the cluster's state.

manifest ──dry run──▶ ask_admission() ──▶ AdmissionVerdict ─────────────┐
Client ──look()──▶ Sight ──▶ PlayWorld (a copy) ──▶ play() ──▶ Played ──┴▶ Forecast

The copy has the real pods with their UIDs, times and status, and the real manager works in it. So the order, the
batches and the budgets are the manager's own. The forecast assumes that all pods become ready equally fast, that nodes
have room for the pods, and that all lifecycle hooks are released.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.admission_check import ask_admission
from pykruise.cli.insight.budgets import list_budgets_below, read_budgets
from pykruise.cli.insight.cluster_reading import Sight, look, nodes_of
from pykruise.cli.insight.effect_forecast import Foreseen, OutlookBatch, PodFate, group_by_reason
from pykruise.cli.insight.followed_config import list_content_changes, read_followed
from pykruise.cli.insight.known_kinds import (
    find_kind_of_document,
    find_workload_insight,
    is_per_node,
    strip_document,
)
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, is_same
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS
from pykruise.kube.values.counts import format_count
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.plans.views import NodeView
from pykruise.pods.in_place import NotInPlace, UpdateSpec, find_difference
from pykruise.pods.in_place.declared_features import UNDECLARED, fit_to_node
from pykruise.pods.reasons import Code
from pykruise.pods.template.config_content import record_content
from pykruise.pods.view import keys
from pykruise.pods.workload.revisions import RevisionView

if TYPE_CHECKING:  # `pykruise explain` works without the sandbox, which simulates rollouts
    from pykruise.cli.insight.simulating import Play, Played
    from pykruise.sandbox.nodes.specs import NodeSpec


class Forecast(Foreseen, frozen=True, kw_only=True):
    """Forecast of a workload, whose rollout is simulated."""

    ways: Mapping[str, str] = {}
    """Update method by revision: in place, or recreated, with the field that forces the recreation."""
    are_names_known: bool = False
    """Whether new pods get the names shown here; otherwise their names are chosen when they are created."""
    claims_created: tuple[str, ...] = ()
    claims_deleted: tuple[str, ...] = ()
    claims_kept: tuple[str, ...] = ()
    """PVCs that lose their pod and are not deleted."""
    holds: tuple[str, ...] = ()
    """Obstacles of the rollout."""
    lowest_available: int = 0
    pods_before: int = 0
    pods_after: int = 0


async def forecast(
    client: Client,
    document: Document,
    *,
    namespace: str,
    now: Instant,
    settings: ManagerSettings | None = None,
    changed_config: Sequence[Document] = (),
) -> Forecast:
    """Read the object, ask admission in a dry run, and simulate the rollout. Writes nothing. Raises KubeError for
    reads that fail. `changed_config`: ConfigMaps and Secrets that change too.
    """
    forecast, _ = await forecast_and_play(
        client, document, namespace=namespace, now=now, settings=settings, changed_config=changed_config
    )
    return forecast


async def forecast_and_play(
    client: Client,
    document: Document,
    *,
    namespace: str,
    now: Instant,
    settings: ManagerSettings | None = None,
    changed_config: Sequence[Document] = (),
) -> tuple[Forecast, "Played | None"]:
    """Return the forecast and the simulated rollout, for a chart; None if admission rejects the manifest. Raises
    CommandError without the sandbox. `changed_config`: ConfigMaps and Secrets that change too.
    """
    try:
        from pykruise.cli.insight.simulating import Play, PlayWorld, play
    except ModuleNotFoundError as error:
        raise CommandError(
            "plan simulates the change in a sandbox, which is a separate package: "
            f"{error}; pip install 'pykruise[sandbox]'"
        ) from error
    settings = settings or ManagerSettings()
    workload = find_kind_of_document(document)
    key = Key(namespace, document["metadata"]["name"])
    verdict = await ask_admission(client, workload.resource, key, document)
    live, wanted = verdict.live, verdict.wanted
    if wanted is None:
        return Forecast(**verdict.about), None
    if live is None:
        nodes = await nodes_of(client) if is_per_node(workload) else {}
        given = Play(
            change=strip_document(wanted),
            is_admitted=True,
            namespace=namespace,
            start=now,
            world=PlayWorld(nodes=_to_specs(nodes.values())),
            settings=settings,
        )
        played = await asyncio.to_thread(play, given)
        return _describe(verdict.about, workload, None, wanted, played, settings), played
    sight = await look(client, workload, key, now=now, settings=settings)
    copy = await _copy_cluster(client, sight, wanted, now=now, settings=settings)
    copy = msgspec.structs.replace(copy, beside_changes=changed_config)
    played = await asyncio.to_thread(play, copy)
    about = verdict.about
    if changed_config:
        about = {**about, **_describe_config(about, copy.world.beside, changed_config)}
    forecast = _describe(about, workload, sight, wanted, played, settings)
    if not forecast.batches:
        return forecast, played
    budgets = await read_budgets(
        client,
        namespace,
        checked_by_manager=find_workload_insight(workload).asks_budgets(
            settings.read_kind_settings(workload)
        ),
    )
    notes = list_budgets_below(budgets, sight.snapshot.pods, lowest=forecast.lowest_available)
    return msgspec.structs.replace(forecast, notes=tuple(notes)), played


# The copy


async def _copy_cluster(
    client: Client, sight: Sight, wanted: Document, *, now: Instant, settings: ManagerSettings
) -> "Play":
    from pykruise.cli.insight.simulating import Play, PlayWorld, make_roomy_nodes

    namespace = sight.document["metadata"].get("namespace", "")
    revisions, claims, followed = await asyncio.gather(
        client.list(CONTROLLER_REVISIONS, namespace),
        client.list(PERSISTENT_VOLUME_CLAIMS, namespace),
        read_followed(client, sight.kind, (sight.document, wanted), namespace=namespace, settings=settings),
    )
    own = [decode(raw) for raw in claims.items]
    used = sorted({pod["spec"].get("nodeName") or "" for pod in sight.pods.values()} - {""}) or ["node-1"]
    if is_per_node(sight.kind):
        used = sorted(sight.nodes)
    # Without permission to read nodes, the names of nodes come from the pods.
    unknown = [name for name in used if name not in sight.nodes]
    specs = [
        *_to_specs(sight.nodes[name] for name in used if name in sight.nodes),
        *make_roomy_nodes(unknown),
    ]
    return Play(
        change=strip_document(wanted),
        is_admitted=True,
        namespace=namespace,
        start=now,
        world=PlayWorld(
            workload=sight.document,
            revisions=[decode(raw) for raw in revisions.items],
            pods=list(sight.pods.values()),
            beside=[*sight.budgets, *followed],
            claims=[doc for doc in own if find_workload_insight(sight.kind).has_claim(sight.document, doc)],
            nodes=specs,
        ),
        settings=settings,
    )


def _describe_config(
    about: Mapping[str, Any], stored: Sequence[Document], changed: Sequence[Document]
) -> dict[str, Any]:
    """Return the fields of a `Foreseen` about changed ConfigMaps and Secrets."""
    known = {(entry["kind"], entry["metadata"]["name"]): entry for entry in stored}
    fields = [
        change
        for document in changed
        for change in list_content_changes(
            known.get((document["kind"], document["metadata"]["name"])), document
        )
    ]
    is_changed = bool(fields) and about["change"] == "unchanged"
    return {
        "fields": (*about["fields"], *fields),
        "change": "changed" if is_changed else about["change"],
    }


def _to_specs(nodes: Iterable[NodeView]) -> "list[NodeSpec]":
    """Return nodes with the same labels and taints, and with unlimited room."""
    from pykruise.cli.insight.simulating import make_roomy_nodes

    views = list(nodes)
    return [
        msgspec.structs.replace(
            spec,
            labels=dict(view.labels),
            taints=view.taints,
            declared_features=None
            if view.declared_features is None
            else tuple(sorted(view.declared_features)),
        )
        for view, spec in zip(views, make_roomy_nodes([view.name for view in views]), strict=True)
    ]


# Description


def _describe(
    about: Mapping[str, Any],
    workload: Kind,
    sight: Sight | None,
    wanted: Document,
    played: "Played",
    settings: ManagerSettings,
) -> Forecast:
    if played.refused:
        return Forecast(**{**about, "change": "refused", "errors": played.refused, "fields": ()})
    if played.record:
        template = record_content(wanted["spec"]["template"], played.record)
        wanted = {**wanted, "spec": {**wanted["spec"], "template": template}}
    batches = tuple(_find_batches(played))
    touched = {fate.pod for batch in batches for fate in batch.fates}
    before = sight.snapshot.pods if sight else ()
    deleted = tuple(action.name for action in played.actions if action.do == "delete claim")
    return Forecast(
        **about,
        ways=_correct_by_simulation(_update_methods(workload, sight, wanted, settings), sight, wanted, played)
        if sight
        else {},
        batches=batches,
        are_names_known=find_workload_insight(workload).has_known_names,
        stays=group_by_reason(_list_unchanged_pods(sight, wanted, touched, played)) if sight else {},
        claims_created=tuple(action.name for action in played.actions if action.do == "create claim"),
        claims_deleted=deleted,
        claims_kept=_list_kept_claims(sight, played, deleted),
        holds=tuple(_find_obstacles(workload, sight, wanted, played)),
        lowest_available=played.lowest_available,
        pods_before=sum(pod.is_active for pod in before),
        pods_after=played.samples[-1].total if played.samples else 0,
    )


def _find_batches(played: "Played") -> Iterator[OutlookBatch]:
    groups: dict[int, list[PodFate]] = {}
    for action in played.actions:
        if not action.do.endswith("claim"):
            groups.setdefault(action.batch, []).append(PodFate(pod=action.name, do=action.do))
    for number, fates in enumerate(groups.values(), start=1):
        yield OutlookBatch(number=number, fates=tuple(fates))


def _list_unchanged_pods(
    sight: Sight, wanted: Document, touched: set[str], played: "Played"
) -> Iterator[tuple[str, str]]:
    """Yield the reason of each pod that does not change, with its name; the last plan has the reason of each pod that
    it skips.
    """
    for pod in sight.snapshot.pods:
        if not pod.is_active or pod.name in touched:
            continue
        of = next((revision for revision in sight.snapshot.revisions if revision.hash == pod.revision), None)
        if of is not None and _is_same_template(of, wanted):
            yield "it already has the requested state", pod.name
        else:
            reason = played.skipped.get(pod.name)
            yield reason.message if reason is not None else "nothing remained to be done", pod.name


def _is_same_template(revision: RevisionView, wanted: Document) -> bool:
    return is_same(
        _without_empty_fields(revision.template), _without_empty_fields(wanted["spec"]["template"])
    )


def _without_empty_fields(template: Mapping[str, Any]) -> Any:
    """Return the template without null metadata and empty resources, which only stored revisions have."""
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if v is not None}
    spec = dict(template.get("spec") or {})
    spec["containers"] = [
        {k: v for k, v in container.items() if k != "resources" or v}
        for container in spec.get("containers") or ()
    ]
    return {"metadata": metadata, "spec": spec}


def _update_methods(
    workload: Kind, sight: Sight, wanted: Document, settings: ManagerSettings
) -> dict[str, str]:
    """Return, for each revision of existing pods, how these pods get the wanted template."""
    strategy, _ = find_workload_insight(workload).strategy(wanted["spec"])
    if strategy is None:
        return {}
    used = sorted({str(pod.revision) for pod in sight.snapshot.pods if pod.is_active})
    ways: dict[str, str] = {}
    for name in used:
        old = next((revision for revision in sight.snapshot.revisions if revision.hash == name), None)
        if old is not None and _is_same_template(old, wanted):
            continue
        if strategy.in_place == "never":
            ways[name] = f"recreated: {strategy.recreates_because}"
            continue
        # Only the template and the annotations of the target are read.
        target = msgspec.structs.replace(old, template=wanted["spec"]["template"]) if old else None
        in_place = settings.read_kind_settings(workload).in_place
        how = (
            find_difference(old, target, revision="wanted", settings=in_place, grace_seconds=0)
            if target
            else None
        )
        if isinstance(how, NotInPlace):
            is_only = strategy.in_place == "only"
            ways[name] = f"{'not at all (InPlaceOnly)' if is_only else 'recreated'}: {how.reason}"
        elif how is None:
            ways[name] = "recreated: its revision is no longer known"
        else:
            ways[name] = _in_place_by_node(how, name, sight)
    return ways


def _in_place_by_node(how: UpdateSpec, revision: str, sight: Sight) -> str:
    """Return how pods of a revision reach the target: in place, except on nodes that declare their features and do not
    declare the feature that the update needs.
    """
    pods = [pod for pod in sight.snapshot.pods if pod.is_active and str(pod.revision) == revision]
    undeclaring = sight.snapshot.undeclaring
    kept = {
        pod.node_name
        for pod in pods
        if isinstance(fit_to_node(how, pod.node_name, undeclaring=undeclaring), NotInPlace)
    }
    if not kept:
        return "in place"
    if kept >= {pod.node_name for pod in pods}:
        return f"recreated: {UNDECLARED}"
    return f"in place; recreated on {_join_names(sorted(kept))}: {UNDECLARED}"


def _correct_by_simulation(
    ways: Mapping[str, str], sight: Sight, wanted: Document, played: "Played"
) -> dict[str, str]:
    """Return the update methods corrected by the simulation: changes outside the template, such as
    volumeClaimTemplates, may force pods to be recreated.
    """
    deleted = {action.name for action in played.actions if action.do == "delete"}
    updated = {action.name for action in played.actions if action.do == "update in place"}
    result = dict(ways)
    for revision, way in ways.items():
        names = {pod.name for pod in sight.snapshot.pods if pod.is_active and str(pod.revision) == revision}
        if way == "in place" and names & deleted and not names & updated:
            claims = [(entry["spec"].get("volumeClaimTemplates") or []) for entry in (sight.document, wanted)]
            why = (
                "volumeClaimTemplates changed"
                if not is_same(*claims)
                else "these pods cannot be updated in place now"
            )
            result[revision] = f"recreated: {why}"
    return result


def _list_kept_claims(sight: Sight | None, played: "Played", deleted: Sequence[str]) -> tuple[str, ...]:
    if sight is None:
        return ()
    gone = {action.name for action in played.actions if action.do == "delete"}
    gone -= {action.name for action in played.actions if action.do == "create"}
    mounted = (
        claim
        for pod in sight.snapshot.pods
        if pod.name in gone
        for _, claim in pod.claim_volumes
        if claim.endswith(f"-{pod.name}")  # created for this pod, not shared
    )
    return tuple(sorted(set(mounted) - set(deleted)))


def _find_obstacles(workload: Kind, sight: Sight | None, wanted: Document, played: "Played") -> Iterator[str]:
    asked = {"prepare deletion": "preDelete", "prepare update": "inPlaceUpdate"}
    for do, hook in asked.items():
        names = [action.name for action in played.actions if action.do == do]
        if names:
            yield f"the {hook} hook must be released on {_join_names(names)}"
    kept = group_by_reason(
        (reason.message, pod)
        for pod, reason in played.skipped.items()
        if reason.code == Code.DISRUPTION_BUDGET
    )
    yield from (f"{refusal}: {_join_names(pods)}" for refusal, pods in sorted(kept.items()))
    strategy, problem = find_workload_insight(workload).strategy(wanted["spec"])
    if strategy is None:
        yield problem
        return
    if strategy.is_paused:
        yield "updates are paused"
    if sight is not None:
        down = [pod.name for pod in sight.snapshot.pods if pod.is_active and not pod.is_serving]
        if down:
            not_served = format_count(
                len(down), "pod that does not serve now counts", "pods that do not serve now count"
            )
            yield f"{not_served} against maxUnavailable: {_join_names(down)}"
    gates = _list_foreign_gates(wanted)
    if gates and any(action.do == "create" for action in played.actions):
        yield f"new pods wait for their readiness gates {', '.join(gates)}, which other controllers must set"
    if (wanted["spec"]["template"].get("spec") or {}).get("schedulingGates"):
        yield "new pods are not scheduled until their scheduling gates are removed"
    for condition in played.status.get("conditions") or ():
        if condition.get("type") == "FailedUpdate" and condition.get("status") == "True":
            yield str(condition.get("message"))


def _list_foreign_gates(wanted: Document) -> list[str]:
    """Return readiness gates that another controller has to set."""
    gates = (wanted["spec"]["template"].get("spec") or {}).get("readinessGates") or ()
    names = [str(gate.get("conditionType") or "") for gate in gates]
    return [name for name in names if name not in ("", keys.IN_PLACE_READY, keys.KRUISE_POD_READY)]


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
