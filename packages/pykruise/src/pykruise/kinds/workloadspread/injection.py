"""Pod of a subset: its node affinity, its tolerations and the subset's patch.

pod + subset ──▶ inject() ──▶ the pod with tolerations, node affinity, the subset's patch, and the annotation

Pure; the input pod is not changed. `try_patch()` applies only the patch: admission of WorkloadSpreads tries it on the
target's template, in the same way as on pods.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.types import Subset
from pykruise.kube.documents import Document
from pykruise.pods.template.subset_placement import add_required, apply_patch, prefer_nodes, require_nodes
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import Matched, read_matched
from pykruise.pods.view.pod_view import PodView


def read_noted_subset(pod: PodView, spread: str) -> str | None:
    """Return the subset in the pod's annotation; None: the pod has no annotation of this WorkloadSpread."""
    matched = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return matched.subset if matched is not None and matched.name == spread and matched.subset else None


def inject(pod: Mapping[str, Any], subset: Subset, matched: Matched) -> Document:
    """Return the pod placed in the subset. Raises PlacementError."""
    placed: Document = {**pod, "spec": _add_placement(pod["spec"], subset)}
    result = try_patch(placed, subset) if subset.patch is not None else placed
    metadata: Mapping[str, Any] = result.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), MATCHED_SPREAD_ANNOTATION: matched.to_text()}
    return {**result, "metadata": {**metadata, "annotations": annotations}}


def try_patch(pod: Mapping[str, Any], subset: Subset) -> Document:
    """Return the pod with the subset's patch. Raises PlacementError when it cannot be merged, or the result is not a
    pod.
    """
    return apply_patch(pod, subset.patch)


def _add_placement(spec: Mapping[str, Any], subset: Subset) -> Document:
    """Add tolerations and node affinity. The result always has affinity.nodeAffinity, even when it is empty."""
    result: Document = dict(spec)
    if subset.tolerations:
        result["tolerations"] = [*(spec.get("tolerations") or ()), *msgspec.to_builtins(subset.tolerations)]
    affinity: Document = dict(spec.get("affinity") or {})
    affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    if subset.preferred_node_selector:
        affinity = prefer_nodes(affinity, msgspec.to_builtins(subset.preferred_node_selector))
    if subset.required_node_selector is not None:
        wanted = msgspec.to_builtins(subset.required_node_selector)
        affinity = require_nodes(affinity, wanted, field=_REQUIRED_FIELD)
    result["affinity"] = affinity
    return result


_REQUIRED_FIELD: Final = "requiredNodeSelector"


def combine_required_terms(terms: Sequence[Mapping[str, Any]] | None, subset: Subset) -> list[Document]:
    """Return the terms of a pod, each combined with the subset's requirements, which must not be empty.

    Raises PlacementError for too many expressions.
    """
    wanted = msgspec.to_builtins(subset.required_node_selector)
    return add_required(terms, wanted, field=_REQUIRED_FIELD)
