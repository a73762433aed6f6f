"""Measure a rung and a table's choice at the points where the rung may be faster, and write the table again.

    python benchmarks/retune.py OPERATION RUNG [--within R] [--most N] [--budget S] [--limit S] [--out FILE] [--list]
    python benchmarks/retune.py OPERATION RUNG --times FILE [--out FILE]

A table has no times of a rung that is newer. Such a rung is measured (``lab.tune``) at the points at which the
operation's model, or its nominal coefficients, predict at most R times the table's time: its N best configurations, the
table's winner and rival, and PyTorch, interleaved, each verified. Points at which it is faster are printed. The other
points of the table are kept. Kernels are compiled by a pool of processes first. ``--times`` takes the times from a
file instead, a list of points with ``us``, the microseconds of each candidate and of PyTorch in one interleaved run; a
point changes if another candidate was faster than its winner by CLEAR.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch

from warpwise import lab, operation, ops  # noqa: F401 - importing ops registers them
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.time_model import Product
from warpwise.lab.tune import Progress
from warpwise.lab.tune.tune import won
from warpwise.operation import Case, Op, Rung
from warpwise.tuned import TORCH, TunedPoint, add_point, load

CLEAR = 0.01


class Point(NamedTuple):
    """A point of the table, its layout, and the names to be measured: of the table, then of the new rung."""

    known: TunedPoint
    layout: str
    names: tuple[str, ...]
    predicted: float  # the new rung's time, divided by the table's

    @property
    def case(self) -> Case:
        return Case("x".join(map(str, self.known.sizes.values())), dict(self.known.sizes))


def file(op: Op, options: argparse.Namespace) -> Path:
    """The shipped table of the GPU."""
    return Path(op.tables.folder) / f"{options.table}.json"


def arguments(op: Op, point: TunedPoint, device: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The layout of the point and its arguments; nothing if no layout of the tables gives its kind."""
    dtype = getattr(torch, point.dtype)
    for layout, arranged in op.tables.arrangements.items():
        args = arranged(*op.spec.arguments(Case("point", dict(point.sizes)), dtype, torch.device(device), 0))
        if op.tables.describe(*args)[0] == point.kind:
            yield layout, args
            return


def predictions(op: Op, rung: Rung, args: Sequence[Any], point: TunedPoint, device: Any) -> dict[str, float]:
    """Seconds by the operation's model, or by the nominal coefficients, of each configuration of the rung."""
    model = op.tables.model
    found = model.predictions(op, args, point.kind, point.sizes, device, False)
    named = {each.name: each.gpu for each in found if each.name.partition("@")[0] == rung.name}
    if not named:
        product = Product.of(point.kind, point.sizes, getattr(torch, point.dtype), device.multiprocessors)
        family = model.families[rung.name]
        for config in rung.configs(*args):
            named[f"{rung.name}@{config}"] = 1e-6 * family.nominal(product, GemmConfig.parse(config))
    return named


def points(op: Op, rung: Rung, options: argparse.Namespace) -> list[Point]:
    """The points at which the rung may win, the most promising first."""
    table = load(file(op, options))
    assert table is not None
    found = []
    for known in table.points:
        if rung.dtypes is not None and getattr(torch, known.dtype) not in rung.dtypes:
            continue
        for layout, args in arguments(op, known, "meta"):
            if op.unsupported(rung, *args) is not None:
                continue
            with operation.assume_sm_count(table.device.multiprocessors):
                named = predictions(op, rung, args, known, table.device)
            best = sorted(named, key=lambda name: named[name])[: options.most]
            predicted = named[best[0]] / known.seconds
            kept = [name for name in (known.winner, known.rival) if name not in ("", TORCH)]
            if predicted <= options.within:
                found.append(Point(known, layout, tuple(dict.fromkeys((*kept, *best))), predicted))
    return sorted(found, key=lambda each: each.predicted)


def rungs(op: Op, names: Sequence[str], args: Sequence[Any]) -> list[Rung]:
    """The rungs called ``names`` that exist and take the arguments."""
    found = []
    for name in names:
        try:
            rung = op.rung(name)
        except LookupError:  # a removed rung of an old table
            continue
        if op.unsupported(rung, *args) is None:
            found.append(rung)
    return found


def compiled(name: str, point: Point, target: str) -> str:
    """Compile the kernels of a point; return what could not be compiled."""
    op = operation.get(name)
    try:
        for _, args in arguments(op, point.known, "meta"):
            for rung in rungs(op, point.names, args):
                if rung.language == "cuda":
                    for launch in op.kernels(rung, *args):
                        launch.compile(target)
    except Exception as error:  # noqa: BLE001 - it fails again where it is launched, and is reported there
        return f"{point.case.name}: {type(error).__name__}: {error}".splitlines()[0]
    return ""


def applied(op: Op, times: Path, out: Path) -> int:
    """Write the points whose winner was clearly slower than another candidate; return their number."""
    table, changed = load(out), 0
    assert table is not None
    for seen in json.loads(times.read_text()):
        seconds = {name: 1e-6 * us for name, us in seen["us"].items()}
        known = next(
            (point for point in table.points
             if (point.dtype, point.kind, dict(point.sizes)) == (seen["dtype"], seen["kind"], seen["sizes"])), None,
        )  # fmt: skip
        if known is None or known.winner not in seconds:
            continue
        now = won(known, seconds)
        if now is not None and seconds[known.winner] > (1 + CLEAR) * now.seconds:
            about = f"{known.dtype} {known.kind} {'x'.join(map(str, known.sizes.values()))}"
            print(f"{about}: {now.winner} {1e6 * now.seconds:.2f} µs, was {known.winner}")
            add_point(out, table, now)
            changed += 1
    return changed


def main(options: argparse.Namespace) -> int:
    started = time.monotonic()
    op = operation.get(options.operation)
    if options.times:
        print(f"{op.name}: {applied(op, options.times, options.out or file(op, options))} points changed")
        return 0
    rung = op.rung(options.rung)
    found = points(op, rung, options)
    if options.list:
        for each in found:
            about = f"{each.predicted:.2f} {each.known.dtype} {each.known.kind} {each.case.name} {each.known.winner}"
            print(f"{about} {1e6 * each.known.seconds:.2f} µs, {each.names[-1]}")
        print(f"{op.name}: {len(found)} points")
        return 0
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        failed = pool.map(compiled, *zip(*((op.name, each, options.target) for each in found), strict=True))
        print(*filter(None, failed), sep="\n")
    print(f"{op.name}: {len(found)} points, compiled in {time.monotonic() - started:.0f} s", flush=True)
    out = options.out or file(op, options)
    if out != file(op, options):
        shutil.copy(file(op, options), out)
    won = measured = 0
    for each in found:
        if time.monotonic() - started > options.limit:
            break
        measured += 1
        won += retuned(op, rung, each, out, options)
    print(f"{op.name}: {rung.name} wins {won} of {measured} points measured, {len(found) - measured} are left")
    return 0


def retuned(op: Op, rung: Rung, point: Point, out: Path, options: argparse.Namespace) -> bool:
    """Measure one point and store it; print and return whether the rung wins it."""
    last: list[Progress] = []
    lab.tune(
        op, sizes=[point.case], dtypes=[getattr(torch, point.known.dtype)], layouts=[point.layout], fresh=True,
        budget_s=options.budget, path=out, progress=last.append,
        select=lambda op, every, args, device: rungs(op, point.names, args),
    )  # fmt: skip
    now = last[-1].point if last else None
    if now is None:
        print(f"{point.case.name}: not measured", flush=True)
        return False
    known, times = point.known, last[-1].times
    others = {name: seconds for name, seconds in times.items() if not name.startswith(rung.name)}
    ours = min((seconds for name, seconds in times.items() if name not in others), default=float("inf"))
    second = min(others, key=lambda name: others[name], default="")
    wins = now.winner.startswith(rung.name)
    print(
        f"{ours / others[second] if second else 0:.3f} {known.dtype} {known.kind} {point.case.name}: "
        f"{now.winner} {1e6 * now.seconds:.2f} µs, next {second} {1e6 * others.get(second, 0):.2f}, "
        f"was {known.winner} {1e6 * known.seconds:.2f}",
        flush=True,
    )
    return wins


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("operation")
    made.add_argument("rung")
    made.add_argument("--within", type=float, default=1.5)
    made.add_argument("--most", type=int, default=3)
    made.add_argument("--budget", type=float, default=0.3, help="seconds to time a point")
    made.add_argument("--limit", type=float, default=60.0, help="seconds after which no further point begins")
    made.add_argument("--table", default="nvidia_h200")
    made.add_argument("--target", default="sm_90")
    made.add_argument("--jobs", type=int, default=os.cpu_count())
    made.add_argument("--out", type=Path, help="the table to write  [default: the shipped one]")
    made.add_argument("--times", type=Path, help="take the times from this file")
    made.add_argument("--list", action="store_true", help="print the points without measuring")
    return made


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
