"""``warpwise compare``: the rungs that became faster or slower between two runs, commits, dates or results files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from warpwise.cli.columns import Cell, Column, print_columns
from warpwise.cli.console import wide_console
from warpwise.cli.history import COLOURS, devices_like, short_device
from warpwise.cli.kept import StoreFailure, full_name, near, open_store
from warpwise.lab.store import Comparison, Store, StoreError, UnreadableResults
from warpwise.lab.store import compare as compare_sets
from warpwise.lab.store.comparison import Change
from warpwise.lab.store.records import Measurement, Run
from warpwise.lab.store.selection import Selection, UnknownSelection, from_files, is_file, select
from warpwise.lab.timing.timing import duration

SHOWN = 8  # maximum number of names listed that only one of A and B has
ENVIRONMENT = ("driver", "torch", "triton", "cuda", "warpwise")
COLUMNS = (
    Column("op", spare=2), Column("rung"), Column("size", spare=3), Column("dtype", spare=4), Column("device", spare=5),
    Column("before", right=True), Column("after", right=True), Column("time", right=True),
    Column("95 % interval", right=True, spare=1), Column(""),
)  # fmt: skip


def compare(
    before: str,
    after: str,
    ops: Sequence[str],
    where: str | None,
    limit: float | None,
    noise: float,
    everything: bool,
    as_json: bool,
) -> int:
    """Run ``warpwise compare``, with the options of ``warpwise.cli.commands.compare``."""
    console = wide_console()
    old, new = _selections(before, after, ops, where)
    compared = compare_sets(old.measurements, new.measurements, noise / 100)
    if as_json:
        click.echo(json.dumps(_json(old, new, compared), indent=1, allow_nan=False))
    else:
        _show(console, old, new, compared, everything)
    if limit is None:
        return 0
    return _judged(console, compared, limit, quiet=as_json)


def _selections(before: str, after: str, ops: Sequence[str], where: str | None) -> tuple[Selection, Selection]:
    """Read A and B. The store is opened if one of them is not a file."""
    with contextlib.ExitStack() as stack:
        store = None if is_file(before) and is_file(after) else stack.enter_context(open_store())
        try:
            old, new = (_selected(store, text, ops, where, hint) for text, hint in ((before, "A"), (after, "B")))
        except StoreError as error:
            raise StoreFailure(str(error)) from error
    there = sorted({one.op for side in (old, new) for one in side.measurements})
    for op in ops:
        if full_name(op, there) not in there:
            raise click.BadParameter(f"no operation {op!r} in A or B{near(op, there)}", param_hint="--op")
    return old, new


def _selected(store: Store | None, text: str, ops: Sequence[str], where: str | None, hint: str) -> Selection:
    try:
        if store is None or is_file(text):
            found = from_files(text)
        else:
            kept = store.names("op")
            for op in ops:
                if full_name(op, kept) not in kept:
                    raise click.BadParameter(f"no operation {op!r} in the store{near(op, kept)}", param_hint="--op")
            devices: Sequence[str | None] = devices_like(store, where) if where else [None]
            if len(devices) > 1:
                raise click.BadParameter(f"{where!r} matches {' and '.join(map(str, devices))}", param_hint="--device")
            found = select(store, text, [full_name(op, kept) for op in ops], devices[0])
    except (UnknownSelection, UnreadableResults, OSError) as error:
        raise click.BadParameter(
            str(error.args[0] if isinstance(error, UnknownSelection) else error), param_hint=hint
        ) from error
    return _narrowed(found, ops, where)


def _narrowed(found: Selection, ops: Sequence[str], where: str | None) -> Selection:
    ops = [full_name(op, {one.op for one in found.measurements}) for op in ops]

    def wanted(one: Measurement | Run) -> bool:
        return (not ops or one.op in ops) and (where is None or where.lower() in one.device.lower())

    return Selection(
        found.text, found.label, tuple(filter(wanted, found.runs)), tuple(filter(wanted, found.measurements))
    )


def _judged(console: Console, compared: Comparison, limit: float, quiet: bool) -> int:
    slower, timed = compared.slower(limit), compared.rungs
    if not timed and not compared.broken:
        raise click.UsageError("no rung was timed in both A and B: --fail-slower has nothing to compare")
    if not quiet:
        broken = f", {len(compared.broken)} wrong" if compared.broken else ""
        verdict = "[red]failed[/]" if slower or compared.broken else "[green]passed[/]"
        console.print(
            f"{verdict}: {len(slower)} of {len(timed)} times slower by more than {limit:g} % beyond noise{broken}"
        )
    return 1 if slower or compared.broken else 0


def _show(console: Console, old: Selection, new: Selection, compared: Comparison, everything: bool) -> None:
    for name, side in (("A", old), ("B", new)):
        console.print(f"[dim]{name}[/]  {escape(_described(side))}", soft_wrap=True)
    for line in _environments(old.runs, new.runs):
        console.print(f"[yellow]{escape(line)}[/]", soft_wrap=True)
    listed = [change for change in compared.changes if everything or change.direction != "same"]
    if listed:
        print_columns(console, COLUMNS, [_row(change) for change in listed])
    _summary(console, compared)
    for found in compared.broken:
        console.print(f"[bold red]wrong now[/]: {escape(_named(found.after))}: {escape(found.reason)}", soft_wrap=True)
    for reason in dict.fromkeys(found.reason for found in compared.unlike):
        for line in _gathered([found.after for found in compared.unlike if found.reason == reason]):
            console.print(f"[yellow]not compared[/]: {escape(line)}: {escape(reason)}", soft_wrap=True)
    for title, ones in (("new, only in B", compared.new), ("missing, only in A", compared.vanished)):
        for line in _gathered(ones):
            console.print(f"{title}: {escape(line)}", soft_wrap=True)


def _gathered(ones: Sequence[Measurement]) -> list[str]:
    """One line for each operation: its rungs and opponents, and the number of points."""
    lines = []
    for op in dict.fromkeys(one.op for one in ones):
        names = list(dict.fromkeys(one.name for one in ones if one.op == op))
        points = {one.where for one in ones if one.op == op and one.case}
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        at = f", {next(iter(points))}" if len(points) == 1 else f", {len(points)} points" if points else ""
        lines.append(f"{op}: {', '.join(names[:SHOWN])}{more}{at}")
    return lines


def _summary(console: Console, compared: Comparison) -> None:
    counts = {
        direction: sum(change.direction == direction for change in compared.rungs)
        for direction in ("slower", "faster", "same")
    }
    console.print(
        f"{len(compared.rungs)} times of rungs in both: {counts['slower']} slower, {counts['faster']} faster, "
        f"{counts['same']} within noise"
    )
    if not compared.changes:
        console.print("[dim]nothing was timed in both: `warpwise climb` times rungs on a GPU; on a CPU it verifies[/]")
    if compared.drift:
        opponents = len(compared.changes) - len(compared.rungs)
        console.print(
            f"[yellow]{len(compared.drift)} of {opponents} times of opponents changed too: "
            "the machine, its clocks or its libraries are different[/]",
            soft_wrap=True,
        )


def _described(side: Selection) -> str:
    dates = sorted(run.started for run in side.runs)
    commits = sorted({run.kernels for run in side.runs if run.commit})
    span = f"{dates[0]:%Y-%m-%d %H:%M}" if dates else "nothing"
    if dates and f"{dates[-1]:%Y-%m-%d %H:%M}" != span:
        span += f" to {dates[-1]:%Y-%m-%d %H:%M}"
    where = ", ".join(sorted({run.device for run in side.runs}))
    runs = ", ".join(run.id for run in side.runs) if len(side.runs) <= 4 else f"{len(side.runs)} runs"
    named = [
        side.label,
        *([runs] if runs != side.label else []),
        span,
        where,
        *(["at " + ", ".join(commits)] if commits else []),
    ]
    return "; ".join(text for text in named if text)


def _environments(old: Sequence[Run], new: Sequence[Run]) -> list[str]:
    """One line for each difference in software between the compared runs."""
    both = {(run.op, run.device) for run in old} & {(run.op, run.device) for run in new}
    lines = []
    for name in ENVIRONMENT:
        was, now = (
            {getattr(run, name) for run in side if (run.op, run.device) in both and getattr(run, name)}
            for side in (old, new)
        )
        if was and now and was != now:
            lines.append(f"{name}: {', '.join(sorted(was))} in A, {', '.join(sorted(now))} in B")
    return lines


def _row(change: Change) -> list[Cell]:
    now, ratio = change.after, change.ratio
    colour = COLOURS[change.direction]
    return [
        Cell(now.op),
        Cell(now.name, "cyan" if now.kind == "opponent" else ""),
        Cell(now.case),
        Cell(now.dtype),
        Cell(short_device(now.device)),
        Cell(duration(change.before.median or 0)),
        Cell(duration(now.median or 0)),
        Cell(f"× {ratio.median:.3f}", colour),
        Cell(f"{ratio.low:.3f} – {ratio.high:.3f}"),
        Cell(change.direction if change.direction != "same" else "within noise", colour, dim=not colour),
    ]


def _named(one: Measurement) -> str:
    return " ".join(text for text in (one.op, one.name, one.where and f"at {one.where}") if text)


def _json(old: Selection, new: Selection, compared: Comparison) -> dict[str, Any]:
    sides = {
        name: {"text": side.text, "runs": [run.to_json() for run in side.runs]}
        for name, side in (("a", old), ("b", new))
    }
    return {"schema": 1, **sides, **compared.to_json()}
