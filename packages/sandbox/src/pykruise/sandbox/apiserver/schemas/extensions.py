"""Rules of Kubernetes' own keywords: lists that are sets or maps, and embedded resources.

a schema node ──▶ compile_list_check(), compile_embedded_check() ──▶ Check, or None without such a rule
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.schemas.paths import (
    Check,
    Found,
    MapKey,
    Path,
    Schema,
    find_repeated,
    make_identity,
    show,
)


def compile_list_check(node: Schema) -> Check | None:
    """Compile the uniqueness checks of lists of type `set` and `map`."""
    return _compile_walk(node, _list_rule)


def _list_rule(node: Schema) -> Check | None:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys") or []
    if kind == "set":
        return _check_set
    if kind != "map":
        return None

    def check_map(value: Any, path: Path, result: Found) -> None:
        if type(value) is not list:
            return
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                here = (path, index)
                detail = "must be an object for an array of list-type map"
                result.append((here, causes.make_invalid_error(show(here, brackets=True), item, detail)))
                return
        named = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
        for index in find_repeated([make_identity(each) for each in named]):
            here = (path, index)
            result.append((here, causes.make_duplicate_error(show(here, brackets=True), named[index])))

    return check_map


def _check_set(value: Any, path: Path, result: Found) -> None:
    if type(value) is not list:
        return
    for index in find_repeated([make_identity(item) for item in value]):
        here = (path, index)
        result.append((here, causes.make_duplicate_error(show(here, brackets=True), value[index])))


def compile_embedded_check(node: Schema) -> Check | None:
    """Compile the checks of apiVersion and kind of embedded resources. The server itself checks those of the whole
    object.
    """

    def rule(sub: Schema) -> Check | None:
        return _check_embedded if sub.get("x-kubernetes-embedded-resource") and sub is not node else None

    return _compile_walk(node, rule)


def _check_embedded(value: Any, path: Path, result: Found) -> None:
    if type(value) is not dict:
        return
    for key in ("apiVersion", "kind"):
        here = (path, key)
        name = show(here, brackets=True)
        if key not in value:
            result.append((here, causes.make_required_error(name, "must not be empty")))
        elif not isinstance(value[key], str):
            result.append((here, causes.make_invalid_error(name, value[key], "must be a string")))
        elif not value[key]:
            result.append((here, causes.make_invalid_error(name, "", "must not be empty")))


def _compile_walk(node: Schema, rule: Callable[[Schema], Check | None]) -> Check | None:
    """Compile a check that applies the check of `rule` at each node; None if no node of the schema has one."""
    own = rule(node)
    items = node.get("items")
    check_item = _compile_walk(items, rule) if isinstance(items, Mapping) else None
    extra = node.get("additionalProperties")
    check_extra = _compile_walk(extra, rule) if isinstance(extra, Mapping) else None
    compiled = {name: _compile_walk(sub, rule) for name, sub in (node.get("properties") or {}).items()}
    known = compiled.keys()
    checks = {name: check for name, check in compiled.items() if check}
    if not (own or check_item or check_extra or checks):
        return None

    def walk(value: Any, path: Path, result: Found) -> None:
        if own:
            own(value, path, result)
        if check_item and type(value) is list:
            for index, item in enumerate(value):
                check_item(item, (path, index), result)
        elif type(value) is dict:
            for key, check in checks.items():
                if key in value:
                    check(value[key], (path, key), result)
            if check_extra:
                for key, item in value.items():
                    if key not in known:
                        check_extra(item, (path, MapKey(key)), result)

    return walk
