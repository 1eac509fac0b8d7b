"""Copies of pull secrets in the shared namespace, where agents on nodes can read them. All jobs share the copy of a
secret.

the job's secrets + copies in the shared namespace ──▶ sync_of() ──▶ SecretSync: copies to write, references for nodes
names + Read ──▶ read_sources() ──▶ Source: the content of each secret

Annotations of a copy contain its source (the original secret) and the jobs that use the copy. The last job that
releases a copy deletes it. The name of a copy is derived from its source, so a source has only one copy. The content of
a secret is read only if its digest is unknown or the content must be written. It is not kept in memory.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from pykruise.agent.rules.pull_secrets import SOURCE_KEY
from pykruise.kube.documents import LAST_APPLIED, Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import SECRETS
from pykruise.plans.views import SECRET_VIEWS
from pykruise.pods.images.node_image_api import SecretReference
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view.secrets import CopyView, content_of
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Step
from pykruise.runtime.read import Mirrors, Read
from pykruise.runtime.views import BY_NAMESPACE

__all__ = [
    "BATCH",
    "MODE",
    "REFERENCES",
    "SOURCE_KEY",
    "SecretSync",
    "Source",
    "list_copies",
    "read_sources",
    "references_of",
    "sync_of",
]

SOURCE_UID: Final = "imagepulljobs.kruise.io/source-uid"
"""Label of a copy: the UID of its source. OpenKruise up to 1.8 finds copies by this label."""

REFERENCES: Final = "imagepulljobs.kruise.io/references"
MODE: Final = "imagepulljobs.kruise.io/mode"
BATCH: Final = "batch"

LONGEST_NAME: Final = 253


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A pull secret in the job's namespace, which is or will be copied."""

    key: Key
    content: str
    """Digest of the content."""
    document: Document | None = None
    """The secret as it is stored; None if its copy has the same content, so that the content does not have to be
    written.
    """


class SecretSync(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of copied secrets for one job."""

    writes: tuple[Chain, ...] = ()
    """Copies to create or change before a NodeImage references them."""
    releases: tuple[Chain, ...] = ()
    """Copies that the job no longer uses."""
    references: tuple[SecretReference, ...] = ()
    """References to copies for NodeImages, in the order of spec.pullSecrets."""
    missing: tuple[str, ...] = ()
    """Names of secrets that do not exist. The job pulls without them."""


def references_of(copy: CopyView) -> list[Key]:
    """Return the jobs that use a copy. Unreadable references are ignored."""
    references = []
    for item in copy.annotations.get(REFERENCES, "").split(","):
        namespace, _, name = item.strip().partition("/")
        if namespace and name and "/" not in name:
            references.append(Key(namespace, name))
    return references


def list_copies(namespace: str, read: Mirrors) -> list[CopyView]:
    """Return all copies of secrets in the shared namespace, sorted by name."""
    copies = read.list_by_index(SECRET_VIEWS, BY_NAMESPACE, namespace)
    return sorted((copy for copy in copies if copy.annotations), key=lambda copy: copy.name)


def sync_of(
    job: PullJobView, *, copies: Sequence[CopyView], sources: Mapping[str, Source | None], namespace: str
) -> SecretSync:
    """Return the writes for the job's secrets. `sources`: name of each secret → the secret, or None if it is missing;
    empty for a job that has ended. `namespace`: the shared namespace.
    """
    if job.namespace == namespace:
        return SecretSync(
            references=tuple(SecretReference(namespace=namespace, name=name) for name in sources)
        )
    chosen, surplus = _match_copies(job, copies, sources)
    writes: list[Chain] = []
    references: list[SecretReference] = []
    for name, source in sources.items():
        if source is None:
            continue
        known = chosen.get(name)
        if known is None:
            made = _choose_copy_name(source.key, taken=[copy.name for copy in copies])
            writes.append(_create_copy(source, Key(namespace, made), job))
            references.append(SecretReference(namespace=namespace, name=made, mode=BATCH))
        else:
            writes += _update_copy(source, known, job)
            mode = known.annotations.get(MODE, "")
            references.append(SecretReference(namespace=namespace, name=known.name, mode=mode))
    return SecretSync(
        writes=tuple(writes),
        releases=tuple(_release_copy(copy, job) for copy in surplus),
        references=tuple(references),
        missing=tuple(name for name, source in sources.items() if source is None),
    )


def _match_copies(
    job: PullJobView, copies: Iterable[CopyView], names: Iterable[str]
) -> tuple[Mapping[str, CopyView], Sequence[CopyView]]:
    """Return the copy of each secret in `names`, by the secret's name, and the job's copies of other secrets, which
    it no longer needs. If a secret has several copies, a copy that the job already uses is preferred.
    """
    wanted = {str(Key(job.namespace, name)): name for name in names}
    chosen: dict[str, CopyView] = {}
    surplus: list[CopyView] = []
    for copy in copies:
        if copy.is_deleting:
            continue
        is_used = job.key in references_of(copy)
        name = wanted.get(copy.annotations.get(SOURCE_KEY, ""))
        if name is None:
            surplus += [copy] if is_used else []
        elif name not in chosen or (is_used and job.key not in references_of(chosen[name])):
            chosen[name] = copy
    return chosen, surplus


def _choose_copy_name(source: Key, *, taken: Sequence[str]) -> str:
    """Return `<source>-<six hexadecimal digits>`. The result for a source is always the same, unless another object has
    this name.
    """
    digits = (hashlib.sha256(f"{source}#{salt}".encode()).hexdigest()[:6] for salt in count())
    names = (f"{source.name[: LONGEST_NAME - 7]}-{end}" for end in digits)
    return next(name for name in names if name not in taken)


# ── writes ───────────────────────────────────────────────────────────────────


def _create_copy(source: Source, key: Key, job: PullJobView) -> Chain:
    document = source.document
    assert document is not None, "secrets that are not copied yet are read"
    given = document["metadata"]
    annotations = {
        name: value for name, value in (given.get("annotations") or {}).items() if name != LAST_APPLIED
    }
    annotations |= {REFERENCES: str(job.key), SOURCE_KEY: str(source.key), MODE: BATCH}
    body: Document = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "annotations": annotations,
            "labels": {**(given.get("labels") or {}), SOURCE_UID: given.get("uid") or ""},
        },
        "type": document.get("type") or "Opaque",
        "data": document.get("data") or {},
    }
    step = Step(
        action=Create(resource=SECRETS, key=key, body=body),
        because=f"agents of nodes cannot read secret {source.key}",
    )
    return Chain(subject=key.name, steps=(step,))


def _update_copy(source: Source, copy: CopyView, job: PullJobView) -> Iterator[Chain]:
    """Yield the write that corrects the copy; nothing if the copy is correct."""
    references = references_of(copy)
    listed = "" if job.key in references else _format_references([*references, job.key])
    if source.document is not None:
        yield Chain(subject=copy.name, steps=(_replace_content(copy, source, source.document, listed),))
    elif listed:
        body: Document = {"metadata": {"annotations": {REFERENCES: listed}}}
        yield Chain(subject=copy.name, steps=(_patch_copy(copy, body, f"job {job.key} also needs the copy"),))


def _replace_content(copy: CopyView, source: Source, document: Document, listed: str) -> Step:
    """Return the write that replaces the complete content. A merge patch would not remove keys that the source lost."""
    # The type cannot be changed. If the source was created again with another type, the write fails and is reported.
    body = [
        {"op": "test", "path": "/type", "value": document.get("type") or "Opaque"},
        {"op": "add", "path": "/data", "value": document.get("data") or {}},
    ]
    if listed:
        path = "/metadata/annotations/" + REFERENCES.replace("/", "~1")
        body.append({"op": "add", "path": path, "value": listed})
    action = patch_object(SECRETS, copy, body, patch_type=PatchType.JSON, unchanged=True)
    return Step(action=action, because=f"secret {source.key} has changed")


def _release_copy(copy: CopyView, job: PullJobView) -> Chain:
    left = [key for key in references_of(copy) if key != job.key]
    if left:
        body: Document = {"metadata": {"annotations": {REFERENCES: _format_references(left)}}}
        step = _patch_copy(copy, body, f"job {job.key} no longer needs it")
    else:
        action = delete_object(SECRETS, copy, unchanged=True)
        step = Step(action=action, because="no job needs it")
    return Chain(subject=copy.name, steps=(step,))


def _patch_copy(copy: CopyView, body: Document, because: str) -> Step:
    action = patch_object(SECRETS, copy, body, unchanged=True)
    return Step(action=action, because=because)


def _format_references(keys: Sequence[Key]) -> str:
    return ",".join(sorted({str(key) for key in keys}))


# ── reading ──────────────────────────────────────────────────────────────────


class _Digests(msgspec.Struct):
    """Key of a secret → its UID, resourceVersion and digest at the last read."""

    known: dict[Key, tuple[str, int, str]] = {}


async def read_sources(
    job: PullJobView, read: Read[Any], *, copies: Sequence[CopyView]
) -> dict[str, Source | None]:
    """Return each of the job's secrets by name, or None if it does not exist. Raises KubeError if a secret cannot be
    read.
    """
    digests = read.memory_of_kind(_Digests, _Digests)
    chosen, _ = _match_copies(job, copies, job.secrets)
    sources: dict[str, Source | None] = {}
    for name in job.secrets:
        copy = chosen.get(name)
        copied = await _read_digest(copy, read, digests) if copy is not None else ""
        sources[name] = await _read_source(Key(job.namespace, name), read, digests, copied=copied)
    return sources


async def _read_source(key: Key, read: Read[Any], digests: _Digests, *, copied: str) -> Source | None:
    """Read a source. `copied` is the digest of its copy. If the copy has the same content, the result contains no
    document.
    """
    view = read.get(SECRET_VIEWS, key)
    if view is None:
        return None
    known = digests.known.get(key)
    if known is not None and known[:2] == (view.uid, view.resource_version) and known[2] == copied:
        return Source(key=key, content=copied)
    try:
        raw = await read.live.get(SECRETS, key.namespace, key.name)
    except NotFoundError:
        return None
    document = decode(raw)
    content = _compute_digest(document)
    meta = document["metadata"]
    digests.known[key] = (meta["uid"], int(meta["resourceVersion"]), content)
    return Source(key=key, content=content, document=None if content == copied else document)


async def _read_digest(copy: CopyView, read: Read[Any], digests: _Digests) -> str:
    """Return the digest of a copy; empty if the copy was deleted."""
    if copy.content:
        return copy.content
    key = Key(copy.namespace, copy.name)
    known = digests.known.get(key)
    if known is not None and known[:2] == (copy.uid, copy.resource_version):
        return known[2]
    try:
        document = decode(await read.live.get(SECRETS, key.namespace, key.name))
    except NotFoundError:
        return ""
    content = _compute_digest(document)
    meta = document["metadata"]
    digests.known[key] = (meta["uid"], int(meta["resourceVersion"]), content)
    return content


def _compute_digest(document: Document) -> str:
    """Return the digest of the content, without the field `immutable`: a copy is never immutable."""
    return content_of(SECRETS.kind, {name: value for name, value in document.items() if name != "immutable"})
