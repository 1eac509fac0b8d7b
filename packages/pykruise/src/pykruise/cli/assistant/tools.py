"""The tools of an assistant: each reads a cluster, or simulates one, and returns a typed answer.

arguments (JSON) ──▶ call_tool() ──▶ the tool's function ──▶ an answer ──▶ JSON of bounded length

Every tool uses the functions of the command of the same name, so both give the same result. Errors that a person can
act on are CommandError and KubeError, as in the commands.
"""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from pykruise.cli.assistant.answers import (
    DoctorAnswer,
    DoctorArguments,
    EventRow,
    EventsAnswer,
    EventsArguments,
    ExplainAnswer,
    ExplainArguments,
    FindingRow,
    HistoryAnswer,
    HistoryArguments,
    HistoryRow,
    OverviewAnswer,
    OverviewArguments,
    OverviewRow,
    PlanAnswer,
    PlanArguments,
    SimulateAnswer,
    SimulateArguments,
    ToolAnswer,
    ToolArguments,
)
from pykruise.cli.assistant.bounds import MOST_ITEMS, MOST_TEXT, shorten_document, shorten_text
from pykruise.cli.assistant.read_only import ReadOnlyTransport
from pykruise.cli.doctor import examine_cluster
from pykruise.cli.errors import CommandError
from pykruise.cli.explain import ExplainTargets, explain_each, list_requests, read_targets
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.gates import read_manager_settings
from pykruise.cli.insight.known_kinds import list_known_kinds, parse_target
from pykruise.cli.insight.overview import format_hidden_kinds, format_overview, sort_by_need
from pykruise.cli.insight.traced_requests import Reach, connect_traced
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.kubectl.resources import Info, find
from pykruise.cli.kubectl.revisions import (
    Revision,
    format_history_table,
    list_revision_differences,
    read_revisions,
)
from pykruise.cli.kubectl.session import ClusterConnection, Reached, Session, Surroundings
from pykruise.cli.manifests import load_documents
from pykruise.cli.plan import (
    apply_sets,
    check_documents,
    check_namespaces,
    describe_forecast,
    plan_document,
    read_live_document,
    split_built_in,
)
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import last_time_of, list_events_about
from pykruise.kube.client.recorder import CODE
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.documents import Document, annotations_of
from pykruise.kube.schemas.descriptions import read_field_descriptions
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.manager.doctor.findings import FindingLevel


class ToolSession(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that the tools read, from the options of the command."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""
    """Namespace of calls that name none; if empty, the namespace of the kubeconfig's context."""
    reach: Reach = connect_traced
    clock: Clock = read_system_clock

    @asynccontextmanager
    async def connect(self, namespace: str = "") -> AsyncIterator[tuple[Client, str]]:
        """Connect with a client that cannot write. Yields the client and the namespace of the call."""
        async with self.reach(self.kubeconfig, self.context) as (client, default):
            yield (
                client.replace_transport(ReadOnlyTransport(client.transport)),
                namespace or self.namespace or default,
            )


class AssistantTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: its name and description, and the function that answers."""

    name: str
    title: str
    description: str
    """Advice for the assistant on when to use the tool."""
    arguments: type[ToolArguments]
    answer: type[ToolAnswer]
    run: Callable[[ToolSession, Any], Awaitable[ToolAnswer]]

    @property
    def input_schema(self) -> Document:
        """JSON schema of the arguments."""
        return _build_schema(self.arguments)

    @property
    def output_schema(self) -> Document:
        """JSON schema of the answer."""
        return _build_schema(self.answer)


def _build_schema(struct: type[msgspec.Struct]) -> Document:
    """The struct's schema with an object at its root, as MCP requires. Its descriptions are the docstrings."""
    _, components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    types = {cls.__name__: cls for cls in (struct, *_ROWS)}
    for name, schema in components.items():
        for field, description in read_field_descriptions(types[name]).items():
            schema["properties"][field]["description"] = description
    root = components.pop(struct.__name__)
    return {**root, "$defs": components} if components else root


_ROWS: Final = (OverviewRow, HistoryRow, EventRow, FindingRow)


async def call_tool(session: ToolSession, tool: AssistantTool, arguments: Mapping[str, Any]) -> Document:
    """Return the tool's answer as a document of bounded length. Raises CommandError for invalid arguments, and the
    errors of the tool's command.
    """
    try:
        typed = msgspec.convert(dict(arguments), tool.arguments)
    except msgspec.ValidationError as error:
        raise CommandError(f"{tool.name}: {error}") from error
    answer = await tool.run(session, typed)
    document: Document = msgspec.to_builtins(answer)
    report = shorten_text(document.pop("text"), MOST_TEXT)
    return {"text": report, **shorten_document(document)}


async def explain_object(session: ToolSession, arguments: ExplainArguments) -> ExplainAnswer:
    """State of one object, and the reason why it waits."""
    targets = read_targets([arguments.target])
    if len(targets.single) != 1:
        raise CommandError(
            f"target {arguments.target!r}: expected TYPE/NAME of one object, such as clonesets/web"
        )
    (explanation,), _ = await _explain(session, targets, arguments.namespace)
    return ExplainAnswer(
        text=format_explanation(explanation, now=session.clock()),
        cause=explanation.cause,
        phase=explanation.phase,
        needs_person=explanation.phase.needs_a_person,
        explanation=msgspec.to_builtins(explanation),
    )


async def list_objects(session: ToolSession, arguments: OverviewArguments) -> OverviewAnswer:
    """Objects of every kind, those that need action first."""
    targets = ExplainTargets(kinds=tuple(list_known_kinds()), is_all=True)
    explanations, hidden_kinds = await _explain(
        session,
        targets,
        arguments.namespace,
        selector=arguments.selector,
        everywhere=arguments.all_namespaces,
    )
    rows = sort_by_need(
        explanation
        for explanation in explanations
        if explanation.phase.needs_a_person or not arguments.only_needing_action
    )
    text = format_overview(rows[:MOST_ITEMS], names_namespace=True)
    return OverviewAnswer(
        text="\n\n".join(filter(None, [text, format_hidden_kinds(hidden_kinds)])),
        objects=[_build_overview_row(explanation) for explanation in rows[:MOST_ITEMS]],
        omitted=max(len(rows) - MOST_ITEMS, 0),
        hidden_kinds=hidden_kinds,
    )


def _build_overview_row(explanation: Explanation) -> OverviewRow:
    first = explanation.waits[0] if explanation.waits else None
    return OverviewRow(
        kind=explanation.kind,
        namespace=explanation.namespace,
        name=explanation.name,
        phase=explanation.phase,
        needs_person=explanation.phase.needs_a_person,
        cause=explanation.cause,
        reason=explanation.headline if first is None else first.words,
        remedy="" if first is None else first.remedy,
    )


async def _explain(
    session: ToolSession,
    targets: ExplainTargets,
    namespace: str,
    *,
    selector: str = "",
    everywhere: bool = False,
) -> tuple[list[Explanation], list[str]]:
    """Return the explanations, and the kinds that the user has no permission to list."""
    async with session.connect(namespace) as (client, there):
        settings = await read_manager_settings(client, session.clock)
        listing = await list_requests(client, targets, "" if everywhere else there, selector)
        return await explain_each(client, listing.requests, session.clock(), settings), listing.hidden


async def plan_change(session: ToolSession, arguments: PlanArguments) -> PlanAnswer:
    """Consequences of a change that is not applied."""
    if bool(arguments.manifest) == bool(arguments.target):
        raise CommandError("give either a manifest, or a target with changes")
    if arguments.target and not arguments.changes:
        raise CommandError(f"no change of {arguments.target} is given; give changes, such as replicas=5")
    async with session.connect(arguments.namespace) as (client, there):
        if arguments.target:
            documents = [await read_live_document(client, there, *parse_target(arguments.target))]
        else:
            source = "manifest"
            documents = check_documents(load_documents(arguments.manifest, source=source), source=source)
            documents, _ = split_built_in(documents)
            check_namespaces(documents, arguments.namespace)
        settings = await read_manager_settings(client, session.clock)
        forecasts = [
            await plan_document(
                client,
                apply_sets(document, arguments.changes),
                namespace=document["metadata"].get("namespace") or there,
                now=session.clock(),
                settings=settings,
            )
            for document in documents
        ]
    return PlanAnswer(
        text="\n\n".join("\n".join(describe_forecast(forecast)) for forecast in forecasts),
        has_changes=any(forecast.has_changes for forecast in forecasts),
        is_refused=any(forecast.change == "refused" for forecast in forecasts),
        forecasts=[msgspec.to_builtins(forecast) for forecast in forecasts],
    )


MOST_NODES: Final = 100
"""Maximum number of nodes of an assistant's simulation."""


async def simulate_rollout(session: ToolSession, arguments: SimulateArguments) -> SimulateAnswer:
    """Course of a rollout, job or schedule in virtual time."""
    if not 1 <= arguments.nodes <= MOST_NODES:
        raise CommandError(f"nodes: {arguments.nodes} is not between 1 and {MOST_NODES}")
    from pykruise.cli.simulate import COMPLETE, Conditions, play_simulation

    conditions = Conditions(
        pods_ready_after=arguments.pods_ready_after,
        fail_pod=arguments.fail_pod,
        drain=arguments.drain,
        nodes=arguments.nodes,
        seed=arguments.seed,
        kubernetes=arguments.kubernetes or NEWEST_MINOR,
        lasts=arguments.runs_for,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = _write_manifest(Path(folder), "manifest.yaml", arguments.manifest)
        changes = [
            _write_manifest(Path(folder), f"change-{number}.yaml", change)
            for number, change in enumerate(arguments.changes, start=1)
        ]
        result = await play_simulation(file, changes=changes, conditions=conditions, now=session.clock())
    return SimulateAnswer(text=result.text, is_complete=result.code == COMPLETE, simulation=result.documents)


def _write_manifest(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    return file


async def read_history(session: ToolSession, arguments: HistoryArguments) -> HistoryAnswer:
    """Revisions of a workload, oldest first."""
    async with _select(session, arguments.target, arguments.namespace) as (kubectl, info):
        revisions = await read_revisions(kubectl, info)
    before: list[Revision | None] = [None, *revisions]
    return HistoryAnswer(
        text=format_history_table(revisions),
        revisions=[
            HistoryRow(
                number=revision.number,
                name=revision.name,
                change_cause=revision.cause,
                differences=[] if old is None else list_revision_differences(old, revision),
            )
            for old, revision in zip(before, revisions, strict=False)
        ],
    )


async def read_events(session: ToolSession, arguments: EventsArguments) -> EventsAnswer:
    """Events of one object, oldest first."""
    async with _select(session, arguments.target, arguments.namespace) as (kubectl, info):
        client = await kubectl.make_client()
        uid = info.document["metadata"].get("uid", "")
        rows = [
            _build_event_row(event)
            for event in await list_events_about(client, uid, namespace=info.namespace)
        ]
    kept = rows[-MOST_ITEMS:]
    return EventsAnswer(
        text="\n".join(f"{row.last}  {row.type}  {row.reason}  {row.message}" for row in kept)
        or "No events.",
        events=kept,
        omitted=len(rows) - len(kept),
    )


def _build_event_row(event: Document) -> EventRow:
    series = event.get("series") or {}
    return EventRow(
        type=str(event.get("type") or ""),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        count=int(event.get("count") or series.get("count") or 1),
        first=str(event.get("firstTimestamp") or event.get("eventTime") or ""),
        last=last_time_of(event),
        source=str((event.get("source") or {}).get("component") or event.get("reportingComponent") or ""),
        code=annotations_of(event).get(CODE, ""),
    )


@asynccontextmanager
async def _select(session: ToolSession, target: str, namespace: str) -> AsyncIterator[tuple[Session, Info]]:
    """Find the object of TYPE/NAME by kubectl's rules. Raises CommandError, KubeError."""
    if target.count("/") != 1:
        raise CommandError(f"target {target!r}: expected TYPE/NAME of one object, such as clonesets/web")
    async with session.connect(namespace) as (client, there):

        async def connect(_: CommandCall) -> Reached:
            return ClusterConnection(client.transport, there)

        around = Surroundings(connect=connect, clock=session.clock, err=lambda _: None)
        kubectl = Session(CommandCall(arguments=(target,), values={"namespace": there}), around)
        yield kubectl, (await find(kubectl, (target,))).take_only()


async def examine_installation(session: ToolSession, arguments: DoctorArguments) -> DoctorAnswer:
    """Results of the checks of an installation."""
    async with session.connect() as (client, _):
        findings, note = await examine_cluster(client, namespace=arguments.manager_namespace)
    lines = [finding.format_line() for finding in findings]
    return DoctorAnswer(
        text="\n".join([*lines, *([note] if note else [])]),
        faults=sum(finding.level is FindingLevel.FAULT for finding in findings),
        findings=[
            FindingRow(check=finding.check, level=finding.level.value, what=finding.what, fix=finding.fix)
            for finding in findings
        ],
    )


TOOLS: Final[Sequence[AssistantTool]] = (
    AssistantTool(
        name="explain",
        title="Explain one object",
        description=(
            "Explains why a workload, job, SidecarSet, budget or pod waits, and which command helps."
            " Use it first when a"
            " rollout is stuck. The first wait is the cause."
        ),
        arguments=ExplainArguments,
        answer=ExplainAnswer,
        run=explain_object,
    ),
    AssistantTool(
        name="explain_all",
        title="List objects that need action",
        description="One row for each OpenKruise object. Objects that need an action by a person come first.",
        arguments=OverviewArguments,
        answer=OverviewAnswer,
        run=list_objects,
    ),
    AssistantTool(
        name="plan",
        title="Plan a change",
        description=(
            "Forecasts a change: pods that are created, deleted or updated in place, in which"
            " order, and how many stay available. Nothing is applied."
        ),
        arguments=PlanArguments,
        answer=PlanAnswer,
        run=plan_change,
    ),
    AssistantTool(
        name="simulate",
        title="Simulate a rollout",
        description=(
            "Simulates a rollout, job or schedule from manifests in virtual time, with slow or failing pods and drained"
            " nodes. Needs no cluster."
        ),
        arguments=SimulateArguments,
        answer=SimulateAnswer,
        run=simulate_rollout,
    ),
    AssistantTool(
        name="rollout_history",
        title="Read revisions",
        description="Lists the revisions of a workload and their differences, to choose the revision for a rollback.",
        arguments=HistoryArguments,
        answer=HistoryAnswer,
        run=read_history,
    ),
    AssistantTool(
        name="events",
        title="Read events",
        description="Lists the events of one object of any kind, the oldest event first.",
        arguments=EventsArguments,
        answer=EventsAnswer,
        run=read_events,
    ),
    AssistantTool(
        name="doctor",
        title="Examine the installation",
        description="Checks the installation of pykruise or OpenKruise: CRDs, webhooks, permissions, versions, agents.",
        arguments=DoctorArguments,
        answer=DoctorAnswer,
        run=examine_installation,
    ),
)
