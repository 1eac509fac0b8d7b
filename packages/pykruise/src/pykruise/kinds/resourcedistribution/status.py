"""Status of a ResourceDistribution: number of namespaces with a copy, and the failures.

counts, failures, stored status ──▶ status_of() ──▶ the whole status

Pure. The status always contains all six conditions, in OpenKruise's order. Namespaces are sorted, so the same failures
give the same status. While writes are in progress, `succeeded` and `failed` add up to less than `desired`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.resourcedistribution.view import DistributionView
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document

GET_FAILED: Final = "GetResourceFailed"
CREATE_FAILED: Final = "CreateResourceFailed"
UPDATE_FAILED: Final = "UpdateResourceFailed"
DELETE_FAILED: Final = "DeleteResourceFailed"
CONFLICT_OCCURRED: Final = "ConflictOccurred"
NAMESPACE_NOT_EXISTS: Final = "NamespaceNotExists"

CONDITIONS: Final = (
    GET_FAILED,
    CREATE_FAILED,
    UPDATE_FAILED,
    DELETE_FAILED,
    CONFLICT_OCCURRED,
    NAMESPACE_NOT_EXISTS,
)


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Failure in one namespace."""

    condition: str
    namespace: str
    message: str


def status_of(
    view: DistributionView, *, desired: int, succeeded: int, failed: Sequence[Failed], now: Instant
) -> Document:
    """Compute the status. A failed deletion appears only in its condition, not in the count of failed targets.
    `failed`: failures sorted by namespace within each condition.
    """
    stored = read_stored_conditions(view)
    return {
        "observedGeneration": view.generation,
        "desired": desired,
        "succeeded": succeeded,
        "failed": sum(item.condition != DELETE_FAILED for item in failed),
        "conditions": [
            _build_condition(
                type_, [item for item in failed if item.condition == type_], stored.get(type_), now
            )
            for type_ in CONDITIONS
        ],
    }


def read_stored_conditions(view: DistributionView) -> Mapping[str, Document]:
    """Conditions in the stored status, by type."""
    result = view.stored_status.get("conditions")
    return {entry.get("type", ""): entry for entry in result or () if isinstance(entry, dict)}


def _build_condition(type_: str, failed: Sequence[Failed], stored: Document | None, now: Instant) -> Document:
    status = "True" if failed else "False"
    since = (
        stored.get("lastTransitionTime") if stored is not None and stored.get("status") == status else None
    )
    condition: Document = {
        "type": type_,
        "status": status,
        "lastTransitionTime": since or format_time(now),
        "reason": failed[-1].message if failed else "Succeeded",
    }
    if failed:
        condition["failedNamespaces"] = [item.namespace for item in failed]
    return condition
