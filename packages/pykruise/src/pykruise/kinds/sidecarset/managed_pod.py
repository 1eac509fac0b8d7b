"""A pod from the view of one of its SidecarSets: its sidecars, whether they run as specified, and whether they can be
upgraded.

PodView + SidecarSetView ──▶ is_managed(), build_managed_pod() ──▶ ManagedPod ──▶ status, upgrade, hot upgrade

Pure. A container that the pod lacks causes no error.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import msgspec

from pykruise.kinds.sidecarset.hashes import Hashes
from pykruise.kinds.sidecarset.metadata_rollout import find_outdated, find_pending, rolls_on_metadata
from pykruise.kinds.sidecarset.sidecar_contents import (
    Sidecar,
    SidecarSetContents,
    list_sidecar_names,
    name_hot_pair,
)
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView, SidecarSetView, has_contents
from pykruise.pods.in_place.images import mean_the_same, parse_image_name
from pykruise.pods.injection_records import (
    InjectionRecord,
    RecordError,
    UpgradeState,
    read_records,
    read_state,
    read_working,
)
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerStatusFacts
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.sidecars import list_injected_sets
from pykruise.pods.workload.options import ROLL_ON_POD_METADATA

RUNNING: Final = "Running"
DIGEST: Final = "@"

Upgradable = Literal["yes", "in flight", "no"]


def is_managed(pod: PodView, sidecar_set: SidecarSetView) -> bool:
    """Whether a pod has the SidecarSet's sidecars and is neither finished nor terminating. The caller must check the
    pod's namespace.
    """
    return (
        pod.is_active
        and sidecar_set.contents is not None
        and sidecar_set.selects(pod.labels)
        and sidecar_set.name in list_injected_sets(pod.annotations)
        and _has_all(pod, sidecar_set.contents)
    )


def _has_all(pod: PodView, contents: SidecarSetContents) -> bool:
    names = {container.name for container in pod.containers}
    return all(
        (container.name in read_working(pod.annotations) and names.issuperset(name_hot_pair(container.name)))
        if container.is_hot
        else container.name in names
        for container in contents.containers
    )


class HotUpgradePair(msgspec.Struct, frozen=True, kw_only=True):
    """The two containers of a hot sidecar in a pod."""

    sidecar: Sidecar
    working: str
    other: str
    other_image: str
    """Image of the other container; empty if the pod lacks this container."""

    @property
    def is_idle(self) -> bool:
        """Whether the other container is idle. If the sidecar declares no empty image, this is unknown, and the result
        is True.
        """
        return not self.sidecar.empty_image or self.other_image == self.sidecar.empty_image


def list_hot_upgrade_pairs(pod: PodView, contents: SidecarSetContents) -> tuple[HotUpgradePair, ...]:
    """Pairs of hot sidecars. Init containers have no pairs, because they cannot be upgraded."""
    hot = [container for container in contents.containers if container.is_hot]
    if not hot:
        return ()
    images = {container.name: container.image for container in pod.containers}
    working = read_working(pod.annotations)
    return tuple(_make_pair(sidecar, working.get(sidecar.name, ""), images) for sidecar in hot)


def _make_pair(sidecar: Sidecar, working: str, images: Mapping[str, str]) -> HotUpgradePair:
    first, second = name_hot_pair(sidecar.name)
    working, other = (first, second) if working == first else (second, first)
    return HotUpgradePair(sidecar=sidecar, working=working, other=other, other_image=images.get(other, ""))


class ManagedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A managed pod with derived facts, computed once for all stages of a plan."""

    pod: PodView
    record: InjectionRecord | None
    """Recorded hash of the SidecarSet; None: the pod has no record, or the record cannot be read."""
    imageless: InjectionRecord | None
    states: Mapping[str, UpgradeState] | None
    """Records of upgrades by SidecarSet; None: the annotation cannot be read."""
    state: UpgradeState | None
    """Record of the upgrades by this SidecarSet; None: the annotation cannot be read."""
    pairs: tuple[HotUpgradePair, ...] = ()
    is_updated: bool
    """Whether the recorded hash is the current one. With the option roll-on-pod-metadata, the pod must also have the
    current annotations.
    """
    is_consistent: bool
    """Whether the pod's status shows that the sidecars run as the pod's spec describes them."""
    is_ready: bool
    upgradable: Upgradable
    restarting: Mapping[str, str] = {}
    """Containers that must restart to read changed annotations, each with its id (option roll-on-pod-metadata)."""

    @property
    def label(self) -> str:
        """`namespace/name`, because pods of one SidecarSet are in many namespaces."""
        return f"{self.pod.namespace}/{self.pod.name}"


def build_managed_pod(pod: PodView, sidecar_set: ReadableSidecarSetView) -> ManagedPod:
    """Compute this SidecarSet's view of the pod."""
    contents = sidecar_set.contents
    record = _find_record(pod, keys.SIDECARSET_HASH_ANNOTATION, sidecar_set.name)
    imageless = _find_record(pod, keys.SIDECARSET_IMAGELESS_ANNOTATION, sidecar_set.name)
    states = read_state(pod.annotations)
    pairs = list_hot_upgrade_pairs(pod, contents)
    names = list_sidecar_names(contents.containers)
    state = states.get(sidecar_set.name, UpgradeState()) if states is not None else None
    rolls = rolls_on_metadata(sidecar_set.annotations)
    outdated = find_outdated(pod.annotations, contents.patch_pod_metadata) if rolls else {}
    restarting = find_pending(pod, sidecar_set.name) if rolls else {}
    return ManagedPod(
        pod=pod,
        record=record,
        imageless=imageless,
        states=states,
        state=state,
        pairs=pairs,
        is_updated=record is not None and record.hash == contents.hashes.full and not outdated,
        is_consistent=is_consistent(pod, names, state) and not restarting,
        is_ready=_is_ready(pod, pairs),
        upgradable=_decide_upgradable(pod, imageless, contents, state, names),
        restarting=restarting,
    )


class ManagedPodCache:
    """Cache of one SidecarSet's pods between plans: only changed pods are computed again.

    All entries are derived from pods and spec, so losing the cache only costs time.
    """

    def __init__(self) -> None:
        self._spec: tuple[str, int, Hashes, str | None] | None = None
        self._known: dict[str, tuple[PodView, ManagedPod | None]] = {}

    def list_managed(self, pods: Iterable[PodView], sidecar_set: SidecarSetView) -> list[ManagedPod]:
        """Pods that the SidecarSet manages, in all namespaces."""
        option = sidecar_set.annotations.get(ROLL_ON_POD_METADATA.annotation)
        spec = (sidecar_set.uid, sidecar_set.generation, sidecar_set.hashes, option)
        known = self._known if spec == self._spec else {}
        fresh: dict[str, tuple[PodView, ManagedPod | None]] = {}
        for pod in pods:
            entry = known.get(pod.uid)
            if entry is None or entry[0] is not pod:
                entry = (pod, _find_managed_pod(pod, sidecar_set))
            fresh[pod.uid] = entry
        self._spec, self._known = spec, fresh
        return [managed for _, managed in fresh.values() if managed is not None]


def _find_managed_pod(pod: PodView, sidecar_set: SidecarSetView) -> ManagedPod | None:
    if not has_contents(sidecar_set) or not is_managed(pod, sidecar_set):
        return None
    return build_managed_pod(pod, sidecar_set)


def _find_record(pod: PodView, key: str, name: str) -> InjectionRecord | None:
    try:
        return read_records(pod.annotations, key).get(name)
    except RecordError:
        return None


def is_consistent(pod: PodView, names: Collection[str], state: UpgradeState | None) -> bool:
    """Whether the named containers run the images of the pod's spec.

    An image with a digest is compared with the image id in the status. For other images, an upgrade has ended when the
    image id differs from the recorded previous id, or the status shows the image of the spec. `state` is the record of
    upgrades; None: it cannot be read.
    """
    if len(pod.containers) != len(pod.container_statuses):
        return False
    for container in pod.containers:
        if container.name not in names:
            continue
        if DIGEST not in container.image:
            return state is not None and not _has_unchanged(pod, names, state)
        status = status_of(pod, container.name)
        if status is None or not _is_digest(status.image_id, container.image):
            return False
    return True


def status_of(pod: PodView, name: str) -> ContainerStatusFacts | None:
    """Status of a container of the pod; None: the pod has no status of this container yet."""
    return next((status for status in pod.container_statuses if status.name == name), None)


def _has_unchanged(pod: PodView, names: Collection[str], state: UpgradeState) -> bool:
    return any(
        _is_unchanged(status_of(pod, container.name), container.image, state)
        for container in pod.containers
        if container.name in names and container.name in state.image_ids
    )


def _is_digest(image_id: str, image: str) -> bool:
    result, wanted = parse_image_name(image_id.rpartition("://")[2]), parse_image_name(image)
    return (result.repository, result.digest) == (wanted.repository, wanted.digest)


def _is_unchanged(status: ContainerStatusFacts | None, image: str, state: UpgradeState) -> bool:
    """Whether a container still runs the previous image. Two tags can have the same image id, so names are compared
    too.
    """
    if status is None:
        return False
    return state.image_ids[status.name] == status.image_id and not mean_the_same(image, status.image)


def _is_ready(pod: PodView, pairs: Collection[HotUpgradePair]) -> bool:
    return pod.phase == RUNNING and pod.has_ready_condition and all(pair.is_idle for pair in pairs)


def _decide_upgradable(
    pod: PodView,
    imageless: InjectionRecord | None,
    contents: SidecarSetContents,
    state: UpgradeState | None,
    names: Collection[str],
) -> Upgradable:
    if imageless is None or imageless.hash != contents.hashes.without_image:
        return "no"
    for status in pod.container_statuses:
        if status.ready and status.name in names and not is_consistent(pod, (status.name,), state):
            return "in flight"
    return "yes"
