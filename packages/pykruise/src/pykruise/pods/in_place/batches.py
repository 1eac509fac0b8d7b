"""Select the containers that change now and the ones that change later, by launch priority.

pod + UpdateSpec + UpdateState ──▶ find_next_batch() ──▶ Batch (the changes to make now, the state afterwards)

Pure. Containers that were started in an order are updated in that order: the ones with the highest priority first,
the next ones when these are ready. Containers without a priority change with the first batch. Containers whose
environment reads the same label or annotation change together, because the key has only one value.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from pykruise.kube.clock import Instant
from pykruise.pods.in_place.completion import judge_image
from pykruise.pods.in_place.pod import (
    InPlaceSettings,
    UpdatablePod,
    list_resizable,
    list_running_containers,
    list_running_statuses,
)
from pykruise.pods.in_place.resources import keep_differences
from pykruise.pods.in_place.state import BatchRecord, ImageRecord, UpdateState
from pykruise.pods.in_place.update_spec import WHOLE_POD, RefMetadata, ResourceChange, UpdateSpec
from pykruise.pods.view.containers import ContainerFacts


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that are made together, by container, in the order of the pod's spec."""

    images: Mapping[str, str] = {}
    resources: Mapping[str, ResourceChange] = {}
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    state: UpdateState
    """The state to store with these changes."""


def drop_present_changes(pod: UpdatablePod, spec: UpdateSpec, settings: InPlaceSettings) -> UpdateSpec:
    """`spec` without changes that the pod already has, so that its containers are not restarted for them.

    Containers that the pod does not have are left out too.
    """
    live = list_resizable(pod)
    resources = {
        name: rest
        for name, change in (spec.resources if settings.vertical_scaling else {}).items()
        if name in live and (rest := keep_differences(live[name], change))
    }
    return msgspec.structs.replace(
        spec,
        images={
            name: image for name, image in spec.images.items() if name in live and live[name].image != image
        },
        resources=resources,
        ref_metadata={name: ref for name, ref in spec.ref_metadata.items() if name in live and ref},
    )


def find_next_batch(
    pod: UpdatablePod, spec: UpdateSpec, state: UpdateState, *, now: Instant, settings: InPlaceSettings
) -> Batch:
    """Changes of `spec` to make now. The records keep the image ids from before the change."""
    wanted = drop_present_changes(pod, spec, settings)
    waiting = [part for name, part in list_resizable(pod).items() if name in wanted.container_names]
    chosen = _choose_first_batch(waiting, wanted.ref_metadata)
    now_names = [container.name for container in waiting if container.name in chosen]
    images = {name: wanted.images[name] for name in now_names if name in wanted.images}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for name in now_names:
        ref = wanted.ref_metadata.get(name, RefMetadata())
        labels |= ref.labels
        annotations |= ref.annotations
    later = wanted.container_names - chosen
    after: UpdateState = msgspec.structs.replace(
        state,
        image_records={**state.image_records, **_record_images(pod, images, state, now=now)},
        next_images=_select_named(wanted.images, later),
        next_ref_metadata=_select_named(wanted.ref_metadata, later),
        next_resources=_select_named(wanted.resources, later),
        required_ready=tuple(sorted(chosen - {WHOLE_POD})) if later else (),
        batches=(*state.batches, BatchRecord(at=now, containers=tuple(sorted(chosen - {WHOLE_POD})))),
    )
    return Batch(
        images=images,
        resources={name: wanted.resources[name] for name in now_names if name in wanted.resources},
        labels=labels,
        annotations=annotations,
        state=after,
    )


T = TypeVar("T")


def _select_named(entries: Mapping[str, T], names: frozenset[str]) -> dict[str, T]:
    return {name: entry for name, entry in entries.items() if name in names}


def _choose_first_batch(
    waiting: Sequence[ContainerFacts], ref_metadata: Mapping[str, RefMetadata]
) -> frozenset[str]:
    """Select the containers of the first batch."""
    priorities = [container.launch_priority for container in waiting if container.launch_priority is not None]
    highest = max(priorities, default=None)
    chosen = {container.name for container in waiting if container.launch_priority in (None, highest)}
    while more := _find_sharing_containers(chosen, ref_metadata):
        chosen |= more
    return frozenset(chosen)


def _find_sharing_containers(chosen: set[str], ref_metadata: Mapping[str, RefMetadata]) -> set[str]:
    """Select containers outside `chosen` that read a label or annotation that changes with a chosen container."""
    refs = [ref for name, ref in ref_metadata.items() if name in chosen]
    labels = {key for ref in refs for key in ref.labels}
    annotations = {key for ref in refs for key in ref.annotations}
    return {
        name
        for name, ref in ref_metadata.items()
        if name not in chosen and (labels & ref.labels.keys() or annotations & ref.annotations.keys())
    }


def _record_images(
    pod: UpdatablePod, images: Mapping[str, str], state: UpdateState, *, now: Instant
) -> dict[str, ImageRecord]:
    """Create records for the containers whose image changes now."""
    statuses = list_running_statuses(pod)
    live = {container.name: container for container in list_running_containers(pod)}
    records: dict[str, ImageRecord] = {}
    for name in images:
        status = statuses.get(name)
        if status is None:
            # Perhaps the status is not reported yet: without a record the update would not wait for the new image.
            records[name] = ImageRecord()
            continue
        earlier = state.image_records.get(name)
        is_settled = (
            earlier is None
            or judge_image(
                live[name], status, earlier, changed_at=state.find_change_time(name), now=now
            ).is_complete
        )
        # Perhaps an earlier change has not replaced this container yet. If the new change reverts the earlier one, the
        # kubelet may keep the container. Only a container without an open change is certain to be replaced.
        records[name] = ImageRecord(
            image_id=status.image_id, container_id=status.container_id if is_settled else ""
        )
    return records
