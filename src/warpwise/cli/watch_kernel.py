"""``warpwise watch FILE --kernel NAME``: check and explain one launch of a kernel at every save."""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from warpwise import cuda
from warpwise.cli.kernel_files import KernelLaunch, KernelOptions, kernel_launch
from warpwise.cuda.source import includes
from warpwise.lab.explain import explain
from warpwise.lab.timing.timing import duration
from warpwise.lab.watch import SETTLED, Signature, signature

POLL = 0.1  # seconds between polls of the file


def watch_kernel(console: Console, file: Path, options: KernelOptions, explained: bool, once: bool) -> bool:
    """Print the findings, then the predicted time and the best hint, now and at every save.

    Returns after the first run if ``once``: True if the kernel compiles and has no finding.
    """
    seen: Signature = ()
    saves = 0
    while True:
        now = signature(_files(file, options))
        if now == seen or not now:
            time.sleep(POLL)
            continue
        time.sleep(0 if once else SETTLED)
        seen = now
        saves += 1
        console.print(f"[bold]{escape(file.name)}[/] [dim]save {saves}[/]")
        right = _run(console, file, options, explained)
        if once:
            return right


def _files(file: Path, options: KernelOptions) -> list[Path]:
    """The file and, for CUDA C++, what it includes."""
    if file.suffix == ".py" or not file.is_file():
        return [file]
    return [file, *includes.included(file.read_text("utf-8", "replace"), [file.parent, *options.include])]


def _run(console: Console, file: Path, options: KernelOptions, explained: bool) -> bool:
    try:
        launch = kernel_launch(file, options, "sm_90", 0)
        findings = launch.check(60.0, "forward", 0)
    except click.ClickException as error:
        console.print(f"[red]{escape(error.format_message())}[/]", soft_wrap=True)
        return False
    except cuda.KernelError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}", soft_wrap=True)
        return False
    for finding in findings:
        console.print(f"[red]{escape(str(finding))}[/]\n", soft_wrap=True)
    if findings:
        return False
    console.print(f"[green]no finding[/] in {escape(launch.expression)}")
    if explained:
        _explain(console, launch)
    return True


def _explain(console: Console, launch: KernelLaunch) -> None:
    try:
        found = explain(launch.launcher, *launch.args, checks="none", **launch.meta)
    except (cuda.KernelError, ImportError, FileNotFoundError, ValueError) as error:
        console.print(f"[yellow]not explained: {escape(str(error))}[/]", soft_wrap=True)
        return
    if found.prediction is not None:
        console.print(f"{duration(found.prediction.time)} predicted, limited by {found.prediction.limiter}")
    for hint in found.hints[:1]:
        console.print(escape(str(hint)), soft_wrap=True)
