"""``warpwise climb``: verify an operation's rungs, time the correct ones and their opponents, and show the ladder."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from warpwise import lab, operation
from warpwise.cli.cases import ALL, cases_named
from warpwise.cli.console import failed, wide_console
from warpwise.cli.kept import open_store
from warpwise.cli.kernel_options import require_device
from warpwise.cli.ladder_table import LadderTable, ProgressLines
from warpwise.cli.targets import find_ops, find_rung, known_ops
from warpwise.lab.ladder import group_notes
from warpwise.lab.timing.environment import resolve
from warpwise.lab.verify.gradient import linked_note
from warpwise.lab.verify.verdict import Step
from warpwise.operation import Op


def climb(
    names: Sequence[str],
    where: str | None,
    sizes: Sequence[str],
    attributes: Sequence[str],
    dtypes: Sequence[str],
    rungs: Sequence[str],
    budget: float,
    json_path: Path | None,
    no_store: bool,
) -> int:
    """Run ``warpwise climb``, with the options of ``warpwise.cli.commands.climb``."""
    console = wide_console()
    ops = _with_rungs(console, _ops(names), rungs)
    if json_path is not None and len(ops) > 1 and json_path.suffix == ".json":
        raise click.BadParameter(f"{json_path}: {len(ops)} operations need a folder, not a file", param_hint="--json")
    require_device(where)
    if json_path is not None:
        _require_writable(json_path)
    right = True
    with contextlib.nullcontext() if no_store else open_store("; --no-store runs without it") as store:
        for op in ops:
            ladder = _climb(console, op, ops, where, sizes, attributes, dtypes, rungs, budget, store)
            tested = not rungs or all(row.verdict.status != "untested" for row in ladder.rows)
            right = right and ladder.right and tested
            if json_path is not None:
                path = json_path if json_path.suffix == ".json" else json_path / f"{op.name}.json"
                ladder.save(path)
                console.print(f"[dim]written to {path}[/]")
    return 0 if right else 1


def _with_rungs(console: Console, ops: Sequence[Op], names: Sequence[str]) -> list[Op]:
    """Those of ``ops`` that have a rung of ``names``, all without ``names``; a note names the others.

    Raises ``click.BadParameter`` for a name that no operation has.
    """
    for name in names:
        if not any(_has_rung(op, name) for op in ops):
            find_rung(ops[0], name)
    having = [op for op in ops if not names or any(_has_rung(op, name) for name in names)]
    if left_out := [op.name for op in ops if op not in having]:
        console.print(
            f"[dim]not climbed, without a rung {' or '.join(names)}: {', '.join(left_out)}[/]", soft_wrap=True
        )
    return having


def _has_rung(op: Op, name: str) -> bool:
    try:
        op.rung(name)
    except operation.UnknownRung:
        return False
    return True


def _require_writable(path: Path) -> None:
    """Reject a path that cannot be written, before hours of measuring."""
    folder = path.parent if path.suffix == ".json" else path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise click.BadParameter(f"{path}: cannot be written: {error}", param_hint="--json") from error


def _ops(names: Sequence[str]) -> list[Op]:
    if ALL in names:
        return [operation.get(name) for name in known_ops()]
    return [op for name in names for op in find_ops(name)]


def _climb(
    console: Console,
    op: Op,
    climbed: Sequence[Op],
    where: str | None,
    sizes: Sequence[str],
    attributes: Sequence[str],
    dtypes: Sequence[str],
    rungs: Sequence[str],
    budget: float,
    store: lab.store.Store | None,
) -> lab.Ladder:
    """Climb one ladder; show and store each result as soon as it is known. ``climbed`` has all operations to climb."""
    try:
        chosen_dtypes = dtypes_named(op, dtypes)
        cases = cases_named(op, sizes, attributes)
        named = bool(sizes or attributes) or resolve(where).type == "cuda"
        timed = chosen_dtypes or list(op.spec.dtypes[:1])
        shown = [op.rung(name) for name in rungs if _has_rung(op, name)] if rungs else list(op.rungs)
        table = LadderTable(op, shown)
        keeper = _Keeper(store, op, where)
        with Live(table, console=console, refresh_per_second=8) if console.is_terminal else contextlib.nullcontext():
            lines = ProgressLines(op.name)

            def progress(step: Step) -> None:
                table.update(step)
                keeper.keep(step)
                if not console.is_terminal:
                    lines.update(step)

            ladder = lab.climb(
                op,
                device=where,
                sizes=cases if named else None,
                dtypes=chosen_dtypes,
                timed_dtypes=timed,
                rungs=[rung.name for rung in shown],
                progress=progress,
                budget_s=budget,
            )
            table.finish(ladder, cases[0], timed[0], named=bool(sizes or attributes or dtypes))
            keeper.finish(ladder)
        if not console.is_terminal:
            console.print(table)
    except Exception as error:
        raise failed(op.name, error) from error
    for row in ladder.rows:
        if row.verdict.status == "wrong":
            console.print(f"[bold red]wrong[/] {escape(row.verdict.details)}", soft_wrap=True)
        elif rungs and row.verdict.status == "untested":
            console.print(f"[yellow]untested[/] {escape(row.verdict.details)}", soft_wrap=True)
    untested = [] if rungs else [row for row in ladder.rows if row.verdict.status == "untested"]
    for note in group_notes((row.rung, row.verdict.why_untested) for row in untested):
        console.print(f"[yellow]untested[/] {escape(note)}", soft_wrap=True)
    if ladder.eager:
        console.print(f"PyTorch's own computation, eager: [bold red]wrong[/]: {escape(ladder.eager)}", soft_wrap=True)
        if " ± " in ladder.eager and any(row.verdict.status == "wrong" for row in ladder.rows):
            console.print(
                "[dim]if both are right, the tolerance is too small: it follows from `terms` and `magnitude` of the "
                "Output[/]",
                soft_wrap=True,
            )
    if ladder.gradient is not None:
        console.print(_gradient_line(ladder.gradient, climbed), soft_wrap=True)
    for note in (*ladder.notes, *keeper.notes):
        console.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)
    return ladder


def _gradient_line(verdict: lab.Verdict, climbed: Sequence[Op]) -> str:
    """``gradient: right (12 cases)``, or the first failure. Notes to climb one of ``climbed`` are omitted."""
    if verdict.right:
        done = {linked_note(op) for op in climbed}
        notes = "".join(f"; {escape(note)}" for note in verdict.notes if note not in done)
        return f"gradient: [green]right[/] ({len(verdict.cases)} cases){notes}"
    failed = escape(str(verdict.failures[0])) if verdict.failures else "no case has a gradient"
    return f"gradient: [bold red]{verdict.status}[/]: {failed}"


class _Keeper:
    """Stores a climb, if there is a store. After a failure of the store the climb continues and ends with a note."""

    def __init__(self, store: lab.store.Store | None, op: Op, where: str | None) -> None:
        self.notes: list[str] = []
        self._recorder: lab.store.Recorder | None = None
        if store is not None:
            with self._noted():
                self._recorder = lab.store.Recorder(store, op, where)

    def keep(self, step: Step) -> None:
        """Store the result of ``step``."""
        with self._noted():
            if self._recorder is not None:
                self._recorder(step)

    def finish(self, ladder: lab.Ladder) -> None:
        """Store the verdicts that changed, and that the climb is complete."""
        with self._noted():
            if self._recorder is not None:
                self._recorder.finish(ladder)

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except lab.store.StoreError as error:
            self._recorder = None
            self.notes.append(f"this climb was not stored completely: {error}")


def dtypes_named(op: Op, names: Sequence[str]) -> list[torch.dtype] | None:
    """The dtypes of ``names``; None for the lab's default (verify all, time the first)."""
    if not names:
        return None
    if ALL in names:
        return list(op.spec.dtypes)
    known = {str(dtype).removeprefix("torch."): dtype for dtype in op.spec.dtypes}
    for name in names:
        if name not in known:
            raise click.BadParameter(
                f"{op.name}: no dtype {name!r}; there are {', '.join(known)}", param_hint="--dtype"
            )
    return [known[name] for name in names]
