"""Documents of every kind with one value in the spec that the schema accepts and admission rejects.

a CRD's schema + a valid document ──▶ spoilt_specs() ──▶ the document with another value at one field
reviewers ──▶ refused_fields() ──▶ the fields that admission reviews of a creation name

Pure. The API server checks types and enums before it calls a webhook, so values have the field's type. Fields that a
schema leaves open (templates, containers, patches) are not changed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.admission import ReviewRule
from pykruise.kube.documents import get_path
from pykruise.kube.resources import Resource
from support.reviews import after_both
from support.wrong_values import Document, Path, Whole, paths

__all__ = ["Spoilt", "refused_fields", "sparse_specs", "spoilt_specs"]

UNREADABLE: Final = {"matchExpressions": [{"key": "a", "operator": "WAT"}]}
SELECTORS: Final[Sequence[Any]] = ({}, UNREADABLE, {"matchLabels": {"a b": "c"}})
INTEGERS: Final = (-1, -(2**31), 0, 2**31 - 1)
AMOUNTS: Final = (-1, 0, "-1%", "x", "5", "101%", "")
TEXTS: Final = ("WAT", "", "é☃", "-1")
LISTS: Final[Sequence[Any]] = ([],)


class Spoilt(msgspec.Struct, frozen=True):
    """A document, the changed field and its value."""

    path: Path
    value: Any
    document: Document

    @property
    def field(self) -> str:
        """The field as messages name it."""
        return re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, self.path)))


def spoilt_specs(whole: Whole, base: Document) -> Iterator[Spoilt]:
    """`base` with each value at each field of the spec. A list or an object that `base` does not have is taken from the
    document with every field."""
    for path, schema in _fields(whole.schema["properties"]["spec"], ("spec",)):
        for value in _values(schema):
            if value != get_path(base, *path):
                yield Spoilt(path, value, _with(base, whole.document, path, value))


def sparse_specs(whole: Whole, base: Document) -> Iterator[Document]:
    """`base` without each of its fields. And `base` with one more field, for each field of the whole document:
    unchanged, and without each field next to or below the added one. Fields below those of a pod stay."""
    yield base
    for path in paths(base["spec"]):
        if isinstance(path[-1], str) and not _is_in_pod(base, ("spec", *path)):
            yield _without(base, ("spec", *path))
    for added, _ in _fields(whole.schema["properties"]["spec"], ("spec",)):
        value = get_path(whole.document, *added)
        if value is None or get_path(base, *added) is not None:
            continue
        document = _with(base, whole.document, added, value)
        yield document
        if get_path(base, *added[:-1]) is None:
            continue  # the document lacks its siblings already
        parent = get_path(document, *added[:-1])
        for sibling in parent if isinstance(parent, Mapping) else ():
            yield _without(document, (*added[:-1], sibling))
        for path in paths(value):
            if isinstance(path[-1], str) and not _is_in_pod(document, (*added, *path)):
                yield _without(document, (*added, *path))


def _is_in_pod(document: Document, path: Path) -> bool:
    """Whether the path leads below a field of a pod template's spec, which no kind judges itself."""
    places = [index + 2 for index in range(len(path)) if path[index : index + 2] == ("template", "spec")]
    return any(len(path) > end + 1 and get_path(document, *path[:end], "containers") for end in places)


def _without(document: Any, path: Path) -> Any:
    step, rest = path[0], path[1:]
    if not rest:
        return {name: value for name, value in document.items() if name != step}
    without: Any = dict(document) if isinstance(document, Mapping) else list(document)
    without[step] = _without(document[step], rest)
    return without


def refused_fields(rules: Sequence[ReviewRule], resource: Resource, document: Document) -> Sequence[str]:
    """Fields for which admission reviews of a creation reject the document; empty if they allow it."""
    refusal = after_both(rules, resource, document).refusal
    if refusal is None:
        return ()
    causes = tuple(
        cause.field for cause in (refusal.details.causes if refusal.details else ()) or () if cause.field
    )
    return causes or (refusal.message,)


def _fields(schema: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every field below the path. Of a list, the first item represents all; of a map, the key of full documents."""
    if "additionalProperties" in schema:
        yield from _fields(schema["additionalProperties"], (*path, "key-0"))
    for name, sub in (schema.get("properties") or {}).items():
        if sub.get("x-kubernetes-preserve-unknown-fields"):
            continue
        place = (*path, name)
        yield place, sub
        if "items" in sub:
            yield (*place, 0), sub["items"]
            yield from _fields(sub["items"], (*place, 0))
        else:
            yield from _fields(sub, place)


def _values(schema: Mapping[str, Any]) -> Sequence[Any]:
    if schema.get("x-kubernetes-int-or-string"):
        return AMOUNTS
    match schema.get("type"):
        case "integer":
            least, most = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31)
            return [integer for integer in INTEGERS if least <= integer <= most]
        case "string":
            return [text for text in TEXTS if text in (schema.get("enum") or TEXTS)]
        case "object" if "matchExpressions" in (schema.get("properties") or {}):
            return SELECTORS
        case "array":
            return LISTS
    return ()


def _with(base: Any, whole: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(base) if base else list(whole)
        items[step] = _with(items[step], whole[step], rest, value)
        return items
    below = (whole or {}).get(step) if isinstance(whole, Mapping) else None
    return {**(base or {}), step: _with((base or {}).get(step), below, rest, value)}
