"""Facts that differ from minor to minor, read from the package's data.

    <name>.json: facts of the newest minor         ┐
    <name>_before.json: differences of each minor  ├──▶ read_series(name, minor) ──▶ definitions with their fields
        from the next one                          ┘

Pure, except for reading the package's own data. tools/kubernetes_facts generates the files.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson

from pykruise.kube.package_data import read_package_data
from pykruise.kube.schemas.releases import MINORS, NEWEST_MINOR

__all__ = ["read_series"]


@cache
def read_series(name: str, minor: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of each definition in a minor, one of MINORS. For the newest minor, only the first file is
    read.
    """
    if minor == NEWEST_MINOR:
        newest: Mapping[str, Mapping[str, Any]] = orjson.loads(
            read_package_data("pykruise.kube", f"{name}.json")
        )
        return newest
    definitions = dict(read_series(name, MINORS[MINORS.index(minor) + 1]))
    for definition, changes in _read_differences(name)[minor].items():
        if changes is None:
            del definitions[definition]
            continue
        fields = {**definitions.get(definition, {}), **changes}
        definitions[definition] = {field: fact for field, fact in fields.items() if fact is not None}
    return definitions


@cache
def _read_differences(name: str) -> Mapping[str, Mapping[str, Mapping[str, Any] | None]]:
    differences: Mapping[str, Mapping[str, Mapping[str, Any] | None]] = orjson.loads(
        read_package_data("pykruise.kube", f"{name}_before.json")
    )
    return differences
