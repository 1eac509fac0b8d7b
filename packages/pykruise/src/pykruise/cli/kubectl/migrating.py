"""Command `migrate CloneSet --from Deployment`: creates a CloneSet from a Deployment (`--create`), or moves replicas
from the Deployment to an existing CloneSet.

arguments ──▶ migrate() ──▶ this module; for StatefulSets and DaemonSets adopting.py, which keeps the pods
Deployment ──▶ convert_to_cloneset() ──▶ CloneSet      (counts of both, wanted count) ──▶ find_next_move()
    ──▶ Move, until done

The conversion and the moves are pure. The plan is printed before the first step; with `--plan` it is only printed. When
a migration fails, the error contains the command that undoes it.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.discovery import ServedResource
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import KRUISE
from pykruise.cli.kubectl.resources import Error, refuse_existing
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.kube.documents import LAST_APPLIED, Document, deep_copy, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, Resource
from pykruise.kube.values.counts import format_count

MANAGER: Final = "kubectl-kruise-migrate"
POLL_S: Final = 1.0

_NOT_COPIED: Final = frozenset({"deployment.kubernetes.io/revision", LAST_APPLIED})


def convert_to_cloneset(source: Document, *, name: str, api_version: str, copies_replicas: bool) -> Document:
    """Convert a Deployment to a CloneSet. The CloneSet has no replicas unless `copies_replicas`."""
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


class MigrationCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a migration. Unit: pods."""

    wanted: int
    """Replicas that move in total."""
    surge: int
    """Number by which the total may exceed the total before the migration."""
    source: int
    """Remaining replicas of the source."""
    scaled_in: int = 0
    scaled_out: int = 0
    is_available: bool = True
    """Whether all pods of the target are available."""


class Move(msgspec.Struct, frozen=True):
    """A step of a migration: replicas that the target gains, or that the source loses."""

    scale_out: int = 0
    scale_in: int = 0


def find_next_move(counts: MigrationCounts) -> Move | None:
    """The next step; None if no step is possible now. The migration is done when `scaled_in` and `scaled_out` equal
    `wanted`.
    """
    out = min(counts.surge - (counts.scaled_out - counts.scaled_in), counts.wanted - counts.scaled_out)
    if counts.scaled_out < counts.wanted and out > 0:
        return Move(scale_out=out)
    down = min(counts.source, counts.wanted - counts.scaled_in, counts.scaled_out - counts.scaled_in)
    if counts.scaled_in < counts.wanted and counts.is_available and down > 0:
        return Move(scale_in=down)
    return None


def list_moves(counts: MigrationCounts) -> Iterator[Move]:
    """All steps, if every pod becomes available."""
    while (move := find_next_move(counts)) is not None:
        yield move
        counts = apply_move(counts, move)


def apply_move(counts: MigrationCounts, move: Move) -> MigrationCounts:
    """The counts after a step."""
    return msgspec.structs.replace(
        counts,
        source=counts.source - move.scale_in,
        scaled_in=counts.scaled_in + move.scale_in,
        scaled_out=counts.scaled_out + move.scale_out,
    )


async def migrate(session: Session) -> list[Error]:
    """Run `migrate CloneSet --from Deployment …` or `migrate StatefulSet --from StatefulSet …`."""
    call = session.call
    target_kind, source_kind = _parse_kinds(session)
    for flag in ("namespace", "src-name"):
        _require_flag(session, flag)
    mapper = await session.read_mapper()
    source, target = mapper.find_in_group(*source_kind), mapper.find_in_group(*target_kind)
    for word, served in ((target_kind[1], target), (source_kind[1], source)):
        if served is None:
            raise KubectlError(f'the server doesn\'t have a resource type "{word.lower()}s"')
    assert source is not None
    assert target is not None
    if target_kind[1] != "CloneSet":
        from pykruise.cli.kubectl.adopting import adopt

        if given := call.given & _OF_CLONE_SETS:
            raise KubectlError(
                f"--{min(given)} is only for a target CloneSet: any other target adopts all pods, and no pod is "
                "replaced"
            )
        return await adopt(session, source, target)
    return await _to_cloneset(session, target)


_OF_CLONE_SETS: Final = frozenset({"create", "copy", "replicas", "max-surge"})

_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("cloneset", "clonesets", "clone"), "CloneSet"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "Deployment"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts", "asts"), "StatefulSet"),
    **dict.fromkeys(("daemonset", "daemonsets", "ds", "ads", "daemon"), "DaemonSet"),
}

_GroupKind = tuple[str, str]

_PAIRS: Final[frozenset[tuple[_GroupKind, _GroupKind]]] = frozenset(
    {
        ((KRUISE, "CloneSet"), ("apps", "Deployment")),
        *(
            pair
            for kind in ("StatefulSet", "DaemonSet")
            for pair in (((KRUISE, kind), ("apps", kind)), (("apps", kind), (KRUISE, kind)))
        ),
    }
)
"""Supported pairs of target and source."""


def _parse_kinds(session: Session) -> tuple[_GroupKind, _GroupKind]:
    """The target's and the source's kind. Without a group in the arguments, the target is OpenKruise's and the source
    Kubernetes'. Raises KubectlError.
    """
    given, source_word = session.call.arguments, session.call.text("from")
    if len(given) != 1:
        raise KubectlError("exactly one destination kind is required: migrate CloneSet --from Deployment")
    target = _find_group_kind(given[0], group=KRUISE)
    if target is None or all(target != pair for pair, _ in _PAIRS):
        raise KubectlError(
            f"unsupported destination kind {given[0]}: only CloneSet, StatefulSet and DaemonSet"
        )
    if not source_word:
        raise KubectlError('required flag(s) "from" not set')
    source = _find_group_kind(source_word, group="apps")
    if source is None or (target, source) not in _PAIRS:
        wanted = next(f"{kind}.{group}" for pair, (group, kind) in _PAIRS if pair == target)
        raise KubectlError(f"unsupported source kind {source_word} of {given[0]}: only {wanted}")
    return target, source


def _find_group_kind(word: str, *, group: str) -> _GroupKind | None:
    name, _, given = word.lower().partition(".")
    kind = _WORDS.get(name)
    return (given or (KRUISE if name in ("asts", "ads", "daemon") else group), kind) if kind else None


def _require_flag(session: Session, flag: str) -> None:
    if not session.call.text(flag):
        raise KubectlError(f'required flag(s) "{flag}" not set')


async def _to_cloneset(session: Session, served: ServedResource) -> list[Error]:
    call, client = session.call, await session.make_client()
    _require_flag(session, "dst-name")
    if call.number("replicas") == 0:
        raise KubectlError("--replicas must not be 0")
    if call.number("max-surge") < 1:
        raise KubectlError("--max-surge must be at least 1")
    namespace, source, target = call.text("namespace"), call.text("src-name"), call.text("dst-name")
    deployment: Document = orjson.loads(await client.get(DEPLOYMENTS, namespace, source))
    if call.is_on("create"):
        made = convert_to_cloneset(
            deployment,
            name=target,
            api_version=served.resource.api_version,
            copies_replicas=call.is_on("copy"),
        )
        await refuse_existing(session, served.resource, namespace, target, "CloneSet")
        is_dry = call.is_on("plan") or dry_run_of(call, session.warn) != "none"
        await client.create(served.resource, namespace, made, dry_run=is_dry, field_manager=MANAGER)
        word = "Would create" if is_dry else "Successfully created"
        session.say(f"{word} from Deployment/{source} to CloneSet/{target}")
        return []
    return await _move_replicas(session, served.resource, deployment)


async def _move_replicas(session: Session, resource: Resource, deployment: Document) -> list[Error]:
    call, client = session.call, await session.make_client()
    namespace, source, target = call.text("namespace"), call.text("src-name"), call.text("dst-name")
    cloneset = orjson.loads(await client.get(resource, namespace, target))
    own = deployment["spec"].get("replicas", 1)
    wanted = own if call.number("replicas") < 0 else min(call.number("replicas"), own)
    counts = MigrationCounts(wanted=wanted, surge=call.number("max-surge"), source=own)
    for line in plan_lines(counts, source, target, cloneset["spec"].get("replicas", 0)):
        session.say(line)
    if call.is_on("plan") or dry_run_of(call, session.warn) != "none":
        return []
    first_source, first_target = own, cloneset["spec"].get("replicas", 0)
    timeout_s = call.number("timeout-seconds")
    try:
        async with asyncio.timeout(timeout_s if timeout_s > 0 else None):
            await _run_steps(session, resource, counts)
    except (TimeoutError, KubeError) as error:
        why = "timed out" if isinstance(error, TimeoutError) else str(error)
        raise KubectlError(
            f"migration failed: {why}; to undo this: kubectl kruise scale deployment/{source}"
            f" --replicas={first_source} -n {namespace} && kubectl kruise scale"
            f" clonesets.apps.kruise.io/{target} --replicas={first_target} -n {namespace}"
        ) from error
    session.say(
        f"Successfully migrated {format_count(wanted, 'replica')} from Deployment/{source} to CloneSet/{target}"
    )
    return []


def plan_lines(counts: MigrationCounts, source: str, target: str, there: int) -> Iterator[str]:
    """Planned steps, one line each."""
    replicas = format_count(counts.source, "replica")
    yield f"Deployment/{source}: {replicas}, CloneSet/{target}: {there}; {counts.wanted} would move"
    now = counts
    for number, move in enumerate(list_moves(counts), start=1):
        now = apply_move(now, move)
        what = (
            f"CloneSet/{target} scales out by {move.scale_out}"
            if move.scale_out
            else f"when its pods are available, Deployment/{source} scales in by {move.scale_in}"
        )
        yield f"  {number}. {what} ({now.source} + {there + now.scaled_out})"
    yield (
        f"never fewer than {format_count(counts.source, 'pod')}, never more than "
        f"{counts.source + there + counts.surge}"
    )


async def _run_steps(session: Session, resource: Resource, counts: MigrationCounts) -> None:
    call, client = session.call, await session.make_client()
    namespace, source, target = call.text("namespace"), call.text("src-name"), call.text("dst-name")
    while counts.scaled_in < counts.wanted or counts.scaled_out < counts.wanted:
        deployment = orjson.loads(await client.get(DEPLOYMENTS, namespace, source))
        cloneset = orjson.loads(await client.get(resource, namespace, target))
        if _is_observed(deployment) and _is_observed(cloneset):
            counts = msgspec.structs.replace(
                counts, source=deployment["spec"].get("replicas", 1), is_available=_is_available(cloneset)
            )
            move = find_next_move(counts)
            if move is not None:
                if move.scale_out:
                    await _scale(
                        session, resource, target, cloneset["spec"].get("replicas", 0) + move.scale_out
                    )
                else:
                    await _scale(session, DEPLOYMENTS, source, counts.source - move.scale_in)
                counts = apply_move(counts, move)
                session.say(
                    f"Migration progress: Deployment/{source} scale in {counts.scaled_in},"
                    f" CloneSet/{target} scale out {counts.scaled_out}"
                )
                continue
        await asyncio.sleep(POLL_S)


async def _scale(session: Session, resource: Resource, name: str, replicas: int) -> None:
    client = await session.make_client()
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
