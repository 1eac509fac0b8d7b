"""Next writes to a pod for its in-place update, or the reason for waiting.

pod + UpdateSpec ──▶ start()     ──▶ the writes that begin the update
pod              ──▶ find_next_step() ──▶ Continue (writes) | Waiting (why, until when) | Complete | Broken

Pure. A simple update is three writes: a condition that takes the pod out of service, one patch with images, labels and
annotations, and the condition that returns the pod to service. If no container restarts, only the patch is written. A
change of resources adds a resize; each further batch of containers, and the end of a grace period, add a patch. The pod
stores the whole state of its update, so any manager can continue at any point, and repeating a write changes nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.in_place.annotations import AnnotationError
from pykruise.pods.in_place.batches import Batch, drop_present_changes, find_next_batch
from pykruise.pods.in_place.completion import judge_containers
from pykruise.pods.in_place.grace import compute_grace_end, encode_grace, grace_of
from pykruise.pods.in_place.pod import (
    GRACE_ANNOTATIONS,
    STATE_ANNOTATIONS,
    InPlaceSettings,
    PodPatch,
    UpdatablePod,
    list_running_statuses,
    read_annotation,
)
from pykruise.pods.in_place.resources import is_restarting, resize_body
from pykruise.pods.in_place.state import UpdateState, encode_state, state_of
from pykruise.pods.in_place.update_spec import WHOLE_POD, UpdateSpec, add_pending, merge_metadata
from pykruise.pods.lifecycle.ready_condition import compute_ready_after
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view import keys
from pykruise.pods.view.names import shorten_hash

RESIZE: Final = "resize"
START_REASON = "StartInPlaceUpdate"

_LATER_BATCH = '"nextContainer'
"""Part of a state's text while some containers still have to change."""


class Continue(msgspec.Struct, frozen=True, kw_only=True):
    """The update continues with these writes, in this order."""

    writes: tuple[PodPatch, ...]
    because: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The update continues when the pod changes, or at `look_at`."""

    because: str
    since: Instant | None = None
    look_at: Instant | None = None


class Complete(msgspec.Struct, frozen=True, kw_only=True):
    """The update has nothing left to do. `conditions` return the pod to service if necessary.

    They are entries for a patch of `pods/status`. The patch must carry the resourceVersion of the pod that was read,
    because a new update may just have begun. Labels (the next lifecycle state) can be part of the same patch.
    """

    conditions: tuple[Document, ...] = ()


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """The update cannot continue automatically. A new target revision starts a new update."""

    problem: str


NextStep = Continue | Waiting | Complete | Broken


def takes_out_of_service(pod: UpdatablePod, spec: UpdateSpec, *, settings: InPlaceSettings) -> bool:
    """Whether `spec` takes the pod out of service: the pod has the readiness gate for it, and a container restarts.
    Changes that the pod already has are ignored.
    """
    return keys.IN_PLACE_READY in pod.readiness_gates and is_restarting_containers(
        pod, spec, settings=settings
    )


def is_restarting_containers(pod: UpdatablePod, spec: UpdateSpec, *, settings: InPlaceSettings) -> bool:
    """Whether `spec` restarts a container of the pod. Changes that the pod already has are ignored."""
    return _restarts_any(
        pod, drop_present_changes(pod, add_pending(spec, _find_pending_changes(pod)), settings)
    )


def start(
    pod: UpdatablePod,
    spec: UpdateSpec,
    *,
    labels: Mapping[str, str],
    now: Instant,
    settings: InPlaceSettings,
    metadata: Mapping[str, Any] | None = None,
) -> tuple[PodPatch, ...]:
    """Return the writes that begin an update of the pod, in this order and each only if needed: the resize (only a dry
    run if it restarts a container), the condition that takes the pod out of service, the resize after a dry run, and
    the patch of the pod. The API server may reject the resize; then the pod must not leave service (_ask_for_resize).

    `labels` name the target revision in the form that the kind writes. `metadata`: further labels and annotations for
    the same write (the lifecycle state). Changes that an earlier unfinished update left open are included.
    """
    whole = add_pending(spec, _find_pending_changes(pod))
    wanted = drop_present_changes(pod, whole, settings)
    state = _make_state(pod, wanted, now=now, settings=settings)
    is_disruptive = _restarts_any(pod, wanted)
    writes: list[PodPatch] = []
    if is_disruptive:
        asks, wanted = _ask_for_resize(pod, wanted, settings)
        writes += asks
        if keys.IN_PLACE_READY in pod.readiness_gates:
            writes.append(_make_not_ready_patch(pod, now=now))
    extra = {**(metadata or {}), "labels": {**labels, **((metadata or {}).get("labels") or {})}}
    if spec.grace_seconds > 0 and is_disruptive:
        annotations = {
            keys.IN_PLACE_STATE_ANNOTATION: encode_state(state),
            keys.IN_PLACE_GRACE_ANNOTATION: encode_grace(wanted),
        }
        because = f"leaves service {spec.grace_seconds} s before it is updated to {spec.revision}"
        body = {"metadata": merge_metadata(extra, {"annotations": _without_others(pod, annotations)})}
        return (*writes, PodPatch(body=body, because=because))
    because = f"updated in place to {spec.revision}"
    writes += _make_batch_writes(pod, wanted, state, extra=extra, because=because, now=now, settings=settings)
    return _with_check(tuple(writes)) if _has_unreported_image(pod, wanted) else tuple(writes)


def _ask_for_resize(
    pod: UpdatablePod, wanted: UpdateSpec, settings: InPlaceSettings
) -> tuple[tuple[PodPatch, ...], UpdateSpec]:
    """Return the resize of all containers as the first write of an update that takes the pod out of service, and the
    changes that are left. If the resize were rejected later, the pod would leave service and return again and again.

    A resize that restarts nothing is carried out. All other resizes are sent as dry runs, and remain among the changes
    that are left.
    """
    if not (wanted.resources and settings.uses_resize):
        return (), wanted
    restarts = _resize_restarts(pod, wanted)
    because = f"updated in place to {wanted.revision}: resources"
    resize = PodPatch(
        subresource=RESIZE,
        body={"spec": resize_body(wanted.resources)},
        because=f"{because}, before it leaves service" if restarts else because,
        is_dry_run=restarts,
    )
    return (resize,), wanted if restarts else msgspec.structs.replace(wanted, resources={})


def find_next_step(pod: UpdatablePod, *, now: Instant, settings: InPlaceSettings) -> NextStep:
    """Return the next step of the pod's update; for a pod without an update, Complete. Plans rarely call this function
    for pods at rest (is_at_rest).
    """
    try:
        if any(pod.annotations.get(key) for key in GRACE_ANNOTATIONS):
            return _end_grace(pod, now=now, settings=settings)
        if any(key in pod.annotations for key in GRACE_ANNOTATIONS):
            return _drop_grace(pod, "the grace annotation is empty")
        state = state_of(pod)
        if state is None:
            return Complete(conditions=list_ready_conditions(pod, now=now))
        verdict = judge_containers(pod, state, now=now, settings=settings)
    except AnnotationError as error:
        return Broken(problem=str(error))
    if verdict.is_broken:
        return Broken(problem=verdict.because)
    if not verdict.is_complete:
        since = state.batches[-1].at if state.batches else state.started_at
        return Waiting(because=verdict.because, since=since, look_at=verdict.look_at)
    if state.has_next:
        return _start_next_batch(pod, state, now=now, settings=settings)
    return Complete(conditions=list_ready_conditions(pod, now=now))


def is_at_rest(pod: UpdatablePod) -> bool:
    """Whether `find_next_step` certainly has nothing to write to the pod. Does not parse the pod's annotations.

    True for nearly all pods at nearly all times, so a plan over ten thousand pods examines only a few. A pod in the
    middle of an update (lifecycle state Updating) is never at rest.
    """
    if pod.labels.get(keys.STATE_LABEL) == LifecycleState.UPDATING:
        return False
    if list_ready_conditions(pod, now=0.0):
        return False
    state = read_annotation(pod, STATE_ANNOTATIONS)
    has_later_batch = state is not None and _LATER_BATCH in state
    return not has_later_batch and not any(key in pod.annotations for key in GRACE_ANNOTATIONS)


def list_ready_conditions(pod: UpdatablePod, *, now: Instant) -> tuple[Document, ...]:
    """`InPlaceUpdateReady=True` without reason or message; empty if the pod lacks the gate, or needs no change."""
    if keys.IN_PLACE_READY not in pod.readiness_gates:
        return ()
    old = next((condition for condition in pod.conditions if condition.type == keys.IN_PLACE_READY), None)
    entry: Document = {"type": keys.IN_PLACE_READY, "status": "True"}
    if old is None or old.status != "True":
        entry["lastTransitionTime"] = format_time(now)
    elif not (old.reason or old.message):
        return ()
    # The entry is merged into the stored one: a field that must be removed is set to null.
    if old is not None and old.reason:
        entry["reason"] = None
    if old is not None and old.message:
        entry["message"] = None
    return (entry,)


# Start of an update


def _find_pending_changes(pod: UpdatablePod) -> UpdateSpec | None:
    """Changes that an unfinished update left open. Annotations that cannot be read count as empty."""
    try:
        state = state_of(pod)
    except AnnotationError:
        state = None
    try:
        grace = grace_of(pod)
    except AnnotationError:
        grace = None
    update_spec = state.next_spec if state is not None else None
    return add_pending(grace, update_spec) if grace is not None else update_spec


def _make_state(
    pod: UpdatablePod, wanted: UpdateSpec, *, now: Instant, settings: InPlaceSettings
) -> UpdateState:
    """Create the state of a new update. If the last update is unfinished, the new state also has its image records and
    flags.
    """
    state = UpdateState(
        revision=wanted.revision,
        started_at=now,
        update_env_from_metadata=wanted.update_env_from_metadata,
        update_images=bool(wanted.images),
        update_resources=bool(wanted.resources),
    )
    try:
        old = state_of(pod)
    except AnnotationError:
        return state
    if old is None or judge_containers(pod, old, now=now, settings=settings).is_complete:
        return state
    return msgspec.structs.replace(
        state,
        image_records=old.image_records,
        update_env_from_metadata=state.update_env_from_metadata or old.update_env_from_metadata,
        update_images=state.update_images or bool(old.image_records),
        update_resources=state.update_resources or old.update_resources,
    )


def _has_unreported_image(pod: UpdatablePod, wanted: UpdateSpec) -> bool:
    """Whether the status does not report the image of a container whose image changes.

    The record of this container is then empty. If the status reported the old image later, it would be mistaken for the
    new image.
    """
    statuses = list_running_statuses(pod)
    return any((status := statuses.get(name)) is None or not status.image_id for name in wanted.images)


def _restarts_any(pod: UpdatablePod, wanted: UpdateSpec) -> bool:
    """Whether a container restarts; `wanted` must not contain changes that the pod already has."""
    return bool(wanted.images or wanted.ref_metadata) or _resize_restarts(pod, wanted)


def _resize_restarts(pod: UpdatablePod, wanted: UpdateSpec) -> bool:
    """Whether the changes of resources restart a container, according to its resize policies."""
    live = {container.name: container for container in pod.containers}
    changes = ((live[name], change) for name, change in wanted.resources.items() if name != WHOLE_POD)
    return any(is_restarting(container, change) for container, change in changes)


def _make_not_ready_patch(pod: UpdatablePod, *, now: Instant) -> PodPatch:
    """Patch that takes the pod out of service. Written even if the view already shows the condition, which may have
    been reverted since.
    """
    old = next((condition for condition in pod.conditions if condition.type == keys.IN_PLACE_READY), None)
    entry: Document = {"type": keys.IN_PLACE_READY, "status": "False", "reason": START_REASON}
    if old is None or old.status != "False":
        entry["lastTransitionTime"] = format_time(now)
    if old is not None and old.message:
        entry["message"] = None
    conditions = [entry, *compute_ready_after(pod, entry, now=now)]
    return PodPatch(
        subresource="status",
        body={"status": {"conditions": conditions}},
        because="leaves service to be updated in place",
    )


# Next steps of an update


def _end_grace(pod: UpdatablePod, *, now: Instant, settings: InPlaceSettings) -> NextStep:
    spec, state = grace_of(pod), state_of(pod)
    if spec is None:
        return _drop_grace(pod, "the grace annotation is empty")
    if state is None:
        return Broken(
            problem=f"the pod is in a grace period, but lacks the annotation {keys.IN_PLACE_STATE_ANNOTATION}"
        )
    if shorten_hash(pod.labels.get(keys.REVISION_LABEL, "")) != shorten_hash(spec.revision):
        return _drop_grace(
            pod, f"its grace period was for {spec.revision}, but its label names another revision"
        )
    look_at = compute_grace_end(state.started_at, seconds=spec.grace_seconds, now=now)
    if look_at is not None:
        because = f"out of service for {spec.grace_seconds} s before it is updated to {spec.revision}"
        return Waiting(because=because, since=state.started_at, look_at=look_at)
    because = f"its grace period has ended; updated in place to {spec.revision}"
    wanted = drop_present_changes(pod, spec, settings)
    writes = _make_batch_writes(pod, wanted, state, extra={}, because=because, now=now, settings=settings)
    return Continue(writes=_with_check(writes), because=because)


def _drop_grace(pod: UpdatablePod, because: str) -> Continue:
    body: Document = {"metadata": {"annotations": _make_nulls(pod, GRACE_ANNOTATIONS)}}
    return Continue(writes=(PodPatch(body=body, because=because, checked=True),), because=because)


def _start_next_batch(
    pod: UpdatablePod, state: UpdateState, *, now: Instant, settings: InPlaceSettings
) -> NextStep:
    ready = {status.name for status in list_running_statuses(pod).values() if status.ready}
    unready = [name for name in state.required_ready if name not in ready]
    if unready:
        since = state.batches[-1].at if state.batches else state.started_at
        return Waiting(
            because=f"waits until {', '.join(unready)} is ready; then the next containers are updated",
            since=since,
        )
    because = f"updates the next containers to {state.revision}"
    writes = _make_batch_writes(
        pod, state.next_spec, state, extra={}, because=because, now=now, settings=settings
    )
    return Continue(writes=_with_check(writes), because=because)


def _with_check(writes: tuple[PodPatch, ...]) -> tuple[PodPatch, ...]:
    """Make the first write, and the dry runs before it, require the resourceVersion that was read. The later writes use
    the response to the first one.
    """
    first = next((number for number, write in enumerate(writes) if not write.is_dry_run), 0)
    checked = (msgspec.structs.replace(write, checked=True) for write in writes[: first + 1])
    return (*checked, *writes[first + 1 :])


# Writes


def _make_batch_writes(
    pod: UpdatablePod,
    wanted: UpdateSpec,
    state: UpdateState,
    *,
    extra: Mapping[str, Any],
    because: str,
    now: Instant,
    settings: InPlaceSettings,
) -> tuple[PodPatch, ...]:
    """Writes of the next batch, the resize first. If the resize were rejected after the pod got its new revision
    label, nothing would request it again. The drawback: if the process dies between the two writes and the target is
    then reverted, the resize stays.
    """
    batch = find_next_batch(pod, wanted, state, now=now, settings=settings)
    patch = (wanted.metadata_patch or {}).get("metadata") or {}
    own = {
        "labels": dict(batch.labels),
        "annotations": {
            **batch.annotations,
            **_without_others(pod, {keys.IN_PLACE_STATE_ANNOTATION: encode_state(batch.state)}),
        },
    }
    body: Document = {"metadata": merge_metadata(merge_metadata(patch, extra), own)}
    containers = _build_containers(pod, batch, with_resources=not settings.uses_resize)
    sidecars = [
        {"name": sidecar.name, "image": batch.images[sidecar.name]}
        for sidecar in pod.sidecars
        if sidecar.name in batch.images
    ]
    if containers or sidecars:
        body["spec"] = {
            **({"containers": containers} if containers else {}),
            **({"initContainers": sidecars} if sidecars else {}),
        }
    write = PodPatch(body=body, because=because)
    if not (batch.resources and settings.uses_resize):
        return (write,)
    resize = PodPatch(
        subresource=RESIZE, body={"spec": resize_body(batch.resources)}, because=f"{because}: resources"
    )
    return (resize, write)


def _build_containers(pod: UpdatablePod, batch: Batch, *, with_resources: bool) -> list[Document]:
    """Entries of containers in the order of the pod, so that merging keeps the order."""
    containers: list[Document] = []
    for container in pod.containers:
        entry: Document = {"name": container.name}
        if container.name in batch.images:
            entry["image"] = batch.images[container.name]
        if with_resources and (change := batch.resources.get(container.name)):
            entry["resources"] = {bound: dict(amounts) for bound, amounts in change.items()}
        if len(entry) > 1:
            containers.append(entry)
    return containers


def _without_others(pod: UpdatablePod, annotations: Mapping[str, str]) -> Document:
    """The annotations, with nulls for this engine's other annotations that the pod must not keep."""
    old = (keys.LEGACY_IN_PLACE_STATE_ANNOTATION, *GRACE_ANNOTATIONS)
    return {**_make_nulls(pod, old), **annotations}


def _make_nulls(pod: UpdatablePod, names: Iterable[str]) -> Document:
    return {key: None for key in names if key in pod.annotations}
