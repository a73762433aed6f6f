"""The figures of `fidelity.py report` as tables: plain text, and the page docs/fidelity.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.fidelity_report import FACTOR, NEAR, TAU

HEAD = ("operation", "counters equal", "limiter", f"time within {FACTOR:.0f} x", "predicted / measured", "order (tau)")
KINDS = {
    "not executed": "Not executed",
    "counters": "Counters and resources",
    "limiter": "Another unit most used",
    "time": f"Time beyond a factor of {FACTOR:.0f}",
    "order": f"Order of the rungs, tau below {TAU:g}",
}


def cells(operations: Mapping[str, Mapping[str, Any]], figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each operation, and one for all."""
    rows = []
    for name, of in operations.items():
        ratio = "{1:.2f} ({0:.2f} to {2:.2f})".format(*of["ratios"]) if of["ratios"] else "none"
        tau = ", ".join(f"{case} {value:.2f}" for case, value in of["tau"].items())
        rows.append((name, *_shares(of), ratio, tau or "fewer than three rungs"))
    ordered = f"{figures['ladders_ordered']} of {figures['ladders']} at least {TAU:g}"
    return [*rows, ("all", *_shares(figures), "", ordered)]


def _shares(of: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        f"{of['rungs'] - of['rungs_missing']} of {of['rungs']}",
        f"{of['limiters_equal']} of {of['limiters']}",
        f"{of['times_within']} of {of['times']}",
    )


def as_text(
    figures: Mapping[str, Any], operations: Mapping[str, Mapping[str, Any]], misses: Sequence[Mapping[str, str]]
) -> str:
    """The table in columns, followed by all differences."""
    rows = [HEAD, *cells(operations, figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append(f"{figures['limiters_near']} predicted limiters are within {NEAR:.0f} points of the most used unit.")
    for kind, title in KINDS.items():
        of_kind = [miss for miss in misses if miss["kind"] == kind]
        lines.append(f"\n{title}: {len(of_kind)}")
        for miss in of_kind:
            lines += [f"  {miss['where']}: {miss['what']}", *([f"    why: {miss['why']}"] if "why" in miss else [])]
    return "\n".join(lines)


def page(data: Mapping[str, Any]) -> str:
    """The text of docs/fidelity.md."""
    figures, environment = data["summary"], data["environment"]
    missed = "\n\n".join(
        _missed(title, [miss for miss in data["misses"] if miss["kind"] == kind]) for kind, title in KINDS.items()
    )
    return PAGE.format(
        device=environment["device"], date=environment["date"][:10], ncu=environment["ncu"], nvrtc=environment["nvrtc"],
        table=_markdown(HEAD, cells(data["operations"], figures)), misses=missed, near=f"{NEAR:.0f}",
        near_count=figures["limiters_near"], limiters=figures["limiters"], factor=f"{FACTOR:.0f}",
    )  # fmt: skip


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def _missed(title: str, misses: Sequence[Mapping[str, str]]) -> str:
    if not misses:
        return f"**{title}**: none."
    lines = (
        f"- {miss['where']}: {miss['what']}" + (f". {miss['why']}" if "why" in miss else "") + "." for miss in misses
    )
    return f"**{title}**\n\n" + "\n".join(lines)


PAGE = """# Accuracy of explanations

`warpwise explain` executes a kernel's machine code on the CPU and computes Nsight Compute's counters. This page
compares them with ncu's measurements of every CUDA rung of every operation on an {device} (ncu {ncu},
{nvrtc}, {date}), recorded in `benchmarks/results/h200/ncu/`. `benchmarks/fidelity.py docs`
writes this page from `fidelity.json`, which `fidelity.py report` computes on any machine;
`tests/lab/test_fidelity.py` checks the counters.

{table}

- **Counters equal**: the number of rungs for which the counters of all launches agree at all small sizes (whole tiles and
  ragged), where every block is executed. Tolerances: 1 % for requests and sectors of global and local memory and for
  wavefronts of shared memory, 2 % for bank conflicts, 5 % for atomics on global memory; registers, shared memory and
  occupancy are exact. Wavefronts are compared with ncu's `smsp__sass_...` counter, because the hardware's counter
  includes arbitration, which varies from run to run.
- **Limiter**: the number of launches at large sizes for which the predicted unit with the highest utilisation, in
  percent of its peak, is the one that ncu measured. For {near_count} of {limiters}, its measured utilisation is
  within {near} points of the highest.
- **Time**: the number of rungs with a predicted time within a factor of {factor} of the time measured with CUDA events,
  without a profiler. Then predicted over measured time: median (minimum to maximum).
- **Order**: Kendall's tau between predicted and measured times of a ladder, without pairs whose measured times differ by
  less than 2 %.

At large sizes, only a sample of the blocks is executed, as many as fit in two seconds. Blocks are executed one after
another, so L2 hits come from a model. The time model's constants that do not come from microbenchmarks were fitted to
this record (`time_model.py` and `hardware.py` list them), none of them to a single rung or operation.

## Differences

{misses}
"""
