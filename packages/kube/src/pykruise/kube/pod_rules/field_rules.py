"""Field rules that several kinds share: names, labels, ports, selectors, immutability.

    a value + its path ──▶ check_…() ──▶ Causes with the server's messages

Each check is a generator of errors; a valid value yields none. Pure.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    format_go_string_map,
    format_shown,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
    make_too_long_error,
    make_too_many_error,
)
from pykruise.kube.pod_rules.names import (
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_qualified_name,
    is_valid_label_value,
)
from pykruise.kube.resources import flaw_of_segment
from pykruise.kube.values.quantities import parse_quantity
from pykruise.kube.values.selectors import SelectorError, parse_selector

__all__ = [
    "NOT_NEGATIVE",
    "Causes",
    "check_annotations",
    "check_at_most_100_percent",
    "check_config_key",
    "check_immutable",
    "check_int_or_percent",
    "check_label",
    "check_labels",
    "check_not_negative",
    "check_one_of",
    "check_port",
    "check_port_name",
    "check_port_number",
    "check_qualified_name",
    "check_quantity_not_negative",
    "check_segment",
    "check_selector",
    "check_size",
    "check_subdomain",
    "format_go_int_or_string",
    "format_go_selector",
    "read_int_or_percent",
    "selects",
]

Causes = Iterator[Cause]
"""Errors of a check, each with its field; none: the value is valid."""

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"


def check_rule(value: str, path: str, rule: Callable[[str], list[str]]) -> Causes:
    """Yield the errors of a value by a name rule of kube/pod_rules/names.py."""
    for message in rule(value):
        yield make_invalid_error(path, value, message)


def check_label(value: str, path: str) -> Causes:
    """Yield the errors of a DNS label: the name of a container, volume or namespace."""
    return check_rule(value, path, is_dns1123_label)


def check_subdomain(value: str, path: str) -> Causes:
    """Yield the errors of a DNS subdomain: the name of most objects."""
    return check_rule(value, path, is_dns1123_subdomain)


def check_service_name(value: str, path: str) -> Causes:
    """Yield the errors of the name of a Service: a DNS label that begins with a letter."""
    return check_rule(value, path, is_dns1035_label)


def check_qualified_name(value: str, path: str) -> Causes:
    """Yield the errors of a qualified name: `name` or `prefix/name`."""
    return check_rule(value, path, is_qualified_name)


def check_segment(value: str, path: str) -> Causes:
    """Yield the errors of the name of an object of any kind: it must be a valid part of a path."""
    if flaw := flaw_of_segment(value):
        yield make_invalid_error(path, value, flaw)


def check_one_of(value: str | None, path: str, allowed: Iterable[str], *, needed: bool = True) -> Causes:
    """Yield an error if a value is not in a closed set; `allowed` is in the order of the messages."""
    options = list(allowed)
    if not value:
        if needed:
            yield make_required_error(path)
    elif value not in options:
        yield make_not_supported_error(path, value, options)


def check_not_negative(value: int | None, path: str) -> Causes:
    """Yield the errors of a count or duration: it must not be negative."""
    if value is not None and value < 0:
        yield make_invalid_error(path, value, NOT_NEGATIVE)


def check_quantity_not_negative(value: str, path: str) -> Causes:
    """Yield the errors of an amount: it must not be negative. `value` is in canonical form."""
    if parse_quantity(value) < 0:
        yield make_invalid_error(path, value, NOT_NEGATIVE)


def check_labels(labels: Mapping[str, str] | None, path: str) -> Causes:
    """Yield the errors of keys and values of a label map."""
    for key, value in (labels or {}).items():
        yield from check_qualified_name(key, path)
        for message in is_valid_label_value(value):
            yield make_invalid_error(path, value, message)


def check_annotations(annotations: Mapping[str, str] | None, path: str) -> Causes:
    """Yield the errors of the keys of an annotation map, and of its total size (256 KiB)."""
    size = 0
    for key, value in (annotations or {}).items():
        for message in is_qualified_name(key.lower()):
            yield make_invalid_error(path, key, message)
        size += len(key.encode()) + len(value.encode())
    if size > 256 * 1024:
        yield make_too_long_error(path, 256 * 1024)


def check_port_number(port: int, path: str) -> Causes:
    """Yield the errors of a TCP or UDP port."""
    if not 1 <= port <= 65535:
        yield make_invalid_error(path, port, "must be between 1 and 65535, inclusive")


def check_port_name(name: str, path: str) -> Causes:
    """Yield the errors of the name of a container port, as a Service or probe may use it."""
    if len(name) > 15:
        yield make_invalid_error(path, name, "must be no more than 15 bytes")
    if not re.fullmatch("[-a-z0-9]+", name):
        yield make_invalid_error(
            path, name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        )
    if not re.search("[a-z]", name):
        yield make_invalid_error(path, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield make_invalid_error(path, name, "must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        yield make_invalid_error(path, name, "must not begin or end with a hyphen")


def check_port(port: Any, path: str) -> Causes:
    """Yield the errors of a port given by number or name."""
    return check_port_name(port, path) if isinstance(port, str) else check_port_number(port, path)


def check_selector(selector: Mapping[str, Any] | None, path: str) -> Causes:
    """Yield the errors of a LabelSelector document."""
    for key, value in ((selector or {}).get("matchLabels") or {}).items():
        yield from check_qualified_name(key, f"{path}.matchLabels")
        for message in is_valid_label_value(value):
            yield make_invalid_error(f"{path}.matchLabels", value, message)
    for index, expression in enumerate((selector or {}).get("matchExpressions") or ()):
        yield from _check_expression(expression, f"{path}.matchExpressions[{index}]")


def _check_expression(expression: Mapping[str, Any], path: str) -> Causes:
    values, operator = expression.get("values") or [], expression.get("operator") or ""
    if operator in ("In", "NotIn"):
        if not values:
            yield make_required_error(
                f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield make_forbidden_error(f"{path}.values", detail)
    else:
        yield make_invalid_error(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_qualified_name(expression.get("key") or "", f"{path}.key")
    for index, value in enumerate(values):
        for message in is_valid_label_value(value):
            yield make_invalid_error(f"{path}.values[{index}]", value, message)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a LabelSelector document matches the labels (an invalid document matches all labels)."""
    try:
        return parse_selector(selector).matches(labels or {})
    except SelectorError:
        return True


def check_immutable(new: Any, old: Any, path: str) -> Causes:
    """Yield an error if a field has changed."""
    if not is_same(new, old):
        yield make_invalid_error(path, new, IMMUTABLE)


def check_config_key(key: str, path: str) -> Causes:
    """Yield the errors of a key of a ConfigMap's or Secret's data. A volume uses the key as the name of a file."""
    if len(key) > 253:
        yield make_invalid_error(path, key, "must be no more than 253 bytes")
    if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
        detail = (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  "
            "or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
        yield make_invalid_error(path, key, detail)
    if key == ".":
        yield make_invalid_error(path, key, "must not be '.'")
    elif key == "..":
        yield make_invalid_error(path, key, "must not be '..'")
    elif key.startswith(".."):
        yield make_invalid_error(path, key, "must not start with '..'")


def check_size(new: Mapping[str, Any], stored: Mapping[str, Any] | None, *path: str, most: int) -> Causes:
    """Yield an error if a list has more than `most` entries. A stored list that is too long may stay unchanged."""
    entries = get_path(new, *path)
    if isinstance(entries, list) and len(entries) > most and not is_same(entries, get_path(stored, *path)):
        yield make_too_many_error(".".join(path), len(entries), most)


def check_int_or_percent(value: Any, path: str) -> Causes:
    """Yield the errors of a count of pods: a whole number not below 0, or a percentage."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            detail = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
                "'93%', regex used for validation is '[0-9]+%')"
            )
            yield make_invalid_shown_error(path, format_go_int_or_string(value), detail)
    elif value is not None:
        yield from check_not_negative(value, path)


def check_at_most_100_percent(value: Any, path: str) -> Causes:
    """Yield an error if a percentage exceeds 100."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield make_invalid_shown_error(path, format_go_int_or_string(value), "must not be greater than 100%")


def read_int_or_percent(value: Any) -> int:
    """Return the number in an int-or-percent; 0 without a number."""
    if isinstance(value, str):
        return int(value[:-1]) if _PERCENT.fullmatch(value) else 0
    return value or 0


_PERCENT: Final = re.compile("[0-9]{1,18}%")


def format_go_int_or_string(value: Any) -> str:
    """Return an `intstr.IntOrString` as the server prints it in a message."""
    if isinstance(value, str):
        return f"intstr.IntOrString{{Type:1, IntVal:0, StrVal:{format_shown(value)}}}"
    return f'intstr.IntOrString{{Type:0, IntVal:{value or 0}, StrVal:""}}'


def format_go_selector(selector: Mapping[str, Any] | None) -> str:
    """Return a `v1.LabelSelector` as the server prints it in a message."""
    if selector is None:
        return '"null"'
    expressions = selector.get("matchExpressions")
    if expressions is None:
        listed = "[]v1.LabelSelectorRequirement(nil)"
    else:
        inner = ", ".join(_go_requirement(expression) for expression in expressions)
        listed = f"[]v1.LabelSelectorRequirement{{{inner}}}"
    labels = format_go_string_map(selector.get("matchLabels"))
    return f"v1.LabelSelector{{MatchLabels:{labels}, MatchExpressions:{listed}}}"


def _go_requirement(expression: Mapping[str, Any]) -> str:
    values = expression.get("values")
    strings = (
        "[]string(nil)"
        if values is None
        else f"[]string{{{', '.join(format_shown(value) for value in values)}}}"
    )
    key, operator = format_shown(expression.get("key") or ""), format_shown(expression.get("operator") or "")
    return f"v1.LabelSelectorRequirement{{Key:{key}, Operator:{operator}, Values:{strings}}}"
