"""Validation rules in CEL (`x-kubernetes-validations`), for conditions that a schema cannot express otherwise.

a schema ──▶ find_rule_offences() (when it is written) ──▶ causes of rules that cannot be compiled
         ──▶ compile_rules() ──▶ ValidationRules ──▶ check(object, old object) ──▶ errors with paths

`self` is the value at the node of the rule, `oldSelf` its previous value. A rule that uses `oldSelf` is checked only
in an update of a value that existed before and can be identified: below properties, in maps, and in lists of type
map. Field names that are not identifiers are escaped (`__dash__`), numbers of type `number` are doubles, and
`date-time` and `duration` strings are times and durations, as in Kubernetes.
"""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.sandbox.apiserver.custom.expressions import (
    RESERVED_WORDS,
    EvaluationError,
    Expression,
    ExpressionError,
    compile_expression,
    make_optional,
)
from pykruise.sandbox.apiserver.schemas.paths import Found, MapKey, Path, Schema, show

_VARIABLES: Final = frozenset(("self", "oldSelf"))
_ABSENT: Final = object()


class _Rule(msgspec.Struct, frozen=True):
    text: str
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str
    field_path: str
    optional_old: bool

    @property
    def compares(self) -> bool:
        """Whether the rule compares a value with its previous value."""
        return "oldSelf" in self.expression.variables

    @property
    def shown_text(self) -> str:
        """Name of the rule in an evaluation error."""
        return self.message or self.text


class ValidationRules:
    """The rules of a schema. Create them with `compile_rules`."""

    def __init__(self, node: Schema) -> None:
        self._node = node

    def check(self, obj: Any, old: Any, value: Found) -> None:
        """Append the errors of the rules; `old` is None for a new object."""
        _check_node(self._node, obj, _ABSENT if old is None else old, None, value)


def compile_rules(node: Schema) -> ValidationRules | None:
    """Compile the rules of a schema that has passed `find_rule_offences`; None if the schema has no rules."""
    return ValidationRules(node) if _has_rules(node) else None


def _has_rules(node: Schema) -> bool:
    return bool(node.get("x-kubernetes-validations")) or any(
        _has_rules(sub) for _, sub in _list_child_nodes(node)
    )


def find_rule_offences(node: Schema, path: str) -> Iterator[Cause]:
    """Yield the rules that cannot be compiled, with their places in the schema."""
    for index, rule in enumerate(_list_rules(node)):
        here = f"{path}.x-kubernetes-validations[{index}]"
        if not rule.get("rule"):
            yield causes.make_required_error(f"{here}.rule", "rule is not specified")
            continue
        for member in ("rule", "messageExpression"):
            text = rule.get(member)
            if text:
                try:
                    compile_expression(text, _VARIABLES)
                except ExpressionError as err:
                    yield causes.make_invalid_error(f"{here}.{member}", text, f"compilation failed: {err}")
    for place, sub in _list_child_nodes(node):
        yield from find_rule_offences(sub, f"{path}.{place}")


def _list_rules(node: Schema) -> Sequence[Mapping[str, Any]]:
    rules = node.get("x-kubernetes-validations")
    return [rule for rule in rules if isinstance(rule, Mapping)] if isinstance(rules, list) else ()


def _list_child_nodes(node: Schema) -> Iterator[tuple[str, Schema]]:
    for name, sub in (node.get("properties") or {}).items():
        if isinstance(sub, Mapping):
            yield f"properties[{name}]", sub
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), Mapping):
            yield word, node[word]


# --- checking ----------------------------------------


def _check_node(node: Schema, value: Any, old: Any, path: Path, result: Found) -> None:
    if value is None:
        return
    rules = _list_rules(node)
    if rules:
        current = _as_cel(value, node, root=path is None)
        before = _ABSENT if old is _ABSENT or old is None else _as_cel(old, node, root=path is None)
        for rule in rules:
            _check_rule(_compile_rule(rule), current, before, node, path, result)
    if isinstance(value, dict):
        properties = node.get("properties") or {}
        extra = node.get("additionalProperties")
        for name, each in value.items():
            was = old.get(name, _ABSENT) if isinstance(old, dict) else _ABSENT
            if name in properties:
                _check_node(properties[name], each, was, (path, name), result)
            elif isinstance(extra, Mapping):
                _check_node(extra, each, was, (path, MapKey(name)), result)
    elif isinstance(value, list) and isinstance(node.get("items"), Mapping):
        for index, each in enumerate(value):
            _check_node(node["items"], each, _find_counterpart(each, old, node), (path, index), result)


def _find_counterpart(item: Any, old: Any, node: Schema) -> Any:
    """Previous value of an item in a list of type map. Items of other lists cannot be identified."""
    keys = node.get("x-kubernetes-list-map-keys")
    if node.get("x-kubernetes-list-type") != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return _ABSENT
    for each in old:
        if isinstance(each, dict) and all(each.get(key) == item.get(key) for key in keys or ()):
            return each
    return _ABSENT


def _compile_rule(rule: Mapping[str, Any]) -> _Rule:
    text = rule["rule"]
    said = rule.get("messageExpression")
    return _Rule(
        text=text,
        expression=compile_expression(text, _VARIABLES),
        message=rule.get("message") or "",
        message_expression=compile_expression(said, _VARIABLES) if said else None,
        reason=rule.get("reason") or "FieldValueInvalid",
        field_path=rule.get("fieldPath") or "",
        optional_old=bool(rule.get("optionalOldSelf")),
    )


def _check_rule(rule: _Rule, value: Any, old: Any, node: Schema, path: Path, result: Found) -> None:
    variables = {"self": value}
    if rule.compares:
        if rule.optional_old:
            variables["oldSelf"] = make_optional(old, is_there=old is not _ABSENT)
        elif old is _ABSENT:
            return
        else:
            variables["oldSelf"] = old
    where = show(path, brackets=True) or causes.ROOT
    kind = node.get("type") or "object"
    try:
        holds = rule.expression.holds(variables)
    except EvaluationError as err:
        result.append(
            (path, causes.make_invalid_error(where, kind, f"{err} evaluating rule: {rule.shown_text}"))
        )
        return
    if not holds:
        where = f"{'' if where == causes.ROOT else where}{rule.field_path}".lstrip(".") or causes.ROOT
        result.append((path, _build_cause(rule, where, kind, _build_message(rule, variables))))


def _build_message(rule: _Rule, variables: Mapping[str, Any]) -> str:
    """Message of a violated rule: the value of its message expression, its message, or the rule itself."""
    if rule.message_expression is not None:
        try:
            text = rule.message_expression.evaluate(variables)
        except EvaluationError:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    return rule.message or f"failed rule: {rule.text.strip()}"


def _build_cause(rule: _Rule, where: str, kind: str, message: str) -> Cause:
    match rule.reason:
        case "FieldValueForbidden":
            return causes.make_forbidden_error(where, message)
        case "FieldValueRequired":
            return causes.make_required_error(where, message)
        case "FieldValueDuplicate":
            return causes.make_duplicate_error(where, kind)
        case _:
            return causes.make_invalid_error(where, kind, message)


# --- values ----------------------------------------


def _as_cel(value: Any, node: Schema, *, root: bool = False) -> Any:
    """Convert a value to the form that expressions see."""
    if isinstance(value, dict):
        return _convert_object_to_cel(value, node, root=root)
    if isinstance(value, list):
        items = node.get("items")
        sub: Schema = items if isinstance(items, Mapping) else {}
        return [_as_cel(each, sub) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and node.get("type") == "number":
        return float(value)
    if isinstance(value, str):
        return _convert_text_to_cel(value, node.get("format") or "")
    return value


def _convert_object_to_cel(value: Mapping[str, Any], node: Schema, *, root: bool) -> dict[str, Any]:
    properties = node.get("properties") or {}
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        return {name: _as_cel(each, extra) for name, each in value.items()}
    shown = {
        _escape_name(name): _as_cel(each, properties[name])
        for name, each in value.items()
        if name in properties and each is not None
    }
    if not properties and not root:
        return dict(value)
    if root or node.get("x-kubernetes-embedded-resource"):
        metadata = value.get("metadata") or {}
        shown |= {name: value[name] for name in ("apiVersion", "kind") if name in value}
        shown["metadata"] = {name: metadata[name] for name in ("name", "generateName") if name in metadata}
    return shown


def _escape_name(name: str) -> str:
    """Escape a field's name to an identifier. This is the rule of Kubernetes."""
    if name in RESERVED_WORDS:
        return f"__{name}__"
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and "__" not in name:
        return name
    for mark, word in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(mark, word)
    return name


def _convert_text_to_cel(value: str, kind: str) -> Any:
    try:
        match kind:
            case "date-time":
                return datetime.datetime.fromisoformat(value)
            case "date":
                return datetime.datetime.fromisoformat(f"{value}T00:00:00+00:00")
            case _:
                return value
    except ValueError:
        return value
