"""The kinds that plan, explain and simulate know: one line each.

what a person typed ──▶ named()      a manifest ──▶ of_document()      ──▶ Workload (base.py)
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.workloads.base import Around, Counts, Known, Snapshot, Strategy, Workload
from pykruise.cli.insight.workloads.cloneset import CLONE_SET
from pykruise.cli.insight.workloads.daemonset import DAEMON_SET
from pykruise.cli.insight.workloads.statefulset import STATEFUL_SET

__all__ = [
    "CLONE_SET",
    "DAEMON_SET",
    "STATEFUL_SET",
    "WORKLOADS",
    "Around",
    "Counts",
    "Known",
    "Snapshot",
    "Strategy",
    "Workload",
    "among",
    "named",
    "named_among",
    "of_document",
]

WORKLOADS: Sequence[Workload] = (CLONE_SET, DAEMON_SET, STATEFUL_SET)


K = TypeVar("K", bound=Known)


def named(target: str) -> tuple[Workload, str]:
    """Kind and name of `clonesets/web`. Raises CommandError for another kind, or another form."""
    return named_among(WORKLOADS, target)


def named_among(kinds: Sequence[K], target: str) -> tuple[K, str]:
    """The same for these kinds."""
    kind, slash, name = target.partition("/")
    if not slash or not name or "/" in name:
        raise CommandError(f"{target!r}: say kind and name, such as clonesets/web")
    for one in kinds:
        if one.answers_to(kind):
            return one, name
    known = ", ".join(one.resource.plural for one in kinds)
    raise CommandError(f"{kind!r} is no kind that is known here; there is: {known}")


def of_document(document: Mapping[str, Any]) -> Workload:
    """The kind of a manifest. Raises CommandError for one that is not known."""
    return among(WORKLOADS, document)


def among(kinds: Sequence[K], document: Mapping[str, Any]) -> K:
    """The same for these kinds."""
    for one in kinds:
        if one.is_of(document):
            return one
    name = (document.get("metadata") or {}).get("name")
    what = f"{document.get('apiVersion')} {document.get('kind')} {name}"
    known = ", ".join(f"{one.resource.kind} ({one.resource.group})" for one in kinds)
    raise CommandError(f"{what}: no kind that is known here; there is: {known}")
