"""Rows of the page of other objects: kinds that have neither a rollout nor an end.

document ──▶ build_other_row() ──▶ OtherRow

Pure. The `line` of a row is the headline of `explain` if the kind builds the headline from the status alone. Otherwise
it contains the columns of `kubectl get`.
"""

import msgspec

from pykruise.dashboard.jobs import MOST_WORDS, headline_of
from pykruise.dashboard.rollouts import format_row_id, list_resources_on, owner_of
from pykruise.kinds import find_kind, find_shown
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import Column
from pykruise.pods.probes.api import NODE_POD_PROBES


class OtherRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One object."""

    id: str
    resource: str
    kind: str
    namespace: str
    name: str
    phase: str
    """See RolloutRow."""
    needs_action: bool = False
    owner_kind: str = ""
    owner: str = ""
    line: str = ""
    is_node: bool = False
    """Whether the object is about one node and has that node's name."""
    since: str = ""
    """Creation time, in RFC 3339."""


def list_other_resources() -> tuple[Resource, ...]:
    """Kinds that no other list shows."""
    return list_resources_on("others")


def build_other_row(resource: Resource, document: Document) -> OtherRow:
    """Return the row of an object of one of these kinds."""
    meta = document["metadata"]
    shown = find_shown(resource.group, resource.kind)
    assert shown is not None, f"{resource.kind} declares no display"
    phase = shown.progress_of(document).phase
    owner_kind, owner = owner_of(meta)
    return OtherRow(
        id=format_row_id(resource, meta.get("namespace", ""), meta["name"]),
        resource=str(resource),
        kind=resource.kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        phase=phase,
        needs_action=phase.needs_a_person,
        owner_kind=owner_kind,
        owner=owner,
        is_node=resource == NODE_POD_PROBES,
        line=headline_of(resource, document.get("status") or {}) or _format_columns(resource, document),
        since=str(meta.get("creationTimestamp") or ""),
    )


def _format_columns(resource: Resource, document: Document) -> str:
    """Return `Allowed: 1, Desired: 2`: printer columns with a plain path, without the age, which has its own column."""
    versions = find_kind(resource.kind).versions
    if callable(versions):
        # A kind that embeds templates of other kinds has a rollout, and is not listed here.
        return ""
    columns = next(version.columns for version in versions if version.name == resource.version)
    shown = ((column.name, _format_value(document, column)) for column in columns if column.type != "date")
    return ", ".join(f"{name}: {value}" for name, value in shown if value)[:MOST_WORDS]


def _format_value(document: Document, column: Column) -> str:
    """Return the value of a column; empty if the value is absent, or if the column's path is not only field names."""
    result = get_path(document, *column.json_path.removeprefix(".").split("."))
    return str(result) if isinstance(result, int | str) else ""
