"""SidecarSets that cannot be injected into the same pods.

spec + the other SidecarSets ──▶ find_conflict_errors() ──▶ field errors, each naming the other SidecarSet

Pure. Two SidecarSets meet when a pod can match both selectors, in a namespace that both select. A pod gets either a
canary or its base, so the two never meet.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pykruise.kinds.sidecarset.pod_annotations import OVERWRITE, RETAIN
from pykruise.kinds.sidecarset.types import SidecarSetSpec
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView, SidecarSetView, has_contents
from pykruise.kube.documents import is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.kube.values.selectors import has_overlap as selectors_overlap
from pykruise.pods.workload.revisions import reduce_to_essence


def find_conflict_errors(
    given: Mapping[str, Any],
    spec: SidecarSetSpec,
    others: Iterable[SidecarSetView],
    *,
    name: str,
    base: str,
) -> Iterator[Cause]:
    """Conflicts with other SidecarSets; empty when a selector of the spec is unreadable.

    `given`: the spec as written. `base`: name of the SidecarSet of which the reviewed SidecarSet is a canary.
    """
    for other in sorted(_find_meeting(given, others, name, base), key=lambda sidecar_set: sidecar_set.name):
        yield from _find_name_errors(given, other.spec, other.name)
        yield from _find_volume_errors(given, other.spec, other.name)
        yield from _find_annotation_errors(spec, other.spec, other.name)


def _find_meeting(
    given: Mapping[str, Any], others: Iterable[SidecarSetView], name: str, base: str
) -> Iterator[ReadableSidecarSetView]:
    try:
        selector = parse_selector(given.get("selector"))
        namespaces = parse_selector(given["namespaceSelector"]) if given.get("namespaceSelector") else None
    except SelectorError:
        return
    if selector.is_empty:
        return  # an empty selector selects nothing here
    for other in others:
        if other.name in (name, base) or not has_contents(other) or other.selector is None:
            continue
        if other.base and other.base == name:
            continue
        if not selectors_overlap(selector, other.selector):
            continue
        if (
            namespaces is not None
            and other.namespace_selector is not None
            and not selectors_overlap(namespaces, other.namespace_selector)
        ):
            continue
        yield other


def _find_name_errors(given: Mapping[str, Any], other: SidecarSetSpec, name: str) -> Iterator[Cause]:
    for field, theirs in (("initContainers", other.init_containers), ("containers", other.containers)):
        taken = {their.get("name") for their in theirs or ()}
        for item in given.get(field) or ():
            if item.get("name") in taken:
                detail = f"container {item.get('name')} already exist in {name}"
                yield make_invalid_error("spec.containers", item.get("name"), detail)


def _find_volume_errors(given: Mapping[str, Any], other: SidecarSetSpec, name: str) -> Iterator[Cause]:
    theirs = {entry.get("name"): entry for entry in other.volumes or ()}
    for volume in given.get("volumes") or ():
        their = theirs.get(volume.get("name"))
        if their is not None and not is_same(_convert_volume(volume), _convert_volume(their)):
            detail = f"volume {volume.get('name')} is in conflict with another definition in {name}"
            yield make_invalid_error("spec.volumes", volume.get("name"), detail)


def _convert_volume(volume: Mapping[str, Any]) -> Any:
    """Return the meaning of a volume, which clients can write in several forms."""
    return reduce_to_essence({"spec": {"volumes": [volume]}})["spec"]["volumes"]


def _find_annotation_errors(spec: SidecarSetSpec, other: SidecarSetSpec, name: str) -> Iterator[Cause]:
    """Yield conflicts about annotations. Two SidecarSets may merge their values into the same annotation. If one of
    them overwrites an annotation that the other one overwrites or merges into, they conflict.
    """
    theirs = {
        key: patch_pod_metadata.patch_policy
        for patch_pod_metadata in other.patch_pod_metadata or ()
        for key in patch_pod_metadata.annotations or {}
    }
    for entry in spec.patch_pod_metadata or ():
        for key in entry.annotations or {}:
            policies = {entry.patch_policy or RETAIN, theirs.get(key) or RETAIN}
            if RETAIN not in policies and OVERWRITE in policies:
                yield make_invalid_error(
                    "spec.patchPodMetadata", key, f"annotation {key} is in conflict with {name}"
                )
