"""Watches objects until the user stops the command: yields changed rows of a table, or signals that an object changed.

a table's resourceVersion ──watch──▶ watch_rows() ──▶ rows, one for each change           `get TYPE -w`
Watched, … ──▶ watch_changes() ──▶ an Event that is set when one of them changes                `get rollout NAME -w`
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.session import Session
from pykruise.kube.cache.reflector import IDLE_TIMEOUT_S
from pykruise.kube.client.retries import is_read_repeatable
from pykruise.kube.client.transport import Request, Transport
from pykruise.kube.errors import ApiError, GoneError, KubeError, TransportError, parse_error
from pykruise.kube.resources import Resource

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_AGAIN_S: Final = 1.0
"""Seconds from the failure of a watch to the next try."""


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one resource: by name, by labels, or all in a namespace (empty: in all namespaces)."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    labels: str = ""

    @property
    def query(self) -> dict[str, str]:
        """Query parameters that select these objects."""
        named = {"fieldSelector": f"metadata.name={self.name}"} if self.name else {}
        return {**named, **({"labelSelector": self.labels} if self.labels else {})}


async def watch_rows(
    session: Session, watched: Watched, version: str
) -> AsyncIterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Yield the event's type and the table's rows for each change after this resourceVersion.

    The watch is repeated when it ends, when nothing arrives for IDLE_TIMEOUT_S, and after temporary errors. If the
    resourceVersion is too old by then, the objects are listed, and the rows of those that have changed are yielded as
    MODIFIED. Raises other errors of the API server.
    """
    transport = await session.open_transport()
    path = watched.resource.format_path(watched.namespace if watched.resource.namespaced else "")
    is_too_old = False
    while True:
        try:
            if is_too_old:
                version, rows = await _list_changed_rows(transport, path, watched, version)
                is_too_old = False
                if rows:
                    yield "MODIFIED", rows
            query = {**watched.query, "watch": "true", "resourceVersion": version}
            request = Request("GET", path, query=query, headers={"accept": TABLE}, timeout_s=IDLE_TIMEOUT_S)
            async with transport.stream(request) as lines:
                async for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise parse_error(int(event["object"].get("code") or 500), line, {})
                    rows = event["object"].get("rows") or ()
                    for row in rows:
                        version = row["object"]["metadata"].get("resourceVersion") or version
                    yield event["type"], rows
        except KubeError as error:
            if isinstance(error, GoneError):
                is_too_old = True
            elif not is_read_repeatable(error):
                raise
            await asyncio.sleep(_AGAIN_S)


async def _list_changed_rows(
    transport: Transport, path: str, watched: Watched, version: str
) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Return the table's current resourceVersion, and the rows of objects that have changed since `version`."""
    answer = await transport.request(Request("GET", path, query=watched.query, headers={"accept": TABLE}))
    if answer.status != 200:
        raise parse_error(answer.status, answer.body, answer.headers)
    table = orjson.loads(answer.body)
    rows = [
        row
        for row in table.get("rows") or ()
        if int(row["object"]["metadata"]["resourceVersion"]) > int(version)
    ]
    return table["metadata"]["resourceVersion"], rows


@asynccontextmanager
async def watch_changes(session: Session, *watched: Watched) -> AsyncIterator[asyncio.Event]:
    """Event that is set when a watched object has changed or may have changed. The reader must clear the event before
    it reads.
    """
    changed = asyncio.Event()
    tasks = [asyncio.create_task(_watch_one(session, item, changed)) for item in watched]
    try:
        yield changed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch_one(session: Session, watched: Watched, changed: asyncio.Event) -> None:
    client, resource, namespace = await session.make_client(), watched.resource, watched.namespace
    labels, fields = watched.labels, watched.query.get("fieldSelector", "")
    while True:
        try:
            listed = await client.list(resource, namespace, label_selector=labels, field_selector=fields)
            changed.set()
            async with client.watch(
                resource,
                namespace,
                resource_version=listed.resource_version,
                label_selector=labels,
                field_selector=fields,
                idle_timeout_s=IDLE_TIMEOUT_S,
            ) as events:
                async for event in events:
                    if event.type != "BOOKMARK":
                        changed.set()
        except (ApiError, GoneError, TransportError):
            await asyncio.sleep(_AGAIN_S)
