"""SidecarSets that injected sidecars into a pod, and the sidecar images that in-place updates replaced.

Pure, without imports of other kinds. Indexes, injection and upgrades use it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykruise.kube.cache.remembering import remember
from pykruise.pods.view import keys

REMEMBERED: Final = 1024
"""Size of the cache of parsed annotations: many pods have equal ones."""


def list_injected_sets(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the SidecarSets in a pod's annotation, sorted, without duplicates."""
    listed = annotations.get(keys.SIDECARSET_LIST_ANNOTATION, "")
    return tuple(sorted({name for name in listed.split(",") if name})) if listed else ()


class _Status(msgspec.Struct, rename="camel"):
    image_id: str = msgspec.field(name="imageID", default="")


class _State(msgspec.Struct, rename="camel"):
    last_container_statuses: dict[str, _Status | None] | None = None


def read_replaced_image_ids(annotations: Mapping[str, str]) -> Mapping[str, str] | None:
    """Image ids of sidecars before their last in-place update, by container; None if the annotation cannot be read."""
    text = annotations.get(keys.SIDECARSET_STATE_ANNOTATION)
    return _parse_image_ids(text) if text else {}


@remember(entries=REMEMBERED, longest=4_096)
def _parse_image_ids(text: str) -> Mapping[str, str] | None:
    try:
        states = msgspec.json.decode(text, type=dict[str, _State | None])
    except msgspec.DecodeError:
        return None
    return {
        container: status.image_id
        for state in states.values()
        if state is not None
        for container, status in (state.last_container_statuses or {}).items()
        if status is not None and status.image_id
    }
