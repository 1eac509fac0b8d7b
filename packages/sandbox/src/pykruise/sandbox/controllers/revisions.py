"""Revisions of StatefulSets and DaemonSets: their templates, kept as ControllerRevisions.

owner + its ControllerRevisions ──▶ Revisions.sync() ──▶ the revision of the present template, made if new
ControllerRevision ──▶ template_of() ──▶ the template it keeps

Rule: Kubernetes' controller history: `data` is the patch that puts the template back.
"""

from collections.abc import Collection, Sequence

from pykruise.kube.documents import Document, canonical, same
from pykruise.kube.errors import AlreadyExistsError, NotFoundError
from pykruise.kube.hashing import fnv32a, hash_text
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONTROLLER_REVISIONS, Resource
from pykruise.runtime.objects import DocumentView, owner_reference_to, project_document
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.controllers.base import Shared, claim

__all__ = ["REVISION_LABEL", "Revisions", "template_of"]

REVISION_LABEL = "controller-revision-hash"
_HASH = "controller.kubernetes.io/hash"


def template_of(revision: DocumentView) -> Document:
    """The pod template that a revision keeps."""
    template = dict(revision.doc["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


def number_of(revision: DocumentView) -> int:
    """Its place in the history."""
    return int(revision.doc.get("revision") or 0)


class Revisions:
    """The history of the objects of one resource."""

    def __init__(self, shared: Shared, resource: Resource) -> None:
        self._shared = shared
        self._resource = resource
        self.cache = shared.cache(CONTROLLER_REVISIONS)

    def of(self, owner: DocumentView) -> list[DocumentView]:
        """All revisions of an object, oldest first."""
        found = self.cache.by_index(BY_CONTROLLER, owner.uid)
        return sorted(found, key=lambda one: (number_of(one), one.created_at, one.name))

    async def sync(self, owner: DocumentView, collisions: int) -> DocumentView | None:
        """The newest revision, which keeps the present template; None when its name is taken by another.

        One that is there already (the answer to its creation was lost) is found by a live read. Orphans that it
        selects are adopted.
        """
        orphans = self.cache.by_index("orphans", owner.namespace)
        await claim(self._shared, self._resource, owner, CONTROLLER_REVISIONS, (), orphans)
        history = self.of(owner)
        data = {"spec": {"template": {**owner.spec["template"], "$patch": "replace"}}}
        equal = [one for one in history if same(one.doc.get("data"), data)]
        newest = number_of(history[-1]) if history else 0
        if equal:
            found = equal[-1]
            if number_of(found) != newest:
                await self._shared.merge(CONTROLLER_REVISIONS, found, {"revision": newest + 1})
                return self.cache.get(found.key)
            return found
        doc = self._document(owner, data, newest + 1, collisions)
        try:
            return project_document(
                await self._shared.writer.create(CONTROLLER_REVISIONS, owner.namespace, doc)
            )
        except AlreadyExistsError:
            key = Key(owner.namespace, doc["metadata"]["name"])
            found = project_document(await self._shared.writer.read(CONTROLLER_REVISIONS, key))
        return found if found.owner_uid == owner.uid and same(found.doc.get("data"), data) else None

    def _document(self, owner: DocumentView, data: Document, number: int, collisions: int) -> Document:
        digest = hash_text(fnv32a(canonical(data) + (str(collisions).encode() if collisions else b"")))
        labels = (owner.spec["template"].get("metadata") or {}).get("labels") or {}
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{owner.name}-{digest}",
                "labels": {**labels, _HASH: digest},
                "ownerReferences": [owner_reference_to(self._resource, owner)],
            },
            "data": data,
            "revision": number,
        }

    async def truncate(self, owner: DocumentView, live: Collection[str], limit: int) -> None:
        """Delete the oldest revisions beyond `limit` that nothing uses; `live` are names."""
        idle: Sequence[DocumentView] = [one for one in self.of(owner) if one.name not in live]
        for one in idle[: max(0, len(idle) - limit)]:
            try:
                await self._shared.writer.delete(CONTROLLER_REVISIONS, one.key, uid=one.uid)
            except NotFoundError:
                continue
