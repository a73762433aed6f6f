"""``warpwise history``: the measurements in the results store, each with its change from the previous run."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from warpwise.cli.columns import Cell, Column, print_columns
from warpwise.cli.console import wide_console
from warpwise.cli.kept import StoreFailure, full_name, known, near, open_store
from warpwise.lab.store import HistoryEntry, OtherFile, Store, StoreError, UnreadableResults, read_results
from warpwise.lab.store.comparison import direction_of, ratio_of
from warpwise.lab.store.records import Kind, Measurement
from warpwise.lab.store.selection import moment
from warpwise.lab.timing.stats import Interval
from warpwise.lab.timing.timing import duration, rate_text

VERDICTS = {"right": Cell("✓", "green"), "wrong": Cell("✗ wrong", "red"), "untested": Cell("– not verified", "yellow")}
COLOURS = {"faster": "green", "slower": "red", "same": ""}
AGO = re.compile(r"(\d+)\s*([mhdw])")
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
BARS = "▁▂▃▄▅▆▇█"
TRENDS = 12  # maximum number of series drawn below the list
COLUMNS = (
    Column("run"), Column("when (UTC)", spare=4), Column("op"), Column("rung"), Column("size", spare=2),
    Column("dtype", spare=3), Column("device", spare=6), Column("commit", spare=7), Column("verdict"),
    Column("time", right=True), Column("±", right=True, spare=5), Column("rate", right=True, spare=8),
    Column("change", right=True, spare=1),
)  # fmt: skip


def history(
    names: Sequence[str],
    rung: str | None,
    dtype: str | None,
    case: str | None,
    where: str | None,
    since: str | None,
    limit: int,
    opponents: bool,
    as_json: bool,
    importing: bool,
) -> int:
    """Run ``warpwise history``, with the options of ``warpwise.cli.commands.history``."""
    console = wide_console()
    with open_store() as store, _uncollected():
        try:
            if importing:
                return _import(console, store, names)
            ops: list[str | None] = [_op(store, name) for name in names] or [None]
            found, refused = list[HistoryEntry](), list[click.BadParameter]()
            for op in ops:
                try:
                    found += _listed(store, op, rung, dtype, case, where, since, limit, opponents)
                except click.BadParameter as error:  # another operation may have that rung, dtype or size
                    refused.append(error)
            if len(refused) == len(ops):
                raise refused[0]
        except StoreError as error:
            raise StoreFailure(str(error)) from error
        found = _newest_first(found)[: limit or None]
        if as_json:
            click.echo(json.dumps([_json(kept) for kept in found], indent=1, allow_nan=False))
        elif not found:
            console.print(f"no such measurement in {store.path}; `warpwise climb OP` stores what it measures")
        else:
            print_columns(console, COLUMNS, [_row(kept) for kept in found])
            if names or rung:
                _trends(console, [kept.measurement for kept in found])
    return 0


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection: while a long list grows, each collection visits all of torch's objects."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _newest_first(found: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Newest run first; the measurements of one run in their order."""
    in_order = sorted(found, key=lambda kept: kept.measurement.id)
    return sorted(in_order, key=lambda kept: (kept.run.started, int(kept.run.id[1:])), reverse=True)


def _import(console: Console, store: Store, names: Sequence[str]) -> int:
    """Import results files. All are read before the first is stored: a damaged one leaves the store unchanged."""
    if not names:
        raise click.UsageError("--import needs results files: warpwise history --import FILE.json ...")
    results, others = [], []
    try:
        for name in names:
            try:
                results.append((name, *read_results(Path(name))))
            except OtherFile as error:
                others.append(str(error))
    except (UnreadableResults, OSError) as error:
        raise click.UsageError(f"{error}; nothing was imported") from error
    if not results:
        raise click.UsageError(f"{others[0]}; nothing was imported")
    for other in others:
        console.print(f"skipped: {other}", soft_wrap=True, markup=False)
    for name, run, measurements, origin in results:
        kept = store.add(run, measurements, origin)
        said = (
            f"{kept.id}, {len(measurements)} measurements of {run.op} on {run.device}"
            if kept
            else "is in the store already"
        )
        console.print(f"{name}: {said}", soft_wrap=True, markup=False)
    return 0


def _op(store: Store, name: str) -> str:
    """Return the operation in the store that is called ``name``, also without the namespace of its package.

    Raises ``click.BadParameter`` with the names.
    """
    kept = store.names("op")
    if (full := full_name(name, kept)) in kept:
        return full
    from warpwise.cli.targets import known_ops  # here, because it imports PyTorch

    there = known_ops()
    if full_name(name, there) in there:
        raise click.BadParameter(
            f"no measurement of {name!r} in the store; `warpwise climb {name}` stores what it measures", param_hint="OP"
        )
    raise click.BadParameter(f"no operation {name!r}{near(name, sorted({*kept, *there}))}", param_hint="OP")


def _listed(
    store: Store,
    op: str | None,
    rung: str | None,
    dtype: str | None,
    case: str | None,
    where: str | None,
    since: str | None,
    limit: int,
    opponents: bool,
) -> list[HistoryEntry]:
    name = known("rung", rung, store.names("name", op), "--rung") if rung else None
    dtype = known("dtype", dtype, store.names("dtype", op), "--dtype") if dtype else None
    case = known("size", case, store.names("case", op), "--case") if case else None
    devices: Sequence[str | None] = devices_like(store, where) if where else [None]
    kind: tuple[Kind, ...] | None = None if opponents or name else ("rung", "gradient")
    start = _since(since) if since else None
    return [
        kept
        for device in devices
        for kept in store.history(
            op, name=name, case=case, dtype=dtype, device=device, kind=kind, since=start, limit=limit or None
        )
    ]


def devices_like(store: Store, text: str) -> list[str]:
    """The devices whose name is or contains ``text``. Raises ``click.BadParameter`` with the known ones."""
    there = store.names("device")
    found = [name for name in there if name == text] or [name for name in there if text.lower() in name.lower()]
    if not found:
        raise click.BadParameter(f"nothing was measured on {text!r}{near(text, there)}", param_hint="--device")
    return found


def _since(text: str) -> datetime:
    if match := AGO.fullmatch(text):
        try:
            return datetime.now(timezone.utc) - timedelta(**{UNITS[match[2]]: int(match[1])})
        except OverflowError as error:
            raise click.BadParameter(f"{text!r}: before the first date", param_hint="--since") from error
    try:
        return moment(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r}: expected a date (2026-11-20, 2026-11-20T15:30) or an age (90m, 12h, 7d, 2w)",
            param_hint="--since",
        ) from error


def _row(kept: HistoryEntry) -> list[Cell]:
    run, one = kept.run, kept.measurement
    known_time = one.interval
    colour = "cyan" if one.kind == "opponent" else ""
    return [
        Cell(run.id, dim=True),
        Cell(f"{one.taken:%Y-%m-%d %H:%M}", dim=True),
        Cell(one.op),
        Cell(one.name, colour),
        Cell(one.case or "every case"),
        Cell(one.dtype),
        Cell(short_device(one.device)),
        Cell(run.kernels),
        VERDICTS[one.verdict],
        Cell(duration(known_time.median) if known_time else ""),
        Cell(f"{100 * known_time.half_width:.1f} %" if known_time else ""),
        Cell(rate_text(one.bound, one.tflops, one.gbps)),
        _change(known_time, kept.before),
    ]


def short_device(name: str) -> str:
    """A device's name shortened for a column."""
    return "cpu" if name.startswith("cpu") else name.removeprefix("NVIDIA ")


def _change(now: Interval | None, before: Interval | None) -> Cell:
    if now is None or before is None:
        return Cell("")
    text = f"{100 * (now.median / before.median - 1):+.1f} %".replace("-", "−")
    direction = direction_of(now, before)
    return Cell(f"≈ {text}" if direction == "same" else text, COLOURS[direction], dim=direction == "same")


def _trends(console: Console, measurements: Sequence[Measurement]) -> None:
    """A line of bars for each series of more than one time: its medians, oldest first."""
    series: dict[tuple[str, ...], list[Measurement]] = {}
    for one in sorted(measurements, key=lambda one: (one.taken, one.id)):
        if one.timed:
            series.setdefault((one.op, one.name, one.where, one.device), []).append(one)
    rows = []
    for (op, name, where, device), found in series.items():
        medians = [one.median or 0.0 for one in found]
        if len(found) > 1:
            rows.append(
                [
                    Cell(op),
                    Cell(name),
                    Cell(where),
                    Cell(short_device(device)),
                    Cell(bars(medians)),
                    Cell(f"{duration(medians[0])} → {duration(medians[-1])}"),
                ]
            )
    if 0 < len(rows) <= TRENDS:
        console.print()
        headings = ("op", "rung", "size", "device", "medians, oldest first", "")
        print_columns(console, [Column(heading, spare=heading == "device") for heading in headings], rows)


def bars(values: Sequence[float]) -> str:
    """One bar a value, from the lowest of ``values`` to the highest."""
    low, high = min(values), max(values)
    steps = len(BARS) - 1
    return "".join(BARS[round(steps * (value - low) / (high - low)) if high > low else 0] for value in values)


def _json(kept: HistoryEntry) -> dict[str, Any]:
    change, now, before = None, kept.measurement.interval, kept.before
    if now and before:
        ratio = ratio_of(now, before)
        change = {
            "direction": direction_of(now, before),
            "ratio": dataclasses.asdict(ratio),
            "before_run": kept.before_run,
            "before_s": dataclasses.asdict(before),
        }
    return {**kept.measurement.to_json(), "run": kept.run.to_json(), "change": change}
