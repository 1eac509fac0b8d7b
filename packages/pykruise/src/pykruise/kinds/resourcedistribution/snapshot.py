"""Everything a decision about one ResourceDistribution needs, as one value.

DistributionView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py
                               └── contents of copies with another last writer are read, once for each version
failed writes ──▶ learn() ──▶ memory ──▶ the next Snapshot

Caches have metadata alone. What a copy holds is known from the answer to one's own write. Where it is not, because
the copy was changed by hand or this manager is new, the copy is read: a few one by one, many by one list of that name.
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
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NAMESPACE_VIEWS, NamespaceView
from pykruise.pods.settings import FromManager
from pykruise.runtime.actions import Create, Delete
from pykruise.runtime.execute import Failure
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import WriteFault

SINGLE_READS: Final = 8
"""More copies than these are read by one list."""

PAGE: Final = 50
"""Copies in a page of that list: each may be a megabyte, and is forgotten when its digest is known."""

FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 300.0
"""When a write that failed is tried again: each time twice as late as before."""


class DistributionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about ResourceDistributions."""

    namespace: Annotated[str, FromManager("watch_namespace")] = ""
    """The only namespace that this manager works in; empty: all."""


class FailedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write in one namespace that the API server refused."""

    code: str = WriteFault.WRITE_FAILED
    """Why, in one word."""
    condition: str
    """The condition that shows it."""
    message: str
    retry_at: Instant
    tries: int
    namespace_uid: str


class DistributionSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one ResourceDistribution at one instant."""

    distribution: DistributionView
    namespaces: Mapping[str, NamespaceView] = {}
    """All that this manager works in, by name."""
    copies: Mapping[str, CopyView] = {}
    """Objects of that kind and name, by namespace, with any origin. Own ones have their contents' digest."""
    unread: Mapping[str, str] = {}
    """Namespaces whose copy could not be read → why."""
    failed: Mapping[str, FailedWrite] = {}
    """Failures by namespace."""
    only_namespace: str = ""
    """The only namespace that this manager works in; empty: all."""
    now: Instant


class ReadableDistributionView(DistributionView, frozen=True, kw_only=True):
    """One whose spec can be read. A type alone: `is_readable()` says which snapshots have it."""

    spec: ResourceDistributionSpec


class ReadableResourceDistribution(DistributionSnapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    distribution: ReadableDistributionView


def is_readable(snapshot: DistributionSnapshot) -> TypeGuard[ReadableResourceDistribution]:
    """Whether the spec can be read, and admission has nothing against what is stored. The one place that decides it."""
    return snapshot.distribution.spec is not None and not snapshot.refused


class KnownCopies(msgspec.Struct):
    """Memory about one distribution."""

    read: dict[str, CopyView] = {}
    """Copies that were read, by namespace."""
    generation: int = 0
    failed: dict[str, FailedWrite] = {}


async def snapshot(view: DistributionView, read: Read[DistributionSettings]) -> DistributionSnapshot | None:
    """The world of one distribution; None: it is gone meanwhile."""
    if view.is_deleting or view.spec is None:
        return DistributionSnapshot(distribution=view, now=read.now())
    known = read.memory(KnownCopies)
    unread = await _read_unknown(view, read, known)
    distribution = read.get(DISTRIBUTION_VIEWS, Key("", view.name))
    if distribution is None:
        return None
    if distribution.generation != known.generation:  # what failed may go well now
        known.generation, known.failed = distribution.generation, {}
    namespaces = {
        namespace.name: namespace for namespace in read.all(NAMESPACE_VIEWS) if _is_own(namespace.name, read)
    }
    copies = {copy.namespace: _whole(copy, known) for copy in _copies(distribution, read)}
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
    """Note which writes failed, and when each is tried again."""
    known = read.memory(KnownCopies)
    for failure in failures:
        name = failure.step.action.key.namespace
        before, condition = known.failed.get(name), _condition_of(failure)
        tries = before.tries + 1 if before is not None and before.condition == condition else 1
        wait_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(tries - 1, 10))
        known.failed[name] = FailedWrite(
            condition=condition,
            message=str(failure.error),
            code=failure.reason.code,
            retry_at=read.now() + wait_s,
            tries=tries,
            namespace_uid=snapshot.namespaces[name].uid,
        )


def _condition_of(failure: Failure) -> str:
    match failure.step.action:
        case Create():
            return CREATE_FAILED
        case Delete():
            return DELETE_FAILED
        case _:
            return UPDATE_FAILED


def _is_done(failed: FailedWrite, copy: CopyView | None, view: DistributionView) -> bool:
    """Whether a later try went well."""
    return (
        copy is None
        if failed.condition == DELETE_FAILED
        else copy is not None and copy.content == view.content
    )


def _is_own(namespace: str, read: Read[DistributionSettings]) -> bool:
    return read.settings.namespace in ("", namespace)


def _copies(view: DistributionView, read: Read[DistributionSettings]) -> Iterable[CopyView]:
    return read.by_index(COPY_VIEWS[view.kind], BY_NAME, view.copy_name)


# ── contents ─────────────────────────────────────────────────────────────────


def _whole(copy: CopyView, known: KnownCopies) -> CopyView:
    """The copy with its digest, if it was read at that version or, the cache being behind, at a later one."""
    read = known.read.get(copy.namespace)
    if read is None:
        return copy
    is_current = read.uid == copy.uid and read.resource_version >= copy.resource_version
    return read if is_current else copy


async def _read_unknown(
    view: DistributionView, read: Read[DistributionSettings], known: KnownCopies
) -> Mapping[str, str]:
    """Read the own copies of which only metadata is known. Returns which could not be read, and why."""
    own = [copy for copy in _copies(view, read) if view.owns(copy.controller)]
    known.read = {
        copy.namespace: known.read[copy.namespace]
        for copy in own
        if not copy.content and copy.namespace in known.read
    }
    missing = [copy for copy in own if not _whole(copy, known).content]
    if not missing:
        return {}
    if len(missing) > SINGLE_READS:
        return await _list_copies(view, read, known, missing)
    failed = await asyncio.gather(*(_get_copy(view, read, known, copy.namespace) for copy in missing))
    return {copy.namespace: why for copy, why in zip(missing, failed, strict=True) if why}


async def _get_copy(
    view: DistributionView, read: Read[DistributionSettings], known: KnownCopies, namespace: str
) -> str:
    """Why it cannot be read; empty: it was, or is gone."""
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
            # Items of a list do not say their kind.
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
