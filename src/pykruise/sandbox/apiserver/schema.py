"""Custom resources by their schema: defaulting, pruning and validation as a Kubernetes API server does them.

    openAPIV3Schema of a CRD version ──▶ StructuralSchema.from_crd_schema()   (once; refuses what is not structural)
                                                │ compiles the schema to closures
    a document ──▶ prune() ──▶ default() ──▶ validate() ──▶ causes of a 422, in the server's words

Compiled once, because every write of every custom resource passes here: a document is walked only where its schema
says something, so an open node (a pod template with x-kubernetes-preserve-unknown-fields) costs nothing.

`x-kubernetes-validations` (CEL rules) are not evaluated; `StructuralSchema.unchecked_rules` lists where they stand,
so that a server can warn.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import Cause
from pykruise.kube.go_text import quoted
from pykruise.sandbox.apiserver import causes
from pykruise.sandbox.apiserver.formats import check_for

Schema = Mapping[str, Any]

_Path = tuple[Any, str | int] | None
"""Where in a document: (path of the parent, property name or list index); None is the root."""

_Found = list[tuple[_Path, Cause]]
_Check = Callable[[Any, _Path, _Found], None]
_Fill = Callable[[Any], None]
_Prune = Callable[[Any, _Path, list[str]], None]


class _MapKey(str):
    """A path step into a map: some of the server's messages show it as `[key]` instead of `.key`."""

    __slots__ = ()


class NotStructuralError(ValueError):
    """A schema that a CRD may not have; `causes` hold every offence with its field path."""

    def __init__(self, found: Sequence[Cause]) -> None:
        super().__init__("; ".join(f"{cause.field}: {cause.message}" for cause in found))
        self.causes = tuple(found)


class StructuralSchema:
    """A CRD version's schema, compiled. Make one with `from_crd_schema`."""

    def __init__(self, node: Schema) -> None:
        self._node = node
        self._check = _compile_check(node) or _accept
        self._check_lists = _compile_list_check(node)
        self._check_embedded = _compile_embedded_check(node)
        self._fill = _compile_fill(node)
        self._prune = _compile_prune(node, root=True)
        self.unchecked_rules: tuple[str, ...] = tuple(_rule_paths(node, ""))
        """Paths of the nodes whose CEL rules are not evaluated."""

    @classmethod
    def from_crd_schema(
        cls, doc: Schema, *, path: str = "spec.validation.openAPIV3Schema"
    ) -> "StructuralSchema":
        """The schema of a CRD version: its `openAPIV3Schema`, or the `schema` object around it.

        Raises `NotStructuralError` (a ValueError) when the schema is not structural; its messages begin with `path`.
        """
        node = doc["openAPIV3Schema"] if "openAPIV3Schema" in doc and "type" not in doc else doc
        if not isinstance(node, Mapping):
            raise NotStructuralError([causes.invalid(path, node, "must be an object")])
        found = sorted(_offences(node, _ROOT, path), key=lambda cause: f"{cause.field}: {cause.message}")
        if found:
            raise NotStructuralError(found)
        schema = cls(node)
        found = list(_bad_defaults(node, path))
        if found:
            raise NotStructuralError(found)
        return schema

    def default(self, obj: Document) -> Document:
        """Fill in the schema's defaults where a value is absent, or null without being nullable. Changes `obj`."""
        if self._fill:
            self._fill(obj)
        return obj

    def prune(self, obj: Document) -> tuple[Document, list[str]]:
        """Drop what the schema does not know; returns the changed `obj` and the sorted paths that were dropped.

        apiVersion, kind and metadata of the object are kept. Nulls where the schema has neither `nullable` nor a
        default go too, but are not listed: they are not unknown.
        """
        dropped: list[str] = []
        if self._prune:
            self._prune(obj, None, dropped)
        dropped.sort()
        return obj, dropped

    def validate(self, obj: Document, old: Document | None = None) -> list[Cause]:
        """Every way in which `obj` breaks the schema; empty when it may be stored.

        With `old`, errors in parts that an update leaves as they were are not reported, so that a schema may be
        tightened without blocking objects stored before (the server calls this ratcheting).
        """
        found: _Found = []
        self._check(obj, None, found)
        for check in (self._check_embedded, self._check_lists):
            if check:
                check(obj, None, found)
        if found and old is not None:
            found = [(path, cause) for path, cause in found if not _unchanged(path, obj, old, self._node)]
        return [cause for _, cause in found]


def _accept(value: Any, path: _Path, found: _Found) -> None:
    pass


# --- paths ---


def _steps(path: _Path) -> list[str | int]:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    steps.reverse()
    return steps


def _show(path: _Path, *, brackets: bool = False) -> str:
    """`spec.items[0].name`; with `brackets` the keys of maps as `labels[app]`."""
    text = ""
    for step in _steps(path):
        if isinstance(step, int) or (brackets and isinstance(step, _MapKey)):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


# --- validation ---

_TYPE_NAMES: Final = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "object")


def _go_format(value: Any) -> str:
    return {int: "int64", float: "float64"}.get(type(value), "")


def _compile_check(node: Schema) -> _Check | None:
    """All value checks of a node and below, in the server's order; None when nothing can fail."""
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
    return _all_of([part for part in parts if part])


def _all_of(parts: Sequence[_Check]) -> _Check | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    if len(parts) == 2:
        first, second = parts

        def both(value: Any, path: _Path, found: _Found) -> None:
            first(value, path, found)
            second(value, path, found)

        return both

    def each(value: Any, path: _Path, found: _Found) -> None:
        for part in parts:
            part(value, path, found)

    return each


def _types_of(node: Schema) -> tuple[str, ...]:
    if node.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (node["type"],) if node.get("type") else ()


def _compile_type(node: Schema) -> _Check | None:
    types = _types_of(node)
    if not types:
        return None
    accepted = {kind for kind, name in _TYPE_NAMES.items() if name in types}
    if "number" in types:
        accepted.add(int)
    if node.get("nullable"):
        accepted.add(type(None))
    whole_floats = "integer" in types and "number" not in types
    wanted, named = ",".join(types), _type_name
    # The server compares no types of strings that have a format (the format's own check says what is wrong),
    # and speaks of Go's formats instead of JSON's types for the rest.
    if node.get("format") and check_for(node["format"]) and not {"integer", "number"} & set(types):
        accepted |= {str, list}
        wanted, named = node["format"], _go_format

    def check(value: Any, path: _Path, found: _Found) -> None:
        kind = type(value)
        if kind in accepted or (whole_floats and kind is float and value.is_integer()):
            return
        name, is_now = _show(path), named(value) if value is not None else "null"
        where = f"{name} in body" if name else " in body"
        detail = f'{where} must be of type {wanted}: "{is_now}"'
        found.append((path, causes.type_invalid(name or causes.ROOT, is_now, detail)))

    return check


def _compile_string(node: Schema) -> _Check | None:
    longest, shortest = node.get("maxLength"), node.get("minLength")
    pattern = node.get("pattern")
    matches = go_regex(pattern).search if pattern else None
    name_of_format = node.get("format", "")
    has_format = check_for(name_of_format) if name_of_format else None
    if longest is None and shortest is None and matches is None and has_format is None:
        return None

    def check(value: Any, path: _Path, found: _Found) -> None:
        if type(value) is not str:
            return
        name = _show(path)
        if longest is not None and len(value) > longest:
            found.append((path, causes.too_long(name, longest)))
        elif shortest is not None and len(value) < shortest:
            detail = f"{name} in body should be at least {shortest} chars long"
            found.append((path, causes.invalid(name, value, detail)))
        elif matches and not matches(value):
            detail = f"{name} in body should match '{pattern}'"
            found.append((path, causes.invalid(name, value, detail)))
        if has_format and not has_format(value):
            detail = f"{name} in body must be of type {name_of_format}: {quoted(value)}"
            found.append((path, causes.type_invalid(name, value, detail)))

    return check


def _compile_number(node: Schema) -> _Check | None:
    lowest, highest, step = node.get("minimum"), node.get("maximum"), node.get("multipleOf")
    above, below = bool(node.get("exclusiveMinimum")), bool(node.get("exclusiveMaximum"))
    if lowest is None and highest is None and step is None:
        return None

    def check(value: Any, path: _Path, found: _Found) -> None:
        kind = type(value)
        if kind is not int and kind is not float:
            return
        complaints = []
        if step and not _is_multiple(value, step):
            complaints.append(f"a multiple of {causes.go_scalar(step)}")
        if highest is not None and (value > highest or (below and value == highest)):
            complaints.append(f"less than {'' if below else 'or equal to '}{causes.go_scalar(highest)}")
        if lowest is not None and (value < lowest or (above and value == lowest)):
            complaints.append(f"greater than {'' if above else 'or equal to '}{causes.go_scalar(lowest)}")
        name = _show(path) if complaints else ""
        for complaint in complaints:
            detail = f"{name} in body should be {complaint}"
            found.append((path, causes.invalid(name, value, detail)))

    return check


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    quotient = value / step
    return math.isfinite(quotient) and quotient == int(quotient)


def _compile_array(node: Schema) -> _Check | None:
    items = node.get("items")
    check_item = _compile_check(items) if isinstance(items, Mapping) else None
    most, fewest, unique = node.get("maxItems"), node.get("minItems"), bool(node.get("uniqueItems"))
    if check_item is None and most is None and fewest is None and not unique:
        return None

    def check(value: Any, path: _Path, found: _Found) -> None:
        if type(value) is not list:
            return
        if check_item:
            for index, item in enumerate(value):
                check_item(item, (path, index), found)
        size = len(value)
        if fewest is not None and size < fewest:
            name = _show(path)
            detail = f"{name} in body should have at least {fewest} items"
            found.append((path, causes.invalid(name, size, detail)))
        if most is not None and size > most:
            found.append((path, causes.too_many(_show(path), size, most)))
        if unique and _repeated([_identity(item) for item in value]):
            name = _show(path)
            found.append((path, causes.invalid(name, "", f"{name} in body shouldn't contain duplicates")))

    return check


def _compile_enum(node: Schema) -> _Check | None:
    allowed = node.get("enum")
    if not allowed:
        return None
    identities = {_identity(each) for each in allowed}
    words = [each if isinstance(each, str) else _json_text(each) for each in allowed]

    def check(value: Any, path: _Path, found: _Found) -> None:
        if _identity(value) in identities or (value is None and node.get("nullable")):
            return
        found.append((path, causes.not_supported(_show(path), value, words)))

    return check


def _json_text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return str(value)
    return "null" if value is None else causes.go_scalar(value)


def _compile_object(node: Schema) -> _Check | None:
    checks = {name: _compile_check(sub) for name, sub in (node.get("properties") or {}).items()}
    properties: dict[str, _Check | None] = checks
    extra = node.get("additionalProperties")
    check_extra = _compile_check(extra) if isinstance(extra, Mapping) else None
    closed = extra is False
    required: Sequence[str] = node.get("required") or ()
    most, fewest = node.get("maxProperties"), node.get("minProperties")
    if not (any(checks.values()) or check_extra or closed or required) and most is None and fewest is None:
        return None

    def check(value: Any, path: _Path, found: _Found) -> None:
        if type(value) is not dict:
            return
        if fewest is not None and len(value) < fewest:
            name = _show(path)
            detail = f"{name} in body should have at least {fewest} properties"
            found.append((path, causes.invalid(name, len(value), detail)))
        if most is not None and len(value) > most:
            found.append((path, causes.too_many(_show(path), len(value), most)))
        for key, item in value.items():
            if key in properties:
                check_item = properties[key]
                if check_item:
                    check_item(item, (path, key), found)
            elif check_extra:
                check_extra(item, (path, _MapKey(key)), found)
            elif closed:
                name = _show(path)
                found.append(
                    (path, causes.invalid(name, key, f"{name}.{key} in body is a forbidden property"))
                )
        for key in required:
            if key not in value:
                here = (path, key)
                found.append((here, causes.required(_show(here))))

    return check


def _compile_junctors(node: Schema) -> _Check | None:
    """allOf, anyOf, oneOf and not. Their errors belong to no field, as on the real server."""
    any_of = [_compile_check(sub) or _accept for sub in node.get("anyOf") or ()]
    one_of = [_compile_check(sub) or _accept for sub in node.get("oneOf") or ()]
    all_of = [_compile_check(sub) or _accept for sub in node.get("allOf") or ()]
    negated = _compile_check(node["not"]) or _accept if isinstance(node.get("not"), Mapping) else None
    if not (any_of or one_of or all_of or negated):
        return None

    def complain(path: _Path, found: _Found, words: str) -> None:
        found.append((path, causes.invalid(causes.ROOT, "", f'"{_show(path)}" {words}')))

    def check(value: Any, path: _Path, found: _Found) -> None:
        if value is None:
            return
        if any_of:
            passed, nearest = _count_passes(any_of, value, path, stop_at_first=True)
            if not passed:
                complain(path, found, "must validate at least one schema (anyOf)")
                found.extend(nearest)
        if one_of:
            passed, nearest = _count_passes(one_of, value, path, stop_at_first=False)
            if passed != 1:
                problem = f"Found {passed} valid alternatives" if passed else "Found none valid"
                complain(path, found, f"must validate one and only one schema (oneOf). {problem}")
                found.extend(nearest)
        if all_of:
            results: list[_Found] = []
            for sub in all_of:
                result: _Found = []
                sub(value, path, result)
                results.append(result)
                found.extend(result)
            if any(results):
                none = ". None validated" if all(results) else ""
                complain(path, found, f"must validate all the schemas (allOf){none}")
        if negated:
            result = []
            negated(value, path, result)
            if not result:
                complain(path, found, "must not validate the schema (not)")

    return check


def _count_passes(
    checks: Sequence[_Check], value: Any, path: _Path, *, stop_at_first: bool
) -> tuple[int, _Found]:
    """How many alternatives accept the value, and if none does, the errors of the one that fits best."""
    passed, nearest = 0, None
    for check in checks:
        result: _Found = []
        check(value, path, result)
        if not result:
            passed += 1
            if stop_at_first:
                break
        elif nearest is None or len(result) < len(nearest):
            nearest = result
    return passed, [] if passed or nearest is None else nearest


def go_regex(pattern: str) -> re.Pattern[str]:
    """A Go (RE2) regular expression compiled for Python: `$` is the very end, classes are ASCII.

    Raises `re.error` for what Python has no counterpart of (`\\p{Greek}`).
    """
    return re.compile(_GO_ONLY.sub(_to_python, pattern), re.ASCII)


_POSIX_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_GO_ONLY: Final = re.compile(
    r"\[:(?P<posix>[a-z]+):\]|\\(?P<escaped>.)|(?P<group>\[\^?\]?)|(?P<end>\$)", re.DOTALL
)


def _to_python(match: re.Match[str]) -> str:
    if match["posix"]:
        return _POSIX_CLASSES.get(match["posix"], match[0])
    if match["escaped"] == "z":
        return r"\Z"
    if match["end"] and not _inside_class(match.string, match.start()):
        return r"\Z"
    return match[0]


def _inside_class(pattern: str, position: int) -> bool:
    inside, index = False, 0
    while index < position:
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "[" and not inside:
            inside = True
            index += len(re.match(r"\^?\]?", pattern[index + 1 :])[0])  # type: ignore[index]  # always matches
        elif char == "]":
            inside = False
        index += 1
    return inside


# --- lists that are sets or maps, embedded resources ---


def _identity(value: Any) -> Any:
    """A hashable stand-in that is equal exactly when two JSON values are (true is not 1)."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(_identity(item) for item in value))
    if isinstance(value, dict):
        return ("dict", frozenset((key, _identity(item)) for key, item in value.items()))
    return value


def _repeated(identities: Sequence[Any]) -> list[int]:
    """Indexes at which a value is seen the second time (not the third)."""
    times: dict[Any, int] = {}
    indexes = []
    for index, identity in enumerate(identities):
        times[identity] = times.get(identity, 0) + 1
        if times[identity] == 2:
            indexes.append(index)
    return indexes


def _compile_list_check(node: Schema) -> _Check | None:
    """Uniqueness in lists of type `set` and `map`."""
    return _compile_walk(node, _list_rule)


def _list_rule(node: Schema) -> _Check | None:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys") or []
    if kind == "set":
        return _check_set
    if kind != "map":
        return None

    def check_map(value: Any, path: _Path, found: _Found) -> None:
        if type(value) is not list:
            return
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                here = (path, index)
                detail = "must be an object for an array of list-type map"
                found.append((here, causes.invalid(_show(here, brackets=True), item, detail)))
                return
        named = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
        for index in _repeated([_identity(each) for each in named]):
            here = (path, index)
            found.append((here, causes.duplicate(_show(here, brackets=True), named[index])))

    return check_map


def _check_set(value: Any, path: _Path, found: _Found) -> None:
    if type(value) is not list:
        return
    for index in _repeated([_identity(item) for item in value]):
        here = (path, index)
        found.append((here, causes.duplicate(_show(here, brackets=True), value[index])))


def _compile_embedded_check(node: Schema) -> _Check | None:
    """apiVersion and kind of embedded resources. Those of the object itself are the server's own business."""

    def rule(sub: Schema) -> _Check | None:
        return _check_embedded if sub.get("x-kubernetes-embedded-resource") and sub is not node else None

    return _compile_walk(node, rule)


def _check_embedded(value: Any, path: _Path, found: _Found) -> None:
    if type(value) is not dict:
        return
    for key in ("apiVersion", "kind"):
        here = (path, key)
        name = _show(here, brackets=True)
        if key not in value:
            found.append((here, causes.required(name, "must not be empty")))
        elif not isinstance(value[key], str):
            found.append((here, causes.invalid(name, value[key], "must be a string")))
        elif not value[key]:
            found.append((here, causes.invalid(name, "", "must not be empty")))


def _compile_walk(node: Schema, rule: Callable[[Schema], _Check | None]) -> _Check | None:
    """Apply `rule`'s check wherever it makes one; None when it makes none in the whole schema."""
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

    def walk(value: Any, path: _Path, found: _Found) -> None:
        if own:
            own(value, path, found)
        if check_item and type(value) is list:
            for index, item in enumerate(value):
                check_item(item, (path, index), found)
        elif type(value) is dict:
            for key, check in checks.items():
                if key in value:
                    check(value[key], (path, key), found)
            if check_extra:
                for key, item in value.items():
                    if key not in known:
                        check_extra(item, (path, _MapKey(key)), found)

    return walk


# --- updates that leave an error as it was ---


def _unchanged(path: _Path, new: Any, old: Any, node: Schema | None) -> bool:
    """Whether some part that contains `path` is the same in both documents."""
    for step in _steps(path):
        if isinstance(step, int):
            old = _counterpart(new, step, old, node)
            new = new[step] if step < len(new) else None
            node = (node or {}).get("items")
        else:
            if not isinstance(new, dict) or step not in new or not isinstance(old, dict) or step not in old:
                return False
            new, old = new[step], old[step]
            node = _child(node, step)
        if old is _NOTHING:
            return False
        if _identity(new) == _identity(old):
            return True
    return False


_NOTHING: Final = object()


def _child(node: Schema | None, key: str) -> Schema | None:
    child = ((node or {}).get("properties") or {}).get(key, (node or {}).get("additionalProperties"))
    return child if isinstance(child, Mapping) else None


def _counterpart(new: Sequence[Any], index: int, old: Any, node: Schema | None) -> Any:
    """The item of the old list with the same map keys; only lists of type map can tell."""
    keys = (node or {}).get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(new[index], dict):
        return _NOTHING
    wanted = [_identity(new[index].get(key)) for key in keys]
    for item in old:
        if isinstance(item, dict) and [_identity(item.get(key)) for key in keys] == wanted:
            return item
    return _NOTHING


# --- defaulting ---


def _compile_fill(node: Schema) -> _Fill | None:
    items = node.get("items")
    item_default = items.get("default") if isinstance(items, Mapping) and not items.get("nullable") else None
    fill_item = _compile_fill(items) if isinstance(items, Mapping) else None
    properties: Mapping[str, Schema] = node.get("properties") or {}
    defaults = [
        (name, sub["default"], bool(sub.get("nullable")))
        for name, sub in properties.items()
        if sub.get("default") is not None
    ]
    fills = [(name, fill) for name, fill in ((n, _compile_fill(s)) for n, s in properties.items()) if fill]
    extra = node.get("additionalProperties")
    fill_extra = _compile_fill(extra) if isinstance(extra, Mapping) else None
    extra_default = extra.get("default") if isinstance(extra, Mapping) and not extra.get("nullable") else None
    if not (defaults or fills or fill_extra or fill_item) and item_default is None and extra_default is None:
        return None

    def fill(value: Any) -> None:
        if type(value) is dict:
            for name, default, nullable in defaults:
                if name not in value or (value[name] is None and not nullable):
                    value[name] = deep_copy(default)
            for name, sub in fills:
                if name in value:
                    sub(value[name])
            if fill_extra or extra_default is not None:
                for name in value:
                    if name in properties:
                        continue
                    if value[name] is None and extra_default is not None:
                        value[name] = deep_copy(extra_default)
                    if fill_extra:
                        fill_extra(value[name])
        elif type(value) is list:
            for index, item in enumerate(value):
                if item is None and item_default is not None:
                    value[index] = item = deep_copy(item_default)
                if fill_item:
                    fill_item(item)

    return fill


# --- pruning ---

_TYPE_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_OBJECT_META: Final = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def _prune_all(value: Any, path: _Path, dropped: list[str]) -> None:
    """Below `additionalProperties: true` nothing is specified, so every key of a map goes."""
    if type(value) is dict:
        dropped.extend(_show((path, key)) for key in value)
        value.clear()
    elif type(value) is list:
        for index, item in enumerate(value):
            _prune_all(item, (path, index), dropped)


def _compile_prune(node: Schema | None, *, root: bool = False) -> _Prune | None:
    """Drop unknown keys and null values; None when there is nothing to do at any depth."""
    if node is None:
        return _prune_all
    is_open = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    embedded = root or bool(node.get("x-kubernetes-embedded-resource"))
    subs: Mapping[str, Schema] = node.get("properties") or {}
    properties = {name: _compile_prune(sub) for name, sub in subs.items()}
    droppable_nulls = {name for name, sub in subs.items() if _drops_null(sub)}
    extra = node.get("additionalProperties")
    has_extra = extra is not None and extra is not False
    prune_extra = _compile_prune(extra if isinstance(extra, Mapping) else None) if has_extra else None
    extra_drops_null = isinstance(extra, Mapping) and _drops_null(extra)
    items = node.get("items")
    prune_item = _compile_prune(items) if isinstance(items, Mapping) else None if is_open else _prune_all
    acts = any(properties.values()) or prune_extra or prune_item or droppable_nulls or extra_drops_null
    if not acts and not embedded and (is_open or node.get("type") != "object" or has_extra):
        return None

    def prune(value: Any, path: _Path, dropped: list[str]) -> None:
        if type(value) is list:
            if prune_item:
                for index, item in enumerate(value):
                    prune_item(item, (path, index), dropped)
            return
        if type(value) is not dict:
            return
        gone: list[str] = []
        for key, item in value.items():
            if embedded and key in _TYPE_META:
                if key == "metadata" and not root:
                    _prune_object_meta(item, (path, key), dropped)
            elif key in properties:
                if item is None and key in droppable_nulls:
                    gone.append(key)
                elif prune_property := properties[key]:
                    prune_property(item, (path, key), dropped)
            elif has_extra:
                if item is None and extra_drops_null:
                    gone.append(key)
                elif prune_extra:
                    prune_extra(item, (path, key), dropped)
            elif not is_open:
                gone.append(key)
                dropped.append(_show((path, key)))
        for key in gone:
            del value[key]

    return prune


def _drops_null(node: Schema) -> bool:
    return not node.get("nullable") and node.get("default") is None


def _prune_object_meta(value: Any, path: _Path, dropped: list[str]) -> None:
    if type(value) is not dict:
        return
    for key in [key for key in value if key not in _OBJECT_META]:
        dropped.append(_show((path, key)))
        del value[key]


# --- is it structural? ---


class _Level(NamedTuple):
    """Where a node stands, in the words the server has for a node without a type."""

    name: str
    without_type: str


_ROOT: Final = _Level("root", "must not be empty at the root")
_FIELD: Final = _Level("field", "must not be empty for specified object fields")
_ITEM: Final = _Level("item", "must not be empty for specified array items")

_FORBIDDEN_BELOW_JUNCTORS: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = {
    "$ref": "$ref is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "deprecated": "deprecated is not supported",
    "discriminator": "discriminator is not supported",
    "id": "id is not supported",
    "patternProperties": "patternProperties is not supported",
    "readOnly": "readOnly is not supported",
    "writeOnly": "writeOnly is not supported",
    "xml": "xml is not supported",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def _offences(node: Any, level: _Level, path: str) -> Iterator[Cause]:
    """What keeps a schema from being structural, at this node and below."""
    if not isinstance(node, Mapping):
        yield causes.invalid(path, node, "must be an object")
        return
    yield from _unsupported(node, path)
    kind = node.get("type") or ""
    if kind and kind not in _TYPES:
        yield causes.not_supported(f"{path}.type", kind, _TYPES)
    open_node = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    any_type = bool(node.get("x-kubernetes-int-or-string"))
    embedded = bool(node.get("x-kubernetes-embedded-resource"))
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield (
            causes.invalid(f"{path}.type", kind, detail) if kind else causes.required(f"{path}.type", detail)
        )
    elif not kind and not any_type and not open_node:
        yield causes.required(f"{path}.type", level.without_type)
    if level is _ROOT and kind and kind != "object":
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")
    if any_type and open_node:
        detail = "must be false if x-kubernetes-int-or-string is true"
        yield causes.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, detail)
    yield from _object_offences(node, level, path)
    if kind == "array" and not isinstance(node.get("items"), Mapping):
        yield causes.required(f"{path}.items", "must be specified")
    if isinstance(node.get("items"), Mapping):
        yield from _offences(node["items"], _ITEM, f"{path}.items")
    elif isinstance(node.get("items"), list):
        yield causes.forbidden(f"{path}.items", "items must be a schema object and not an array")
    yield from _list_offences(node, path)
    yield from _junctor_offences(node, path)


def _unsupported(node: Schema, path: str) -> Iterator[Cause]:
    for word, detail in _UNSUPPORTED.items():
        if node.get(word):
            yield causes.forbidden(f"{path}.{word}", detail)
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.forbidden(f"{path}.uniqueItems", detail)
    if node.get("pattern"):
        try:
            go_regex(node["pattern"])
        except re.error as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield causes.invalid(f"{path}.pattern", node["pattern"], detail)


def _object_offences(node: Schema, level: _Level, path: str) -> Iterator[Cause]:
    properties = node.get("properties") or {}
    extra = node.get("additionalProperties")
    for name, sub in properties.items():
        if name == "metadata" and level is _ROOT:
            if not _is_plain_metadata(sub):
                detail = (
                    "must not specify anything other than name and generateName, "
                    "but metadata is implicitly specified"
                )
                yield causes.forbidden(f"{path}.properties[metadata]", detail)
            continue
        yield from _offences(sub, _FIELD, f"{path}.properties[{name}]")
    if extra is None:
        return
    if properties and extra is not False:
        detail = "additionalProperties and properties are mutual exclusive"
        yield causes.forbidden(f"{path}.additionalProperties", detail)
    if extra is False:
        yield causes.forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false")
    if level is _ROOT:
        yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(extra, Mapping):
        yield from _offences(extra, _FIELD, f"{path}.additionalProperties")


def _is_plain_metadata(node: Any) -> bool:
    if not isinstance(node, Mapping) or node.get("type") != "object":
        return False
    return set(node.get("properties") or {}) <= {"name", "generateName"}


def _list_offences(node: Schema, path: str) -> Iterator[Cause]:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys")
    if kind is not None and kind not in ("atomic", "set", "map"):
        yield causes.not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    if kind is not None and node.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield causes.invalid(f"{path}.type", node.get("type") or "", detail)
    if kind == "map" and not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield causes.required(f"{path}.x-kubernetes-list-map-keys", detail)
    if keys and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.x-kubernetes-list-type"
        yield causes.invalid(where, kind, detail) if kind else causes.required(where, detail)
    known = (
        (node.get("items") or {}).get("properties") or {} if isinstance(node.get("items"), Mapping) else {}
    )
    for index, key in enumerate(keys or ()):
        if kind == "map" and key not in known:
            detail = "entries must all be names of item properties"
            yield causes.invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", key, detail)


def _junctor_offences(node: Schema, path: str) -> Iterator[Cause]:
    for word, subs in _junctors(node):
        if word == "anyOf" and list(subs) == _INT_OR_STRING and node.get("x-kubernetes-int-or-string"):
            continue
        for index, sub in enumerate(subs):
            place = f"{path}.{word}" if word == "not" else f"{path}.{word}[{index}]"
            inner = (
                sub
                if not (word == "allOf" and index == 0 and sub.get("anyOf") == _INT_OR_STRING)
                else {key: value for key, value in sub.items() if key != "anyOf"}
            )
            yield from _nested_offences(inner, place)


def _junctors(node: Schema) -> Iterator[tuple[str, Sequence[Schema]]]:
    for word in ("allOf", "anyOf", "oneOf"):
        yield word, [sub for sub in node.get(word) or () if isinstance(sub, Mapping)]
    if isinstance(node.get("not"), Mapping):
        yield "not", [node["not"]]


def _nested_offences(node: Schema, path: str) -> Iterator[Cause]:
    """Below a junctor only values may be restricted; structure is said outside."""
    for word, detail in _FORBIDDEN_BELOW_JUNCTORS:
        if node.get(word):
            yield causes.forbidden(f"{path}.{word}", detail)
    yield from _junctor_offences(node, path)
    if isinstance(node.get("items"), Mapping):
        yield from _nested_offences(node["items"], f"{path}.items")
    for name, sub in (node.get("properties") or {}).items():
        if isinstance(sub, Mapping):
            yield from _nested_offences(sub, f"{path}.properties[{name}]")
    if "metadata" in (node.get("properties") or {}):
        yield causes.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _children(node: Schema, path: str) -> Iterable[tuple[Schema, str]]:
    for name, sub in (node.get("properties") or {}).items():
        yield sub, f"{path}.properties[{name}]"
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), Mapping):
            yield node[word], f"{path}.{word}"


def _bad_defaults(node: Schema, path: str) -> Iterator[Cause]:
    """Defaults that their own schema would refuse."""
    if node.get("default") is not None:
        found: _Found = []
        check = _compile_check(node)
        if check:
            check(node["default"], None, found)
        for _, cause in found:
            place = f"{path}.default" if cause.field in ("", causes.ROOT) else f"{path}.default.{cause.field}"
            yield Cause(reason=cause.reason, message=cause.message, field=place)
    for sub, place in _children(node, path):
        yield from _bad_defaults(sub, place)


def _rule_paths(node: Schema, path: str) -> Iterator[str]:
    if node.get("x-kubernetes-validations"):
        yield path.lstrip(".") or "the object"
    for name, sub in (node.get("properties") or {}).items():
        yield from _rule_paths(sub, f"{path}.{name}")
    if isinstance(node.get("items"), Mapping):
        yield from _rule_paths(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), Mapping):
        yield from _rule_paths(node["additionalProperties"], f"{path}{{}}")
