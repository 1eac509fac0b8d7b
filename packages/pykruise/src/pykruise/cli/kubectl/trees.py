"""The live tree of a rollout: workload ▸ revisions ▸ pods, with state, age, restarts and why a pod waits.

Info, revisions, pods ──▶ tree_of() (pure) ──▶ Tree ──▶ format_tree() ──▶ drawn once, or again while it changes

The tree is drawn after changes, at most five times a second, and once a second for the ages. With `NO_COLOR` it has
no colours. Output that is not a terminal also has no colours; a changed tree is printed below the previous one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from pykruise.cli.kubectl.drawing import draw
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import ROLLOUTS, group_of
from pykruise.cli.kubectl.pods import (
    format_age,
    format_ready_count,
    pods_of,
    read_label_query,
    restarts_of,
    revision_of,
    state_of,
)
from pykruise.cli.kubectl.resources import Error, Info, get, parse_request, read_patiently, reread
from pykruise.cli.kubectl.revisions import Revision, read_revisions
from pykruise.cli.kubectl.rollout_status import TimedOutError
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.statuses import RolloutFailed, status_of
from pykruise.cli.kubectl.watching import Watched, watch_changes
from pykruise.cli.terminal_text import fit_cell
from pykruise.kinds import list_all_shown, shown_of
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS, REPLICA_SETS
from pykruise.kube.values.counts import format_count
from pykruise.plans.progress import Phase
from pykruise.pods.view.keys import REVISION_LABEL

OF_UNITED: Final = "apps.kruise.io/controller-revision-hash"
"""Label of a UnitedDeployment's pods: the UnitedDeployment's revision."""
REDRAW_S: Final = 0.2
AGES_S: Final = 1.0

_ICONS: Final = {
    Phase.PROGRESSING: "◌",
    Phase.HEALTHY: "✔",
    Phase.COMPLETED: "✔",
    Phase.PAUSED: "॥",
    Phase.DEGRADED: "✖",
    Phase.FAILED: "✖",
}

_GREEN, _YELLOW, _RED, _DIM, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


class Line(msgspec.Struct, frozen=True):
    """A line of the tree: its branch, and cells in aligned columns."""

    branch: str
    name: str
    kind: str = ""
    state: str = ""
    age: str = ""
    info: str = ""


class Tree(msgspec.Struct, frozen=True):
    """The printed tree: a header of names and values, and lines."""

    head: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]
    is_done: bool = False


def tree_of(info: Info, revisions: Sequence[Revision], pods: Sequence[Document], *, now: float) -> Tree:
    """Build the tree of a workload."""
    document = info.document
    try:
        progress = status_of(document)
        message, is_done = progress.line, progress.is_done
    except (RolloutFailed, KubectlError) as error:
        message, is_done = str(error), False
    phase = phase_of(document)
    state = f"{_ICONS[phase]} {phase}"
    images = sorted({container["image"] for pod in pods for container in pod["spec"].get("containers") or ()})
    status = document.get("status") or {}
    counts = [
        f"{name} {status[field]}"
        for name, field in (
            ("current", "replicas"),
            ("updated", "updatedReplicas"),
            ("ready", "readyReplicas"),
            ("available", "availableReplicas"),
        )
        if field in status
    ]
    wanted = (document.get("spec") or {}).get("replicas")
    head = [
        ("Name", info.name),
        ("Namespace", info.namespace),
        ("Status", state),
        ("Message", message),
        ("Images", ", ".join(images) or "<none>"),
        (
            "Replicas",
            ", ".join([*([f"desired {wanted}"] if wanted is not None else []), *counts]) or "<none>",
        ),
    ]
    top = Line(
        "",
        f"⟳ {info.name}",
        info.resource.kind,
        state,
        format_age(document["metadata"].get("creationTimestamp"), now),
    )
    return Tree(tuple(head), (top, *_build_revision_lines(revisions, pods, status, now)), is_done)


def phase_of(document: Document) -> Phase:
    """Phase of an object; Progressing for a kind without progress."""
    shown = shown_of(document)
    if shown is None or shown.progress is None:
        return Phase.PROGRESSING
    return shown.progress_of(document).phase


class RevisionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one revision."""

    hash: str
    """Hash from the pods' label; empty if they have no such label."""
    number: int = 0
    """Number of the revision; 0 if no revision is stored."""
    is_newest: bool = False
    pods: Sequence[Document]


def groups_of(
    revisions: Sequence[Revision], pods: Sequence[Document], status: Document
) -> list[RevisionGroup]:
    """Group the pods by revision, the newest first."""
    groups: dict[str, list[Document]] = {}
    numbers = {_hash_of(revision.name): revision.number for revision in revisions}
    for pod in pods:
        groups.setdefault(_find_revision(pod, numbers), []).append(pod)
    newest = _hash_of(status.get("updateRevision") or (revisions[-1].name if revisions else ""))
    revision_groups = [
        RevisionGroup(hash=name, number=numbers.get(name, 0), is_newest=name == newest, pods=own)
        for name, own in groups.items()
    ]
    return sorted(revision_groups, key=lambda revision_group: -revision_group.number)


def _find_revision(pod: Document, numbers: Mapping[str, int]) -> str:
    """Hash of the pod's revision. A pod of a UnitedDeployment's subset has two hashes: the UnitedDeployment's and its
    workload's. The result is the hash that is in `numbers`.
    """
    labels = pod["metadata"].get("labels") or {}
    hashes = (_hash_of(str(labels.get(label) or "")) for label in (REVISION_LABEL, OF_UNITED))
    return next((text for text in hashes if text in numbers), revision_of(pod))


def _build_revision_lines(
    revisions: Sequence[Revision], pods: Sequence[Document], status: Document, now: float
) -> list[Line]:
    groups = groups_of(revisions, pods, status)
    lines: list[Line] = []
    for place, group in enumerate(groups):
        is_last = place == len(groups) - 1
        number = f"revision:{group.number}" if group.number else group.hash or "no revision"
        tag = "new" if group.is_newest else "old"
        lines.append(
            Line(
                "└──" if is_last else "├──",
                f"# {number}",
                "",
                format_count(len(group.pods), "pod"),
                "",
                f"{tag} {group.hash}",
            )
        )
        for count, pod in enumerate(group.pods):
            branch = ("   " if is_last else "│  ") + ("└──" if count == len(group.pods) - 1 else "├──")
            lines.append(_build_pod_line(branch, pod, now))
    return lines


def _build_pod_line(branch: str, pod: Document, now: float) -> Line:
    info = [f"ready:{format_ready_count(pod)}"]
    if restarts := restarts_of(pod):
        info.append(f"restarts:{restarts}")
    if why := describe_pod_wait(pod):
        info.append(why)
    meta = pod["metadata"]
    return Line(
        branch,
        f"□ {meta['name']}",
        "Pod",
        state_of(pod),
        format_age(meta.get("creationTimestamp"), now),
        ",".join(info),
    )


def describe_pod_wait(pod: Document) -> str:
    """Reason of the kubelet or the scheduler why a pod waits, in one short line; empty if there is no reason."""
    status = pod.get("status") or {}
    for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if message := ((item.get("state") or {}).get("waiting") or {}).get("message"):
            return str(message).split("\n", 1)[0][:80]
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")[:80]
    return ""


def _hash_of(name: str) -> str:
    return name.rpartition("-")[2]


def format_tree(tree: Tree, *, colours: bool) -> list[str]:
    """Lines of the tree for the output."""
    width = max(len(name) for name, _ in tree.head) + 2
    said = [f"{f'{name}:'.ljust(width)} {fit_cell(value)}" for name, value in tree.head]
    rows = [["NAME", "KIND", "STATUS", "AGE", "INFO"]]
    for line in tree.lines:
        texts = (f"{line.branch}{line.name}", line.kind, line.state, line.age, line.info)
        rows.append([fit_cell(text) for text in texts])
    widths = [max(len(row[n]) for row in rows) + 2 for n in range(5)]
    said.append("")
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=True)]
        if colours:
            cells[2] = f"{_choose_colour(row[2])}{cells[2]}{_PLAIN}"
        said.append("".join(cells).rstrip())
    return said


def _choose_colour(state: str) -> str:
    if state.startswith("✔") or state == "Running":
        return _GREEN
    if any(word in state for word in ("✖", "Err", "BackOff", "Fail", "Invalid", "OOM")):
        return _RED
    return _YELLOW if state not in ("STATUS", "") else _DIM


# ── drawing ──────────────────────────────────────────────────────────────────


async def show_tree(session: Session, arguments: Sequence[str]) -> list[Error]:
    """Command `get rollout NAME [-w]`: the tree of a workload, by name or as `TYPE/NAME`, or of a Rollout."""
    info = await _find_workload(session, arguments)
    colours = session.has_colours
    if not session.call.is_on("watch"):
        tree = tree_of(info, *await _read_children(session, info), now=session.now)
        draw(session, format_tree(tree, colours=colours), before=0)
        return []
    try:
        async with asyncio.timeout(session.call.seconds("timeout") or None):
            await _draw_until_done(session, info, colours=colours)
    except TimeoutError:
        return [TimedOutError("timed out waiting for the condition")]
    return []


async def _draw_until_done(session: Session, info: Info, *, colours: bool) -> None:
    drawn: list[str] = []
    async with watch_changes(session, *_list_watched_parts(info)) as changed:
        async for tree in _watch_tree(session, info, changed):
            lines = format_tree(tree, colours=colours)
            if lines != drawn:
                draw(session, lines, before=len(drawn))
                drawn = lines
            if tree.is_done:
                return


def _list_watched_parts(info: Info) -> Iterator[Watched]:
    """Watched objects of the tree: the workload, its revisions and its pods."""
    yield Watched(resource=info.resource, namespace=info.namespace, name=info.name)
    shown, labels = shown_of(info.document), read_label_query(info)
    if labels is None:
        return
    if shown is not None and shown.verbs.history:
        resource = REPLICA_SETS if shown.verbs.history == "replicasets" else CONTROLLER_REVISIONS
        yield Watched(resource=resource, namespace=info.namespace, labels=labels)
    yield Watched(resource=PODS, namespace=info.namespace, labels=labels)


async def _watch_tree(session: Session, info: Info, changed: asyncio.Event) -> AsyncIterator[Tree]:
    """Yield the tree after changes, but not more often than it is drawn, and each second for the ages. Temporary errors
    are waited out, without a time limit.
    """
    pace = REDRAW_S if session.around.is_terminal else AGES_S
    while True:
        changed.clear()
        try:
            info = await read_patiently(partial(reread, session, info))
        except NotFoundError:
            raise KubectlError("object has been deleted") from None
        revisions, pods = await read_patiently(partial(_read_children, session, info))
        yield tree_of(info, revisions, pods, now=session.now)
        await asyncio.sleep(pace)
        while not changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(AGES_S):
                    await changed.wait()
            if not changed.is_set():
                yield tree_of(info, revisions, pods, now=session.now)


async def _read_children(session: Session, info: Info) -> tuple[Sequence[Revision], list[Document]]:
    """Revisions and pods of the workload."""
    shown = shown_of(info.document)
    has_history = shown is not None and bool(shown.verbs.history)
    revisions = await read_revisions(session, info) if has_history else []
    return revisions, await pods_of(session, info)


async def _find_workload(session: Session, arguments: Sequence[str]) -> Info:
    mapper = await session.read_mapper()
    if len(arguments) == 1 and "/" not in arguments[0]:
        return await _find_by_name(session, arguments[0])
    pairs = parse_request(arguments, allow_all=False, program=session.around.program).pairs
    if len(pairs) != 1:
        raise KubectlError("exactly one rollout is shown at a time")
    word, name = pairs[0]
    return await _resolve_rollout(session, await get(session, mapper.find(word), name))


async def _find_by_name(session: Session, name: str) -> Info:
    """Find the only workload with this name; a Rollout has precedence. Raises KubectlError when there is none or
    several.
    """
    mapper = await session.read_mapper()
    infos: list[Info] = []
    known = [shown for shown in list_all_shown() if shown.verbs.history or shown.group == ROLLOUTS]
    for shown in sorted(known, key=lambda shown: shown.group != ROLLOUTS):
        served = mapper.find_in_group(shown.group, shown.kind)
        if served is None or not served.resource.namespaced:
            continue
        try:
            info = await get(session, served, name)
        except (NotFoundError, KubeError):
            continue
        if shown.group == ROLLOUTS:
            return await _resolve_rollout(session, info)
        infos.append(info)
    if not infos:
        raise KubectlError(
            f'there is no Rollout and no workload "{name}" in namespace {await session.read_namespace()}'
        )
    if len(infos) > 1:
        names = ", ".join(f"{info.resource}/{info.name}" for info in infos)
        raise KubectlError(f'several workloads have the name "{name}"; give one of them: {names}')
    return infos[0]


async def _resolve_rollout(session: Session, info: Info) -> Info:
    from pykruise.cli.kubectl.rollout import workload_of

    return await workload_of(session, info) if group_of(info.document) == ROLLOUTS else info
