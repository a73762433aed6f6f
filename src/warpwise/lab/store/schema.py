"""The store's tables. ``PRAGMA user_version`` is the number of migrations applied to a file."""

from __future__ import annotations

import sqlite3

APPLICATION = 0x57617270  # "Warp": PRAGMA application_id, which distinguishes a store from other databases

# One entry per version, oldest first. Released entries are never edited, only appended to.
MIGRATIONS = (
    """
    CREATE TABLE runs (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      started TEXT NOT NULL,            -- UTC, ISO 8601 to the microsecond: sorts as text
      finished TEXT,                    -- NULL: killed, or still going
      op TEXT NOT NULL,
      device TEXT NOT NULL,
      driver TEXT NOT NULL,
      warpwise TEXT NOT NULL,
      torch TEXT NOT NULL,
      triton TEXT NOT NULL,
      cuda TEXT NOT NULL,
      kernels_commit TEXT NOT NULL,
      kernels_dirty INTEGER NOT NULL,
      made_by TEXT NOT NULL,
      environment TEXT NOT NULL,        -- JSON
      origin TEXT UNIQUE                -- digest of the file that it was imported from
    );
    CREATE INDEX runs_by_op ON runs (op, started);
    CREATE INDEX runs_by_start ON runs (started);
    CREATE INDEX runs_by_commit ON runs (kernels_commit);
    CREATE TABLE measurements (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
      taken TEXT NOT NULL,
      op TEXT NOT NULL,
      device TEXT NOT NULL,
      name TEXT NOT NULL,
      kind TEXT NOT NULL,
      language TEXT NOT NULL,
      "case" TEXT NOT NULL,             -- '': a verdict over all cases
      sizes TEXT NOT NULL,              -- JSON
      "values" TEXT NOT NULL,
      layout TEXT NOT NULL,
      dtype TEXT NOT NULL,
      verdict TEXT NOT NULL,
      message TEXT NOT NULL,
      median REAL,                      -- seconds
      low REAL,
      high REAL,
      samples INTEGER NOT NULL,
      mode TEXT NOT NULL,
      bytes INTEGER,
      flops INTEGER,
      floor REAL,
      bound TEXT NOT NULL,
      ratio REAL,                       -- the best opponent's time over this one
      ratio_low REAL,
      ratio_high REAL,
      clock_low REAL,                   -- MHz
      clock_median REAL,
      clock_highest REAL,
      converged INTEGER NOT NULL,
      throttled INTEGER NOT NULL,
      exposed INTEGER NOT NULL,
      source TEXT NOT NULL,
      counters TEXT                     -- JSON
    );
    CREATE INDEX measurements_by_run ON measurements (run, name);
    CREATE INDEX measurements_by_what ON measurements (op, name, "case", dtype, device, taken);
    CREATE INDEX measurements_by_time ON measurements (taken);
    """,
)

VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection) -> None:
    """Migrate the tables to ``VERSION`` in one transaction; of two concurrent processes, the second does nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for step in MIGRATIONS[version:]:
            for statement in _statements(step):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {max(version, VERSION)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _statements(script: str) -> list[str]:
    """The statements of ``script``: ``executescript`` would commit the surrounding transaction."""
    found, text = [], ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text)
            text = ""
    return found
