"""Injection of sidecars into a new pod: the sequence of steps.

pod + InjectionSurroundings ──▶ inject() ──▶ the pod with its sidecars, or None, or InjectionError
                       select SidecarSets ▶ a revision of each ▶ annotations ▶ sidecars ▶ merge them into the pod

Pure. Injects all sidecars or none. The same pod with the same surroundings always gives the same result. The argument
is not changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.matching import choose_contents, select_matching_sets
from pykruise.kinds.sidecarset.pod_annotations import MetadataPatchError, apply_patches
from pykruise.kinds.sidecarset.sidecar_containers import Built, build, build_pod_source, first_of_each
from pykruise.kinds.sidecarset.sidecar_contents import SidecarSetContents
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView, SidecarSetView
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.kube.values.seeded import make_random
from pykruise.pods.injection_records import (
    InjectionRecord,
    RecordError,
    encode_records,
    encode_working,
    join_sets,
    read_records,
    read_working,
)
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import is_active
from pykruise.pods.view.sidecars import list_injected_sets
from pykruise.pods.workload.revisions import RevisionView

MOST_TAKEN: Final = 50_000
"""Maximum number of parts that all sidecars together copy from the containers of one pod. With 30 bytes per part, this
number fills the largest object that a cluster can store (1.5 MB).
"""


class InjectionSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a cluster that the injection into one pod depends on."""

    sets: Sequence[SidecarSetView]
    """All SidecarSets, or at least all SidecarSets that select the pod's labels."""
    namespace: str
    """Namespace of the pod."""
    namespace_labels: Mapping[str, str] | None = None
    """Labels of this namespace; None: they cannot be read."""
    revisions: Mapping[str, Sequence[RevisionView]] = {}
    """Revisions by SidecarSet, for SidecarSets that inject an earlier revision."""
    now: Instant
    seed: int = 0
    """Seed of all random choices."""
    sort_by_name: bool = False
    """Whether the feature gate EnableSortSidecarContainerByName is on."""


def inject(pod: Document, around: InjectionSurroundings) -> Document | None:
    """Inject the sidecars of all SidecarSets that select the pod; None: no SidecarSet does.

    Raises InjectionError when a SidecarSet cannot be injected as its spec requires; the pod must then be rejected.
    """
    if not is_active(pod):
        return None
    labels = labels_of(pod)
    sets = select_matching_sets(
        around.sets, labels=labels, namespace=around.namespace, namespace_labels=around.namespace_labels
    )
    if not sets:
        return None
    contents = {sidecar_set.name: _choose_contents(sidecar_set, labels, around) for sidecar_set in sets}
    annotations = _patch_annotations(annotations_of(pod), contents)
    built = _build_sidecars(_with_annotations(pod, annotations), contents)
    records = _record_sidecars(annotations, contents, built, now=around.now)
    spec = _merge_into_spec(pod.get("spec") or {}, contents, built, sort_by_name=around.sort_by_name)
    return {**_with_annotations(pod, annotations | records), "spec": spec}


def _with_annotations(pod: Document, annotations: Mapping[str, str]) -> Document:
    return {**pod, "metadata": {**(pod.get("metadata") or {}), "annotations": annotations}}


def _choose_contents(
    sidecar_set: ReadableSidecarSetView, labels: Mapping[str, str], around: InjectionSurroundings
) -> SidecarSetContents:
    return choose_contents(
        sidecar_set,
        labels=labels,
        revisions=around.revisions.get(sidecar_set.name, ()),
        draw=lambda: make_random(f"{around.seed}/{sidecar_set.name}").random(),
    )


def _patch_annotations(
    annotations: Mapping[str, str], contents: Mapping[str, SidecarSetContents]
) -> dict[str, str]:
    result = dict(annotations)
    for name, content in contents.items():
        try:
            result = apply_patches(result, content.patch_pod_metadata)
        except MetadataPatchError as error:
            raise InjectionError(f"SidecarSet {name}: {error}", sidecarset=name) from error
    return result


def _build_sidecars(pod: Document, contents: Mapping[str, SidecarSetContents]) -> list[tuple[str, Built]]:
    """Return each built sidecar with the name of its SidecarSet. Within a SidecarSet, init containers are first."""
    source = build_pod_source(pod, contents=contents.values())
    built: list[tuple[str, Built]] = []
    taken = 0
    for name, content in contents.items():
        for sidecar in (*content.init_containers, *content.containers):
            taken += source.count_taken(sidecar)
            if taken > MOST_TAKEN:
                detail = f"sidecars can copy at most {MOST_TAKEN} mounts, devices and resources from a pod"
                raise InjectionError(f"SidecarSet {name}: {detail}", sidecarset=name)
            try:
                built.append((name, build(sidecar, content, source)))
            except InjectionError as error:
                raise InjectionError(f"SidecarSet {name}: {error}", sidecarset=name) from error
    return built


# Annotations about the sidecars


def _record_sidecars(
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
        keys.SIDECARSET_HASH_ANNOTATION: encode_records(full),
        keys.SIDECARSET_IMAGELESS_ANNOTATION: encode_records(imageless),
        keys.SIDECARSET_LIST_ANNOTATION: join_sets([*list_injected_sets(annotations), *contents]),
    }
    working = read_working(annotations)
    for _, one_built in built:
        result |= one_built.annotations
        if one_built.working:
            working[one_built.sidecar.name] = one_built.working
            result[keys.SIDECARSET_WORKING_ANNOTATION] = encode_working(working)
    return result


# Merge into the pod


def _merge_into_spec(
    spec: Mapping[str, Any],
    contents: Mapping[str, SidecarSetContents],
    built: Sequence[tuple[str, Built]],
    *,
    sort_by_name: bool,
) -> Document:
    result: Document = dict(spec)
    init = _place_containers([value for _, value in built if value.sidecar.is_init])
    regular = _place_containers([value for _, value in built if not value.sidecar.is_init])
    init.sort(key=_read_container_name)
    if sort_by_name:
        regular.sort(key=_read_container_name)
    for field, added in (("initContainers", init), ("containers", regular)):
        if added:
            result[field] = _join_containers(spec.get(field) or [], added)
    volumes = _collect_volumes(spec.get("volumes") or [], contents, built)
    if volumes:
        result["volumes"] = volumes
    secrets = [secret for content in contents.values() for secret in content.image_pull_secrets]
    if secrets := first_of_each([*(spec.get("imagePullSecrets") or ()), *secrets]):
        result["imagePullSecrets"] = secrets
    return result


_Placed = tuple[Document, bool]
"""A container, and whether it is placed before the pod's own containers."""


def _place_containers(built: Iterable[Built]) -> list[_Placed]:
    return [(container, item.sidecar.goes_before) for item in built for container in item.containers]


def _read_container_name(placed: _Placed) -> str:
    return str(placed[0]["name"])


def _join_containers(own: Sequence[Document], added: Iterable[_Placed]) -> list[Document]:
    """Add containers. A container with the name of an existing container replaces this container."""
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


def _collect_volumes(
    own: Sequence[Document], contents: Mapping[str, SidecarSetContents], built: Iterable[tuple[str, Built]]
) -> list[Document]:
    """Volumes of the pod, followed by the volumes that sidecars use. If several volumes have the same name, only the
    first is used.
    """
    names = {entry.get("name") for entry in own}
    volumes = list(own)
    for sidecarset, value in built:
        for volume in value.volumes:
            if volume not in names:
                names.add(volume)
                volumes.append(contents[sidecarset].volumes[volume])
    return volumes
