"""ResourceQuotas and LimitRanges by namespace: a write in a namespace without them only needs a lookup in a dict.

commits of both kinds ──▶ NamespaceLimits ──▶ limits.py, quota_books.py
"""

from typing import Final

from pykruise.kube.documents import Document, decode
from pykruise.sandbox.apiserver.objects.storage import Storage, StorageChange

QUOTAS: Final = "resourcequotas"
LIMIT_RANGES: Final = "limitranges"


class NamespaceLimits:
    """All quotas and limit ranges, by namespace and name."""

    def __init__(self, storage: Storage) -> None:
        self.quotas: dict[str, dict[str, Document]] = {}
        self.ranges: dict[str, dict[str, Document]] = {}
        self.keeps_books = False
        """Whether quota_books.py counts usage. Otherwise each write is counted when it is checked."""
        for shelf in (QUOTAS, LIMIT_RANGES):
            for stored in storage.scan(shelf).items:
                self._select_documents(shelf).setdefault(stored.key.namespace, {})[stored.key.name] = decode(
                    stored.raw
                )

    def handle_change(self, change: StorageChange) -> None:
        """Update the dicts after a quota or a limit range was written or deleted."""
        stored = change.new or change.old
        assert stored is not None
        kept = self._select_documents(change.shelf)
        mine = kept.setdefault(stored.key.namespace, {})
        if change.new is not None:
            mine[stored.key.name] = decode(change.new.raw)
            return
        mine.pop(stored.key.name, None)
        if not mine:
            del kept[stored.key.namespace]

    def _select_documents(self, shelf: str) -> dict[str, dict[str, Document]]:
        return self.quotas if shelf == QUOTAS else self.ranges
