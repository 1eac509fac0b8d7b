"""Commands `get all`, `get TYPE…`, `get rollout NAME -w` and `image status`: tables and trees of objects.

objects ──▶ rows_of() (pure) ──▶ format_table()      workload, revisions, pods ──▶ tree_of()
    ──▶ format_tree() (trees.py)
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.drawing import draw
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.pods import format_age
from pykruise.cli.kubectl.printing import FORMATS, allows_missing_keys, make_formatter
from pykruise.cli.kubectl.resources import Error, find, get, list_all, parse_request, read_patiently
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.watching import TABLE, Watched, watch_rows
from pykruise.cli.terminal_text import fit_cell
from pykruise.kinds import list_all_shown
from pykruise.kube.client.retries import is_read_repeatable
from pykruise.kube.client.transport import Request
from pykruise.kube.documents import get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import Resource
from pykruise.plans.shown import Cell

Document = Mapping[str, Any]


def rows_of(
    documents: Sequence[Document], columns: Sequence[Cell], *, now: float, everywhere: bool
) -> list[list[str]]:
    """The table's header and a row for each object."""
    head = [*(["NAMESPACE"] if everywhere else []), "NAME", *(column.head for column in columns), "AGE"]
    rows = [
        [
            *([str(document["metadata"].get("namespace", ""))] if everywhere else []),
            str(document["metadata"]["name"]),
            *(_format_cell(column.read_cell(document)) for column in columns),
            format_age(document["metadata"].get("creationTimestamp"), now),
        ]
        for document in documents
    ]
    return [head, *rows]


def _format_cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def format_table(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> list[str]:
    """Lines of a table: columns padded to the widest cell, or to `widths`, three spaces between them. A cell with
    several lines is cut.
    """
    fitting = [[fit_cell(cell) for cell in row] for row in rows]
    widths = widths or measure_columns(fitting)
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in fitting
    ]


def measure_columns(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Width of the widest cell of each column."""
    return tuple(max(len(fit_cell(row[n])) for row in rows) for n in range(len(rows[0])))


async def get_command(session: Session) -> list[Error]:
    """`get all | TYPE… | rollout NAME`."""
    call = session.call
    given = list(call.arguments)
    if call.has_files():
        return await _get_files(session, given)
    if not given:
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
        if call.is_on("watch") and call.text("output"):
            raise KubectlError(_ONLY_TABLES)
        return await (_watch_all(session) if call.is_on("watch") else _get_all(session, session.say))
    return await _get_types(session, given)


async def _watch_all(session: Session) -> list[Error]:
    """Print the tables again when something except the ages has changed, until the user interrupts the command or the
    time limit is reached. Temporary errors do not end it after the first tables.
    """
    shown: list[str] = []
    lines: list[str] = []
    errors = await _get_all(session, lines.append)
    with suppress(TimeoutError):
        async with asyncio.timeout(session.call.seconds("timeout") or None):
            while not errors:
                if [line.rsplit(maxsplit=1)[:1] for line in lines] != [
                    line.rsplit(maxsplit=1)[:1] for line in shown
                ]:
                    draw(session, lines, before=len(shown))
                    shown = lines
                await asyncio.sleep(1.0)
                lines, errors = await read_patiently(partial(_read_tables, session))
    return errors


async def _read_tables(session: Session) -> tuple[list[str], list[Error]]:
    """Return the lines of all tables, and the errors of reads. Raises the first temporary error."""
    lines: list[str] = []
    errors = await _get_all(session, lines.append)
    for error in errors:
        if isinstance(error, KubeError) and is_read_repeatable(error):
            raise error
    return lines, errors


async def _get_all(session: Session, say: Callable[[str], None]) -> list[Error]:
    call, mapper = session.call, await session.read_mapper()
    everywhere = call.is_on("all-namespaces")
    namespace = "" if everywhere else await session.read_namespace()
    errors: list[Error] = []
    result: list[Document] = []
    for shown in list_all_shown():
        served = mapper.find_in_group(shown.group, shown.kind) if shown.columns else None
        if served is None:
            continue
        try:
            documents = [info.document for info in await list_all(session, served, namespace)]
        except KubeError as error:
            errors.append(error)
            continue
        result += documents
        if documents and not call.text("output"):
            say("")
            say(f"{served.resource}:")
            is_wide = everywhere and served.resource.namespaced
            for line in format_table(rows_of(documents, shown.columns, now=session.now, everywhere=is_wide)):
                say(line)
    if call.text("output"):
        _print(session, _list_of(result))
    return errors


def _list_of(documents: Sequence[Document]) -> Document:
    return {"apiVersion": "v1", "items": documents, "kind": "List", "metadata": {"resourceVersion": ""}}


def _print(session: Session, document: Any) -> None:
    name, _, argument = session.call.text("output").partition("=")
    if name == "name":
        items = document.get("items", [document])
        for item in items:
            group = str(item["apiVersion"]).rpartition("/")[0]
            session.say(f"{item['kind'].lower()}{f'.{group}' if group else ''}/{item['metadata']['name']}")
        return
    show = make_formatter(
        name,
        argument or session.call.text("template"),
        keeps=session.call.is_on("show-managed-fields"),
        allow_missing=allows_missing_keys(session.call),
        allowed=(*FORMATS, "wide"),
    )
    session.write(show(document))


async def _get_types(session: Session, given: Sequence[str]) -> list[Error]:
    """Print objects of any type, as the API server's own table or in another format. An object that cannot be read does
    not stop the others.
    """
    call, mapper = session.call, await session.read_mapper()
    asked = parse_request(given, allow_all=True, program=session.around.program)
    if asked.pairs and call.text("selector"):
        raise KubectlError("name cannot be provided when a selector is specified")
    everywhere = call.is_on("all-namespaces")
    if everywhere and any(mapper.find(word).resource.namespaced for word, _ in asked.pairs):
        raise KubectlError("a resource cannot be retrieved by name across all namespaces")
    namespace = "" if everywhere else await session.read_namespace()
    if call.text("output") in ("", "wide"):
        wanted = [*asked.pairs, *((word, "") for word in asked.types)]
        return await _say_tables(
            session, [(mapper.find(word).resource, namespace, name) for word, name in wanted]
        )
    if call.is_on("watch"):
        raise KubectlError(_ONLY_TABLES)
    documents: list[Document] = []
    errors: list[Error] = []
    for word, name in asked.pairs:
        served = mapper.find(word)
        try:
            documents.append((await get(session, served, name)).document)
        except KubeError as error:
            errors.append(error)
    for word in asked.types:
        served = mapper.find(word)
        try:
            documents += [info.document for info in await list_all(session, served, namespace)]
        except KubeError as error:
            errors.append(error)
    if len(asked.pairs) != 1:
        _print(session, _list_of(documents))
    elif documents:
        _print(session, documents[0])
    return errors


_ONLY_TABLES: Final = "--watch prints tables: use it without -o, or with -o wide"


async def _get_files(session: Session, given: Sequence[str]) -> list[Error]:
    """Print the objects of `-f` and `-k`, like those of any type."""
    selection = await find(session, given)
    documents = [info.document for info in selection.infos]
    errors: list[Error] = list(selection.errors)
    if session.call.text("output") in ("", "wide"):
        wanted = [(info.resource, info.namespace, info.name) for info in selection.infos]
        return errors + (await _say_tables(session, wanted) if wanted else [])
    if session.call.is_on("watch"):
        raise KubectlError(_ONLY_TABLES)
    if documents:
        _print(session, documents[0] if len(documents) == 1 else _list_of(documents))
    return errors


class _Table(msgspec.Struct, kw_only=True):
    """A table of one resource."""

    resource: Resource
    is_wide: bool
    """Whether its first column is the namespace."""
    columns: tuple[tuple[int, str], ...]
    """Index of the cell, and the column's header."""
    named: int
    """Index of the cell with the object's name."""
    rows: list[list[str]]
    """Rows without the header."""
    version: str
    """resourceVersion of the list."""

    @property
    def head(self) -> list[str]:
        """The header."""
        return [*(["NAMESPACE"] if self.is_wide else []), *(name for _, name in self.columns)]

    def build_row(self, row: Mapping[str, Any], *, kind: str = "") -> list[str]:
        """Return the cells of a row in the API server's response. `kind`: printed before the name."""
        cells = [_format_cell(cell) if cell is not None else "<none>" for cell in row["cells"]]
        if kind:
            cells[self.named] = f"{kind}/{cells[self.named]}"
        namespace = [str(row["object"]["metadata"]["namespace"])] if self.is_wide else []
        return [*namespace, *(cells[n] for n, _ in self.columns)]


async def _say_tables(session: Session, wanted: Sequence[tuple[Resource, str, str]]) -> list[Error]:
    """Print one table for consecutive entries of the same resource, and its changes with `--watch`. `wanted`: resource,
    namespace and name; an empty name stands for all objects. Return the errors of reads.
    """
    if session.call.is_on("watch"):
        if len(wanted) > 1:
            raise KubectlError("you may only specify a single resource type or object with --watch")
        await _watch_table(session, *wanted[0])
        return []
    has_kinds = len({resource for resource, _, _ in wanted}) > 1
    tables: list[_Table] = []
    errors: list[Error] = []
    for resource, namespace, name in wanted:
        try:
            table = await _read_table(session, resource, namespace, name, names_kind=has_kinds)
        except KubeError as error:
            errors.append(error)
            continue
        if tables and tables[-1].resource == resource:
            tables[-1].rows += table.rows
        elif table.rows:
            tables.append(table)
    for number, table in enumerate(tables):
        if number:
            session.say("")
        _say_table(session, table)
    if not tables and not errors:
        _note_nothing(session, wanted)
    return errors


def _say_table(session: Session, table: _Table) -> tuple[int, ...]:
    """Print the table. Return the widths of its columns."""
    rows = [table.head, *table.rows]
    for line in format_table(rows):
        session.say(line)
    return measure_columns(rows)


def _note_nothing(session: Session, wanted: Sequence[tuple[Resource, str, str]]) -> None:
    is_one = all(resource.namespaced and namespace for resource, namespace, _ in wanted)
    session.note(f"No resources found in {wanted[0][1]} namespace." if is_one else "No resources found")


async def _watch_table(session: Session, resource: Resource, namespace: str, name: str) -> None:
    """Print the table, and a row for each change until the user interrupts the command or the time limit is reached."""
    table = await _read_table(session, resource, namespace, name)
    widths: tuple[int, ...] = ()
    if table.rows:
        widths = _say_table(session, table)
    else:
        _note_nothing(session, [(resource, namespace, name)])
    watched = Watched(resource=resource, namespace=namespace, name=name, labels=session.call.text("selector"))
    timeout_s = session.call.seconds("timeout")
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s or None):
            async for _, rows in watch_rows(session, watched, table.version):
                cells = [table.build_row(row) for row in rows]
                if not cells:
                    continue
                if not widths:
                    cells.insert(0, table.head)
                    widths = measure_columns(cells)
                for line in format_table(cells, widths):
                    session.say(line)


async def _read_table(
    session: Session, resource: Resource, namespace: str, name: str, *, names_kind: bool = False
) -> _Table:
    """Read an object, or all objects that the selector selects, as a table. `names_kind`: the names begin with the
    kind. Raises KubeError.
    """
    from pykruise.kube.errors import parse_error

    transport = await session.open_transport()
    query = {"labelSelector": selector} if (selector := session.call.text("selector")) and not name else {}
    there = namespace if resource.namespaced else ""
    answer = await transport.request(
        Request("GET", resource.format_path(there, name), query=query, headers={"accept": TABLE})
    )
    if answer.status != 200:
        raise parse_error(answer.status, answer.body, answer.headers)
    result = orjson.loads(answer.body)
    definitions = result.get("columnDefinitions") or ()
    table = _Table(
        resource=resource,
        is_wide=session.call.is_on("all-namespaces") and resource.namespaced,
        columns=tuple(
            (n, str(definition["name"]).upper())
            for n, definition in enumerate(definitions)
            if not definition.get("priority") or session.call.text("output") == "wide"
        ),
        named=next((n for n, definition in enumerate(definitions) if definition.get("format") == "name"), 0),
        rows=[],
        version=str((result.get("metadata") or {}).get("resourceVersion") or ""),
    )
    kind = f"{resource.kind.lower()}{f'.{resource.group}' if resource.group else ''}" if names_kind else ""
    table.rows = [table.build_row(row, kind=kind) for row in result.get("rows") or ()]
    return table


# ── image status ─────────────────────────────────────────────────────────────


async def show_image_status(session: Session) -> list[Error]:
    """Command `image status JOB`: a row for each node, read from the NodeImages."""
    given = session.call.arguments
    puller = next(shown for shown in list_all_shown() if shown.pulls_image)
    if len(given) != 1:
        raise KubectlError(f"exactly one {puller.kind} is required: image status NAME")
    mapper = await session.read_mapper()
    name = given[0].rpartition("/")[2]
    word = given[0].rpartition("/")[0] or f"{puller.kind}s".lower()
    job = await get(session, mapper.find(word), name)
    keeper = next(shown for shown in list_all_shown() if shown.keeps_images)
    nodes = mapper.find_in_group(keeper.group, keeper.kind)
    if nodes is None:
        raise KubectlError(f"the API server serves no {keeper.kind}s")
    listed = [info.document for info in await list_all(session, nodes, "", selector="")]
    rows = build_image_rows(job.document, listed)
    for line in format_table([["NODE", "PHASE", "PROGRESS", "MESSAGE"], *rows]):
        session.say(line)
    return []


def build_image_rows(job: Document, node_images: Sequence[Document]) -> list[list[str]]:
    """Node, phase, progress and message of each node whose NodeImage pulls the image for this job."""
    image, uid = job["spec"].get("image", ""), job["metadata"].get("uid")
    repository, tag = split_image(image)
    rows = []
    for node in node_images:
        wanted = (get_path(node, "spec", "images", repository, "tags") or ()) if repository else ()
        owners = {
            ref.get("uid")
            for item in wanted
            if item.get("tag") == tag
            for ref in item.get("ownerReferences") or ()
        }
        if uid not in owners:
            continue
        states = get_path(node, "status", "imageStatuses", repository, "tags") or ()
        state: Document = next((state for state in states if state.get("tag") == tag), {})
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
    """Repository and tag (or digest) of an image, as NodeImages store them."""
    name, at_sign, digest = image.partition("@")
    if at_sign:
        return name, digest
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return repository, tag
