"""`migrate CloneSet --from Deployment`: a CloneSet made of a Deployment, and replicas moved from one to the other.

Deployment ──▶ cloneset_from() ──▶ CloneSet      (numbers of both, what is wanted) ──▶ next_move() ──▶ Move, until done

Pure but for migrate(). `--plan` says the moves without making one; whoever stops half way is told the way back.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import KRUISE
from pykruise.cli.kubectl.resources import Error
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.kube.documents import Document, deep_copy, get_path
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, Resource

__all__ = ["Counts", "Move", "cloneset_from", "migrate", "moves", "next_move"]

MANAGER: Final = "kubectl-kruise-migrate"
POLL_S: Final = 1.0

_NOT_COPIED: Final = frozenset(
    {"deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"}
)


def cloneset_from(source: Document, *, name: str, api_version: str, copies_replicas: bool) -> Document:
    """A CloneSet like a Deployment, with no replicas unless they are copied."""
    meta, spec = source["metadata"], source["spec"]
    rolling = get_path(spec, "strategy", "rollingUpdate") or {}
    limits = {field: rolling[field] for field in ("maxUnavailable", "maxSurge") if field in rolling}
    if spec.get("paused"):
        limits["paused"] = True
    is_old = api_version.endswith("/v1alpha1")
    strategy: Document = {"type": "ReCreate", **limits}
    if not is_old:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate", **limits}}
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key not in _NOT_COPIED
    }
    kept = {field: spec[field] for field in ("revisionHistoryLimit", "minReadySeconds") if field in spec}
    return {
        "kind": "CloneSet",
        "apiVersion": api_version,
        "metadata": {
            "name": name,
            **({"labels": meta["labels"]} if meta.get("labels") else {}),
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {
            "replicas": spec.get("replicas", 1) if copies_replicas else 0,
            "selector": deep_copy(spec["selector"]),
            "template": deep_copy(spec["template"]),
            **kept,
            "updateStrategy": strategy,
        },
    }


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How far a migration is. Unit: pods."""

    wanted: int
    """How many move."""
    surge: int
    """By how many the total may exceed what was there."""
    source: int
    """Replicas that the source has still."""
    scaled_in: int = 0
    scaled_out: int = 0
    is_available: bool = True
    """Whether all pods of the target are."""


class Move(msgspec.Struct, frozen=True):
    """The next step: so many more of the target, or so many fewer of the source."""

    scale_out: int = 0
    scale_in: int = 0


def next_move(counts: Counts) -> Move | None:
    """The next step; None: nothing now. Done is when both numbers are what is wanted."""
    out = min(counts.surge - (counts.scaled_out - counts.scaled_in), counts.wanted - counts.scaled_out)
    if counts.scaled_out < counts.wanted and out > 0:
        return Move(scale_out=out)
    down = min(counts.source, counts.wanted - counts.scaled_in, counts.scaled_out - counts.scaled_in)
    if counts.scaled_in < counts.wanted and counts.is_available and down > 0:
        return Move(scale_in=down)
    return None


def moves(counts: Counts) -> Iterator[Move]:
    """All steps, if every pod becomes available."""
    while (move := next_move(counts)) is not None:
        yield move
        counts = moved(counts, move)


def moved(counts: Counts, move: Move) -> Counts:
    """The numbers after a step."""
    return msgspec.structs.replace(
        counts,
        source=counts.source - move.scale_in,
        scaled_in=counts.scaled_in + move.scale_in,
        scaled_out=counts.scaled_out + move.scale_out,
    )


async def migrate(session: Session) -> list[Error]:
    """`migrate CloneSet --from Deployment -n NS --src-name A --dst-name B`."""
    call = session.call
    _check(session)
    namespace = call.text("namespace")
    client = await session.client()
    served = (await session.mapper()).in_group(KRUISE, "CloneSet")
    if served is None:
        raise KubectlError('the server doesn\'t have a resource type "clonesets"')
    source, target = call.text("src-name"), call.text("dst-name")
    deployment: Document = orjson.loads(await client.get(DEPLOYMENTS, namespace, source))
    if call.is_on("create"):
        made = cloneset_from(
            deployment,
            name=target,
            api_version=served.resource.api_version,
            copies_replicas=call.is_on("copy"),
        )
        await _refuse_existing(session, served.resource, namespace, target)
        is_dry = call.is_on("plan") or dry_run_of(call, session.warn) != "none"
        await client.create(served.resource, namespace, made, dry_run=is_dry, field_manager=MANAGER)
        word = "Would create" if is_dry else "Successfully created"
        session.say(f"{word} from Deployment/{source} to CloneSet/{target}")
        return []
    return await _move(session, served.resource, deployment)


def _check(session: Session) -> None:
    call = session.call
    given = call.arguments
    if len(given) != 1:
        raise KubectlError("exactly one destination kind is required: migrate CloneSet --from Deployment")
    if given[0].lower() not in ("cloneset", "clonesets", "clone"):
        raise KubectlError(f"unsupported destination kind {given[0]}: only CloneSet")
    if call.text("from").lower() not in ("deployment", "deployments", "deploy"):
        raise KubectlError(
            'required flag(s) "from" not set'
            if not call.text("from")
            else f"unsupported source kind {call.text('from')}: only Deployment"
        )
    for flag in ("namespace", "src-name", "dst-name"):
        if not call.text(flag):
            raise KubectlError(f'required flag(s) "{flag}" not set')
    if call.number("replicas") == 0:
        raise KubectlError("--replicas must not be 0")
    if call.number("max-surge") < 1:
        raise KubectlError("--max-surge must be at least 1")


async def _refuse_existing(session: Session, resource: Resource, namespace: str, name: str) -> None:
    client = await session.client()
    try:
        await client.get(resource, namespace, name)
    except NotFoundError:
        return
    raise KubectlError(f"CloneSet {namespace}/{name} already exists")


async def _move(session: Session, resource: Resource, deployment: Document) -> list[Error]:
    call, client = session.call, await session.client()
    namespace, source, target = call.text("namespace"), call.text("src-name"), call.text("dst-name")
    cloneset = orjson.loads(await client.get(resource, namespace, target))
    own = deployment["spec"].get("replicas", 1)
    wanted = own if call.number("replicas") < 0 else min(call.number("replicas"), own)
    counts = Counts(wanted=wanted, surge=call.number("max-surge"), source=own)
    if call.is_on("plan") or dry_run_of(call, session.warn) != "none":
        for line in plan_lines(counts, source, target, cloneset["spec"].get("replicas", 0)):
            session.say(line)
        return []
    first_source, first_target = own, cloneset["spec"].get("replicas", 0)
    timeout_s = call.seconds("timeout-seconds")
    try:
        async with asyncio.timeout(timeout_s if timeout_s > 0 else None):
            await _run(session, resource, counts)
    except (TimeoutError, KubeError) as error:
        why = "timed out" if isinstance(error, TimeoutError) else str(error)
        raise KubectlError(
            f"migration failed: {why}; the way back: kubectl kruise scale deployment/{source}"
            f" --replicas={first_source} -n {namespace} && kubectl kruise scale"
            f" clonesets.apps.kruise.io/{target} --replicas={first_target} -n {namespace}"
        ) from error
    session.say(f"Successfully migrated {wanted} replicas from Deployment/{source} to CloneSet/{target}")
    return []


def plan_lines(counts: Counts, source: str, target: str, there: int) -> Iterator[str]:
    """What would happen, a line for each step."""
    yield f"Deployment/{source}: {counts.source} replicas, CloneSet/{target}: {there}; {counts.wanted} would move"
    now = counts
    for number, move in enumerate(moves(counts), start=1):
        now = moved(now, move)
        what = (
            f"CloneSet/{target} scales out by {move.scale_out}"
            if move.scale_out
            else f"when its pods are available, Deployment/{source} scales in by {move.scale_in}"
        )
        yield f"  {number}. {what} ({now.source} + {there + now.scaled_out})"
    yield f"never fewer than {counts.source} pods, never more than {counts.source + there + counts.surge}"


async def _run(session: Session, resource: Resource, counts: Counts) -> None:
    call, client = session.call, await session.client()
    namespace, source, target = call.text("namespace"), call.text("src-name"), call.text("dst-name")
    while counts.scaled_in < counts.wanted or counts.scaled_out < counts.wanted:
        deployment = orjson.loads(await client.get(DEPLOYMENTS, namespace, source))
        cloneset = orjson.loads(await client.get(resource, namespace, target))
        if _is_observed(deployment) and _is_observed(cloneset):
            counts = msgspec.structs.replace(
                counts, source=deployment["spec"].get("replicas", 1), is_available=_is_available(cloneset)
            )
            move = next_move(counts)
            if move is not None:
                if move.scale_out:
                    await _scale(
                        session, resource, target, cloneset["spec"].get("replicas", 0) + move.scale_out
                    )
                else:
                    await _scale(session, DEPLOYMENTS, source, counts.source - move.scale_in)
                counts = moved(counts, move)
                session.say(
                    f"Migration progress: Deployment/{source} scale in {counts.scaled_in},"
                    f" CloneSet/{target} scale out {counts.scaled_out}"
                )
                continue
        await asyncio.sleep(POLL_S)


async def _scale(session: Session, resource: Resource, name: str, replicas: int) -> None:
    client = await session.client()
    await client.patch(
        resource,
        session.call.text("namespace"),
        name,
        {"spec": {"replicas": replicas}},
        patch_type=PatchType.MERGE,
        field_manager=MANAGER,
    )


def _is_observed(document: Mapping[str, Any]) -> bool:
    return bool(
        (document.get("status") or {}).get("observedGeneration") == document["metadata"].get("generation")
    )


def _is_available(cloneset: Mapping[str, Any]) -> bool:
    status = cloneset.get("status") or {}
    return bool(status.get("availableReplicas", 0) >= cloneset["spec"].get("replicas", 0))
