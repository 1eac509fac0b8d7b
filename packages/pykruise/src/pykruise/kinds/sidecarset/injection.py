"""Sidecars put into a new pod: the table of contents.

pod + Surroundings ──▶ inject() ──▶ the pod with its sidecars, or None, or InjectionError
                       which SidecarSets ▶ which revision of each ▶ annotations ▶ sidecars ▶ merged into the pod

Pure: all or nothing, and the same pod with the same surroundings always comes out the same. The pod that goes
in is not changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.injection_records import (
    InjectionRecord,
    RecordError,
    joined_sets,
    read_records,
    read_working,
    records_text,
    working_text,
)
from pykruise.kinds.sidecarset.matching import chosen_contents, matching_sets
from pykruise.kinds.sidecarset.pod_annotations import MetadataPatchError, with_patches
from pykruise.kinds.sidecarset.sidecar_containers import Built, build, first_of_each, pod_source
from pykruise.kinds.sidecarset.sidecar_contents import SidecarSetContents
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.kube.values.seeded import numbers_from
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import is_active
from pykruise.pods.view.sidecars import injected_sets
from pykruise.pods.workload.revisions import RevisionView

MOST_TAKEN: Final = 50_000
"""Most parts that all sidecars together take from the containers of one pod: with 30 bytes each they are as large as an
object of a cluster can be (1.5 MB)."""


class InjectionSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a cluster that injection into one pod depends on."""

    sets: Sequence[SidecarSetView]
    """All SidecarSets, or at least all that mean pods with these labels."""
    namespace: str
    """Namespace of the pod."""
    namespace_labels: Mapping[str, str] | None = None
    """None: they cannot be read."""
    revisions: Mapping[str, Sequence[RevisionView]] = {}
    """Revisions by SidecarSet, for those that inject an earlier revision."""
    now: Instant
    seed: int = 0
    """Seed of all random choices."""
    sort_by_name: bool = False
    """Gate EnableSortSidecarContainerByName."""


def inject(pod: Document, around: InjectionSurroundings) -> Document | None:
    """The pod with the sidecars of all SidecarSets that mean it; None when none does.

    Raises InjectionError when one of them cannot be injected as it asks: the pod is to be refused.
    """
    if not is_active(pod):
        return None
    labels = labels_of(pod)
    sets = matching_sets(
        around.sets, labels=labels, namespace=around.namespace, namespace_labels=around.namespace_labels
    )
    if not sets:
        return None
    contents = {sidecar_set.name: _contents(sidecar_set, labels, around) for sidecar_set in sets}
    annotations = _patched(annotations_of(pod), contents)
    built = _built(pod, contents)
    annotations |= _recorded(annotations, contents, built, now=around.now)
    metadata = {**(pod.get("metadata") or {}), "annotations": annotations}
    spec = _merged(pod.get("spec") or {}, contents, built, sort_by_name=around.sort_by_name)
    return {**pod, "metadata": metadata, "spec": spec}


def _contents(
    sidecar_set: SidecarSetView, labels: Mapping[str, str], around: InjectionSurroundings
) -> SidecarSetContents:
    return chosen_contents(
        sidecar_set,
        labels=labels,
        revisions=around.revisions.get(sidecar_set.name, ()),
        draw=lambda: numbers_from(f"{around.seed}/{sidecar_set.name}").random(),
    )


def _patched(annotations: Mapping[str, str], contents: Mapping[str, SidecarSetContents]) -> dict[str, str]:
    result = dict(annotations)
    for name, content in contents.items():
        try:
            result = with_patches(result, content.patch_pod_metadata)
        except MetadataPatchError as error:
            raise InjectionError(f"SidecarSet {name}: {error}", sidecarset=name) from error
    return result


def _built(pod: Document, contents: Mapping[str, SidecarSetContents]) -> list[tuple[str, Built]]:
    """Parts of each sidecar with its SidecarSet; init containers of every SidecarSet first."""
    source = pod_source(pod, contents=contents.values())
    built: list[tuple[str, Built]] = []
    taken = 0
    for name, content in contents.items():
        for sidecar in (*content.init_containers, *content.containers):
            taken += source.taken_by(sidecar)
            if taken > MOST_TAKEN:
                detail = f"sidecars may take at most {MOST_TAKEN} mounts, devices and resources from a pod"
                raise InjectionError(f"SidecarSet {name}: {detail}", sidecarset=name)
            try:
                built.append((name, build(sidecar, content, source)))
            except InjectionError as error:
                raise InjectionError(f"SidecarSet {name}: {error}", sidecarset=name) from error
    return built


# What the pod says of its sidecars


def _recorded(
    annotations: Mapping[str, str],
    contents: Mapping[str, SidecarSetContents],
    built: Iterable[tuple[str, Built]],
    *,
    now: Instant,
) -> dict[str, str]:
    try:
        full = read_records(annotations, keys.SIDECARSET_HASH_ANNOTATION)
        imageless = read_records(annotations, keys.SIDECARSET_IMAGELESS_ANNOTATION)
    except RecordError as error:
        raise InjectionError(str(error)) from error
    at = format_time(now)
    for name, content in contents.items():
        record = InjectionRecord(hash=content.hashes.full, name=name, sidecars=content.names, updated_at=at)
        full[name] = msgspec.structs.replace(record, revision=content.revision)
        imageless[name] = msgspec.structs.replace(record, hash=content.hashes.without_image)
    result = {
        keys.SIDECARSET_HASH_ANNOTATION: records_text(full),
        keys.SIDECARSET_IMAGELESS_ANNOTATION: records_text(imageless),
        keys.SIDECARSET_LIST_ANNOTATION: joined_sets([*injected_sets(annotations), *contents]),
    }
    working = read_working(annotations)
    for _, one_built in built:
        result |= one_built.annotations
        if one_built.working:
            working[one_built.sidecar.name] = one_built.working
            result[keys.SIDECARSET_WORKING_ANNOTATION] = working_text(working)
    return result


# Merged into the pod


def _merged(
    spec: Mapping[str, Any],
    contents: Mapping[str, SidecarSetContents],
    built: Sequence[tuple[str, Built]],
    *,
    sort_by_name: bool,
) -> Document:
    result: Document = dict(spec)
    init = _placed([value for _, value in built if value.sidecar.is_init])
    regular = _placed([value for _, value in built if not value.sidecar.is_init])
    init.sort(key=_name)
    if sort_by_name:
        regular.sort(key=_name)
    for field, added in (("initContainers", init), ("containers", regular)):
        if added:
            result[field] = _joined(spec.get(field) or [], added)
    volumes = _volumes(spec.get("volumes") or [], contents, built)
    if volumes:
        result["volumes"] = volumes
    secrets = [secret for content in contents.values() for secret in content.image_pull_secrets]
    if secrets := first_of_each([*(spec.get("imagePullSecrets") or ()), *secrets]):
        result["imagePullSecrets"] = secrets
    return result


_Placed = tuple[Document, bool]
"""A container, and whether it goes before the pod's own."""


def _placed(built: Iterable[Built]) -> list[_Placed]:
    return [(container, item.sidecar.goes_before) for item in built for container in item.containers]


def _name(placed: _Placed) -> str:
    return str(placed[0]["name"])


def _joined(own: Sequence[Document], added: Iterable[_Placed]) -> list[Document]:
    """A container of a name that is there takes that one's place."""
    result = list(own)
    places = {value.get("name"): place for place, value in enumerate(result)}
    before: dict[str, Document] = {}
    after: dict[str, Document] = {}
    for container, goes_before in added:
        name = container["name"]
        if name in places:
            result[places[name]] = container
        else:
            (before if goes_before else after)[name] = container
    return [*before.values(), *result, *after.values()]


def _volumes(
    own: Sequence[Document], contents: Mapping[str, SidecarSetContents], built: Iterable[tuple[str, Built]]
) -> list[Document]:
    """Volumes of the pod, then those that sidecars use; the first of a name counts."""
    names = {entry.get("name") for entry in own}
    volumes = list(own)
    for sidecarset, value in built:
        for volume in value.volumes:
            if volume not in names:
                names.add(volume)
                volumes.append(contents[sidecarset].volumes[volume])
    return volumes
