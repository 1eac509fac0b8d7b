"""Which SidecarSets put their sidecars into a new pod, and which revision of each.

pod labels + namespace + SidecarSets ──▶ matching_sets() ──▶ those that inject, in their order
SidecarSet + pod labels + revisions  ──▶ chosen_contents() ──▶ what it injects

Pure; the draw that a partition needs comes in as a number.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from pykruise.kinds.sidecarset.contents import Contents, contents_of
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.revisions import find_revision, recorded_hashes
from pykruise.kinds.sidecarset.types import RevisionChoice
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.values.int_or_percent import IntOrPercent, is_percent
from pykruise.pods.workload.revisions import RevisionView

PARTIAL = "Partial"


def candidates(sets: Iterable[SidecarSetView], *, labels: Mapping[str, str]) -> list[SidecarSetView]:
    """Those that mean pods with these labels and inject at present, whatever the namespace; in any order."""
    return [
        one
        for one in sets
        if one.spec is not None
        and not (one.spec.injection_strategy and one.spec.injection_strategy.paused)
        and one.selects(labels)
    ]


def matching_sets(
    sets: Iterable[SidecarSetView],
    *,
    labels: Mapping[str, str],
    namespace: str,
    namespace_labels: Mapping[str, str] | None,
) -> list[SidecarSetView]:
    """Those that inject into such a pod: first those that name the namespace, then the others, each by name.

    `namespace_labels` is None when they cannot be read. A canary that matches takes its base's place.
    """
    found = [
        one for one in candidates(sets, labels=labels) if one.selects_namespace(namespace, namespace_labels)
    ]
    replaced = {one.base for one in found}
    kept = [one for one in found if one.name not in replaced]
    return sorted(kept, key=lambda one: (not one.named_namespaces, one.name))


def chosen_contents(
    one: SidecarSetView,
    *,
    labels: Mapping[str, str],
    revisions: Sequence[RevisionView],
    draw: Callable[[], float],
) -> Contents:
    """What the SidecarSet injects: its spec, or the revision that its injection strategy asks for.

    `revisions` are its own; `draw` gives a number from 0 up to 1. Raises InjectionError.
    """
    assert one.spec is not None
    assert one.contents is not None
    choice = one.spec.revision_choice
    if choice is None or not (choice.revision_name or choice.custom_version):
        return one.contents
    specified = _restored(one, choice, revisions)
    return specified if _wants_specified(one, choice, labels, draw) else one.contents


def _wants_specified(
    one: SidecarSetView, choice: RevisionChoice, labels: Mapping[str, str], draw: Callable[[], float]
) -> bool:
    assert one.spec is not None
    strategy = one.spec.update_strategy
    if choice.policy != PARTIAL or (strategy is not None and strategy.paused):
        return True
    if one.update_selector is not None and not one.update_selector.matches(labels):
        return True
    return _is_in_partition(one, strategy.partition if strategy else None, draw)


def _is_in_partition(one: SidecarSetView, partition: IntOrPercent | None, draw: Callable[[], float]) -> bool:
    """Whether chance leaves this pod at the specified revision. Only a percentage can."""
    if partition is None or isinstance(partition, int):
        return False
    if not is_percent(partition):
        raise InjectionError(
            f"spec.updateStrategy.partition: {partition!r} is neither a whole number nor a percentage",
            sidecarset=one.name,
        )
    share = Fraction(partition.removesuffix("%")) / 100
    return share > 0 and draw() <= share


def _restored(one: SidecarSetView, choice: RevisionChoice, revisions: Sequence[RevisionView]) -> Contents:
    found = find_revision(choice, revisions, sidecarset=one.name)
    if found is None:
        wanted = choice.revision_name or f"custom version {choice.custom_version}"
        raise InjectionError(
            f"spec.injectionStrategy.revision: {wanted} of SidecarSet {one.name} is not stored",
            sidecarset=one.name,
        )
    contents, problem = contents_of(found.template, hashes=recorded_hashes(found), revision=found.name)
    if contents is None:
        raise InjectionError(f"revision {found.name} cannot be read: {problem}", sidecarset=one.name)
    return contents
