"""Revisions of a workload: ReplicaSets of a Deployment, ControllerRevisions of other kinds.

Info, Session ──▶ read_revisions() ──▶ Revision, oldest first      all other functions: pure
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.emptiness import drop_empty
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import group_of
from pykruise.cli.kubectl.pods import read_label_query
from pykruise.cli.kubectl.resources import Info, list_all
from pykruise.cli.kubectl.session import Session
from pykruise.kinds import shown_of
from pykruise.kube.documents import Document, deep_copy, get_path
from pykruise.plans.shown import Shown

CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
NUMBER: Final = "deployment.kubernetes.io/revision"


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A revision of a workload. `content`: the fields that a rollback restores."""

    number: int
    content: Document
    info: Info

    @property
    def name(self) -> str:
        """Name of the object that stores the revision."""
        return self.info.name

    @property
    def cause(self) -> str:
        """Cause of the revision, from the annotation change-cause."""
        annotations: Mapping[str, str] = self.info.document["metadata"].get("annotations") or {}
        return annotations.get(CHANGE_CAUSE, "")


async def read_revisions(session: Session, info: Info) -> list[Revision]:
    """Read the revisions of a workload, oldest first. Raises KubectlError for a kind without revisions."""
    shown = shown_of(info.document)
    if shown is None or not shown.verbs.history:
        kind = info.document.get("kind")
        raise KubectlError(
            f'error retrieving history for "{kind}", no visitor method exists for {{{group_of(info.document)} {kind}}}'
        )
    mapper = await session.read_mapper()
    is_sets = shown.verbs.history == "replicasets"
    served = mapper.find_in_group("apps", "ReplicaSet" if is_sets else "ControllerRevision")
    if served is None:
        raise KubectlError("the API server serves no revisions (apps/v1)")
    selector = _format_revision_selector(info, shown)
    listed = await list_all(session, served, info.namespace, selector=selector)
    return list_revisions(listed, info, shown)


def list_revisions(listed: Iterable[Info], owner: Info, shown: Shown) -> list[Revision]:
    """Revisions of the workload, oldest first."""
    owned = [info for info in listed if _is_revision_of(info, owner, shown)]
    is_sets = shown.verbs.history == "replicasets"
    revisions = [_from_replica_set(info) if is_sets else _from_controller_revision(info) for info in owned]
    return sorted(revisions, key=lambda revision: revision.number)


def _format_revision_selector(info: Info, shown: Shown) -> str:
    if shown.verbs.revision_label:
        return f"{shown.verbs.revision_label}={info.name}"
    return read_label_query(info) or ""


def _is_revision_of(info: Info, owner: Info, shown: Shown) -> bool:
    if shown.verbs.revision_label:
        labels = info.document["metadata"].get("labels") or {}
        return bool(labels.get(shown.verbs.revision_label) == owner.name)
    uid = owner.document["metadata"].get("uid")
    owners = info.document["metadata"].get("ownerReferences") or ()
    return any(ref.get("controller") and ref.get("uid") == uid for ref in owners)


def _from_replica_set(info: Info) -> Revision:
    annotations = info.document["metadata"].get("annotations") or {}
    return Revision(
        number=int(annotations.get(NUMBER, 0)),
        content={"template": info.document["spec"]["template"]},
        info=info,
    )


def _from_controller_revision(info: Info) -> Revision:
    content = get_path(info.document, "data", "spec", default={}) or {}
    return Revision(number=info.document.get("revision", 0), content=_without_directives(content), info=info)


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_directives(part) for name, part in value.items() if name != "$patch"}
    return value


def find_revision(revisions: Sequence[Revision], number: int) -> Revision | None:
    """The revision with this number."""
    return next((revision for revision in revisions if revision.number == number), None)


def read_templates(revision: Revision, shown: Shown) -> list[Document]:
    """Pod templates of a revision."""
    document = {"spec": revision.content}
    templates = [get_path(document, *path.split(".")) for path in shown.templates]
    if not shown.templates:
        templates = [{"spec": revision.content}]
    return [entry for entry in templates if isinstance(entry, dict)]


def format_history_table(revisions: Sequence[Revision]) -> str:
    """Table with the head `REVISION  CHANGE-CAUSE` and a row for each revision."""
    if not revisions:
        return "No rollout history found."
    width = max(len("REVISION"), *(len(str(revision.number)) for revision in revisions)) + 2
    rows = [
        ("REVISION", "CHANGE-CAUSE"),
        *((str(revision.number), revision.cause or "<none>") for revision in revisions),
    ]
    return "".join(f"{number.ljust(width)}{cause}\n" for number, cause in rows)


def list_revision_differences(old: Revision, new: Revision) -> list[str]:
    """Changes between two revisions, a line for each field, without the hash label of a ReplicaSet's template."""
    return list_differences(_without_hash(old), _without_hash(new))


def _without_hash(revision: Revision) -> Document:
    content: Document = deep_copy(dict(revision.content))
    labels = get_path(content, "template", "metadata", "labels")
    if isinstance(labels, dict):
        labels.pop("pod-template-hash", None)
    return content


def list_differences(old: Any, new: Any) -> list[str]:
    """Differences between two values, a line for each field: `path: old → new`.

    An empty field, such as `resources: {}`, is treated like an absent field.
    """
    return _list_differences(drop_empty(old), drop_empty(new), "")


def _list_differences(old: Any, new: Any, path: str) -> list[str]:
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(item for item in new if item not in old)]
        return [
            line
            for name in names
            for line in _list_differences(old.get(name), new.get(name), f"{path}.{name}" if path else name)
        ]
    if _is_named(old) and _is_named(new):
        olds, news = ({item["name"]: item for item in listed} for listed in (old, new))
        names = [*olds, *(item for item in news if item not in olds)]
        return [
            line
            for name in names
            for line in _list_differences(olds.get(name), news.get(name), f"{path}[{name}]")
        ]
    return [f"{path}: {_format_value(old)} → {_format_value(new)}"]


def _is_named(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(entry, dict) and "name" in entry for entry in value)
    )


def _format_value(value: Any) -> str:
    if value is None:
        return "(none)"
    from pykruise.kube.values.go_text import encode_go_json

    return value if isinstance(value, str) else encode_go_json(value)
