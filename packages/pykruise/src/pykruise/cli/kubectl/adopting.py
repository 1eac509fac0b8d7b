"""Commands `migrate StatefulSet --from StatefulSet` and `migrate DaemonSet --from DaemonSet`: the pods stay and get
another owner.

    source ──▶ convert_counterpart() ──▶ Counterpart: the target, and fields that it cannot have      (pure)
    dry run ▶ DELETE source, orphaning ▶ POST target, OnDelete ▶ it adopts the pods ▶ PATCH its strategy

Both directions work: from Kubernetes' kinds to OpenKruise's, and back. No pod is replaced: until the target owns all
pods and they have its revision, its strategy is OnDelete, under which no controller updates a pod. The target adopts
the ControllerRevisions with the pods, so the history stays the same.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.insight.autoscalers import find_autoscalers
from pykruise.cli.kubectl.discovery import ServedResource
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import KRUISE
from pykruise.cli.kubectl.pods import pods_of
from pykruise.cli.kubectl.resources import Error, Info, refuse_existing, reread
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.kube.documents import LAST_APPLIED, Document, deep_copy, get_path
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.owners import is_controlled_by

POLL_S: Final = 0.5
ADOPTION_S: Final = 60.0
"""Maximum seconds of the adoption if --timeout-seconds is not given."""

MANAGER: Final = "kubectl-kruise-migrate"
HELD: Final[Mapping[str, Any]] = {"type": "OnDelete"}
"""Strategy under which no pod is replaced."""

_BOOKKEEPING: Final = frozenset(
    {
        LAST_APPLIED,
        "deprecated.daemonset.template.generation",
    }
)

_SHARED: Final[Mapping[str, frozenset[str]]] = {
    "StatefulSet": frozenset(
        {
            *(
                "replicas",
                "selector",
                "template",
                "serviceName",
                "podManagementPolicy",
                "volumeClaimTemplates",
            ),
            *("revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "ordinals"),
        }
    ),
    "DaemonSet": frozenset({"selector", "template", "minReadySeconds", "revisionHistoryLimit"}),
}
"""Fields of spec that the kinds of both groups have at the same path."""

_ROLLING: Final[Mapping[str, frozenset[str]]] = {
    "StatefulSet": frozenset({"partition", "maxUnavailable"}),
    "DaemonSet": frozenset({"maxUnavailable", "maxSurge"}),
}
"""Fields of spec.updateStrategy.rollingUpdate that the kinds of both groups have."""

_HARMLESS: Final[Mapping[str, tuple[Any, ...]]] = {
    "podUpdatePolicy": ("ReCreate",),
    "rollingUpdateType": ("Standard",),
    "partition": (0,),
    "paused": (False,),
}
"""Values of fields of OpenKruise's rollingUpdate that equal Kubernetes' fixed behaviour."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "burstReplicas": 250,
    "volumeClaimUpdateStrategy": {"type": "OnDelete"},
    "scaleStrategy": {},
    "lifecycle": {},
}
"""Default values of fields that only OpenKruise's spec has."""


_HOLDING: Final = frozenset({"paused", "partition", "selector"})
"""Fields of OpenKruise's rollingUpdate that keep pods at their revision."""


class Counterpart(msgspec.Struct, frozen=True):
    """A workload converted to the kind of the other group."""

    document: Document
    lost: tuple[str, ...] = ()
    """Paths of fields that the other kind does not have."""


def convert_counterpart(source: Document, *, api_version: str, name: str) -> Counterpart:
    """Convert a workload to the kind of the other group: Kubernetes' to OpenKruise's, and the reverse."""
    kind, spec, meta = source["kind"], source["spec"], source["metadata"]
    to_ours = api_version.startswith(f"{KRUISE}/")
    made = {field: deep_copy(value) for field, value in spec.items() if field in _SHARED[kind]}
    strategy, lost = _convert_strategy(kind, spec.get("updateStrategy") or {}, to_ours=to_ours)
    if _HOLDING & {path.rpartition(".")[2] for path in lost}:
        strategy = dict(HELD)  # without these fields, the controller would replace the pods
    if kind == "StatefulSet":
        strategy = _move_min_ready(spec, made, strategy, to_ours=to_ours)
    known = _SHARED[kind] | {"updateStrategy", "minReadySeconds"}
    lost = (
        *(
            f"spec.{field}"
            for field, value in spec.items()
            if field not in known and value and value != _DEFAULTS.get(field)
        ),
        *lost,
    )
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key not in _BOOKKEEPING
    }
    return Counterpart(
        {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                **({"labels": meta["labels"]} if meta.get("labels") else {}),
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": {**made, "updateStrategy": strategy},
        },
        lost,
    )


def _convert_strategy(
    kind: str, old: Mapping[str, Any], *, to_ours: bool
) -> tuple[Document, tuple[str, ...]]:
    """Return the update strategy for the other kind, and the paths of fields that the other kind does not have."""
    if old.get("type") == "OnDelete":
        return dict(HELD), ()
    rolling = old.get("rollingUpdate") or {}
    shared = _ROLLING[kind]
    kept = {field: value for field, value in rolling.items() if field in shared}
    if to_ours or kind == "DaemonSet":
        kept = {
            field: value for field, value in kept.items() if field != "maxSurge" or value not in (0, "0%")
        }
    if not to_ours and kept.get("maxUnavailable") == 1:
        del kept["maxUnavailable"]  # 1 is Kubernetes' default, and the field needs a feature gate
    lost = tuple(
        f"spec.updateStrategy.rollingUpdate.{field}"
        for field, value in rolling.items()
        if field not in shared
        and field != "minReadySeconds"
        and value
        and value not in _HARMLESS.get(field, ())
    )
    return {"type": "RollingUpdate", **({"rollingUpdate": kept} if kept else {})}, lost


def _move_min_ready(
    spec: Mapping[str, Any], made: Document, strategy: Document, *, to_ours: bool
) -> Document:
    """Move minReadySeconds: OpenKruise's StatefulSet has it in its strategy, Kubernetes' StatefulSet in its spec."""
    if not to_ours:
        if seconds := get_path(spec, "updateStrategy", "rollingUpdate", "minReadySeconds"):
            made["minReadySeconds"] = seconds
        return strategy
    seconds = spec.get("minReadySeconds")
    if not seconds or strategy["type"] == "OnDelete":
        return strategy
    return {**strategy, "rollingUpdate": {**strategy.get("rollingUpdate", {}), "minReadySeconds": seconds}}


class _Move(msgspec.Struct, frozen=True, kw_only=True):
    """A planned migration."""

    source: Info
    target: Resource
    target_name: str
    made: Counterpart
    pods: Sequence[Document]
    scalers: Sequence[str]
    """HorizontalPodAutoscalers that scale the source."""

    @property
    def old(self) -> str:
        return self.source.short

    @property
    def new(self) -> str:
        return f"{self.target.kind.lower()}.{self.target.group}/{self.target_name}"

    @property
    def way_back(self) -> str:
        """Command that undoes the migration."""
        return (
            f"kubectl kruise migrate {self.source.resource} --from {self.target} -n {self.source.namespace}"
            f" --src-name {self.target_name} --dst-name {self.source.name}"
        )


async def adopt(session: Session, source: ServedResource, target: ServedResource) -> list[Error]:
    """Let an object of `target` adopt the pods of an object of `source`."""
    move = await _plan_move(session, source.resource, target.resource)
    for line in _plan_lines(move):
        session.say(line)
    dry_run = dry_run_of(session.call, session.warn)
    if session.call.is_on("plan") or dry_run == "client":
        return []
    await _create(session, move, dry_run=True)
    if dry_run == "server":
        return []
    await _carry_out(session, move)
    return []


async def _plan_move(session: Session, source: Resource, target: Resource) -> _Move:
    call, client = session.call, await session.make_client()
    namespace, name = call.text("namespace"), call.text("src-name")
    target_name = call.text("dst-name") or name
    if source.kind == "StatefulSet" and target_name != name:
        raise KubectlError(
            f"--dst-name {target_name}: pods have the name of their StatefulSet, so the target must"
            f" have the name {name}"
        )
    document = orjson.loads(await client.get(source, namespace, name))
    if document["metadata"].get("deletionTimestamp"):
        raise KubectlError(f"{source} {namespace}/{name} is being deleted")
    if document["spec"].get("reserveOrdinals"):
        raise KubectlError(
            f"spec.reserveOrdinals of {source} {namespace}/{name}: {target} does not have this field,"
            " so it would create pods for the reserved ordinals and delete other pods"
        )
    await refuse_existing(session, target, namespace, target_name, target)
    info = Info(resource=source, namespace=namespace, name=name, document=document)
    uid = document["metadata"]["uid"]
    own = [pod for pod in await pods_of(session, info) if is_controlled_by(pod, uid)]
    return _Move(
        source=info,
        target=target,
        target_name=target_name,
        made=convert_counterpart(document, api_version=target.api_version, name=target_name),
        pods=own,
        scalers=await _find_scalers(session, info),
    )


async def _find_scalers(session: Session, info: Info) -> list[str]:
    client = await session.make_client()
    autoscalers = await find_autoscalers(client, info.resource, Key(info.namespace, info.name))
    return [str(document["metadata"]["name"]) for document in autoscalers]


def _plan_lines(move: _Move) -> Iterator[str]:
    """Planned steps, one line each."""
    count = len(move.pods)
    names = [str(pod["metadata"]["name"]) for pod in move.pods]
    shown = ", ".join(names[:6]) + (f" and {count - 6} more" if count > 6 else "")
    beside = ", PVCs and revisions" if move.source.resource.kind == "StatefulSet" else " and revisions"
    pods_are = format_count(count, "pod is", "pods are")
    yield f"{move.old} becomes {move.new}; {pods_are} adopted, none restarts"
    yield f"  1. a dry run on the server creates {move.new}"
    yield f"  2. {move.old} is deleted; its pods{beside} stay"
    yield f"  3. {move.new} is created with updateStrategy OnDelete, so that no pod is replaced"
    yield f"  4. the new object adopts {shown or 'nothing, because there are no pods'}"
    yield f"  5. when all pods have the new revision, {move.new} gets its updateStrategy: {_format_strategy(move.made)}"
    for path in move.made.lost:
        yield f"not carried over: {path}, which {move.target} does not have"
    for name in move.scalers:
        yield f"afterwards: let HorizontalPodAutoscaler/{name} scale {move.target.api_version} {move.target.kind}"
    yield f"before: stop the tool that applies {move.old} (GitOps, Helm); otherwise the tool creates it again"
    yield f"to undo this: {move.way_back}"


def _format_strategy(made: Counterpart) -> str:
    strategy = made.document["spec"]["updateStrategy"]
    fields = ", ".join(f"{name} {value}" for name, value in (strategy.get("rollingUpdate") or {}).items())
    return f"{strategy['type']} ({fields})" if fields else str(strategy["type"])


async def _create(session: Session, move: _Move, *, dry_run: bool) -> str:
    """Create the target with OnDelete and return its uid. The dry run also tries the final strategy."""
    client, namespace = await session.make_client(), move.source.namespace
    document = move.made.document
    if dry_run:
        await client.create(move.target, namespace, document, dry_run=True, field_manager=MANAGER)
    held = {**document, "spec": {**document["spec"], "updateStrategy": dict(HELD)}}
    answer = await client.create(move.target, namespace, held, dry_run=dry_run, field_manager=MANAGER)
    return str(orjson.loads(answer)["metadata"]["uid"])


async def _carry_out(session: Session, move: _Move) -> None:
    """Run the steps. If a step fails before the target exists, the source is created again. The message of a later
    failure contains the command that undoes the migration.
    """
    client, info = await session.make_client(), move.source
    uid = info.document["metadata"]["uid"]
    kept = _save_source(session, move)
    try:
        await client.delete(info.resource, info.namespace, info.name, uid=uid, propagation="Orphan")
        await _wait_until_deleted(session, info)
        session.say(f"{move.old} deleted, its pods keep running")
        uid = await _create(session, move, dry_run=False)
    except (KubeError, TimeoutError, asyncio.CancelledError) as error:
        if await _put_back(session, move):
            kept.unlink()
            end = f"{move.old} is restored"
        else:
            end = f"kubectl create -f {kept} restores {move.old} if it does not exist"
        why = str(error) or "the command was interrupted"
        raise KubectlError(f"migration failed: {why}; {end}") from error
    kept.unlink()
    session.say(f"{move.new} created")
    timeout_s = session.call.number("timeout-seconds")
    try:
        async with asyncio.timeout(timeout_s if timeout_s > 0 else ADOPTION_S):
            await _wait_until_adopted(session, move, uid)
    except (KubeError, TimeoutError) as error:
        why = str(error) or "some pods are not adopted yet, or do not have the new revision yet"
        raise KubectlError(
            f"migration failed: {why}; {move.new} has updateStrategy OnDelete, so no pod is replaced;"
            f" to undo this: {move.way_back}"
        ) from error
    await _restore_strategy(session, move)
    pods_are = format_count(len(move.pods), "pod")
    session.say(f"Successfully migrated {pods_are} from {move.old} to {move.new}")


async def _wait_until_deleted(session: Session, info: Info) -> None:
    async with asyncio.timeout(ADOPTION_S):
        while True:
            try:
                result = await reread(session, info)
            except NotFoundError:
                return
            if result.document["metadata"]["uid"] != info.document["metadata"]["uid"]:
                raise KubectlError(f"{info.short} was created again by another tool; stop that tool first")
            await asyncio.sleep(POLL_S)


async def _is_untouched(session: Session, info: Info) -> bool:
    try:
        meta = (await reread(session, info)).document["metadata"]
    except NotFoundError:
        return False
    return bool(meta["uid"] == info.document["metadata"]["uid"] and not meta.get("deletionTimestamp"))


async def _wait_until_adopted(session: Session, move: _Move, uid: str) -> None:
    """Wait until the target controls every pod, and its status counts at least as many updated pods as the source's
    status did.
    """
    client, namespace = await session.make_client(), move.source.namespace
    uids = {str(pod["metadata"]["uid"]) for pod in move.pods}
    before = _count_updated(move.source.document)
    is_warned = False
    while True:
        document = orjson.loads(await client.get(move.target, namespace, move.target_name))
        info = Info(resource=move.target, namespace=namespace, name=move.target_name, document=document)
        there = [pod for pod in await pods_of(session, info) if pod["metadata"]["uid"] in uids]
        if all(is_controlled_by(entry, uid) for entry in there):
            if not is_warned:
                session.say(f"{len(there)} of {format_count(len(uids), 'pod')} adopted")
                is_warned = True
            status = document.get("status") or {}
            is_observed = status.get("observedGeneration") == document["metadata"].get("generation")
            if is_observed and _count_updated(document) >= before:
                return
        await asyncio.sleep(POLL_S)


def _count_updated(document: Mapping[str, Any]) -> int:
    """Number of pods of the latest revision, from the status."""
    status = document.get("status") or {}
    field = "updatedNumberScheduled" if document["kind"] == "DaemonSet" else "updatedReplicas"
    return int(status.get(field) or 0)


async def _restore_strategy(session: Session, move: _Move) -> None:
    """Replace OnDelete by the target's own strategy."""
    strategy = move.made.document["spec"]["updateStrategy"]
    if strategy == HELD:
        return
    client = await session.make_client()
    await client.patch(
        move.target,
        move.source.namespace,
        move.target_name,
        {"spec": {"updateStrategy": strategy}},
        patch_type=PatchType.MERGE,
        field_manager=MANAGER,
    )


def _save_source(session: Session, move: _Move) -> Path:
    """Save the source in a file, because this command may be killed after the deletion of the source and before the
    target exists.
    """
    descriptor, name = tempfile.mkstemp(prefix=f"{move.source.name}-", suffix=".json")
    with open(descriptor, "wb") as file:
        file.write(orjson.dumps(_to_creatable(move.source)))
    session.say(f"{move.old} is saved in {name}; if this command is killed: kubectl create -f {name}")
    return Path(name)


def _to_creatable(info: Info) -> Document:
    """The object without status and server-side metadata, so that it can be created again."""
    meta = info.document["metadata"]
    named = ("name", "namespace", "labels", "annotations", "finalizers")
    kept = {field: meta[field] for field in named if field in meta}
    return {**{field: value for field, value in info.document.items() if field != "status"}, "metadata": kept}


async def _put_back(session: Session, move: _Move) -> bool:
    """Create the source again if it was deleted; the source adopts its pods. Return whether the source exists."""
    client, info = await session.make_client(), move.source
    try:
        if await _is_untouched(session, info):  # the deletion failed
            return True
        await _wait_until_deleted(session, info)
        await client.create(info.resource, info.namespace, _to_creatable(info), field_manager=MANAGER)
    except (KubeError, TimeoutError, KubectlError) as error:
        session.note(f"{info.short} could not be restored ({error})")
        return False
    return True
