"""Groups the pods of the workload by subset, and adopts pods without the annotation of the WorkloadSpread.

pods + subsets + nodes ──▶ group_pods() ──▶ version → subset → pods, and the adoptions to write

Pure. A pod's annotation names its subset. A pod that has a node but no annotation belongs to the subset that fits its
node best, among the subsets with room. A pod without a node belongs to no subset yet. If no fitting subset has room, a
pod that is older than the WorkloadSpread still belongs to the subset that fits best, and a newer pod belongs to none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.injection import (
    combine_required_terms,
    read_noted_subset,
    try_patch,
)
from pykruise.kinds.workloadspread.limits import ANY_NUMBER, compute_room
from pykruise.kinds.workloadspread.slots import find_pending_creations
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.types import Subset
from pykruise.kinds.workloadspread.versions import version_of_pod
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.documents import Document, is_same
from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE, matches_term, tolerates
from pykruise.plans.views import NodeView
from pykruise.pods.reasons import ONE_AT_A_TIME, Code
from pykruise.pods.template.metadata import drop_single_pod_keys
from pykruise.pods.template.node_placement import REQUIRED
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import Matched
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

NOWHERE: Final = ""
"""Key for pods that belong to no subset."""

IGNORES_METADATA: Final = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
"""Annotation of a WorkloadSpread: adopted pods get only their annotation, not the metadata of the subset's patch."""

_WITHOUT_LIMIT: Final = 2**31 - 1


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that gets its annotation now."""

    pod: PodView
    subset: str
    labels: Mapping[str, Any] | None
    """Labels of the subset's patch."""
    annotations: Mapping[str, Any]


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """All pods by version and subset. Version: the revision of the workload's template from which the pod was created
    (versions.py). The key NOWHERE contains the pods without a subset.
    """

    versions: Mapping[str, Mapping[str, Sequence[PodView]]]
    adoptions: Mapping[str, Adoption]
    """Adoptions by pod name."""
    unassigned: Mapping[str, Reason]
    """Reason why a pod belongs to no subset, by the name of the pod."""
    unmarked: frozenset[str] = frozenset()
    """Names of pods without the annotation of this WorkloadSpread, whether or not they are adopted now."""
    surplus: frozenset[str] = frozenset()
    """Names of unmarked pods that exceed the limits of all subsets and are newer than the WorkloadSpread. They are not
    changed.
    """

    def list_pods(self, subset: str) -> Iterator[PodView]:
        """Return the pods of a subset, of all versions."""
        for subsets in self.versions.values():
            yield from subsets.get(subset, ())


_GOES_FIRST: Final = "no action is needed: the pod is deleted first at the next scale-down"
_STAYS_OUTSIDE: Final = "no action is needed: the pod stays outside the subsets until it is deleted"


IS_SURPLUS: Final = Reason(
    Code.SURPLUS,
    "every subset is full: the pod stays unchanged",
    "raise maxReplicas in spec.subsets, or add a last subset without it",
)


def group_pods(snapshot: SpreadSnapshot) -> Grouped:
    """Assign every pod to its subset."""
    spread = snapshot.spread
    names = {item.name for item in spread.subsets}
    versions: dict[str, dict[str, list[PodView]]] = {}
    unmarked: list[tuple[str, PodView]] = []
    unassigned: dict[str, Reason] = {}
    for pod in snapshot.pods:
        version = version_of_pod(pod, snapshot.versioned)
        subsets = versions.setdefault(version, {})
        noted = read_noted_subset(pod, spread.name)
        if noted is None:
            unmarked.append((version, pod))
        elif noted in names:
            subsets.setdefault(noted, []).append(pod)
        else:
            subsets.setdefault(NOWHERE, []).append(pod)
            message = f"its subset {noted} no longer exists"
            remedy = f"{_find_remedy(spread)}; or delete these pods {ONE_AT_A_TIME}, so that new pods are"
            unassigned[pod.name] = Reason(Code.NO_SUBSET, message, f"{remedy} assigned to subsets")
    # Pods with the annotation are counted first, because they always stay in their subsets.
    free = {version: _count_free(version, snapshot, subsets) for version, subsets in versions.items()}
    adoptions: dict[str, Adoption] = {}
    unplaced: list[tuple[str, PodView]] = []
    for version, pod in unmarked:
        subset = _choose_subset(pod, snapshot, free[version])
        if isinstance(subset, Reason):
            versions[version].setdefault(NOWHERE, []).append(pod)
            unassigned[pod.name] = subset
            unplaced.append((version, pod))
            continue
        adoptions[pod.name] = _build_adoption(pod, subset, snapshot)
        versions[version].setdefault(subset.name, []).append(pod)
        free[version][subset.name] -= 1
    surplus = [
        pod.name
        for version, pod in unplaced
        if not _has_room(free[version]) and not spread.is_older_than_it(pod)
    ]
    unassigned |= dict.fromkeys(surplus, IS_SURPLUS)
    return Grouped(
        versions=versions,
        adoptions=adoptions,
        unassigned=unassigned,
        unmarked=frozenset(pod.name for _, pod in unmarked),
        surplus=frozenset(surplus),
    )


def _count_free(
    version: str, snapshot: SpreadSnapshot, subsets: Mapping[str, Sequence[PodView]]
) -> Counter[str]:
    """Number of free slots by subset: neither a pod nor an admitted pod that is not created yet occupies them."""
    stored = (snapshot.spread.status.versioned_subset_statuses or {}).get(version) or ()
    entries = {status.name: status for status in stored}
    free: Counter[str] = Counter()
    for subset in snapshot.spread.subsets:
        limit = compute_room(subset, replicas=snapshot.replicas)
        pods = subsets.get(subset.name, ())
        pending = find_pending_creations(entries.get(subset.name), pods)
        room = _WITHOUT_LIMIT if limit == ANY_NUMBER else limit
        free[subset.name] = room - len(pods) - sum(until > snapshot.now for _, _, until in pending)
    return free


def _has_room(free: Mapping[str, int]) -> bool:
    return any(count > 0 for count in free.values())


# ── adoption ─────────────────────────────────────────────────────────────────


def _choose_subset(pod: PodView, snapshot: SpreadSnapshot, free: Mapping[str, int]) -> Subset | Reason:
    """Choose the subset with room that fits the pod's node best, or return why no subset fits. For a pod that is older
    than the WorkloadSpread, a subset without room is chosen if no other subset fits.
    """
    if not pod.node_name:
        return Reason(Code.NO_SUBSET, "it is on no node yet; its node will determine the subset")
    document = snapshot.documents.get(pod.uid)
    if document is None:
        return Reason(Code.NO_SUBSET, "the manager has not read the pod yet")
    node = snapshot.nodes.get(pod.node_name)
    if node is None:
        return Reason(Code.NO_SUBSET, f"its node {pod.node_name} is unknown")
    subsets, remedy = snapshot.spread.subsets, _find_remedy(snapshot.spread)
    best = _choose_fittest(document, node, [subset for subset in subsets if free[subset.name] > 0])
    if best is None and snapshot.spread.is_older_than_it(pod):
        best = _choose_fittest(document, node, subsets)
        if best is None:
            return Reason(Code.NO_SUBSET, f"node {node.name} fits no subset", remedy)
    return best or Reason(Code.NO_SUBSET, f"node {node.name} fits no subset that has room", remedy)


def _find_remedy(spread: SpreadView) -> str:
    return _GOES_FIRST if spread.has_deletion_costs else _STAYS_OUTSIDE


def _choose_fittest(pod: Document, node: NodeView, subsets: Iterable[Subset]) -> Subset | None:
    """Return the subset that fits best; if several subsets fit equally well, return the first of them."""
    best: tuple[_Score, Subset] | None = None
    for subset in subsets:
        score = _score_fit(pod, node, subset)
        if score is not None and (best is None or score > best[0]):
            best = (score, subset)
    return best[1] if best is not None else None


_Score = tuple[int, bool]
"""Sort key: the weight of the preferences that the node meets, then the result of `_is_as_patched`."""


def _score_fit(pod: Document, node: NodeView, subset: Subset) -> _Score | None:
    """Return how well the node fits; None: a pod of the subset cannot run on this node."""
    spec: Mapping[str, Any] = pod["spec"]
    tolerations = [*(spec.get("tolerations") or ()), *msgspec.to_builtins(subset.tolerations or ())]
    hard = [taint for taint in node.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    if not all(tolerates(tolerations, taint) for taint in hard):
        return None
    if subset.required_node_selector is not None:
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms")
        try:
            wanted = combine_required_terms(terms, subset)
        except PlacementError:
            return None
        if not any(matches_term(term, labels=node.labels, name=node.name) for term in wanted):
            return None
    weight: int = sum(
        term["weight"]
        for term in msgspec.to_builtins(subset.preferred_node_selector or ())
        if matches_term(term["preference"], labels=node.labels, name=node.name)
    )
    return weight, _is_as_patched(pod, subset)


def _is_as_patched(pod: Document, subset: Subset) -> bool:
    """Whether the subset has a patch, and the patch would change at most annotations of the pod."""
    if subset.patch is None:
        return False
    try:
        return is_same(_drop_annotations(try_patch(pod, subset)), _drop_annotations(pod))
    except PlacementError:
        return False


def _drop_annotations(pod: Mapping[str, Any]) -> Document:
    metadata = {key: value for key, value in pod["metadata"].items() if key != "annotations"}
    return {**pod, "metadata": metadata}


def _build_adoption(pod: PodView, subset: Subset, snapshot: SpreadSnapshot) -> Adoption:
    """Build the adoption: the pod gets its annotation, and the labels and annotations of the patch. Keys about a single
    pod are left out: a stored patch may contain such a key, for example one that requests the deletion of the pod.
    """
    note = Matched(name=snapshot.spread.name, subset=subset.name).to_text()
    ignored = snapshot.spread.annotations.get(IGNORES_METADATA, "").lower() == "true"
    metadata: Mapping[str, Any] = (
        {} if ignored else (drop_single_pod_keys(subset.patch) or {}).get("metadata") or {}
    )
    return Adoption(
        pod=pod,
        subset=subset.name,
        labels=metadata.get("labels"),
        annotations={**(metadata.get("annotations") or {}), MATCHED_SPREAD_ANNOTATION: note},
    )
