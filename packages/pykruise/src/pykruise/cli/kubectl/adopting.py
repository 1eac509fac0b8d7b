"""`migrate StatefulSet --from StatefulSet`, `migrate DaemonSet --from DaemonSet`: the pods stay and change their owner.

    source ──▶ counterpart() ──▶ Counterpart: the target, and fields that it cannot have      (pure)
    dry run ▶ DELETE source, orphaning ▶ POST target, OnDelete ▶ it adopts the pods ▶ PATCH its strategy

Both ways: from Kubernetes' kinds to OpenKruise's, and back, which is the way back. Nothing is replaced: until all pods
are the target's and of its revision its strategy is OnDelete, under which no controller updates a pod. Revisions are
adopted with the pods, so that they say the same as before.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.kubectl.discovery import ServedResource
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import KRUISE
from pykruise.cli.kubectl.pods import pods_of
from pykruise.cli.kubectl.resources import Error, Info, refuse_existing, reread
from pykruise.cli.kubectl.scaling import HPAS
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.kube.documents import LAST_APPLIED, Document, deep_copy, get_path
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.values.counts import counted
from pykruise.kube.values.owners import is_controlled_by

POLL_S: Final = 0.5
ADOPTION_S: Final = 60.0
"""How long adoption may take where no --timeout-seconds says otherwise."""

MANAGER: Final = "kubectl-kruise-migrate"
HELD: Final[Mapping[str, Any]] = {"type": "OnDelete"}
"""The strategy under which no pod is replaced."""

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
"""Fields of spec that both kinds of that name have, under the same path."""

_ROLLING: Final[Mapping[str, frozenset[str]]] = {
    "StatefulSet": frozenset({"partition", "maxUnavailable"}),
    "DaemonSet": frozenset({"maxUnavailable", "maxSurge"}),
}
"""The same of spec.updateStrategy.rollingUpdate."""

_HARMLESS: Final[Mapping[str, tuple[Any, ...]]] = {
    "podUpdatePolicy": ("ReCreate",),
    "rollingUpdateType": ("Standard",),
    "partition": (0,),
    "paused": (False,),
}
"""Values of fields of OpenKruise's rollingUpdate that say what Kubernetes does anyway."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "burstReplicas": 250,
    "volumeClaimUpdateStrategy": {"type": "OnDelete"},
    "scaleStrategy": {},
    "lifecycle": {},
}
"""The same of its spec."""


_HOLDING: Final = frozenset({"paused", "partition", "selector"})
"""Fields of OpenKruise's rollingUpdate that keep pods at their revision."""


class Counterpart(msgspec.Struct, frozen=True):
    """The same workload as an object of the other kind."""

    document: Document
    lost: tuple[str, ...] = ()
    """Paths of fields that it cannot have."""


def counterpart(source: Document, *, api_version: str, name: str) -> Counterpart:
    """The object of the other group that owns the same pods: Kubernetes' for one of OpenKruise's, and the reverse."""
    kind, spec, meta = source["kind"], source["spec"], source["metadata"]
    to_ours = api_version.startswith(f"{KRUISE}/")
    made = {field: deep_copy(value) for field, value in spec.items() if field in _SHARED[kind]}
    strategy, lost = _strategy(kind, spec.get("updateStrategy") or {}, to_ours=to_ours)
    if _HOLDING & {path.rpartition(".")[2] for path in lost}:
        strategy = dict(HELD)  # without what held them back, pods would be replaced
    if kind == "StatefulSet":
        strategy = _with_min_ready(spec, made, strategy, to_ours=to_ours)
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


def _strategy(kind: str, old: Mapping[str, Any], *, to_ours: bool) -> tuple[Document, tuple[str, ...]]:
    """The update strategy, and paths that have no counterpart."""
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
        del kept["maxUnavailable"]  # what it means anyway; Kubernetes has it as a feature
    lost = tuple(
        f"spec.updateStrategy.rollingUpdate.{field}"
        for field, value in rolling.items()
        if field not in shared
        and field != "minReadySeconds"
        and value
        and value not in _HARMLESS.get(field, ())
    )
    return {"type": "RollingUpdate", **({"rollingUpdate": kept} if kept else {})}, lost


def _with_min_ready(
    spec: Mapping[str, Any], made: Document, strategy: Document, *, to_ours: bool
) -> Document:
    """OpenKruise's StatefulSet has minReadySeconds in its strategy."""
    if not to_ours:
        if seconds := get_path(spec, "updateStrategy", "rollingUpdate", "minReadySeconds"):
            made["minReadySeconds"] = seconds
        return strategy
    seconds = spec.get("minReadySeconds")
    if not seconds or strategy["type"] == "OnDelete":
        return strategy
    return {**strategy, "rollingUpdate": {**strategy.get("rollingUpdate", {}), "minReadySeconds": seconds}}


class _Move(msgspec.Struct, frozen=True, kw_only=True):
    """One migration, looked at before anything is done."""

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
        """The command that undoes it."""
        return (
            f"kubectl kruise migrate {self.source.resource} --from {self.target} -n {self.source.namespace}"
            f" --src-name {self.target_name} --dst-name {self.source.name}"
        )


async def adopt(session: Session, source: ServedResource, target: ServedResource) -> list[Error]:
    """Let an object of `target` take over the pods of one of `source`."""
    move = await _looked_at(session, source.resource, target.resource)
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


async def _looked_at(session: Session, source: Resource, target: Resource) -> _Move:
    call, client = session.call, await session.client()
    namespace, name = call.text("namespace"), call.text("src-name")
    target_name = call.text("dst-name") or name
    if source.kind == "StatefulSet" and target_name != name:
        raise KubectlError(
            f"--dst-name {target_name}: pods of a StatefulSet have its name, so the new one has to be called {name} too"
        )
    document = orjson.loads(await client.get(source, namespace, name))
    if document["metadata"].get("deletionTimestamp"):
        raise KubectlError(f"{source} {namespace}/{name} is being deleted")
    if document["spec"].get("reserveOrdinals"):
        raise KubectlError(
            f"spec.reserveOrdinals of {source} {namespace}/{name}: {target} has no such field, and would move pods"
        )
    await refuse_existing(session, target, namespace, target_name, target)
    info = Info(resource=source, namespace=namespace, name=name, document=document)
    uid = document["metadata"]["uid"]
    own = [pod for pod in await pods_of(session, info) if is_controlled_by(pod, uid)]
    return _Move(
        source=info,
        target=target,
        target_name=target_name,
        made=counterpart(document, api_version=target.api_version, name=target_name),
        pods=own,
        scalers=await _scalers(session, info),
    )


async def _scalers(session: Session, info: Info) -> list[str]:
    client = await session.client()
    try:
        listed = await client.list(HPAS, info.namespace)
    except KubeError:
        return []  # not served, or not for this user: it is a hint only
    documents = [orjson.loads(bytes(raw)) for raw in listed.items]
    return [
        document["metadata"]["name"]
        for document in documents
        if (ref := document["spec"]["scaleTargetRef"])["name"] == info.name
        and ref["kind"] == info.resource.kind
        and ref.get("apiVersion", "").rpartition("/")[0] == info.resource.group
    ]


def _plan_lines(move: _Move) -> Iterator[str]:
    """Planned steps, a line each."""
    count = len(move.pods)
    names = [str(pod["metadata"]["name"]) for pod in move.pods]
    shown = ", ".join(names[:6]) + (f" and {count - 6} more" if count > 6 else "")
    beside = "PVCs and revisions" if move.source.resource.kind == "StatefulSet" else "revisions"
    pods_are = counted(count, "pod is", "pods are")
    yield f"{move.old} becomes {move.new}; {pods_are} adopted, none restarts"
    yield f"  1. {move.new} is tried on the server, in a dry run"
    yield f"  2. {move.old} is deleted, and leaves its pods, {beside}"
    yield f"  3. {move.new} is created with updateStrategy OnDelete, so that no pod is replaced"
    yield f"  4. it adopts {shown or 'nothing: there are no pods'}"
    yield f"  5. when all are of its revision, it gets its updateStrategy: {_shown(move.made)}"
    for path in move.made.lost:
        yield f"not carried over: {path}, which {move.target} does not have"
    for name in move.scalers:
        yield f"afterwards: let HorizontalPodAutoscaler/{name} scale {move.target.api_version} {move.target.kind}"
    yield f"before: whatever applies {move.old} (GitOps, Helm) has to stop, or would make it again"
    yield f"the way back: {move.way_back}"


def _shown(made: Counterpart) -> str:
    strategy = made.document["spec"]["updateStrategy"]
    fields = ", ".join(f"{name} {value}" for name, value in (strategy.get("rollingUpdate") or {}).items())
    return f"{strategy['type']} ({fields})" if fields else str(strategy["type"])


async def _create(session: Session, move: _Move, *, dry_run: bool) -> str:
    """Create the target, held; its uid. The dry run tries the final form too."""
    client, namespace = await session.client(), move.source.namespace
    document = move.made.document
    if dry_run:
        await client.create(move.target, namespace, document, dry_run=True, field_manager=MANAGER)
    held = {**document, "spec": {**document["spec"], "updateStrategy": dict(HELD)}}
    answer = await client.create(move.target, namespace, held, dry_run=dry_run, field_manager=MANAGER)
    return str(orjson.loads(answer)["metadata"]["uid"])


async def _carry_out(session: Session, move: _Move) -> None:
    """The steps. What fails before the pods are adopted puts the source back; later, the way back is said."""
    client, info = await session.client(), move.source
    uid = info.document["metadata"]["uid"]
    kept = _keep(session, move)
    try:
        await client.delete(info.resource, info.namespace, info.name, uid=uid, propagation="Orphan")
        await _until_gone(session, info)
        session.say(f"{move.old} deleted, its pods go on")
        uid = await _create(session, move, dry_run=False)
    except (KubeError, TimeoutError, asyncio.CancelledError) as error:
        if await _is_put_back(session, move):
            kept.unlink()
            end = f"{move.old} is there again, as it was"
        else:
            end = f"kubectl create -f {kept} makes {move.old} again, unless it is there"
        why = str(error) or "it was interrupted"
        raise KubectlError(f"migration failed: {why}; {end}") from error
    kept.unlink()
    session.say(f"{move.new} created")
    timeout_s = session.call.seconds("timeout-seconds")
    try:
        async with asyncio.timeout(timeout_s if timeout_s > 0 else ADOPTION_S):
            await _until_adopted(session, move, uid)
    except (KubeError, TimeoutError) as error:
        why = str(error) or "not all pods are adopted and of its revision yet"
        raise KubectlError(
            f"migration failed: {why}; {move.new} has updateStrategy OnDelete, so no pod is replaced;"
            f" the way back: {move.way_back}"
        ) from error
    await _release(session, move)
    pods_are = counted(len(move.pods), "pod")
    session.say(f"Successfully migrated {pods_are} from {move.old} to {move.new}")


async def _until_gone(session: Session, info: Info) -> None:
    async with asyncio.timeout(ADOPTION_S):
        while True:
            try:
                result = await reread(session, info)
            except NotFoundError:
                return
            if result.document["metadata"]["uid"] != info.document["metadata"]["uid"]:
                raise KubectlError(f"{info.short} was made again by something else, which has to stop first")
            await asyncio.sleep(POLL_S)


async def _is_untouched(session: Session, info: Info) -> bool:
    try:
        meta = (await reread(session, info)).document["metadata"]
    except NotFoundError:
        return False
    return bool(meta["uid"] == info.document["metadata"]["uid"] and not meta.get("deletionTimestamp"))


async def _until_adopted(session: Session, move: _Move, uid: str) -> None:
    """Every pod is the target's, and as many as before are of its latest revision."""
    client, namespace = await session.client(), move.source.namespace
    uids = {str(pod["metadata"]["uid"]) for pod in move.pods}
    before = _updated(move.source.document)
    is_warned = False
    while True:
        document = orjson.loads(await client.get(move.target, namespace, move.target_name))
        info = Info(resource=move.target, namespace=namespace, name=move.target_name, document=document)
        there = [pod for pod in await pods_of(session, info) if pod["metadata"]["uid"] in uids]
        if all(is_controlled_by(entry, uid) for entry in there):
            if not is_warned:
                session.say(f"{len(there)} of {len(uids)} pods adopted")
                is_warned = True
            status = document.get("status") or {}
            is_observed = status.get("observedGeneration") == document["metadata"].get("generation")
            if is_observed and _updated(document) >= before:
                return
        await asyncio.sleep(POLL_S)


def _updated(document: Mapping[str, Any]) -> int:
    """How many pods are of the latest revision, as the status says."""
    status = document.get("status") or {}
    field = "updatedNumberScheduled" if document["kind"] == "DaemonSet" else "updatedReplicas"
    return int(status.get(field) or 0)


async def _release(session: Session, move: _Move) -> None:
    """Give the target its own strategy."""
    strategy = move.made.document["spec"]["updateStrategy"]
    if strategy == HELD:
        return
    client = await session.client()
    await client.patch(
        move.target,
        move.source.namespace,
        move.target_name,
        {"spec": {"updateStrategy": strategy}},
        patch_type=PatchType.MERGE,
        field_manager=MANAGER,
    )


def _keep(session: Session, move: _Move) -> Path:
    """The source in a file, as long as it is in no cluster: this command may be killed before the target is there."""
    descriptor, name = tempfile.mkstemp(prefix=f"{move.source.name}-", suffix=".json")
    with open(descriptor, "wb") as file:
        file.write(orjson.dumps(_restorable(move.source)))
    session.say(f"{move.old} is kept in {name}; should this be killed: kubectl create -f {name}")
    return Path(name)


def _restorable(info: Info) -> Document:
    """The object as it can be created again."""
    meta = info.document["metadata"]
    named = ("name", "namespace", "labels", "annotations", "finalizers")
    kept = {field: meta[field] for field in named if field in meta}
    return {**{field: value for field, value in info.document.items() if field != "status"}, "metadata": kept}


async def _is_put_back(session: Session, move: _Move) -> bool:
    """The source again, if it is gone: it adopts its pods. Whether it is there."""
    client, info = await session.client(), move.source
    try:
        if await _is_untouched(session, info):  # it could not be deleted
            return True
        await _until_gone(session, info)
        await client.create(info.resource, info.namespace, _restorable(info), field_manager=MANAGER)
    except (KubeError, TimeoutError, KubectlError) as error:
        session.note(f"{info.short} could not be put back ({error})")
        return False
    return True
