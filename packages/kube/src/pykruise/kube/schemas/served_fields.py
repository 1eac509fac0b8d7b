"""Fields that the API server of a cluster knows: those of its minor and, if the minor is newer than all known ones,
those of its OpenAPI document.

    minor, OpenAPI v3 of the core group ──▶ list_further_fields() ──▶ ServedFields.list_unknown_fields(document)

Pure. The server drops a field that neither its minor nor its OpenAPI document has, so the field causes a warning. A
field that only the OpenAPI document has is kept without a warning.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.schemas.builtin_types import fields_of, find_decoder
from pykruise.kube.schemas.releases import NEWEST_MINOR

__all__ = ["ServedFields", "list_further_fields"]

_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"


class ServedFields(msgspec.Struct, frozen=True):
    """Fields that one API server knows."""

    minor: str = NEWEST_MINOR
    """The server's minor, or the nearest known one."""
    further: frozenset[tuple[str, str]] = frozenset()
    """Definition and name of each further field that the server knows."""

    def list_unknown_fields(self, document: Mapping[str, Any], definition: str) -> list[str]:
        """Return the paths of the fields of a document that the server drops. Raises DecodeError."""
        decoder = find_decoder(definition, self.minor)
        assert decoder is not None, "there are facts about it in each minor"
        _, unknown = decoder.decode(document)
        if not self.further:
            return unknown
        return [path for path in unknown if _place_of(path, definition, self.minor) not in self.further]


def list_further_fields(openapi: Mapping[str, Any], minor: str) -> frozenset[tuple[str, str]]:
    """Return the fields of pod templates in an OpenAPI v3 document (/openapi/v3/api/v1) that a minor does not have."""
    schemas = (openapi.get("components") or {}).get("schemas") or {}
    return frozenset(
        (name, field)
        for name in _find_reachable_definitions(_TEMPLATE, minor)
        for field in (schemas.get(name) or {}).get("properties") or {}
        if field not in (fields_of(name, minor) or {})
    )


def _find_reachable_definitions(definition: str, minor: str) -> set[str]:
    reached: set[str] = set()
    todo = [definition]
    while todo:
        if (name := todo.pop()) not in reached:
            reached.add(name)
            todo += _list_referenced_definitions(name, minor)
    return reached


def _list_referenced_definitions(definition: str, minor: str) -> Iterator[str]:
    for field in (fields_of(definition, minor) or {}).values():
        if (target := field.kind.lstrip("[]{}*")).startswith("io."):
            yield target


def _place_of(path: str, definition: str, minor: str) -> tuple[str, str]:
    """Return definition and name of the unknown field at a path (`spec.containers[0].newer`)."""
    *above, last = path.split(".")
    for step in above:
        field = (fields_of(definition, minor) or {}).get(step.partition("[")[0])
        if field is not None:  # otherwise the step is the key of a map
            definition = field.kind.lstrip("[]{}*")
    return definition, last
