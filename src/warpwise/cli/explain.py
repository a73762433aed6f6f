"""``warpwise explain``: why a kernel is slow, from its machine code executed on the CPU."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.markup import escape

from warpwise import cuda
from warpwise.cli.cases import cases_named, with_attributes
from warpwise.cli.console import wide_console
from warpwise.cli.fidelity import print_fidelity
from warpwise.cli.kernel_files import KernelOptions, kernel_launch
from warpwise.cli.kernel_options import require_target
from warpwise.cli.measured import compare, launches_of, require_gpu
from warpwise.cli.targets import find_rung, find_target, is_rung
from warpwise.lab.explain import Explanations, explain_rung
from warpwise.lab.explain import explain as explain_kernel
from warpwise.lab.explain.render import html, terminal
from warpwise.lab.explain.rungs import checkable
from warpwise.lab.profile.ncu import CapturedLaunch
from warpwise.operation import Case, Op, Rung

SUFFIXES = (".cu", ".cuh")


def explain(
    what: str,
    expression: str | None,
    grid: tuple[int, ...] | None,
    block: tuple[int, ...] | None,
    shared: int,
    texts: Sequence[str],
    include: Sequence[Path],
    define: Sequence[str],
    constants: Sequence[str],
    size: str | None,
    attributes: Sequence[str],
    dtype: str | None,
    target: str,
    line: int | None,
    all_lines: bool,
    blocks: object,
    trusted: bool,
    fidelity: bool,
    ncu: bool,
    html_path: Path | None,
    json_path: Path | None,
    seed: int,
    timeout: float,
) -> int:
    """Run ``warpwise explain``, with the options of ``warpwise.cli.commands.explain``."""
    console = wide_console()
    require_target(target)
    for path, option in ((html_path, "--html"), (json_path, "--json")):
        _require_folder(path, option)
    if ncu:
        require_gpu()
    options: dict[str, Any] = {
        "target": target,
        "blocks": blocks,
        "checks": "none" if trusted else "all",
        "timeout": timeout,
    }
    try:
        chosen_options = KernelOptions(expression, grid, block, shared, texts, include, define, constants)
        if what.endswith(SUFFIXES) or not is_rung(what) or (expression and Path(what).is_file()):
            _refuse({"--size": size, "--attr": attributes, "--dtype": dtype}, f"{what} is a FILE", "an OP:RUNG")
            launch, about = kernel_launch(Path(what), chosen_options, target, seed), ", ".join(texts)
            if ncu and not isinstance(launch.launcher, cuda.Launcher):
                raise click.UsageError("--ncu measures CUDA kernels and rungs")
            with console.status(f"{launch.expression}: checking and executing on the CPU"):
                found = Explanations([explain_kernel(launch.launcher, *launch.args, **launch.meta, **options)])
            launches = [CapturedLaunch(launch.launcher, tuple(launch.args))] if ncu else []
        else:
            op, rung = _rung(what)
            _refuse(chosen_options.given(), f"{what} is an OP:RUNG", "a FILE")
            kind = _dtype(op, rung, dtype)
            case = _case(op, kind, size, attributes)
            with console.status(f"{op.name} {rung.name}: checking and executing on the CPU"):
                found = explain_rung(op, rung, case, kind, seed=seed, **options)
            chosen = case or checkable(op, kind, rung)
            launches = launches_of(op, rung, chosen, kind, seed) if ncu else []
            name = f"{op.name} {rung.name}, {str(kind).removeprefix('torch.')}, seed {seed}"
            about = f"{name}: {_sizes(chosen)}"
            console.print(f"[dim]{escape(about)}[/]", soft_wrap=True)
        if line is not None:
            _require_line(found, line)
        _show(console, found, line, all_lines)
        if fidelity:
            print_fidelity(console, found)
        if html_path is not None:
            _write(console, html_path, html.page(found, line, about), "page")
        if json_path is not None:
            _write(console, json_path, json.dumps(found.to_dict(), indent=1), "counters")
    except cuda.KernelError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}", soft_wrap=True)
        if isinstance(error, cuda.KernelTimeout):
            console.print("not explained: either the kernel never ends, or this size is too large for a CPU (--size)")
        elif error.findings:
            console.print("not explained, because the kernel is wrong; `warpwise check` prints all findings")
        return 1
    except (ImportError, FileNotFoundError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if ncu:
        compare(console, found, launches)
    return 0


def _refuse(given: Mapping[str, object], what: str, other: str) -> None:
    """Raise ``click.UsageError`` that names the options with a value: they apply to ``other``, not to ``what``."""
    if names := [name for name, value in given.items() if value]:
        raise click.UsageError(f"{what}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} for {other}")


def _require_folder(path: Path | None, option: str) -> None:
    """Reject a file whose folder cannot be written to, before the kernel runs."""
    if path is not None and not os.access(path.parent, os.W_OK):
        reason = "read-only" if path.parent.is_dir() else "not there"
        raise click.BadParameter(f"{path}: cannot be written: the folder {path.parent} is {reason}", param_hint=option)


def _rung(what: str) -> tuple[Op, Rung]:
    """The operation and rung of ``softmax:k03`` or ``softplus.py:k01``."""
    op, name = find_target(what)
    if not name:
        names = ", ".join(rung.name for rung in op.rungs)
        raise click.BadParameter(f"{what}: expected {what}:RUNG; there are {names}", param_hint="OP:RUNG")
    return op, find_rung(op, name, "OP:RUNG")


def _case(op: Op, dtype: torch.dtype, size: str | None, attributes: Sequence[str]) -> Case | None:
    if size:
        return cases_named(op, [size], attributes)[0]
    return with_attributes(op, [checkable(op, dtype)], attributes)[0] if attributes else None


def _sizes(case: Case) -> str:
    return ", ".join(f"{name}={size:,}" for name, size in case.sizes.items())


def _dtype(op: Op, rung: Rung, name: str | None) -> torch.dtype:
    """The dtype called ``name``, or the first that the rung accepts."""
    known = {
        str(one).removeprefix("torch."): one for one in op.spec.dtypes if rung.dtypes is None or one in rung.dtypes
    }
    if name is None:
        return next(iter(known.values()))
    if name not in known:
        raise click.BadParameter(
            f"{op.name} {rung.name}: no dtype {name!r}; there are {', '.join(known)}", param_hint="--dtype"
        )
    return known[name]


def _require_line(found: Explanations, line: int) -> None:
    """Raise ``click.BadParameter`` if no launch has machine code of this line."""
    if any(one.has_line(line) for one in found):
        return
    try:
        found[0].line(line)
    except LookupError as error:
        raise click.BadParameter(str(error.args[0]), param_hint="--line") from error


def _show(console: Console, found: Explanations, line: int | None, all_lines: bool) -> None:
    for number, one in enumerate(found):
        if number:
            console.print()
        # The launches of a rung share no lines: only one has this line.
        there = line if one.has_line(line) else None
        for row in terminal.rows(one, console.width, there, all_lines):
            console.print(terminal.rich_text(row, console), soft_wrap=True)


def _write(console: Console, path: Path, text: str, what: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be written: {error}") from error
    console.print(f"[dim]{what}: {escape(str(path))}[/]", soft_wrap=True)
