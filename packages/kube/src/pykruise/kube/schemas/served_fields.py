"""Fields that the API server of a cluster knows: those of its minor, and what a newer one says in its OpenAPI.

    minor, OpenAPI v3 of the core group ──▶ further_fields() ──▶ ServedFields.unknown_in(document)

Pure. A field that neither has is dropped by that server, and worth a warning; one that only its OpenAPI has is kept,
passed on and not warned of.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.schemas.builtin_types import decoder_for, fields_of
from pykruise.kube.schemas.releases import NEWEST_MINOR

__all__ = ["ServedFields", "further_fields"]

_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"


class ServedFields(msgspec.Struct, frozen=True):
    """Knowledge of one API server."""

    minor: str = NEWEST_MINOR
    """Its minor, or the nearest one that is known."""
    further: frozenset[tuple[str, str]] = frozenset()
    """Definition and field of each that it knows besides."""

    def unknown_in(self, document: Mapping[str, Any], definition: str) -> list[str]:
        """Paths of the fields of a document that the server drops. Raises DecodeError."""
        decoder = decoder_for(definition, self.minor)
        assert decoder is not None, "there are facts about it in each minor"
        _, unknown = decoder.decode(document)
        if not self.further:
            return unknown
        return [path for path in unknown if _place_of(path, definition, self.minor) not in self.further]


def further_fields(openapi: Mapping[str, Any], minor: str) -> frozenset[tuple[str, str]]:
    """The fields of pod templates in an OpenAPI v3 document (/openapi/v3/api/v1) that a minor does not have."""
    schemas = (openapi.get("components") or {}).get("schemas") or {}
    return frozenset(
        (name, field)
        for name in _reached(_TEMPLATE, minor)
        for field in (schemas.get(name) or {}).get("properties") or {}
        if field not in (fields_of(name, minor) or {})
    )


def _reached(definition: str, minor: str) -> set[str]:
    reached: set[str] = set()
    todo = [definition]
    while todo:
        if (name := todo.pop()) not in reached:
            reached.add(name)
            todo += _targets(name, minor)
    return reached


def _targets(definition: str, minor: str) -> Iterator[str]:
    for field in (fields_of(definition, minor) or {}).values():
        if (target := field.kind.lstrip("[]{}*")).startswith("io."):
            yield target


def _place_of(path: str, definition: str, minor: str) -> tuple[str, str]:
    """Definition and name of the field at a path (`spec.containers[0].newer`) that is unknown."""
    *above, last = path.split(".")
    for step in above:
        field = (fields_of(definition, minor) or {}).get(step.partition("[")[0])
        if field is not None:  # else it is the key of a map
            definition = field.kind.lstrip("[]{}*")
    return definition, last
