"""Revisions of StatefulSets and DaemonSets: their templates, stored as ControllerRevisions.

owner + its ControllerRevisions ──▶ history_of() ──▶ History ──▶ choose_revision()
    ──▶ the revision of the current template, and the writes that store it
ControllerRevision ──▶ template_of() ──▶ its template

Pure, except for history_of(), which reads caches. This is the rule of Kubernetes' controller history: `data` is the
patch that restores the template.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, encode_canonical, is_same
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONTROLLER_REVISIONS, Resource
from pykruise.kube.values.hashing import hash_fnv32a, hash_text
from pykruise.runtime.objects import DocumentView, build_owner_reference_to
from pykruise.runtime.ownership import ownership_of, plan_ownership
from pykruise.runtime.plan import Stage, Step
from pykruise.runtime.read import Read
from pykruise.sandbox.controllers.pods import make_document_views, selector_of
from pykruise.sandbox.controllers.steps import (
    CREATE,
    DELETE,
    create_object,
    delete_object,
    merge_object,
    run_each,
    run_in_order,
)

REVISION_LABEL = "controller-revision-hash"
_HASH = "controller.kubernetes.io/hash"

REVISION_VIEWS: Final = make_document_views(CONTROLLER_REVISIONS)


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Revisions of an object."""

    revisions: tuple[DocumentView, ...] = ()
    """The revisions that the object controls, oldest first."""
    orphans: Sequence[DocumentView] = ()
    """Revisions in the object's namespace that have no owner."""
    namesake: DocumentView | None = None
    """The revision that already has the name of a new revision of the current template."""


class RevisionChosen(msgspec.Struct, frozen=True, kw_only=True):
    """The revision of the current template."""

    name: str
    stages: tuple[Stage, ...] = ()
    """Stages to execute before a pod can have the revision."""
    is_taken: bool = False
    """Whether another object has the name, so that the revision cannot be stored."""


def history_of(owner: DocumentView, read: Read[Any]) -> History:
    """Read the history from caches, without requests."""
    result = read.list_owned(REVISION_VIEWS, owner.uid)
    return History(
        revisions=tuple(
            sorted(result, key=lambda document: (number_of(document), document.created_at, document.name))
        ),
        orphans=read.list_orphans(REVISION_VIEWS, owner.namespace),
        namesake=read.get(REVISION_VIEWS, Key(owner.namespace, f"{owner.name}-{_compute_digest(owner)}")),
    )


def template_of(revision: DocumentView) -> Document:
    """The pod template of a revision."""
    template = dict(revision.doc["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


def number_of(revision: DocumentView) -> int:
    """Number of the revision: the newest has the highest number."""
    return int(revision.doc.get("revision") or 0)


def plan_adoptions(owner: DocumentView, resource: Resource, history: History) -> tuple[Stage, ...]:
    """Stages that adopt the orphans that the owner selects; empty when there are none."""
    ownership = ownership_of(owner, selector_of(owner), (), history.orphans)
    return plan_ownership(owner, resource, CONTROLLER_REVISIONS, ownership)


def choose_revision(owner: DocumentView, resource: Resource, history: History) -> RevisionChosen:
    """Return the revision of the current template: the newest revision, an older revision that becomes the newest, or a
    new revision.
    """
    data = _build_data(owner)
    newest = number_of(history.revisions[-1]) if history.revisions else 0
    equal = [revision for revision in history.revisions if is_same(revision.doc.get("data"), data)]
    if equal:
        document = equal[-1]
        if number_of(document) == newest:
            return RevisionChosen(name=document.name)
        because = "the template equals that of an older revision"
        step = merge_object(CONTROLLER_REVISIONS, document, {"revision": newest + 1}, because=because)
        return RevisionChosen(name=document.name, stages=run_in_order("renew the revision", [step]))
    body = _build_document(owner, resource, data, newest + 1)
    name = body["metadata"]["name"]
    if history.namesake is not None:
        return RevisionChosen(name=name, is_taken=True)
    because = "the template has no revision yet"
    step = create_object(CONTROLLER_REVISIONS, owner.namespace, body, because=because)
    return RevisionChosen(name=name, stages=run_in_order(CREATE, [step]))


def plan_truncations(owner: DocumentView, history: History, live: Collection[str]) -> tuple[Stage, ...]:
    """Stages that delete the oldest unused revisions beyond the owner's limit; `live`: names of used revisions."""
    limit = owner.count("spec", "revisionHistoryLimit", default=10)
    idle = [revision for revision in history.revisions if revision.name not in live]
    because = "revisionHistoryLimit is exceeded"
    gone = [
        (document.name, _delete_revision(document, because)) for document in idle[: max(0, len(idle) - limit)]
    ]
    return run_each(DELETE, gone)


def _delete_revision(revision: DocumentView, because: str) -> Step:
    return delete_object(CONTROLLER_REVISIONS, revision, because=because)


def _build_data(owner: DocumentView) -> Document:
    return {"spec": {"template": {**owner.spec["template"], "$patch": "replace"}}}


def _compute_digest(owner: DocumentView) -> str:
    collisions = owner.count("status", "collisionCount")
    return hash_text(
        hash_fnv32a(encode_canonical(_build_data(owner)) + (str(collisions).encode() if collisions else b""))
    )


def _build_document(owner: DocumentView, resource: Resource, data: Document, number: int) -> Document:
    digest = _compute_digest(owner)
    labels = (owner.spec["template"].get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{owner.name}-{digest}",
            "labels": {**labels, _HASH: digest},
            "ownerReferences": [build_owner_reference_to(resource, owner)],
        },
        "data": data,
        "revision": number,
    }
