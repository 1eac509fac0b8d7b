"""Pods as the patches of WorkloadSpreads make them, to find the patch with which an API server refuses a pod.

workload, pod, WorkloadSpreads ──▶ patched_pods() ──▶ (Origin, pod) for each patch

Pure.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import Document, get_path
from pykruise.kube.patches import PatchError, apply_strategic_merge, definition_for
from pykruise.kube.resources import PODS
from pykruise.plans.pod_steps import PodOrigin


def patched_pods(
    workload: Document, pod: Document, spreads: Sequence[Document]
) -> Iterator[tuple[PodOrigin, Document]]:
    """The pod with each patch of a WorkloadSpread of the workload. No webhook patches in a dry run, for that would take
    a place in a subset."""
    name, kind = workload["metadata"]["name"], workload["kind"]
    for spread in spreads:
        target = get_path(spread, "spec", "targetRef") or {}
        if (target.get("name"), target.get("kind")) != (name, kind):
            continue
        for number, subset in enumerate(get_path(spread, "spec", "subsets") or ()):
            if not (patch := subset.get("patch")):
                continue
            try:
                patched = apply_strategic_merge(pod, patch, definition=definition_for(PODS) or "")
            except PatchError:
                continue  # admission has said so
            yield (
                PodOrigin(WORKLOAD_SPREADS.kind, spread["metadata"]["name"], f"spec.subsets[{number}].patch"),
                patched,
            )
