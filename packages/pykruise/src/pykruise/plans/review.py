"""How a kind reviews writes to its objects, as a declaration; admission/reviewers.py makes webhooks of it.

KIND.reviews ──▶ admission/reviewers.py ──▶ webhooks; reviewers are asked about the hub version
Lookups ──▶ what a review may ask of the cluster beside the request
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, SpokeRules
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.control.offload import LoopSide, on_loop
from pykruise.kube.documents import Document, decode, get_path, same
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
from pykruise.pods.workload.selector_guard import is_guarded, managed_selector

PodLookup = Callable[[str, str], Awaitable[Document | None]]
"""Namespace and name of a pod to the pod as it is stored now, None when it is not there. Raises KubeError."""

NodeLookup = Callable[[str], Awaitable[Document | None]]
"""Name of a node to the node as it is stored now, None when it is not there. Raises KubeError."""

ClassLookup = Callable[[], Awaitable[Sequence[Document]]]
"""All StorageClasses. Raises KubeError."""

Trial = Callable[[Document], Awaitable[None]]
"""Creates a Secret or ConfigMap as a dry run. Raises KubeError with what the API server says against it."""


AccessLookup = Callable[[AdmissionRequest, str, Resource], Awaitable[bool]]
"""Whether the user of this request may do this (a verb) to a resource in the namespace of the request. Raises
KubeError."""


RevisionLookup = Callable[[str, str], Awaitable[Sequence[RevisionView]]]
"""Namespace and uid of an owner to the ControllerRevisions that it controls. Raises KubeError."""


class Lookups(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups of reviews; None: unavailable, and rules that need it are not checked."""

    pods: PodLookup | None = None
    nodes: NodeLookup | None = None
    classes: ClassLookup | None = None
    trial: Trial | None = None
    revisions: RevisionLookup | None = None
    access: AccessLookup | None = None
    readers: Mapping[str, Any] = {}
    """Reader by the name of a kind: reads its objects, and what belongs to them, for webhooks."""
    clock: Clock = system_clock


def beside_the_loop(lookups: Lookups) -> Lookups:
    """The same for reviewers that run beside the loop (kube/control/offload.py): what they ask is asked on the loop."""
    return Lookups(
        pods=on_loop(lookups.pods) if lookups.pods else None,
        nodes=on_loop(lookups.nodes) if lookups.nodes else None,
        classes=on_loop(lookups.classes) if lookups.classes else None,
        trial=on_loop(lookups.trial) if lookups.trial else None,
        revisions=on_loop(lookups.revisions) if lookups.revisions else None,
        access=on_loop(lookups.access) if lookups.access else None,
        readers={name: LoopSide(reader) for name, reader in lookups.readers.items()},
        clock=lookups.clock,
    )


def live_lookups(
    client: Callable[[], Client],
    *,
    namespace: str,
    readers: Mapping[str, Any] | None = None,
    clock: Clock = system_clock,
) -> Lookups:
    """Ask the API server each time. `client` is looked up at each question; `namespace`: the manager's own, where
    trials are made."""
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
        with suppress(AlreadyExistsError):  # one of that name may be there
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
    """The selector that the object's pods are managed by, where that matters: the guard holds, and the selector is
    changed. Raises KubeError."""
    old, new = request.old_object, request.object
    if revisions is None or old is None or new is None:
        return None
    if not is_guarded(get_path(old, "status", "conditions", default=[])):
        return None
    if same(get_path(old, "spec", "selector"), get_path(new, "spec", "selector")):
        return None
    return managed_selector(
        await revisions(request.namespace, str(get_path(old, "metadata", "uid", default="")))
    )


async def allow(_: AdmissionRequest) -> AdmissionAnswer:
    """The review of a kind that has nothing to say."""
    return ALLOWED


class Reviews(msgspec.Struct, frozen=True, kw_only=True):
    """The reviews of one kind. Each is made from the kind's settings and what it may look up, and awaits nothing else:
    long ones run beside the event loop.
    """

    mutating: Callable[[Any, Lookups], Reviewer] | None = None
    """Mutating reviews of creations and updates."""
    validating: Callable[[Any, Lookups], Reviewer] | None = None
    spoke: Callable[[Any, Lookups], SpokeRules] | None = None
    """Rules of the older version alone."""
    is_protected: bool = False
    """Deletions are decided by deletion protection."""
    rights: tuple[Right, ...] = ()
    """Rights that the reviews themselves need."""
    webhook: str = ""
    """Name of the validating webhook, where it is not `v<kind>.kb.io`."""
