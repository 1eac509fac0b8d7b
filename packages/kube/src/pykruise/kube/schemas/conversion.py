"""Conversion of custom resources between their versions, without loss.

document in version S ──▶ the kind's rule S→T ──▶ the fields that T has ─┐
     │                                                                   ├──▶ document in version T
     └──▶ the fields that rule T→S would not restore ──▶ an annotation ──┘

A kind gives two rules: plain functions that map fields to the other version. They do not have to handle fields that
only one version can express. `convert` converts its result back, compares that with the document, and keeps the
difference in the annotation `pykruise.io/conversion-<version>` of the converted document, as JSON of the fields in
their version. On the way back the fields return to their places and the annotation is removed.

A kept field is dropped when it contradicts later changes of a client. For each try, the document with the kept field is
converted back: where the field changes the result, the result must have the value that the client wrote. So a client of
an old version that changes a field overrides the kept value, and a client that changes another field loses nothing. To
find the contradicting fields, the kept fields are halved repeatedly, in at most MOST_TRIES tries; a part that still
contradicts then is dropped as a whole. So the cost of a conversion depends only on the size of the document.

Pure: input documents are not changed. Rules get their own copy of the document, may change it, and must not raise on
values of the wrong type: such values stay unchanged. They raise ConversionError for values that have no meaning in the
other version.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.documents import Document, deep_copy, is_same
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
    "find_section",
    "iterate_objects",
    "keep_unchanged",
    "rename",
]

MOST_TRIES: Final = 32

_COMPARED_LEVELS: Final = 8
"""Number of levels, from the top, on which equal parts are compared as a whole. On lower levels, each level would
compare everything below it again.
"""

KEPT_PREFIX: Final = "pykruise.io/conversion-"
"""Prefix of the annotation with kept fields. The version that has these fields follows the prefix."""

Rule = Callable[[Document], Document]
"""Converts a document of one version to another; `convert` sets `apiVersion`."""


class ConversionError(ValueError):
    """A document cannot be converted; the message says why, with the path of the field."""


def keep_unchanged(doc: Document) -> Document:
    """Rule of a kind whose versions have the same fields, or of a version that has only additional fields."""
    return doc


class Conversion(msgspec.Struct, frozen=True):
    """Conversion of the objects of a kind between its two versions."""

    resource: Resource
    """Resource in the stored version, the hub."""
    spoke: str
    """The other version."""
    to_hub: Rule = keep_unchanged
    to_spoke: Rule = keep_unchanged
    normalize: Rule | None = None
    """Returns an equivalent document in a normal form, in the same version. Fields that it drops are not kept."""

    @property
    def hub(self) -> str:
        """The stored version."""
        return self.resource.version

    @property
    def versions(self) -> tuple[str, str]:
        """The resource in the stored version, and in the other version."""
        return (self.hub, self.spoke)


Conversions = Mapping[tuple[str, str], Conversion]
"""Conversions by group and kind."""


def convert(doc: Mapping[str, Any], to: str, conversions: Conversions) -> Document:
    """Return the document in the version `to` (`apps.kruise.io/v1beta1`); a copy when it is already in that version.

    Raises ConversionError for a kind or version that is not in `conversions`, and when a rule raises it.
    """
    version_of, kind = doc.get("apiVersion"), doc.get("kind")
    if not isinstance(version_of, str) or not isinstance(kind, str):
        raise ConversionError("the object must have an apiVersion and a kind")
    group, _, version = version_of.rpartition("/")
    to_group, _, to_version = to.rpartition("/")
    conversion = conversions.get((group, kind))
    if conversion is None:
        raise ConversionError(f"there is no conversion of {version_of} {kind}")
    for each in (version, to_version):
        if to_group != group or each not in conversion.versions:
            known = " and ".join(f"{group}/{version}" for version in conversion.versions)
            raise ConversionError(
                f"{kind} can only be converted between {known}, not from {version_of} to {to}"
            )
    if version == to_version:
        return deep_copy(dict(doc))  # type: ignore[no-any-return]  # the copy of a dict is one
    if version == conversion.hub:
        result = _convert_keeping(
            doc, there=conversion.to_spoke, back=conversion.to_hub, to=to_version, of=conversion
        )
    else:
        result = _convert_keeping(
            doc, there=conversion.to_hub, back=conversion.to_spoke, to=to_version, of=conversion
        )
    result["apiVersion"] = to
    return result


def _convert_keeping(doc: Mapping[str, Any], *, there: Rule, back: Rule, to: str, of: Conversion) -> Document:
    source: Document = deep_copy(dict(doc))
    here = of.hub if to == of.spoke else of.spoke
    annotate(source, KEPT_PREFIX + here, None)  # in this version its fields are in their places
    kept = _parse_kept(_read_annotation(source, KEPT_PREFIX + to))
    annotate(source, KEPT_PREFIX + to, None)
    across = there(deep_copy(source))
    across["apiVersion"] = ""  # not compared
    seen = back(deep_copy(across))
    if kept:
        across, seen = _restore(across, kept, back, seen=seen, source=source)
    meant = source if of.normalize is None else of.normalize(deep_copy(source))
    lost = _find_lost(meant, seen)
    if lost:
        annotate(across, KEPT_PREFIX + here, orjson.dumps(lost, option=orjson.OPT_SORT_KEYS).decode())
    return across


# ── fields to keep ───────────────────────────────────────────────────────────


_ABSENT: Final = object()
_OWN: Final = ("apiVersion", "kind")
_IDENTITY: Final = ("uid", "namespace", "name", "type", "key", "tag")
"""Fields by which the same item is found in two lists."""


def _find_lost(source: Document, seen: Document) -> Document:
    """Return fields of `source` that are absent from `seen` or differ there; of the metadata only labels and
    annotations.
    """
    whole = {field: value for field, value in source.items() if field not in (*_OWN, "metadata")}
    metadata = source.get("metadata")
    if isinstance(metadata, dict):
        whole["metadata"] = {part: metadata[part] for part in ("labels", "annotations") if part in metadata}
    missing = _find_missing(whole, seen)
    return missing if isinstance(missing, dict) else {}


def _find_missing(value: Any, seen: Any, levels: int = _COMPARED_LEVELS) -> Any:
    """Return the part of `value` that `seen` lacks, or `_ABSENT`. Null and empty text count as absent."""
    if value is None or value == "" or (levels and is_same(value, seen)):
        return _ABSENT
    below = max(levels - 1, 0)
    if isinstance(value, dict) and isinstance(seen, dict):
        parts = {field: _find_missing(item, seen.get(field), below) for field, item in value.items()}
        parts = {field: part for field, part in parts.items() if part is not _ABSENT}
        return parts or _ABSENT
    if isinstance(value, list) and isinstance(seen, list) and _are_recognisable(value, seen):
        known = {_read_identity(item): item for item in seen}
        items = []
        for item in value:
            part = _find_missing(item, known.get(_read_identity(item)), below)
            if part is not _ABSENT:
                items.append({**dict(_read_identity(item)), **part})
        return items or _ABSENT
    return _ABSENT if not levels and is_same(value, seen) else value


def _are_recognisable(*lists: list[Any]) -> bool:
    """Whether every item can be distinguished from the others by its identity."""
    for items in lists:
        identities = [_read_identity(item) for item in items]
        if not all(identities) or len(set(identities)) < len(identities):
            return False
    return True


def _read_identity(item: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(item, dict):
        return ()
    return tuple((field, item[field]) for field in _IDENTITY if isinstance(item.get(field), str))


# ── restoring kept fields ────────────────────────────────────────────────────


def _restore(
    value: Document, kept: Document, back: Rule, *, seen: Document, source: Document
) -> tuple[Document, Document]:
    """Return the document with the kept fields in their places, and the result of converting it back.

    All fields are tried at the same time first. If they contradict the source, each half is tried separately, and so
    on.
    """
    left: list[Any] = [kept]
    for _ in range(MOST_TRIES):
        if not left:
            break
        part = left.pop()
        with_it = _overlay(value, part)
        after = back(deep_copy(with_it))
        if _agrees(after, seen=seen, source=source):
            value, seen = with_it, after
        else:
            left += reversed(_split_half(part))
    return value, seen


def _agrees(after: Any, *, seen: Any, source: Any, levels: int = _COMPARED_LEVELS) -> bool:
    """Whether `after`, wherever it differs from `seen`, has the value of `source`."""
    if levels and is_same(after, seen):
        return True
    if isinstance(after, dict) and (isinstance(seen, dict) or isinstance(source, dict)):
        seen = seen if isinstance(seen, dict) else {}
        source = source if isinstance(source, dict) else {}
        below = max(levels - 1, 0)
        return all(
            _agrees(after.get(field), seen=seen.get(field), source=source.get(field), levels=below)
            for field in after.keys() | seen.keys()
        )
    return is_same(after, source) or (not levels and is_same(after, seen))


def _overlay(value: Any, kept: Any) -> Any:
    """Return a copy of the value that includes the kept fields."""
    if isinstance(value, dict) and isinstance(kept, dict):
        overlaid = dict(value)
        for field, part in kept.items():
            overlaid[field] = _overlay(value[field], part) if field in value else deep_copy(part)
        return overlaid
    if isinstance(value, list) and isinstance(kept, list) and _are_recognisable(value, kept):
        parts = {_read_identity(part): part for part in kept}
        items = [_overlay(item, parts.pop(_read_identity(item), {})) for item in value]
        return [*items, *(deep_copy(part) for part in parts.values())]
    return deep_copy(kept)


def _split_half(kept: Any) -> list[Any]:
    """Return the kept fields in two parts, each with its path; nothing if only one field remains."""
    if isinstance(kept, dict):
        fields = list(kept.items())
        if len(fields) > 1:
            middle = len(fields) // 2
            return [dict(fields[:middle]), dict(fields[middle:])]
        return [{field: half} for field, part in fields for half in _split_half(part)]
    if isinstance(kept, list) and _are_recognisable(kept):
        if len(kept) > 1:
            middle = len(kept) // 2
            return [kept[:middle], kept[middle:]]
        return [
            [{**dict(_read_identity(item)), **half}]
            for item in kept
            for half in _split_half(_drop_identity(item))
        ]
    return []


def _drop_identity(item: Document) -> Document:
    """Return the fields of a list item except its identity."""
    identity = dict(_read_identity(item))
    return {field: part for field, part in item.items() if field not in identity}


# ── for rules ────────────────────────────────────────────────────────────────


def find_section(doc: Mapping[str, Any], *path: str) -> Document | None:
    """Return the object at this path, or None when there is none (or another value)."""
    value: Any = doc
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def iterate_objects(items: Any) -> Iterator[Document]:
    """Return the objects of a list, or those in a map; nothing for any other value."""
    values = items.values() if isinstance(items, dict) else items if isinstance(items, list) else ()
    return (item for item in values if isinstance(item, dict))


def rename(part: Document | None, old: str, new: str) -> None:
    """Rename a field, unless the new name exists. Changes the object; None is ignored."""
    if part is not None and old in part and new not in part:
        part[new] = part.pop(old)


def drop(part: Document | None, *fields: str) -> None:
    """Remove fields. Changes the object; None is ignored."""
    if part is not None:
        for field in fields:
            part.pop(field, None)


def annotate(doc: Document, key: str, value: str | None, *, part: str = "annotations") -> None:
    """Set an annotation of the document (or a label: `part="labels"`), or remove it with None.

    Changes the document; a map that becomes empty is removed.
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


def _read_annotation(doc: Mapping[str, Any], key: str) -> str:
    entries = find_section(doc, "metadata", "annotations") or {}
    value = entries.get(key)
    return value if isinstance(value, str) else ""


def _parse_kept(text: str) -> Document:
    """Return the kept fields. Invalid JSON (after a manual edit) counts as no kept fields."""
    try:
        kept = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return {}
    return kept if isinstance(kept, dict) else {}
