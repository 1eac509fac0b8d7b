"""The fields of the dashboard's JSON interface, as docs/dashboard.md lists them.

docs/dashboard.md ──▶ read_documented_fields() ──▶ {heading: {row of the table: fields}}
rows of a stream ──▶ find_undocumented() ──▶ each field that is in no table

A table row "… in `images`" is about the objects in the field `images` of the row above it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from support.sources import ROOT

__all__ = ["OF_LISTS", "OF_NODES", "OF_OBJECTS", "Table", "find_undocumented", "read_documented_fields"]

Table = dict[str, frozenset[str]]
"""The fields of each row of a table, by the text in the first column."""

OF_LISTS: Final = "row of a list"
OF_OBJECTS: Final = "row of one object"
OF_NODES: Final = "row of one node"

_FREE: Final = frozenset({"labels"})
"""Fields whose keys users choose."""


def read_documented_fields() -> dict[str, Table]:
    """Each table with a column "fields", by the heading of its first column."""
    text = (ROOT / "docs" / "dashboard.md").read_text("utf-8")
    tables: dict[str, Table] = {}
    rows: Table | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells:
            rows = None
        elif cells[-1] == "fields":
            rows = tables.setdefault(cells[0], {})
        elif rows is not None and not cells[0].startswith("---"):
            plain = re.sub(r"\([^()]*\)", "", cells[1])
            rows[cells[0].replace("`", "")] = frozenset(re.findall(r"`([a-z_]+)`", plain))
    return tables


def find_undocumented(table: Table, label: str, value: Mapping[str, Any], *, known: int = 0) -> Iterator[str]:
    """Each field of the object, and of objects in it, that is not in the table. `label`: its row of the table;
    `known`: number of rows to skip."""
    labels = list(table)
    place = labels.index(label, known)
    yield from (f"{label}: {field}" for field in value.keys() - table[label])
    for field, inner in value.items():
        objects = [item for item in (inner if isinstance(inner, list) else [inner]) if isinstance(item, dict)]
        if not objects or field in _FREE:
            continue
        within = next((item for item in labels[place + 1 :] if item.endswith(f" in {field}")), "")
        if not within:
            yield f"{label}: the objects in {field}"
        for item in objects if within else ():
            yield from find_undocumented(table, within, item, known=place)
