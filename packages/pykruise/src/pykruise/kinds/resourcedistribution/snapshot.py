"""Facts for a decision about one ResourceDistribution, as one value.

DistributionView + Read ──▶ read_snapshot() ──▶ DistributionSnapshot ──▶ plan.py
                            └── copies that another writer changed are read, once per version
failed writes ──▶ learn() ──▶ memory ──▶ the next DistributionSnapshot

Caches contain only metadata. The manager knows the contents of a copy from the response to its own write. After a
change by another writer, and after its own start, the manager reads the copies: a few copies individually, many copies
with one list of all objects with the copies' name.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, TypeGuard

import msgspec

from pykruise.kinds.resourcedistribution.status import CREATE_FAILED, DELETE_FAILED, UPDATE_FAILED
from pykruise.kinds.resourcedistribution.types import ResourceDistributionSpec
from pykruise.kinds.resourcedistribution.view import (
    BY_NAME,
    COPY_VIEWS,
    DISTRIBUTED,
    DISTRIBUTION_VIEWS,
    CopyView,
    DistributionView,
    project_copy,
)
from pykruise.kube.clock import Instant
from pykruise.kube.errors import InvalidError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NAMESPACE_VIEWS, NamespaceView
from pykruise.pods.settings import FromManager
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.execute import Failure
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import WriteFault

SINGLE_READS: Final = 8
"""Maximum number of copies that are read individually; more are read with one list."""

PAGE: Final = 50
"""Maximum number of copies per page of the list. A copy can have a megabyte; only its digest stays in memory."""

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 300.0
"""Maximum seconds until a failed write is retried. The first delay is FIRST_RETRY_S; each failure doubles the delay."""


class DistributionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about ResourceDistributions."""

    namespace: Annotated[str, FromManager("watch_namespace")] = ""
    """The only namespace of this manager; empty: all namespaces."""


class FailedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write in one namespace that the API server rejected."""

    code: str = WriteFault.WRITE_FAILED
    """Code of the reason."""
    condition: str
    """Type of the condition that reports the failure."""
    message: str
    remedy: str = ""
    retry_at: Instant
    tries: int
    namespace_uid: str


class DistributionSnapshot(Judged, frozen=True, kw_only=True):
    """State of one ResourceDistribution and its surroundings at one time."""

    distribution: DistributionView
    namespaces: Mapping[str, NamespaceView] = {}
    """All namespaces of this manager, by name."""
    copies: Mapping[str, CopyView] = {}
    """Objects with the resource's kind and name, by namespace. The distribution's own copies include a digest."""
    unread: Mapping[str, str] = {}
    """Namespaces with an unreadable copy → the reason."""
    failed: Mapping[str, FailedWrite] = {}
    """Failed writes by namespace."""
    only_namespace: str = ""
    """The only namespace of this manager; empty: all namespaces."""
    now: Instant


class ReadableDistributionView(DistributionView, frozen=True, kw_only=True):
    """A DistributionView with a readable spec. Only a type: no object is created from this class."""

    spec: ResourceDistributionSpec


class ReadableResourceDistribution(DistributionSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    distribution: ReadableDistributionView


def is_readable(snapshot: DistributionSnapshot) -> TypeGuard[ReadableResourceDistribution]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.distribution.spec is not None and not snapshot.refused


class KnownCopies(msgspec.Struct):
    """Data about one distribution that the manager remembers between reconciles."""

    read: dict[str, CopyView] = {}
    """Copies that were read, by namespace."""
    generation: int = 0
    failed: dict[str, FailedWrite] = {}


async def read_snapshot(
    view: DistributionView, read: Read[DistributionSettings]
) -> DistributionSnapshot | None:
    """Collect the facts about one distribution; None: it was deleted in the meantime."""
    if view.is_deleting or view.spec is None:
        return DistributionSnapshot(distribution=view, now=read.now())
    known = read.find_memory(KnownCopies)
    unread = await _read_unknown(view, read, known)
    distribution = read.get(DISTRIBUTION_VIEWS, Key("", view.name))
    if distribution is None:
        return None
    if distribution.generation != known.generation:  # writes that failed before may succeed with the new spec
        known.generation, known.failed = distribution.generation, {}
    namespaces = {
        namespace.name: namespace
        for namespace in read.list_all(NAMESPACE_VIEWS)
        if _is_own(namespace.name, read)
    }
    copies = {copy.namespace: _with_digest(copy, known) for copy in _list_copies_by_name(distribution, read)}
    known.failed = {
        name: failed
        for name, failed in known.failed.items()
        if name in namespaces
        and namespaces[name].uid == failed.namespace_uid
        and not _is_done(failed, copies.get(name), distribution)
    }
    return DistributionSnapshot(
        distribution=distribution,
        namespaces=namespaces,
        copies=copies,
        unread={name: why for name, why in unread.items() if name in copies and not copies[name].content},
        failed=dict(known.failed),
        only_namespace=read.settings.namespace,
        now=read.now(),
    )


def learn(
    read: Read[DistributionSettings], snapshot: DistributionSnapshot, failures: Sequence[Failure]
) -> None:
    """Record failed writes and the time of their next try."""
    known = read.find_memory(KnownCopies)
    for failure in failures:
        name = failure.step.action.key.namespace
        before, condition = known.failed.get(name), _choose_condition(failure)
        tries = before.tries + 1 if before is not None and before.condition == condition else 1
        wait_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(tries - 1, 10))
        known.failed[name] = FailedWrite(
            condition=condition,
            message=str(failure.error),
            remedy=_choose_remedy(failure),
            code=failure.reason.code,
            retry_at=read.now() + wait_s,
            tries=tries,
            namespace_uid=snapshot.namespaces[name].uid,
        )


_IMMUTABLE: Final = frozenset({"data", "stringData", "binaryData", "immutable", "type"})
"""Fields of Secrets and ConfigMaps whose change an API server rejects: always, or only while `immutable` is true."""


def _choose_remedy(failure: Failure) -> str:
    error = failure.error
    is_fixed = isinstance(error, InvalidError) and _IMMUTABLE.issuperset(
        cause.field for cause in error.causes
    )
    if is_fixed and isinstance(failure.step.action, Patch):
        return make_fixed_remedy(failure.step.action.key.name)
    return failure.reason.remedy


def make_fixed_remedy(name: str) -> str:
    """Return the remedy for a copy with this name whose contents cannot be changed."""
    return f"delete the copy {name}, which cannot be changed; the manager then creates it again"


def _choose_condition(failure: Failure) -> str:
    match failure.step.action:
        case Create():
            return CREATE_FAILED
        case Delete():
            return DELETE_FAILED
        case _:
            return UPDATE_FAILED


def _is_done(failed: FailedWrite, copy: CopyView | None, view: DistributionView) -> bool:
    """Whether a later try succeeded."""
    return (
        copy is None
        if failed.condition == DELETE_FAILED
        else copy is not None and copy.content == view.content
    )


def _is_own(namespace: str, read: Read[DistributionSettings]) -> bool:
    return read.settings.namespace in ("", namespace)


def _list_copies_by_name(view: DistributionView, read: Read[DistributionSettings]) -> Iterable[CopyView]:
    return read.list_by_index(COPY_VIEWS[view.kind], BY_NAME, view.copy_name)


# ── contents ─────────────────────────────────────────────────────────────────


def _with_digest(copy: CopyView, known: KnownCopies) -> CopyView:
    """Return the copy with its digest if this version or a newer one was read (the cache may be stale); otherwise
    return the cached copy.
    """
    read = known.read.get(copy.namespace)
    if read is None:
        return copy
    is_current = read.uid == copy.uid and read.resource_version >= copy.resource_version
    return read if is_current else copy


async def _read_unknown(
    view: DistributionView, read: Read[DistributionSettings], known: KnownCopies
) -> Mapping[str, str]:
    """Read the distribution's copies whose contents are unknown. Returns the namespaces of copies that cannot be read,
    each with the reason.
    """
    own = [copy for copy in _list_copies_by_name(view, read) if view.owns(copy.controller)]
    known.read = {
        copy.namespace: known.read[copy.namespace]
        for copy in own
        if not copy.content and copy.namespace in known.read
    }
    missing = [copy for copy in own if not _with_digest(copy, known).content]
    if not missing:
        return {}
    if len(missing) > SINGLE_READS:
        return await _list_copies(view, read, known, missing)
    failed = await asyncio.gather(*(_get_copy(view, read, known, copy.namespace) for copy in missing))
    return {copy.namespace: why for copy, why in zip(missing, failed, strict=True) if why}


async def _get_copy(
    view: DistributionView, read: Read[DistributionSettings], known: KnownCopies, namespace: str
) -> str:
    """Read one copy. Returns why the read failed; empty: the copy was read, or does not exist."""
    try:
        raw = await read.live.get(DISTRIBUTED[view.kind], namespace, view.copy_name)
    except NotFoundError:
        return ""
    except KubeError as error:
        return str(error)
    known.read[namespace] = project_copy(raw)
    return ""


async def _list_copies(
    view: DistributionView, read: Read[DistributionSettings], known: KnownCopies, missing: Sequence[CopyView]
) -> Mapping[str, str]:
    async def take(page: Sequence[msgspec.Raw]) -> None:
        for raw in page:
            # Items of a list do not contain their kind.
            copy = project_copy(raw, kind=view.kind)
            if view.owns(copy.controller):
                known.read[copy.namespace] = copy

    try:
        await read.live.read_list(
            DISTRIBUTED[view.kind],
            read.settings.namespace,
            take,
            known.read.clear,
            field_selector=f"metadata.name={view.copy_name}",
            limit=PAGE,
        )
    except KubeError as error:
        return {copy.namespace: str(error) for copy in missing}
    return {}
