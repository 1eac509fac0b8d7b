"""A Storage that survives a restart: an SQLite file beside the objects in memory.

commit(change) ──▶ one transaction in DIR/cluster.db ──▶ MemoryStorage ──▶ the response is sent
open(DIR)      ──▶ objects, newest revision            ──▶ MemoryStorage, its history compacted up to this revision

When the response to a write is sent, the write is in the file: it is not lost when this process ends, even by kill -9
(after a power failure, the last writes may be lost, see `PRAGMA synchronous`). Only the current state is stored, no
history. Revisions continue after a restart, and watches from before the restart get 410. A file of another program, or
a damaged file, is never written to.
"""

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, Page, StorageChange, Stored
from pykruise.sandbox.apiserver.requests.statuses import make_internal_error

_log = logging.getLogger(__name__)

_FILE: Final = "cluster.db"
_APPLICATION: Final = 0x70796B72  # "pykr" in the file's header
_FORMAT: Final = 2
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_SCHEMA: Final = """
CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (
  shelf TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  uid TEXT NOT NULL, revision INTEGER NOT NULL, labels TEXT NOT NULL, fields TEXT NOT NULL, raw BLOB NOT NULL,
  managed BLOB NOT NULL,
  PRIMARY KEY (shelf, namespace, name)
) WITHOUT ROWID;
INSERT INTO state VALUES ('revision', 1);
"""
_PUT: Final = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM objects WHERE shelf = ? AND namespace = ? AND name = ?"
_ADVANCE: Final = "UPDATE state SET value = ? WHERE key = 'revision'"


class DataDirError(Exception):
    """The data directory cannot be used. The message is one line with the reason."""


def _make_private(directory: Path) -> None:
    """Make the directory accessible to its owner only, because it contains Secrets. A directory with other files
    keeps its mode.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=_DIRECTORY_MODE)
    if all(path.name.startswith(_FILE) for path in directory.iterdir()):
        directory.chmod(_DIRECTORY_MODE)


class DurableStorage:
    """A Storage in `directory`, which is created when it is missing. Close it after the API server has ended.

    Raises DataDirError when the file is not writable, in use by another process, damaged, or of another program.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / _FILE
        self._is_full = False
        try:
            _make_private(directory)
        except OSError as err:
            raise DataDirError(f"{directory}: cannot be created: {err.strerror or err}") from err
        try:
            self._db = self._open_database()
        except sqlite3.Error as err:
            raise DataDirError(f"{self.path}: {_explain(err)}") from err
        except OSError as err:
            raise DataDirError(f"{self.path}: cannot be read: {err.strerror or err}") from err
        try:
            self._memory = self._restore()
        except (sqlite3.Error, ValueError) as err:
            self._db.close()
            text = _explain(err) if isinstance(err, sqlite3.Error) else f"is damaged: {err}"
            raise DataDirError(f"{self.path}: {text}") from err
        except DataDirError:
            self._db.close()
            raise

    def close(self) -> None:
        """Write everything into the database file and release the file."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    # ── Storage ──────────────────────────────────────────────────────────────

    @property
    def revision(self) -> int:
        return self._memory.revision

    def get(self, shelf: str, key: Key) -> Stored | None:
        return self._memory.get(shelf, key)

    def scan(
        self, shelf: str, *, namespace: str = "", start: str = "", limit: int = 0, revision: int = 0
    ) -> Page:
        return self._memory.scan(shelf, namespace=namespace, start=start, limit=limit, revision=revision)

    def list_changes_since(self, shelf: str, revision: int) -> list[StorageChange]:
        return self._memory.list_changes_since(shelf, revision)

    def compact(self, revision: int) -> None:
        self._memory.compact(revision)

    def commit(self, change: StorageChange) -> None:
        """Commit to the file first and to memory second, so that a write that cannot be stored has no effect.

        Raises a Refusal (500) when the file cannot be written, for instance because the disk is full.
        """
        if change.revision != self.revision + 1:
            raise ValueError(f"revision {change.revision} does not follow {self.revision}")
        try:
            self._write_change(change)
        except sqlite3.Error as err:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            text = f"{self.path}: {_explain(err)}"
            if not self._is_full:
                _log.error("%s; the cluster rejects all writes until this is corrected", text)
            self._is_full = True
            raise make_internal_error(f"the object was not stored: {text}") from err
        self._is_full = False
        self._memory.commit(change)

    def _write_change(self, change: StorageChange) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        if change.new is not None:
            self._db.execute(_PUT, _to_row(change.shelf, change.new))
        elif change.old is not None:
            self._db.execute(_REMOVE, (change.shelf, *change.old.key))
        self._db.execute(_ADVANCE, (change.revision,))
        self._db.execute("COMMIT")

    # ── opening ──────────────────────────────────────────────────────────────

    def _open_database(self) -> sqlite3.Connection:
        if self.path.exists() and self.path.stat().st_size:
            self._check_header()
        # SQLite creates its other files with the mode of the database file.
        self.path.touch(mode=_FILE_MODE)
        for path in self.path.parent.glob(f"{_FILE}*"):
            path.chmod(_FILE_MODE)
        db = sqlite3.connect(self.path, isolation_level=None, timeout=0.5)
        try:
            # Only one process may use the file, because a second process would not know the writes of the first.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("BEGIN EXCLUSIVE")
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                # The ids are set before the switch to WAL, so that they are in the file's header from the beginning.
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {_FORMAT}")
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    db.execute(statement)
            db.execute("COMMIT")
            db.execute("PRAGMA journal_mode = WAL")
            # In WAL mode a commit survives the end of the process without a sync to disk.
            db.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            db.close()
            raise
        return db

    def _check_header(self) -> None:
        """Reject a file of another program before SQLite accesses it.

        Raises DataDirError. (Bytes 60 to 63 of an SQLite file are its user version, bytes 68 to 71 its application id.)
        """
        with self.path.open("rb") as file:
            header = file.read(100)
        if not header.startswith(b"SQLite format 3\0"):
            raise DataDirError(
                f"{self.path}: is not a cluster's file (it is not a SQLite database); left unchanged"
            )
        version = int.from_bytes(header[60:64], "big")
        if int.from_bytes(header[68:72], "big") != _APPLICATION:
            raise DataDirError(f"{self.path}: is a database of another program; left unchanged")
        if version != _FORMAT:
            raise DataDirError(
                f"{self.path}: has format {version}, but this version reads format {_FORMAT}; left unchanged"
            )

    def _restore(self) -> MemoryStorage:
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise DataDirError(f"{self.path}: is damaged: {' '.join(str(verdict).split())}; left unchanged")
        row = self._db.execute("SELECT value FROM state WHERE key = 'revision'").fetchone()
        if row is None:
            raise DataDirError(f"{self.path}: is damaged: it has no revision; left unchanged")
        return MemoryStorage.restore(self._read_objects(), revision=int(row[0]))

    def _read_objects(self) -> Iterator[tuple[str, Stored]]:
        rows = self._db.execute(
            "SELECT shelf, namespace, name, uid, revision, labels, fields, raw, managed FROM objects"
        )
        for shelf, namespace, name, uid, revision, labels, fields, raw, managed in rows:
            stored = Stored(
                key=Key(namespace, name),
                raw=raw,
                revision=revision,
                uid=uid,
                labels=json.loads(labels),
                fields=tuple(json.loads(fields)),
                managed=managed,
            )
            yield shelf, stored


def _to_row(shelf: str, stored: Stored) -> tuple[object, ...]:
    return (
        shelf,
        stored.key.namespace,
        stored.key.name,
        stored.uid,
        stored.revision,
        json.dumps(dict(stored.labels)),
        json.dumps(stored.fields),
        stored.raw,
        stored.managed,
    )


def _explain(err: sqlite3.Error) -> str:
    """Explain SQLite's error to the user."""
    match getattr(err, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "is in use by another process"
        case sqlite3.SQLITE_FULL:
            return "the disk is full"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return "cannot be written"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return f"is damaged: {err}; left unchanged"
        case _:
            return str(err)
