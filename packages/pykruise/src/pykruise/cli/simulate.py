"""Command `pykruise simulate -f app.yaml --change new.yaml`: simulates a rollout in virtual time.

manifests + behaviour of pods and nodes ──▶ Play ──▶ play() ──▶ simulate_report.py: timeline, chart, extremes
a manifest with a schedule, or a live object ──▶ simulate_clock.py

It needs a cluster only for live objects. Two changes are simulated under the same conditions and shown side by side.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pykruise.cli.errors import CommandError, CommandLineError
from pykruise.cli.insight.charts import draw_svg_charts
from pykruise.cli.insight.followed_config import is_config
from pykruise.cli.insight.gates import fit_settings, parse_settings, read_manager_settings
from pykruise.cli.insight.kind_insights import ATTACHED
from pykruise.cli.insight.known_kinds import (
    check_manifests,
    convert_to_hub,
    is_of,
    list_clocks,
    list_workloads,
    strip_document,
)
from pykruise.cli.insight.known_kinds import parse_target as of_name
from pykruise.cli.insight.missing import make_missing_error
from pykruise.cli.insight.simulating import (
    Drain,
    NodeChange,
    Outage,
    Play,
    PlayWorld,
    nodes_of_subsets,
    play,
    read_nodes,
)
from pykruise.cli.insight.simulating.schedules import ClockPlay, ClockPlayed, play_clock
from pykruise.cli.insight.traced_requests import Reach, connect_traced
from pykruise.cli.manifests import read_documents
from pykruise.cli.outputs import check_output, format_document, warning_lines
from pykruise.cli.simulate_clock import build_live_play, build_manifest_play, format_clock_report
from pykruise.cli.simulate_report import format_comparison, outcome_of, report
from pykruise.kinds import find_kind
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.plans.insight import ClockInsight
from pykruise.sandbox.nodes.specs import NodeSpec

COMPLETE, STUCK = 0, 3
"""Exit codes; 1: the simulation is impossible."""

START = parse_time("2026-01-01T00:00:00Z")
_UNITED = "UnitedDeployment"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Options about pods and nodes, as text of the command line."""

    pods_ready_after: str = "2s"
    fail_pod: str = "0%"
    drain: Sequence[str] = ()
    takes: str = "1s"
    """Running time of a job's pod, or of an object that a schedule creates."""
    join: Sequence[str] = ()
    leave: Sequence[str] = ()
    outage: Sequence[str] = ()
    nodes: int = 3
    seed: int = 1
    feature_gates: str = ""
    kubernetes: str = NEWEST_MINOR
    """Minor version of the simulated Kubernetes."""
    lasts: str = "30d"
    """Length of a schedule's simulation."""
    begin: str = ""
    """Start of a schedule's simulation; the current time if empty."""


class SimulatedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A live object and its cluster."""

    name: str
    """`clonesets/web`."""
    namespace: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None


async def run_simulate(
    file: Path | None,
    *,
    target: SimulatedTarget | None = None,
    changes: Sequence[Path],
    conditions: Conditions,
    svg: Path | None,
    output: str,
    say: Callable[[str], None],
    now: Instant | None = None,
    reach: Reach = connect_traced,
    note: Callable[[str], object] = lambda _: None,
) -> int:
    """Simulate and print. Return the exit code: 0 complete or as requested, 3 stuck, failed or not over.

    Raises CommandError for invalid or unreadable input. `now`: the current time. `note` gets the warnings that
    `kubectl apply` would print for the manifests.
    """
    check_output(output)
    result = await play_simulation(
        file, target=target, changes=changes, conditions=conditions, svg=svg, now=now, reach=reach
    )
    for line in warning_lines(result.warnings):
        note(line)
    say(result.text if output == "text" else format_document(result.documents, output))
    return result.code


class SimulationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Output of a simulation, for people and for programs."""

    text: str
    documents: list[Any]
    """One document per simulated change or schedule."""
    code: int
    """Exit code."""
    warnings: tuple[str, ...] = ()
    """Warnings of the API server and of admission about all given objects."""


async def play_simulation(
    file: Path | None,
    *,
    target: SimulatedTarget | None = None,
    changes: Sequence[Path],
    conditions: Conditions,
    svg: Path | None = None,
    now: Instant | None = None,
    reach: Reach = connect_traced,
) -> SimulationResult:
    """Simulate without printing. Raises the errors of `run_simulate`."""
    if len(changes) > 2:
        raise CommandLineError("--change can be given twice at most: two strategies are compared")
    if (file is None) == (target is None):
        raise CommandLineError("give either -f FILE or a live object such as clonesets/web")
    begin = _parse_begin(conditions, time.time() if now is None else now)
    if target is not None:
        source = name = target.name
        documents, clock = await _read_live(target, conditions, begin, reach)
        schedules: _Schedules = [(name, clock)] if clock is not None else []
    else:
        assert file is not None
        source, name = str(file), file.name
        documents = _read_file(file)
        schedules = await _read_schedules(name, documents, conditions, begin)
    if not schedules:
        given = _parse_given(source, documents, conditions)
        return await _simulate_rollouts(name, given, changes=changes, conditions=conditions, svg=svg)
    if changes or svg is not None:
        raise CommandError("--change and --svg cannot be used with a schedule")
    return _simulate_schedules(schedules)


async def _simulate_rollouts(
    name: str,
    given: "_Given",
    *,
    changes: Sequence[Path],
    conditions: Conditions,
    svg: Path | None,
) -> SimulationResult:
    plays = [_play_of(given, _read_change(path), conditions) for path in changes] or [
        _play_of_creation(given, conditions)
    ]
    played = [await asyncio.to_thread(play, item) for item in plays]
    names = [path.name for path in changes] or [name]
    for name, value in zip(names, played, strict=True):
        if value.refused:
            raise CommandError(f"{name} is rejected: {'; '.join(value.refused)}")
    if svg is not None:
        picture = draw_svg_charts(list(zip(names, played, strict=True)))
        await asyncio.to_thread(svg.write_text, picture, "utf-8")
    lines = report(names[0], played[0]) if len(played) == 1 else format_comparison(names, played)
    is_stuck = any(outcome_of(item) in ("stuck", "failed", "not over") for item in played)
    return SimulationResult(
        text="\n".join([*lines, *_format_created_nodes(given)]),
        documents=[
            {"change": n, "outcome": outcome_of(p), **msgspec.to_builtins(p)}
            for n, p in zip(names, played, strict=True)
        ],
        code=STUCK if is_stuck else COMPLETE,
        warnings=tuple(text for item in played for text in item.warnings),
    )


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a file. `nodes_for`: names of the nodes created for each subset."""

    workload: Document | None
    beside: tuple[Document, ...] = ()
    nodes: tuple[NodeSpec, ...] = ()
    nodes_for: Mapping[str, Sequence[str]] = {}


def _parse_given(name: str, documents: Sequence[Document], conditions: Conditions) -> _Given:
    """State before the change: a workload, objects of kinds that take part in pod admission, and nodes."""
    beside = _select_admission_objects(documents)
    nodes, by_subset = read_nodes(documents), dict[str, list[str]]()
    if not nodes:
        united = [doc for doc in documents if is_of(find_kind(_UNITED), doc)]
        nodes, by_subset = nodes_of_subsets([*beside, *united], conditions.nodes)
    return _Given(
        workload=_find_workload(name, documents, is_needed=True),
        beside=beside,
        nodes=tuple(nodes),
        nodes_for=by_subset,
    )


def _read_change(path: Path) -> _Given:
    """Read the objects of a change."""
    documents = _read_file(path)
    beside = _select_admission_objects(documents)
    if len([entry for entry in beside if entry["kind"] == SIDECAR_SETS.kind]) > 1:
        raise CommandError(f"{path}: a change may contain at most one SidecarSet")
    return _Given(workload=_find_workload(str(path), documents, is_needed=not beside), beside=beside)


def _find_workload(name: str, documents: Sequence[Document], *, is_needed: bool) -> Document | None:
    """Find the only workload. Return None if there is none and `is_needed` is False. Raises CommandError."""
    played = (*list_workloads(), find_kind(_UNITED))
    result = [doc for doc in documents if any(is_of(kind, doc) for kind in played)]
    if not result and not is_needed:
        return None
    if len(result) != 1:
        known = (*played, *list_clocks())
        kinds = " or ".join(f"{kind.resource.kind} ({kind.resource.group})" for kind in known)
        raise CommandError(f"{name}: expected one {kinds}, found {len(result)}")
    return result[0]


def _select_admission_objects(documents: Sequence[Document]) -> tuple[Document, ...]:
    """Objects of the kinds that take part in the admission of pods, and ConfigMaps and Secrets."""
    kinds = [kind for kind in map(find_kind, ATTACHED) if kind.pods is not None]
    return (
        *(strip_document(doc) for doc in documents if is_config(doc)),
        *(_as_manifest(doc) for doc in documents if any(is_of(kind, doc) for kind in kinds)),
    )


def _play_of_creation(given: _Given, conditions: Conditions) -> Play:
    """A simulation of the workload's creation, with the other objects already in the cluster."""
    alone = msgspec.structs.replace(given, workload=None)
    return _play_of(alone, _Given(workload=given.workload), conditions)


def _play_of(given: _Given, change: _Given, conditions: Conditions) -> Play:
    first, changed = given.workload, change.workload
    about = changed or first
    assert about is not None
    if first is not None and changed is not None and first["metadata"]["name"] != changed["metadata"]["name"]:
        raise CommandError(
            f"the change is for {changed['metadata']['name']!r}, but the file contains {first['metadata']['name']!r}"
        )
    least, most = parse_span(conditions.pods_ready_after, "--pods-ready-after")
    nodes = [spec.name for spec in given.nodes] or [f"node-{n}" for n in range(1, conditions.nodes + 1)]
    return Play(
        first=_as_manifest(first) if first is not None else None,
        change=_as_manifest(changed) if changed is not None else None,
        beside=given.beside,
        beside_changes=change.beside,
        namespace=about["metadata"].get("namespace") or "default",
        start=START,
        world=PlayWorld(nodes=given.nodes),
        nodes=conditions.nodes,
        ready_after_s=(least, most),
        fail_share=share(conditions.fail_pod),
        takes_s=parse_span(conditions.takes, "--takes"),
        drains=tuple(drain_of(text, nodes) for text in conditions.drain),
        node_changes=tuple(_parse_node_changes(conditions, nodes)),
        outages=tuple(outage_of(text, given.nodes_for) for text in conditions.outage),
        seed=conditions.seed,
        settings=parse_settings(conditions.feature_gates, kubernetes=conditions.kubernetes),
    )


def _format_created_nodes(given: _Given) -> list[str]:
    made = "; ".join(f"{', '.join(nodes)} for subset {name}" for name, nodes in given.nodes_for.items())
    return (
        [f"nodes               created for the simulation: {made} (a Node in -f stays unchanged)"]
        if made
        else []
    )


def _read_file(path: Path) -> list[Document]:
    documents = read_documents(path)
    check_manifests(documents, source=str(path))
    return documents


def _as_manifest(document: Document) -> Document:
    """The manifest as its author wrote it: without the fields that the cluster added."""
    return convert_to_hub(strip_document(document))


# Values of flags


def parse_seconds(text: str, flag: str) -> float:
    """Parse `90s`, `1.5m`, `500ms`. Raises CommandError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise CommandLineError(f"{flag} {text!r}: expected a time such as 90s, 1.5m or 500ms")
    return float(match[1]) * _SECONDS[match[2]]


def parse_span(text: str, flag: str) -> tuple[float, float]:
    """Parse `5s..30s`, or one time for all. Raises CommandError."""
    low, dots, high = text.partition("..")
    least = parse_seconds(low, flag)
    most = parse_seconds(high, flag) if dots else least
    if most < least:
        raise CommandLineError(f"{flag} {text!r}: the second time must not be less than the first")
    return least, most


def share(text: str) -> float:
    """Parse a percentage: `3%` is 0.03. Raises CommandError."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not text.strip().endswith("%") or not 0 <= share <= 1:
        raise CommandLineError(f"--fail-pod {text!r}: expected a percentage between 0% and 100%")
    return share


def drain_of(text: str, nodes: Sequence[str]) -> Drain:
    """Parse `node-1@60s` for one of these nodes. Raises CommandError."""
    return Drain(*_parse_node_time("--drain", text, nodes))


def _parse_node_changes(conditions: Conditions, nodes: Sequence[str]) -> Iterator[NodeChange]:
    for text in conditions.join:
        node, at_s = _parse_node_time("--join", text, None)
        if node in nodes:
            raise CommandError(f"--join {text!r}: {node} already exists")
        yield NodeChange(node, at_s, joins=True)
    for text in conditions.leave:
        yield NodeChange(*_parse_node_time("--leave", text, nodes), joins=False)


def _parse_node_time(flag: str, text: str, nodes: Sequence[str] | None) -> tuple[str, float]:
    """Parse `node-1@60s` into node and seconds. `nodes`: allowed names; None allows any name. Raises CommandError."""
    node, at, when = text.partition("@")
    if not at or not node:
        raise CommandLineError(f"{flag} {text!r}: expected a node and a time, such as node-1@60s")
    if nodes is not None and node not in nodes:
        raise CommandError(f"{flag} {text!r}: no node is named {node!r}; available: {', '.join(nodes)}")
    return node, parse_seconds(when, flag)


# Schedules


def _parse_begin(conditions: Conditions, now: Instant) -> Instant:
    if not conditions.begin:
        return float(int(now))
    try:
        return parse_time(conditions.begin)
    except ValueError as error:
        raise CommandLineError(
            f"--from {conditions.begin!r}: expected a time such as 2026-03-01T00:00:00Z"
        ) from error


def _parse_clock_options(conditions: Conditions) -> dict[str, Any]:
    """Options for schedules, as fields of a ClockPlay."""
    return {
        "for_s": parse_seconds(conditions.lasts, "--for"),
        "takes_s": parse_span(conditions.takes, "--takes"),
        "fail_share": share(conditions.fail_pod),
        "seed": conditions.seed,
    }


_Schedules = Sequence[tuple[str, ClockPlay | ClockPlayed]]
"""Simulations of schedules with their names: the file's name, followed by the object's name when the file has several
schedules.
"""


async def _read_schedules(
    name: str, documents: Sequence[Document], conditions: Conditions, begin: Instant
) -> _Schedules:
    """Simulations of the documents that are schedules, or the reasons why admission rejects one; empty if no document
    is a schedule.
    """
    kinds = list_clocks()
    schedules = [(kind, doc) for doc in documents for kind in kinds if is_of(kind, doc)]
    plays: list[tuple[str, ClockPlay | ClockPlayed]] = []
    for kind, document in schedules:
        given = await build_manifest_play(
            kind,
            document,
            start=begin,
            settings=parse_settings(conditions.feature_gates, kubernetes=conditions.kubernetes),
            **_parse_clock_options(conditions),
        )
        own = f"{name} ({document['metadata']['name']})" if len(schedules) > 1 else name
        plays.append((own, given if isinstance(given, ClockPlay) else ClockPlayed(refused=given)))
    return plays


async def _read_live(
    target: SimulatedTarget, conditions: Conditions, begin: Instant, reach: Reach
) -> tuple[list[Document], ClockPlay | None]:
    """Read a live object: a manifest, or the simulation of a schedule."""
    kind, name = of_name(target.name)
    given = parse_settings(conditions.feature_gates) if conditions.feature_gates else None
    async with reach(target.kubeconfig, target.context) as (client, default_namespace):
        settings = (
            await fit_settings(client, given) if given else await read_manager_settings(client, time.time)
        )
        namespace = (target.namespace or default_namespace) if kind.resource.namespaced else ""
        key = Key(namespace, name)
        try:
            if isinstance(kind.insight, ClockInsight):
                more = _parse_clock_options(conditions)
                return [], await build_live_play(client, kind, key, start=begin, settings=settings, **more)
            document = decode(await client.get(kind.resource, key.namespace, key.name))
        except NotFoundError as error:
            raise await make_missing_error(client, kind.resource, key, error) from error
    return [document], None


def _simulate_schedules(schedules: _Schedules) -> SimulationResult:
    reports: list[str] = []
    documents: list[Any] = []
    for name, given in schedules:
        played = given if isinstance(given, ClockPlayed) else play_clock(given)
        if isinstance(given, ClockPlayed) or played.refused:
            raise CommandError(f"{name} is rejected: {'; '.join(played.refused)}")
        reports.append("\n".join(format_clock_report(name, given, played)))
        documents.append({"change": name, **msgspec.to_builtins(played)})
    return SimulationResult(
        text="\n\n".join(reports),
        documents=documents,
        code=COMPLETE,
        warnings=tuple(text for document in documents for text in document["warnings"]),
    )


def outage_of(text: str, nodes_for: Mapping[str, Sequence[str]]) -> Outage:
    """Parse `zone-a@60s` or `zone-a@60s..5m` for the nodes of these subsets. Raises CommandError."""
    subset, at, when = text.partition("@")
    if not at:
        raise CommandLineError(
            f"--outage {text!r}: expected a subset and a time, such as zone-a@60s or zone-a@60s..5m"
        )
    if subset not in nodes_for:
        known = ", ".join(nodes_for) or "none, because no subset requires nodes"
        raise CommandError(f"--outage {text!r}: no subset is named {subset!r}; available: {known}")
    first, dots, last = when.partition("..")
    begins = parse_seconds(first, "--outage")
    ends = parse_seconds(last, "--outage") if dots else None
    if ends is not None and ends < begins:
        raise CommandLineError(f"--outage {text!r}: the second time must not be less than the first")
    return Outage(name=subset, nodes=tuple(nodes_for[subset]), at_s=begins, until_s=ends)
