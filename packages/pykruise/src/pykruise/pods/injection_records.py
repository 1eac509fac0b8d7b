"""Annotations of pods about SidecarSets: the injected hash, and the changes of an upgrade.

annotation text ──▶ read_records(), read_state(), read_working() ──▶ values
values          ──▶ encode_records(), … ──▶ annotation text with the same bytes as OpenKruise's
annotations     ──▶ find_injecting_set(), list_injecting_sets() ──▶ SidecarSets that define parts of the pod

Pure. An older form of records, `{"<sidecarset>": "<hash>"}`, can be read too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.cache.remembering import remember
from pykruise.kube.values.go_text import escape_html
from pykruise.pods.view import keys

REMEMBERED: Final = 8192
"""Size of the cache of parsed texts: pods of one workload have equal texts, and every plan needs them."""


class RecordError(ValueError):
    """An annotation has an invalid form."""


class InjectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of one SidecarSet in a pod."""

    hash: str
    name: str = ""
    """Name of the SidecarSet; empty in the older form."""
    sidecars: tuple[str, ...] | None = None
    updated_at: str | None = None
    """Time in RFC 3339 format."""
    revision: str = ""
    """Name of the ControllerRevision."""

    @property
    def is_legacy(self) -> bool:
        """Whether the record contains only the hash."""
        return not self.name


class UpgradeState(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that upgrades of one SidecarSet made."""

    revision: str = ""
    updated_at: str = ""
    image_ids: Mapping[str, str] = {}
    """Container → the image id that it ran before the change; empty if the id is unknown."""


def _parse_object(text: str, key: str) -> dict[str, Any]:
    try:
        result = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RecordError(f"annotation {key} is not JSON: {error}") from error
    if not isinstance(result, dict):
        raise RecordError(f"annotation {key} is not a JSON object")
    return result


def read_records(annotations: Mapping[str, str], key: str) -> dict[str, InjectionRecord]:
    """Parse the records in an annotation, by SidecarSet; empty when it is absent or empty. Raises RecordError."""
    text = annotations.get(key)
    return dict(_parse_records(text, key)) if text else {}


@remember(entries=REMEMBERED, longest=1_024)
def _parse_records(text: str, key: str) -> Mapping[str, InjectionRecord]:
    return {name: _parse_record(item, name, key) for name, item in _parse_object(text, key).items()}


def _parse_record(item: Any, name: str, key: str) -> InjectionRecord:
    if isinstance(item, str):
        return InjectionRecord(hash=item)
    if not isinstance(item, dict) or not isinstance(item.get("hash", ""), str):
        raise RecordError(
            f"annotation {key}: the entry of {name} is neither a hash nor an object with a hash"
        )
    sidecars = item.get("sidecarList")
    updated = item.get("updateTimestamp")
    revision = item.get("controllerRevision")
    return InjectionRecord(
        hash=item.get("hash", ""),
        name=str(item.get("sidecarSetName") or name),
        sidecars=tuple(map(str, sidecars)) if isinstance(sidecars, list) else None,
        updated_at=updated if isinstance(updated, str) else None,
        revision=revision if isinstance(revision, str) else "",
    )


def encode_records(records: Mapping[str, InjectionRecord]) -> str:
    """Encode the records as an annotation. A record of the older form is written in the newer form."""
    return _to_text({name: _build_record_document(name, records[name]) for name in sorted(records)})


def _to_text(value: Mapping[str, Any]) -> str:
    """Encode JSON with Go's bytes. Fast, because every created pod writes this annotation twice."""
    return escape_html(orjson.dumps(value).decode())


def _build_record_document(name: str, record: InjectionRecord) -> dict[str, Any]:
    document: dict[str, Any] = {
        "updateTimestamp": record.updated_at,
        "hash": record.hash,
        "sidecarSetName": record.name or name,
        "sidecarList": None if record.sidecars is None else list(record.sidecars),
    }
    if record.revision:
        document["controllerRevision"] = record.revision
    return document


def read_state(annotations: Mapping[str, str]) -> Mapping[str, UpgradeState] | None:
    """Parse the upgrades of a pod, by SidecarSet; None if the annotation cannot be read."""
    text = annotations.get(keys.SIDECARSET_STATE_ANNOTATION)
    return _parse_states(text) if text else {}


@remember(entries=REMEMBERED, longest=1_024)
def _parse_states(text: str) -> Mapping[str, UpgradeState] | None:
    try:
        states = _parse_object(text, keys.SIDECARSET_STATE_ANNOTATION)
        return {name: _parse_state(item) for name, item in states.items()}
    except (RecordError, AttributeError, TypeError):
        return None


def _parse_state(item: dict[str, Any]) -> UpgradeState:
    statuses = item.get("lastContainerStatuses") or {}
    return UpgradeState(
        revision=str(item.get("revision") or ""),
        updated_at=str(item.get("updateTimestamp") or ""),
        image_ids={name: str((status or {}).get("imageID") or "") for name, status in statuses.items()},
    )


def list_injecting_sets(annotations: Mapping[str, str]) -> Sequence[str]:
    """Names of the SidecarSets whose sidecars a pod has, sorted. Unreadable records count as absent."""
    return sorted(_read_known(annotations))


def find_injecting_set(annotations: Mapping[str, str], container: str) -> str:
    """Name of the SidecarSet that defines a container of a pod; empty if no SidecarSet is known to define it. The
    two containers of a hot sidecar have the sidecar's name with `-1` and `-2`.
    """
    names = {container, container.removesuffix("-1"), container.removesuffix("-2")}
    records = _read_known(annotations)
    return next((name for name in sorted(records) if names & {*(records[name].sidecars or ())}), "")


def find_container_origin(annotations: Mapping[str, str], container: str) -> str:
    """Object other than the pod's owner that defines a container: `SidecarSet mesh`; empty if the owner defines it."""
    name = find_injecting_set(annotations, container)
    return f"SidecarSet {name}" if name else ""


def _read_known(annotations: Mapping[str, str]) -> Mapping[str, InjectionRecord]:
    try:
        return read_records(annotations, keys.SIDECARSET_HASH_ANNOTATION)
    except RecordError:
        return {}


def encode_states(states: Mapping[str, UpgradeState]) -> str:
    """Encode the upgrades as an annotation."""
    return _to_text({name: _build_state_document(states[name]) for name in sorted(states)})


def _build_state_document(state: UpgradeState) -> dict[str, Any]:
    return {
        "revision": state.revision,
        "updateTimestamp": state.updated_at or None,
        "lastContainerStatuses": {
            name: {"imageID": state.image_ids[name]} if state.image_ids[name] else {}
            for name in sorted(state.image_ids)
        },
    }


def read_working(annotations: Mapping[str, str]) -> dict[str, str]:
    """Hot sidecar → its working container. Unreadable entries count as absent."""
    text = annotations.get(keys.SIDECARSET_WORKING_ANNOTATION)
    if not text:
        return {}
    try:
        result = _parse_object(text, keys.SIDECARSET_WORKING_ANNOTATION)
    except RecordError:
        return {}
    return {name: value for name, value in result.items() if isinstance(value, str)}


def encode_working(working: Mapping[str, str]) -> str:
    """Encode the working containers as an annotation."""
    return _to_text(dict(sorted(working.items())))


def join_sets(names: Iterable[str]) -> str:
    """Encode the names of SidecarSets as an annotation."""
    return ",".join(sorted({*names}))
