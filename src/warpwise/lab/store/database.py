"""The store's file: its path, opening it, and handling damaged, foreign or newer files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from warpwise.lab.store.schema import APPLICATION, VERSION, migrate

BUSY_S = 30.0  # seconds that a writer waits for another one
HEADER = b"SQLite format 3\0"
SUFFIXES = (".sqlite3", ".sqlite", ".db")
BESIDE = ("", "-wal", "-shm")  # a database and SQLite's files beside it
DAMAGE = ("malformed", "not a database", "quick_check")

Warn = Callable[[str], None]


class StoreError(RuntimeError):
    """The results store cannot be used; the message gives the reason and a remedy. The store is unchanged."""


class NewerStore(StoreError):
    """The store was made by a newer version of Warpwise."""


class _Damaged(Exception):
    """SQLite's integrity check failed."""


def store_path() -> Path:
    """The store's file: ``$WARPWISE_STORE``, else ``warpwise/runs.sqlite3`` under the XDG data folder.

    It is data, not cache: caches may be deleted at any time, and old measurements cannot be repeated.
    """
    named = os.environ.get("WARPWISE_STORE")
    if named:
        path = Path(named).expanduser()
        return path / "runs.sqlite3" if path.is_dir() else path
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "warpwise" / "runs.sqlite3"


def connect(path: Path, report: Warn) -> sqlite3.Connection:
    """Connect to the store at ``path``, creating or migrating it if necessary.

    A damaged file is renamed with a time stamp, never written to, and replaced by an empty store; ``report`` gets a
    message. Raises ``NewerStore``, or ``StoreError`` if it is not a store or cannot be opened; the file is then
    unchanged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the results store {path} cannot be created: {error}; set WARPWISE_STORE to another path"
        ) from error
    with translated(path):
        try:
            with _locked(path.parent, fcntl.LOCK_SH):  # no file is renamed while SQLite opens it and its log
                return _opened(path)
        except (_Damaged, sqlite3.DatabaseError) as error:
            if not _is_damage(error):
                raise
            with _locked(path.parent, fcntl.LOCK_EX):
                return _replaced(path, report)


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("BEGIN")  # one state for all three: another process may create the store meanwhile
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute("COMMIT")
        if application != APPLICATION and (application or version or tables):
            raise StoreError(f"{path} is another database, not a results store; set WARPWISE_STORE to another file")
        if version > VERSION:
            raise NewerStore(
                f"the results store {path} was made by a newer Warpwise (its schema is {version}, this version "
                f"supports {VERSION}); update Warpwise, or set WARPWISE_STORE to another file. The file was not changed"
            )
        for (line,) in connection.execute("PRAGMA quick_check(1)"):
            if line != "ok":
                raise _Damaged("quick_check: " + " ".join(line.split()))
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if version < VERSION:
            migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Enable WAL, for readers beside one writer. File systems without shared memory keep the rollback journal, as
    safely.

    SQLite does not wait for another process that changes the mode, so this function retries.
    """
    until = time.monotonic() + BUSY_S
    while connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _is_damage(error: Exception) -> bool:
    return isinstance(error, _Damaged) or any(word in str(error) for word in DAMAGE)


def _replaced(path: Path, report: Warn) -> sqlite3.Connection:
    """Move a damaged store aside and create a new one; the caller holds the folder's exclusive lock.

    If the store opens now, another process has already replaced it.
    """
    try:
        return _opened(path)
    except (_Damaged, sqlite3.DatabaseError) as error:
        if not _is_damage(error):
            raise
        if path.suffix not in SUFFIXES and path.read_bytes()[: len(HEADER)] != HEADER:
            raise StoreError(
                f"{path} is not a results store; set WARPWISE_STORE to another file ({', '.join(SUFFIXES)})"
            ) from error
        aside = _set_aside(path)
        report(
            f"the results store {path} is damaged ({error}); it was moved to {aside.name}, and a new one was created"
        )
    return _opened(path)


def _set_aside(path: Path) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    names = [f"{path.name}.damaged-{stamp}", *(f"{path.name}.damaged-{stamp}-{count}" for count in range(2, 1000))]
    free = next(name for name in names if not path.with_name(name).exists())
    for suffix in BESIDE:
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", path.with_name(free + suffix))
    return path.with_name(free)


@contextlib.contextmanager
def _locked(folder: Path, kind: int) -> Iterator[None]:
    """Lock ``folder``: LOCK_SH for processes that open a store, LOCK_EX for one that replaces it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, kind)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Convert SQLite's errors to ``StoreError``, with the file's name and a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        message = str(error)
        if "locked" in message:
            advice = f"another process has been writing for {BUSY_S:.0f} s; try again when it has ended"
        elif _is_damage(error):
            advice = "it is damaged; the next command that opens it replaces it"
        else:
            advice = "check the disk space and permissions, or set WARPWISE_STORE to another path"
        raise StoreError(f"the results store {path}: {message}; {advice}") from error
