"""pykruise's CRDs with templates as open as OpenKruise's: an API server keeps every value in them.

A cluster has such CRDs if only the manager was replaced (`pykruise install --no-crds`). So code that reads a template
must handle any value in it.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds import build_crds
from pykruise.kube.documents import Document

__all__ = ["open_crds", "opened"]

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


def open_crds(conversion: Mapping[str, Any] | None = None) -> list[Document]:
    """All definitions."""
    return [opened(crd) for crd in build_crds(conversion)]


def opened(crd: Document) -> Document:
    """Open one CRD: remove the schemas that kube/schemas/merged_lists.py generates, because only these can be
    null."""
    versions = [
        {**version, "schema": {"openAPIV3Schema": _opened(version["schema"]["openAPIV3Schema"])}}
        for version in crd["spec"]["versions"]
    ]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def _opened(schema: Mapping[str, Any]) -> Document:
    described = {"description": schema["description"]} if "description" in schema else {}
    if not schema.get("nullable"):
        result = dict(schema)
        for part in ("items", "additionalProperties"):
            if isinstance(result.get(part), dict):
                result[part] = _opened(result[part])
        if "properties" in result:
            result["properties"] = {name: _opened(child) for name, child in result["properties"].items()}
        return result
    if schema["type"] == "object":
        return {_OPEN: True, **described}
    keys = schema["x-kubernetes-list-map-keys"]
    items = schema["items"]
    own = {
        name: _opened(child)
        for name, child in items["properties"].items()
        if name not in keys and not child.get("nullable")
    }
    if not own:
        return {_OPEN: True, **described}
    return {"type": "array", "items": {**items, "properties": own}, **described}
