"""A state as text: the stored objects, the managers' memories, and the waiting steps. Equal texts are one state.

API server's objects ───┐
caches, queues, memory ─┼──▶ text ──names, uids, times, versions replaced──▶ digest
waiting steps, budgets ─┘

Two runs can differ in values that change no decision; the text leaves out these differences. Uids and random names are
numbered in the order in which they occur in the text. A version is only `present` (the current one) or `past`. Times in
objects are left out. Other times are written as seconds from now, rounded to hundredths; all times more than 10 seconds
ago are equal. So states that differ only in these values are equal. If a decision depends only on the order of random
names, only one order is tried.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.runtime.operator import Operator
from pykruise.sandbox.apiserver.objects.storage import StorageChange
from pykruise.testing.simulation.history import RecordingStorage

__all__ = ["Names", "VersionedStorage", "digest_of", "remembered"]

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
VERSION = re.compile(r"""(?:"resourceVersion":|"value":|resource_version=)["'](?P<version>\d+)["']""")
ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b|[a-z]+://[0-9a-f]{64}")
FIRST_IDENTITY = 1 << 32
"""An integer of this size or larger is the id() of a Python object. Some memories use such ids as keys."""
PAST_S = -10.0
"""Times before this limit (in seconds relative to now) are treated as equal."""

_encode = msgspec.json.Encoder(order="sorted").encode


class VersionedStorage(RecordingStorage):
    """A recording storage that knows the object of each version."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.raw: dict[tuple[str, Key, int], bytes] = {}
        self.changes: dict[str, list[tuple[int, Key]]] = {}
        """Every version, with the key of the object that has this version, by resource."""
        self.order: dict[tuple[str, Key], int] = {}
        """The version in which an object was created, by object."""
        self._texts: dict[tuple[str, Key, int], str] = {}

    def commit(self, change: StorageChange) -> None:
        """Store a write, and remember the object's bytes and versions for `text_of`, `objects` and `after`."""
        stored = change.new or change.old
        assert stored is not None
        if change.new is not None:
            self.raw[change.shelf, stored.key, change.revision] = change.new.raw
        if change.old is None:
            self.order[change.shelf, stored.key] = change.revision
        self.changes.setdefault(change.shelf, []).append((change.revision, stored.key))
        super().commit(change)

    def text_of(self, shelf: str, key: Key, version: int) -> str:
        """Return the text of an object in that version; `gone` if that version is its deletion."""
        known = self._texts.get((shelf, key, version))
        if known is None:
            raw = self.raw.get((shelf, key, version))
            known = self._texts[shelf, key, version] = "gone" if raw is None else _format_plain(raw)
        return known

    def objects(self, shelf: str) -> list[tuple[Key, int]]:
        """Return the stored objects with their versions, in order of creation."""
        objects = [(item.key, item.revision) for item in self.scan(shelf).items]
        return sorted(objects, key=lambda item: self.order.get((shelf, item[0]), 0))

    def after(self, shelf: str, version: int) -> list[str]:
        """Return the writes after that version, in order."""
        return [
            f"{key}:{self.text_of(shelf, key, revision)}"
            for revision, key in self.changes.get(shelf, ())
            if revision > version
        ]


def _format_plain(raw: bytes) -> str:
    document = dict(decode(raw))
    metadata = {
        name: value
        for name, value in document["metadata"].items()
        if name not in ("resourceVersion", "managedFields", "creationTimestamp")
    }
    if document.get("kind") == "ControllerRevision":
        return f"{metadata['name']} {document.get('revision')} {metadata.get('ownerReferences')}"
    return ADDRESS.sub("A", TIME.sub("T", _encode({**document, "metadata": metadata}).decode()))


class Names:
    """Numbers for uids and random names, in the order in which they appear in a text. Versions become `present` or
    `past`.
    """

    def __init__(self, suffixes: Iterable[str], current: Collection[int]) -> None:
        ends = "|".join(sorted(suffixes))
        self._pattern = re.compile(UID.pattern + (rf"|\b(?:{ends})\b" if ends else ""))
        self._numbers: dict[str, str] = {}
        self._current = {str(version) for version in current}

    def replace(self, text: str) -> str:
        """Return the text with numbers instead of names."""
        return self._pattern.sub(self._format_number, TIME.sub("T", VERSION.sub(self._format_age, text)))

    def _format_age(self, match: "re.Match[str]") -> str:
        return "present" if match.group("version") in self._current else "past"

    def _format_number(self, match: "re.Match[str]") -> str:
        text = match.group()
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = f"#{len(self._numbers) + 1}"
        return number


def digest_of(text: str) -> int:
    """Return a hash of 64 bits of the text, never 0."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1


def remembered(
    operator: Operator, versions: VersionedStorage, plurals: Collection[str], *, now: float, clock: float
) -> str:
    """Return the memory of an operator: caches of these resources, with their undelivered events, and its own data."""
    parts = [
        f"{resource.plural} {_format_cache(cache._store, resource, versions)}"
        for resource, cache in operator.sources.by_resource.items()
        if resource.plural in plurals
    ]
    for controller in operator.controllers:
        queue = controller.queue
        due = {str(key): round(at - now, 2) for key, at in queue._due.items()}
        flying = {str(key): again for key, again in queue._in_flight.items()}
        backoffs = {
            str(key): (trouble.waits, _format_time(trouble.until, now, clock))
            for key, trouble in queue._troubles.items()
        }
        row = {str(key): min(count, 4) for key, count in controller._conflicts_in_row.items()}
        parts.append(f"{controller.name} {due} {flying} {backoffs} {row}")
    parts += [_dump(memory._of_objects, now, clock, 0) for memory in operator._context.memories]
    return "\n".join(parts)


def _format_cache(store: Any, resource: Resource, versions: VersionedStorage) -> str:
    """Return a cache's objects (`=` for an object that equals the stored one), and the events that it has not
    received.
    """
    shelf = str(resource)
    held = sorted(store._objects.items(), key=lambda item: versions.order.get((shelf, item[0]), 0))
    parts = []
    for key, view in held:
        stored = versions.get(shelf, key)
        is_same = stored is not None and stored.revision == view.resource_version
        text = "=" if is_same else versions.text_of(shelf, key, view.resource_version)
        parts.append(f"{key}{'*' if key in store._pending else ''}:{text}")
    behind = versions.after(shelf, store.position)
    return f"{parts} {sorted(store._tombstones)} behind {behind}"


def _format_time(at: float, now: float, clock: float) -> str:
    """Return a time as seconds from now; `never` for numbers that are not near the current time."""
    for present in (now, clock):
        if abs(at - present) < 1e6:
            return str(round(max(at - present, PAST_S), 2))
    return "never"


def _dump(value: Any, now: float, clock: float, depth: int) -> str:
    """Return the text of any value that a manager keeps in memory."""
    if depth > 8:
        return "…"
    if isinstance(value, float):
        return _format_time(value, now, clock)
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, str) and value.isdigit():
        return "V"  # a version
    if isinstance(value, int) and value >= FIRST_IDENTITY:
        return "identity"
    if value is None or isinstance(value, bool | int | str | bytes):
        return repr(value)
    if isinstance(value, Mapping):
        inside = (
            f"{_dump(k, now, clock, depth + 1)}:{_dump(v, now, clock, depth + 1)}" for k, v in value.items()
        )
        return "{" + ",".join(inside) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(_dump(item, now, clock, depth + 1) for item in value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_dump(item, now, clock, depth + 1) for item in value) + "]"
    known = getattr(type(value), "__struct_fields__", None) or sorted(getattr(value, "__dict__", ()))
    fields = [name for name in known if name != "resource_version"]
    inside = (f"{name}={_dump(getattr(value, name, None), now, clock, depth + 1)}" for name in fields)
    return f"{type(value).__name__}({','.join(inside)})"
