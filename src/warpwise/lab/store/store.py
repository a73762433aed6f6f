"""``Store``: all runs and measurements in one SQLite file, for concurrent processes."""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from warpwise.lab.store.database import Warn, connect, store_path, translated
from warpwise.lab.store.records import HistoryEntry, Kind, Measurement, Run
from warpwise.lab.store.rows import (
    MEASUREMENT_COLUMNS,
    RUN_COLUMNS,
    listed,
    measurement_of,
    measurement_row,
    run_of,
    run_row,
    stamp,
)
from warpwise.lab.timing.stats import Interval

if TYPE_CHECKING:
    from typing_extensions import Self

RUN_ID = re.compile(r"r\d+")
BEFORE_COLUMNS = ("run", "median", "low", "high")
# The columns that are equal for two measurements of the same entry.
SAME = ("op", "name", "case", "dtype", "device", "sizes", "mode", "values", "layout")


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)


class Store:
    """The results store. ``record`` returns after the data are on disk.

    A connection belongs to the thread that opened it; each process and thread opens its own.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path | str | None = None, report: Warn = _warn) -> Store:
        """Open the store at ``path``, by default the user's (``store_path``), creating it if necessary.

        ``report`` gets a message if a damaged store was replaced. Raises ``NewerStore`` and ``StoreError``.
        """
        where = Path(path) if path is not None else store_path()
        return cls(where, connect(where, report))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A write transaction. It takes the write lock at its start, so that another writer cannot make it fail
        halfway.
        """
        with translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._connection.in_transaction:  # SQLite has rolled back itself if the disk is full
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with translated(self.path):
            return self._connection.execute(sql, values).fetchall()

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        marks = ", ".join("?" * len(row))
        cursor = self._connection.execute(
            f"INSERT INTO {table} ({listed(tuple(row))}) VALUES ({marks})", tuple(row.values())
        )
        return int(cursor.lastrowid or 0)

    def record(self, run: Run, *measurements: Measurement) -> Run:
        """Record ``measurements`` in one transaction; returns ``run`` with its id, a new one if it has none."""
        with self._transaction():
            kept = run if run.id else replace(run, id=f"r{self._insert('runs', run_row(run))}")
            for measurement in measurements:
                self._insert("measurements", measurement_row(measurement, kept))
        return kept

    def finish(self, run: Run) -> Run:
        """Record that ``run`` is finished."""
        ended = replace(run, finished=datetime.now(timezone.utc))
        with self._transaction():
            self._connection.execute(
                "UPDATE runs SET finished = ? WHERE id = ?", (run_row(ended)["finished"], int(run.id[1:]))
            )
        return ended

    def add(self, run: Run, measurements: Iterable[Measurement], origin: str) -> Run | None:
        """Record a whole run from a file in one transaction. ``origin`` is a digest of the file's text; returns None if
        a run with this ``origin`` exists.
        """
        with self._transaction():
            if self._connection.execute("SELECT 1 FROM runs WHERE origin = ?", (origin,)).fetchone():
                return None
            kept = replace(run, id=f"r{self._insert('runs', {**run_row(run), 'origin': origin})}")
            for measurement in measurements:
                self._insert("measurements", measurement_row(measurement, kept))
        return kept

    def run(self, run_id: str) -> Run | None:
        """The run called ``run_id`` ("r12"), or None."""
        if not RUN_ID.fullmatch(run_id):
            return None
        rows = self._rows(f"SELECT {listed(RUN_COLUMNS)} FROM runs WHERE id = ?", (int(run_id[1:]),))
        return run_of(rows[0]) if rows else None

    def runs(
        self,
        op: str | None = None,
        *,
        device: str | None = None,
        commit: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        """Runs, the newest first. ``commit`` is a prefix; ``since`` is inclusive and ``until`` exclusive."""
        where, values = _conditions(
            "runs", {"op": op, "device": device}, "started", since, until, {"kernels_commit": commit}
        )
        sql = f"SELECT {listed(RUN_COLUMNS)} FROM runs{where} ORDER BY started DESC, id DESC LIMIT ?"
        return [run_of(row) for row in self._rows(sql, (*values, -1 if limit is None else limit))]

    def measurements(
        self,
        op: str | None = None,
        *,
        name: str | None = None,
        case: str | None = None,
        dtype: str | None = None,
        device: str | None = None,
        kind: Kind | None = None,
        run: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> list[Measurement]:
        """Measurements, the newest first. ``case=""`` gives the verdicts over all cases."""
        columns = {"op": op, "name": name, "case": case, "dtype": dtype, "device": device, "kind": kind,
                   "run": int(run[1:]) if run else None}  # fmt: skip
        where, values = _conditions("m", columns, "taken", since, until)
        sql = (
            f"SELECT {listed(MEASUREMENT_COLUMNS)} FROM measurements m{where} ORDER BY m.taken DESC, m.id DESC LIMIT ?"
        )
        return [measurement_of(row) for row in self._rows(sql, (*values, -1 if limit is None else limit))]

    def history(
        self,
        op: str | None = None,
        *,
        name: str | None = None,
        case: str | None = None,
        dtype: str | None = None,
        device: str | None = None,
        kind: Kind | tuple[Kind, ...] | None = ("rung", "gradient"),
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[HistoryEntry]:
        """Measurements with their runs and the previous time of the same entry: the newest run first, and the
        measurements of a run in their order.

        The verdict over all cases of a correct rung is omitted if the same run also timed that rung.
        """
        of_runs, run_values = _conditions("r", {"op": op, "device": device}, "started", since, None)
        columns = {"name": name, "case": case, "dtype": dtype, "kind": kind}
        of_measurements, values = _conditions("m", columns, "taken", None, None)
        relevant = (
            """NOT (m."case" = '' AND m.verdict = 'right' AND EXISTS"""
            """ (SELECT 1 FROM measurements t WHERE t.run = m.run AND t.name = m.name AND t."case" <> ''))"""
        )
        same = " AND ".join(f'q."{column}" = m."{column}"' for column in SAME)
        previous = (
            f"SELECT q.id FROM measurements q WHERE {same} AND q.median IS NOT NULL AND m.median IS NOT NULL"
            " AND (q.taken, q.id) < (m.taken, m.id) ORDER BY q.taken DESC, q.id DESC LIMIT 1"
        )
        terms = " AND ".join(term.removeprefix(" WHERE ") for term in (of_runs, of_measurements) if term)
        sql = (
            f"SELECT {listed(MEASUREMENT_COLUMNS, 'm')}, {listed(BEFORE_COLUMNS, 'p')} FROM runs r"
            f" CROSS JOIN measurements m ON m.run = r.id LEFT JOIN measurements p ON p.id = ({previous})"
            f" WHERE {relevant}{' AND ' if terms else ''}{terms} ORDER BY r.started DESC, r.id DESC, m.id LIMIT ?"
        )
        values = (*run_values, *values)
        rows, own = self._rows(sql, (*values, -1 if limit is None else limit)), len(MEASUREMENT_COLUMNS)
        runs = self._runs_of({row[1] for row in rows})
        found = []
        for row in rows:
            number, *times = row[own:]
            before = Interval(*times) if number is not None else None
            found.append(HistoryEntry(runs[row[1]], measurement_of(row[:own]), before, f"r{number}" if before else ""))
        return found

    def _runs_of(self, numbers: set[int]) -> dict[int, Run]:
        if not numbers:
            return {}
        sql = f"SELECT {listed(RUN_COLUMNS)} FROM runs WHERE id BETWEEN ? AND ?"
        return {row[0]: run_of(row) for row in self._rows(sql, (min(numbers), max(numbers))) if row[0] in numbers}

    def last(
        self,
        op: str,
        name: str | None = None,
        case: str | None = None,
        dtype: str | None = None,
        device: str | None = None,
    ) -> Measurement | None:
        """The newest measurement with a time, or None."""
        return self._one(op, name, case, dtype, device, "m.taken DESC, m.id DESC")

    def best(
        self,
        op: str,
        name: str | None = None,
        case: str | None = None,
        dtype: str | None = None,
        device: str | None = None,
    ) -> Measurement | None:
        """The fastest measurement of a correct rung (of any rung without ``name``), or None."""
        return self._one(op, name, case, dtype, device, "m.median, m.id", right=True)

    def _one(
        self,
        op: str,
        name: str | None,
        case: str | None,
        dtype: str | None,
        device: str | None,
        order: str,
        right: bool = False,
    ) -> Measurement | None:
        columns = {"op": op, "name": name, "case": case, "dtype": dtype, "device": device}
        if right:
            columns |= {"verdict": "right"} | ({} if name else {"kind": "rung"})
        where, values = _conditions("m", columns, "taken", None, None)
        found = f"SELECT {listed(MEASUREMENT_COLUMNS)} FROM measurements m{where} AND m.median IS NOT NULL"
        sql = f"{found} ORDER BY {order} LIMIT 1"
        rows = self._rows(sql, values)
        return measurement_of(rows[0]) if rows else None

    def names(self, column: Literal["op", "name", "case", "dtype", "device"], op: str | None = None) -> list[str]:
        """The distinct values of ``column``, for ``op`` or all operations."""
        where, values = _conditions("m", {"op": op}, "taken", None, None)
        rows = self._rows(f'SELECT DISTINCT m."{column}" FROM measurements m{where} ORDER BY 1', values)
        return [row[0] for row in rows if row[0]]


def _conditions(
    table: str,
    equal: dict[str, Any],
    moment: str,
    since: datetime | None,
    until: datetime | None,
    starts: dict[str, str | None] | None = None,
) -> tuple[str, tuple[Any, ...]]:
    """A WHERE clause, or "", with its values. None adds no condition; a tuple allows each of its values. ``starts`` are
    prefixes."""
    terms: list[tuple[str, tuple[Any, ...]]] = []
    for column, value in equal.items():
        choice = value if isinstance(value, tuple) else (value,)
        if value is not None:
            terms.append((f'{table}."{column}" IN ({", ".join("?" * len(choice))})', choice))
    for sign, bound in ((">=", since), ("<", until)):
        if bound:
            terms.append((f'{table}."{moment}" {sign} ?', (stamp(bound),)))
    for column, prefix in (starts or {}).items():
        if prefix is not None:
            terms.append((f'{table}."{column}" >= ?', (prefix,)))
            terms.append((f'{table}."{column}" < ?', (f"{prefix}\U0010ffff",)))
    clause = f" WHERE {' AND '.join(term for term, _ in terms)}" if terms else ""
    return clause, tuple(value for _, values in terms for value in values)
