"""Updates `status.hard` and `status.used` of ResourceQuotas immediately after every commit.

commit of a quota  ──▶ QuotaBooks: a book with the usage of each object ──▶ status
commit of anything ──▶ the books of its namespace ──▶ status, if it has changed

In a simulated cluster, this module replaces Kubernetes' resource quota controller. A book is updated object by object.
All existing objects are counted only for a new quota.
"""

from typing import Final

import msgspec

from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.storage import StorageChange, Stored
from pykruise.sandbox.apiserver.plugins.namespace_limits import QUOTAS
from pykruise.sandbox.apiserver.plugins.quota_usage import (
    ZERO,
    Amounts,
    is_concerned,
    parse_amounts,
    shelves_of,
    usage_of,
)

_NOTHING: Final[Amounts] = {}


class _Book(msgspec.Struct):
    """Usage of one quota, in total and by object."""

    quota: Document
    hard: Amounts
    shelves: frozenset[str]
    used: Amounts
    by: dict[tuple[str, Key], Amounts]

    def note(self, shelf: str, key: Key, doc: Document | None) -> bool:
        """Record the current state of an object (None if it was deleted). Return whether this changes the usage."""
        before = self.by.pop((shelf, key), _NOTHING)
        after = _NOTHING
        if doc is not None and is_concerned(self.quota, shelf, doc):
            used = usage_of(shelf, doc)
            after = {name: used[name] for name in self.hard if name in used}
        if after:
            self.by[(shelf, key)] = after
        if before == after:
            return False
        for name in self.hard:
            change = after.get(name, ZERO) - before.get(name, ZERO)
            if change != ZERO:
                self.used[name] = self.used[name] + change
        return True


class QuotaBooks:
    """Maintains the status of every quota."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._books: dict[str, dict[str, _Book]] = {}
        self._watched: set[str] = set()
        core.limits.keeps_books = True
        core.on_change(QUOTAS, self._on_quota)
        for stored in core.storage.scan(QUOTAS).items:
            self._open_book(stored)

    def _on_quota(self, change: StorageChange) -> None:
        stored = change.new or change.old
        assert stored is not None
        namespace, name = stored.key
        mine = self._books.get(namespace, {})
        if change.new is None:
            mine.pop(name, None)
            if not mine:
                self._books.pop(namespace, None)
            return
        spec = decode(change.new.raw).get("spec")
        if name not in mine or mine[name].quota.get("spec") != spec:
            self._open_book(change.new)
        else:
            self._write_status(mine[name], change.new)

    def _open_book(self, stored: Stored) -> None:
        """Create the book of a quota from the existing objects."""
        quota = decode(stored.raw)
        hard = parse_amounts((quota.get("spec") or {}).get("hard"))
        shelves = frozenset(shelf for name in hard for shelf in shelves_of(name))
        book = _Book(quota, hard, shelves, dict.fromkeys(hard, ZERO), {})
        self._books.setdefault(stored.key.namespace, {})[stored.key.name] = book
        for shelf in sorted(shelves):
            for item in self._core.storage.scan(shelf, namespace=stored.key.namespace).items:
                book.note(shelf, item.key, decode(item.raw))
            if shelf not in self._watched:
                self._watched.add(shelf)
                self._core.on_change(shelf, self._on_object)
        self._write_status(book, stored)

    def _on_object(self, change: StorageChange) -> None:
        stored = change.new or change.old
        assert stored is not None
        books = self._books.get(stored.key.namespace)
        if not books:
            return
        mine = [(name, book) for name, book in books.items() if change.shelf in book.shelves]
        if not mine:
            return
        doc = decode(change.new.raw) if change.new is not None else None
        for name, book in mine:
            if book.note(change.shelf, stored.key, doc):
                known = self._core.storage.get(QUOTAS, Key(stored.key.namespace, name))
                if known is not None:
                    self._write_status(book, known)

    def _write_status(self, book: _Book, stored: Stored) -> None:
        """Write the status if it has changed."""
        wanted = {
            "hard": {name: str(amount) for name, amount in book.hard.items()},
            "used": {name: str(book.used[name]) for name in book.hard},
        }
        doc = decode(stored.raw)
        if doc.get("status") != wanted:
            doc["status"] = wanted
            entry = self._core.catalog.find_shelf_entry(QUOTAS)
            assert entry is not None
            self._core.put(entry, stored, doc)
