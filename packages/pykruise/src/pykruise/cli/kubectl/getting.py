"""`get all`, `get TYPE…`, `get rollout NAME -w`, `image status`: tables and trees of what is there.

objects ──▶ rows_of() (pure) ──▶ table()      workload, revisions, pods ──▶ tree_of() ──▶ tree_lines() (trees.py)
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.discovery import Served
from pykruise.cli.kubectl.drawing import draw
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import KRUISE, ROLLOUTS
from pykruise.cli.kubectl.pods import age
from pykruise.cli.kubectl.printing import FORMATS, formatter
from pykruise.cli.kubectl.resources import Error, Info, asked_for, get, list_all
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.watching import TABLE, Watched, rows_after
from pykruise.kube.client.transport import Request
from pykruise.kube.documents import get_path
from pykruise.kube.errors import KubeError

Document = Mapping[str, Any]

POLICY: Final = "policy.kruise.io"


def at(*path: str, default: Any = "0") -> Callable[[Document], Any]:
    """A column that is a field."""

    def value(document: Document) -> Any:
        found = get_path(document, *path)
        return default if found is None else found

    return value


def status(name: str) -> Callable[[Document], Any]:
    """A column that is a field of the status."""
    return at("status", name)


def _cell(path: str, *, of: Callable[[Any], Any]) -> Callable[[Document], Any]:
    return lambda document: of(get_path(document, *path.split(".")))


def _length(value: Any) -> int:
    return len(value or ())


def _selector_text(value: Any) -> str:
    return ",".join(f"{key}={value[key]}" for key in sorted(value)) if value else "<none>"


def _canary(name: str) -> Callable[[Document], Any]:
    def value(document: Document) -> Any:
        part = (
            get_path(document, "status", "canaryStatus")
            or get_path(document, "status", "blueGreenStatus")
            or {}
        )
        return part.get(name) or "-"

    return value


def job_phase(document: Document) -> str:
    """Of a job that pulls images: Completed, Running, Pending."""
    own = document.get("status") or {}
    if own.get("completionTime"):
        return "Completed"
    return "Running" if own.get("startTime") else "Pending"


Columns = tuple[tuple[str, Callable[[Document], Any]], ...]

COLUMNS: Final[Mapping[tuple[str, str], Columns]] = {
    (KRUISE, "CloneSet"): (
        ("DESIRED", at("spec", "replicas", default=1)),
        ("UPDATED", status("updatedReplicas")),
        ("UPDATED_READY", status("updatedReadyReplicas")),
        ("UPDATED_AVAILABLE", status("updatedAvailableReplicas")),
        ("READY", status("readyReplicas")),
        ("TOTAL", status("replicas")),
    ),
    (KRUISE, "StatefulSet"): (
        ("DESIRED", at("spec", "replicas", default=1)),
        ("CURRENT", status("replicas")),
        ("UPDATED", status("updatedReplicas")),
        ("READY", status("readyReplicas")),
    ),
    (KRUISE, "DaemonSet"): (
        ("DESIRED", status("desiredNumberScheduled")),
        ("CURRENT", status("currentNumberScheduled")),
        ("READY", status("numberReady")),
        ("UP-TO-DATE", status("updatedNumberScheduled")),
        ("AVAILABLE", status("numberAvailable")),
        ("NODE SELECTOR", _cell("spec.template.spec.nodeSelector", of=_selector_text)),
    ),
    (ROLLOUTS, "Rollout"): (
        ("STATUS", at("status", "phase", default="-")),
        ("CANARY_STEP", _canary("currentStepIndex")),
        ("CANARY_STATE", _canary("currentStepState")),
        ("MESSAGE", at("status", "message", default="-")),
    ),
    (KRUISE, "BroadcastJob"): (
        ("DESIRED", status("desired")),
        ("ACTIVE", status("active")),
        ("SUCCEEDED", status("succeeded")),
        ("FAILED", status("failed")),
    ),
    (KRUISE, "ContainerRecreateRequest"): (
        ("PHASE", at("status", "phase", default="Pending")),
        (
            "COMPLETED",
            _cell("status.containerRecreateStates", of=lambda states: _in_phase(states, "Succeeded")),
        ),
        ("FAILED", _cell("status.containerRecreateStates", of=lambda states: _in_phase(states, "Failed"))),
    ),
    (KRUISE, "AdvancedCronJob"): (
        ("SCHEDULE", at("spec", "schedule", default="-")),
        ("SUSPEND", _cell("spec.paused", of=bool)),
        ("ACTIVE", _cell("status.active", of=_length)),
        ("LAST SCHEDULE", at("status", "lastScheduleTime", default="<none>")),
    ),
    (KRUISE, "ResourceDistribution"): (
        ("TARGETS", status("desired")),
        ("SUCCEEDED", status("succeeded")),
        ("FAILED", status("failed")),
    ),
    (KRUISE, "UnitedDeployment"): (
        ("DESIRED", at("spec", "replicas", default="-")),
        ("UPDATED", status("updatedReplicas")),
        ("READY", status("readyReplicas")),
        ("AVAILABLE", status("updatedReadyReplicas")),
    ),
    (KRUISE, "SidecarSet"): (
        ("MATCHED", status("matchedPods")),
        ("UPDATED", status("updatedPods")),
        ("READY", status("readyPods")),
        ("INJECTED", status("matchedPods")),
    ),
    (KRUISE, "PodProbeMarker"): (
        ("TARGETS", status("matchedPods")),
        ("PROBES", _cell("spec.probes", of=_length)),
    ),
    (KRUISE, "ImagePullJob"): (
        ("PHASE", job_phase),
        ("COMPLETED", status("succeeded")),
        ("FAILED", status("failed")),
        ("TOTAL", status("desired")),
    ),
    (KRUISE, "ImageListPullJob"): (
        ("PHASE", job_phase),
        ("COMPLETED", status("completed")),
        ("FAILED", _cell("status.failedImageStatuses", of=_length)),
        ("TOTAL", status("desired")),
    ),
    (POLICY, "PodUnavailableBudget"): (
        ("MAXUNAVAILABLE", at("spec", "maxUnavailable", default="-")),
        ("UNAVAILABLE", at("spec", "minAvailable", default="-")),
        ("DISRUPTIONS", status("unavailableAllowed")),
        ("TARGETS", status("totalReplicas")),
    ),
    (KRUISE, "NodeImage"): (
        ("DESIRED", status("desired")),
        ("PULLING", status("pulling")),
        ("SUCCEED", status("succeeded")),
        ("FAILED", status("failed")),
    ),
    (KRUISE, "EphemeralJob"): (
        ("PHASE", at("status", "phase", default="-")),
        ("MATCHED", status("matches")),
        ("RUNNING", status("running")),
        ("SUCCEEDED", status("succeeded")),
        ("FAILED", status("failed")),
    ),
    (KRUISE, "WorkloadSpread"): (
        ("TARGET", at("spec", "targetRef", "name", default="-")),
        ("SUBSETS", _cell("spec.subsets", of=_length)),
    ),
    (KRUISE, "PersistentPodState"): (
        ("TARGET", at("spec", "targetRef", "name", default="-")),
        ("PODS", _cell("status.podStates", of=_length)),
    ),
    (KRUISE, "NodePodProbe"): (("PODS", _cell("spec.podProbes", of=_length)),),
}
"""Columns between NAME and AGE, by kind, in the order in which `get all` shows the kinds."""


def _in_phase(states: Any, phase: str) -> int:
    return sum(one.get("phase") == phase for one in states or ())


def rows_of(
    documents: Sequence[Document], columns: Columns, *, now: float, everywhere: bool
) -> list[list[str]]:
    """The table's head and a row for each object."""
    head = [*(["NAMESPACE"] if everywhere else []), "NAME", *(name for name, _ in columns), "AGE"]
    rows = [
        [
            *([str(one["metadata"].get("namespace", ""))] if everywhere else []),
            str(one["metadata"]["name"]),
            *(_text(value(one)) for _, value in columns),
            age(one["metadata"].get("creationTimestamp"), now),
        ]
        for one in documents
    ]
    return [head, *rows]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded to the widest cell, three spaces between them."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


async def get_command(session: Session) -> list[Error]:
    """`get all | TYPE… | rollout NAME`."""
    call = session.call
    given = list(call.arguments)
    if not given and not call.listed("filename"):
        raise KubectlError(
            'You must specify the type of resource to get. Use "kubectl kruise api-resources" for a list.'
        )
    if given[0] in ("rollout", "rollouts", "ro") and len(given) > 1:
        from pykruise.cli.kubectl.trees import show_tree

        return await show_tree(session, given[1:])
    if given[0].startswith(("rollout/", "rollouts/", "ro/")) and len(given) == 1 and not call.text("output"):
        from pykruise.cli.kubectl.trees import show_tree

        return await show_tree(session, [given[0].partition("/")[2]])
    if given[0] == "all":
        return await (_watch_all(session) if call.is_on("watch") else _get_all(session, session.say))
    return await _get_types(session, given)


async def _watch_all(session: Session) -> list[Error]:
    """The tables anew whenever they change; ages alone are no change."""
    shown: list[str] = []
    while True:
        lines: list[str] = []
        if errors := await _get_all(session, lines.append):
            return errors
        if [line.rsplit(maxsplit=1)[:1] for line in lines] != [line.rsplit(maxsplit=1)[:1] for line in shown]:
            draw(session, lines, before=len(shown))
            shown = lines
        await asyncio.sleep(1.0)


async def _get_all(session: Session, say: Callable[[str], None]) -> list[Error]:
    call, mapper = session.call, await session.mapper()
    everywhere = call.is_on("all-namespaces")
    namespace = "" if everywhere else await session.namespace()
    errors: list[Error] = []
    found: list[Document] = []
    for (group, kind), columns in COLUMNS.items():
        served = mapper.in_group(group, kind)
        if served is None:
            continue
        try:
            documents = [one.document for one in await list_all(session, served, namespace)]
        except KubeError as error:
            errors.append(error)
            continue
        found += documents
        if documents and not call.text("output"):
            say("")
            say(f"{served.resource}:")
            is_wide = everywhere and served.resource.namespaced
            for line in table(rows_of(documents, columns, now=session.now, everywhere=is_wide)):
                say(line)
    if call.text("output"):
        _print(session, _list_of(found))
    return errors


def _list_of(documents: Sequence[Document]) -> Document:
    return {"apiVersion": "v1", "items": documents, "kind": "List", "metadata": {"resourceVersion": ""}}


def _print(session: Session, document: Any) -> None:
    name, _, argument = session.call.text("output").partition("=")
    if name == "name":
        items = document.get("items", [document])
        for one in items:
            group = str(one["apiVersion"]).rpartition("/")[0]
            session.say(f"{one['kind'].lower()}{f'.{group}' if group else ''}/{one['metadata']['name']}")
        return
    show = formatter(
        name,
        argument or session.call.text("template"),
        keeps=session.call.is_on("show-managed-fields"),
        allowed=(*FORMATS, "wide"),
    )
    session.around.out(show(document))


async def _get_types(session: Session, given: Sequence[str]) -> list[Error]:
    """Any type that there is, as the API server's own table or in another format."""
    call, mapper = session.call, await session.mapper()
    asked = asked_for(given, allow_all=True, program=session.around.program)
    everywhere = call.is_on("all-namespaces")
    namespace = "" if everywhere else await session.namespace()
    if call.text("output") not in ("", "wide"):
        infos: list[Info] = []
        for word, name in asked.pairs:
            infos.append(await get(session, mapper.find(word), name))
        for word in asked.types:
            infos += await list_all(session, mapper.find(word), namespace)
        documents = [one.document for one in infos]
        _print(session, documents[0] if len(asked.pairs) == 1 else _list_of(documents))
        return []
    wanted = [*asked.pairs, *((word, "") for word in asked.types)]
    if call.is_on("watch") and len(wanted) > 1:
        raise KubectlError("you may only specify a single resource type or object with --watch")
    for word, name in wanted:
        served = mapper.find(word)
        shown = await _say_table(session, served, namespace, name)
        if call.is_on("watch"):
            await _go_on(session, served, namespace, name, shown)
    return []


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was said."""

    columns: tuple[tuple[int, str], ...]
    """Number of the cell, and its head."""
    widths: tuple[int, ...] = ()
    """Of what was said; empty: nothing was."""
    version: str = ""
    """The resourceVersion that it is of."""


async def _go_on(session: Session, served: Served, namespace: str, name: str, shown: _Shown) -> None:
    """A row for each change, until it is interrupted or the time is over."""
    watched = Watched(
        resource=served.resource, namespace=namespace, name=name, labels=session.call.text("selector")
    )
    timeout_s = session.call.seconds("timeout")
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s or None):
            async for _, rows in rows_after(session, watched, shown.version):
                cells = [_cells(session, served, shown, row) for row in rows]
                if not shown.widths and cells:
                    cells.insert(0, _heads(session, served, shown))
                    widths = tuple(max(len(row[n]) for row in cells) for n in range(len(cells[0])))
                    shown = msgspec.structs.replace(shown, widths=widths)
                for row in cells:
                    padded = (cell.ljust(width) for cell, width in zip(row, shown.widths, strict=True))
                    session.say("   ".join(padded).rstrip())


def _heads(session: Session, served: Served, shown: _Shown) -> list[str]:
    is_wide = session.call.is_on("all-namespaces") and served.resource.namespaced
    return [*(["NAMESPACE"] if is_wide else []), *(name for _, name in shown.columns)]


def _cells(session: Session, served: Served, shown: _Shown, row: Mapping[str, Any]) -> list[str]:
    is_wide = session.call.is_on("all-namespaces") and served.resource.namespaced
    cells = row["cells"]
    return [
        *([str(row["object"]["metadata"]["namespace"])] if is_wide else []),
        *(str(cells[n]) if cells[n] is not None else "<none>" for n, _ in shown.columns),
    ]


async def _say_table(session: Session, served: Served, namespace: str, name: str) -> _Shown:
    from pykruise.kube.errors import error_for

    resource = served.resource
    transport = await session.transport()
    query = {"labelSelector": selector} if (selector := session.call.text("selector")) else {}
    there = namespace if resource.namespaced else ""
    answer = await transport.request(
        Request("GET", resource.path(there, name), query=query, headers={"accept": TABLE})
    )
    if answer.status != 200:
        raise error_for(answer.status, answer.body, answer.headers)
    found = orjson.loads(answer.body)
    columns = tuple(
        (n, str(one["name"]).upper())
        for n, one in enumerate(found.get("columnDefinitions") or ())
        if not one.get("priority") or session.call.text("output") == "wide"
    )
    version = str((found.get("metadata") or {}).get("resourceVersion") or "")
    shown = _Shown(columns=columns, version=version)
    rows = [_cells(session, served, shown, row) for row in found.get("rows") or ()]
    if not rows:
        session.note(
            "No resources found" if not namespace else f"No resources found in {namespace} namespace."
        )
        return shown
    rows.insert(0, _heads(session, served, shown))
    for line in table(rows):
        session.say(line)
    widths = tuple(max(len(row[n]) for row in rows) for n in range(len(rows[0])))
    return msgspec.structs.replace(shown, widths=widths)


# ── image status ─────────────────────────────────────────────────────────────


async def image_status(session: Session) -> list[Error]:
    """`image status JOB`: a row for each node, read from the NodeImages."""
    given = session.call.arguments
    if len(given) != 1:
        raise KubectlError("exactly one ImagePullJob is wanted: image status NAME")
    mapper = await session.mapper()
    name = given[0].rpartition("/")[2]
    word = given[0].rpartition("/")[0] or "imagepulljobs"
    job = await get(session, mapper.find(word), name)
    nodes = mapper.in_group(KRUISE, "NodeImage")
    if nodes is None:
        raise KubectlError("the API server serves no NodeImages")
    listed = [one.document for one in await list_all(session, nodes, "", selector="")]
    rows = image_rows(job.document, listed)
    for line in table([["NODE", "PHASE", "PROGRESS", "MESSAGE"], *rows]):
        session.say(line)
    return []


def image_rows(job: Document, node_images: Sequence[Document]) -> list[list[str]]:
    """Node, phase, progress and message, of the nodes that pull the job's image for it."""
    image, uid = job["spec"].get("image", ""), job["metadata"].get("uid")
    repository, tag = split_image(image)
    rows = []
    for node in node_images:
        wanted = (get_path(node, "spec", "images", repository, "tags") or ()) if repository else ()
        owners = {
            ref.get("uid")
            for one in wanted
            if one.get("tag") == tag
            for ref in one.get("ownerReferences") or ()
        }
        if uid not in owners:
            continue
        states = get_path(node, "status", "imageStatuses", repository, "tags") or ()
        state: Document = next((one for one in states if one.get("tag") == tag), {})
        rows.append(
            [
                str(node["metadata"]["name"]),
                str(state.get("phase") or "Waiting"),
                f"{state.get('progress', 0)}%",
                str(state.get("message") or ""),
            ]
        )
    return sorted(rows)


def split_image(image: str) -> tuple[str, str]:
    """Repository and tag (or digest) of an image, as NodeImages keep them."""
    name, at_sign, digest = image.partition("@")
    if at_sign:
        return name, digest
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return repository, tag
