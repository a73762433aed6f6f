"""``warpwise check OP:RUNG``: check every launch of a rung on the operation's cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape

from warpwise import cuda
from warpwise.cli.console import print_time_limit
from warpwise.cuda.launch.intercept import intercepting
from warpwise.operation import Op, Rung

CPU = torch.device("cpu")


def check_rung(
    console: Console, op: Op, rung: Rung, where: str, seed: int, timeout: float, nan: bool = False, **options: Any
) -> int:
    """Print the findings of each launch of ``rung``, for each case and dtype. Returns 1 if there are any, else 0.

    ``where`` is what `warpwise climb` takes for ``op``: its name, or the file that defines it. ``options`` are
    passed to ``check`` of CUDA launches: ``order`` and ``schedules``. ``nan``: also find where NaNs arise.
    """
    total = ran = 0
    refusals = Counter[str]()
    for dtype in op.spec.dtypes:
        for case in op.spec.cases:
            args = op.spec.arguments(case, dtype, CPU, seed)
            if reason := op.refusal(rung, *args):
                refusals[reason] += 1
                continue
            ran += 1
            with console.status(f"{op.name}:{rung.name}: {case}, {_short(dtype)}, checked on the CPU"):
                try:
                    found = _found(op, rung, args, {"timeout": timeout, "nan": nan}, options | {"seed": seed})
                except cuda.KernelError as error:
                    console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")
                    print_time_limit(console, [type(error)], timeout)
                    return 1
            for finding in found:
                console.print(f"[dim]{escape(f'{case}, {_short(dtype)}')}[/]")
                name = finding.kind.__name__
                console.print(f"[bold red]{name}[/]{escape(str(finding).removeprefix(name))}\n")
            print_time_limit(console, [finding.kind for finding in found], timeout)
            total += len(found)
    if not ran:
        why = "".join(f": {reason}" for reason, _ in refusals.most_common(1))
        console.print(
            escape(f"{op.name}:{rung.name} accepts none of the operation's cases on a CPU{why}"), soft_wrap=True
        )
        return 1
    if total:
        console.print(f"[red]{total} finding{'s' if total > 1 else ''}[/] in {op.name}:{rung.name}")
        return 1
    console.print(
        f"[green]no finding[/] in {op.name}:{rung.name} on {ran} cases; "
        f"`warpwise climb {escape(where)} --rung {rung.name}` verifies its results"
    )
    return 0


def _found(
    op: Op, rung: Rung, args: tuple[Any, ...], common: Mapping[str, Any], options: Mapping[str, Any]
) -> list[cuda.Finding]:
    findings: list[cuda.Finding] = []

    def checked(launcher: Any, given: tuple[Any, ...], meta: Mapping[str, Any]) -> None:
        own = dict(options) if isinstance(launcher, cuda.Launcher) else {}
        findings.extend(launcher.check(*given, **{**meta, **own, **common}))

    with intercepting(checked):
        op.launch(rung, op.allocate(*args), *args)
    return findings


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
