"""Selection of the objects of a list, a watch or a deletecollection: label selector, field selector, name.

query parameters ──▶ selection_of() ──▶ Selection.matches(stored), over facts recorded at write time

Pure.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from pykruise.kube.values.field_selectors import FieldSelector, parse_field_selector
from pykruise.kube.values.selectors import Selector, SelectorError, parse_label_selector
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.objects.storage import Stored
from pykruise.sandbox.apiserver.requests.statuses import make_bad_request

_OF_EVERY_KIND = ("metadata.name", "metadata.namespace")


class Selection(msgspec.Struct, frozen=True):
    """A predicate over stored objects. Without selectors it matches all of them."""

    labels: Selector | None = None
    fields: FieldSelector | None = None
    positions: Mapping[str, int] = {}
    """Position of each field in `Stored.fields`."""

    @property
    def is_everything(self) -> bool:
        """Whether all objects match."""
        return self.labels is None and self.fields is None

    def matches(self, stored: Stored) -> bool:
        """Whether the object matches."""
        if self.labels is not None and not self.labels.matches(stored.labels):
            return False
        return self.fields is None or self.fields.matches(lambda field: self._read_value(stored, field))

    def find_required_value(self, field: str) -> str | None:
        """The only value that the field selector allows for this field; None when it allows several."""
        return self.fields.required_value(field) if self.fields else None

    def _read_value(self, stored: Stored, field: str) -> str:
        position = self.positions.get(field)
        if position is not None:
            return stored.fields[position] if position < len(stored.fields) else ""
        return stored.key.name if field == "metadata.name" else stored.key.namespace


ALL = Selection()


def selection_of(entry: CatalogEntry, query: Mapping[str, str], *, name: str = "") -> Selection:
    """Parse a request's `labelSelector` and `fieldSelector`. With `name`, for a watch of one object, only this
    object matches.

    Raises Refusal (400) for invalid selectors and for fields that the resource does not support.
    """
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except SelectorError as err:
        raise make_bad_request(str(err)) from err
    for requirement in fields.requirements:
        if requirement.field not in _OF_EVERY_KIND and requirement.field not in entry.selectable:
            raise make_bad_request(_describe_unsupported_field(entry, requirement.field))
    if name:
        wanted = fields.required_value("metadata.name")
        if not fields.is_empty and wanted != name:
            raise make_bad_request("fieldSelector metadata.name doesn't match requested name")
        fields = parse_field_selector(f"metadata.name={name}")
    if labels.is_empty and fields.is_empty:
        return ALL
    return Selection(
        None if labels.is_empty else labels,
        None if fields.is_empty else fields,
        {field: position for position, field in enumerate(entry.selectable)},
    )


def _describe_unsupported_field(entry: CatalogEntry, field: str) -> str:
    """Error message. It differs between kinds with selectable fields (and custom kinds), Jobs, and all other kinds."""
    if entry.is_custom or entry.selectable:
        is_job = entry.resource.group == "batch"
        return (
            f'field label "{field}" not supported for Job'
            if is_job
            else f"field label not supported: {field}"
        )
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def make_fields_extractor(selectable: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """Return a function that extracts the selectable fields of a document as text (absent: empty)."""
    if not selectable:
        return _extract_nothing
    getters = tuple(_GETTERS.get(field) or _build_getter(tuple(field.split("."))) for field in selectable)

    def extract(doc: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(get(doc) for get in getters)

    return extract


def _extract_nothing(_: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _build_getter(path: tuple[str, ...]) -> Callable[[Mapping[str, Any]], str]:
    if len(path) == 2:
        return partial(_read_second_level, *path)

    def get(doc: Mapping[str, Any]) -> str:
        value: Any = doc
        for step in path:
            if not isinstance(value, dict):
                return ""
            value = value.get(step)
        return _to_text(value)

    return get


def _read_second_level(member: str, field: str, doc: Mapping[str, Any]) -> str:
    part = doc.get(member)
    value = part.get(field) if isinstance(part, dict) else None
    return value if isinstance(value, str) else _to_text(value)


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_default(
    getter: Callable[[Mapping[str, Any]], str], default: str
) -> Callable[[Mapping[str, Any]], str]:
    return lambda doc: getter(doc) or default


def _read_event_source(doc: Mapping[str, Any]) -> str:
    """An event's `source` is its component, or the reporting component of a new-style event."""
    source = doc.get("source")
    component = source.get("component") if isinstance(source, dict) else ""
    return _to_text(component or doc.get("reportingComponent"))


_GETTERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "source": _read_event_source,
    # An absent number or boolean still has a value for selectors.
    "spec.hostNetwork": _with_default(_build_getter(("spec", "hostNetwork")), "false"),
    "spec.unschedulable": _with_default(_build_getter(("spec", "unschedulable")), "false"),
    "status.replicas": _with_default(_build_getter(("status", "replicas")), "0"),
    "status.successful": _with_default(_build_getter(("status", "succeeded")), "0"),
}
