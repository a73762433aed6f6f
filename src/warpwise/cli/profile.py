"""``warpwise profile``: PyTorch's profiler as a table and a trace; and the errors of naive timing."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpwise import operation
from warpwise.cli.console import wide_console
from warpwise.cli.profile_targets import Target, resolve_target
from warpwise.cli.targets import known_ops
from warpwise.lab.profile import NaiveClock, ProfileError, ProfileResult, Schedule, naive_clock, profile_script
from warpwise.lab.profile import profile as record
from warpwise.lab.profile.result import COLUMNS
from warpwise.lab.profile.tools import TOOLS, captured, run_under
from warpwise.lab.timing.environment import resolve
from warpwise.lab.timing.timing import duration

DEFAULT = "1,1,2,1"
CLOCK_TARGET = "vector_add"


def profile(
    target: str | None,
    argv: Sequence[str],
    schedule_text: str | None,
    steps: int | None,
    trace: Path | None,
    sort: str | None,
    rows: int,
    size: str | None,
    attributes: Sequence[str],
    dtype: str | None,
    arguments: Sequence[str],
    where: str | None,
    stacks: bool,
    as_json: bool,
    tool: str | None,
    report: Path | None,
    clock: bool,
    inside: bool,
) -> int:
    """Run ``warpwise profile``, with the options of ``warpwise.cli.commands.profile``."""
    console = wide_console()
    if target is None and not clock:
        raise click.UsageError("Missing argument 'TARGET': OP, OP:RUNG, MODULE:FUNCTION or FILE.py")
    try:
        plan = Schedule.of(schedule_text) if schedule_text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--schedule") from error
    try:
        device = resolve(where)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--device") from error
    text = target or CLOCK_TARGET
    script = Path(text) if text.endswith(".py") else None
    if argv and script is None:
        raise click.UsageError(f"{text} takes no arguments of its own ({' '.join(argv)}); a script does, after --")
    try:
        if tool is not None:
            return _under(console, tool, report, text, script, argv)
        if script is not None and not clock:
            return _script(console, script, argv, plan, trace, stacks, sort, rows, as_json)
        if script is not None:
            raise click.UsageError("--naive-clock times a rung or a function, not a script")
        chosen = resolve_target(text, device, size, dtype, arguments, attributes)
        if inside:
            captured(chosen.call, plan or Schedule.of(DEFAULT))
            return 0
        if clock:
            return _clock(console, chosen, device, as_json)
        result = record(
            chosen.call,
            schedule=plan or Schedule.of(DEFAULT),
            trace=trace,
            steps=steps,
            device=device,
            stacks=stacks,
            name=chosen.name,
        )
    except ProfileError as error:
        raise click.ClickException(str(error)) from error
    return _shown(console, result, sort, rows, as_json, chosen.notes)


def _script(
    console: Console,
    script: Path,
    argv: Sequence[str],
    plan: Schedule | None,
    trace: Path | None,
    stacks: bool,
    sort: str | None,
    rows: int,
    as_json: bool,
) -> int:
    before = known_ops()
    result = profile_script(script, argv, schedule=plan, trace=trace, stacks=stacks)
    made = [op.name for op in operation.all_ops() if op.name not in before]
    notes = [f"defines the operation {name}: {script}:RUNG or {script}:all profiles its kernels" for name in made]
    status = _shown(console, result, sort, rows, as_json, notes)
    if result.failure:
        click.echo(result.failure.rstrip(), err=True)
    return 1 if result.failure and not result.interrupted else status


def _shown(
    console: Console, result: ProfileResult, sort: str | None, rows: int, as_json: bool, notes: Sequence[str]
) -> int:
    """Print the result. Returns 130 if Ctrl-C ended the run, else 0."""
    if as_json:
        click.echo(json.dumps(result.to_json() | {"notes": [*notes, *result.notes]}, indent=1))
    else:
        console.print(f"[bold]{escape(result.heading)}[/]")
        if result.table:
            console.print(profile_table(result, sort or "", rows))
        for note in (*notes, *result.notes):
            console.print(f"[dim]{escape(note)}[/]", soft_wrap=True)
        for path in result.traces:
            console.print(f"trace: {escape(str(path))}  [dim]open in https://ui.perfetto.dev or chrome://tracing[/]")
        if not result.traces and result.table:
            console.print("[dim]--trace FILE.json writes a timeline for Perfetto or TensorBoard[/]")
    return 130 if result.interrupted else 0


def profile_table(result: ProfileResult, sort: str = "", rows: int = 20, rest: str = "--rows shows them") -> Table:
    """The first ``rows`` rows as a table; named ranges are coloured. ``rest`` says where the other rows are."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in result.columns:
        table.add_column(
            COLUMNS[column],
            justify="left" if column == "name" else "right",
            no_wrap=column != "name",
            overflow="ellipsis" if column == "name" else "fold",
        )
    shown = result.sorted(sort)
    for row in shown[:rows]:
        table.add_row(*(escape(row.cell(column)) for column in result.columns), style="cyan" if row.ranged else None)
    if len(shown) > rows:
        table.caption, table.caption_justify = f"{len(shown) - rows} more; {rest}", "left"
    return table


def _clock(console: Console, chosen: Target, device: torch.device, as_json: bool) -> int:
    if chosen.own is None:
        raise click.UsageError(f"{chosen.name} cannot be timed")
    name = chosen.name if chosen.own is chosen.call else f"PyTorch's {chosen.name.partition(':')[0]}"
    result = naive_clock(chosen.own, device=device, name=name)
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=1))
        return 0
    console.print(f"[bold]{escape(f'{result.name} on {result.place}')}[/]")
    console.print(clock_table(result))
    if result.remark:
        console.print(escape(result.remark))
    if chosen.own is not chosen.call:
        console.print("[dim]PyTorch is timed, because the time of an emulated kernel is not that of a GPU[/]")
    return 0


def clock_table(result: NaiveClock) -> Table:
    """One row for each method of timing, ``lab.time`` last."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("method", overflow="fold")
    table.add_column("a call", justify="right", no_wrap=True)
    table.add_column("× lab.time", justify="right", no_wrap=True)
    table.add_column("what it measures", overflow="fold")
    for reading in result.readings:
        table.add_row(
            escape(reading.method),
            duration(reading.seconds),
            result.off(reading),
            escape(reading.why),
            style="green" if reading is result.lab else None,
        )
    return table


def _under(
    console: Console, tool: str, report: Path | None, text: str, script: Path | None, argv: Sequence[str]
) -> int:
    """Run a script, or this command again, under NVIDIA's tool and without torch's profiler."""
    stem = script.stem if script else text.replace(":", "-").replace(".", "-")
    place = report or Path(f"{stem}{TOOLS[tool].ending}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent):
            pass
    except OSError as error:
        raise ProfileError(f"report {place}: cannot be written: {error.strerror or error}") from error
    child = [sys.executable, str(script), *argv] if script else _child(text)
    result = run_under(tool, place, child, whole=script is not None)
    console.print(f"[dim]{escape(' '.join(result.command))}[/]", soft_wrap=True)
    if result.remark:
        console.print(f"[yellow]{escape(result.remark)}[/]")
    if result.path is None:
        console.print(f"[red]{tool} exited with {result.status} and wrote no report[/]")
        return 1
    console.print(f"report: {escape(str(result.path))}  [dim]open with {TOOLS[tool].viewer}[/]")
    return 0 if result.status == 0 else 1


def _child(text: str) -> list[str]:
    """This command with the options that select the target, for a process that marks its active steps."""
    given = click.get_current_context().params
    child = [sys.executable, "-m", "warpwise", "profile", text, "--captured"]
    for option, name in (
        ("--schedule", "schedule_text"),
        ("--size", "size"),
        ("--dtype", "dtype"),
        ("--device", "where"),
    ):
        if given[name] is not None:
            child += [option, given[name]]
    for option, name in (("--arg", "arguments"), ("--attr", "attributes")):
        for argument in given[name]:
            child += [option, argument]
    return child
