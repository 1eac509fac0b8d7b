"""Command `rollout status`: waits until rollouts are done, prints each changed line once, and at the end why a
rollout waits.

find() ──▶ for each object: watch ──statuses.py──▶ lines ──▶ exit code 0 done, 1 failed or out of time
                                                             └── not done: the output of `explain`, on standard error
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.errors import CommandError
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import group_of
from pykruise.cli.kubectl.resources import Error, Info, find, read_patiently, reread
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.statuses import RolloutStatus, needs_a_person, status_of
from pykruise.kinds import GROUPS, shown_of
from pykruise.kube.cache.reflector import IDLE_TIMEOUT_S
from pykruise.kube.client.retries import is_read_repeatable
from pykruise.kube.documents import Document
from pykruise.kube.errors import ApiError, GoneError, KubeError, NotFoundError
from pykruise.kube.ids import Key

_AGAIN_S: Final = 0.2
"""Seconds from the failure of a watch to the next read."""


class TimedOutError(KubectlError):
    """The rollout took longer than `--timeout`."""


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one object in `-o json`."""

    kind: str
    namespace: str
    name: str
    done: bool
    message: str
    error: str = ""
    waits: tuple[dict[str, Any], ...] = ()


async def show_status(session: Session) -> list[Error]:
    """`rollout status (TYPE NAME | TYPE/NAME) …`."""
    call = session.call
    if (number := call.number("revision")) < 0:
        raise KubectlError(f"revision must be a positive integer: {number}")
    if (until := call.text("until")) not in ("", "done", "partition"):
        raise KubectlError(f"--until={until}: must be done or partition")
    if (output := call.text("output")) not in ("", "json"):
        raise KubectlError(
            f'unable to match a printer suitable for the output format "{output}", allowed formats are: json'
        )
    selection = await find(session, call.arguments)
    errors: list[Error] = []
    outcomes: list[_Outcome] = []
    ends = session.ends
    for info in selection.infos:
        outcome, error = await _follow(
            session, info, None if ends is None else max(ends - session.now, 0.001)
        )
        outcomes.append(outcome)
        if error is not None:
            errors.append(error)
    errors += selection.errors
    if output:
        session.say(
            json.dumps([msgspec.to_builtins(outcome) for outcome in outcomes], indent=4, ensure_ascii=False)
        )
    return errors


async def _follow(session: Session, info: Info, timeout_s: float | None) -> tuple[_Outcome, Error | None]:
    """Print the lines of a rollout until it is done. Return the outcome and the error."""
    progress: RolloutStatus | None = None
    error: Error | None = None
    try:
        async with asyncio.timeout(timeout_s) if timeout_s else nullcontext():
            async for document in _watch_documents(session, info):
                new = status_of(document, revision=session.call.number("revision"))
                info = info.replace_document(document)
                text = await _format_line(session, info, new)
                if (progress is None or new.line != progress.line) and not session.call.text("output"):
                    session.say(text)
                progress = new
                if _is_enough(session, new) or not session.call.is_on("watch"):
                    break
    except TimeoutError:
        error = TimedOutError("timed out waiting for the condition")
    except (KubeError, CommandError) as failed:
        error = failed
    is_enough = progress is not None and _is_enough(session, progress)
    if error is None and progress is not None and not is_enough and progress.progress.phase.needs_a_person:
        error = needs_a_person(info.document, progress)
    waits: tuple[dict[str, Any], ...] = ()
    if not is_enough and not isinstance(error, ApiError):
        waits = await _explain_wait(session, info)
    outcome = _Outcome(
        kind=info.resource.kind,
        namespace=info.namespace,
        name=info.name,
        done=error is None and is_enough,
        message="" if progress is None else progress.line,
        error="" if error is None else str(error),
        waits=waits,
    )
    return outcome, error


def _is_enough(session: Session, status: RolloutStatus) -> bool:
    return status.is_done or (session.call.text("until") == "partition" and status.at_partition)


async def _watch_documents(session: Session, info: Info) -> AsyncIterator[Document]:
    yield info.document
    async for document in changes_of(session, info):
        yield document


async def changes_of(session: Session, info: Info) -> AsyncIterator[Document]:
    """Watch the object: yields it after each change. Temporary errors are waited out, without a time limit. Raises
    KubectlError when it is deleted.
    """
    client = await session.make_client()
    document = info.document
    while True:
        version = document["metadata"].get("resourceVersion", "")
        try:
            async with client.watch(
                info.resource,
                info.namespace,
                resource_version=version,
                field_selector=f"metadata.name={info.name}",
                idle_timeout_s=IDLE_TIMEOUT_S,
            ) as events:
                async for event in events:
                    if event.type == "DELETED":
                        raise KubectlError("object has been deleted")
                    changed = orjson.loads(bytes(event.object))
                    if event.type != "BOOKMARK":
                        yield changed
                    document = changed
        except KubeError as error:
            if not isinstance(error, GoneError) and not is_read_repeatable(error):
                raise
            await asyncio.sleep(_AGAIN_S)
        try:
            document = (await read_patiently(lambda: reread(session, info))).document
        except NotFoundError:
            raise KubectlError("object has been deleted") from None
        yield document


async def _format_line(session: Session, info: Info, progress: RolloutStatus) -> str:
    """The status line, with `--detail` also the names of the updated pods if the status names the update revision."""
    revision = str((info.document.get("status") or {}).get("updateRevision") or "").rpartition("-")[2]
    if not session.call.is_on("detail") or not revision:
        return progress.line
    from pykruise.cli.kubectl.pods import is_ready, pods_of, revision_of

    updated = [
        pod for pod in await read_patiently(lambda: pods_of(session, info)) if revision_of(pod) == revision
    ]
    ready = [pod["metadata"]["name"] for pod in updated if is_ready(pod)]
    unready = [pod["metadata"]["name"] for pod in updated if not is_ready(pod)]
    return (
        f"{info.name}: {progress.line} Updated ready pods: [{' '.join(ready)}],"
        f" Updated not ready pods: [{' '.join(unready)}]"
    )


async def _explain_wait(session: Session, info: Info) -> tuple[dict[str, Any], ...]:
    """Print why the object waits, and return its waits; empty for kinds of other API groups, or when the objects cannot
    be read.
    """
    if group_of(info.document) not in GROUPS or shown_of(info.document) is None:
        return ()
    from pykruise.cli.explain import read_and_explain
    from pykruise.cli.insight.explanation_text import format_waits
    from pykruise.cli.insight.gates import read_manager_settings
    from pykruise.cli.insight.known_kinds import find_kind_of_document

    client = await session.make_client()
    try:
        settings = await read_manager_settings(client, session.around.clock)
        kind = find_kind_of_document(info.document)
        key = Key(info.namespace, info.name)
        explanation = await read_and_explain(client, key, now=session.now, kind=kind, settings=settings)
    except (KubeError, CommandError):
        return ()
    if explanation.verdict == "done":
        return ()
    if not session.call.text("output"):
        for line in format_waits(explanation, now=session.now):
            if line:
                session.note(line)
    return tuple(msgspec.to_builtins(wait) for wait in explanation.waits)
