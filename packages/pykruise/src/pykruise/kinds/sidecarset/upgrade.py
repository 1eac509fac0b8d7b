"""New images for the sidecars of one pod: the writes of an upgrade.

ManagedPod ──▶ upgrade_patch() ──▶ a strategic merge patch: images, and the pod's annotations about its sidecars
           ──▶ reset_patch()   ──▶ a patch after a completed hot upgrade: the old container becomes idle
           ──▶ can_be_reset()

Pure. Only images and annotations are written; other fields of the pod do not change.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykruise.kinds.sidecarset.managed_pod import HotUpgradePair, ManagedPod, is_consistent, status_of
from pykruise.kinds.sidecarset.pod_annotations import apply_patches
from pykruise.kinds.sidecarset.sidecar_contents import (
    Sidecar,
    SidecarSetContents,
    list_sidecar_names,
    name_hot_pair,
)
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.injection_records import (
    InjectionRecord,
    RecordError,
    UpgradeState,
    encode_records,
    encode_states,
    encode_working,
    read_records,
    read_working,
)
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView

SETTLED: Final = "0"
"""Value of two annotations while a hot sidecar has an idle container: the version of the idle container, and the
alternative version of the working container.
"""


def upgrade_patch(
    managed: ManagedPod, sidecar_set: ReadableSidecarSetView, *, revision: str, now: Instant
) -> Document:
    """Build the patch that sets the SidecarSet's images and records the upgrade in the pod's annotations.

    `revision` is the name of the current revision. Raises MetadataPatchError when annotations cannot be merged.
    """
    contents = sidecar_set.contents
    pod = managed.pod
    images, versions = _choose_images(managed, contents, version=str(sidecar_set.resource_version))
    annotations = {
        **_make_records(managed, sidecar_set.name, contents, revision=revision, now=now),
        **_make_state(managed, sidecar_set, images, now=now),
        **versions,
    }
    patched = apply_patches(pod.annotations, contents.patch_pod_metadata)
    annotations |= {key: value for key, value in patched.items() if pod.annotations.get(key) != value}
    return _make_patch(pod, annotations, images)


def _make_patch(pod: PodView, annotations: Mapping[str, str], images: Mapping[str, str]) -> Document:
    """Build the patch. Its containers are in the order of the pod, so that the merge does not change this order."""
    body: Document = {"metadata": {"annotations": dict(annotations)}}
    if images:
        changed = [container.name for container in pod.containers if container.name in images]
        body["spec"] = {"containers": [{"name": name, "image": images[name]} for name in changed]}
    return body


def _choose_images(
    managed: ManagedPod, contents: SidecarSetContents, *, version: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the new image of each container whose image changes, and the annotations that hot sidecars need."""
    has = {container.name: container.image for container in managed.pod.containers}
    images: dict[str, str] = {}
    annotations: dict[str, str] = {}
    working = read_working(managed.pod.annotations)
    for sidecar in contents.containers:
        if sidecar.is_hot:
            target, other = _choose_target(managed, sidecar, has)
            if has.get(other) == sidecar.image:
                if has.get(target) not in (sidecar.empty_image, sidecar.image):
                    # The upgrade is rolled back while the other container still has the desired image.
                    images[target] = sidecar.empty_image
                    working[sidecar.name] = other
                    annotations |= {
                        keys.SIDECARSET_WORKING_ANNOTATION: encode_working(working),
                        f"{keys.SIDECARSET_VERSION_PREFIX}{target}": SETTLED,
                        f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{other}": SETTLED,
                    }
                continue
            images[target] = sidecar.image
            working[sidecar.name] = target
            alternative = managed.pod.annotations.get(f"{keys.SIDECARSET_VERSION_PREFIX}{other}", SETTLED)
            annotations |= {
                keys.SIDECARSET_WORKING_ANNOTATION: encode_working(working),
                f"{keys.SIDECARSET_VERSION_PREFIX}{target}": version,
                f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{target}": alternative,
                f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{other}": version,
            }
        elif sidecar.name in has and has[sidecar.name] != sidecar.image:
            images[sidecar.name] = sidecar.image
    return images, annotations


def _choose_target(managed: ManagedPod, sidecar: Sidecar, has: Mapping[str, str]) -> tuple[str, str]:
    """Return the container that gets the image, and the other container of the pair. If only one container of the pair
    serves, the other one gets the image.
    """
    first, second = name_hot_pair(sidecar.name)
    if has.get(first) == sidecar.empty_image:
        return first, second
    if has.get(second) == sidecar.empty_image:
        return second, first
    is_first_serving, is_second_serving = (_is_serving(managed, name) for name in (first, second))
    if is_first_serving != is_second_serving:
        return (second, first) if is_first_serving else (first, second)
    pairs = next(pair for pair in managed.pairs if pair.sidecar.name == sidecar.name)
    return pairs.other, pairs.working


def _is_serving(managed: ManagedPod, name: str) -> bool:
    status = status_of(managed.pod, name)
    return status is not None and status.ready and is_consistent(managed.pod, (name,), managed.state)


def _make_records(
    managed: ManagedPod, name: str, contents: SidecarSetContents, *, revision: str, now: Instant
) -> dict[str, str]:
    """Return the pod's records with the current hash. Records in the older format are converted to the
    current format.
    """
    at = format_time(now)
    full = _read_or_empty(managed, keys.SIDECARSET_HASH_ANNOTATION)
    imageless = _read_or_empty(managed, keys.SIDECARSET_IMAGELESS_ANNOTATION)
    was_legacy = any(record.is_legacy for record in (*full.values(), *imageless.values()))
    record = InjectionRecord(hash=contents.hashes.full, name=name, sidecars=contents.names, updated_at=at)
    full[name] = msgspec.structs.replace(record, revision=revision)
    records = {keys.SIDECARSET_HASH_ANNOTATION: encode_records(_set_dates(full, at))}
    if was_legacy:
        imageless[name] = msgspec.structs.replace(record, hash=contents.hashes.without_image)
        records[keys.SIDECARSET_IMAGELESS_ANNOTATION] = encode_records(_set_dates(imageless, at))
    return records


def _read_or_empty(managed: ManagedPod, key: str) -> dict[str, InjectionRecord]:
    try:
        return read_records(managed.pod.annotations, key)
    except RecordError:
        return {}


def _set_dates(records: Mapping[str, InjectionRecord], at: str) -> dict[str, InjectionRecord]:
    return {
        name: msgspec.structs.replace(record, updated_at=at) if record.is_legacy else record
        for name, record in records.items()
    }


def _make_state(
    managed: ManagedPod, sidecar_set: ReadableSidecarSetView, images: Mapping[str, str], *, now: Instant
) -> dict[str, str]:
    """Return the annotation with the previous images of the changed containers. Every upgrade writes it, even if no
    image changes.
    """
    states = dict(managed.states or {})
    before = states.get(sidecar_set.name) or UpgradeState(
        revision=sidecar_set.hashes.full, updated_at=format_time(now)
    )
    statuses = {status.name: status.image_id for status in managed.pod.container_statuses}
    changed = {name: statuses.get(name, "") for name in images}
    states[sidecar_set.name] = msgspec.structs.replace(before, image_ids={**before.image_ids, **changed})
    return {keys.SIDECARSET_STATE_ANNOTATION: encode_states(states)}


# End of a hot upgrade


def can_be_reset(managed: ManagedPod, sidecar_set: ReadableSidecarSetView) -> bool:
    """Whether the old containers of a hot upgrade can become idle: all other sidecars run as specified, and the pod or
    each of its other containers is ready.
    """
    if not _find_busy_pairs(managed):
        return False
    idle = {pairs.other for pairs in managed.pairs}
    pod = managed.pod
    names = [name for name in list_sidecar_names(sidecar_set.contents.containers) if name not in idle]
    if not is_consistent(pod, names, managed.state):
        return False
    is_ready = pod.phase == "Running" and pod.has_ready_condition
    return is_ready or all(status.ready for status in pod.container_statuses if status.name not in idle)


def _find_busy_pairs(managed: ManagedPod) -> list[HotUpgradePair]:
    return [pair for pair in managed.pairs if not pair.is_idle]


def reset_patch(managed: ManagedPod, sidecar_set: ReadableSidecarSetView, *, now: Instant) -> Document:
    """Build the patch that makes the old containers of a hot upgrade idle."""
    images: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for pairs in _find_busy_pairs(managed):
        images[pairs.other] = pairs.sidecar.empty_image
        annotations[f"{keys.SIDECARSET_VERSION_PREFIX}{pairs.other}"] = SETTLED
        annotations[f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{pairs.working}"] = SETTLED
    return _make_patch(
        managed.pod, {**annotations, **_make_state(managed, sidecar_set, images, now=now)}, images
    )
