"""The figures of a ``Report`` as tables: plain text, and the page docs/fidelity.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warpwise.lab.fidelity.report import FACTOR, NEAR, TAU

HEAD = ("operation", "counters equal", "limiter", f"time within {FACTOR:.0f} x", "predicted / measured", "order (tau)")
WIDTH = 120
KINDS = {
    "not executed": "Not compared",
    "counters": "Counters and resources",
    "limiter": "Another unit is used most",
    "time": f"Time off by more than a factor of {FACTOR:.0f}",
    "order": f"Order of the rungs: tau below {TAU:g}",
}


def cells(operations: Mapping[str, Mapping[str, Any]], figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One row for each operation, and one for all of them."""
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
    """The table with aligned columns, and every miss below it."""
    rows = [HEAD, *cells(operations, figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    near = figures["limiters_near"]
    lines.append(f"{near} predicted limiters are within {NEAR:.0f} percentage points of the most-used unit.")
    for kind, title in KINDS.items():
        of_kind = [miss for miss in misses if miss["kind"] == kind]
        lines.append(f"\n{title}: {len(of_kind)}")
        for miss in of_kind:
            lines += [f"  {miss['where']}: {miss['what']}", *([f"    why: {miss['why']}"] if "why" in miss else [])]
    return "\n".join(lines)


def page(data: Mapping[str, Any]) -> str:
    """The text of docs/fidelity.md from the data in fidelity.json."""
    figures, environment = data["summary"], data["environment"]
    missed = "\n\n".join(
        _missed(title, [miss for miss in data["misses"] if miss["kind"] == kind]) for kind, title in KINDS.items()
    )
    return PAGE.format(
        device=environment["device"],
        date=environment["date"][:10],
        ncu=environment["ncu"],
        nvrtc=environment["nvrtc"],
        table=_markdown(HEAD, cells(data["operations"], figures)),
        misses=missed,
        near=f"{NEAR:.0f}",
        near_count=figures["limiters_near"],
        limiters=figures["limiters"],
        factor=f"{FACTOR:.0f}",
    )


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def _missed(title: str, misses: Sequence[Mapping[str, str]]) -> str:
    if not misses:
        return f"**{title}**: none."
    lines = (
        f"- {miss['where']}: {miss['what']}" + (f". {miss['why']}" if "why" in miss else "") + "." for miss in misses
    )
    return f"**{title}**\n\n" + "\n".join(_wrapped(line) for line in lines)


def _wrapped(item: str) -> str:
    """A list item in lines of at most ``WIDTH`` characters."""
    together = item.replace(" %", "\u00a0%")  # no line begins with a percent sign
    lines = textwrap.wrap(together, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\u00a0", " ")


PAGE = """# Accuracy of explanations

`warpwise explain` executes a kernel's machine code on the CPU and counts what Nsight Compute (ncu) counts. This page
compares the two for all recorded CUDA rungs on one GPU.

{device}, ncu {ncu}, {nvrtc}, {date}.

`benchmarks/fidelity.py collect` wrote the records in `benchmarks/results/h200/ncu/` on that GPU. On any machine,
`report` compares the emulator's counts with the records and writes `fidelity.json`, and `docs` writes this page from
that file. `tests/lab/test_fidelity.py` checks the counters.

{table}

- **Counters equal**: rungs with equal counters in all launches at both small points (one of whole tiles, one ragged;
  every block is executed). Requests and sectors of global and local memory, and wavefronts of shared memory, agree
  within 1 %, bank conflicts within 2 %, atomics on global memory within 5 %; registers, shared memory and occupancy are
  equal. The reference for wavefronts is ncu's count by machine code (`smsp__sass_...`), because the hardware's counter
  includes wavefronts of arbitration, which vary between runs.
- **Limiter**: launches at large sizes for which the predicted busiest unit is the unit with the highest utilisation in
  ncu. The predicted unit is within {near} percentage points of it in {near_count} of {limiters} launches.
- **Time**: rungs whose predicted time is within a factor of {factor} of the time measured with CUDA events, without a
  profiler. The next column is the predicted time divided by the measured time: the median, the minimum and the
  maximum.
- **Order**: Kendall's tau between the predicted and the measured times of a ladder, without pairs whose measured times
  differ by less than 2 %.

At large sizes, blocks are executed for at most two seconds. Blocks run one after another, so L2 hits across blocks
come from a model. Constants of the time model come from microbenchmarks or are fitted to these records
(`time_model.py` and `hardware.py` state which). No constant belongs to a single rung or operation.

## Differences

{misses}
"""
