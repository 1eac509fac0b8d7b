"""Declaration of a kind's reviews of writes to its objects; admission/reviewers.py builds webhooks from it.

KIND.reviews ──▶ admission/reviewers.py ──▶ webhooks, whose reviewers get objects in the hub version
Lookups ──▶ reads of a review from the cluster in addition to the request
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, SpokeRules
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.control.offload import LoopSide, run_on_loop
from pykruise.kube.documents import Document, decode, get_path, is_same
from pykruise.kube.errors import AlreadyExistsError, NotFoundError
from pykruise.kube.rbac import Right
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    NODES,
    PODS,
    SECRETS,
    STORAGE_CLASSES,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from pykruise.pods.workload.revisions import RevisionView, project_revision
from pykruise.pods.workload.selector_guard import find_managed_selector, is_guarded

PodLookup = Callable[[str, str], Awaitable[Document | None]]
"""Returns the stored pod by namespace and name; None when it does not exist. Raises KubeError."""

NodeLookup = Callable[[str], Awaitable[Document | None]]
"""Returns the stored node by name; None when it does not exist. Raises KubeError."""

ClassLookup = Callable[[], Awaitable[Sequence[Document]]]
"""Returns all StorageClasses. Raises KubeError."""

Trial = Callable[[Document], Awaitable[None]]
"""Creates a Secret or ConfigMap as a dry run. Raises KubeError with the API server's rejection."""


AccessLookup = Callable[[AdmissionRequest, str, Resource], Awaitable[bool]]
"""Whether the user of this request may use this verb on a resource in the request's namespace. Raises KubeError."""


RevisionLookup = Callable[[str, str], Awaitable[Sequence[RevisionView]]]
"""Returns the ControllerRevisions that an owner controls, by its namespace and UID. Raises KubeError."""


class Lookups(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups of reviews; None: the lookup is not available, and rules that need it are skipped."""

    pods: PodLookup | None = None
    nodes: NodeLookup | None = None
    classes: ClassLookup | None = None
    trial: Trial | None = None
    revisions: RevisionLookup | None = None
    access: AccessLookup | None = None
    readers: Mapping[str, Any] = {}
    """Readers by the name of a kind: each reads the kind's objects and related objects, for webhooks."""
    clock: Clock = read_system_clock


def run_beside_the_loop(lookups: Lookups) -> Lookups:
    """Return lookups for reviewers outside the event loop (kube/control/offload.py); the lookups themselves run in
    the loop.
    """
    return Lookups(
        pods=run_on_loop(lookups.pods) if lookups.pods else None,
        nodes=run_on_loop(lookups.nodes) if lookups.nodes else None,
        classes=run_on_loop(lookups.classes) if lookups.classes else None,
        trial=run_on_loop(lookups.trial) if lookups.trial else None,
        revisions=run_on_loop(lookups.revisions) if lookups.revisions else None,
        access=run_on_loop(lookups.access) if lookups.access else None,
        readers={name: LoopSide(reader) for name, reader in lookups.readers.items()},
        clock=lookups.clock,
    )


def make_live_lookups(
    client: Callable[[], Client],
    *,
    namespace: str,
    readers: Mapping[str, Any] | None = None,
    clock: Clock = read_system_clock,
) -> Lookups:
    """Return lookups that ask the API server each time. `client` is called for each lookup; `namespace`: the
    manager's own, for trial objects.
    """
    by_kind = {resource.kind: resource for resource in (CONFIG_MAPS, SECRETS)}

    async def stored(resource: Resource, namespace: str, name: str) -> Document | None:
        try:
            return decode(await client().get(resource, namespace, name))
        except NotFoundError:
            return None

    async def classes() -> Sequence[Document]:
        return [decode(raw) for raw in (await client().list(STORAGE_CLASSES)).items]

    async def trial(doc: Document) -> None:
        tried = {**doc, "metadata": {**(doc.get("metadata") or {}), "namespace": namespace}}
        with suppress(AlreadyExistsError):  # an object of that name may exist
            await client().create(by_kind[doc["kind"]], namespace, tried, dry_run=True)

    async def revisions(namespace: str, uid: str) -> Sequence[RevisionView]:
        listed = await client().list(CONTROLLER_REVISIONS, namespace)
        return [item for item in map(project_revision, listed.items) if item.controller_uid == uid]

    async def access(request: AdmissionRequest, verb: str, resource: Resource) -> bool:
        attributes = {
            "namespace": request.namespace,
            "verb": verb,
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
        }
        spec = {"user": request.username, "groups": list(request.groups), "resourceAttributes": attributes}
        asked = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": spec,
        }
        answer = decode(await client().create(SUBJECT_ACCESS_REVIEWS, "", asked))
        return get_path(answer, "status", "allowed") is True

    return Lookups(
        pods=lambda namespace, name: stored(PODS, namespace, name),
        nodes=lambda name: stored(NODES, "", name),
        classes=classes,
        trial=trial,
        revisions=revisions,
        access=access,
        readers=readers or {},
        clock=clock,
    )


async def managed_selector_of(request: AdmissionRequest, revisions: RevisionLookup | None) -> Document | None:
    """Return the selector that manages the object's pods if it is relevant: the selector guard holds, and the request
    changes the selector. Raises KubeError.
    """
    old, new = request.old_object, request.object
    if revisions is None or old is None or new is None:
        return None
    if not is_guarded(get_path(old, "status", "conditions", default=[])):
        return None
    if is_same(get_path(old, "spec", "selector"), get_path(new, "spec", "selector")):
        return None
    return find_managed_selector(
        await revisions(request.namespace, str(get_path(old, "metadata", "uid", default="")))
    )


async def allow(_: AdmissionRequest) -> AdmissionAnswer:
    """Allow every request."""
    return ALLOWED


class Reviews(msgspec.Struct, frozen=True, kw_only=True):
    """The reviews of one kind. Each is built from the kind's settings and lookups and awaits nothing else: long
    reviews run outside the event loop.
    """

    mutating: Callable[[Any, Lookups], Reviewer] | None = None
    """Mutating reviews of creations and updates."""
    validating: Callable[[Any, Lookups], Reviewer] | None = None
    spoke: Callable[[Any, Lookups], SpokeRules] | None = None
    """Rules of the older version only."""
    is_protected: bool = False
    """Whether deletion protection decides about deletions."""
    rights: tuple[Right, ...] = ()
    """Permissions that the reviews themselves need."""
    webhook: str = ""
    """Name of the validating webhook; empty: `v<kind>.kb.io`."""
