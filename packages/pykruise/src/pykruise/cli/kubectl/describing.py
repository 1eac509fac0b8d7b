"""Command `describe TYPE NAME`: an object with conditions, revisions, pods and events. `describe rollout`: a
Rollout's steps.

Info, revisions, pods, events ──▶ describe_lines(), format_rollout() (pure) ──▶ text
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.getting import format_table
from pykruise.cli.kubectl.kinds import ROLLOUTS, current_step_of, group_of
from pykruise.cli.kubectl.pods import (
    format_age,
    format_ready_count,
    pods_of,
    restarts_of,
    revision_of,
    state_of,
)
from pykruise.cli.kubectl.resources import Error, Info, find, read_patiently, reread
from pykruise.cli.kubectl.revisions import Revision, read_revisions
from pykruise.cli.kubectl.rollout import run_for_each, workload_of
from pykruise.cli.kubectl.rollout_status import TimedOutError
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.statuses import status_of
from pykruise.cli.terminal_text import escape_terminal
from pykruise.kinds import shown_of
from pykruise.kube.client.object_events import last_time_of, list_events_about
from pykruise.kube.client.retries import is_read_repeatable
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import KubeError

BATCH: Final = "rollouts.kruise.io/rollout-batch-id"
REVISION: Final = "rollouts.kruise.io/rollout-id"

_ICONS: Final = {
    "Healthy": "✔",
    "Progressing": "◌",
    "Paused": "॥",
    "Failed": "✖",
    "Terminating": "✖",
    "Disabled": "–",
    "Initial": "◌",
}
_GREEN, _PLAIN = "\x1b[32m", "\x1b[0m"


async def describe(session: Session) -> list[Error]:
    """`describe TYPE NAME`, `describe rollout NAME [-w]`."""
    given = list(session.call.arguments)
    if given and given[0] in ("rollout", "rollouts", "ro") and len(given) > 1:
        given[0] = "rollouts.rollouts.kruise.io"
    selection = await find(session, given)

    async def do(info: Info) -> None:
        if group_of(info.document) == ROLLOUTS and info.resource.kind == "Rollout":
            await _describe_rollout(session, info)
        else:
            await _describe_any(session, info)

    return await run_for_each(selection, do)


# ── any kind ─────────────────────────────────────────────────────────────────


async def _describe_any(session: Session, info: Info) -> None:
    shown = shown_of(info.document)
    revisions: Sequence[Revision] = ()
    if shown is not None and shown.verbs.history:
        revisions = await read_revisions(session, info)
    pods = await pods_of(session, info)
    for line in describe_lines(info, revisions, pods, await _list_events(session, info), now=session.now):
        session.say(line)


async def _list_events(session: Session, info: Info) -> list[Document]:
    client = await session.make_client()
    uid = info.document["metadata"].get("uid", "")
    try:
        return await list_events_about(client, uid, namespace=info.namespace)
    except KubeError:
        return []


def describe_lines(
    info: Info,
    revisions: Sequence[Revision],
    pods: Sequence[Document],
    events: Sequence[Document],
    *,
    now: float,
) -> Iterator[str]:
    """Description of an object as text lines."""
    meta = info.document["metadata"]
    yield from _pair_lines("Name", [info.name])
    if info.namespace:
        yield from _pair_lines("Namespace", [info.namespace])
    yield from _pair_lines("Kind", [f"{info.document['kind']} ({info.document['apiVersion']})"])
    yield from _pair_lines(
        "Created", [f"{meta.get('creationTimestamp')} ({format_age(meta.get('creationTimestamp'), now)} ago)"]
    )
    for name in ("labels", "annotations"):
        values = {k: v for k, v in (meta.get(name) or {}).items() if "last-applied" not in k}
        yield from _pair_lines(
            name.capitalize(), [f"{key}={values[key]}" for key in sorted(values)] or ["<none>"]
        )
    with suppress(KubectlError):
        yield from _pair_lines("Status", [status_of(info.document).line])
    yield from _format_spec(info.document)
    yield from _format_conditions(info.document)
    if revisions:
        counts = Counter(map(revision_of, pods))
        rows = [
            [
                str(revision.number),
                revision.name,
                str(counts[revision.name.rpartition("-")[2]]),
                revision.cause or "<none>",
            ]
            for revision in revisions
        ]
        yield from _format_titled_table("Revisions", ["NUMBER", "NAME", "PODS", "CHANGE-CAUSE"], rows)
    if pods:
        yield from _format_titled_table("Pods", _POD_HEAD, [_build_pod_row(pod, now) for pod in pods])
    yield from _format_events(events, now)


_POD_HEAD: Final = ["NAME", "READY", "STATUS", "REVISION", "NODE", "RESTARTS", "AGE"]


_INDENT: Final = 14


def _pair_lines(title: str, values: Sequence[str]) -> Iterator[str]:
    """Yield a line for each value, without control characters. Further lines of a value are indented, so that none
    looks like a line of this command.
    """
    for number, value in enumerate(values):
        start = f"{title}:" if not number else ""
        text = escape_terminal(value).rstrip("\n").replace("\n", f"\n{' ' * (_INDENT + 2)}")
        yield f"{start.ljust(_INDENT)}{text}"


def _format_titled_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table under its title. A message with several lines becomes one line, of which nothing is cut."""
    yield f"{title}:"
    joined = [[" ".join(cell.split()) for cell in row] for row in rows]
    yield from (f"  {line}" for line in format_table([head, *joined]))


def _format_spec(document: Mapping[str, Any]) -> Iterator[str]:
    spec = document.get("spec") or {}
    plain = {name: value for name, value in spec.items() if isinstance(value, (str, int, bool))}
    for name, value in plain.items():
        yield from _pair_lines(
            name[:1].upper() + name[1:], [str(value).lower() if isinstance(value, bool) else str(value)]
        )
    strategy = spec.get("updateStrategy")
    if isinstance(strategy, dict):
        flat = list(_flatten(strategy))
        yield from _pair_lines("Update", flat or ["<none>"])


def _flatten(value: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _flatten(part, f"{path}{name}.")
        else:
            yield f"{path}{name}={str(part).lower() if isinstance(part, bool) else part}"


def _format_conditions(document: Mapping[str, Any]) -> Iterator[str]:
    conditions = get_path(document, "status", "conditions") or ()
    if not conditions:
        return
    rows = [
        [str(condition.get(name) or "") for name in ("type", "status", "reason", "message")]
        for condition in conditions
    ]
    yield from _format_titled_table("Conditions", ["TYPE", "STATUS", "REASON", "MESSAGE"], rows)


def _build_pod_row(pod: Document, now: float) -> list[str]:
    meta = pod["metadata"]
    return [
        meta["name"],
        format_ready_count(pod),
        state_of(pod),
        revision_of(pod),
        pod["spec"].get("nodeName") or "<none>",
        str(restarts_of(pod)),
        format_age(meta.get("creationTimestamp"), now),
    ]


def _format_events(events: Sequence[Document], now: float) -> Iterator[str]:
    if not events:
        yield from _pair_lines("Events", ["<none>"])
        return
    rows = [
        [
            str(event.get("type")),
            str(event.get("reason")),
            format_age(last_time_of(event) or event["metadata"].get("creationTimestamp"), now),
            str((event.get("series") or {}).get("count") or event.get("count") or 1),
            str(event.get("message", "")).strip(),
        ]
        for event in events
    ]
    yield from _format_titled_table("Events", ["TYPE", "REASON", "AGE", "COUNT", "MESSAGE"], rows)


# ── Rollouts ─────────────────────────────────────────────────────────────────


async def _describe_rollout(session: Session, info: Info) -> None:
    """Print a Rollout, and with `--watch` again after each change, until the time limit is reached. Temporary errors do
    not end the watch.
    """
    timeout_s = session.call.seconds("timeout") if session.call.is_on("watch") else 0.0
    try:
        async with asyncio.timeout(timeout_s or None):
            await _say_rollout(session, info)
    except TimeoutError:
        raise TimedOutError("timed out waiting for the condition") from None


async def _say_rollout(session: Session, info: Info) -> None:
    call = session.call
    shown: list[str] = []
    workload, pods = await _read_workload(session, info)
    while True:
        lines = list(
            format_rollout(
                info,
                workload,
                pods,
                now=session.now,
                colours=session.has_colours,
                wants_all=call.is_on("all"),
            )
        )
        if lines != shown:
            clear = "\x1b[2J\x1b[H" if shown and session.around.is_terminal else ""
            session.write(clear + "\n".join(lines) + "\n")
            shown = lines
        if not call.is_on("watch"):
            return
        await asyncio.sleep(1.0)
        info = await read_patiently(partial(reread, session, info))
        workload, pods = await read_patiently(
            partial(_read_workload, session, info, raises_temporary_errors=True)
        )


async def _read_workload(
    session: Session, info: Info, *, raises_temporary_errors: bool = False
) -> tuple[Info | None, Sequence[Document]]:
    """Return the workload of a Rollout and its pods, as far as they can be read: a Rollout may exist before its
    workload.
    """
    workload: Info | None = None
    pods: Sequence[Document] = ()
    try:
        workload = await workload_of(session, info)
        pods = await pods_of(session, workload)
    except (KubeError, KubectlError) as error:
        if raises_temporary_errors and isinstance(error, KubeError) and is_read_repeatable(error):
            raise
    return workload, pods


def format_rollout(
    info: Info,
    workload: Info | None,
    pods: Sequence[Document],
    *,
    now: float,
    colours: bool,
    wants_all: bool = False,
) -> Iterator[str]:
    """Phase, steps, traffic, images, replica counts and pods of a Rollout of either version, with or without a
    status.
    """
    document = info.document
    status, strategy = document.get("status") or {}, get_path(document, "spec", "strategy") or {}
    kind = next((literal for literal in ("blueGreen", "canary") if strategy.get(literal)), "canary")
    part = strategy.get(kind) or {}
    own = current_step_of(document)
    phase = status.get("phase") or "Initial"
    steps, current = part.get("steps") or [], own.get("currentStepIndex") or 0
    yield from _pair_lines("Name", [info.name])
    yield from _pair_lines("Namespace", [info.namespace])
    yield from _pair_lines("Status", [f"{_ICONS.get(phase, '?')} {phase}"])
    if message := status.get("message"):
        yield from _pair_lines("Message", [message])
    yield from _pair_lines("Strategy", ["BlueGreen" if kind == "blueGreen" else "Canary"])
    yield from _pair_lines("Step", [f"{current}/{len(steps)}"])
    for number, step in enumerate(steps, start=1):
        state = f"  ({own.get('currentStepState') or 'not begun'})" if number == current else ""
        text = escape_terminal(f"  {number}: {_format_step(step)}{state}")
        yield f"{_GREEN}{text}{_PLAIN}" if colours and number == current else text
    yield from _format_traffic(part.get("trafficRoutings") or ())
    if workload is not None:
        yield from _format_workload(workload)
    update = own.get("canaryRevision") or own.get("updatedRevision") or "-"
    yield from _pair_lines("Revision", [f"current {own.get('stableRevision') or '-'}, update {update}"])
    rows = list(_build_rollout_pod_rows(pods, own, now, wants_all))
    if rows:
        head = ["NAME", "READY", "BATCH ID", "REVISION", "AGE", "RESTARTS", "STATUS"]
        yield from _format_titled_table("Pods", head, rows)


def _format_step(step: Mapping[str, Any]) -> str:
    weight = step.get("traffic") or (f"{step['weight']}%" if step.get("weight") is not None else "-")
    replicas = step.get("replicas", "-")
    matches = [
        f"{header.get('name')}={header.get('value')}"
        for match in step.get("matches") or ()
        for header in match.get("headers") or ()
    ]
    return f"replicas {replicas}, traffic {weight}" + (f", matches {', '.join(matches)}" if matches else "")


def _format_traffic(routings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for routing in routings:
        said = [f"service {routing.get('service')}"]
        if ingress := routing.get("ingress"):
            said.append(f"ingress {ingress.get('classType') or 'nginx'}/{ingress.get('name')}")
        if gateway := routing.get("gateway"):
            said.append(f"gateway route {gateway.get('httpRouteName')}")
        said += [f"{ref.get('kind')} {ref.get('name')}" for ref in routing.get("customNetworkRefs") or ()]
        yield from _pair_lines("Traffic", [", ".join(said)])


_NUMBERS: Final = (
    ("updated", "updatedReplicas"),
    ("current", "replicas"),
    ("ready", "readyReplicas"),
    ("available", "availableReplicas"),
)


def _format_workload(workload: Info) -> Iterator[str]:
    document = workload.document
    containers = get_path(document, "spec", "template", "spec", "containers") or ()
    yield from _pair_lines("Workload", [workload.short])
    yield from _pair_lines(
        "Images", [", ".join(sorted({str(container.get("image")) for container in containers})) or "<none>"]
    )
    status = document.get("status") or {}
    numbers = [f"desired {get_path(document, 'spec', 'replicas', default=1)}"]
    numbers += [f"{name} {status.get(field, 0)}" for name, field in _NUMBERS]
    yield from _pair_lines("Replicas", [", ".join(numbers)])


def _build_rollout_pod_rows(
    pods: Sequence[Document], own: Mapping[str, Any], now: float, wants_all: bool
) -> Iterator[list[str]]:
    batch, wanted = (
        str(own.get("currentStepIndex") or ""),
        own.get("podTemplateHash") or own.get("canaryRevision") or "",
    )

    def labels(pod: Document) -> Mapping[str, str]:
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        return labels

    def revision(pod: Document) -> str:
        own_labels = labels(pod)
        return own_labels.get("pod-template-hash") or own_labels.get("controller-revision-hash") or ""

    chosen = [pod for pod in pods if not wanted or revision(pod).endswith(str(wanted).rpartition("-")[2])]
    if not wants_all and any(BATCH in labels(pod) for pod in chosen):
        chosen = [pod for pod in chosen if labels(pod).get(BATCH) == batch]
    for pod in sorted(
        chosen,
        key=lambda entry: (
            labels(entry).get(BATCH, ""),
            format_ready_count(entry),
            entry["metadata"]["name"],
        ),
    ):
        meta = pod["metadata"]
        yield [
            meta["name"],
            format_ready_count(pod),
            labels(pod).get(BATCH, "-"),
            revision(pod).rpartition("-")[2] or "-",
            format_age(meta.get("creationTimestamp"), now),
            str(restarts_of(pod)),
            state_of(pod),
        ]
