"""Pods with the patches of WorkloadSpreads. A trial of these pods shows which patch causes the API server to reject a
pod.

workload, pod, WorkloadSpreads ──▶ list_patched_pods() ──▶ (PodOrigin, pod) for each patch

Pure.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import Document, get_path
from pykruise.kube.patches import PatchError, apply_strategic_merge, find_definition
from pykruise.kube.resources import PODS
from pykruise.plans.pod_steps import PodOrigin


def list_patched_pods(
    workload: Document, pod: Document, spreads: Sequence[Document]
) -> Iterator[tuple[PodOrigin, Document]]:
    """Yield the pod with each patch of the workload's WorkloadSpreads. The webhook does not patch pods in a dry run,
    because this would take a slot of a subset.
    """
    name, kind = workload["metadata"]["name"], workload["kind"]
    for spread in spreads:
        target = get_path(spread, "spec", "targetRef") or {}
        if (target.get("name"), target.get("kind")) != (name, kind):
            continue
        for number, subset in enumerate(get_path(spread, "spec", "subsets") or ()):
            if not (patch := subset.get("patch")):
                continue
            try:
                patched = apply_strategic_merge(pod, patch, definition=find_definition(PODS) or "")
            except PatchError:
                continue  # admission has already reported the error
            yield (
                PodOrigin(WORKLOAD_SPREADS.kind, spread["metadata"]["name"], f"spec.subsets[{number}].patch"),
                patched,
            )
