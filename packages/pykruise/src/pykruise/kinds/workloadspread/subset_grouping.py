"""Which subset each pod of the workload is of; pods that were there before the WorkloadSpread are adopted.

pods + subsets + nodes ──▶ grouped() ──▶ version → subset → pods, and the adoptions to be written

Pure. A pod's note says where it is of. One without a note that sits on a node goes to the subset with room that fits
its node best; one that is on no node yet is of none. Where no such subset has room, a pod that is older than the
WorkloadSpread goes to the one that fits best all the same, and one that was made later is left alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.injection import Matched, required_terms, subset_noted, tried
from pykruise.kinds.workloadspread.limits import ANY_NUMBER, room_in
from pykruise.kinds.workloadspread.slots import pending_creations
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.types import Subset
from pykruise.kinds.workloadspread.versions import version_of_pod
from pykruise.kube.documents import Document, same
from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE, matches_term, tolerates
from pykruise.plans.views import NodeView
from pykruise.pods.reasons import ONE_AT_A_TIME, Code
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

NOWHERE: Final = ""
"""The bucket of pods that are of no subset."""

IGNORES_METADATA: Final = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
"""On a WorkloadSpread: adopted pods get the note only, not the metadata of the subset's patch."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_WITHOUT_LIMIT: Final = 2**31 - 1


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that gets a note now."""

    pod: PodView
    subset: str
    labels: Mapping[str, Any] | None
    """Labels of the subset's patch."""
    annotations: Mapping[str, Any]


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """All pods by version and subset; NOWHERE is a subset here."""

    versions: Mapping[str, Mapping[str, Sequence[PodView]]]
    adoptions: Mapping[str, Adoption]
    """Adoptions by pod name."""
    unassigned: Mapping[str, Reason]
    """Pods of no subset, by name → why."""
    unmarked: frozenset[str] = frozenset()
    """Names of pods without a note of this WorkloadSpread, adopted now or not."""
    surplus: frozenset[str] = frozenset()
    """Names of those of them that are more than all subsets take, and were not there before: nothing is written to
    them."""

    def of(self, subset: str) -> Iterator[PodView]:
        """Pods of a subset, all versions together."""
        for subsets in self.versions.values():
            yield from subsets.get(subset, ())


GOES_FIRST: Final = "nothing has to be done: it is deleted first at the next scale-down"
PLACED_ANEW: Final = f"{GOES_FIRST}; or delete such pods {ONE_AT_A_TIME}, to have them placed"


IS_SURPLUS: Final = Reason(Code.SURPLUS, "every subset is full: the pod stays unchanged")


def grouped(snapshot: SpreadSnapshot) -> Grouped:
    """Every pod in its place."""
    spread = snapshot.spread
    names = {item.name for item in spread.subsets}
    versions: dict[str, dict[str, list[PodView]]] = {}
    unmarked: list[tuple[str, PodView]] = []
    unassigned: dict[str, Reason] = {}
    for pod in snapshot.pods:
        version = version_of_pod(pod, snapshot.versioned)
        subsets = versions.setdefault(version, {})
        noted = subset_noted(pod, spread.name)
        if noted is None:
            unmarked.append((version, pod))
        elif noted in names:
            subsets.setdefault(noted, []).append(pod)
        else:
            subsets.setdefault(NOWHERE, []).append(pod)
            message = f"its subset {noted} is not there any more"
            unassigned[pod.name] = Reason(Code.NO_SUBSET, message, PLACED_ANEW)
    # Pods with notes count first: they are in their subsets, wherever the others would fit.
    free = {version: _free(version, snapshot, subsets) for version, subsets in versions.items()}
    adoptions: dict[str, Adoption] = {}
    unplaced: list[tuple[str, PodView]] = []
    for version, pod in unmarked:
        subset = _best(pod, snapshot, free[version])
        if isinstance(subset, Reason):
            versions[version].setdefault(NOWHERE, []).append(pod)
            unassigned[pod.name] = subset
            unplaced.append((version, pod))
            continue
        adoptions[pod.name] = _adoption(pod, subset, snapshot)
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


def _free(version: str, snapshot: SpreadSnapshot, subsets: Mapping[str, Sequence[PodView]]) -> Counter[str]:
    """Places by subset that neither a pod has nor one that was admitted and is to come."""
    stored = (snapshot.spread.status.versioned_subset_statuses or {}).get(version) or ()
    entries = {status.name: status for status in stored}
    free: Counter[str] = Counter()
    for subset in snapshot.spread.subsets:
        limit = room_in(subset, replicas=snapshot.replicas)
        pods = subsets.get(subset.name, ())
        pending = pending_creations(entries.get(subset.name), pods)
        room = _WITHOUT_LIMIT if limit == ANY_NUMBER else limit
        free[subset.name] = room - len(pods) - sum(until > snapshot.now for _, _, until in pending)
    return free


def _has_room(free: Mapping[str, int]) -> bool:
    return any(count > 0 for count in free.values())


# ── adoption ─────────────────────────────────────────────────────────────────


def _best(pod: PodView, snapshot: SpreadSnapshot, free: Mapping[str, int]) -> Subset | Reason:
    """The subset with room that fits best, for a pod from before else any that fits; or why there is none."""
    if not pod.node_name:
        return Reason(Code.NO_SUBSET, "it is on no node yet; then the node says which subset it is of")
    document = snapshot.documents.get(pod.uid)
    if document is None:
        return Reason(Code.NO_SUBSET, "it is looked at in a moment")
    node = snapshot.nodes.get(pod.node_name)
    if node is None:
        return Reason(Code.NO_SUBSET, f"its node {pod.node_name} is not known")
    subsets = snapshot.spread.subsets
    best = _fittest(document, node, [subset for subset in subsets if free[subset.name] > 0])
    if best is None and snapshot.spread.is_older_than_it(pod):
        best = _fittest(document, node, subsets)
        if best is None:
            return Reason(Code.NO_SUBSET, f"node {node.name} fits no subset", GOES_FIRST)
    return best or Reason(Code.NO_SUBSET, f"node {node.name} fits no subset that has room", GOES_FIRST)


def _fittest(pod: Document, node: NodeView, subsets: Iterable[Subset]) -> Subset | None:
    """The first of those that fit best."""
    best: tuple[_Score, Subset] | None = None
    for subset in subsets:
        score = _score(pod, node, subset)
        if score is not None and (best is None or score > best[0]):
            best = (score, subset)
    return best[1] if best is not None else None


_Score = tuple[int, bool]
"""The weight of preferences that the node meets; then whether the patch would change nothing."""


def _score(pod: Document, node: NodeView, subset: Subset) -> _Score | None:
    """How well the node fits; None: a pod of the subset could not be there."""
    spec: Mapping[str, Any] = pod["spec"]
    tolerations = [*(spec.get("tolerations") or ()), *msgspec.to_builtins(subset.tolerations or ())]
    hard = [taint for taint in node.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    if not all(tolerates(tolerations, taint) for taint in hard):
        return None
    if subset.required_node_selector is not None:
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms")
        try:
            wanted = required_terms(terms, subset)
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
    """Whether the patch would change nothing but annotations."""
    if subset.patch is None:
        return False
    try:
        return same(_without_annotations(tried(pod, subset)), _without_annotations(pod))
    except PlacementError:
        return False


def _without_annotations(pod: Mapping[str, Any]) -> Document:
    metadata = {key: value for key, value in pod["metadata"].items() if key != "annotations"}
    return {**pod, "metadata": metadata}


def _adoption(pod: PodView, subset: Subset, snapshot: SpreadSnapshot) -> Adoption:
    """The note, and labels and annotations of the patch; nothing else of its metadata."""
    note = Matched(name=snapshot.spread.name, subset=subset.name).text()
    ignored = snapshot.spread.annotations.get(IGNORES_METADATA, "").lower() == "true"
    metadata: Mapping[str, Any] = {} if ignored else (subset.patch or {}).get("metadata") or {}
    return Adoption(
        pod=pod,
        subset=subset.name,
        labels=metadata.get("labels"),
        annotations={**(metadata.get("annotations") or {}), MATCHED_SPREAD_ANNOTATION: note},
    )
