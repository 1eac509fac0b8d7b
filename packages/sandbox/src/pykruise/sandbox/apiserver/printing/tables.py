"""Objects as rows, for `kubectl get`: the Table that the server prints.

    documents + the entry of their resource ──▶ build_table() ──▶ Table document, a row for each

Built-in kinds have their columns in data/tables.json and a printer that returns the cells in that order. Custom
resources have columns with JSONPaths. All other kinds get name and age. Pure: ages are relative to `now`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.field_errors import format_go_scalar
from pykruise.sandbox.apiserver.catalog import CatalogEntry, ServedColumn
from pykruise.sandbox.apiserver.printing.builtin_rows import PRINTERS, Print
from pykruise.sandbox.apiserver.printing.cells import Doc, age_of, format_since, name_of
from pykruise.sandbox.apiserver.printing.json_path import JSONPathError, compile_path


def build_table(entry: CatalogEntry, docs: Sequence[Document], *, now: Instant) -> Document:
    """Build a Table with a row for each document, in their order; rows have no `object` yet."""
    columns, make_cells = _choose_printer(entry)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_build_column_definition(column) for column in columns],
        "rows": [_build_row(entry, doc, make_cells(doc, now)) for doc in docs],
    }


def _build_column_definition(column: ServedColumn) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _build_row(entry: CatalogEntry, doc: Doc, cells: list[Any]) -> Document:
    row: Document = {"cells": cells}
    phase = (doc.get("status") or {}).get("phase")
    if entry.resource.plural == "pods" and not entry.resource.group and phase in ("Succeeded", "Failed"):
        message = f"The pod {'has completed successfully' if phase == 'Succeeded' else 'failed'}."
        row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
    return row


_NAME: Final = ServedColumn(name="Name", format="name")
_AGE: Final = ServedColumn(name="Age", type="date", json_path=".metadata.creationTimestamp")


def _choose_printer(entry: CatalogEntry) -> tuple[Sequence[ServedColumn], Print]:
    if entry.is_custom:
        own = [column for column in entry.columns if column.json_path] or [_AGE]
        return [_NAME, *own], _make_custom_printer(own)
    printer = PRINTERS.get(f"{entry.resource.api_version}/{entry.resource.plural}")
    if printer and entry.columns:
        return entry.columns, printer
    return [_NAME, _AGE], lambda doc, now: [name_of(doc), age_of(doc, now)]


# --- custom resources ---


def _make_custom_printer(columns: Sequence[ServedColumn]) -> Print:
    cells = [_make_custom_cell(column) for column in columns]

    def make_cells(doc: Doc, now: Instant) -> list[Any]:
        return [name_of(doc), *(cell(doc, now) for cell in cells)]

    return make_cells


def _make_custom_cell(column: ServedColumn) -> Callable[[Doc, Instant], Any]:
    try:
        find = compile_path(column.json_path)
    except JSONPathError:
        return lambda doc, now: None

    def cell(doc: Doc, now: Instant) -> Any:
        result = find(doc)
        return _convert_cell(column.type, result[0], now) if result else None

    return cell


def _convert_cell(kind: str, value: Any, now: Instant) -> Any:
    """Convert a value to the column's type; None (an empty cell) when it does not fit."""
    if value is None:
        return None
    match kind:
        case "integer":
            return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return format_since(value, now) if isinstance(value, str) else None
    return orjson.dumps(value).decode() if isinstance(value, (dict, list)) else format_go_scalar(value)
