"""Pod of a subset: required nodes and the subset's patch.

pod + subset ──▶ inject() ──▶ the pod with tolerations, node affinity, the subset's patch, and the note whose it is

Pure; the pod that comes in is not changed. `tried()` is the patch alone: admission of WorkloadSpreads tries it on
the target's template, exactly as pods get it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.types import Subset
from pykruise.kube.documents import Document
from pykruise.pods.template.subset_placement import REQUIRED, with_patch, with_required
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.pod_view import PodView

PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


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


def subset_noted(pod: PodView, spread: str) -> str | None:
    """The subset that the note on a pod says; None: there is no note of this WorkloadSpread."""
    matched = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return matched.subset if matched is not None and matched.name == spread and matched.subset else None


def inject(pod: Mapping[str, Any], subset: Subset, matched: Matched) -> Document:
    """The pod as one of the subset. Raises PlacementError."""
    placed: Document = {**pod, "spec": _placed(pod["spec"], subset)}
    result = tried(placed, subset) if subset.patch is not None else placed
    metadata: Mapping[str, Any] = result.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), MATCHED_SPREAD_ANNOTATION: matched.text()}
    return {**result, "metadata": {**metadata, "annotations": annotations}}


def tried(pod: Mapping[str, Any], subset: Subset) -> Document:
    """The pod with the subset's patch. Raises PlacementError: it cannot be merged, or gives no pod."""
    return with_patch(pod, subset.patch)


def _placed(spec: Mapping[str, Any], subset: Subset) -> Document:
    """Tolerations and node affinity. The affinity's nodeAffinity is there afterwards, be it empty."""
    result: Document = dict(spec)
    if subset.tolerations:
        result["tolerations"] = [*(spec.get("tolerations") or ()), *msgspec.to_builtins(subset.tolerations)]
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    nodes: Document = dict(affinity.get("nodeAffinity") or {})
    if subset.preferred_node_selector:
        nodes[PREFERRED] = [
            *(nodes.get(PREFERRED) or ()),
            *msgspec.to_builtins(subset.preferred_node_selector),
        ]
    if subset.required_node_selector is not None:
        terms = (nodes.get(REQUIRED) or {}).get("nodeSelectorTerms")
        nodes[REQUIRED] = {"nodeSelectorTerms": required_terms(terms, subset)}
    result["affinity"] = {**affinity, "nodeAffinity": nodes}
    return result


def required_terms(terms: Sequence[Mapping[str, Any]] | None, subset: Subset) -> list[Document]:
    """The terms of a pod, each also with what the subset requires, which has to require something.

    Raises PlacementError for too many expressions.
    """
    wanted = msgspec.to_builtins(subset.required_node_selector)
    return with_required(terms, wanted, field="requiredNodeSelector")
