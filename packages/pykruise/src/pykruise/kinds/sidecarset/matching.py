"""Selection of the SidecarSets that inject sidecars into a new pod, and of the revision of each.

pod labels + namespace + SidecarSets ──▶ select_matching_sets() ──▶ SidecarSets that inject, in their order
SidecarSet + pod labels + revisions  ──▶ choose_contents() ──▶ the contents that it injects

Pure; the caller provides the random number that a partition needs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.revisions import find_revision, read_recorded_hashes
from pykruise.kinds.sidecarset.sidecar_contents import SidecarSetContents, contents_of
from pykruise.kinds.sidecarset.types import RevisionChoice
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView, SidecarSetView, has_contents
from pykruise.kube.values.int_or_percent import IntOrPercent, is_percent
from pykruise.pods.workload.revisions import RevisionView

PARTIAL = "Partial"


def select_candidates(
    sets: Iterable[SidecarSetView], *, labels: Mapping[str, str]
) -> list[ReadableSidecarSetView]:
    """SidecarSets that select pods with these labels and inject now, in any namespace, unsorted."""
    return [
        sidecar_set
        for sidecar_set in sets
        if has_contents(sidecar_set)
        and not (sidecar_set.spec.injection_strategy and sidecar_set.spec.injection_strategy.paused)
        and sidecar_set.selects(labels)
    ]


def select_matching_sets(
    sets: Iterable[SidecarSetView],
    *,
    labels: Mapping[str, str],
    namespace: str,
    namespace_labels: Mapping[str, str] | None,
) -> list[ReadableSidecarSetView]:
    """SidecarSets that inject into such a pod: first SidecarSets that name the namespace, then all others; each group
    is sorted by name.

    `namespace_labels`: None if they cannot be read. A matching canary replaces its base.
    """
    sidecar_sets = [
        candidate
        for candidate in select_candidates(sets, labels=labels)
        if candidate.selects_namespace(namespace, namespace_labels)
    ]
    replaced = {sidecar_set.base for sidecar_set in sidecar_sets}
    kept = [sidecar_set for sidecar_set in sidecar_sets if sidecar_set.name not in replaced]
    return sorted(kept, key=lambda sidecar_set: (not sidecar_set.named_namespaces, sidecar_set.name))


def choose_contents(
    sidecar_set: ReadableSidecarSetView,
    *,
    labels: Mapping[str, str],
    revisions: Sequence[RevisionView],
    draw: Callable[[], float],
) -> SidecarSetContents:
    """Contents that the SidecarSet injects: its spec, or the revision that its injection strategy requests.

    `revisions`: those of the SidecarSet. `draw` returns a random number from 0 up to 1. Raises InjectionError.
    """
    choice = sidecar_set.spec.revision_choice
    if choice is None or not choice.names_revision:
        return sidecar_set.contents
    specified = _restore_contents(sidecar_set, choice, revisions)
    return specified if _wants_specified(sidecar_set, choice, labels, draw) else sidecar_set.contents


def _wants_specified(
    sidecar_set: ReadableSidecarSetView,
    choice: RevisionChoice,
    labels: Mapping[str, str],
    draw: Callable[[], float],
) -> bool:
    strategy = sidecar_set.spec.update_strategy
    if choice.policy != PARTIAL or (strategy is not None and strategy.paused):
        return True
    if sidecar_set.update_selector is not None and not sidecar_set.update_selector.matches(labels):
        return True
    return _is_in_partition(sidecar_set, strategy.partition if strategy else None, draw)


def _is_in_partition(
    sidecar_set: SidecarSetView, partition: IntOrPercent | None, draw: Callable[[], float]
) -> bool:
    """Decide at random whether this pod gets the specified revision. The percentage in the partition is the
    probability; without a percentage the pod does not get it.
    """
    if partition is None or isinstance(partition, int):
        return False
    if not is_percent(partition):
        raise InjectionError(
            f"spec.updateStrategy.partition: {partition!r} is neither a whole number nor a percentage",
            sidecarset=sidecar_set.name,
        )
    share = Fraction(partition.removesuffix("%")) / 100
    return share > 0 and draw() <= share


def _restore_contents(
    sidecar_set: SidecarSetView, choice: RevisionChoice, revisions: Sequence[RevisionView]
) -> SidecarSetContents:
    revision = find_revision(choice, revisions, sidecarset=sidecar_set.name)
    if revision is None:
        wanted = choice.revision_name or f"custom version {choice.custom_version}"
        raise InjectionError(
            f"spec.injectionStrategy.revision: {wanted} of SidecarSet {sidecar_set.name} is not stored",
            sidecarset=sidecar_set.name,
        )
    contents, problem = contents_of(
        revision.template, hashes=read_recorded_hashes(revision), revision=revision.name
    )
    if contents is None:
        raise InjectionError(
            f"revision {revision.name} cannot be read: {problem}", sidecarset=sidecar_set.name
        )
    return contents
