"""Conversion of custom resources between their versions, losing nothing on the way.

document in version S ──▶ the kind's rule S→T ──▶ what T has room for ─┐
     │                                                                 ├──▶ document in version T
     └──▶ what the rule T→S would not bring back ──▶ an annotation ────┘

A kind gives two rules, plain functions that say how fields are called on the other side. What only one side
can express is not their business: `convert` compares a document with what would come back from the other
version, and keeps the difference in the annotation `pykruise.io/conversion-<version>` of the converted
document, as JSON of the fields in their version. On the way back the fields return to their places and the
annotation goes.

A kept field is dropped when it contradicts what a client has written since: it returns only if all that the
other version would then show differently is what the client wrote. So a client of an old version that changes
a field wins over what was kept, and a client that changes something else loses nothing. Fields that contradict are
looked for by halving, in MOST_TRIES tries; what is still in a half that contradicts then goes with it. So what a
conversion costs depends on the size of the document alone.

Pure: documents that come in are not changed. Rules get a document of their own, may change it, and must not
raise on values of the wrong type: such values stay where they are. They raise ConversionError for what has
no meaning in the other version.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.documents import Document, deep_copy, same
from pykruise.kube.resources import Resource

__all__ = [
    "KEPT_PREFIX",
    "Conversion",
    "ConversionError",
    "Conversions",
    "Rule",
    "annotate",
    "convert",
    "drop",
    "each",
    "rename",
    "section",
    "unchanged",
]

MOST_TRIES: Final = 32

_COMPARED_LEVELS: Final = 8
"""From the top: parts that are equal are found so at once. Further down each level would compare all below again."""

KEPT_PREFIX: Final = "pykruise.io/conversion-"
"""Annotation with the fields that only the version named at its end has."""

Rule = Callable[[Document], Document]
"""A document in one version to the same in another; `apiVersion` is seen to by `convert`."""


class ConversionError(ValueError):
    """A document cannot be converted; the message says why, with the path of the field."""


def unchanged(doc: Document) -> Document:
    """The rule of a kind whose versions have the same fields, or of a version that has some more."""
    return doc


class Conversion(msgspec.Struct, frozen=True):
    """How the objects of a kind go between its two versions."""

    resource: Resource
    """Resource in the stored version, the hub."""
    spoke: str
    """The other version."""
    to_hub: Rule = unchanged
    to_spoke: Rule = unchanged
    normalize: Rule | None = None
    """A document of either version said another way that means the same. What it leaves out is not kept."""

    @property
    def hub(self) -> str:
        """The version that is stored."""
        return self.resource.version

    @property
    def versions(self) -> tuple[str, str]:
        """Hub and spoke."""
        return (self.hub, self.spoke)


Conversions = Mapping[tuple[str, str], Conversion]
"""Conversions by group and kind."""


def convert(doc: Mapping[str, Any], to: str, conversions: Conversions) -> Document:
    """The document in the version `to` (`apps.kruise.io/v1beta1`); a copy when it is in that version already.

    Raises ConversionError for a kind, or a version of it, that `conversions` does not know, and when a rule
    does.
    """
    version_of, kind = doc.get("apiVersion"), doc.get("kind")
    if not isinstance(version_of, str) or not isinstance(kind, str):
        raise ConversionError("the object has no apiVersion and kind")
    group, _, version = version_of.rpartition("/")
    to_group, _, to_version = to.rpartition("/")
    conversion = conversions.get((group, kind))
    if conversion is None:
        raise ConversionError(f"there is no conversion of {version_of} {kind}")
    for each in (version, to_version):
        if to_group != group or each not in conversion.versions:
            known = " and ".join(f"{group}/{version}" for version in conversion.versions)
            raise ConversionError(f"{kind} is converted between {known}, not from {version_of} to {to}")
    if version == to_version:
        return deep_copy(dict(doc))  # type: ignore[no-any-return]  # the copy of a dict is one
    if version == conversion.hub:
        result = _across(doc, there=conversion.to_spoke, back=conversion.to_hub, to=to_version, of=conversion)
    else:
        result = _across(doc, there=conversion.to_hub, back=conversion.to_spoke, to=to_version, of=conversion)
    result["apiVersion"] = to
    return result


def _across(doc: Mapping[str, Any], *, there: Rule, back: Rule, to: str, of: Conversion) -> Document:
    source: Document = deep_copy(dict(doc))
    here = of.hub if to == of.spoke else of.spoke
    annotate(source, KEPT_PREFIX + here, None)  # its fields are in their places
    kept = _read(_annotation(source, KEPT_PREFIX + to))
    annotate(source, KEPT_PREFIX + to, None)
    across = there(deep_copy(source))
    across["apiVersion"] = ""  # of no account in comparisons
    seen = back(deep_copy(across))
    if kept:
        across, seen = _restored(across, kept, back, seen=seen, source=source)
    meant = source if of.normalize is None else of.normalize(deep_copy(source))
    lost = _lost(meant, seen)
    if lost:
        annotate(across, KEPT_PREFIX + here, orjson.dumps(lost, option=orjson.OPT_SORT_KEYS).decode())
    return across


# ── what would be lost ───────────────────────────────────────────────────────


_ABSENT: Final = object()
_OWN: Final = ("apiVersion", "kind")
_IDENTITY: Final = ("uid", "namespace", "name", "type", "key", "tag")
"""Members by which an item of a list is recognised in another list."""


def _lost(source: Document, seen: Document) -> Document:
    """Fields of `source` that are absent from `seen` or differ there; of the metadata only labels and annotations."""
    whole = {field: value for field, value in source.items() if field not in (*_OWN, "metadata")}
    metadata = source.get("metadata")
    if isinstance(metadata, dict):
        whole["metadata"] = {part: metadata[part] for part in ("labels", "annotations") if part in metadata}
    missing = _missing(whole, seen)
    return missing if isinstance(missing, dict) else {}


def _missing(value: Any, seen: Any, levels: int = _COMPARED_LEVELS) -> Any:
    """The part of `value` that `seen` lacks, or `_ABSENT`. Null and empty text mean the same as absence."""
    if value is None or value == "" or (levels and same(value, seen)):
        return _ABSENT
    below = max(levels - 1, 0)
    if isinstance(value, dict) and isinstance(seen, dict):
        parts = {field: _missing(item, seen.get(field), below) for field, item in value.items()}
        parts = {field: part for field, part in parts.items() if part is not _ABSENT}
        return parts or _ABSENT
    if isinstance(value, list) and isinstance(seen, list) and _are_recognisable(value, seen):
        known = {_identity(item): item for item in seen}
        items = []
        for item in value:
            part = _missing(item, known.get(_identity(item)), below)
            if part is not _ABSENT:
                items.append({**dict(_identity(item)), **part})
        return items or _ABSENT
    return _ABSENT if not levels and same(value, seen) else value


def _are_recognisable(*lists: list[Any]) -> bool:
    """Whether every item can be distinguished from the others by its identity."""
    for items in lists:
        identities = [_identity(item) for item in items]
        if not all(identities) or len(set(identities)) < len(identities):
            return False
    return True


def _identity(item: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(item, dict):
        return ()
    return tuple((field, item[field]) for field in _IDENTITY if isinstance(item.get(field), str))


# ── and how it comes back ────────────────────────────────────────────────────


def _restored(
    value: Document, kept: Document, back: Rule, *, seen: Document, source: Document
) -> tuple[Document, Document]:
    """The document with the kept fields in their places, and what comes back of it.

    First all at once; when that contradicts the source, each half on its own, and so on.
    """
    left: list[Any] = [kept]
    for _ in range(MOST_TRIES):
        if not left:
            break
        part = left.pop()
        with_it = _overlaid(value, part)
        after = back(deep_copy(with_it))
        if _agrees(after, seen=seen, source=source):
            value, seen = with_it, after
        else:
            left += reversed(_halves(part))
    return value, seen


def _agrees(after: Any, *, seen: Any, source: Any, levels: int = _COMPARED_LEVELS) -> bool:
    """Whether all that changed from `seen` to `after` is now as `source` has it."""
    if levels and same(after, seen):
        return True
    if isinstance(after, dict) and (isinstance(seen, dict) or isinstance(source, dict)):
        seen = seen if isinstance(seen, dict) else {}
        source = source if isinstance(source, dict) else {}
        below = max(levels - 1, 0)
        return all(
            _agrees(after.get(field), seen=seen.get(field), source=source.get(field), levels=below)
            for field in after.keys() | seen.keys()
        )
    return same(after, source) or (not levels and same(after, seen))


def _overlaid(value: Any, kept: Any) -> Any:
    """A copy of the value with the kept fields in it."""
    if isinstance(value, dict) and isinstance(kept, dict):
        overlaid = dict(value)
        for field, part in kept.items():
            overlaid[field] = _overlaid(value[field], part) if field in value else deep_copy(part)
        return overlaid
    if isinstance(value, list) and isinstance(kept, list) and _are_recognisable(value, kept):
        parts = {_identity(part): part for part in kept}
        items = [_overlaid(item, parts.pop(_identity(item), {})) for item in value]
        return [*items, *(deep_copy(part) for part in parts.values())]
    return deep_copy(kept)


def _halves(kept: Any) -> list[Any]:
    """The kept fields in two parts, each with the way to it; nothing of a single one."""
    if isinstance(kept, dict):
        fields = list(kept.items())
        if len(fields) > 1:
            middle = len(fields) // 2
            return [dict(fields[:middle]), dict(fields[middle:])]
        return [{field: half} for field, part in fields for half in _halves(part)]
    if isinstance(kept, list) and _are_recognisable(kept):
        if len(kept) > 1:
            middle = len(kept) // 2
            return [kept[:middle], kept[middle:]]
        return [[{**dict(_identity(item)), **half}] for item in kept for half in _halves(_rest_of(item))]
    return []


def _rest_of(item: Document) -> Document:
    """Fields of a list item besides its identity."""
    identity = dict(_identity(item))
    return {field: part for field, part in item.items() if field not in identity}


# ── for rules ────────────────────────────────────────────────────────────────


def section(doc: Mapping[str, Any], *path: str) -> Document | None:
    """The object at this path, or None when there is none (or something else is there)."""
    value: Any = doc
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def each(items: Any) -> Iterator[Document]:
    """The objects of a list, or the objects in a map; nothing of anything else."""
    values = items.values() if isinstance(items, dict) else items if isinstance(items, list) else ()
    return (item for item in values if isinstance(item, dict))


def rename(part: Document | None, old: str, new: str) -> None:
    """Give a field its other name, unless that is taken. Changes the object; None is left alone."""
    if part is not None and old in part and new not in part:
        part[new] = part.pop(old)


def drop(part: Document | None, *fields: str) -> None:
    """Take fields away. Changes the object; None is left alone."""
    if part is not None:
        for field in fields:
            part.pop(field, None)


def annotate(doc: Document, key: str, value: str | None, *, part: str = "annotations") -> None:
    """Set an annotation of the document (or a label: `part="labels"`), or take it off with None.

    Changes the document; a map that ends up empty goes.
    """
    metadata = doc.get("metadata")
    if not isinstance(metadata, dict):
        if value is None or metadata is not None:
            return
        metadata = doc["metadata"] = {}
    entries = metadata.get(part)
    if value is not None:
        metadata[part] = {**(entries if isinstance(entries, dict) else {}), key: value}
    elif isinstance(entries, dict) and key in entries:
        metadata[part] = {each: text for each, text in entries.items() if each != key}
        if not metadata[part]:
            del metadata[part]


def _annotation(doc: Mapping[str, Any], key: str) -> str:
    entries = section(doc, "metadata", "annotations") or {}
    value = entries.get(key)
    return value if isinstance(value, str) else ""


def _read(text: str) -> Document:
    """The kept fields; what is not their JSON (it was edited) counts as nothing kept."""
    try:
        kept = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return {}
    return kept if isinstance(kept, dict) else {}
