"""Whether the containers run with their new spec.

pod + UpdateState ──▶ judge_containers() / judge_pod() ──▶ CompletionVerdict: complete, or the reason for waiting

Pure. Evidence, from the strongest to the weakest: the hash with which the kubelet created the container; another
image id; another container id together with the new image name; the name alone. An image id alone cannot distinguish
two tags of one image, and the kubelet reports only one of an image's tags.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.pods.in_place.annotations import AnnotationError
from pykruise.pods.in_place.images import is_running
from pykruise.pods.in_place.pod import (
    GRACE_ANNOTATIONS,
    InPlaceSettings,
    UpdatablePod,
    list_running_containers,
    list_running_statuses,
    read_annotation,
)
from pykruise.pods.in_place.resources import explain_waiting_resize, find_unmet_resources, is_resize_pending
from pykruise.pods.in_place.runtime_meta import (
    ContainerMeta,
    find_lacking_environment,
    is_running_as_specified,
    runtime_meta_of,
)
from pykruise.pods.in_place.state import ImageRecord, UpdateState, state_of
from pykruise.pods.view.containers import ContainerFacts, ContainerStatusFacts

SECOND_TAG_PATIENCE_S: Final = 10.0
"""Seconds after which weak evidence suffices, if the container is ready. There are two kinds of weak evidence:

- The container id has changed, but the status shows the old image under an old name: the new container runs a second
  tag of the image, or the container crashed and restarted before the kubelet saw the change.
- The container shows another image with an unknown name, and the record has no container id, for example because an
  earlier change was still in progress.
"""


class CompletionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the update is complete, the reason why not, and the time at which the verdict may change without an
    event.
    """

    is_complete: bool
    because: str = ""
    look_at: Instant | None = None
    is_broken: bool = False
    """Whether waiting does not help, because an annotation cannot be read."""


_COMPLETE: Final = CompletionVerdict(is_complete=True)


def _make_waiting_verdict(because: str, *, look_at: Instant | None = None) -> CompletionVerdict:
    return CompletionVerdict(is_complete=False, because=because, look_at=look_at)


def judge_pod(pod: UpdatablePod, *, now: Instant, settings: InPlaceSettings) -> CompletionVerdict:
    """Whether the pod has no unfinished in-place update. A pod that was never updated in place is complete."""
    if read_annotation(pod, GRACE_ANNOTATIONS) is not None:
        return _make_waiting_verdict("waits for the end of its grace period")
    try:
        state = state_of(pod)
    except AnnotationError as error:
        return CompletionVerdict(is_complete=False, because=str(error), is_broken=True)
    if state is None:
        return _COMPLETE
    if state.has_next:
        return _make_waiting_verdict("containers wait for a later batch")
    return judge_containers(pod, state, now=now, settings=settings)


def judge_containers(
    pod: UpdatablePod, state: UpdateState, *, now: Instant, settings: InPlaceSettings
) -> CompletionVerdict:
    """Whether all containers that were changed so far run with their new spec."""
    try:
        meta = runtime_meta_of(pod)
    except AnnotationError as error:
        return CompletionVerdict(is_complete=False, because=str(error), is_broken=True)
    if state.update_env_from_metadata and settings.env_from_metadata:
        verdict = _judge_environment(pod, meta)
        if not verdict.is_complete:
            return verdict
    if state.update_resources and settings.vertical_scaling:
        verdict = _check_resources(pod)
        if not verdict.is_complete:
            return verdict
    # The agent reports only regular containers; a sidecar is judged by its image.
    changed_sidecar = any(sidecar.name in state.image_records for sidecar in pod.sidecars)
    if meta is not None and not changed_sidecar and is_running_as_specified(pod, meta):
        return _COMPLETE
    return _judge_images(pod, state, now=now)


def _judge_environment(pod: UpdatablePod, meta: Mapping[str, ContainerMeta] | None) -> CompletionVerdict:
    if meta is None:
        return _make_waiting_verdict("the agent on the node has not reported the containers' environment yet")
    if name := find_lacking_environment(pod, meta):
        return _make_waiting_verdict(f"container {name} has not been restarted with its new environment yet")
    return _COMPLETE


def _check_resources(pod: UpdatablePod) -> CompletionVerdict:
    """Whether the resources of the spec are applied. A container that was recreated for its image may show the new
    resources before the node has granted them. So an update with a pending resize is never complete.
    """
    name = find_unmet_resources(pod) or ("the pod" if is_resize_pending(pod) else "")
    if not name:
        return _COMPLETE
    said = explain_waiting_resize(pod)
    return _make_waiting_verdict(
        f"the node has not provided the resources of {name} yet{said and f' ({said})'}"
    )


def _judge_images(pod: UpdatablePod, state: UpdateState, *, now: Instant) -> CompletionVerdict:
    """Verdict of the first incomplete container, with the earliest time of the next check."""
    live = {container.name: container for container in list_running_containers(pod)}
    statuses = list_running_statuses(pod)
    open_ones = [
        verdict
        for name, record in state.image_records.items()
        if name in live
        and not (
            verdict := judge_image(
                live[name], statuses.get(name), record, changed_at=state.find_change_time(name), now=now
            )
        ).is_complete
    ]
    if not open_ones:
        return _COMPLETE
    times = [verdict.look_at for verdict in open_ones if verdict.look_at is not None]
    # Perhaps time alone is not enough, but one unnecessary check does no harm.
    return msgspec.structs.replace(open_ones[0], look_at=min(times, default=None))


def judge_image(
    container: ContainerFacts,
    status: ContainerStatusFacts | None,
    record: ImageRecord,
    *,
    changed_at: Instant | None,
    now: Instant,
) -> CompletionVerdict:
    """Whether one container runs the image of its spec. SidecarSets store the same records and use this function,
    too.
    """
    if status is None:
        return _make_waiting_verdict(f"container {container.name} has no status yet")
    waiting = f"container {container.name} does not run {container.image} yet"
    if status.waiting:
        waiting += f" ({status.waiting})"
    if not (status.image_id or status.container_id or status.ready):
        return _make_waiting_verdict(waiting)
    runs_other_image = bool(status.image_id) and status.image_id != record.image_id
    runs_other_container = bool(record.container_id) and status.container_id != record.container_id
    if record.container_id and (runs_other_image or not runs_other_container):
        return _COMPLETE if runs_other_image else _make_waiting_verdict(waiting)
    if is_running(status, container.image):
        return _COMPLETE
    if not (runs_other_image or runs_other_container):
        return _make_waiting_verdict(waiting)
    if not status.ready:
        return _make_waiting_verdict(waiting)  # the status may still describe the old container
    settled_at = (changed_at or 0.0) + SECOND_TAG_PATIENCE_S
    return _COMPLETE if now >= settled_at else _make_waiting_verdict(waiting, look_at=settled_at)
