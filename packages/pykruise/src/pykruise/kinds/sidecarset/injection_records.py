"""Annotations of pods about SidecarSets: the injected hash, and the changes of an upgrade.

annotation text ──▶ read_records(), read_state(), read_working() ──▶ values
values          ──▶ record_text(), … ──▶ annotation text, byte for byte as the original writes it

Pure. An older form of records, `{"<sidecarset>": "<hash>"}`, is read everywhere.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.cache.remembering import remember
from pykruise.kube.values.go_text import html_escaped
from pykruise.pods.view import keys

REMEMBERED: Final = 8192
"""Texts that are read only once: pods of one workload say the same, and every plan asks again."""


class RecordError(ValueError):
    """An annotation that is none of the forms it may have."""


class InjectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of one SidecarSet in a pod."""

    hash: str
    name: str = ""
    """Name of the SidecarSet; empty in the older form."""
    sidecars: tuple[str, ...] | None = None
    updated_at: str | None = None
    """RFC 3339."""
    revision: str = ""
    """Name of the ControllerRevision."""

    @property
    def is_legacy(self) -> bool:
        """Whether only the hash is known."""
        return not self.name


class UpgradeState(msgspec.Struct, frozen=True, kw_only=True):
    """Changes by upgrades of one SidecarSet."""

    revision: str = ""
    updated_at: str = ""
    image_ids: Mapping[str, str] = {}
    """Container → the image it ran before it was changed; empty: not known."""


def _object(text: str, key: str) -> dict[str, Any]:
    try:
        result = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RecordError(f"annotation {key} is not JSON: {error}") from error
    if not isinstance(result, dict):
        raise RecordError(f"annotation {key} is not a JSON object")
    return result


def read_records(annotations: Mapping[str, str], key: str) -> dict[str, InjectionRecord]:
    """The records in an annotation, by SidecarSet; none when it is absent or empty. Raises RecordError."""
    text = annotations.get(key)
    return dict(_records(text, key)) if text else {}


@remember(entries=REMEMBERED, longest=1_024)
def _records(text: str, key: str) -> Mapping[str, InjectionRecord]:
    return {name: _record(item, name, key) for name, item in _object(text, key).items()}


def _record(item: Any, name: str, key: str) -> InjectionRecord:
    if isinstance(item, str):
        return InjectionRecord(hash=item)
    if not isinstance(item, dict) or not isinstance(item.get("hash", ""), str):
        raise RecordError(f"annotation {key}: the entry of {name} is neither a hash nor an object with one")
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


def records_text(records: Mapping[str, InjectionRecord]) -> str:
    """The annotation of these records. A record of the older form becomes one of the newer."""
    return _text({name: _record_document(name, records[name]) for name in sorted(records)})


def _text(value: Mapping[str, Any]) -> str:
    """As Go writes it; quickly, for every pod that is created has it written twice."""
    return html_escaped(orjson.dumps(value).decode())


def _record_document(name: str, record: InjectionRecord) -> dict[str, Any]:
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
    """The upgrades of a pod, by SidecarSet; None when the annotation cannot be read."""
    text = annotations.get(keys.SIDECARSET_STATE_ANNOTATION)
    return _states(text) if text else {}


@remember(entries=REMEMBERED, longest=1_024)
def _states(text: str) -> Mapping[str, UpgradeState] | None:
    try:
        states = _object(text, keys.SIDECARSET_STATE_ANNOTATION)
        return {name: _state(item) for name, item in states.items()}
    except (RecordError, AttributeError, TypeError):
        return None


def _state(item: dict[str, Any]) -> UpgradeState:
    statuses = item.get("lastContainerStatuses") or {}
    return UpgradeState(
        revision=str(item.get("revision") or ""),
        updated_at=str(item.get("updateTimestamp") or ""),
        image_ids={name: str((status or {}).get("imageID") or "") for name, status in statuses.items()},
    )


def state_text(states: Mapping[str, UpgradeState]) -> str:
    """The annotation of these upgrades."""
    return _text({name: _state_document(states[name]) for name in sorted(states)})


def _state_document(state: UpgradeState) -> dict[str, Any]:
    return {
        "revision": state.revision,
        "updateTimestamp": state.updated_at or None,
        "lastContainerStatuses": {
            name: {"imageID": state.image_ids[name]} if state.image_ids[name] else {}
            for name in sorted(state.image_ids)
        },
    }


def read_working(annotations: Mapping[str, str]) -> dict[str, str]:
    """Hot sidecar → the container that does the work; what cannot be read is not there."""
    text = annotations.get(keys.SIDECARSET_WORKING_ANNOTATION)
    if not text:
        return {}
    try:
        result = _object(text, keys.SIDECARSET_WORKING_ANNOTATION)
    except RecordError:
        return {}
    return {name: value for name, value in result.items() if isinstance(value, str)}


def working_text(working: Mapping[str, str]) -> str:
    """The annotation of it."""
    return _text(dict(sorted(working.items())))


def joined_sets(names: Iterable[str]) -> str:
    """The annotation of them."""
    return ",".join(sorted({*names}))
