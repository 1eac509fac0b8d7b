"""Stored version of each kind in a cluster, and the move of objects from one version to the other.

CRDs ──▶ read_storage() ──▶ KindStorage, one per kind
KindStorage + target ──▶ move_kind(): CRD ─ every object ─ storedVersions ──▶ MovedKind

A move can be stopped at any time and started again. If an object was already rewritten, the API server does not write
it again. `status.storedVersions` is pruned last, after every object was rewritten.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from pykruise.kinds import build_crds, find_kind, find_stored_version
from pykruise.kube.client.client import Client
from pykruise.kube.client.stored_versions import compute_storage_version_hash
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ConflictError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pykruise.kube.values.counts import format_count

SETTLE_S: Final = 60.0
"""Seconds that API servers may take to store in the new version after the CRD was changed."""

POLL_S: Final = 0.5

AT_ONCE: Final = 8
"""Number of objects that are rewritten concurrently."""


class MoveError(Exception):
    """A kind cannot be moved; the message says why and what to do."""


class KindStorage(msgspec.Struct, frozen=True, kw_only=True):
    """Storage of one kind."""

    name: str
    """Name of its CRD: `clonesets.apps.kruise.io`."""
    resource: Resource
    """Resource in the stored version."""
    served: tuple[str, ...]
    recorded: tuple[str, ...]
    """`status.storedVersions`: the versions in which objects may still be stored."""

    @property
    def stored(self) -> str:
        """The version in which API servers write objects."""
        return self.resource.version


class MovedKind(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a move."""

    name: str
    version: str
    rewritten: int
    failed: tuple[str, ...] = ()
    """`namespace/name: error` of each object that could not be rewritten; storedVersions is then not changed."""


async def read_storage(client: Client) -> Sequence[KindStorage]:
    """Return every installed kind with two versions, by name. Raises KubeError."""
    storages = []
    for name in sorted(crd["metadata"]["name"] for crd in build_crds() if len(crd["spec"]["versions"]) > 1):
        try:
            storages.append(_read_storage(decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))))
        except NotFoundError:
            continue
    return storages


def _read_storage(crd: Document) -> KindStorage:
    spec = crd["spec"]
    versions = spec.get("versions") or ()
    stored = next((version["name"] for version in versions if version.get("storage")), "")
    names = spec["names"]
    return KindStorage(
        name=crd["metadata"]["name"],
        resource=Resource(
            spec["group"], stored, names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
        ),
        served=tuple(version["name"] for version in versions if version.get("served")),
        recorded=tuple(get_path(crd, "status", "storedVersions", default=[])),
    )


async def move_kind(
    client: Client,
    storage: KindStorage,
    *,
    layout: str,
    note: Callable[[str], object] = lambda _: None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> MovedKind:
    """Store the kind in the version that `layout` defines (`find_stored_version` in kinds). `client` must not convert
    objects between versions.

    `note` is called with one line about each step. Raises MoveError and KubeError.
    """
    kind = find_kind(storage.resource.kind)
    target = find_stored_version(kind, layout)
    if target not in storage.served:
        raise MoveError(
            f"{storage.name} does not serve {target}; apply the definitions first: "
            "pykruise install --stored-version v1alpha1 | kubectl apply --server-side --force-conflicts -f -"
        )
    if storage.stored == target and set(storage.recorded) <= {target}:
        return MovedKind(name=storage.name, version=target, rewritten=0)
    if storage.stored != target:
        await _store_in(client, storage.name, target)
        note(f"{storage.name}: objects are written in {target} from now on")
    # Wait even if a previous run has changed the CRD and was then stopped: an object that is rewritten too early stays
    # in the old version.
    await _wait_until_stored(client, storage, target, sleep=sleep)
    rewritten, failed = await _rewrite_all(client, storage, target, note=note)
    if not failed:
        await _prune(client, storage.name, target)
    return MovedKind(name=storage.name, version=target, rewritten=rewritten, failed=tuple(failed))


async def _store_in(client: Client, name: str, target: str) -> None:
    crd = decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    operations: list[Document] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": crd["metadata"]["resourceVersion"]}
    ]
    for index, version in enumerate(get_path(crd, "spec", "versions", default=[])):
        path = f"/spec/versions/{index}/storage"
        operations.append({"op": "replace", "path": path, "value": version["name"] == target})
    await client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", name, operations, patch_type=PatchType.JSON)


async def _wait_until_stored(
    client: Client, storage: KindStorage, target: str, *, sleep: Callable[[float], Awaitable[None]]
) -> None:
    """Wait until discovery shows that the API server stores objects in the new version. Raises MoveError after
    SETTLE_S.
    """
    resource = storage.resource
    wanted = compute_storage_version_hash(resource.group, target, resource.kind)
    for _ in range(round(SETTLE_S / POLL_S)):
        listed = decode(await client.get_path(f"/apis/{resource.group}/{target}"))
        rows = {row.get("name"): row.get("storageVersionHash") for row in listed.get("resources") or ()}
        if rows.get(resource.plural) == wanted:
            return
        await sleep(POLL_S)
    raise MoveError(
        f"{storage.name}: the API server does not store objects in {target} after {SETTLE_S:.0f} s; try again"
    )


async def _rewrite_all(
    client: Client, storage: KindStorage, target: str, *, note: Callable[[str], object]
) -> tuple[int, list[str]]:
    """Rewrite all objects. Returns the number of rewritten objects and the errors of others."""
    resource = msgspec.structs.replace(storage.resource, version=target)
    objects = [_decode_metadata(raw) for raw in (await client.list(resource, metadata_only=True)).items]
    failed: list[str] = []
    done = 0
    for start in range(0, len(objects), AT_ONCE):
        batch = objects[start : start + AT_ONCE]
        problems = await asyncio.gather(*(_rewrite(client, resource, meta) for meta in batch))
        failed += [problem for problem in problems if problem]
        done += len(batch)
        if done % (AT_ONCE * 8) == 0 or done == len(objects):
            note(f"{storage.name}: {done} of {format_count(len(objects), 'object')} rewritten")
    return len(objects) - len(failed), failed


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


def _decode_metadata(raw: bytes | msgspec.Raw) -> _Meta:
    return msgspec.json.decode(raw, type=_Object).metadata


async def _rewrite(client: Client, resource: Resource, meta: _Meta) -> str:
    """Make the API server store the object again, without a change. Returns the error; empty: the object is stored in
    the new version, or does not exist.
    """
    body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}}
    try:
        await client.patch(resource, meta.namespace, meta.name, body, patch_type=PatchType.MERGE)
    except (ConflictError, NotFoundError):
        return (
            ""  # another client has stored the object in the new version in the meantime, or has deleted it
        )
    except KubeError as error:
        return f"{Key(meta.namespace, meta.name)}: {error}"
    return ""


async def _prune(client: Client, name: str, target: str) -> None:
    """Record that no object is stored in another version. Raises MoveError when the CRD was changed meanwhile."""
    storage = _read_storage(crd := decode(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)))
    if storage.stored != target:
        raise MoveError(
            f"{name} stores {storage.stored} again; another client changed the CRD at the same time"
        )
    body = {
        "metadata": {"resourceVersion": crd["metadata"]["resourceVersion"]},
        "status": {"storedVersions": [target]},
    }
    await client.patch(
        CUSTOM_RESOURCE_DEFINITIONS, "", name, body, patch_type=PatchType.MERGE, subresource="status"
    )
