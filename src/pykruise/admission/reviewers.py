"""Who reviews what: the webhooks of every kind, by their names, as rules an API server can follow.

kinds/<kind>/admission.py (functions) ──▶ reviewers() ──▶ the sandbox (asks in process)
"""

from collections.abc import Callable

from pykruise.kinds.cloneset.admission import mutate_cloneset, validate_cloneset
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import ReviewRule
from pykruise.kube.resources import Resource

__all__ = ["reviewers"]


def reviewers() -> tuple[ReviewRule, ...]:
    """The rules of every kind. Names are those of OpenKruise's webhooks; subresources are not reviewed."""
    return (
        ReviewRule(
            name="mcloneset.kb.io",
            reviewer=mutate_cloneset,
            mutating=True,
            wants=_writes_of(CLONE_SETS, "CREATE", "UPDATE"),
        ),
        ReviewRule(
            name="vcloneset.kb.io",
            reviewer=validate_cloneset,
            mutating=False,
            wants=_writes_of(CLONE_SETS, "CREATE", "UPDATE", "DELETE"),
        ),
    )


def _writes_of(resource: Resource, *operations: str) -> Callable[[Resource, str, str], bool]:
    def wants(reviewed: Resource, subresource: str, operation: str) -> bool:
        return (
            not subresource
            and operation in operations
            and (reviewed.group, reviewed.plural) == (resource.group, resource.plural)
        )

    return wants
