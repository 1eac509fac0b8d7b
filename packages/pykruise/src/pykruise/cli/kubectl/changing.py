"""Sends the change of a command as a merge patch. When another client changed the object first, the patch fails with a
conflict, and the change is computed again from the stored object.

Info, mutate(document) ──▶ change() ──▶ the object as stored, or None: nothing changed

A dry run on the client writes nothing and returns the changed object.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import orjson

from pykruise.cli.kubectl.resources import Info, reread
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.kube.documents import Document, deep_copy, is_same
from pykruise.kube.errors import ConflictError
from pykruise.kube.patches.types import PatchType

_WAITS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0)
"""Seconds before each further attempt. During a rollout the manager writes the status several times per second, and
each of these writes can cause a conflict.
"""


async def change(
    session: Session,
    info: Info,
    mutate: Callable[[Document], object],
    *,
    manager: str,
    is_local: bool = False,
    subresource: str = "",
) -> Info | None:
    """Apply `mutate` to a copy of the object and send the difference; None if nothing changed. `subresource`: the
    patched subresource. Raises KubeError, and the errors of `mutate`.
    """
    dry_run = dry_run_of(session.call, session.warn)
    for wait_s in (*_WAITS_S, None):
        after = deep_copy(info.document)
        mutate(after)
        if is_same(after, info.document):
            return None
        if is_local or dry_run == "client":
            return info.replace_document(after)
        try:
            body = merge_patch(info.document, after)
            return await patch(session, info, body, manager=manager, subresource=subresource)
        except ConflictError:
            if wait_s is None:
                raise
            await asyncio.sleep(wait_s)
        info = await reread(session, info)
    return None


def merge_patch(before: Document, after: Document) -> Document:
    """Merge patch from one document to another. It is valid only while the stored object has the first document's
    resourceVersion.
    """
    from pykruise.kube.patches.merge import diff_merge

    changes: Document = diff_merge(before, after)
    version = before["metadata"].get("resourceVersion")
    if version:
        changes["metadata"] = {**(changes.get("metadata") or {}), "resourceVersion": version}
    return changes


async def patch(
    session: Session,
    info: Info,
    body: Any,
    *,
    manager: str,
    patch_type: PatchType = PatchType.MERGE,
    subresource: str = "",
) -> Info:
    """Send a patch, as a dry run with `--dry-run=server`. Return the object in the API server's response."""
    client = await session.make_client()
    answer = await client.patch(
        info.resource,
        info.namespace,
        info.name,
        body,
        patch_type=patch_type,
        subresource=subresource,
        dry_run=dry_run_of(session.call, session.warn) == "server",
        field_manager=session.read_field_manager(manager),
    )
    return info.replace_document(orjson.loads(answer))
