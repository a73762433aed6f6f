"""``warpwise check``: run a kernel of a CUDA file, or a rung, emulated on the CPU and print every finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from warpwise import cuda
from warpwise.cli.check_rung import check_rung
from warpwise.cli.console import print_time_limit, wide_console
from warpwise.cli.fidelity import launch_fidelity, rung_fidelity
from warpwise.cli.kernel_files import KernelOptions, kernel_launch
from warpwise.cli.kernel_options import require_target
from warpwise.cli.reference import compared, expected, last_write, load_reference
from warpwise.cli.special_values import special_values
from warpwise.cli.targets import find_rung, find_target, is_rung
from warpwise.cuda.launch.copies import restore_variables


def check(
    what: str,
    expression: str | None,
    grid: tuple[int, ...] | None,
    block: tuple[int, ...] | None,
    shared: int,
    texts: Sequence[str],
    include: Sequence[Path],
    define: Sequence[str],
    constants: Sequence[str],
    reference: str | None,
    target: str,
    order: str,
    seed: int,
    schedules: int,
    nan: bool,
    fidelity: bool,
    tools: Sequence[str],
    timeout: float,
) -> int:
    """Run ``warpwise check``, with the options of ``warpwise.cli.commands.check``."""
    console = Console(highlight=False, soft_wrap=True, emoji=False)
    require_target(target)
    options = KernelOptions(expression, grid, block, shared, texts, include, define, constants)
    if is_rung(what) and not (expression and Path(what).is_file()):
        op, name = find_target(what)
        names = ", ".join(rung.name for rung in op.rungs)
        if not name:
            raise click.BadParameter(f"{what}: expected {what}:RUNG; there are {names}", param_hint="OP:RUNG")
        where = what.removesuffix(f":{name}")
        rung = find_rung(op, name, "OP:RUNG")
        if reference or tools or any(options.given().values()):
            raise click.UsageError(
                "a rung has its own cases and reference: --reference, --sanitizer and the options of a launch (--grid, "
                "--arg, ...) are for a FILE"
            )
        status = check_rung(console, op, rung, where, seed, timeout, nan, order=order, schedules=schedules)
        if fidelity:
            _listed(rung_fidelity, wide_console(), op, rung, seed, target=target, timeout=timeout)
        return status
    if tools and nan:
        raise click.UsageError("--nan runs on the CPU: it cannot be combined with --sanitizer")
    if tools and reference:
        raise click.UsageError("--reference compares the outputs of the CPU: it cannot be combined with --sanitizer")
    function = load_reference(reference) if reference else None
    try:
        launch = kernel_launch(Path(what), options, target, seed)
        if tools and not isinstance(launch.launcher, cuda.Launcher):
            raise click.UsageError("--sanitizer runs CUDA kernels")
        if tools:
            return _sanitized(console, launch.launcher, launch.args, tools, timeout)
        if nan:
            given = [value for value in launch.values if not value.output]
            _print_lines(console, "before the launch", special_values(given))
        writer, repeats = "", schedules or function
        variables = launch.launcher.variables(nan=nan) if repeats and isinstance(launch.launcher, cuda.Launcher) else []
        for number, (each, drawn) in enumerate([(order, seed), *(("preempt", seed + i) for i in range(schedules))]):
            if number:
                launch = kernel_launch(Path(what), options, target, drawn)
                restore_variables(variables)
            wanted = expected(function, launch) if function else None
            with console.status(f"{launch.expression}: compiling and running on the CPU, checked"):
                findings = launch.check(timeout, each, drawn, nan)
            wrong, notes = ([], []) if findings or function is None else compared(launch.values, wanted)
            if findings or wrong:
                break
        if wrong and wrong[0].place is not None and isinstance(launch.launcher, cuda.Launcher):
            again = kernel_launch(Path(what), options, target, drawn)
            restore_variables(variables)
            with console.status(f"{launch.expression}: running again, for the line that wrote the wrong element"):
                writer = last_write(again, wrong[0], timeout, each, drawn)
        if fidelity:
            _listed(launch_fidelity, wide_console(), launch, target, timeout)
    except cuda.KernelError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")
        print_time_limit(console, [type(error)], timeout)
        return 1
    for finding in findings:
        console.print(
            f"[bold red]{finding.kind.__name__}[/]{escape(str(finding).removeprefix(finding.kind.__name__))}\n"
        )
    print_time_limit(console, [finding.kind for finding in findings], timeout)
    if nan:
        _print_lines(console, "after the launch", special_values([v for v in launch.values if v.returned]))
    for position, difference in enumerate(wrong):
        console.print(f"[bold red]wrong[/]: {escape(difference.text)}{'' if position else escape(writer)}")
    for line in notes:
        console.print(f"[yellow]accuracy[/]: {escape(line)}")
    if findings or wrong:
        count = len(findings or wrong)
        schedule = f"; repeat it with --order preempt --seed {drawn}" if number else ""
        console.print(f"[red]{count} finding{'s' if count > 1 else ''}[/] in {escape(launch.expression)}{schedule}")
        return 1
    note = "equals the reference" if function else "without --reference the results are not verified"
    runs = f" under {schedules + 1} schedules" if schedules else ""
    console.print(f"[green]no finding[/] in {escape(launch.expression)}{runs}, {note}")
    return 0


def _listed(show: Callable[..., None], *args: Any, **options: Any) -> None:
    try:
        show(*args, **options)
    except (ImportError, FileNotFoundError) as error:  # NVRTC or nvdisasm
        raise click.ClickException(f"--fidelity: {error}") from error


def _print_lines(console: Console, when: str, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(f"[yellow]{when}[/]: {escape(line)}")


def _sanitized(
    console: Console, launcher: cuda.Launcher, given: Sequence[Any], tools: Sequence[str], timeout: float
) -> int:
    """Run the launch on the GPU under compute-sanitizer's tools and print the findings of each."""
    from warpwise.lab.errors import MeasurementError
    from warpwise.lab.profile import sanitizer
    from warpwise.lab.profile.ncu import CapturedLaunch

    expression = launcher.kernel.expression
    chosen = [tool for tool in sanitizer.TOOLS if tool in tools or "all" in tools]
    total = 0
    for tool in chosen:
        try:
            with console.status(f"{expression}: on the GPU under {tool}"):
                findings = sanitizer.sanitize([CapturedLaunch(launcher, tuple(given))], [tool], timeout)[tool]
        except MeasurementError as error:
            raise click.ClickException(str(error)) from error
        for finding in findings:
            console.print(
                f"[bold red]{finding.kind.__name__}[/]{escape(str(finding).removeprefix(finding.kind.__name__))}\n"
            )
        mark = (
            f"[red]{len(findings)} finding{'s' if len(findings) > 1 else ''}[/]" if findings else "[green]no finding[/]"
        )
        console.print(f"{mark} by {tool} ({sanitizer.PURPOSES[tool]}) in {escape(expression)}")
        total += len(findings)
    return 1 if total else 0
