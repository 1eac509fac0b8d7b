"""What a pod of a subset looks like.

pod + subset ──▶ inject() ──▶ the pod with tolerations, node affinity, the subset's patch, and the note whose it is

Pure; the pod that comes in is not changed. `tried()` is the patch alone: admission of WorkloadSpreads tries it on
the target's template, exactly as pods get it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds.workloadspread.types import Subset
from pykruise.kube.documents import Document
from pykruise.kube.patches import PatchError, apply_strategic_merge, definition_for
from pykruise.kube.resources import PODS
from pykruise.pods.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.template_shape import shape_problem

__all__ = ["InjectionError", "Matched", "inject", "read_matched", "tried"]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_found = definition_for(PODS)
assert _found is not None
_POD: Final = _found


MOST_EXPRESSIONS: Final = 50_000
"""With 30 bytes each they are as large as an object of a cluster can be (1.5 MB)."""

_EXPRESSIONS: Final = ("matchExpressions", "matchFields")


class InjectionError(ValueError):
    """A patch cannot be applied to the pod."""


class Matched(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The note on a pod: of which WorkloadSpread and subset it is."""

    name: str = ""
    subset: str = ""
    uid: str = ""
    """Under which its place was noted, if it had no name then."""

    def text(self) -> str:
        """As it stands in the annotation."""
        return msgspec.json.encode(self).decode()


def read_matched(text: str | None) -> Matched | None:
    """The note of an annotation; None: there is none, or it cannot be read."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Matched)
    except msgspec.DecodeError:
        return None


def inject(pod: Mapping[str, Any], subset: Subset, matched: Matched) -> Document:
    """The pod as one of the subset. Raises InjectionError."""
    placed: Document = {**pod, "spec": _placed(pod.get("spec") or {}, subset)}
    found = tried(placed, subset) if subset.patch is not None else placed
    metadata: Mapping[str, Any] = found.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), MATCHED_SPREAD_ANNOTATION: matched.text()}
    return {**found, "metadata": {**metadata, "annotations": annotations}}


def tried(pod: Mapping[str, Any], subset: Subset) -> Document:
    """The pod with the subset's patch. Raises InjectionError: it cannot be merged, or gives no pod."""
    try:
        found = apply_strategic_merge(pod, subset.patch or {}, definition=_POD)
    except PatchError as error:
        raise InjectionError(f"failed to merge patch: {error}") from error
    if problem := shape_problem({"spec": {"template": found}}):
        raise InjectionError(f"patch gives no pod: {problem.removeprefix('spec.template.')}")
    spec = found.get("spec") or {}
    before = (pod.get("spec") or {}).get("priorityClassName") or ""
    # The number was worked out of the class before; a pod whose two do not fit is refused.
    if "priority" in spec and (spec.get("priorityClassName") or "") != before:
        found["spec"] = {key: value for key, value in spec.items() if key != "priority"}
    return found


def _placed(spec: Mapping[str, Any], subset: Subset) -> Document:
    """Tolerations and node affinity. The affinity's nodeAffinity is there afterwards, be it empty."""
    found: Document = dict(spec)
    if subset.tolerations:
        found["tolerations"] = [*(spec.get("tolerations") or ()), *_plain(subset.tolerations)]
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    nodes: Document = dict(affinity.get("nodeAffinity") or {})
    if subset.preferred_node_selector:
        nodes[PREFERRED] = [*(nodes.get(PREFERRED) or ()), *_plain(subset.preferred_node_selector)]
    if subset.required_node_selector is not None:
        terms = (nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
        nodes[REQUIRED] = {"nodeSelectorTerms": required_terms(terms, subset)}
    found["affinity"] = {**affinity, "nodeAffinity": nodes}
    return found


def required_terms(terms: list[Mapping[str, Any]], subset: Subset) -> list[Document]:
    """The terms of a pod, each also with what the subset requires: one of the terms must hold, so this is an AND.

    Raises InjectionError for more expressions than an object of a cluster can hold.
    """
    wanted: Document = _plain(subset.required_node_selector) if subset.required_node_selector else {}
    if not terms:
        return [wanted]
    count = len(terms) * sum(len(wanted.get(field) or ()) for field in _EXPRESSIONS)
    if count > MOST_EXPRESSIONS:
        raise InjectionError(
            f"requiredNodeSelector would add {count} expressions to the pod's {len(terms)} terms; "
            f"at most {MOST_EXPRESSIONS} fit an object"
        )
    return [_both(term, wanted) for term in terms]


def _both(term: Mapping[str, Any], wanted: Mapping[str, Any]) -> Document:
    found: Document = dict(term)
    for field in _EXPRESSIONS:
        if wanted.get(field):
            found[field] = [*(term.get(field) or ()), *wanted[field]]
    return found


def _plain(value: Any) -> Any:
    """As JSON: what the API calls its fields."""
    return orjson.loads(msgspec.json.encode(value))
