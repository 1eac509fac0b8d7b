"""Makes the responses of two servers comparable: a name for its type replaces each value that must differ.

[Answer, …] of one conversation ──▶ normalised() ──▶ JSON that is equal if the servers behave in the same way

- uids, generated names and allocated addresses are numbered as they appear: `<uid 1>`, `web-<name 1>`;
- times of this decade become `<time>` or `<micro time>` (times that a case writes are from an earlier one);
- the version of an object becomes its position among all versions of the conversation: `<version 3>`; the
  version of a list or bookmark, which other clients' writes change as well, becomes the newest included one:
  `<after version 3>`;
- continue tokens become `<token>`; numbers in texts about versions are removed;
- managedFields are left out, unless the step requests them. Then they are compared for each manager, because their
  order depends on whether a second ends between two steps;
- conflicts of managers are sorted, because they have the random order of a Go map;
- texts end before Go structs, and descriptions of a table's columns are left out.

Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.dsl import Case, Request
from conformance.talking import Answer

__all__ = ["differences", "differences_from_all", "normalised"]

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_SUFFIX: Final = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
_TEXTS: Final = (
    (re.compile(r"https://127\.0\.0\.1:(\d{5}|2)\b"), "https://<hook>"),
    (re.compile(r"dial tcp 127\.0\.0\.1:(\d{5}|2)\b"), "dial tcp <hook>"),
    (re.compile(r"too old resource version: \d+ \(\d+\)"), "too old resource version: <asked> (<oldest>)"),
    (
        re.compile(r"Too large resource version: \d+, current: \d+"),
        "Too large resource version: <asked>, current: <current>",
    ),
    (re.compile(r"revision=\d+"), "revision=<version>"),
    (re.compile(r"in record \(\d+\)"), "in record (<version>)"),
    (re.compile(r"\(0x[0-9a-f]{6,}\)"), "(<pointer>)"),
    # The whole object, in the order of the members of a Go struct and with managedFields.
    (re.compile(r'patch: Invalid value: "\{.*(?:\}|…)": ', re.DOTALL), "patch: Invalid value: <object>: "),
    (
        re.compile(r'^Invalid value: "\{\\"(?:apiV|kind|meta).*(?:\}|…)": ', re.DOTALL),
        "Invalid value: <object>: ",
    ),
    # The rest shows differences of Go structs, line by line, with spacing that is random on purpose.
    (re.compile(r"(Forbidden: [^\n]*)\n.*", re.DOTALL), r"\1\n<what differs>"),
)
_AGE: Final = re.compile(r"\d{1,2}s")
_ADDRESSES: Final = {"clusterIP", "clusterIPs"}


def normalised(case: Case, answers: list[Answer]) -> list[dict[str, Any]]:
    """One JSON value per response: status, compared headers, body."""
    names = _Names(answers)
    result = []
    for step, answer in zip(case.steps, answers, strict=True):
        keep = isinstance(step, Request) and step.managed_fields
        entry: dict[str, Any] = {"status": answer.status}
        if answer.headers:
            entry["headers"] = {name: names.text(value) for name, value in sorted(answer.headers.items())}
        entry["body"] = names.value(answer.body, keep_managed_fields=keep)
        result.append(entry)
    return result


def differences(wanted: Any, value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Differences of two normalised responses: dotted path, expected value, actual value."""
    if isinstance(wanted, Mapping) and isinstance(value, Mapping):
        for name in sorted({*wanted, *value}):
            here = f"{path}.{name}" if path else name
            yield from differences(wanted.get(name, _ABSENT), value.get(name, _ABSENT), here)
    elif isinstance(wanted, list) and isinstance(value, list) and len(wanted) == len(value):
        if path.endswith("metadata.managedFields"):
            wanted, value = _by_manager(wanted), _by_manager(value)
        for position, (item, other) in enumerate(zip(wanted, value, strict=True)):
            yield from differences(item, other, f"{path}.{position}" if path else str(position))
    elif wanted != value or type(wanted) is not type(value):
        yield path, wanted, value


def _by_manager(entries: list[Any]) -> list[Any]:
    """Entries of managedFields in an order that does not depend on time."""

    def who(entry: Any) -> tuple[str, ...]:
        members = ("operation", "manager", "subresource", "apiVersion")
        return tuple(str(entry.get(member, "")) for member in members)

    return sorted(entries, key=who) if all(isinstance(entry, Mapping) for entry in entries) else entries


def differences_from_all(wanted: Sequence[Any], value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Places where a response differs from all expected responses, with the value of the first of them.

    A place that equals one expected response is no difference, even if other places equal another one.
    """
    first, *others = wanted
    elsewhere = [[path for path, *_ in differences(other, value)] for other in others]
    for difference in differences(first, value):
        if all(any(_overlap(difference[0], path) for path in paths) for paths in elsewhere):
            yield difference


def _overlap(text: str, other: str) -> bool:
    """Whether one path is the other, or below it."""
    return text == other or text.startswith(f"{other}.") or other.startswith(f"{text}.")


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT: Final = _Absent()


class _Names:
    """Replacement names for the values of one conversation."""

    def __init__(self, answers: list[Answer]) -> None:
        self._uids: dict[str, str] = {}
        self._generated: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        versions: set[int] = set()
        for answer in answers:
            for holder, is_object in _metadata_in(answer.body):
                version = str(holder.get("resourceVersion") or "")
                if is_object and version.isdigit():
                    versions.add(int(version))
                self._note_generated(holder)
        self._versions = {version: place for place, version in enumerate(sorted(versions), start=1)}

    def _note_generated(self, metadata: Mapping[str, Any]) -> None:
        prefix, name = str(metadata.get("generateName") or ""), str(metadata.get("name") or "")
        if prefix and name not in self._generated and _SUFFIX.fullmatch(name[len(prefix) :]):
            self._generated[name] = f"{prefix}<name {len(self._generated) + 1}>"

    def value(self, value: Any, *, keep_managed_fields: bool = False, member: str = "") -> Any:
        match value:
            case str() if member in _ADDRESSES and value not in ("", "None"):
                return self._numbered(self._addresses, value, "address")
            case str():
                return self.text(value)
            case list():
                return [
                    self.value(each, keep_managed_fields=keep_managed_fields, member=member) for each in value
                ]
            case Mapping():
                return self._document(value, keep_managed_fields=keep_managed_fields)
            case _:
                return value

    def _document(self, doc: Mapping[str, Any], *, keep_managed_fields: bool) -> dict[str, Any]:
        is_list = _is_list(doc)
        document: dict[str, Any] = {}
        for name in sorted(doc):
            value = doc[name]
            if name == "managedFields" and not keep_managed_fields:
                continue
            if name == "metadata" and isinstance(value, Mapping):
                document[name] = self._metadata(value, is_list=is_list, keep=keep_managed_fields)
            elif name == "columnDefinitions" and isinstance(value, list):
                document[name] = [{**each, "description": "<text>"} for each in value]
            elif name == "cells" and isinstance(value, list):
                document[name] = [_cell(self.value(each)) for each in value]
            elif name == "causes" and isinstance(value, list):
                document[name] = _sorted_conflicts(self.value(value))
            elif name == "caBundle":
                document[name] = "<bundle>"
            elif name == "nodePort" and isinstance(value, int) and value:
                document[name] = "<port>"
            else:
                document[name] = self.value(value, keep_managed_fields=keep_managed_fields, member=name)
        return document

    def _metadata(self, metadata: Mapping[str, Any], *, is_list: bool, keep: bool) -> dict[str, Any]:
        result = self._document({**metadata, "resourceVersion": ""}, keep_managed_fields=keep)
        del result["resourceVersion"]
        version = metadata.get("resourceVersion")
        if version is not None:
            result["resourceVersion"] = self._version(version, is_list=is_list)
        if result.get("continue"):
            result["continue"] = "<token>"
        return result

    def _version(self, version: Any, *, is_list: bool) -> Any:
        if not (isinstance(version, str) and version.isdigit()) or version == "0":
            return version
        if not is_list and int(version) in self._versions:
            return f"<version {self._versions[int(version)]}>"
        seen = [place for known, place in self._versions.items() if known <= int(version)]
        return f"<after version {max(seen, default=0)}>"

    def text(self, text: str) -> str:
        for generated, name in self._generated.items():
            text = text.replace(generated, name)
        text = _UID.sub(lambda match: self._numbered(self._uids, match[0], "uid"), text)
        text = _TIME.sub(lambda match: "<micro time>" if match[1] else "<time>", text)
        for pattern, replacement in _TEXTS:
            text = pattern.sub(replacement, text)
        return text

    def _numbered(self, known: dict[str, str], value: str, what: str) -> str:
        return known.setdefault(value, f"<{what} {len(known) + 1}>")


def _cell(value: Any) -> Any:
    """A cell of a table. A short duration is an age, because a conversation lasts some seconds."""
    return "<age>" if isinstance(value, str) and _AGE.fullmatch(value) else value


def _sorted_conflicts(causes: list[Any]) -> list[Any]:
    """Conflicts of an apply, sorted by the manager in their messages; other causes stay as they are."""
    if all(cause.get("reason") == "FieldManagerConflict" for cause in causes):
        return sorted(causes, key=lambda cause: (cause["message"], cause["field"]))
    return causes


def _is_list(doc: Mapping[str, Any]) -> bool:
    """Whether the document's metadata are those of a list, a table or a bookmark."""
    return isinstance(doc.get("items"), list) or "rows" in doc or _is_bookmark(doc)


def _is_bookmark(doc: Mapping[str, Any]) -> bool:
    metadata = doc.get("metadata")
    return isinstance(metadata, Mapping) and "uid" not in metadata and "name" not in metadata


def _metadata_in(value: Any) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """All metadata in a response, each with whether they are an object's."""
    walk: Callable[[Any], Iterator[tuple[Mapping[str, Any], bool]]] = _metadata_in
    if isinstance(value, Mapping):
        metadata = value.get("metadata")
        if isinstance(metadata, Mapping):
            yield metadata, not _is_list(value)
        for each in value.values():
            yield from walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from walk(each)
