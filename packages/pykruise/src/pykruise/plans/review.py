"""Declaration of the admission reviews of a kind. admission/reviewers.py builds webhooks from it.

KIND.reviews ──▶ admission/reviewers.py ──▶ webhooks, whose reviewers get objects in the hub version
Lookups ──▶ what reviews read from the cluster, in addition to the request
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
"""Returns the stored pod with this namespace and name; None if it does not exist. Raises KubeError."""

NodeLookup = Callable[[str], Awaitable[Document | None]]
"""Returns the stored node with this name; None if it does not exist. Raises KubeError."""

ClassLookup = Callable[[], Awaitable[Sequence[Document]]]
"""Returns all StorageClasses. Raises KubeError."""

Trial = Callable[[Document], Awaitable[None]]
"""Creates a Secret or ConfigMap as a dry run. If the API server rejects it, raises KubeError with the response."""


AccessLookup = Callable[[AdmissionRequest, str, Resource], Awaitable[bool]]
"""Returns whether the user of the request has permission for this verb on a resource in the namespace of the
request. Raises KubeError.
"""


RevisionLookup = Callable[[str, str], Awaitable[Sequence[RevisionView]]]
"""Returns the ControllerRevisions that the owner with this namespace and UID controls. Raises KubeError."""


class Lookups(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups for reviews. If a lookup is None, it is not available, and rules that need it are skipped."""

    pods: PodLookup | None = None
    nodes: NodeLookup | None = None
    classes: ClassLookup | None = None
    trial: Trial | None = None
    revisions: RevisionLookup | None = None
    access: AccessLookup | None = None
    readers: Mapping[str, Any] = {}
    """Name of a kind → its reader, which reads objects of the kind and related objects."""
    clock: Clock = read_system_clock


def run_beside_the_loop(lookups: Lookups) -> Lookups:
    """Return lookups for reviewers that run outside the event loop (kube/control/offload.py). The lookups themselves
    still run in the event loop.
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
    """Return lookups that send every read to the API server. `client` is called for each lookup. `namespace` is the
    manager's own namespace, for dry runs.
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
        with suppress(AlreadyExistsError):  # an object with this name exists
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
        spec = {
            "user": request.username,
            "groups": list(request.groups),
            "extra": {key: list(values) for key, values in request.extra.items()},
            "resourceAttributes": attributes,
        }
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
    """Return the selector that the revisions record, if the status reports that spec.selector differs from it and the
    request changes spec.selector; otherwise None. Raises KubeError.
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
    """The reviews of one kind. Each is built from the settings and the lookups. It must await only lookups, because
    reviews of large objects run outside the event loop.
    """

    mutating: Callable[[Any, Lookups], Reviewer] | None = None
    """Reviews of creations and updates."""
    validating: Callable[[Any, Lookups], Reviewer] | None = None
    spoke: Callable[[Any, Lookups], SpokeRules] | None = None
    """Rules that exist only in the older version."""
    is_protected: bool = False
    """Whether deletion protection reviews deletions."""
    rights: tuple[Right, ...] = ()
    """Permissions that the reviews themselves need."""
    webhook: str = ""
    """Name of the validating webhook; if empty, `v<kind>.kb.io`."""
    has_versioned_path: bool = False
    """Whether the registered paths contain `v1alpha1`, because every release of OpenKruise serves only these paths."""
