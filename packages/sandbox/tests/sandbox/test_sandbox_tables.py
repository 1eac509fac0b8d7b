"""Tables: ages, columns of custom resources, JSONPaths (the cells of built-in kinds are in the recorded answers)."""

import json
from importlib.resources import files
from typing import Any

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.resources import Resource
from pykruise.sandbox.apiserver.builtin import BuiltinStrategy, find_strategy
from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry, ServedColumn, list_builtin_entries
from pykruise.sandbox.apiserver.printing.cells import format_human_duration
from pykruise.sandbox.apiserver.printing.json_path import JSONPathError, compile_path
from pykruise.sandbox.apiserver.printing.tables import build_table

NOW = parse_time("2026-01-02T00:00:00Z")
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (5 * MINUTE + 3, "5m3s"),
        (10 * MINUTE + 3, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 5 * HOUR, "2d5h"),
        (8 * DAY + 5 * HOUR, "8d"),
        (700 * DAY, "700d"),
        (800 * DAY, "2y70d"),
        (730 * DAY, "2y"),
        (3000 * DAY, "8y"),
    ],
)
def test_an_age_has_two_units_at_most(seconds: int, shown: str) -> None:
    assert format_human_duration(seconds) == shown


def custom(*columns: ServedColumn) -> CatalogEntry:
    return CatalogEntry(
        resource=Resource("example.com", "v1", "widgets", "Widget"),
        strategy=BuiltinStrategy(),
        shelf="widgets.example.com",
        storage_version="v1",
        columns=columns,
        crd="widgets.example.com",
    )


def test_a_custom_resource_without_columns_shows_name_and_age() -> None:
    # given
    doc = {"metadata": {"name": "w", "creationTimestamp": "2026-01-01T23:59:00Z"}}
    # when
    table = build_table(custom(), [doc], now=NOW)
    # then
    assert [(column["name"], column["type"]) for column in table["columnDefinitions"]] == [
        ("Name", "string"),
        ("Age", "date"),
    ]
    assert table["rows"] == [{"cells": ["w", "60s"]}]
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")


def test_the_columns_of_a_custom_resource_are_typed() -> None:
    # given
    doc = {
        "metadata": {"name": "w", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "replicas": 3,
            "ratio": 1.5,
            "on": True,
            "word": "x",
            "map": {"a": [1]},
            "when": "2026-01-01T23:00:00Z",
        },
        "status": {"conditions": [{"type": "A", "status": "no"}, {"type": "Ready", "status": "True"}]},
    }
    cells = [
        ("integer", ".spec.replicas", 3),
        ("integer", ".spec.ratio", 1),
        ("integer", ".spec.word", None),
        ("number", ".spec.ratio", 1.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.replicas", None),
        ("string", ".spec.word", "x"),
        ("string", ".spec.replicas", "3"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.map", '{"a":[1]}'),
        ("date", ".spec.when", "60m"),
        ("date", ".spec.word", "<invalid>"),
        ("string", ".spec.absent", None),
        ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
        ("string", ".status.conditions[*].type", "A"),
        ("string", "a path that makes no sense", None),
    ]
    columns = [
        ServedColumn(name=path, type=kind, json_path=path, priority=number % 2)
        for number, (kind, path, _) in enumerate(cells)
    ]
    # when
    table = build_table(custom(*columns), [doc], now=NOW)
    # then
    assert table["rows"][0]["cells"] == ["w", *(cell for _, _, cell in cells)]
    assert [column["priority"] for column in table["columnDefinitions"]] == [
        0,
        *(column.priority for column in columns),
    ]


def test_built_in_columns_are_those_of_kubernetes() -> None:
    # given
    recorded = json.loads((files("pykruise.sandbox") / "data" / "tables.json").read_bytes())
    entries = Catalog(list_builtin_entries(find_strategy)).list_entries()
    by_name = {f"{entry.resource.api_version}/{entry.resource.plural}": entry for entry in entries}
    for name, columns in recorded.items():
        # when
        doc = {"metadata": {"name": "x"}}
        table = build_table(by_name[name], [doc], now=NOW)
        # then
        result = [
            {key: column[key] for key in ("name", "type", "format", "priority")}
            for column in table["columnDefinitions"]
        ]
        assert result == columns, name
        assert len(table["rows"][0]["cells"]) == len(columns), name


def test_a_built_in_kind_without_columns_shows_name_and_age() -> None:
    # given
    entry = Catalog(list_builtin_entries(find_strategy)).find_entry("", "v1", "limitranges")
    assert entry is not None
    # when
    table = build_table(entry, [{"metadata": {"name": "l"}}], now=NOW)
    # then
    assert table["rows"] == [{"cells": ["l", "<unknown>"]}]


DOC: dict[str, Any] = {
    "a": {"b.c": 1, "list": [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}, {"n": 3}], "nested": {"n": 9}},
    "words": ["p", "q", "r"],
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".a.list[0].n", [1]),
        ("{.a.list[0].n}", [1]),
        ("$.a.list[-1].n", [3]),
        (".a.list[*].n", [1, 2, 3]),
        (".a.list[0,2].n", [1, 3]),
        (".words[1:]", ["q", "r"]),
        (".words[:1]", ["p"]),
        (".words[0:3:2]", ["p", "r"]),
        (".words[7]", []),
        (r".a.b\.c", [1]),
        (".a['b.c']", [1]),
        ('.a["b.c"]', [1]),
        (".a['b.c','nested']", [1, {"n": 9}]),
        ('.a.list[?(@.s=="y")].n', [2]),
        (".a.list[?(@.n>1)].n", [2, 3]),
        (".a.list[?(@.n<=2)].n", [1, 2]),
        (".a.list[?(@.s)].n", [1, 2]),
        (".a.list[?(@.s!='x')].n", [2]),
        (".a.list[?(@.s>1)].n", []),
        ("..n", [9, 1, 2, 3]),
        (".nothing.at.all", []),
        (".words.x", []),
        ("", [DOC]),
    ],
)
def test_a_json_path_finds_values(path: str, values: list[Any]) -> None:
    assert sorted(map(str, compile_path(path)(DOC))) == sorted(map(str, values))


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a..[", "no dot", ".a[?(@.b==)]", ".a[?(@.b==c)]"])
def test_a_json_path_that_cannot_be_read_is_an_error_with_the_path(path: str) -> None:
    with pytest.raises(JSONPathError):
        compile_path(path)
