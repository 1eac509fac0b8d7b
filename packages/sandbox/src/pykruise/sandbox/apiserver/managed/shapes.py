"""Shapes of objects for field ownership: which lists are maps, sets or atomic.

    built-in definition ──┐
                          ├──▶ Shape: object, list, scalar or free, built on first use
    CRD's schema ─────────┘

`build_definition_shape` reads kube/data/types.json and kube/data/merge_keys.json; `build_schema_shape` reads the
structural schema of a custom resource. Pure.

Same rules as structured-merge-diff's schemas, which kube-apiserver builds from OpenAPI's `x-kubernetes-list-type`,
`-list-map-keys` and `-map-type`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import orjson

from pykruise.kube.package_data import read_package_data
from pykruise.kube.schemas.builtin_types import fields_of

_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Shape:
    """Allowed content of a place.

    `kind` is `scalar`, `object`, `list` or `free` (any content; its maps can have many owners, its lists only one).
    """

    __slots__ = ("_fields", "_remembered", "atomic", "element", "keys", "kind", "names", "scalar")

    def __init__(
        self,
        kind: str,
        *,
        atomic: bool = False,
        keys: tuple[tuple[str, Any], ...] | None = None,
        element: "Shape | Callable[[], Shape] | None" = None,
        fields: "Callable[[], Mapping[str, Shape]] | None" = None,
        scalar: str = "",
    ) -> None:
        self.kind = kind
        self.atomic = atomic
        self.keys = keys
        """Keys of a list: the members that identify its items, with their defaults; None for a set
        and for an atomic list.
        """
        self.element = element
        """Shape of a list's items, or of a map's values that are not named fields."""
        self.names: Mapping[str, Shape] | None = None
        self._fields = fields
        self._remembered: dict[tuple[str, bytes], dict[str, Any]] = {}
        self.scalar = scalar
        """Type of a scalar: `string`, `numeric` or `boolean`; empty for any type."""

    def list_fields(self) -> "Mapping[str, Shape]":
        """The named fields of an object."""
        if self.names is None:
            self.names = self._fields() if self._fields is not None else {}
        return self.names

    def find_field(self, name: str) -> "Shape | None":
        """Shape of an object's member; None if the member is not allowed."""
        shape = self.list_fields().get(name)
        return shape if shape is not None else self.find_item()

    def find_item(self) -> "Shape | None":
        """Shape of a list's items, or of a map's values."""
        element = self.element
        if element is not None and not isinstance(element, Shape):
            element = self.element = element()
        return element

    def remember(
        self,
        value: Any,
        find: "Callable[[], dict[str, Any]]",
        *,
        part: str = "",
    ) -> dict[str, Any]:
        """Return the result of `find()`. It is cached by value, because the pods of a workload are similar.

        `part` separates the caches of different rules: for the same part, `find` must always follow the same rule.
        """
        raw = orjson.dumps(value)
        if len(raw) > _LONGEST_REMEMBERED:
            return find()
        known = self._remembered
        result = known.get((part, raw))
        if result is None:
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            result = known[part, raw] = find()
        return result


_MOST_REMEMBERED: Final = 256
_LONGEST_REMEMBERED: Final = 16 * 1024

SCALAR: Final = Shape("scalar")
_SCALARS: Final = {
    "bool": Shape("scalar", scalar="boolean"),
    "boolean": Shape("scalar", scalar="boolean"),
    "bytes": Shape("scalar", scalar="string"),
    "float64": Shape("scalar", scalar="numeric"),
    "int32": Shape("scalar", scalar="numeric"),
    "int64": Shape("scalar", scalar="numeric"),
    "integer": Shape("scalar", scalar="numeric"),
    "microtime": Shape("scalar", scalar="string"),
    "number": Shape("scalar", scalar="numeric"),
    "string": Shape("scalar", scalar="string"),
    "time": Shape("scalar", scalar="string"),
}
FREE: Final = Shape("free")


# --- built-in kinds ----------------------------------------


@cache
def build_definition_shape(definition: str, *, atomic: bool = False) -> Shape:
    """Return the shape of a built-in definition; a definition without known fields is free."""
    if fields_of(definition) is None:
        return FREE
    return Shape("object", atomic=atomic, fields=lambda: _build_fields(definition))


def _build_fields(definition: str) -> Mapping[str, Shape]:
    directives = _read_directives().get(definition, {})
    known = fields_of(definition) or {}
    return {name: _build_shape_of_kind(field.kind, directives.get(name, {})) for name, field in known.items()}


def _build_shape_of_kind(kind: str, directives: Mapping[str, Any]) -> Shape:
    kind = kind.removeprefix("*")
    if kind.startswith("[]"):
        return _build_list_of_kind(kind[2:], directives)
    if kind.startswith("{}"):
        element = _build_shape_of_kind(kind[2:], {})
        return Shape("object", atomic=directives.get("mapType") == "atomic", element=element)
    if kind in ("any", "object"):
        return FREE
    if fields_of(kind) is None:
        return _SCALARS.get(kind, SCALAR)
    return build_definition_shape(kind, atomic=directives.get("mapType") == "atomic")


def _build_list_of_kind(kind: str, directives: Mapping[str, Any]) -> Shape:
    mode = directives.get("listType", "atomic")
    item = _build_shape_of_kind(kind, {"mapType": directives.get("itemMapType")})
    if mode == "map":
        defaults = _KEY_DEFAULTS.get(kind, {})
        keys = tuple((name, defaults.get(name)) for name in directives["listMapKeys"])
        return Shape("list", keys=keys, element=item)
    return Shape("list", atomic=mode != "set", element=item)


_KEY_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.EndpointPort": {"protocol": "TCP"},
}
"""Keys that an item may omit, with their defaults."""


@cache
def _read_directives() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    directives: Mapping[str, Mapping[str, Mapping[str, Any]]] = orjson.loads(
        read_package_data("pykruise.kube", "merge_keys.json")
    )
    return directives


# --- custom resources ----------------------------------------


def build_schema_shape(schema: Mapping[str, Any]) -> Shape:
    """Return the shape of a custom resource with this `openAPIV3Schema`."""
    return _build_shape_of_node(schema, root=True)


def _build_shape_of_node(node: Mapping[str, Any], *, root: bool = False) -> Shape:
    if node.get("x-kubernetes-int-or-string"):
        return SCALAR
    match node.get("type"):
        case "object":
            return _build_object_shape(node, root=root)
        case "array":
            return _build_list_shape(node)
        case None | "":
            return FREE
        case kind:
            return _SCALARS.get(kind, SCALAR)


def _build_object_shape(node: Mapping[str, Any], *, root: bool) -> Shape:
    open_node = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    properties: Mapping[str, Any] = node.get("properties") or {}
    if open_node and not properties and not root and not node.get("x-kubernetes-embedded-resource"):
        return FREE
    extra = node.get("additionalProperties")
    element: Shape | Callable[[], Shape] | None = None
    if isinstance(extra, Mapping):
        values: Mapping[str, Any] = extra
        element = lambda: _build_shape_of_node(values)  # noqa: E731  (made when first looked at)
    elif open_node or extra is True:
        element = FREE

    def fields() -> Mapping[str, Shape]:
        fields = {name: _build_shape_of_node(sub) for name, sub in properties.items()}
        if root or node.get("x-kubernetes-embedded-resource"):
            fields |= {"apiVersion": SCALAR, "kind": SCALAR, "metadata": build_definition_shape(_METADATA)}
        return fields

    return Shape(
        "object", atomic=node.get("x-kubernetes-map-type") == "atomic", element=element, fields=fields
    )


def _build_list_shape(node: Mapping[str, Any]) -> Shape:
    items: Mapping[str, Any] = node.get("items") or {}
    mode = node.get("x-kubernetes-list-type") or "atomic"
    if mode == "map":
        properties = items.get("properties") or {}
        names = node.get("x-kubernetes-list-map-keys") or ()
        keys = tuple((name, (properties.get(name) or {}).get("default")) for name in names)
        return Shape("list", keys=keys, element=lambda: _build_shape_of_node(items))
    return Shape("list", atomic=mode != "set", element=lambda: _build_shape_of_node(items))
