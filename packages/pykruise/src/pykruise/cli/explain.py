"""`pykruise explain clonesets/web`: the state of a rollout and the cause that stops it. With `pod/web-x`: the budgets
that protect a pod, and why the pod is not ready.

kind/name ──▶ look() (reads only) ──▶ the kind's plan ──▶ explain() ──▶ text or JSON
"""

import asyncio
import time
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from pykruise.cli.errors import CommandError, CommandLineError
from pykruise.cli.insight.autoscalers import add_autoscalers
from pykruise.cli.insight.bindings import add_bindings, add_claims
from pykruise.cli.insight.changed_labels import add_changed_labels
from pykruise.cli.insight.children import add_children
from pykruise.cli.insight.cluster_reading import Sight, look
from pykruise.cli.insight.creators import find_creation, redirect_remedies
from pykruise.cli.insight.explaining import explain, phase_of
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.gated_kinds import hold_for_gates
from pykruise.cli.insight.gates import fit_settings, parse_settings, read_manager_settings
from pykruise.cli.insight.host_ports import add_host_ports
from pykruise.cli.insight.image_pulls import add_pulls
from pykruise.cli.insight.injection_check import find_part_origins, find_refused_origin
from pykruise.cli.insight.kept_children import add_kept_children
from pykruise.cli.insight.kind_insights import ATTACHED
from pykruise.cli.insight.known_kinds import (
    correction_of,
    find_kind,
    insight_of,
    list_known_kinds,
    parse_target,
)
from pykruise.cli.insight.missing import make_missing_error
from pykruise.cli.insight.mount_failures import add_mounts
from pykruise.cli.insight.namesakes import with_namesakes
from pykruise.cli.insight.other_namespaces import add_other_namespaces
from pykruise.cli.insight.overview import format_hidden_kinds, format_overview
from pykruise.cli.insight.pod_origins import add_pod_origins
from pykruise.cli.insight.pods import NAMES as POD_NAMES
from pykruise.cli.insight.pods import explain_pod, look_at_pod
from pykruise.cli.insight.quotas import add_open_quotas
from pykruise.cli.insight.readiness_gates import add_gates, see_gates
from pykruise.cli.insight.refused_node_writes import add_refusals_of_nodes, add_refused_marks
from pykruise.cli.insight.refused_writes import (
    REFUSED_WRITES,
    RefusedWrite,
    find_refusal_remedy,
    make_origin_wait,
    make_part_wait,
    make_refusal_wait,
    name_fixed_template,
    name_template,
    refusal_of,
)
from pykruise.cli.insight.rejecting_budgets import add_rejecting_budgets
from pykruise.cli.insight.traced_requests import Reach, connect_traced
from pykruise.cli.insight.unheeded import add_unheeded
from pykruise.cli.insight.united.explaining import explain_part
from pykruise.cli.insight.webhooks import add_webhook_configurations
from pykruise.cli.kubectl.resources import read_patiently
from pykruise.cli.outputs import check_output, format_document
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import list_events_about
from pykruise.kube.client.remembered_lists import RememberedLists
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError, ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import ClockInsight, InsightChild, JobInsight, WorkloadInsight
from pykruise.plans.kind import Kind
from pykruise.plans.progress import OPEN, Phase
from pykruise.pods.corrections import OF_THE_WORKLOAD, Correction
from pykruise.pods.reasons import Code
from pykruise.runtime.refusals import list_refused_parts


async def read_and_explain(
    client: Client,
    key: Key,
    *,
    now: Instant,
    kind: Kind,
    settings: ManagerSettings | None = None,
) -> Explanation:
    """Read and explain one object. Raises CommandError when it does not exist, KubeError when it cannot be read."""
    explanation = await _read_and_explain(client, key, now=now, kind=kind, settings=settings)
    return hold_for_gates(explanation, kind, settings)


async def _read_and_explain(
    client: Client, key: Key, *, now: Instant, kind: Kind, settings: ManagerSettings | None
) -> Explanation:
    """Read and explain one object, as if its kind was enabled."""
    try:
        if (attached := ATTACHED.get(kind.name)) is not None:
            explanation = await attached.explain(client, key, now, settings)
            if not attached.has_own_pods:
                explanation = await _add_details_of_others(client, explanation, kind, now, settings)
            document = decode(await client.get(kind.resource, key.namespace, key.name))
            uid, is_writing = document["metadata"]["uid"], explanation.verdict == "moving"
            explanation = await add_tries(
                client,
                explanation,
                uid=uid,
                is_writing=is_writing,
                now=now,
                records_tries=attached.records_tries,
            )
            explanation = _name_containers(explanation, document, kind)
            explanation = await with_namesakes(client, explanation, document, insight_of(kind).targets)
            explanation = await add_other_namespaces(client, explanation, document, insight_of(kind))
            explanation = await add_autoscalers(client, explanation, kind, document)
            if insight_of(kind).children is None or explanation.verdict == "refused":
                correction = correction_of(kind, document)
                return await _add_details(client, explanation, correction, kind, now=now, settings=settings)
        sight = await look(client, kind, key, now=now, settings=settings)
        sight = await see_gates(client, sight, settings=settings)
    except NotFoundError as error:
        raise await make_missing_error(client, kind.resource, key, error) from error
    creation = None
    if attached is None:
        creation = await find_creation(client, kind, sight.document, now, settings)
        own = creation.correction if creation is not None else None
        part = await explain_part(client, sight.document, now, settings)
        explanation = await _with_refusals(client, sight, now, settings=settings, correction=own, known=part)
        explanation = redirect_remedies(explanation, kind, sight.document, creation)
        explanation = await add_origin(client, explanation, sight)
        explanation = await add_kept_children(client, explanation, sight)
        explanation = await with_namesakes(client, explanation, sight.document, insight_of(kind).targets)
        explanation = await add_other_namespaces(client, explanation, sight.document, insight_of(kind))
        explanation = await add_autoscalers(client, explanation, kind, sight.document)

    async def explain_child(client: Client, kind: Kind, child: InsightChild) -> Explanation:
        inner = await look(client, kind, child.key, now=now, settings=settings)
        inner = await see_gates(client, inner, settings=settings)
        said = await _with_refusals(client, inner, now, settings=settings, correction=child.correction)
        said = await add_origin(client, said, inner)
        creator = child.correction.again if child.correction is not None else ""
        return await add_children(client, said, inner, explain_child, creator=creator)

    explanation = await add_children(client, explanation, sight, explain_child)
    explanation = await add_unheeded(client, explanation, sight.document, insight_of(kind))
    explanation = await add_changed_labels(client, explanation, sight.document, insight_of(kind))
    explanation = await add_refused_marks(client, explanation, sight, now=now)
    correction = (creation and creation.correction) or correction_of(kind, sight.document)
    return await _add_details(client, explanation, correction, kind, now=now, settings=settings)


async def _add_details(
    client: Client,
    explanation: Explanation,
    correction: Correction,
    kind: Kind,
    *,
    now: Instant,
    settings: ManagerSettings | None,
) -> Explanation:
    """Return the explanation with details about the pods from other objects, such as PVCs and events."""
    if kind.name not in ATTACHED and not _has_own_pods(kind):
        explanation = await _add_details_of_others(client, explanation, kind, now, settings)
    explanation = await add_bindings(client, explanation, correction)
    explanation = await add_host_ports(client, explanation)
    explanation = await add_pulls(client, explanation, now=now)
    explanation = await add_mounts(client, explanation, correction, now=now)
    explanation = await add_pod_origins(client, explanation)
    explanation = await add_webhook_configurations(client, explanation)
    return await add_open_quotas(client, explanation)


async def _add_details_of_others(
    client: Client, explanation: Explanation, kind: Kind, now: Instant, settings: ManagerSettings | None
) -> Explanation:
    """Return the explanation of an object that only observes pods, with details about the pods. If an owner of pods is
    explained, its waits already contain these details.
    """
    explanation = await add_claims(client, explanation)
    explanation = await add_refusals_of_nodes(client, explanation, insight_of(kind).objects_of_nodes, now)
    if insight_of(kind).conditions is not None:
        return explanation  # the plan of this object already has the reasons
    return await add_gates(client, explanation, now=now, settings=settings)


def _has_own_pods(kind: Kind) -> bool:
    """Whether the objects of the kind, or the workloads and jobs that they create, own pods."""
    insight = insight_of(kind)
    return isinstance(insight, WorkloadInsight | JobInsight) or insight.children is not None


async def _with_refusals(
    client: Client,
    sight: Sight,
    now: Instant,
    *,
    settings: ManagerSettings | None,
    correction: Correction | None = None,
    known: Explanation | None = None,
) -> Explanation:
    """Return the explanation with the attempts of rejected writes. `known`: the explanation without them; None if it
    must be made.
    """
    plan = sight.plan()
    explanation = known or explain(sight, plan, correction=correction)
    tried = await add_tries(client, explanation, uid=sight.uid, is_writing=bool(plan.stages), now=now)
    insight = insight_of(sight.kind)
    if isinstance(insight, ClockInsight):
        owner = f"{tried.kind} {tried.name}"
        fixed = (name_fixed_template(wait, owner) for wait in tried.waits)
        tried = msgspec.structs.replace(tried, waits=tuple(fixed))
    tried = _name_containers(tried, sight.document, sight.kind)
    return await add_rejecting_budgets(client, tried, sight, now=now, settings=settings)


def _name_containers(explanation: Explanation, document: Document, kind: Kind) -> Explanation:
    """Return the explanation of a kind without a pod template. If a policy rejects the object's writes to pods, the
    remedy names the field with the object's containers, the template of the pods, or both. The policy rejects a write
    because of containers that the object adds, and also because of containers that the pods already have.
    """
    path = insight_of(kind).containers
    if not path or path[:-1] == _POD_SPEC:
        return explanation
    stored = get_path(document, *path)
    items = stored if isinstance(stored, list) else ()
    own = {("container", str(get_path(item, "name", default=""))) for item in items}
    named = (
        name_template(wait, _name_rejected(".".join(path), own, wait.words), namespace=explanation.namespace)
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=tuple(named))


def _name_rejected(field: str, own: Set[tuple[str, str]], message: str) -> str:
    """Return the names of the parts to correct. `own`: the containers in this field of the object."""
    parts = set(list_refused_parts(message))
    if parts <= own:
        return field
    return f"{field} and {_OF_THE_PODS}" if parts & own else _OF_THE_PODS


_OF_THE_PODS: Final = "the template of the workload that creates the pods"


_POD_SPEC: Final = ("spec", "template", "spec")


async def add_origin(client: Client, explanation: Explanation, sight: Sight) -> Explanation:
    """Return the explanation with the origin of a rejected field, if an object other than the template adds this field
    to new pods.
    """
    explanation = await _add_part_origins(client, explanation, sight.document)
    refused = {wait.code for wait in explanation.waits} & {Code.WRITE_FAILED, Code.POLICY}
    if not refused:
        return explanation
    origin = await find_refused_origin(client, sight.document)
    if origin is None:
        return explanation
    waits = tuple(
        make_origin_wait(wait, str(origin), namespace=explanation.namespace) if wait.code in refused else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


async def _add_part_origins(client: Client, explanation: Explanation, workload: Document) -> Explanation:
    """Return the explanation with the objects that add the containers and volumes which the API server rejects."""
    waits: list[Wait] = []
    for wait in explanation.waits:
        parts = list_refused_parts(wait.words) if wait.code in (Code.QUOTA, Code.POLICY) else []
        origins = await find_part_origins(client, workload, parts) if parts else {}
        waits.append(make_part_wait(wait, origins, namespace=explanation.namespace) if origins else wait)
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def add_tries(
    client: Client,
    explanation: Explanation,
    *,
    uid: str,
    is_writing: bool,
    now: Instant,
    records_tries: bool = True,
) -> Explanation:
    """Return the explanation with the times of the last and the next attempt of rejected writes, from their events.
    `is_writing`: whether the plan has writes. If it has writes and no wait reports a rejection, a recent event adds
    such a wait. `records_tries`: whether the events record each attempt; otherwise no times are known.

    Each delay is twice as long as the one before, so the next delay is about as long as all earlier ones together.
    Without permission to read events, the explanation stays unchanged.
    """
    is_known = any(wait.code in REFUSED_WRITES for wait in explanation.waits)
    if not uid or not (is_known or is_writing):
        return explanation
    try:
        events = await list_events_about(client, uid, namespace=explanation.namespace)
    except ApiError:
        return explanation
    known = [event for event in map(refusal_of, events) if event is not None]
    if not known:
        return explanation
    latest = max(known, key=lambda refused: refused.last)
    # Random names differ between attempts.
    since = min(refused.first for refused in known if refused.code == latest.code)
    latest = msgspec.structs.replace(latest, first=since)
    last, again = latest.last, latest.again
    if not is_known:
        if not latest.is_current(now):
            return explanation  # the write has succeeded since, or is no longer tried
        explanation = _add_refusal(explanation, latest)
    tried = format_time(last) if records_tries else ""
    due = format_time(again) if records_tries and latest.is_current(now) else ""
    coded = (_with_code(wait, latest, explanation.namespace) for wait in explanation.waits)
    waits = tuple(
        msgspec.structs.replace(wait, tried=tried, again=due) if wait.code == latest.code else wait
        for wait in coded
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _with_code(wait: Wait, latest: RefusedWrite, namespace: str) -> Wait:
    """Return the wait with the event's code, when the object itself only reports that a write failed."""
    if wait.code != Code.WRITE_FAILED or latest.code == Code.WRITE_FAILED:
        return wait
    code = Code(latest.code)
    remedy = find_refusal_remedy(code, latest.message, namespace=namespace)
    return msgspec.structs.replace(wait, code=code, remedy=remedy)


def _add_refusal(explanation: Explanation, latest: RefusedWrite) -> Explanation:
    """Return the explanation with a wait for the rejection, for an object whose status does not show it."""
    since = format_time(latest.first)
    wait = make_refusal_wait(Code(latest.code), latest.message, namespace=explanation.namespace, since=since)
    phase = Phase.DEGRADED if explanation.phase in OPEN else explanation.phase
    return msgspec.structs.replace(
        explanation, waits=rank_waits([wait, *explanation.waits]), verdict="waiting", phase=phase
    )


async def read_and_explain_pod(
    client: Client, key: Key, *, now: Instant, settings: ManagerSettings | None = None
) -> Explanation:
    """Read a pod and explain which budgets block its deletion, eviction or update, and why it is not ready or still
    terminates. Raises CommandError when the pod does not exist, KubeError when it cannot be read.
    """
    try:
        explanation = explain_pod(await look_at_pod(client, key, now=now, settings=settings))
    except NotFoundError as error:
        raise await make_missing_error(client, PODS, key, error) from error
    explanation = await add_gates(client, explanation, now=now, settings=settings)
    explanation = await add_bindings(client, explanation)
    explanation = await add_host_ports(client, explanation)
    explanation = await add_pulls(client, explanation, now=now)
    return await add_mounts(client, explanation, OF_THE_WORKLOAD, now=now)


DONE, FAILED, WAITING, BROKEN = 0, 1, 2, 3
"""Exit codes for: an object as requested, a failed explanation, an object that continues automatically, an object that
needs a person.
"""


class ExplainRequest(msgspec.Struct, frozen=True):
    """One object to explain. `kind` is None for a pod."""

    kind: Kind | None
    namespace: str
    name: str
    is_listed: bool = False
    """Whether the object was found in a list; False if the user named it."""
    is_shown_if_well: bool = True
    """Whether the explanation is shown if the object needs no action."""


class ExplainListing(msgspec.Struct, frozen=True):
    """Objects that the targets select."""

    requests: list[ExplainRequest]
    hidden: list[str] = []
    """Kinds that are left out, because the user has no permission to list their objects."""


async def run_explain(
    *targets: str,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    watch: bool,
    output: str,
    say: Callable[[str], None],
    every_s: float = 2.0,
    timeout_s: float = 0.0,
    feature_gates: str = "",
    everywhere: bool = False,
    selector: str = "",
    with_details: bool = False,
    reach: Reach = connect_traced,
    note: Callable[[str], object] = lambda _: None,
) -> int:
    """Print the explanations. With `watch`, print them again whenever they change, until all are done or `timeout_s`
    has passed. Temporary errors do not end a watch.

    `targets` have kubectl's form: `clonesets/web`, `clone web db`, `clonesets`, `all`. Returns the exit code of the
    object in the worst state. `with_details`: with `all`, print the details of each object that needs action instead
    of a row. `note` receives lines that are not part of the output: the kinds that the user has no permission to list.
    """
    check_output(output)
    words = read_targets(targets)
    given = parse_settings(feature_gates) if feature_gates else None
    clock = asyncio.get_running_loop().time
    ends = clock() + timeout_s if timeout_s else None
    async with reach(kubeconfig, context) as (client, default_namespace):
        settings = (
            await fit_settings(client, given) if given else await read_manager_settings(client, time.time)
        )
        where = "" if everywhere else namespace or default_namespace
        shown: list[Explanation] | None = None
        noted = ""

        async def read() -> tuple[list[Explanation], Instant]:
            nonlocal noted
            listing = await list_requests(client, words, where, selector)
            hidden = format_hidden_kinds(listing.hidden)
            if hidden and hidden != noted:
                note(hidden)
            noted = hidden
            now = time.time()
            return await explain_each(client, listing.requests, now, settings), now

        explanations, now = await read()
        while True:
            if explanations != shown:
                text_now = _render(
                    explanations,
                    output,
                    now,
                    words,
                    names_namespace=where != default_namespace,
                    with_details=with_details,
                )
                say(text_now if shown is None else f"\n{text_now}")
                shown = explanations
            left_s = ends - clock() if ends is not None else None
            is_late = left_s is not None and left_s < every_s
            if not watch or is_late or all(map(_is_done, explanations)):
                break
            try:
                async with asyncio.timeout(left_s):
                    await asyncio.sleep(every_s)
                    explanations, now = await read_patiently(read)
            except TimeoutError:
                break
        return max(map(code_of, explanations), default=DONE)


def _is_done(explanation: Explanation) -> bool:
    return explanation.verdict == "done" and not explanation.phase.exit_code


def code_of(explanation: Explanation) -> int:
    """Return 0 for an object as requested, 2 when it continues automatically, 3 when it needs a person."""
    return explanation.phase.exit_code


class ExplainTargets(msgspec.Struct, frozen=True):
    """Targets that the arguments name: single objects, and kinds of which all objects are selected."""

    single: tuple[tuple[Kind | None, str], ...] = ()
    kinds: tuple[Kind | None, ...] = ()
    is_all: bool = False
    """Whether `all` selects every kind: the output has one row for each object."""


def read_targets(targets: Sequence[str]) -> ExplainTargets:
    """Parse targets such as `clonesets/web asts/db`, `clone web db`, `clonesets`, `clone,asts`, `all`. Raises
    CommandError.
    """
    if not targets:
        raise CommandLineError("no target is given; write clonesets/web, clone web, clonesets or all")
    if any("/" in target for target in targets):
        if not all("/" in target for target in targets):
            raise CommandLineError(f"{' '.join(targets)}: write TYPE/NAME for each object, or TYPE NAME…")
        return ExplainTargets(single=tuple(_parse_target(target) for target in targets))
    kinds = _find_kinds(targets[0])
    if len(targets) == 1:
        return ExplainTargets(kinds=kinds, is_all=targets[0] == "all")
    return ExplainTargets(single=tuple((kind, name) for kind in kinds for name in targets[1:]))


def _find_kinds(words: str) -> tuple[Kind | None, ...]:
    if words == "all":
        return tuple(list_known_kinds())
    return tuple(None if word.lower() in POD_NAMES else find_kind(word) for word in words.split(",") if word)


def _parse_target(target: str) -> tuple[Kind | None, str]:
    said, _, pod = target.partition("/")
    if said.lower() in POD_NAMES and pod and "/" not in pod:
        return None, pod
    return parse_target(target)


async def list_requests(
    client: Client, words: ExplainTargets, namespace: str, selector: str
) -> ExplainListing:
    """List the objects that the targets select. An empty `namespace` selects all namespaces. Raises CommandError,
    KubeError; ForbiddenError only if the user has no permission to list any of the kinds.
    """
    if words.single:
        if not namespace and any(kind is None or kind.resource.namespaced for kind, _ in words.single):
            raise CommandLineError("a resource cannot be retrieved by name across all namespaces")
        return ExplainListing(
            [
                ExplainRequest(kind, namespace if kind is None or kind.resource.namespaced else "", name)
                for kind, name in words.single
            ]
        )
    askeds: list[ExplainRequest] = []
    refusals: dict[str, ForbiddenError] = {}
    is_any_listed = False
    for kind in words.kinds:
        resource = PODS if kind is None else kind.resource
        try:
            listed = await client.list(
                resource,
                namespace if resource.namespaced else "",
                label_selector=selector,
                metadata_only=not _is_made_for_nodes(kind),
            )
        except NotFoundError:
            if len(words.kinds) == 1:
                raise
            continue  # with several kinds, kinds that the cluster does not have are skipped
        except ForbiddenError as error:
            refusals[resource.kind] = error
            continue
        is_any_listed = True
        for raw in listed.items:
            metadata = metadata_of(raw)
            is_for_a_node = words.is_all and _is_made_for_nodes(kind)
            if is_for_a_node and _is_reported_well(kind, raw):
                continue
            askeds.append(
                ExplainRequest(
                    kind,
                    metadata.namespace,
                    metadata.name,
                    is_listed=True,
                    is_shown_if_well=not is_for_a_node,
                )
            )
    if refusals and not is_any_listed:
        raise next(iter(refusals.values()))
    return ExplainListing(askeds, sorted(refusals))


def _is_made_for_nodes(kind: Kind | None) -> bool:
    return kind is not None and kind.shown is not None and kind.shown.is_made_for_nodes


def _is_reported_well(kind: Kind | None, raw: bytes | Raw) -> bool:
    """Whether the agent has reported on everything that the NodeImage or NodePodProbe requests, and no failure."""
    if kind is None or kind.shown is None:
        return False
    document, unreported = decode(raw), kind.shown.unreported
    is_reported = unreported is None or not unreported.holds(document)
    return is_reported and not kind.shown.progress_of(document).phase.needs_a_person


AT_ONCE: Final = 8
"""Number of objects that are read at the same time."""


async def explain_each(
    client: Client, asked: Sequence[ExplainRequest], now: Instant, settings: ManagerSettings
) -> list[Explanation]:
    """Return explanations of existing objects. An object that was found in a list and no longer exists is left out. If
    the user has no permission to read the details of such an object, its explanation has only the phase.

    Raises CommandError when an object that the user named does not exist.
    """
    places = asyncio.Semaphore(AT_ONCE)
    client = RememberedLists.of(client)

    async def look_at(asked: ExplainRequest) -> Explanation | None:
        async with places:
            try:
                return await _explain_one(client, asked, now, settings)
            except CommandError as error:
                if not asked.is_listed or not isinstance(error.__cause__, NotFoundError):
                    raise
                return None
            except ForbiddenError as error:
                if not asked.is_listed or asked.kind is None:
                    raise
                return await _read_phase(client, asked.kind, Key(asked.namespace, asked.name), error)

    explanations = await asyncio.gather(*map(look_at, asked))
    return [
        explanation
        for request, explanation in zip(asked, explanations, strict=True)
        if explanation is not None and (request.is_shown_if_well or explanation.phase.needs_a_person)
    ]


async def _explain_one(
    client: Client, asked: ExplainRequest, now: Instant, settings: ManagerSettings
) -> Explanation:
    key = Key(asked.namespace, asked.name)
    if asked.kind is None:
        return await read_and_explain_pod(client, key, now=now, settings=settings)
    return await read_and_explain(client, key, now=now, kind=asked.kind, settings=settings)


async def _read_phase(client: Client, kind: Kind, key: Key, error: ForbiddenError) -> Explanation | None:
    """Return the phase that the object itself shows, and the error of the denied read; None if the object no longer
    exists.
    """
    try:
        document = decode(await client.get(kind.resource, key.namespace, key.name))
    except NotFoundError:
        return None
    phase = phase_of(document, ())
    return Explanation(
        kind=kind.resource.kind,
        namespace=key.namespace,
        name=key.name,
        verdict="waiting" if phase.exit_code else "done",
        phase=phase,
        headline=f"the details cannot be read: {error}",
    )


def _render(
    explanations: Sequence[Explanation],
    output: str,
    now: Instant,
    words: ExplainTargets,
    *,
    names_namespace: bool,
    with_details: bool,
) -> str:
    is_single = bool(words.single)
    if output == "text":
        if not explanations or (words.is_all and not with_details):
            return format_overview(explanations, names_namespace=names_namespace)
        return "\n\n".join(
            format_explanation(explanation, now=now).rstrip("\n") for explanation in explanations
        )
    documents = [
        {"cause": explanation.cause, **msgspec.to_builtins(explanation)} for explanation in explanations
    ]
    document = documents[0] if is_single and len(documents) == 1 else documents
    return format_document(document, output)
