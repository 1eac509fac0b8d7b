"""Checks of a value: types, bounds, patterns, enumerations, required fields, and allOf/anyOf/oneOf/not.

    a schema node ──▶ compile_check() ──▶ Check: value ──▶ causes, with kube-apiserver's messages

Each keyword compiles to its own closure, or to none. A node that cannot fail compiles to None and is not walked.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.values.go_text import quote_text
from pykruise.kube.values.patterns import compile_pattern
from pykruise.sandbox.apiserver.custom.formats import check_for
from pykruise.sandbox.apiserver.schemas.paths import (
    Check,
    Found,
    MapKey,
    Path,
    Schema,
    accept,
    find_repeated,
    make_identity,
    show,
)

_TYPE_NAMES: Final = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


def _find_type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "object")


def _go_format(value: Any) -> str:
    return {int: "int64", float: "float64"}.get(type(value), "")


def compile_check(node: Schema) -> Check | None:
    """Compile all value checks of a node and its children, in the server's order; None when no check can fail."""
    parts = [
        make(node)
        for make in (
            _compile_type,
            _compile_junctors,
            _compile_string,
            _compile_number,
            _compile_array,
            _compile_enum,
            _compile_object,
        )
    ]
    return _combine_checks([part for part in parts if part])


def _combine_checks(parts: Sequence[Check]) -> Check | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    if len(parts) == 2:
        first, second = parts

        def both(value: Any, path: Path, result: Found) -> None:
            first(value, path, result)
            second(value, path, result)

        return both

    def each(value: Any, path: Path, result: Found) -> None:
        for part in parts:
            part(value, path, result)

    return each


def _list_types(node: Schema) -> tuple[str, ...]:
    if node.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (node["type"],) if node.get("type") else ()


def _compile_type(node: Schema) -> Check | None:
    types = _list_types(node)
    if not types:
        return None
    accepted = {kind for kind, name in _TYPE_NAMES.items() if name in types}
    if "number" in types:
        accepted.add(int)
    if node.get("nullable"):
        accepted.add(type(None))
    whole_floats = "integer" in types and "number" not in types
    wanted, named = ",".join(types), _find_type_name
    # If a schema has a format, its type check accepts every string (the check of the format reports errors). For other
    # values, the message has the names of Go's formats instead of the names of JSON's types.
    if node.get("format") and check_for(node["format"]) and not {"integer", "number"} & set(types):
        accepted |= {str, list}
        wanted, named = node["format"], _go_format

    def check(value: Any, path: Path, result: Found) -> None:
        kind = type(value)
        if kind in accepted or (whole_floats and kind is float and value.is_integer()):
            return
        name, is_now = show(path), named(value) if value is not None else "null"
        where = f"{name} in body" if name else " in body"
        detail = f'{where} must be of type {wanted}: "{is_now}"'
        result.append((path, causes.make_type_error(name or causes.ROOT, is_now, detail)))

    return check


def _compile_string(node: Schema) -> Check | None:
    longest, shortest = node.get("maxLength"), node.get("minLength")
    pattern = node.get("pattern")
    matches = compile_pattern(pattern).search if pattern else None
    name_of_format = node.get("format", "")
    has_format = check_for(name_of_format) if name_of_format else None
    if longest is None and shortest is None and matches is None and has_format is None:
        return None

    def check(value: Any, path: Path, result: Found) -> None:
        if type(value) is not str:
            return
        name = show(path)
        if longest is not None and len(value) > longest:
            result.append((path, causes.make_too_long_error(name, longest)))
        elif shortest is not None and len(value) < shortest:
            detail = f"{name} in body should be at least {shortest} chars long"
            result.append((path, causes.make_invalid_error(name, value, detail)))
        elif matches and not matches(value):
            detail = f"{name} in body should match '{pattern}'"
            result.append((path, causes.make_invalid_error(name, value, detail)))
        if has_format and not has_format(value):
            detail = f"{name} in body must be of type {name_of_format}: {quote_text(value)}"
            result.append((path, causes.make_type_error(name, value, detail)))

    return check


def _compile_number(node: Schema) -> Check | None:
    lowest, highest, step = node.get("minimum"), node.get("maximum"), node.get("multipleOf")
    above, below = bool(node.get("exclusiveMinimum")), bool(node.get("exclusiveMaximum"))
    if lowest is None and highest is None and step is None:
        return None

    def check(value: Any, path: Path, result: Found) -> None:
        kind = type(value)
        if kind is not int and kind is not float:
            return
        complaints = []
        if step and not _is_multiple(value, step):
            complaints.append(f"a multiple of {causes.format_go_scalar(step)}")
        if highest is not None and (value > highest or (below and value == highest)):
            complaints.append(
                f"less than {'' if below else 'or equal to '}{causes.format_go_scalar(highest)}"
            )
        if lowest is not None and (value < lowest or (above and value == lowest)):
            complaints.append(
                f"greater than {'' if above else 'or equal to '}{causes.format_go_scalar(lowest)}"
            )
        name = show(path) if complaints else ""
        for complaint in complaints:
            detail = f"{name} in body should be {complaint}"
            result.append((path, causes.make_invalid_error(name, value, detail)))

    return check


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    quotient = value / step
    return math.isfinite(quotient) and quotient == int(quotient)


def _compile_array(node: Schema) -> Check | None:
    items = node.get("items")
    check_item = compile_check(items) if isinstance(items, Mapping) else None
    most, fewest, unique = node.get("maxItems"), node.get("minItems"), bool(node.get("uniqueItems"))
    if check_item is None and most is None and fewest is None and not unique:
        return None

    def check(value: Any, path: Path, result: Found) -> None:
        if type(value) is not list:
            return
        if check_item:
            for index, item in enumerate(value):
                check_item(item, (path, index), result)
        size = len(value)
        if fewest is not None and size < fewest:
            name = show(path)
            detail = f"{name} in body should have at least {fewest} items"
            result.append((path, causes.make_invalid_error(name, size, detail)))
        if most is not None and size > most:
            result.append((path, causes.make_too_many_error(show(path), size, most)))
        if unique and find_repeated([make_identity(item) for item in value]):
            name = show(path)
            result.append(
                (path, causes.make_invalid_error(name, "", f"{name} in body shouldn't contain duplicates"))
            )

    return check


def _compile_enum(node: Schema) -> Check | None:
    allowed = node.get("enum")
    if not allowed:
        return None
    identities = {make_identity(each) for each in allowed}
    words = [each if isinstance(each, str) else _format_json(each) for each in allowed]

    def check(value: Any, path: Path, result: Found) -> None:
        if make_identity(value) in identities or (value is None and node.get("nullable")):
            return
        result.append((path, causes.make_not_supported_error(show(path), value, words)))

    return check


def _format_json(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return str(value)
    return "null" if value is None else causes.format_go_scalar(value)


def _compile_object(node: Schema) -> Check | None:
    checks = {name: compile_check(sub) for name, sub in (node.get("properties") or {}).items()}
    properties: dict[str, Check | None] = checks
    extra = node.get("additionalProperties")
    check_extra = compile_check(extra) if isinstance(extra, Mapping) else None
    closed = extra is False
    required: Sequence[str] = node.get("required") or ()
    most, fewest = node.get("maxProperties"), node.get("minProperties")
    if not (any(checks.values()) or check_extra or closed or required) and most is None and fewest is None:
        return None

    def check(value: Any, path: Path, result: Found) -> None:
        if type(value) is not dict:
            return
        if fewest is not None and len(value) < fewest:
            name = show(path)
            detail = f"{name} in body should have at least {fewest} properties"
            result.append((path, causes.make_invalid_error(name, len(value), detail)))
        if most is not None and len(value) > most:
            result.append((path, causes.make_too_many_error(show(path), len(value), most)))
        for key, item in value.items():
            if key in properties:
                check_item = properties[key]
                if check_item:
                    check_item(item, (path, key), result)
            elif check_extra:
                check_extra(item, (path, MapKey(key)), result)
            elif closed:
                name = show(path)
                result.append(
                    (
                        path,
                        causes.make_invalid_error(name, key, f"{name}.{key} in body is a forbidden property"),
                    )
                )
        for key in required:
            if key not in value:
                here = (path, key)
                result.append((here, causes.make_required_error(show(here))))

    return check


def _compile_junctors(node: Schema) -> Check | None:
    """Compile allOf, anyOf, oneOf and not. Their errors have no field, as on a real server."""
    any_of = [compile_check(sub) or accept for sub in node.get("anyOf") or ()]
    one_of = [compile_check(sub) or accept for sub in node.get("oneOf") or ()]
    all_of = [compile_check(sub) or accept for sub in node.get("allOf") or ()]
    negated = compile_check(node["not"]) or accept if isinstance(node.get("not"), Mapping) else None
    if not (any_of or one_of or all_of or negated):
        return None

    def complain(path: Path, value: Found, words: str) -> None:
        value.append((path, causes.make_invalid_error(causes.ROOT, "", f'"{show(path)}" {words}')))

    def check(value: Any, path: Path, outcome: Found) -> None:
        if value is None:
            return
        if any_of:
            passed, nearest = _count_passes(any_of, value, path, stop_at_first=True)
            if not passed:
                complain(path, outcome, "must validate at least one schema (anyOf)")
                outcome.extend(nearest)
        if one_of:
            passed, nearest = _count_passes(one_of, value, path, stop_at_first=False)
            if passed != 1:
                problem = f"Found {passed} valid alternatives" if passed else "Found none valid"
                complain(path, outcome, f"must validate one and only one schema (oneOf). {problem}")
                outcome.extend(nearest)
        if all_of:
            results: list[Found] = []
            for sub in all_of:
                result: Found = []
                sub(value, path, result)
                results.append(result)
                outcome.extend(result)
            if any(results):
                none = ". None validated" if all(results) else ""
                complain(path, outcome, f"must validate all the schemas (allOf){none}")
        if negated:
            result = []
            negated(value, path, result)
            if not result:
                complain(path, outcome, "must not validate the schema (not)")

    return check


def _count_passes(
    checks: Sequence[Check], value: Any, path: Path, *, stop_at_first: bool
) -> tuple[int, Found]:
    """Count the alternatives that accept the value. If none does, return the smallest of their lists of errors."""
    passed, nearest = 0, None
    for check in checks:
        result: Found = []
        check(value, path, result)
        if not result:
            passed += 1
            if stop_at_first:
                break
        elif nearest is None or len(result) < len(nearest):
            nearest = result
    return passed, [] if passed or nearest is None else nearest
