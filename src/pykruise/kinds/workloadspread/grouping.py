"""Which subset each pod of the workload is of; pods that were there before the WorkloadSpread are adopted.

pods + subsets + nodes ──▶ grouped() ──▶ version → subset → pods, and the adoptions to be written

Pure. A pod's note says where it is of. One without a note that sits on a node goes to the subset that fits its
node best; one that is on no node yet is of none.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds.workloadspread.injection import (
    InjectionError,
    Matched,
    read_matched,
    required_terms,
    tried,
)
from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.snapshot import Snapshot
from pykruise.kinds.workloadspread.types import Subset
from pykruise.kinds.workloadspread.versions import version_of
from pykruise.kube.documents import Document, same
from pykruise.kube.node_rules import NO_EXECUTE, NO_SCHEDULE, matches_term, tolerates
from pykruise.plans.sources import NodeView
from pykruise.pods.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.views import PodView

__all__ = ["IGNORES_METADATA", "NOWHERE", "Adoption", "Grouped", "grouped"]

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
    labels: Mapping[str, Any] = {}
    annotations: Mapping[str, Any] = {}


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """All pods by version and subset; NOWHERE is a subset here."""

    versions: Mapping[str, Mapping[str, Sequence[PodView]]]
    adoptions: Mapping[str, Adoption]
    """By name of the pod."""
    nowhere: Mapping[str, str]
    """Pods of no subset, by name → why."""

    def of(self, subset: str) -> Iterator[PodView]:
        """Pods of a subset, all versions together."""
        for subsets in self.versions.values():
            yield from subsets.get(subset, ())


def grouped(snapshot: Snapshot) -> Grouped:
    """Every pod in its place."""
    spread = snapshot.spread
    names = {one.name for one in spread.subsets}
    versions: dict[str, dict[str, list[PodView]]] = {}
    homeless: list[tuple[str, PodView]] = []
    nowhere: dict[str, str] = {}
    for pod in snapshot.pods:
        version = _version(pod, snapshot)
        subsets = versions.setdefault(version, {})
        noted = _noted(pod, spread.name)
        if noted is None:
            homeless.append((version, pod))
        elif noted in names:
            subsets.setdefault(noted, []).append(pod)
        else:
            subsets.setdefault(NOWHERE, []).append(pod)
            nowhere[pod.name] = f"its subset {noted} is not there any more"
    # Pods with notes count first: they are in their subsets, wherever the others would fit.
    free = {version: _free(snapshot, subsets) for version, subsets in versions.items()}
    adoptions: dict[str, Adoption] = {}
    for version, pod in homeless:
        found = _best(pod, snapshot, free[version])
        if isinstance(found, str):
            versions[version].setdefault(NOWHERE, []).append(pod)
            nowhere[pod.name] = found
            continue
        adoptions[pod.name] = _adoption(pod, found, snapshot)
        versions[version].setdefault(found.name, []).append(pod)
        free[version][found.name] -= 1
    return Grouped(versions=versions, adoptions=adoptions, nowhere=nowhere)


def _version(pod: PodView, snapshot: Snapshot) -> str:
    kind = pod.controller.kind if pod.controller is not None else ""
    return version_of(pod.labels, owner_kind=kind, versioned=snapshot.versioned)


def _noted(pod: PodView, name: str) -> str | None:
    """The subset that the note says; None: there is no note of this WorkloadSpread."""
    found = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return found.subset if found is not None and found.name == name and found.subset else None


def _free(snapshot: Snapshot, subsets: Mapping[str, Sequence[PodView]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in snapshot.spread.subsets:
        try:
            limit = limit_of(one, replicas=snapshot.replicas)
        except LimitError:
            limit = 0
        room = _WITHOUT_LIMIT if limit == ANY_NUMBER else limit
        found[one.name] = room - len(subsets.get(one.name, ()))
    return found


# ── adoption ─────────────────────────────────────────────────────────────────


def _best(pod: PodView, snapshot: Snapshot, free: Mapping[str, int]) -> Subset | str:
    """The subset that fits best; or why there is none."""
    if not pod.node_name:
        return "it is on no node yet; then the node says which subset it is of"
    document = snapshot.documents.get(pod.uid)
    if document is None:
        return "it is looked at in a moment"
    node = snapshot.nodes.get(pod.node_name)
    if node is None:
        return f"its node {pod.node_name} is not known"
    best: tuple[int, Subset] | None = None
    for subset in snapshot.spread.subsets:
        score = _score(document, node, subset, has_room=free[subset.name] > 0)
        if score is not None and (best is None or score > best[0]):
            best = (score, subset)
    return best[1] if best is not None else f"node {node.name} fits no subset"


def _score(pod: Document, node: NodeView, subset: Subset, *, has_room: bool) -> int | None:
    """How well the node fits; None: a pod of the subset could not be there.

    100 for each point of weight of preferences, 10 for a patch that would change nothing, 1 for room.
    """
    spec: Mapping[str, Any] = pod.get("spec") or {}
    tolerations = [*(spec.get("tolerations") or ()), *_plain(subset.tolerations or ())]
    hard = [taint for taint in node.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    if not all(tolerates(tolerations, taint) for taint in hard):
        return None
    if subset.required_node_selector is not None:
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
        try:
            wanted = required_terms(terms, subset)
        except InjectionError:
            return None
        if not any(matches_term(term, labels=node.labels, name=node.name) for term in wanted):
            return None
    weight: int = sum(
        term["weight"]
        for term in _plain(subset.preferred_node_selector or ())
        if matches_term(term["preference"], labels=node.labels, name=node.name)
    )
    return 100 * weight + 10 * _is_as_patched(pod, subset) + has_room


def _is_as_patched(pod: Document, subset: Subset) -> bool:
    """Whether the patch would change nothing but annotations."""
    if subset.patch is None:
        return False
    try:
        return same(_without_annotations(tried(pod, subset)), _without_annotations(pod))
    except InjectionError:
        return False


def _without_annotations(pod: Mapping[str, Any]) -> Document:
    metadata = {key: value for key, value in (pod.get("metadata") or {}).items() if key != "annotations"}
    return {**pod, "metadata": metadata}


def _adoption(pod: PodView, subset: Subset, snapshot: Snapshot) -> Adoption:
    """The note, and labels and annotations of the patch; nothing else of its metadata."""
    note = Matched(name=snapshot.spread.name, subset=subset.name).text()
    ignored = snapshot.spread.annotations.get(IGNORES_METADATA, "").lower() == "true"
    metadata: Mapping[str, Any] = {} if ignored else (subset.patch or {}).get("metadata") or {}
    return Adoption(
        pod=pod,
        subset=subset.name,
        labels=metadata.get("labels") or {},
        annotations={**(metadata.get("annotations") or {}), MATCHED_SPREAD_ANNOTATION: note},
    )


def _plain(value: Any) -> Any:
    return orjson.loads(msgspec.json.encode(value))
