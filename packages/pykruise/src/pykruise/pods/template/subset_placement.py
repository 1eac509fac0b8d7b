"""Parts that a subset adds to pods: required nodes and a patch. All kinds with subsets share this rule.

pod or pod template + patch ──▶ apply_patch() ──▶ the pod or template with the patch, or PlacementError
node selector terms + a term ──▶ add_required() ──▶ terms that each require it too
affinity + a term ──▶ require_nodes(), prefer_nodes() ──▶ the affinity with it

Pure; the arguments are not changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.patches import PatchError, apply_strategic_merge, find_definition
from pykruise.kube.resources import PODS
from pykruise.kube.schemas.zero_values import fill_zero_values
from pykruise.kube.values.counts import format_count
from pykruise.pods.template.metadata import drop_single_pod_keys
from pykruise.pods.template.node_placement import PREFERRED, REQUIRED
from pykruise.pods.template.typed_parts import POD_TEMPLATE, explain_unreadable

_found = find_definition(PODS)
assert _found is not None
_POD: Final = _found

MOST_EXPRESSIONS: Final = 50_000
"""At 30 bytes each, this many expressions fill the largest object that a cluster can store (1.5 MB)."""

_EXPRESSIONS: Final = ("matchExpressions", "matchFields")


class PlacementError(ValueError):
    """Error of a subset that cannot be applied to the pod."""


def apply_patch(pod: Mapping[str, Any], patch: Any) -> Document:
    """Apply a strategic merge patch to a pod or pod template, except for keys about a single pod.

    Raises PlacementError when the patch cannot be merged or the result is not a pod.
    """
    try:
        merged = apply_strategic_merge(pod, drop_single_pod_keys(patch) or {}, definition=_POD)
    except PatchError as error:
        raise PlacementError(f"failed to merge patch: {error}") from error
    result: Document = fill_zero_values(merged, POD_TEMPLATE)
    if problem := explain_unreadable(result, POD_TEMPLATE):
        raise PlacementError(f"the result of the patch is not a valid pod{problem}")
    spec = result.get("spec") or {}
    before = (pod.get("spec") or {}).get("priorityClassName") or ""
    # The priority was computed from the previous class. The API server rejects a pod whose priority and class
    # disagree.
    if "priority" in spec and (spec.get("priorityClassName") or "") != before:
        result["spec"] = {key: value for key, value in spec.items() if key != "priority"}
    return result


def add_required(
    terms: Sequence[Mapping[str, Any]] | None, wanted: Mapping[str, Any], *, field: str
) -> list[Document]:
    """Add the required expressions to every term of a pod. A node must match one of the terms, so it must also match
    the required expressions.

    Raises PlacementError for more expressions than an object can store. `field`: field that requires the expressions.
    """
    if not terms:
        return [dict(wanted)]
    count = len(terms) * sum(len(wanted.get(expression) or ()) for expression in _EXPRESSIONS)
    if count > MOST_EXPRESSIONS:
        raise PlacementError(
            f"{field} would add {format_count(count, 'expression')} to the pod's {format_count(len(terms), 'term')}; "
            f"at most {MOST_EXPRESSIONS} are allowed"
        )
    return [_merge_terms(term, wanted) for term in terms]


def require_nodes(affinity: Mapping[str, Any], term: Mapping[str, Any], *, field: str) -> Document:
    """Return the affinity of a pod whose node must also match the term. Raises PlacementError like `add_required`."""
    nodes: Document = dict(affinity.get("nodeAffinity") or {})
    terms = (nodes.get(REQUIRED) or {}).get("nodeSelectorTerms")
    nodes[REQUIRED] = {"nodeSelectorTerms": add_required(terms, term, field=field)}
    return {**affinity, "nodeAffinity": nodes}


def prefer_nodes(affinity: Mapping[str, Any], terms: Sequence[Mapping[str, Any]]) -> Document:
    """Return the affinity of a pod that also prefers the nodes of these weighted terms."""
    nodes: Document = dict(affinity.get("nodeAffinity") or {})
    nodes[PREFERRED] = [*(nodes.get(PREFERRED) or ()), *terms]
    return {**affinity, "nodeAffinity": nodes}


def _merge_terms(term: Mapping[str, Any], wanted: Mapping[str, Any]) -> Document:
    both: Document = dict(term)
    for field in _EXPRESSIONS:
        if wanted.get(field):
            both[field] = [*(term.get(field) or ()), *wanted[field]]
    return both
