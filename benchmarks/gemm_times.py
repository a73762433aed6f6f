"""The times of every candidate of a GEMM at shapes drawn from a seed: the data that a model of the time is fitted to.

python benchmarks/gemm_times.py --json FILE [--operation NAME ...] [--dtype NAME] [--seed N] [--count N] [--budget S]
                                [--limit S]

The shapes are those of benchmarks/unseen_shapes.py; figures are reported for another seed than a model was fitted to.
At each shape ``lab.tune`` verifies the rungs that the shipped tables name, in each configuration, and times them with
PyTorch by successive halving: half of the candidates are dropped after each round. The file holds for each operation
the points: dtype, kind of arguments, sizes, and the median of each candidate's last round and of PyTorch, in seconds. A
file that exists is continued: shapes that it has are not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch
from benchmarks.unseen_shapes import GEMMS, drawn

from warpwise import lab, operation, tuned
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.operation import Op

MOST_WORK = 37  # log2 of multiply-adds, above which the float64 reference takes too long


_TURNS: dict[str, Iterator[str]] = {}  # the arrangements of each operation, in turn


def rungs(op: Op) -> list[str]:
    """The rungs of the operation's model, and those that won or came second at a point of a shipped table."""
    folder = op.tables.folder if op.tables is not None else None
    tables = [tuned.load(path) for path in sorted(folder.glob("*.json"))] if folder else []
    named = {name for table in tables if table for point in table.points for name in (point.winner, point.rival)}
    known = {name.partition("@")[0] for name in named}
    if op.tables is not None and op.tables.model is not None:
        known |= set(op.tables.model.families)
    return [rung.name for rung in op.rungs if rung.name in known]


def measured(op: Op, each: Any, names: list[str], device: torch.device, budget: float) -> dict[str, Any] | None:
    """The times at one shape, or None if nothing could be timed. A case without an arrangement gets the next one."""
    found: list[lab.tune.Progress] = []
    arrangements = _TURNS.setdefault(op.name, itertools.cycle(op.tables.arrangements if op.tables else [""]))
    with tempfile.TemporaryDirectory() as folder:
        lab.tune(
            op,
            device=device,
            sizes=[each.case],
            dtypes=[each.dtype],
            layouts=[each.arrangement or next(arrangements)],
            rungs=names or None,
            budget_s=budget,
            path=Path(folder) / "table.json",
            progress=lambda step: found.append(step) if step.point else None,
        )
    if not found or found[-1].point is None:
        return None
    point = found[-1].point
    return {"dtype": point.dtype, "kind": point.kind, "sizes": dict(point.sizes), "times": dict(found[-1].times)}


def main(options: argparse.Namespace) -> int:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kept: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {"points": {}}
    kept |= {"place": place(device), "environment": environment(device)}
    started = time.monotonic()
    for name in options.operation or [name for name in GEMMS if operation.get(name).tables]:
        op, points = operation.get(name), kept["points"].setdefault(name, {})
        names = options.rung or rungs(op)
        for number, each in enumerate(drawn(name, options.seed, options.count)):
            key = f"{options.seed} {number}"
            each = replace(each, dtype=options.dtype or each.dtype)
            work = each.case.sizes.get("batch", 1)
            for letter in "mnk":
                work *= each.case.sizes.get(letter, 1)
            few = min(each.case.sizes["m"], each.case.sizes["n"]) <= options.few
            if key in points or not few or work > 2**options.most_work or time.monotonic() - started > options.limit:
                continue
            try:
                points[key] = measured(op, each, names, device, options.budget)
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
            atomic_write(options.json, json.dumps(kept))
        print(f"{name}: {len(points)} shapes", flush=True)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=Path, required=True)
    made.add_argument("--operation", action="append", choices=GEMMS)
    made.add_argument("--rung", action="append", help="time this rung in place of those of the shipped tables")
    made.add_argument("--dtype", type=lambda name: getattr(torch, name), help="in place of float32 and bfloat16: int8")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--count", type=int, default=100)
    made.add_argument("--budget", type=float, default=0.4, help="seconds to time a shape")
    made.add_argument("--most-work", type=float, default=MOST_WORK, help="log2 of multiply-adds of the largest shape")
    made.add_argument(
        "--few", type=int, default=1 << 30, help="only shapes with at most this number of rows or columns"
    )
    made.add_argument("--limit", type=float, default=540.0, help="seconds after which no further shape begins")
    return made


if __name__ == "__main__":
    options = parser().parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: emulated kernels are not timed")
    sys.exit(main(options))
